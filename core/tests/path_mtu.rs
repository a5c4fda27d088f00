// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths that pass shorter packets than the ports send (`docs/PROTOCOL.md` §11): transfers go on
//! with the longest packets that pass, and nothing is lost or taken twice.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::*;
use std::time::Duration;
use world::*;

/// The payload of a 9,000-byte MTU over IPv4, and of a 1,500-byte one.
const JUMBO: usize = 8972;
const ETHERNET: usize = 1472;
const KIB: usize = 1 << 10;

fn world(seed: u64, config: &Config, faults: Faults) -> World {
    World::with_payload(2, seed, config, faults, JUMBO)
}

/// The longest packet that node 0 sends to node 1 at present.
fn packet_max(world: &World) -> u32 {
    let reports = world.nodes[0].engine.peer_reports();
    reports.map(|report| report.packet_max).next().unwrap()
}

/// Both nodes post something of every kind to each other; then the path passes `passes` bytes.
/// Everything ends within a second.
fn transfer(world: &mut World, passes: usize) {
    let regions = [0, 1].map(|node| world.region(node, 0x1000, 256 * KIB, Access::all()));
    let sizes = [40, 3000, 8800, 30 * KIB, 200 * KIB];
    for (from, to) in [(0, 1), (1, 0)] {
        world.set_region(to, regions[to].key, &pattern(to as u64, 256 * KIB));
        for (context, &len) in (0..).zip(&sizes) {
            world.recv(to, 100 + context, len);
            world.send(from, to, context, pattern(context, len));
        }
        let remote = Remote { key: regions[to].key, address: 0x1000 + 128 * KIB as u64 };
        world.write(from, to, 10, remote, Some(5), pattern(70, 100 * KIB));
        world.read(from, to, 11, regions[to], 100 * KIB);
        let counter = Remote { address: 0x1000 + 250 * KIB as u64, ..remote };
        for add in 0..20 {
            world.fetch_add(from, to, 20 + add, counter, 1);
        }
    }
    // Packets of the old size are under way.
    assert!(world.run_until(Duration::from_secs(1), |w| w.link.packets > 25));
    world.link.passes = passes;
    // Sends, receives, the write and its event, the read, the atomics.
    let ends = 5 + 5 + 1 + 1 + 1 + 20;
    let all = |w: &World| w.nodes.iter().all(|node| node.completions.len() == ends);
    assert!(world.run_until(Duration::from_secs(1), all), "{passes}: {}", packet_max(world));
    for (from, to) in [(0, 1), (1, 0)] {
        assert!(world.completions(from).iter().all(|c| c.outcome.is_ok()));
        for (context, &len) in (0..).zip(&sizes) {
            assert!(world.received(to, 100 + context) == pattern(context, len), "{len}");
        }
        let bytes = world.region_bytes(to, regions[to].key);
        assert!(bytes[128 * KIB..228 * KIB] == pattern(70, 100 * KIB));
        let before = &pattern(to as u64, 256 * KIB)[250 * KIB..250 * KIB + 8];
        let added = u64::from_le_bytes(bytes[250 * KIB..250 * KIB + 8].try_into().unwrap())
            .wrapping_sub(u64::from_le_bytes(before.try_into().unwrap()));
        assert_eq!(added, 20, "each atomic once");
    }
}

/// The longest packet of node 0 once its search is over.
fn packet_max_after_search(world: &mut World) -> usize {
    for context in 0..20 {
        world.recv(1, 900 + context, 100);
        world.send(0, 1, 900 + context, pattern(context, 100));
        world.run(Duration::from_millis(2));
    }
    world.send(0, 1, 950, pattern(1, 100));
    world.recv(1, 950, 100);
    packet_max(world) as usize
}

#[test]
fn a_path_that_shrinks_in_mid_stream_carries_everything_once() {
    for (seed, passes) in [(1, ETHERNET), (2, 1216), (3, 1400), (4, 1300), (5, 4470), (6, 8900)] {
        let mut world = world(seed, &small(), Faults::NONE);
        transfer(&mut world, passes);
        let found = packet_max_after_search(&mut world);
        assert!(found <= passes && passes - found < 64, "{found} of {passes}");
        let stats = world.nodes[0].engine.stats();
        assert!(stats.path_shrinks > 0 && stats.pieces_sent > 0, "{stats:?}");
    }
}

#[test]
fn a_path_that_is_short_from_the_start_carries_everything() {
    let mut world = world(7, &small(), Faults::NONE);
    world.link.passes = ETHERNET;
    transfer(&mut world, ETHERNET);
    assert_eq!(packet_max_after_search(&mut world), ETHERNET);
}

#[test]
fn lost_and_repeated_pieces_take_effect_once() {
    for seed in 0..20 {
        let faults =
            Faults { loss: 3.0, duplicate: 5.0, corrupt: 1.0, delay: 20_000, jitter: 15_000 };
        let mut world = world(seed, &small(), faults);
        transfer(&mut world, ETHERNET);
    }
}

