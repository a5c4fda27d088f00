// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remote memory on good and bad links: writes with and without data, reads, atomics, errors, and
//! long messages, which are read by their receiver.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::*;
use std::time::Duration;
use world::*;

const SECOND: Duration = Duration::from_secs(1);

fn bad() -> Faults {
    Faults { loss: 5.0, duplicate: 5.0, corrupt: 1.0, delay: 3_000, jitter: 20_000 }
}

#[test]
fn a_write_is_in_place_when_it_completes_and_its_data_comes_last() {
    for (seed, len) in (0..40).zip([0usize, 1, 8, 1400, 1408, 1409, 5000, 70_000].iter().cycle()) {
        let mut world = World::new(2, seed, &small(), bad());
        let remote = world.region(1, 1 << 12, 80_000, Access::WRITE);
        let bytes = pattern(seed, *len);
        let at = Remote { address: remote.address + 100, ..remote };
        world.write(0, 1, 7, at, Some(0xfeed), bytes.clone());
        let notified =
            |w: &World| !w.nodes[0].completions.is_empty() && !w.nodes[1].completions.is_empty();
        assert!(world.run_until(SECOND * 20, notified), "seed {seed}");
        let done = world.completions(0)[0];
        assert_eq!((done.outcome, done.kind, done.len), (Ok(()), OpKind::Write, *len as u64));
        let event = world.completions(1)[0];
        assert_eq!((event.kind, event.data), (OpKind::RemoteWrite, Some(0xfeed)));
        assert_eq!(event.len, *len as u64, "all of it");
        let memory = world.region_bytes(1, remote.key);
        assert!(memory[100..100 + len] == bytes, "seed {seed}");
        assert!(memory[..100].iter().chain(&memory[100 + len..]).all(|&b| b == 0xaa));
    }
}

#[test]
fn every_piece_but_the_last_says_that_more_follows() {
    for (len, pieces) in [(8, 1), (1408, 1), (5000, 4), (20_000, 15)] {
        let check = |story: fn(&mut World, usize)| {
            let mut world = World::new(2, 1, &small(), Faults::NONE);
            story(&mut world, len);
            world.run(SECOND);
            let logs = || world.nodes.iter().filter_map(|node| node.memory.pieces.as_ref());
            let gathered: Vec<bool> = logs().flat_map(|log| log.gathered.clone()).collect();
            let placed: Vec<bool> = logs().flat_map(|log| log.placed.clone()).collect();
            let expected: Vec<bool> = (1..=pieces).map(|piece| piece < pieces).collect();
            assert_eq!((&gathered, &placed), (&expected, &expected), "{len} bytes");
        };
        check(|world, len| {
            world.recv(1, 7, len);
            world.send(0, 1, 7, pattern(3, len));
        });
        check(|world, len| {
            let remote = world.region(1, 0, len, Access::WRITE);
            world.write(0, 1, 7, remote, None, pattern(3, len));
        });
        check(|world, len| {
            let remote = world.region(1, 0, len, Access::READ);
            world.read(0, 1, 7, remote, len);
        });
    }
}

#[test]
fn data_is_reported_after_the_bytes_of_all_earlier_writes() {
    for seed in 0..60 {
        let mut world = World::new(2, seed, &small(), bad());
        let remote = world.region(1, 0, 100_000, Access::WRITE);
        for n in 0..10u64 {
            let at = Remote { address: n * 10_000, ..remote };
            let data = (n % 3 == 2).then_some(n);
            world.write(0, 1, n, at, data, pattern(n + 1, 10_000));
        }
        let mut notified = 0;
        while world.nodes[0].completions.len() < 10 || notified < 3 {
            assert!(world.step(), "seed {seed}");
            for event in world.completions(1) {
                notified += 1;
                let last = event.data.unwrap();
                let memory = world.region_bytes(1, remote.key);
                for n in 0..=last {
                    let start = n as usize * 10_000;
                    assert!(memory[start..start + 10_000] == pattern(n + 1, 10_000), "seed {seed}");
                }
            }
        }
        assert!(world.completions(0).iter().all(|c| c.outcome == Ok(())));
    }
}

