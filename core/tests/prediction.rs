// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast path for predicted packets (`engine/receive/fast_path.rs`) has the effect of the
//! general path. Two worlds take the same steps. In one of them, each data packet and each
//! acknowledgment carries an unknown flag, which is ignored (`docs/PROTOCOL.md` §3.2) but prevents
//! the prediction. Likewise for posts that give the time of an earlier call, where that is as good
//! as the present time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::*;
use proptest::prelude::*;
use std::time::Duration;
use world::{Faults, Rng, World, pattern, small};

/// One step, from its random numbers, by node 0 and one of the others.
fn act(world: &mut World, rng: &mut Rng) {
    let other = 1 + rng.below(world.nodes.len() as u64 - 1) as usize;
    let (from, to) = if rng.percent(50.0) { (0, other) } else { (other, 0) };
    let len = rng.below(400) as usize;
    let tag = rng.below(3);
    match rng.below(8) {
        0..=2 => {
            let bytes = pattern(rng.next(), len);
            // A full pool is a regular case.
            let _ = world.send_with(
                from,
                to,
                |r| {
                    r.tag = (tag > 0).then_some(tag);
                    r.data = len.is_multiple_of(3).then_some(7);
                    r.common.signal = !len.is_multiple_of(5);
                },
                bytes,
            );
        }
        3..=5 => {
            let context = Context(rng.next());
            let _ = world.recv_with(from, 300, |r| {
                r.context = context;
                r.tag = (tag > 0).then_some(TagMatch { tag, ignore: len as u64 % 2 * 3 });
            });
        }
        6 => world.run(Duration::from_nanos(rng.below(30_000))),
        _ => {
            world.step();
        }
    }
}

/// Bytes of a region, and more than the longest operation of [`act_at_length`] has.
const LONG: usize = 40_000;

/// As [`act`], with operations of many packets: messages, writes and reads of the memory that each
/// of the two nodes has.
fn act_at_length(world: &mut World, rng: &mut Rng, memory: [Remote; 2]) {
    let from = rng.below(2) as usize;
    let to = 1 - from;
    let remote = memory[to];
    let len = rng.below(LONG as u64) as usize;
    match rng.below(10) {
        0 => {
            let _ = world.recv_with(to, LONG, |r| r.context = Context(rng.next()));
        }
        1 => {
            let _ = world.send_with(from, to, |_| {}, pattern(rng.next(), len));
        }
        2 => {
            let data = rng.percent(30.0).then_some(7);
            world.write(from, to, rng.next(), remote, data, pattern(rng.next(), len));
        }
        3 => {
            world.read(from, to, rng.next(), remote, len);
        }
        4 => world.run(Duration::from_millis(2)),
        _ => {
            world.step();
        }
    }
}

/// Runs `seed`'s steps, so many of them, in both worlds, and compares these after each. Returns the
/// most connections that node 0 had at once.
fn live_alike(
    worlds: &mut [World; 2],
    (seed, steps): (u64, u32),
    act: impl Fn(&mut World, &mut Rng),
) -> Result<u32, TestCaseError> {
    let mut lives = [seed, seed].map(Rng);
    let mut connections = 0;
    for step in 0..steps {
        for (world, rng) in worlds.iter_mut().zip(&mut lives) {
            act(world, rng);
        }
        let [here, there] = &mut *worlds;
        prop_assert_eq!(here.now, there.now);
        connections = connections.max(here.nodes[0].engine.connections());
        // With many nodes, most are compared now and then.
        let node_count = if step % 50 == 49 { usize::MAX } else { 2 };
        for (a, b) in here.nodes.iter_mut().zip(&mut there.nodes).take(node_count) {
            prop_assert_eq!(a.engine.stats(), b.engine.stats(), "step {}", step);
            prop_assert_eq!(&a.completions, &b.completions, "step {}", step);
            let now = Instant::from_nanos(here.now);
            prop_assert_eq!(a.engine.digest(now), b.engine.digest(now), "step {}", step);
        }
    }
    Ok(connections)
}

