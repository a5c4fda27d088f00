// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random applications on bad links: each message arrives exactly once, in order, whole. Then all
//! nodes become idle.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::*;
use std::collections::HashMap;
use std::time::Duration;
use world::*;

/// A random run: three engines, a few hundred messages of all sizes in all directions, receives
/// posted at random times.
fn run(seed: u64, faults: Faults, config: &Config) -> World {
    const NODES: usize = 3;
    const MESSAGES: u64 = 120;
    let mut rng = Rng(seed);
    let mut world = World::new(NODES, rng.next(), config, faults);
    // For each pair: sizes in the order in which they were posted.
    let mut posted: HashMap<(usize, usize), Vec<(u64, usize)>> = HashMap::new();
    let mut sent = vec![0u64; NODES];
    let mut expected = vec![0u64; NODES];
    let mut receives = [0u64; NODES];
    let mut serial = 0;
    while serial < MESSAGES || (0..NODES).any(|n| receives[n] < expected[n]) {
        let node = rng.below(NODES as u64) as usize;
        if serial < MESSAGES && rng.percent(60.0) {
            let to = rng.below(NODES as u64) as usize;
            let len = match rng.below(8) {
                0..5 => rng.below(200),
                5 | 6 => rng.below(6_000),
                _ => rng.below(90_000),
            } as usize;
            let request = |r: &mut SendRequest| r.common.context = Context(serial);
            if world.send_with(node, to, request, pattern(serial, len)).is_ok() {
                posted.entry((node, to)).or_default().push((serial, len));
                sent[node] += 1;
                expected[to] += 1;
                serial += 1;
            }
        }
        let node = rng.below(NODES as u64) as usize;
        if (receives[node] < expected[node] || rng.percent(10.0)) && receives[node] < 100 {
            world.recv(node, 1_000_000 + receives[node], 90_000);
            receives[node] += 1;
        }
        world.run(Duration::from_nanos(rng.below(20_000)));
    }
    // A receive that took a stored message has completed without any packet.
    for node in 0..NODES {
        world.drive(node, Budget::PROGRESS);
    }
    let done = |w: &World| {
        (0..NODES).all(|n| w.nodes[n].completions.len() as u64 >= sent[n] + expected[n])
    };
    let finished = world.run_until(Duration::from_secs(60), done);
    let have: Vec<_> = world.nodes.iter().map(|n| n.completions.len()).collect();
    if !finished {
        for (n, node) in world.nodes.iter().enumerate() {
            let sends = node.completions.iter().filter(|c| matches!(c.kind, OpKind::Send { .. }));
            let failed: Vec<_> = node.completions.iter().filter_map(|c| c.outcome.err()).collect();
            let engine = &node.engine;
            let counts = (
                sends.count(),
                receives[n],
                failed,
                engine.stored_messages(),
                engine.posted_receives(),
            );
            eprintln!(
                "node {n}: {counts:?} at {} {:?} {:#?}",
                world.now,
                node.engine.poll_at(),
                node.engine.stats()
            );
        }
    }
    assert!(
        finished,
        "seed {seed}: {have:?} completions of {sent:?} sends and {expected:?} receives"
    );
    check(&mut world, seed, posted);
    world
}

/// Checks that each message arrived exactly once, in the order of its sender, whole.
fn check(world: &mut World, seed: u64, mut posted: HashMap<(usize, usize), Vec<(u64, usize)>>) {
    for node in 0..world.nodes.len() {
        // Receives are matched in the order in which they were posted; completions may overtake.
        let mut got: Vec<_> = world
            .completions(node)
            .into_iter()
            .inspect(|c| assert_eq!(c.outcome, Ok(()), "seed {seed}"))
            .filter(|c| matches!(c.kind, OpKind::Recv { .. }))
            .collect();
        got.sort_by_key(|c| c.context.0);
        for completion in got {
            let from = world.nodes[node].engine.peer_address(completion.peer).unwrap();
            let from = node_of(&from);
            let (serial, len) = posted.get_mut(&(from, node)).unwrap().remove(0);
            let bytes = world.received(node, completion.context.0);
            assert_eq!(completion.len, len as u64, "seed {seed}: message {serial} of {from}");
            assert!(
                bytes[..len] == pattern(serial, len),
                "seed {seed}: message {serial} is damaged"
            );
            assert!(bytes[len..].iter().all(|&b| b == 0xcc), "seed {seed}: written past the end");
        }
    }
    assert!(posted.values().all(Vec::is_empty), "seed {seed}: a message was lost");
}

fn rest(mut world: World, seed: u64) {
    world.link.faults = Faults::NONE;
    world.run(Duration::from_secs(30));
    for node in &world.nodes {
        assert_eq!(node.engine.poll_at(), None, "seed {seed}: a timer runs for ever");
        assert!(!node.engine.has_work());
    }
}

/// The seeds to try: more of them by `OFI_XDP_SEEDS=N`, one of them by `OFI_XDP_SEED=S`.
fn seeds(first: u64) -> std::ops::Range<u64> {
    let variable = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    match variable("OFI_XDP_SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + variable("OFI_XDP_SEEDS").unwrap_or(60),
    }
}