#[test]
fn a_write_is_counted_when_its_last_byte_is_in_place() {
    let config = Config { rma_events: true, ..small() };
    for seed in 0..40 {
        let mut world = World::new(2, seed, &config, bad());
        let remote = world.region(1, 0, 60_000, Access::WRITE | Access::READ);
        let id = world.region_id(1, remote.key);
        for n in 0..6u64 {
            let at = Remote { address: n * 10_000, ..remote };
            world.write(0, 1, n, at, None, pattern(n + 1, 10_000));
        }
        let counted = |w: &World| w.nodes[1].engine.op_counters().target;
        // bound: the completions of six writes
        while world.nodes[0].completions.len() < 6 {
            assert!(world.step(), "seed {seed}");
            let memory = world.region_bytes(1, remote.key);
            let range = |n: u64| n as usize * 10_000..(n as usize + 1) * 10_000;
            let whole = (0..6).filter(|&n| memory[range(n)] == pattern(n + 1, 10_000));
            assert!(counted(&world).writes <= whole.count() as u64, "seed {seed}");
        }
        assert_eq!(counted(&world), TargetCounters { writes: 6, reads: 0, updates: 0 });
        assert_eq!(world.nodes[0].engine.op_counters().writes, OpCount { done: 6, failed: 0 });
        world.read(0, 1, 6, remote, 60_000);
        world.fetch_add(0, 1, 7, remote, 1);
        world.read(0, 1, 8, Remote { key: !remote.key, ..remote }, 8);
        assert!(world.run_until(SECOND * 20, |w| w.nodes[0].completions.len() == 9));
        assert!(world.run_until(SECOND * 20, |w| counted(w).reads == 2));
        assert_eq!(world.nodes[1].engine.region_counters(id), Some(counted(&world)));
        assert_eq!(counted(&world), TargetCounters { writes: 6, reads: 2, updates: 1 });
        assert_eq!(world.nodes[0].engine.op_counters().reads, OpCount { done: 2, failed: 1 });
    }
}

/// The target overwrites the region as soon as its counter says that the read is over.
#[test]
fn a_counted_read_needs_the_region_no_more() {
    let config = Config { rma_events: true, ..small() };
    let far = Faults { delay: 2_000_000, ..bad() };
    for (seed, len) in (0..).zip([0, 8, 400_000, 400_000, 5 << 20]) {
        let mut world = World::new(2, seed, &config, if len > 1 << 20 { far } else { bad() });
        let remote = world.region(1, 0, len, Access::READ);
        let region = world.region_id(1, remote.key);
        let bytes = pattern(9, len);
        world.set_region(1, remote.key, &bytes);
        let id = world.read(0, 1, 7, remote, len);
        let counted = |w: &World| w.nodes[1].engine.op_counters().target.reads;
        assert!(world.run_until(SECOND * 60, |w| counted(w) == 1), "seed {seed}");
        assert_eq!(world.nodes[1].engine.region_counters(region).unwrap().reads, 1);
        world.set_region(1, remote.key, &pattern(10, len));
        let done = |w: &World| w.nodes[0].completions.len() == 1;
        assert!(world.run_until(SECOND * 60, done), "seed {seed}");
        assert_eq!(world.completions(0)[0].outcome, Ok(()), "seed {seed}");
        assert!(world.nodes[0].memory.returned(id).unwrap() == bytes, "seed {seed}, {len} bytes");
        world.run(SECOND);
        assert_eq!(counted(&world), 1, "seed {seed}");
    }
}

/// A read whose region is taken back on the way ends in error, and one that has left counts.
#[test]
fn a_read_counts_if_all_its_bytes_left_before_the_region_was_taken_back() {
    for (len, fails) in [(2 << 20, true), (20_000, false), (8, false)] {
        let mut world = World::new(2, 5, &small(), Faults::NONE);
        let remote = world.region(1, 0, len, Access::READ);
        let region = world.region_id(1, remote.key);
        world.read(0, 1, 7, remote, len);
        let placed = if fails { 10_000 } else { len as u64 };
        let read = |w: &World| w.nodes[0].engine.stats().bytes_placed >= placed;
        assert!(world.run_until(SECOND, read));
        assert_eq!(world.nodes[0].completions.is_empty(), fails);
        let counted = |w: &World| w.nodes[1].engine.op_counters().target.reads;
        assert_eq!(counted(&world), 0, "no acknowledgment has come");
        world.nodes[1].engine.deregister_region(region).unwrap();
        world.run(SECOND);
        let outcome = if fails { Err(OpError::Key) } else { Ok(()) };
        assert_eq!(world.completions(0)[0].outcome, outcome);
        assert_eq!(counted(&world), u64::from(!fails));
    }
}

