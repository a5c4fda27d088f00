// SPDX-License-Identifier: MIT OR Apache-2.0
//! Refused attempts: receiver-not-ready, at the receiver (`docs/PROTOCOL.md` §6.4).

use crate::puppet::*;
use crate::world::*;
use ofi_xdp_core::wire::PacketKind;
use ofi_xdp_core::*;
use std::time::Duration;

#[test]
fn segments_of_two_attempts_are_not_counted_together() {
    let mut puppet = Puppet::connected(&small());
    puppet.world.recv(0, 1, 128);
    let first = puppet.data(&segment(0, 128, 0, &[1; 64]));
    puppet.deliver(first);
    puppet.head.rnr_epoch = 1;
    let other = puppet.data(&segment(0, 128, 64, &[9; 64]));
    puppet.deliver(other);
    assert_eq!(puppet.ends(), []);
    assert_eq!(puppet.engine().stats().records_discarded, 1);
    puppet.head.rnr_epoch = 0;
    let second = puppet.data(&segment(0, 128, 64, &[2; 64]));
    puppet.deliver(second);
    assert_eq!(puppet.ends(), [(1, Ok(()))]);
    assert_eq!(puppet.world.received(0, 1), [[1; 64], [2; 64]].concat());
}

#[test]
fn messages_of_an_attempt_that_came_to_nothing_are_not_taken_in() {
    let config = Config { unexpected: [0; 4], ..small() };
    let mut puppet = Puppet::connected(&config);
    let refused = puppet.data(&message(0, b"one"));
    puppet.deliver(refused);
    let notified = puppet.sent().pop().unwrap();
    assert!(notified.parsed().header.receiver_status().receiver_not_ready_in(0));
    puppet.world.recv(0, 1, 8);
    puppet.world.recv(0, 2, 8);
    // Packets of the same attempt are discarded, whether or not a receive is posted now.
    let same = puppet.data(&message(0, b"one"));
    puppet.deliver(same);
    assert_eq!(puppet.ends(), []);
    // The second attempt; then a packet of the first one, which was in flight all the time.
    puppet.head.rnr_epoch = 1;
    let again = puppet.data(&message(0, b"one"));
    puppet.deliver(again);
    assert_eq!(puppet.ends(), [(1, Ok(()))]);
    puppet.head.rnr_epoch = 0;
    let late = puppet.data(&message(1, b"old"));
    puppet.deliver(late);
    assert_eq!(puppet.ends(), []);
    puppet.head.rnr_epoch = 1;
    let next = puppet.data(&message(1, b"new"));
    puppet.deliver(next);
    assert_eq!(puppet.ends(), [(2, Ok(()))]);
    assert_eq!(puppet.world.received(0, 2)[..3], *b"new");
    // All packets were acknowledged: a discarded one counts as received, too.
    puppet.pass(20 * MICRO);
    let acknowledged = puppet.sent().iter().map(|p| p.parsed().header.ack_psn()).next_back();
    assert_eq!(acknowledged, Some(puppet.head.psn));
}

#[test]
fn an_old_refusal_does_not_start_a_sender_over_again() {
    let mut puppet = Puppet::connected(&small());
    puppet.send(5, vec![1; 8]);
    assert_eq!(puppet.sent_data().len(), 1);
    let refusal = |attempt| wire::ReceiverStatus::new(0, true, attempt);
    let refuse = |puppet: &mut Puppet, attempt| {
        let head = Head { receiver_status: refusal(attempt), ..puppet.now(PacketKind::Ping) };
        puppet.deliver(head.packet(&[]));
    };
    for attempt in [1, 2, 15] {
        refuse(&mut puppet, attempt);
    }
    assert_eq!(puppet.engine().stats().restarts_after_rnr, 0);
    refuse(&mut puppet, 0);
    refuse(&mut puppet, 0);
    assert_eq!(puppet.engine().stats().restarts_after_rnr, 1);
    puppet.sent();
    puppet.pass(70 * MICRO);
    let again = puppet.sent_data();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].psn(), puppet.first.plus(1), "under a new number");
    assert_eq!(again[0].parsed().header.rnr_epoch, 1);
}

/// The second attempt of a message is accepted, and its slot is free. The packet of the first
/// attempt is still missing.
fn leave_superseded_packet(puppet: &mut Puppet) {
    puppet.send(5, vec![1; 8]);
    let head = Head {
        receiver_status: wire::ReceiverStatus::new(0, true, 0),
        ..puppet.now(PacketKind::Ping)
    };
    puppet.deliver(head.packet(&[]));
    puppet.pass(70 * MICRO);
    puppet.head.accepted = 1;
    let ack = puppet.ack(puppet.first, &[1]);
    puppet.deliver(ack);
    assert_eq!(puppet.ends(), [(5, Ok(()))]);
    assert_eq!(puppet.engine().posted_operations(), 0, "its slot is free");
}