#[test]
fn a_small_pool_of_pieces_is_slow_and_no_more() {
    let mut world = world(9, &Config { pieced: 1, ..small() }, Faults::NONE);
    transfer(&mut world, ETHERNET);
}

#[test]
fn a_longer_round_trip_leaves_a_second_too() {
    let faults = Faults { delay: 20_000_000, ..Faults::NONE };
    let mut world = world(10, &small(), faults);
    world.recv(1, 1, 200 * KIB);
    world.send(0, 1, 1, pattern(1, 200 * KIB));
    world.run(Duration::from_millis(90));
    world.link.passes = ETHERNET;
    let shrunk = |w: &World| w.nodes[0].engine.stats().path_shrinks > 0;
    assert!(world.run_until(Duration::from_millis(800), shrunk));
    let done = |w: &World| !w.nodes[1].completions.is_empty();
    assert!(world.run_until(Duration::from_secs(2), done));
}

#[test]
fn larger_packets_are_tried_again_after_the_time_for_it() {
    let retry = Duration::from_secs(20);
    let mut world = world(11, &Config { path_retry: retry, ..small() }, Faults::NONE);
    transfer(&mut world, ETHERNET);
    assert_eq!(packet_max_after_search(&mut world), ETHERNET);
    let raises = world.nodes[0].engine.stats().path_raises;
    assert!(raises > 0, "{:?}", world.nodes[0].engine.stats());
    world.link.passes = usize::MAX;
    let mut context = 1000;
    let mut exchange = |world: &mut World| {
        context += 1;
        world.recv(1, context, 20 * KIB);
        world.send(0, 1, context, pattern(context, 20 * KIB));
        world.run(Duration::from_millis(200));
        world.completions(0);
        world.completions(1);
    };
    // Connections end in between; what is known of the path stays.
    let start = world.now;
    while world.now < start + 18_000_000_000 {
        exchange(&mut world);
        world.now += 100_000_000;
    }
    assert_eq!(world.nodes[0].engine.stats().path_raises, raises);
    while world.now < start + 28_000_000_000 {
        exchange(&mut world);
        world.now += 100_000_000;
    }
    world.recv(1, 5, 200 * KIB);
    world.send(0, 1, 5, pattern(5, 200 * KIB));
    world.run(Duration::from_micros(50));
    assert_eq!(packet_max(&world) as usize, JUMBO / 8 * 8);
}

/// The messages fit one packet of the long path, and take several of the short one.
#[test]
fn messages_that_are_begun_go_on_in_parts_when_the_path_becomes_longer() {
    const LEN: usize = 3000;
    let retry = Duration::from_secs(1);
    // Searches begin when a timer fires, as it does for a loss.
    let faults = Faults { loss: 1.0, delay: 1_000_000, ..Faults::NONE };
    for seed in 40..60 {
        let mut world = world(seed, &Config { path_retry: retry, ..small() }, faults);
        transfer(&mut world, ETHERNET);
        assert_eq!(packet_max_after_search(&mut world), ETHERNET);
        world.run(Duration::from_millis(5));
        world.link.passes = usize::MAX;
        world.now += 2_000_000_000;
        world.completions(0);
        world.completions(1);
        let raises = world.nodes[0].engine.stats().path_raises;
        let rounds = (0..200).take_while(|round| {
            let contexts = 1000 + round * 20..1020 + round * 20;
            for context in contexts.clone() {
                world.recv(1, context, LEN);
                world.send(0, 1, context, pattern(context, LEN));
            }
            let done = |w: &World| w.nodes[1].completions.len() == 20;
            assert!(world.run_until(Duration::from_secs(1), done), "seed {seed}");
            for context in contexts {
                assert!(world.received(1, context) == pattern(context, LEN));
            }
            world.completions(0);
            world.completions(1);
            world.nodes[0].engine.stats().path_raises == raises
        });
        assert!(rounds.count() < 200, "longer packets were not tried");
    }
}

#[test]
fn loss_alone_shortens_no_packets_for_long() {
    let faults = Faults { loss: 5.0, ..Faults::NONE };
    for seed in 20..30 {
        let mut world = world(seed, &small(), faults);
        for round in 0..20 {
            world.recv(1, round, 200 * KIB);
            world.send(0, 1, round, pattern(round, 200 * KIB));
            let done = |w: &World| w.nodes[1].completions.len() as u64 == round + 1;
            assert!(world.run_until(Duration::from_secs(1), done));
        }
        world.run(Duration::from_millis(10));
        let stats = *world.nodes[0].engine.stats();
        let shortened = stats.path_shrinks.saturating_sub(stats.path_raises);
        assert!(shortened <= 1 && stats.path_shrinks <= 3, "seed {seed}: {stats:?}");
    }
}