/// Two worlds: in the second one no packet is predicted.
fn plain_and_strange(nodes: usize, seed: u64, config: &Config, faults: Faults) -> [World; 2] {
    [false, true].map(|strange| {
        let mut world = World::new(nodes, seed, config, faults);
        world.link.strange = strange;
        world
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 8 } else { 40 }))]
    #[test]
    fn the_fast_path_equals_the_general_path(
        seed: u64, loss in 0.0..4.0, jitter in prop_oneof![Just(0u64), 0..20_000u64],
    ) {
        let faults = Faults { loss, duplicate: loss, corrupt: loss, jitter, ..Faults::NONE };
        let mut worlds = plain_and_strange(2, seed, &small(), faults);
        live_alike(&mut worlds, (seed, 300), act)?;
        let nodes = worlds[0].nodes.iter();
        let accepted: u64 = nodes.map(|node| node.engine.stats().messages_accepted).sum();
        prop_assert!(accepted > 10, "hardly anything happened: {}", accepted);
    }

    #[test]
    fn the_fast_path_of_long_operations_equals_the_general_path(
        seed: u64,
        loss in prop_oneof![Just(0.0), 0.0..4.0],
        jitter in prop_oneof![Just(0u64), 0..20_000u64],
    ) {
        let faults = Faults { loss, duplicate: loss, corrupt: loss, jitter, ..Faults::NONE };
        let config = Config { eager_max: 16 << 10, ..small() };
        let mut worlds = plain_and_strange(2, seed, &config, faults);
        let regions = |world: &mut World| {
            [0, 1].map(|node| world.region(node, 0, LONG, Access::READ | Access::WRITE))
        };
        let [here, there] = &mut worlds;
        let memory = regions(here);
        prop_assert_eq!(memory, regions(there));
        live_alike(&mut worlds, (seed, 200), |world, rng| act_at_length(world, rng, memory))?;
        let nodes = worlds[0].nodes.iter();
        let placed: u64 = nodes.map(|node| node.engine.stats().bytes_placed).sum();
        prop_assert!(placed > LONG as u64, "hardly anything happened: {} bytes", placed);
    }

    #[test]
    fn a_post_behind_packets_under_way_needs_no_clock(
        seed: u64, loss in 0.0..4.0, jitter in prop_oneof![Just(0u64), 0..20_000u64],
    ) {
        let faults = Faults { loss, duplicate: loss, jitter, ..Faults::NONE };
        let mut worlds = [false, true].map(|frugal| {
            let mut world = World::new(2, seed, &small(), faults);
            world.frugal = frugal;
            world
        });
        live_alike(&mut worlds, (seed, 300), act)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 2 } else { 8 }))]
    // With many connections, idle timers are deferred, too.
    #[test]
    fn the_fast_path_equals_the_general_path_with_many_connections(
        seed: u64, loss in 0.0..4.0, jitter in prop_oneof![Just(0u64), 0..20_000u64],
    ) {
        let faults = Faults { loss, duplicate: loss, corrupt: loss, jitter, ..Faults::NONE };
        let connections = 30;
        let config = Config { peers: connections, connections, responders: 64, ..small() };
        let mut worlds = plain_and_strange(connections as usize, seed, &config, faults);
        let most = live_alike(&mut worlds, (seed, 400), act)?;
        prop_assert!(most >= 16, "few connections: {}", most);
        let accepted = worlds[0].nodes[0].engine.stats().messages_accepted;
        prop_assert!(accepted > 10, "hardly anything happened: {}", accepted);
    }
}

/// An application that computes for longer than the peer time-out, without a call, and then posts.
/// All its earlier packets were acknowledged, so the silence counts from the post.
#[test]
fn a_post_after_a_long_computation_brings_the_present_time() {
    let config = Config { peer_timeout: Duration::from_millis(200), ..small() };
    for more in [false, true] {
        let mut world = World::new(2, 1, &config, Faults::NONE);
        world.frugal = true;
        for (context, pause) in [(1, 0), (2, 1_000)] {
            world.now += Duration::from_millis(pause).as_nanos() as u64;
            let buffer = Context(context);
            world.recv_with(1, 64, |r| r.context = buffer).unwrap();
            let request = |r: &mut SendRequest| r.common.more = more;
            world.send_with(0, 1, request, pattern(context, 64)).unwrap();
            world.run(Duration::from_millis(1));
            assert_eq!(world.received(1, context), pattern(context, 64));
        }
        assert!(world.nodes[0].completions.iter().all(|one| one.outcome.is_ok()));
    }
}

/// Between the post of a message and its acknowledgment, the time of the last call is as good as
/// the present time. Afterwards it is not: the silence of the peer counts from the next post.
#[test]
fn only_packets_under_way_stand_for_the_present_time() {
    let mut world = World::new(2, 1, &small(), Faults::NONE);
    let peer = world.peer(0, 1);
    let known = |world: &World| world.nodes[0].engine.time_under_way(peer);
    assert_eq!(known(&world), None, "no connection");
    for context in 1..3 {
        world.recv(1, context, 64);
        world.send(0, 1, context, pattern(context, 64));
        if context == 2 {
            assert_eq!(known(&world), Some(world.time()));
        }
        world.run(Duration::from_millis(1));
        assert_eq!(world.completions(0).len(), 1);
        assert_eq!(known(&world), None, "all packets are acknowledged");
    }
}