#[test]
fn an_acknowledgment_is_not_credited_to_the_slots_next_operation() {
    let mut puppet = Puppet::connected(&small());
    leave_superseded_packet(&mut puppet);
    puppet.world.write(0, PUPPET, 6, Remote { key: 1, address: 0 }, None, vec![2; 8]);
    puppet.drive();
    let ack = puppet.ack(puppet.first.plus(2), &[]);
    puppet.deliver(ack);
    assert_eq!(puppet.ends(), []);
    let ack = puppet.ack(puppet.first.plus(3), &[]);
    puppet.deliver(ack);
    assert_eq!(puppet.ends(), [(6, Ok(()))]);
}

/// A header without a body that refuses the messages of an attempt.
fn refusal(puppet: &Puppet, attempt: u8) -> Vec<u8> {
    let receiver_status = wire::ReceiverStatus::new(0, true, attempt);
    Head { receiver_status, ..puppet.now(PacketKind::Ping) }.packet(&[])
}

#[test]
fn a_refusal_that_is_late_by_sixteen_attempts_does_not_start_a_sender_over() {
    for rested in [false, true] {
        let mut puppet = Puppet::connected(&small());
        puppet.send(5, vec![1; 8]);
        let late = refusal(&puppet, 0);
        for attempt in 0..16 {
            let refused = refusal(&puppet, attempt);
            puppet.deliver(refused);
            puppet.pass(20 * MILLI);
        }
        if !rested {
            puppet.deliver(late.clone());
            assert_eq!(puppet.engine().stats().restarts_after_rnr, 16);
        }
        // The packets in flight have arrived, and then the last attempt.
        for accepted in [0, 1] {
            let sent = puppet.sent_data().into_iter().map(|packet| packet.psn().plus(1));
            let next = sent.max_by_key(|psn| psn.since(puppet.first)).unwrap();
            (puppet.head.ack, puppet.head.accepted) = (next, accepted);
            let ack = puppet.ack(next, &[]);
            puppet.deliver(ack);
            puppet.pass(20 * MILLI);
        }
        assert_eq!(puppet.ends(), [(5, Ok(()))]);
        if rested {
            // The engine has forgotten its last arrival, and the packets in flight.
            puppet.pass(50 * MILLI);
            puppet.deliver(late);
            assert_eq!(puppet.engine().stats().restarts_after_rnr, 16);
        }
        puppet.send(6, vec![2; 8]);
        let sent = puppet.sent_data();
        assert_eq!(sent[0].parsed().header.rnr_epoch, 16, "the attempt that the peer waits for");
    }
}

#[test]
fn a_count_of_accepted_messages_from_long_ago_accepts_none() {
    let mut puppet = Puppet::connected(&small());
    let late = puppet.now(PacketKind::Ping).packet(&[]);
    let mut packets = 0;
    for batch in 0..1024 {
        for n in 0..64 {
            puppet.world.send(0, PUPPET, batch * 64 + n, vec![0; 8]);
        }
        puppet.drive();
        packets += puppet.sent_data().len() as u32;
        puppet.head.ack = puppet.first.plus(packets);
        puppet.world.now += 10 * MICRO;
        if batch < 1023 {
            puppet.head.accepted += 64;
        }
        let ack = puppet.ack(puppet.head.ack, &[]);
        puppet.deliver(ack);
        packets += puppet.sent_data().len() as u32;
        assert_eq!(puppet.ends().len(), if batch < 1023 { 64 } else { 0 });
    }
    // The refusal was for no message. Now it looks like one for all messages, of which the last 64
    // were not accepted.
    puppet.deliver(late);
    assert_eq!(puppet.ends(), []);
    puppet.head.accepted = 0;
    let ack = puppet.ack(puppet.head.ack, &[]);
    puppet.deliver(ack);
    assert_eq!(puppet.ends().len(), 64);
}