#[test]
fn messages_survive_bad_links() {
    for seed in seeds(0) {
        let mut rng = Rng(seed ^ 0xfa);
        let faults = Faults {
            loss: [0.0, 0.1, 1.0, 5.0, 20.0][rng.below(5) as usize],
            duplicate: [0.0, 1.0, 20.0][rng.below(3) as usize],
            corrupt: [0.0, 1.0][rng.below(2) as usize],
            delay: 500 + rng.below(30_000),
            jitter: [0, 5_000, 200_000][rng.below(3) as usize],
        };
        rest(run(seed, faults, &small()), seed);
    }
}

#[test]
fn messages_survive_pools_at_the_minimum() {
    for seed in seeds(1 << 32) {
        let mut rng = Rng(seed);
        let config = Config {
            sends: 8,
            assemblies: 1 + rng.below(2) as u32,
            unexpected: [rng.below(2) as u32, rng.below(2) as u32, 0, rng.below(2) as u32],
            connections: 4,
            ..small()
        };
        let faults = Faults {
            loss: rng.below(4) as f64,
            duplicate: 2.0,
            jitter: rng.below(50_000),
            ..Faults::NONE
        };
        rest(run(seed, faults, &config), seed);
    }
}

#[test]
fn one_lost_packet_costs_no_time_out() {
    for lost in 3..40 {
        let mut world = World::new(2, lost, &small(), Faults { delay: 10_000, ..Faults::NONE });
        world.recv(1, 0, 8);
        world.send(0, 1, 0, pattern(0, 8));
        world.run(Duration::from_millis(5));
        world.completions(1);
        world.recv(1, 1, 64 << 10);
        let start = world.now;
        // The packets of one burst leave at one instant: cut the link for exactly one of them.
        let peer = world.peer(0, 1);
        let common = Common::new(peer, Context(1));
        let request = SendRequest { common, len: 64 << 10, tag: None, data: None };
        let now = world.time();
        let node = &mut world.nodes[0];
        node.engine.post_send(now, request, pattern(1, 64 << 10).into(), &mut node.memory).unwrap();
        for n in 0..60 {
            world.link.cut = if n == lost { vec![address(1)] } else { Vec::new() };
            world.drive(0, Budget { rx_packets: 0, tx_packets: 1 });
        }
        world.link.cut.clear();
        assert!(world.run_until(Duration::from_secs(1), |w| !w.nodes[1].completions.is_empty()));
        let took = world.now - start;
        let stats = world.nodes[0].engine.stats();
        assert_eq!(stats.timeouts, 0, "packet {lost}");
        assert!(took <= 2 * 20_000 + 100_000 + 20_000, "packet {lost}: {took} ns");
        assert!(stats.retransmissions <= 2, "packet {lost}: {}", stats.retransmissions);
    }
}

#[test]
fn a_clean_link_sees_no_packet_twice() {
    let world = run(7, Faults { delay: 3_000, ..Faults::NONE }, &small());
    for node in &world.nodes {
        let stats = node.engine.stats();
        let allowed = stats.data_packets_sent / 20 + stats.restarts_after_rnr * 8 + 4;
        assert!(stats.retransmissions <= allowed, "{stats:?}");
    }
}

#[test]
fn garbage_changes_nothing() {
    let mut world = World::new(2, 99, &small(), Faults::NONE);
    world.link.tap = Some(Vec::new());
    world.recv(1, 0, 5000);
    world.send(0, 1, 0, pattern(0, 5000));
    world.run(Duration::from_secs(1));
    let seen = world.link.tap.take().unwrap();
    world.completions(1);
    let mut rng = Rng(5);
    for _ in 0..20_000 {
        let (from, to, mut bytes) = seen[rng.below(seen.len() as u64) as usize].clone();
        match rng.below(4) {
            0 => bytes = pattern(rng.next(), rng.below(200) as usize),
            1 => bytes.truncate(rng.below(bytes.len() as u64) as usize),
            2 => {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 + rng.below(255) as u8;
            }
            _ => {
                // A changed field with a right checksum: all checks behind the first one.
                let at = rng.below(bytes.len().min(80) as u64) as usize;
                bytes[at] = rng.next() as u8;
                if bytes.len() >= wire::HEADER_LEN {
                    wire::seal(&mut bytes, crc32c::crc32c_append);
                }
            }
        }
        world.link.inject(world.now, from, to, bytes);
        world.drive(0, Budget::PROGRESS);
        world.drive(1, Budget::PROGRESS);
    }
    for node in [0, 1] {
        assert!(world.nodes[node].engine.stats().dropped_total() > 1_000);
        assert!(world.completions(node).iter().all(|c| c.outcome == Ok(())));
    }
    // The connection still works.
    world.run(Duration::from_secs(20));
    world.recv(1, 1, 50_000);
    world.send(0, 1, 1, pattern(1, 50_000));
    let ok = |w: &World| w.nodes[1].completions.iter().any(|c| c.outcome == Ok(()));
    if !world.run_until(Duration::from_secs(20), ok) {
        // A packet with the right token may have reset the connection: then the second attempt
        // works.
        world.recv(1, 2, 50_000);
        world.send(0, 1, 2, pattern(2, 50_000));
        assert!(world.run_until(Duration::from_secs(20), ok));
    }
}
