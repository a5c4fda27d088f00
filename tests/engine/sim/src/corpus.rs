// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios with names: stories that a swarm may miss.
//!
//! In: nothing. Out: for each story, that it went well, or the violation. Each is a function; most
//! are a [`Scenario`] over some seeds, a few drive a [`World`] step by step.

use crate::app::Access;
use crate::hop::hop_with_a_smaller_mtu;
use crate::invariants::{Violation, broken};
use crate::late::late_hosts;
use crate::measure::finish;
use crate::net::address;
use crate::node::Node;
use crate::run::{drain, run};
use crate::scenario::{
    App, ClockFaults, Link, Loss, LossTarget, Partition, Pools, Reorder, Restart, Scenario,
};
use crate::share::{beside_cross_traffic, equal_shares, late_streams};
use crate::world::World;
use ofi_xdp_core::OpKind;
use ofi_xdp_test_kit::rng::Rng;

/// The result of a story.
pub type Outcome = Result<(), Violation>;

/// A story and its name.
#[derive(Clone, Copy, Debug)]
pub struct Story {
    /// Its name.
    pub name: &'static str,
    /// Tells it.
    pub tell: fn() -> Outcome,
}

/// All of them.
pub const STORIES: &[Story] = &[
    Story { name: "minimum-pools-atomics-both-ways", tell: minimum_pools },
    Story { name: "receiver-not-ready-with-late-acks", tell: not_ready_late_acks },
    Story { name: "sequence-wrap", tell: sequence_wrap },
    Story { name: "crossed-openings", tell: crossed_openings },
    Story { name: "restart-at-every-step", tell: restart_at_every_step },
    Story { name: "partition-shorter-than-peer_timeout", tell: partition_short },
    Story { name: "partition-longer-than-peer_timeout", tell: partition_long },
    Story { name: "million-peers", tell: || million_peers(1_000_000) },
    Story { name: "ten-thousand-nodes", tell: || many_nodes(10_000) },
    Story { name: "opening-flood", tell: opening_flood },
    Story { name: "graceful-close", tell: graceful_close },
    Story { name: "fair-turns", tell: fair_turns },
    Story { name: "receiver-polls-late", tell: polls_late },
    Story { name: "late-hosts", tell: late_hosts },
    Story { name: "far-away", tell: far_away },
    Story { name: "beside-cross-traffic", tell: beside_cross_traffic },
    Story { name: "equal-shares", tell: equal_shares },
    Story { name: "late-streams", tell: late_streams },
    Story { name: "rendezvous-against-requests", tell: rendezvous_against_requests },
    Story { name: "hop-with-a-smaller-mtu", tell: hop_with_a_smaller_mtu },
    Story { name: "seeds-of-mended-defects", tell: mended_defects },
];

fn violation(world: &World, invariant: u8, what: impl Into<String>) -> Violation {
    Violation { invariant, what: what.into(), at: world.now }
}

fn over_seeds(seeds: std::ops::Range<u64>, scenario: &Scenario) -> Outcome {
    seeds.map(|seed| run(seed, scenario)).try_for_each(|result| result.map(drop))
}

fn only(weights: &App) -> App {
    let none = App {
        send: 0,
        recv: 0,
        cancel: 0,
        write: 0,
        read: 0,
        atomic: 0,
        register: 0,
        ..App::default()
    };
    App {
        send: weights.send,
        recv: weights.recv,
        write: weights.write,
        read: weights.read,
        atomic: weights.atomic,
        len_max: weights.len_max,
        ..none
    }
}

/// 29: all pools at the minimum, both sides issue nothing but atomics and reads, as fast as they
/// can, with and without loss.
fn minimum_pools() -> Outcome {
    let weights =
        App { send: 0, recv: 0, write: 0, read: 1, atomic: 2, len_max: 3000, ..App::default() };
    let mut scenario = Scenario {
        nodes: 2,
        ops: 400,
        pace_us: 1,
        pools: Pools::Minimum,
        app: only(&weights),
        ..Scenario::default()
    };
    over_seeds(0..8, &scenario)?;
    scenario.loss.iid = 0.1;
    over_seeds(8..16, &scenario)
}