#[test]
fn an_out_of_order_message_without_storage_is_acknowledged_at_once() {
    let config = Config { unexpected: [2, 0, 0, 0], ..small() };
    let mut puppet = Puppet::connected(&config);
    let missing = puppet.data(&message(0, b"a"));
    // Two of these are stored; the third is not, and all arrive together again.
    let three: Vec<u8> = (1..4).flat_map(|msn| message(msn, b"b")).collect();
    let out_of_order = puppet.data(&three);
    for refused in 1..3 {
        puppet.deliver(out_of_order.clone());
        assert_eq!(puppet.engine().stats().dropped(DropReason::OutOfOrderWithoutStorage), refused);
        let ack = puppet.sent().pop().unwrap();
        assert_eq!(ack.kind(), PacketKind::Ack);
        assert_eq!(ack.parsed().header.ack_psn(), BASE);
    }
    assert_eq!(puppet.engine().stats().messages_out_of_order, 2, "each once");
    for context in 0..4 {
        puppet.world.recv(0, context, 8);
    }
    puppet.deliver(missing);
    puppet.deliver(out_of_order);
    assert_eq!(puppet.ends(), [0, 1, 2, 3].map(|context| (context, Ok(()))));
}

#[test]
fn out_of_order_messages_are_accepted_in_their_order() {
    for order in [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [3, 5, 1, 4, 2], [1, 5, 2, 4, 3]] {
        let mut puppet = Puppet::connected(&small());
        let packets: Vec<_> = (0..6).map(|msn| puppet.data(&message(msn, &[msn as u8]))).collect();
        for context in 0..6 {
            puppet.world.recv(0, context, 1);
        }
        for msn in order {
            puppet.deliver(packets[msn].clone());
            assert_eq!(puppet.ends(), []);
        }
        puppet.deliver(packets[0].clone());
        assert_eq!(puppet.ends().len(), 6);
        for context in 0..6 {
            assert_eq!(puppet.world.received(0, context), [context as u8]);
        }
    }
}

#[test]
fn messages_that_never_grow_take_half_of_the_assemblies() {
    let mut puppet = Puppet::connected(&small());
    let assemblies = small().assemblies;
    for number in 0..assemblies {
        let first_half = puppet.data(&segment(number, 2, 0, &[1]));
        puppet.deliver(first_half);
    }
    let accepted = puppet.engine().stats().messages_accepted;
    assert_eq!(accepted, u64::from(assemblies / 2 + 1));
    let refusal = puppet.sent().pop().unwrap();
    assert!(refusal.parsed().header.receiver_status().receiver_not_ready_in(0));
}

/// A segment of 64 bytes of message `msn`, which has 192.
fn part(msn: u32, number: u64) -> Vec<u8> {
    segment(msn, 192, 64 * number, &[number as u8 + 1; 64])
}

#[test]
fn a_message_of_which_a_part_came_twice_and_another_never_does_not_complete() {
    for (posted, parts) in [(true, [0, 0, 1]), (true, [0, 1, 1]), (false, [2, 1, 2])] {
        let mut puppet = Puppet::connected(&small());
        if posted {
            puppet.world.recv(0, 1, 192);
        }
        for number in parts {
            let packet = puppet.data(&part(0, number));
            puppet.deliver(packet);
        }
        if !posted {
            assert_eq!(puppet.engine().stored_messages(), 0, "it is gone");
            puppet.world.recv(0, 1, 192);
        }
        let expected = if posted { vec![(1, Err(OpError::Reset))] } else { vec![] };
        assert_eq!(puppet.ends(), expected);
        assert_eq!(puppet.engine().stats().dropped(DropReason::Overlap), 1);
        assert_eq!(puppet.engine().connections(), 0);
        let reset = puppet.sent().pop().unwrap();
        assert_eq!(reset.kind(), PacketKind::Reset);
    }
}

#[test]
fn parts_that_overlap_by_some_bytes_do_not_complete_a_message() {
    let mut puppet = Puppet::connected(&small());
    puppet.world.recv(0, 1, 192);
    for (offset, len) in [(0, 64), (56, 64), (128, 64)] {
        let packet = puppet.data(&segment(0, 192, offset, &vec![7; len]));
        puppet.deliver(packet);
    }
    assert_eq!(puppet.ends(), [(1, Err(OpError::Reset))]);
}

#[test]
fn parts_of_any_length_in_any_order_complete_a_message() {
    let mut puppet = Puppet::connected(&small());
    puppet.world.recv(0, 1, 192);
    for (offset, len) in [(130, 62), (0, 100), (100, 30)] {
        let packet = puppet.data(&segment(0, 192, offset, &vec![7; len]));
        puppet.deliver(packet);
    }
    assert_eq!(puppet.ends(), [(1, Ok(()))]);
    assert_eq!(puppet.world.received(0, 1), [7; 192]);
}

