// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages, one aspect a test, on a link without faults unless the test is about them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::*;
use std::time::Duration;
use world::*;

const SECOND: Duration = Duration::from_secs(1);

fn sizes() -> impl Iterator<Item = usize> {
    [0, 1, 7, 8, 9, 1407, 1408, 1409, 1423, 1424, 1425, 1426, 2816, 2817, 65_536, 1 << 20]
        .into_iter()
}

#[test]
fn messages_of_every_size_arrive_whole() {
    for len in sizes() {
        let mut world = World::new(2, 1, &small(), Faults::NONE);
        world.recv(1, 7, len);
        world.send(0, 1, 9, pattern(3, len));
        world.run(SECOND);
        let sent = world.completions(0);
        assert_eq!(sent.len(), 1, "{len} bytes");
        assert_eq!(
            (sent[0].context, sent[0].outcome, sent[0].len),
            (Context(9), Ok(()), len as u64)
        );
        let got = world.completions(1);
        assert_eq!(got.len(), 1);
        assert_eq!((got[0].context, got[0].outcome, got[0].len), (Context(7), Ok(()), len as u64));
        assert_eq!(world.nodes[1].engine.peer_address(got[0].peer), Some(address(0)));
        assert_eq!(world.received(1, 7), pattern(3, len));
    }
}

#[test]
fn unexpected_messages_wait_for_their_receive() {
    for len in sizes().filter(|&len| len <= 32 << 10) {
        let mut world = World::new(2, 2, &small(), Faults::NONE);
        world.send(0, 1, 9, pattern(3, len));
        world.run(SECOND);
        assert_eq!(world.completions(0).len(), 1, "buffered at the peer is complete");
        assert_eq!(world.nodes[1].engine.stats().messages_unexpected, 1);
        world.recv(1, 7, len);
        world.drive(1, Budget::PROGRESS);
        assert_eq!(world.completions(1)[0].outcome, Ok(()));
        assert_eq!(world.received(1, 7), pattern(3, len));
    }
}

#[test]
fn a_report_tells_what_waits() {
    let config = Config { unexpected: [2, 0, 0, 0], ..small() };
    let mut world = World::new(2, 13, &config, Faults::NONE);
    let waits = |w: &World| {
        let report = w.nodes[0].engine.peer_reports().next()?;
        Some((report.posted, report.unsent, report.receiver_not_ready))
    };
    for n in 0..40 {
        world.send(0, 1, n, pattern(n, 5000));
    }
    let refused = |w: &mut World| {
        w.run(Duration::from_micros(10));
        waits(w) == Some((true, true, true))
    };
    assert!((0..5000).any(|_| refused(&mut world)), "{:?}", waits(&world));
    for n in 0..40 {
        world.recv(1, n, 5000);
        world.run(Duration::from_micros(700));
    }
    world.run(SECOND);
    world.send(0, 1, 41, pattern(1, 60));
    world.run(Duration::from_micros(300));
    assert_eq!(waits(&world), Some((false, false, false)), "the peer has stored it");
}

#[test]
fn a_fuller_receiver_lowers_the_eager_limit() {
    let mut world = World::new(2, 2, &small(), Faults::NONE);
    // For this long, an idle connection keeps its knowledge of the peer.
    const SOON: Duration = Duration::from_micros(300);
    let by_rendezvous = |w: &World| w.nodes[1].engine.stats().rendezvous;
    for (len, fills) in [(20_000, 4), (2_049, 4), (2_048, 4)] {
        world.send(0, 1, 0, pattern(1, len));
        world.run(SOON);
        let report = world.nodes[0].engine.peer_reports().next().unwrap();
        assert_eq!(report.occupancy, fills, "{len} bytes: eighths of one class");
    }
    for (context, expected) in [(1, 0), (2, 1), (3, 1)] {
        world.recv(1, context, 20_000);
        world.run(SOON);
        assert_eq!(by_rendezvous(&world), expected, "message {context}");
    }
    world.recv(1, 4, 20_000);
    world.send(0, 1, 0, pattern(1, 20_000));
    world.run(SOON);
    assert_eq!(by_rendezvous(&world), 1, "there is room again");
    assert_eq!(world.received(1, 4), pattern(1, 20_000));
}