/// 15, 29: little storage and few receives, while acknowledgments overtake one another.
fn not_ready_late_acks() -> Outcome {
    let weights =
        App { send: 9, recv: 2, write: 0, read: 0, atomic: 0, len_max: 3000, ..App::default() };
    let scenario = Scenario {
        ops: 120,
        pace_us: 4,
        pools: Pools::Minimum,
        app: only(&weights),
        reorder: Reorder { jitter_us: 300, paths: 4 },
        ..Scenario::default()
    };
    over_seeds(0..40, &scenario)
}

/// Packet numbers of one direction begin just before they wrap.
fn sequence_wrap() -> Outcome {
    let weights =
        App { send: 9, recv: 9, write: 4, read: 0, atomic: 2, len_max: 100_000, ..App::default() };
    let scenario = Scenario {
        nodes: 2,
        ops: 80,
        app: only(&weights),
        loss: Loss { iid: 0.05, ..Loss::default() },
        clock: ClockFaults { near_wrap: true, ..ClockFaults::default() },
        ..Scenario::default()
    };
    let mut wrapped = 0;
    for seed in 0..10 {
        let mut world = World::new(seed, &scenario);
        world.trace.log = Some(crate::trace::Log::default());
        let first = u32::MAX - 5 * seed as u32;
        world.nodes[0] = Node::with_first_psn(&scenario, first, &mut Rng::new(seed, "w"));
        world.plan_app();
        world.run_until(50_000_000)?;
        world.app.left = 0;
        drain(&mut world)?;
        let log = world.trace.log.take().unwrap_or_default();
        let before = log.packets.iter().any(|p| p.0 == 0 && p.2 == 0x10 && p.3 > u32::MAX - 70);
        let after = log.packets.iter().any(|p| p.0 == 0 && p.2 == 0x10 && p.3 < 70);
        wrapped += u32::from(before && after);
    }
    let what = format!("numbers wrapped in {wrapped} runs of 10");
    if wrapped > 4 { Ok(()) } else { Err(Violation { invariant: 10, what, at: 0 }) }
}

/// Scenarios of the swarm that have shown a defect of the engine: hellos from the port of a former
/// connection, copies of old hellos, a pause beyond the peer time-out, packets in pieces without
/// their turn, packets that are too long and counted as short, answers of peers that lie, a retry
/// that was repeated.
fn mended_defects() -> Outcome {
    for seed in [
        6_175, 13_184, 17_813, 93_855, 117_067, 141_482, 223_407, 295_505, 302_943, 430_835,
        480_445,
    ] {
        // They were found without it.
        let kernel_nodes = 0;
        run(seed, &Scenario { kernel_nodes, ..Scenario::swarm(seed) })?;
    }
    Ok(())
}

/// Each node says hello to every other at once, again and again, on a bad link.
fn crossed_openings() -> Outcome {
    let weights =
        App { send: 5, recv: 5, write: 1, read: 0, atomic: 1, len_max: 500, ..App::default() };
    let app = App { remove_peer: 2, ..only(&weights) };
    let scenario = Scenario {
        nodes: 4,
        pace_us: 2,
        app,
        loss: Loss { target: Some(LossTarget::Handshake), every: 3, ..Loss::default() },
        reorder: Reorder { jitter_us: 30, paths: 0 },
        ..Scenario::default()
    };
    over_seeds(0..60, &scenario)
}

/// 7, 14, 28: node 0 is killed after each progress call in turn of a run with every operation.
fn restart_at_every_step() -> Outcome {
    let mut scenario = Scenario {
        nodes: 2,
        ops: 24,
        pace_us: 5,
        app: App { len_max: 40_000, ..App::default() },
        ..Scenario::default()
    };
    for step in 1..250 {
        scenario.restart.at_step = step;
        run(7, &scenario)?;
    }
    Ok(())
}

fn partition(length_us: u64) -> Scenario {
    Scenario {
        peer_timeout_ms: 500,
        ops: 120,
        pace_us: 100_000,
        safety_us: 4_000_000,
        partition: Partition { every_us: 1_500_000, length_us, ..Partition::default() },
        ..Scenario::default()
    }
}

/// 25: a node that is away for less than the peer time-out loses nothing. (The oracle excuses a
/// failure while a partition lasts; here there must be none at all.)
fn partition_short() -> Outcome {
    for seed in 0..20 {
        let report = run(seed, &partition(100_000))?;
        let died = report.coverage.count(crate::coverage::Transition::PeerTimeout);
        if died > 0 {
            let what = format!("{died} operations died in partitions of 0.1 s, seed {seed}");
            return Err(Violation { invariant: 28, what, at: report.time });
        }
    }
    Ok(())
}