#[test]
fn a_packet_without_storage_is_refused_at_its_first_record_until_a_message_leaves() {
    let config = Config { unexpected: [2, 0, 0, 0], ..small() };
    let mut puppet = Puppet::connected(&config);
    let missing = puppet.data(&message(0, b"a"));
    let three: Vec<u8> = (1..4).flat_map(|msn| message(msn, b"b")).collect();
    let packet = puppet.data(&three);
    for _ in 0..3 {
        puppet.deliver(packet.clone());
    }
    assert_eq!(puppet.engine().stats().records_discarded, 0, "stored ones are not looked up again");
    puppet.world.recv(0, 0, 8);
    puppet.world.recv(0, 1, 8);
    puppet.deliver(missing);
    puppet.deliver(packet);
    assert_eq!(puppet.engine().stats().messages_accepted, 4);
}

#[test]
fn an_out_of_order_message_that_was_refused_is_stored_when_another_has_left() {
    let config = Config { unexpected: [1, 0, 0, 0], ..small() };
    let mut puppet = Puppet::connected(&config);
    let packets: Vec<_> = (0..4).map(|msn| puppet.data(&message(msn, b"c"))).collect();
    for number in [1, 3, 3] {
        puppet.deliver(packets[number].clone());
    }
    let refused = DropReason::OutOfOrderWithoutStorage;
    assert_eq!(puppet.engine().stats().dropped(refused), 2);
    puppet.world.recv(0, 0, 8);
    puppet.world.recv(0, 1, 8);
    puppet.deliver(packets[0].clone());
    assert_eq!(puppet.ends().len(), 2);
    puppet.deliver(packets[3].clone());
    let stats = *puppet.engine().stats();
    assert_eq!((stats.messages_out_of_order, stats.dropped(refused)), (2, 2));
}

#[test]
fn a_count_of_messages_that_left_comes_round_and_refuses_none() {
    let config = Config { unexpected: [1, 0, 0, 0], ..small() };
    let mut puppet = Puppet::connected(&config);
    let packets: Vec<_> = (0..260).map(|msn| puppet.data(&message(msn, b"c"))).collect();
    for number in [1, 3] {
        puppet.deliver(packets[number].clone());
    }
    let refused = DropReason::OutOfOrderWithoutStorage;
    assert_eq!(puppet.engine().stats().dropped(refused), 1);
    // The first message finds a receive. As many as the count tells apart are stored and leave.
    puppet.world.recv(0, 0, 8);
    for (number, packet) in (0..=255).zip(&packets) {
        puppet.deliver(packet.clone());
        if number > 0 {
            puppet.world.recv(0, number % 100, 8);
            puppet.drive();
            puppet.ends();
        }
    }
    assert_eq!(puppet.engine().stored_messages(), 0);
    puppet.deliver(packets[258].clone());
    assert_eq!(puppet.engine().stored_messages(), 1);
    assert_eq!(puppet.engine().stats().dropped(refused), 1);
}

/// Messages out of order that a progress call accepts at the most, and as many more for a packet.
const NEXT: u64 = 64;
/// Messages behind a hole.
const BEHIND: u32 = 700;

/// A connection with messages 1 to [`BEHIND`], which have arrived before message 0.
fn with_messages_behind_a_hole() -> (Puppet, Vec<u8>) {
    let unexpected = [2 * BEHIND, 0, 0, 0];
    let mut puppet = Puppet::connected(&Config { unexpected, recvs: 1024, ..small() });
    let first = puppet.data(&message(0, &[0]));
    for msn in 1..=BEHIND {
        let packet = puppet.data(&message(msn, &msn.to_le_bytes()));
        puppet.deliver(packet);
    }
    assert_eq!(puppet.engine().stats().messages_out_of_order, u64::from(BEHIND));
    (puppet, first)
}

#[test]
fn a_progress_call_accepts_a_bounded_number_of_the_messages_behind_a_hole() {
    let (mut puppet, first) = with_messages_behind_a_hole();
    puppet.ingest(&first);
    assert_eq!(puppet.engine().stats().messages_accepted, 1);
    let now = puppet.world.time();
    assert_eq!(puppet.engine().poll_at(), Some(now), "more are due");
    puppet.drive();
    assert_eq!(puppet.engine().stats().messages_accepted, 1 + 2 * NEXT);
    puppet.pass(MILLI);
    assert_eq!(puppet.engine().stats().messages_accepted, 1 + u64::from(BEHIND));
    let last = puppet.sent().pop().unwrap();
    assert_eq!(u32::from(last.parsed().header.accepted_msn()), 1 + BEHIND, "the sender knows");
}