#[test]
fn a_read_returns_the_bytes_of_the_region() {
    for (seed, len) in (0..40).zip([0usize, 1, 1408, 1409, 64_000].iter().cycle()) {
        let mut world = World::new(2, seed, &small(), bad());
        let remote = world.region(1, 0, 64_000, Access::READ);
        let bytes = pattern(9, 64_000);
        world.set_region(1, remote.key, &bytes);
        let ids: Vec<_> = (0..8).map(|n| world.read(0, 1, n, remote, *len)).collect();
        let done = |w: &World| w.nodes[0].completions.len() == 8;
        assert!(world.run_until(SECOND * 20, done), "seed {seed}");
        assert!(world.completions(0).iter().all(|c| c.outcome == Ok(())));
        for id in ids {
            assert!(world.nodes[0].memory.returned(id).unwrap() == &bytes[..*len], "seed {seed}");
        }
    }
}

/// Whenever one of its reads ends the peer posts another, so that responses are pending at all
/// times.
#[test]
fn parts_of_a_long_read_come_one_behind_the_other_on_a_long_path() {
    const PARTS: usize = 8;
    const LEN: usize = PARTS * (4 << 20) - 1_000;
    const ONE_WAY: Duration = Duration::from_millis(5);
    let faults = Faults { delay: ONE_WAY.as_nanos() as u64, ..Faults::NONE };
    let config = Config { port_packets: 64 << 10, reorder_pages: 64, ..small() };
    let mut world = World::new(2, 11, &config, faults);
    let remote = world.region(1, 0, LEN, Access::READ);
    let bytes = pattern(3, LEN);
    world.set_region(1, remote.key, &bytes);
    let mut round_trips = 0;
    // The first read opens the window.
    for context in 0..2 {
        let start = world.now;
        let read = world.read(0, 1, context, remote, LEN);
        let done = |w: &World| !w.nodes[0].completions.is_empty();
        assert!(world.run_until(Duration::from_secs(10), done));
        assert_eq!(world.completions(0)[0].outcome, Ok(()));
        assert!(world.nodes[0].memory.take_op(read).unwrap() == bytes);
        round_trips = (world.now - start) / (2 * ONE_WAY.as_nanos() as u64);
    }
    // One after the other, each part takes one round trip at the least.
    assert!(round_trips < PARTS as u64, "{round_trips} round trips for {PARTS} parts");
}

#[test]
fn constant_reads_do_not_hold_up_messages_and_writes() {
    let mut world = World::new(2, 77, &small(), Faults::NONE);
    let access = Access::READ | Access::WRITE;
    let remote = world.region(0, 0, 1 << 16, access);
    let target = world.region(1, 0, 8, access);
    for context in 0..32 {
        world.read(1, 0, context, remote, 1 << 16);
    }
    assert!(world.run_until(Duration::from_secs(1), |w| w.nodes[1].completions.len() > 8));
    world.recv(1, 100, 8);
    world.send(0, 1, 200, pattern(200, 8));
    world.write(0, 1, 201, target, None, pattern(201, 8));
    let (mut reads, mut ended) = (0, Vec::new());
    for _ in 0..2_000 {
        for context in world.completions(1).iter().map(|c| c.context.0) {
            if context < 32 {
                reads += 1;
                world.read(1, 0, context, remote, 1 << 16);
            }
        }
        ended.extend(world.completions(0).iter().map(|c| (c.context.0, c.outcome)));
        world.step();
    }
    assert_eq!(ended, [(200, Ok(())), (201, Ok(()))]);
    assert_eq!(world.received(1, 100), pattern(200, 8));
    assert_eq!(world.region_bytes(1, target.key), pattern(201, 8));
    assert!(reads > 20, "and the reads go on: {reads}");
}