#[test]
fn a_receive_posted_while_the_message_arrives_gets_it() {
    let mut world = World::new(2, 3, &small(), Faults::NONE);
    let len = 100_000;
    world.send(0, 1, 9, pattern(3, len));
    assert!(world.run_until(SECOND, |w| w.nodes[1].engine.stats().messages_unexpected == 1));
    world.recv(1, 7, len);
    world.run(SECOND);
    assert_eq!(world.completions(1)[0].outcome, Ok(()));
    assert_eq!(world.received(1, 7), pattern(3, len));
}

#[test]
fn tags_and_data_travel_and_match() {
    let mut world = World::new(2, 4, &small(), Faults::NONE);
    let tag = |tag, ignore| Some(TagMatch { tag, ignore });
    world.recv_with(1, 8, |r| (r.context, r.tag) = (Context(1), tag(0xff, 0))).unwrap();
    world.recv_with(1, 8, |r| (r.context, r.tag) = (Context(2), tag(0x10, 0xf))).unwrap();
    world.recv_with(1, 8, |r| r.context = Context(3)).unwrap();
    for (t, context) in [(Some(0x15), 10), (None, 11), (Some(0xff), 12)] {
        let request = |r: &mut SendRequest| {
            (r.tag, r.common.context, r.data) = (t, Context(context), Some(context << 40));
        };
        world.send_with(0, 1, request, pattern(context, 8)).unwrap();
    }
    world.run(SECOND);
    let mut got = world.completions(1);
    got.sort_by_key(|c| c.context.0);
    let seen: Vec<_> = got.iter().map(|c| (c.context.0, c.tag, c.data)).collect();
    let expected = [(1, 0xff, Some(12 << 40)), (2, 0x15, Some(10 << 40)), (3, 0, Some(11 << 40))];
    assert_eq!(seen, expected);
    assert_eq!(world.received(1, 2), pattern(10, 8));
}

#[test]
fn directed_receives_take_from_their_peer_only() {
    let mut world = World::new(3, 5, &small(), Faults::NONE);
    let two = world.peer(0, 2);
    world.recv_with(0, 8, |r| (r.context, r.from) = (Context(1), Some(two))).unwrap();
    world.send(1, 0, 0, pattern(1, 8));
    world.run(SECOND);
    assert!(world.completions(0).is_empty());
    world.send(2, 0, 0, pattern(2, 8));
    world.run(SECOND);
    let got = world.completions(0);
    assert_eq!((got.len(), got[0].peer), (1, two));
    assert_eq!(world.received(0, 1), pattern(2, 8));
}

#[test]
fn a_short_buffer_gets_the_beginning_and_an_error() {
    for (len, room) in [(100, 30), (10_000, 3000), (10_000, 0), (5, 4)] {
        for posted_first in [true, false] {
            let mut world = World::new(2, 6, &small(), Faults::NONE);
            if posted_first {
                world.recv(1, 1, room);
            }
            world.send(0, 1, 0, pattern(1, len));
            world.run(SECOND);
            if !posted_first {
                world.recv(1, 1, room);
                world.drive(1, Budget::PROGRESS);
            }
            let got = world.completions(1);
            assert_eq!(got[0].outcome, Err(OpError::Truncated));
            assert_eq!((got[0].len, got[0].overflow), (room as u64, (len - room) as u64));
            assert_eq!(world.received(1, 1), pattern(1, len)[..room]);
            assert_eq!(world.completions(0)[0].outcome, Ok(()), "the sender has done its part");
        }
    }
}