/// 28: the operations of a node that is away for longer fail; it comes back in a new epoch.
fn partition_long() -> Outcome {
    let mut died = 0;
    for seed in 0..20 {
        let report = run(seed, &partition(5_000_000))?;
        died += report.coverage.count(crate::coverage::Transition::PeerTimeout);
    }
    let what = String::from("no operation died in partitions of 5 s");
    if died > 0 { Ok(()) } else { Err(Violation { invariant: 28, what, at: 0 }) }
}

/// 24: `count` peers in the table, two of them active: idle peers cost no work.
///
/// # Errors
/// A violation.
pub fn million_peers(count: u32) -> Outcome {
    let scenario = Scenario { nodes: 5, ops: 60, ..Scenario::default() };
    let mut world = World::new(1, &scenario);
    world.nodes[0] = Node::with_many_peers(&scenario, count, 4, &mut Rng::new(2, "many"));
    world.nodes[0]
        .engine
        .with_mut(|engine| {
            // Addresses beyond those of the nodes: no node has them.
            (0..count - 8).try_for_each(|n| engine.insert_peer(address(1000 + n)).map(drop))
        })
        .map_err(|full| violation(&world, 24, full.to_string()))?;
    world.plan_app();
    world.run_until(20_000_000)?;
    world.app.left = 0;
    drain(&mut world)
}

/// `nodes` engines, each with few peers at a time.
///
/// # Errors
/// A violation.
pub fn many_nodes(nodes: u32) -> Outcome {
    let weights = App { send: 6, recv: 4, write: 0, read: 0, atomic: 0, ..App::default() };
    let scenario = Scenario {
        nodes,
        ops: 3 * nodes,
        pools: Pools::ManyNodes,
        app: App { len_max: 1500, ..only(&weights) },
        loss: Loss { iid: 0.01, ..Loss::default() },
        ..Scenario::default()
    };
    run(1, &scenario).map(drop)
}

/// Restarting peers say hello faster than old connections die: cookies, and no state for unknown
/// peers.
fn opening_flood() -> Outcome {
    let scenario = Scenario {
        nodes: 5,
        ops: 200,
        pace_us: 10,
        safety_us: 20_000,
        restart: Restart { every_us: 300, both: true, away_us: 0, at_step: 0 },
        ..Scenario::default()
    };
    let mut cookies = 0;
    for seed in 0..12 {
        let report = run(seed, &scenario)?;
        cookies += report.coverage.count(crate::coverage::Transition::RetryCookie);
    }
    let what = String::from("nobody was asked for a cookie");
    if cookies > 0 { Ok(()) } else { Err(Violation { invariant: 14, what, at: 0 }) }
}

/// An endpoint sends messages and closes: the peer has all of them, and gets the close notification
/// at once.
fn graceful_close() -> Outcome {
    let mut world = World::new(3, &Scenario { nodes: 2, ops: 0, ..Scenario::default() });
    for len in [0, 10, 5_000, 100_000] {
        world.recv(1, None, 200_000, None);
        if !world.send(0, 1, len) {
            return Err(violation(&world, 25, "a send was refused"));
        }
    }
    let found = world.after_post(0);
    found.map_err(|(invariant, what)| violation(&world, invariant, what))?;
    world.run_until(5_000_000)?;
    if world.oracle.open > 0 || world.nodes[0].engine.with(|engine| engine.has_work()) {
        return Err(violation(&world, 25, "the engine has work before the close"));
    }
    let now = world.local(0);
    world.nodes[0].engine.with_mut(|engine| engine.close(now));
    world.wake(0, world.now);
    drain(&mut world)
}

/// 27: a node with 12 backlogged peers serves each within one round of turns.
fn fair_turns() -> Outcome {
    const PEERS: u32 = 12;
    /// Packets that a peer may send in a row, with the answers between them. It is the initial
    /// window, doubled once before the queue of twelve such windows shows.
    const TURN: usize = 32;
    let link = Link { rate: 100_000_000, ..Link::default() };
    let scenario =
        Scenario { nodes: PEERS + 1, ops: 0, pools: Pools::Large, link, ..Scenario::default() };
    let mut world = World::new(5, &scenario);
    let text = crate::trace::Log::default();
    world.trace.log = Some(text);
    for peer in 1..=PEERS {
        for _ in 0..4 {
            world.recv(peer, None, 200_000, None);
            world.send(0, peer, 30_000);
        }
    }
    let found = world.after_post(0);
    found.map_err(|(invariant, what)| violation(&world, invariant, what))?;
    world.run_until(40_000_000)?;
    let log = world.trace.log.take().unwrap_or_default();
    let data: Vec<u32> =
        log.packets.iter().filter(|p| p.0 == 0 && p.2 == 0x10).map(|p| p.1).collect();
    for peer in 1..=PEERS {
        let at: Vec<usize> = (0..data.len()).filter(|&i| data[i] == peer).collect();
        let gap = at.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        if at.len() < 4 || gap > TURN * PEERS as usize {
            let found = broken(27, format!("peer {peer} waited for {gap} packets"));
            return found.map_err(|(i, what)| violation(&world, i, what));
        }
    }
    drain(&mut world)
}