#[test]
fn atomics_are_executed_exactly_once() {
    for seed in 0..60 {
        let mut world = World::new(3, seed, &small(), bad());
        let remote = world.region(2, 0, 64, Access::READ | Access::WRITE);
        world.set_region(2, remote.key, &[0; 64]);
        let mut ids = Vec::new();
        for n in 0..40u64 {
            let node = (n % 2) as usize;
            ids.push((node, world.fetch_add(node, 2, n, remote, 1)));
        }
        let done =
            |w: &World| w.nodes[0].completions.len() == 20 && w.nodes[1].completions.len() == 20;
        assert!(world.run_until(SECOND * 20, done), "seed {seed}");
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert_eq!(word(&world.region_bytes(2, remote.key)), 40, "seed {seed}");
        let found =
            ids.iter().map(|(node, id)| word(world.nodes[*node].memory.returned(*id).unwrap()));
        let mut found: Vec<_> = found.collect();
        found.sort_unstable();
        assert_eq!(found, (0..40).collect::<Vec<_>>(), "seed {seed}: each sees another value");
    }
}

#[test]
fn both_sides_issue_only_atomics_with_all_pools_at_the_minimum() {
    for seed in 0..40 {
        let config = Config {
            sends: 64,
            connections: 4,
            responders: 4,
            rendezvous_reads: 1,
            events: 8,
            ..small()
        };
        let mut world = World::new(2, seed, &config, bad());
        let regions = [0, 1].map(|node| world.region(node, 0, 64, Access::READ | Access::WRITE));
        for node in [0, 1] {
            world.set_region(node, regions[node].key, &[0; 64]);
        }
        for n in 0..60 {
            for node in [0, 1] {
                world.fetch_add(node, 1 - node, n, regions[1 - node], 1);
            }
        }
        let done = |w: &World| w.nodes.iter().all(|n| n.completions.len() == 60);
        assert!(world.run_until(SECOND * 60, done), "seed {seed}");
        for node in [0, 1] {
            assert!(world.completions(node).iter().all(|c| c.outcome == Ok(())));
            assert_eq!(world.region_bytes(node, regions[node].key)[..8], 60u64.to_le_bytes());
        }
    }
}

/// The responder withdraws the grant while the requests are lost. Their packet stays as it is.
#[test]
fn requests_of_a_lapsed_grant_are_answered_beside_a_peer_that_has_all_credit() {
    let config = Config { connections: 4, responders: 12, ..small() };
    let mut world = World::new(3, 7, &config, Faults::NONE);
    let remote = world.region(1, 0, 1 << 16, Access::READ);
    world.read(0, 1, 0, remote, 8);
    let is_over = |w: &World| !w.nodes[0].completions.is_empty() && !w.nodes[1].engine.has_work();
    assert!(world.run_until(SECOND, is_over));
    world.completions(0);
    world.link.cut.push(address(0));
    // The first one goes at once, the others share a packet.
    for context in 1..=4 {
        world.read(0, 1, context, remote, 8);
    }
    world.run(Duration::from_millis(30));
    assert_eq!(world.nodes[1].engine.stats().connections_idle, 1);
    world.read(2, 1, 0, remote, 8);
    world.link.cut.clear();
    // bound: 200 ms
    for context in 1..200 {
        world.run(Duration::from_millis(1));
        world.read(2, 1, context, remote, 8);
    }
    assert_eq!(world.completions(0).len(), 4);
}

#[test]
fn a_forbidden_access_ends_in_its_error_and_changes_nothing() {
    let mut world = World::new(2, 5, &small(), Faults::NONE);
    let remote = world.region(1, 1000, 100, Access::READ);
    let wrong = Remote { key: remote.key ^ 1 << 50, ..remote };
    world.write(0, 1, 0, remote, Some(1), pattern(0, 50));
    world.write(0, 1, 1, wrong, None, pattern(0, 5000));
    world.read(0, 1, 2, Remote { address: 1090, ..remote }, 11);
    world.read(0, 1, 3, Remote { address: 999, ..remote }, 1);
    world.read(0, 1, 4, wrong, 8);
    world.fetch_add(0, 1, 5, remote, 1);
    world.read(0, 1, 6, Remote { address: 1090, ..remote }, 10);
    world.run(SECOND);
    let mut ends: Vec<_> = world.completions(0).iter().map(|c| (c.context.0, c.outcome)).collect();
    ends.sort_unstable_by_key(|end| end.0);
    let key = Err(OpError::Key);
    let bounds = Err(OpError::Bounds);
    let expected = [key, key, bounds, bounds, key, key, Ok(())];
    assert_eq!(ends, (0..).zip(expected).collect::<Vec<_>>());
    assert!(world.region_bytes(1, remote.key).iter().all(|&b| b == 0xaa));
    assert!(world.completions(1).is_empty(), "no event of a write that failed");
}