#[test]
fn messages_keep_their_order_while_those_behind_a_hole_follow() {
    let (mut puppet, first) = with_messages_behind_a_hole();
    for context in 0..u64::from(BEHIND) + 5 {
        puppet.world.recv(0, context, 4);
    }
    puppet.ingest(&first);
    for msn in BEHIND + 1..BEHIND + 5 {
        // The next message a second time, with other bytes: it is here.
        let accepted = puppet.engine().stats().messages_accepted as u32;
        let again = puppet.data(&message(accepted, &[0xff; 4]));
        puppet.ingest(&again);
        let packet = puppet.data(&message(msn, &msn.to_le_bytes()));
        puppet.deliver(packet);
    }
    puppet.pass(MILLI);
    assert_eq!(puppet.engine().stats().messages_accepted, u64::from(BEHIND) + 5);
    for msn in 1..BEHIND + 5 {
        assert_eq!(puppet.world.received(0, msn.into()), msn.to_le_bytes(), "message {msn}");
    }
}

#[test]
fn messages_that_had_their_turn_leave_with_their_connection() {
    let (mut puppet, first) = with_messages_behind_a_hole();
    puppet.deliver(first);
    let close = puppet.now(PacketKind::Close).packet(&[]);
    puppet.ingest(&close);
    let all = 1 + u64::from(BEHIND);
    assert_eq!(u64::from(puppet.engine().stored_messages()), all, "none left yet");
    puppet.drive();
    assert_eq!(u64::from(puppet.engine().stored_messages()), all - NEXT, "a bounded number left");
    assert_eq!(puppet.engine().poll_at(), Some(puppet.world.time()), "more are due");
    puppet.pass(MILLI);
    assert_eq!(puppet.engine().stats().messages_accepted, 1 + 2 * NEXT);
    assert_eq!(u64::from(puppet.engine().stored_messages()), 1 + 2 * NEXT);
}

#[test]
fn a_discarded_message_is_not_the_one_that_comes_again() {
    // An unnamed peer has half of the storage.
    let unexpected = [2 * BEHIND - 1, 0, 0, 0];
    let mut puppet = Puppet::connected(&Config { unexpected, recvs: 1024, ..small() });
    let first = puppet.data(&message(0, &[0]));
    for msn in 1..=BEHIND {
        let packet = puppet.data(&message(msn, &[0xff; 4]));
        puppet.deliver(packet);
    }
    puppet.ingest(&first);
    assert_eq!(puppet.engine().stats().receiver_not_ready, 1, "it has its share");
    for context in 0..=u64::from(BEHIND) {
        puppet.world.recv(0, context, 4);
    }
    // The sender starts over, with other bytes, while most of the discarded ones are still stored.
    puppet.head.rnr_epoch += 1;
    puppet.drive();
    for msn in (0..=BEHIND).rev() {
        let packet = puppet.data(&message(msn, &msn.to_le_bytes()));
        puppet.ingest(&packet);
        puppet.drive();
    }
    puppet.pass(MILLI);
    for msn in 0..=BEHIND {
        assert_eq!(puppet.world.received(0, msn.into()), msn.to_le_bytes(), "message {msn}");
    }
    assert_eq!(puppet.engine().stored_messages(), 0);
}

/// An identifier of an operation comes again after 2^12 others of its slot. The superseded packet
/// that has it is still under way then, and its peer acknowledges it.
#[test]
fn an_acknowledgment_is_not_credited_to_an_operation_for_another_peer() {
    let mut puppet = Puppet::beside_good_peer(&small()).connect();
    leave_superseded_packet(&mut puppet);
    let remote = puppet.world.region(GOOD, 0, 8, Access::WRITE);
    let begin = |puppet: &mut Puppet, context| {
        puppet.world.write(0, GOOD, context, remote, None, vec![2; 8]);
    };
    for context in 0..4095 {
        begin(&mut puppet, context);
        let ended = |world: &World| world.nodes[0].engine.posted_operations() == 0;
        assert!(puppet.world.run_until(Duration::from_secs(1), ended));
        assert_eq!(puppet.ends(), [(context, Ok(()))]);
    }
    puppet.world.link.cut.push(address(GOOD));
    puppet.sent();
    begin(&mut puppet, 4095);
    puppet.pass(MILLI);
    let again = puppet.sent_data();
    let to_puppet = again.iter().filter(|packet| packet.psn() == puppet.first);
    to_puppet.for_each(|packet| packet.records(|record| panic!("another peer's {record:?}")));
    let ack = puppet.ack(puppet.first.plus(2), &[]);
    puppet.deliver(ack);
    assert_eq!(puppet.ends(), [], "the good peer has not acknowledged it");
    assert_eq!(puppet.engine().posted_operations(), 1);
}