/// 25: a receiver that polls every half a millisecond is slow, and causes no error.
fn polls_late() -> Outcome {
    let scenario = Scenario {
        ops: 40,
        link: Link { delay_ns: 40_000, ..Link::default() },
        pause: crate::scenario::Pause { late_us: 500, ..crate::scenario::Pause::default() },
        ..Scenario::default()
    };
    over_seeds(0..20, &scenario)
}

/// 25: on a long path, after a pause, the window opens as fast as anywhere. 1,500 packets take nine
/// round trips; they would take 94 if the window stayed as it begins.
fn far_away() -> Outcome {
    for delay_ns in [1_000_000, 5_000_000, 40_000_000] {
        let link = Link { delay_ns, rate: 1_250_000_000, ..Link::default() };
        let scenario =
            Scenario { nodes: 2, ops: 0, pools: Pools::Large, link, ..Default::default() };
        let mut world = World::new(1, &scenario);
        let mut took = 0;
        for _ in 0..2 {
            let start = world.now + 200_000_000;
            world.run_until(start)?;
            for _ in 0..500 {
                world.recv(1, None, 4_096, None);
                world.send(0, 1, 4_096);
            }
            took = finish(&mut world)? - start;
        }
        let round_trips = took / (2 * delay_ns);
        if round_trips > 20 {
            return Err(violation(&world, 25, format!("{round_trips} round trips of {delay_ns}")));
        }
        drain(&mut world)?;
    }
    Ok(())
}

/// 27: two nodes read a long message of each other by rendezvous. Each also has fetching atomics
/// for the other all the time, and is allowed one request. Both end. One atomic in twenty has a
/// fence, and waits for the message.
fn rendezvous_against_requests() -> Outcome {
    let link = Link { rate: 1_250_000_000, ..Link::default() };
    let pools = Pools::Minimum;
    let scenario = Scenario { nodes: 2, ops: 0, pools, link, ..Scenario::default() };
    let mut atomics = 0;
    for seed in 0..4 {
        let mut world = World::new(seed, &scenario);
        atomics += atomics_beside_messages(&mut world)?;
        drain(&mut world)?;
    }
    if atomics < 40 {
        let what = format!("{atomics} atomics beside 8 messages");
        return Err(Violation { invariant: 27, what, at: 0 });
    }
    Ok(())
}

/// How many atomics end while two nodes send each other 2 MiB.
fn atomics_beside_messages(world: &mut World) -> Result<u32, Violation> {
    const LEN: u64 = 2 << 20;
    world.log = Some(Vec::new());
    for (node, to) in [(0, 1), (1, 0)] {
        world.recv(node, None, LEN, None);
        world.send(node, to, LEN);
    }
    let until = world.now + 1_000_000_000;
    let (mut atomics, mut messages) = (0, 0);
    // bound: virtual time
    while messages < 2 {
        for (node, to) in [(0, 1), (1, 0)] {
            let region = world.region_of(to);
            let posted =
                world.nodes[node as usize].engine.with(|engine| engine.posted_operations());
            if let Some(region) = region.filter(|_| posted < 2) {
                world.post_remote(node, to, region, Access::FetchAdd);
            }
            let found = world.after_post(node);
            found.map_err(|(invariant, what)| violation(world, invariant, what))?;
        }
        if !world.step(until)? {
            return Err(violation(world, 27, format!("{messages} messages")));
        }
        for (_, done) in world.log.as_mut().map(std::mem::take).unwrap_or_default() {
            atomics += u32::from(done.kind == OpKind::Atomic);
            messages += u32::from(matches!(done.kind, OpKind::Recv { .. }));
        }
    }
    Ok(atomics)
}