#[test]
fn a_region_that_is_taken_back_is_not_read_any_more() {
    let mut world = World::new(2, 6, &small(), Faults { delay: 20_000, ..Faults::NONE });
    let remote = world.region(1, 0, 400_000, Access::READ);
    world.read(0, 1, 0, remote, 400_000);
    assert!(world.run_until(SECOND, |w| w.nodes[0].memory.placed > 50_000));
    let id = world.deregister(1, remote.key);
    world.run(SECOND);
    assert_eq!(world.completions(0)[0].outcome, Err(OpError::Key));
    assert_eq!(world.nodes[1].engine.deregister_region(id), Err(Unknown));
}

#[test]
fn long_messages_are_read_whether_expected_or_not() {
    for (seed, len) in (0..40).zip([33_000usize, 64 << 10, 200_000, 1 << 20].iter().cycle()) {
        let mut world = World::new(2, seed, &small(), bad());
        let posted_first = seed % 2 == 0;
        if posted_first {
            world.recv(1, 1, *len);
        }
        world.send(0, 1, 5, pattern(seed, *len));
        world.run(Duration::from_millis(3));
        if !posted_first {
            world.recv(1, 1, *len);
        }
        let done = |w: &World| w.nodes.iter().all(|n| !n.completions.is_empty());
        assert!(world.run_until(SECOND * 20, done), "seed {seed}");
        assert_eq!(world.completions(0)[0].outcome, Ok(()));
        assert!(world.received(1, 1) == pattern(seed, *len), "seed {seed}");
        assert!(world.nodes[1].engine.stats().rendezvous > 0);
        world.run(SECOND * 5);
        assert!(world.nodes.iter().all(|n| n.engine.poll_at().is_none()), "no timer is set");
        assert_eq!(world.nodes[0].engine.posted_operations(), 0);
    }
}

/// A progress call without received packets makes one attempt for each message that waits for
/// credit.
#[test]
fn messages_that_wait_for_credit_are_tried_once_a_call() {
    const MESSAGES: u64 = 4;
    let mut world = World::new(2, 9, &small(), Faults::NONE);
    for number in 0..MESSAGES {
        world.recv(1, number, 1 << 20);
        world.send(0, 1, number, pattern(number, 1 << 20));
    }
    let waits = |w: &World| w.nodes[1].engine.stats().credit_waits;
    assert!(world.run_until(SECOND, |w| waits(w) > 0));
    let before = waits(&world);
    for _ in 0..10 {
        world.drive(1, Budget::PROGRESS);
    }
    assert_eq!(waits(&world) - before, 10 * MESSAGES);
    assert!(world.run_until(SECOND * 20, |w| w.nodes[1].completions.len() as u64 == MESSAGES));
}

#[test]
fn a_silent_peer_leaves_slots_for_rendezvous_reads_from_others() {
    const LEN: usize = 40 << 16;
    for silent in [1, 2, 5] {
        let config = Config { rendezvous_reads: 32, responders: 64, eager_max: 1 << 10, ..small() };
        let mut world = World::new(silent + 2, 78, &config, Faults::NONE);
        let others = 1..=silent;
        // The most credits that exist.
        for node in others.clone() {
            world.recv(0, node as u64, LEN);
            world.send(node, 0, 0, pattern(node as u64, LEN));
            assert!(
                world.run_until(Duration::from_secs(1), |w| !w.nodes[0].completions.is_empty())
            );
            world.completions(0);
        }
        // All peers announce another long message, and fall silent.
        for node in others.clone() {
            world.send(node, 0, 1, pattern(node as u64, LEN));
        }
        let announced = |w: &World| w.nodes[0].engine.stored_messages() == silent as u32;
        assert!(world.run_until(Duration::from_millis(1), announced));
        world.link.cut.extend(others.clone().map(address));
        for node in others {
            world.recv(0, 10 + node as u64, LEN);
        }
        world.drive(0, Budget::PROGRESS);
        world.recv(0, 30, LEN);
        world.send(silent + 1, 0, 2, pattern(30, LEN));
        let came = |w: &World| !w.nodes[0].completions.is_empty();
        assert!(world.run_until(Duration::from_secs(1), came), "{silent} are silent");
        assert_eq!(world.completions(0)[0].context.0, 30);
        assert!(world.received(0, 30) == pattern(30, LEN));
        world.run(Duration::from_secs(20));
        assert_eq!(world.completions(0).len(), silent, "and those end in time");
    }
}