#[test]
fn small_messages_share_packets() {
    let mut world = World::new(2, 7, &small(), Faults::NONE);
    for n in 0..100 {
        world.recv(1, n, 8);
    }
    for n in 0..100 {
        world.send(0, 1, n, pattern(n, 8));
    }
    world.run(SECOND);
    let got = world.completions(1);
    assert_eq!(got.iter().map(|c| c.context.0).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    for n in 0..100 {
        assert_eq!(world.received(1, n), pattern(n, 8), "in order");
    }
    let packets = world.nodes[0].engine.stats().data_packets_sent;
    assert!(packets <= 3, "100 messages of 8 bytes in {packets} packets");
}

#[test]
fn a_request_with_more_to_come_waits_for_it() {
    let mut world = World::new(2, 8, &small(), Faults::NONE);
    world.send(0, 1, 0, pattern(0, 8));
    world.run(SECOND);
    let before = world.nodes[0].engine.stats().data_packets_sent;
    for n in 0..10 {
        world.send_with(0, 1, |r| r.common.more = n < 9, pattern(n, 8)).unwrap();
    }
    assert_eq!(world.nodes[0].engine.stats().data_packets_sent, before + 1);
}

/// The connection was ready to send when the call uncorked the others.
#[test]
fn a_message_behind_a_long_write_is_corked_until_the_next_call() {
    let config = Config { congestion: Congestion::Fixed(300), ..small() };
    let mut world = World::new(2, 9, &config, Faults::NONE);
    let len = 200_000;
    let region = world.region(1, 0, len, Access::WRITE);
    world.send(0, 1, 0, pattern(0, 8));
    world.run(SECOND);
    world.write(0, 1, 1, region, None, pattern(1, len));
    world.send(0, 1, 2, pattern(2, 8));
    let sent = |world: &World| world.nodes[0].engine.stats().packets_sent;
    let mut waits = false;
    // No packet of the peer arrives meanwhile.
    for _ in 0..3 {
        world.drive(0, Budget::PROGRESS);
        let (engine, before) = (&world.nodes[0].engine, sent(&world));
        if engine.has_corked() {
            waits = true;
            assert!(!engine.wants_transmit());
            world.drive(0, Budget::PROGRESS);
            assert_eq!(sent(&world), before + 1, "the message");
            assert!(!world.nodes[0].engine.has_corked());
        }
    }
    assert!(waits);
}

#[test]
fn cancel_ends_unmatched_receives() {
    let mut world = World::new(2, 9, &small(), Faults::NONE);
    world.recv(1, 5, 8);
    assert!(!world.nodes[1].engine.cancel(Context(6)));
    assert!(world.nodes[1].engine.cancel(Context(5)));
    assert!(!world.nodes[1].engine.cancel(Context(5)), "once");
    world.drive(1, Budget::PROGRESS);
    let got = world.completions(1);
    assert_eq!((got.len(), got[0].outcome), (1, Err(OpError::Cancelled)));
    world.send(0, 1, 0, pattern(0, 8));
    world.run(SECOND);
    assert!(world.completions(1).is_empty(), "a cancelled receive takes no message");
}

#[test]
fn an_endpoint_can_send_to_itself() {
    let mut world = World::new(1, 10, &small(), Faults::NONE);
    world.recv(0, 1, 5000);
    world.send(0, 0, 2, pattern(4, 5000));
    world.run(SECOND);
    assert_eq!(world.completions(0).iter().filter(|c| c.outcome == Ok(())).count(), 2);
    assert_eq!(world.received(0, 1), pattern(4, 5000));
}

#[test]
fn unsignalled_success_is_silent() {
    let mut world = World::new(2, 11, &small(), Faults::NONE);
    for _ in 0..500 {
        world.recv_with(1, 8, |r| r.signal = false).unwrap();
        world.send_with(0, 1, |r| r.common.signal = false, pattern(0, 8)).unwrap();
        world.run(Duration::from_micros(30));
    }
    world.run(SECOND);
    assert!(world.completions(0).is_empty() && world.completions(1).is_empty());
    assert_eq!(world.nodes[1].engine.stats().messages_accepted, 500, "slots came back each time");
}

#[test]
fn full_pools_say_again_and_recover() {
    let config = Config { sends: 4, recvs: 4, ..small() };
    let mut world = World::new(2, 12, &config, Faults::NONE);
    for n in 0..4 {
        world.send(0, 1, n, pattern(n, 8));
        world.recv(1, n, 8);
    }
    assert_eq!(world.send_with(0, 1, |_| (), pattern(0, 8)), Err(PostError::Again));
    assert_eq!(world.recv_with(1, 8, |r| r.context = Context(9)), Err(PostError::Again));
    world.run(SECOND);
    world.send(0, 1, 4, pattern(4, 8));
    world.recv(1, 4, 8);
    world.run(SECOND);
    assert_eq!(world.completions(1).len(), 5);
}

#[test]
fn a_refused_post_opens_no_connection() {
    let config = Config { sends: 1, ..small() };
    let mut world = World::new(3, 12, &config, Faults::NONE);
    world.send(0, 1, 0, pattern(0, 8));
    let packets = world.link.packets;
    assert_eq!(world.send_with(0, 2, |_| (), pattern(0, 8)), Err(PostError::Again));
    world.drive(0, Budget::PROGRESS);
    assert_eq!(world.link.packets, packets, "nothing was said to the third");
}

#[test]
fn a_receiver_without_storage_says_so_and_gets_everything_later() {
    let config = Config { unexpected: [2, 0, 0, 0], ..small() };
    let mut world = World::new(2, 13, &config, Faults::NONE);
    for n in 0..40 {
        world.send(0, 1, n, pattern(n, if n % 3 == 0 { 5000 } else { 60 }));
    }
    world.run(Duration::from_millis(50));
    assert!(world.nodes[1].engine.stats().receiver_not_ready > 0);
    assert!(world.completions(0).len() <= 2, "what was not accepted is not complete");
    for n in 0..40 {
        world.recv(1, n, 5000);
        world.run(Duration::from_micros(700));
    }
    world.run(SECOND);
    let got = world.completions(1);
    assert_eq!(got.len(), 40);
    for (n, completion) in got.iter().enumerate() {
        let len = if n % 3 == 0 { 5000 } else { 60 };
        assert_eq!((completion.context.0, completion.len), (n as u64, len));
        assert_eq!(world.received(1, n as u64)[..len as usize], pattern(n as u64, len as usize));
    }
}

/// Refused messages around writes that have ended meanwhile. In the second attempt the messages
/// follow each other without being neighbours in the list, so one packet record cannot stand for
/// both.
#[test]
fn refused_messages_around_writes_that_ended_all_end() {
    let config = Config { unexpected: [1, 0, 0, 0], ..small() };
    let mut world = World::new(2, 13, &config, Faults::NONE);
    let remote = world.region(1, 0, 16, Access::WRITE);
    for n in 0..4 {
        world.send(0, 1, n, pattern(n, 60));
        world.write(0, 1, 10 + n, remote, None, pattern(n, 16));
    }
    world.run(Duration::from_millis(5));
    let writes =
        |w: &World| w.nodes[0].completions.iter().filter(|one| one.context.0 >= 10).count();
    assert_eq!(writes(&world), 4, "writes do not wait for receives");
    for n in 0..4 {
        world.recv(1, n, 60);
    }
    assert!(world.run_until(SECOND, |w| w.nodes[0].completions.len() == 8));
    for n in 0..4 {
        assert_eq!(world.received(1, n), pattern(n, 60));
    }
}

#[test]
fn an_idle_network_sends_nothing_and_gives_its_state_back() {
    let mut world = World::new(2, 14, &small(), Faults::NONE);
    world.recv(1, 1, 8);
    world.send(0, 1, 1, pattern(1, 8));
    world.run(SECOND);
    let packets = world.link.packets;
    assert!(world.nodes.iter().all(|n| n.engine.poll_at().is_none()), "no timer runs");
    world.now += 300_000_000_000;
    world.recv(1, 2, 8);
    world.send(0, 1, 2, pattern(2, 8));
    world.run(SECOND);
    assert_eq!(world.completions(1).len(), 2);
    assert!(world.link.packets <= packets + 2, "the connection was still there");
}