#[test]
fn a_long_message_waits_for_its_receive_longer_than_the_peer_timeout() {
    let mut world = World::new(2, 8, &small(), Faults::NONE);
    world.send(0, 1, 5, pattern(1, 100_000));
    world.run(SECOND * 60);
    world.recv(1, 1, 100_000);
    world.drive(1, Budget::PROGRESS);
    world.run(SECOND);
    assert_eq!(world.completions(0)[0].outcome, Ok(()));
    assert_eq!(world.received(1, 1), pattern(1, 100_000));
}

#[test]
fn a_truncated_long_message_fills_the_buffer_and_says_so() {
    let mut world = World::new(2, 9, &small(), Faults::NONE);
    for (n, room) in [(1, 70_000usize), (2, 0)] {
        world.recv(1, n, room);
        world.send(0, 1, n, pattern(1, 100_000));
        world.run(SECOND);
        assert_eq!(world.completions(0)[0].outcome, Ok(()));
        let done = world.completions(1)[0];
        assert_eq!(done.outcome, Err(OpError::Truncated));
        assert_eq!((done.len, done.overflow), (room as u64, 100_000 - room as u64));
        assert_eq!(world.received(1, n), pattern(1, 100_000)[..room]);
    }
}

#[test]
fn a_fence_waits_for_earlier_operations() {
    for seed in 0..20 {
        let mut world = World::new(2, seed, &small(), bad());
        let remote = world.region(1, 0, 20_000, Access::READ | Access::WRITE);
        world.write(0, 1, 1, remote, None, pattern(3, 20_000));
        let id = world.read_with(0, 1, |r| r.common.fence = true, remote, 20_000);
        let done = |w: &World| w.nodes[0].completions.len() == 2;
        assert!(world.run_until(SECOND * 20, done), "seed {seed}");
        assert!(world.nodes[0].memory.returned(id).unwrap() == pattern(3, 20_000), "seed {seed}");
    }
}

#[test]
fn promised_orders_hold() {
    for seed in 0..40 {
        let config = Config { order: Order::all(), ..small() };
        let mut world = World::new(2, seed, &config, bad());
        let remote = world.region(1, 0, 5_000, Access::READ | Access::WRITE);
        let mut reads = Vec::new();
        for n in 0..12u64 {
            world.write(0, 1, n, remote, None, pattern(n, 5_000));
            reads.push((n, world.read(0, 1, 100 + n, remote, 5_000)));
        }
        let done = |w: &World| w.nodes[0].completions.len() == 24;
        assert!(world.run_until(SECOND * 60, done), "seed {seed}");
        for (n, id) in reads {
            assert!(
                world.nodes[0].memory.returned(id).unwrap() == pattern(n, 5_000),
                "seed {seed}"
            );
        }
    }
}

/// Every 64th packet asks for an acknowledgment, and the last one that the window allows.
#[test]
fn few_packets_of_a_long_write_ask_for_an_acknowledgment() {
    const LEN: usize = 1 << 20;
    let mut world = World::new(2, 1, &small(), Faults::NONE);
    let remote = world.region(1, 0, LEN, Access::WRITE);
    world.link.tap = Some(Vec::new());
    world.write(0, 1, 7, remote, None, pattern(1, LEN));
    world.run(SECOND);
    assert_eq!(world.completions(0)[0].outcome, Ok(()));
    let packets = world.link.tap.take().unwrap();
    let is_data = |bytes: &[u8]| bytes[1] == wire::PacketKind::Data as u8;
    let data: Vec<_> = packets.iter().map(|packet| &packet.2).filter(|one| is_data(one)).collect();
    let asks = |bytes: &[u8]| bytes[2] & wire::Flags::ACK_REQUEST.bits() != 0;
    let asking = data.iter().filter(|packet| asks(packet)).count();
    assert!(data.len() > LEN / 1472, "{} packets", data.len());
    assert!((data.len() / 64..data.len() / 8).contains(&asking), "{asking} of {}", data.len());
}
