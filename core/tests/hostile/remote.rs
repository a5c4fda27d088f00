// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remote memory access with a peer that breaks the rules, or a network that reorders and repeats
//! packets (`docs/PROTOCOL.md` §7, §8).

use crate::puppet::*;
use crate::world::*;
use ofi_xdp_core::wire::{Body, Flags, Record};
use ofi_xdp_core::*;
use std::time::Duration;

const SOMEWHERE: Remote = Remote { key: 77, address: 0 };

/// Configurations in which a peer has a credit of one request.
fn frugal() -> Config {
    Config { connections: 4, responders: 4, ..small() }
}

/// The statuses of the responses that the engine has sent.
fn statuses(puppet: &mut Puppet) -> Vec<Result<(), wire::ErrorCode>> {
    let mut found = Vec::new();
    for packet in puppet.sent() {
        packet.records(|record| {
            if let Record::Response(response) = record {
                found.push(response.status);
            }
        });
    }
    found
}

#[test]
fn a_key_that_was_taken_back_never_opens_the_slots_next_region() {
    let mut puppet = Puppet::connected(&small());
    let access = Access::READ | Access::WRITE;
    let former = puppet.world.region(0, 0, 64, access);
    let id = puppet.world.deregister(0, former.key);
    let next = puppet.world.region(0, 0, 64, access);
    assert_eq!(puppet.world.region_id(0, next.key).slot(), id.slot());
    for key in [former.key, next.key ^ 1 << 63] {
        let request = read_request(1, Remote { key, ..next }, 8);
        let data = puppet.data(&request);
        puppet.deliver(data);
        assert_eq!(statuses(&mut puppet), [Err(wire::ErrorCode::Key)]);
        puppet.head.ack = puppet.head.ack.plus(1);
    }
    let request = puppet.data(&read_request(1, next, 8));
    puppet.deliver(request);
    assert_eq!(statuses(&mut puppet), [Ok(())]);
    assert_eq!(puppet.engine().deregister_region(id), Err(Unknown));
}

#[test]
fn a_long_read_is_counted_once_all_its_parts_have_arrived() {
    let mut puppet = Puppet::connected(&Config { rma_events: true, ..small() });
    let remote = puppet.world.region(0, 0, 64, Access::READ);
    let counted = |puppet: &mut Puppet| puppet.engine().op_counters().target.reads;
    let [first, second, third] = [(0, false), (8, false), (16, true)]
        .map(|(at, last)| part_request(1, remote, (at, last), 8));
    let first = puppet.data(&first);
    puppet.deliver(first);
    // The last request waits for one that was lost.
    let (second, third) = (puppet.data(&second), puppet.data(&third));
    puppet.deliver(third.clone());
    assert_eq!(puppet.engine().stats().dropped(DropReason::BehindBarrier), 1);
    puppet.deliver(second);
    puppet.deliver(third);
    assert_eq!(puppet.sent_data().len(), 3, "a response for each");
    for arrived in [0b10, 0b11] {
        let ack = puppet.ack(puppet.first, &[arrived]);
        puppet.deliver(ack);
        assert_eq!(counted(&mut puppet), 0, "the first response may be sent again");
    }
    let ack = puppet.ack(puppet.first.plus(3), &[]);
    puppet.deliver(ack);
    assert_eq!(counted(&mut puppet), 1);
}

#[test]
fn a_request_beyond_the_credit_is_not_taken_in() {
    let mut puppet = Puppet::connected(&frugal());
    let remote = puppet.world.region(0, 0, 64, Access::READ);
    let both = [read_request(1, remote, 8), read_request(2, remote, 8)].concat();
    let head = puppet.now(wire::PacketKind::Data);
    puppet.deliver(head.packet(&both));
    assert_eq!(puppet.engine().stats().dropped(DropReason::NoResponder), 1);
    let first = puppet.data(&read_request(1, remote, 8));
    puppet.deliver(first);
    assert_eq!(statuses(&mut puppet), [Ok(())]);
    // The response is not acknowledged: the slot is not free.
    let beyond = read_request(2, remote, 8);
    let head = puppet.now(wire::PacketKind::Data);
    puppet.deliver(head.packet(&beyond));
    assert_eq!(puppet.engine().stats().dropped(DropReason::NoResponder), 2);
    let refused = puppet.sent().pop().unwrap();
    assert_eq!(refused.parsed().header.ack_psn(), puppet.head.psn, "so that it comes again");
    puppet.head.ack = puppet.head.ack.plus(1);
    let again = puppet.data(&beyond);
    puppet.deliver(again);
    assert_eq!(statuses(&mut puppet), [Ok(())]);
}

#[test]
fn a_packet_with_requests_of_a_lapsed_grant_borrows_the_slots_that_are_kept_for_errors() {
    // Eight slots beyond one for each connection: two are kept, the good peer gets the others.
    let config = Config { connections: 4, responders: 12, ..small() };
    let mut puppet = Puppet::beside_good_peer(&config).connect();
    let remote = puppet.world.region(0, 0, 64, Access::READ);
    puppet.world.read(GOOD, 0, 1, remote, 8);
    puppet.world.run(Duration::from_millis(1));
    puppet.sent();
    let requests = |first: u32| [0, 1, 2].map(|op| read_request(first + op, remote, 8)).concat();
    // The responses share a packet.
    let acknowledge = |puppet: &mut Puppet| {
        puppet.head.ack = puppet.head.ack.plus(1);
        let ack = puppet.ack(puppet.head.ack, &[]);
        puppet.deliver(ack);
    };
    for first in [1, 4] {
        let packet = puppet.data(&requests(first));
        puppet.deliver(packet);
        assert_eq!(statuses(&mut puppet), [Ok(()); 3]);
        // They are lent to one packet at a time, until its responses are acknowledged.
        let beyond = puppet.now(wire::PacketKind::Data).packet(&read_request(9, remote, 8));
        puppet.deliver(beyond);
        assert_eq!(statuses(&mut puppet), []);
        acknowledge(&mut puppet);
    }
    let refused = |puppet: &mut Puppet| puppet.engine().stats().dropped(DropReason::NoResponder);
    assert_eq!(refused(&mut puppet), 2);
    // None is missing for errors.
    for op in [10, 11] {
        let wrong = puppet.data(&write(op, SOMEWHERE, None, &[1; 8]));
        puppet.deliver(wrong);
    }
    assert_eq!(puppet.engine().stats().errors_sent, 2);
    assert_eq!(puppet.engine().stats().peers_failed, 0);
    // Without a slot the packet waits.
    let packet = puppet.data(&requests(12));
    puppet.deliver(packet.clone());
    assert_eq!(statuses(&mut puppet), []);
    assert_eq!(refused(&mut puppet), 3);
    (0..2).for_each(|_| acknowledge(&mut puppet));
    puppet.deliver(packet);
    assert_eq!(statuses(&mut puppet), [Ok(()); 3]);
}

#[test]
fn a_packet_without_room_for_its_events_takes_no_loan() {
    let config = Config { connections: 4, responders: 12, ..small() };
    let mut puppet = Puppet::beside_good_peer(&config).connect();
    let remote = puppet.world.region(0, 0, 64, Access::READ | Access::WRITE);
    puppet.world.read(GOOD, 0, 1, remote, 8);
    puppet.world.run(Duration::from_millis(1));
    puppet.world.set_unpolled(0, true);
    for op in 0..config.events {
        let event = puppet.data(&write(op, remote, Some(1), &[1; 8]));
        puppet.deliver(event);
    }
    let requests = [100, 101, 102].map(|op| read_request(op, remote, 8)).concat();
    let records = [requests, write(103, remote, Some(1), &[1; 8])].concat();
    let refused = puppet.now(wire::PacketKind::Data).packet(&records);
    puppet.deliver(refused);
    assert_eq!(puppet.engine().stats().dropped(DropReason::NoEvent), 1);
    for op in [110, 111] {
        let wrong = puppet.data(&write(op, SOMEWHERE, None, &[1; 8]));
        puppet.deliver(wrong);
    }
    assert_eq!(puppet.engine().stats().errors_sent, 2);
    assert_eq!(puppet.engine().stats().peers_failed, 0);
}

#[test]
fn a_credit_is_not_used_again_before_the_peer_has_its_slot_back() {
    let mut puppet = Puppet::connected(&small());
    puppet.world.read(0, PUPPET, 1, SOMEWHERE, 8);
    puppet.world.read(0, PUPPET, 2, SOMEWHERE, 8);
    puppet.drive();
    let asked = puppet.sent_data();
    assert_eq!(asked.len(), 1, "one request, as the peer has said nothing else");
    let op = asked[0].reads()[0].op;
    // The response overtakes a packet of the puppet. The engine cannot acknowledge that packet yet
    // in the field that each later packet repeats: `ack_psn`.
    puppet.head.ack = puppet.head.ack.plus(1);
    let missing = puppet.data(&message(0, b"x"));
    let response = puppet.data(&answer(op, 0, &[1; 8]));
    puppet.deliver(response);
    assert_eq!(puppet.ends(), [(1, Ok(()))]);
    let beyond = puppet.data(&message(1, b"y"));
    puppet.deliver(beyond);
    puppet.pass(100 * MICRO);
    assert_eq!(puppet.sent_data().len(), 0);
    puppet.deliver(missing);
    let asked = puppet.sent_data();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].reads().len(), 1);
}

#[test]
fn a_late_answer_does_not_go_to_the_slots_next_operation() {
    let mut puppet = Puppet::connected(&small());
    let first = puppet.world.read(0, PUPPET, 1, SOMEWHERE, 8);
    puppet.head.ack = puppet.head.ack.plus(1);
    let response = puppet.data(&answer(first, 0, &[1; 8]));
    puppet.deliver(response);
    assert_eq!(puppet.ends(), [(1, Ok(()))]);
    let second = puppet.world.read(0, PUPPET, 2, SOMEWHERE, 8);
    puppet.drive();
    assert_eq!(second.slot(), first.slot());
    puppet.head.ack = puppet.head.ack.plus(1);
    let late = puppet.data(&answer(first, 0, &[9; 8]));
    puppet.deliver(late);
    assert_eq!(puppet.ends(), []);
    assert_eq!(puppet.engine().stats().records_discarded, 1);
    let right = puppet.data(&answer(second, 0, &[2; 8]));
    puppet.deliver(right);
    assert_eq!(puppet.ends(), [(2, Ok(()))]);
    assert_eq!(puppet.world.nodes[0].memory.returned(second).unwrap(), [2; 8]);
}

#[test]
fn more_bytes_than_were_asked_for_do_not_end_a_read() {
    let mut puppet = Puppet::connected(&small());
    let op = puppet.world.read(0, PUPPET, 1, SOMEWHERE, 100);
    puppet.head.ack = puppet.head.ack.plus(1);
    let bytes = pattern(4, 100);
    for (at, len) in [(0, 60), (0, 60), (60, 41), (99, 2), (u64::MAX, 40)] {
        let part = puppet.data(&answer(op, at, &vec![bytes[0]; len]));
        puppet.deliver(part);
        assert_eq!(puppet.ends(), []);
    }
    assert_eq!(puppet.engine().stats().records_discarded, 4);
    let first = puppet.data(&answer(op, 60, &bytes[60..]));
    puppet.deliver(first);
    assert_eq!(puppet.ends(), [(1, Ok(()))]);
    assert_eq!(puppet.world.nodes[0].memory.returned(op).unwrap()[60..], bytes[60..]);
}

#[test]
fn a_response_without_a_request_changes_no_memory() {
    let mut puppet = Puppet::connected(&small());
    // The second read waits for credit: it has sent no request yet.
    puppet.world.read(0, PUPPET, 1, SOMEWHERE, 8);
    let waiting = puppet.world.read(0, PUPPET, 2, SOMEWHERE, 8);
    puppet.head.ack = puppet.head.ack.plus(1);
    let unrequested = puppet.data(&answer(waiting, 0, &[9; 8]));
    puppet.deliver(unrequested);
    assert_eq!(puppet.ends(), []);
    assert_eq!(puppet.world.nodes[0].memory.placed, 0);
}

#[test]
fn a_write_that_was_refused_in_part_reports_no_remote_data() {
    for late in [false, true] {
        let mut puppet = Puppet::connected(&small());
        let remote = puppet.world.region(0, 0, 64, Access::WRITE);
        let outside = Remote { address: 60, ..remote };
        let refused = puppet.data(&write(9, outside, None, &[1; 8]));
        let last = puppet.data(&write(9, remote, Some(5), &[2; 8]));
        let order = if late { [last, refused] } else { [refused, last] };
        order.into_iter().for_each(|packet| puppet.deliver(packet));
        assert_eq!(puppet.ends(), []);
        let mut errors = 0;
        for packet in puppet.sent() {
            packet.records(|record| errors += u32::from(matches!(record, Record::Error(_))));
        }
        assert_eq!(errors, 1);
        // The next event is delivered.
        let good = puppet.data(&write(10, remote, Some(6), &[3; 8]));
        puppet.deliver(good);
        let notified = puppet.world.completions(0);
        assert_eq!(notified.len(), 1);
        assert_eq!((notified[0].kind, notified[0].data), (OpKind::RemoteWrite, Some(6)));
    }
}

#[test]
fn unpolled_remote_data_is_not_acknowledged_and_is_retransmitted() {
    let config = Config { events: 8, ..small() };
    let mut puppet = Puppet::connected(&config);
    let remote = puppet.world.region(0, 0, 64, Access::WRITE);
    let eight: Vec<u8> = (0..8).flat_map(|n| write(n, remote, Some(n.into()), &[])).collect();
    let first = puppet.data(&eight);
    puppet.ingest(&first);
    let second = puppet.now(wire::PacketKind::Data).packet(&write(8, remote, Some(8), &[]));
    puppet.ingest(&second);
    assert_eq!(puppet.engine().stats().dropped(DropReason::NoEvent), 1);
    puppet.drive();
    let notified = puppet.world.completions(0);
    assert_eq!(
        notified.iter().map(|c| c.data.unwrap()).collect::<Vec<_>>(),
        (0..8).collect::<Vec<_>>()
    );
    let ack = puppet.sent().pop().unwrap();
    assert!(matches!(ack.parsed().body, Body::Ack(..)));
    assert_eq!(ack.parsed().header.ack_psn(), puppet.head.psn);
    puppet.deliver(second);
    assert_eq!(puppet.world.completions(0).len(), 1);
}

#[test]
fn out_of_order_remote_data_leaves_room_for_the_missing_packet() {
    for events in [8, 16, 24, 32] {
        let mut puppet = Puppet::connected(&Config { events, ..small() });
        let remote = puppet.world.region(0, 0, 64, Access::WRITE);
        let notified = |op: u32| write(op, remote, Some(op.into()), &[]);
        let missing = puppet.data(&notified(0));
        let eight = |n: u32| (8 * n + 1..8 * n + 9).flat_map(notified).collect::<Vec<u8>>();
        let out_of_order: Vec<_> = (0..4).map(|n| puppet.data(&eight(n))).collect();
        // A packet that was not processed is retransmitted.
        for packet in out_of_order.iter().chain([&missing]).chain(&out_of_order) {
            puppet.deliver(packet.clone());
        }
        let notified: Vec<_> =
            puppet.world.completions(0).iter().map(|c| c.data.unwrap()).collect();
        assert_eq!(notified, (0..33).collect::<Vec<_>>(), "room for {events}");
    }
}

#[test]
fn remote_data_of_packets_out_of_order_is_delivered_in_their_order() {
    let mut puppet = Puppet::connected(&small());
    let remote = puppet.world.region(0, 0, 64, Access::WRITE);
    let three = |first: u64| -> Vec<u8> {
        (first..first + 3).flat_map(|data| write(1, remote, Some(data), b"x")).collect()
    };
    let [missing, second, third, last] = [0, 3, 6, 9].map(|first| puppet.data(&three(first)));
    for packet in [last, second, third] {
        puppet.deliver(packet);
        assert_eq!(puppet.world.completions(0).len(), 0);
    }
    puppet.deliver(missing);
    let data: Vec<_> = puppet.world.completions(0).iter().map(|end| end.data).collect();
    assert_eq!(data, (0..12).map(Some).collect::<Vec<_>>());
}

#[test]
fn the_errors_of_one_packet_end_their_writes_alone() {
    let mut puppet = Puppet::connected(&small());
    for context in 0..4 {
        puppet.world.write(0, PUPPET, context, SOMEWHERE, None, vec![0; 8]);
        puppet.drive();
    }
    let mut ops = Vec::new();
    for packet in puppet.sent_data() {
        packet.records(|record| {
            if let Record::Write(write) = record {
                ops.push(write.op);
            }
        });
        puppet.head.ack = packet.psn().plus(1);
    }
    // All packets are acknowledged, and two errors are announced.
    puppet.head.errors = 2;
    let ack = puppet.ack(puppet.head.ack, &[]);
    puppet.deliver(ack);
    assert_eq!(puppet.ends(), []);
    let error = |op| record(|into| wire::put_error(into, op, wire::ErrorCode::Key, 0));
    let [first, third] = [ops[0], ops[2]].map(error);
    let errors = puppet.data(&[first, third].concat());
    puppet.deliver(errors);
    let mut ends = puppet.ends();
    ends.sort_by_key(|end| end.0);
    let failed = Err(OpError::Key);
    assert_eq!(ends, [(0, failed), (1, Ok(())), (2, failed), (3, Ok(()))]);
}

#[test]
fn a_write_with_data_is_complete_when_everything_before_it_has_arrived() {
    let mut puppet = Puppet::connected(&small());
    for (context, data) in [(1, None), (2, Some(7)), (3, None)] {
        puppet.world.write(0, PUPPET, context, SOMEWHERE, data, vec![0; 1200]);
        puppet.drive();
    }
    assert_eq!(puppet.sent_data().len(), 3);
    let ack = puppet.ack(puppet.first, &[0b11]);
    puppet.deliver(ack);
    assert_eq!(puppet.ends(), [(3, Ok(()))], "the data may still be lost with the connection");
    let ack = puppet.ack(puppet.first.plus(3), &[]);
    puppet.deliver(ack);
    assert_eq!(puppet.ends(), [(1, Ok(())), (2, Ok(()))]);
}

#[test]
fn an_error_finds_a_slot_although_all_credit_is_granted() {
    let config = Config { connections: 4, responders: 8, ..small() };
    let mut puppet = Puppet::connected(&config);
    let remote = puppet.world.region(0, 0, 64, Access::READ);
    // As many requests as the credit permits; none of the responses is acknowledged.
    for op in 0..8 {
        let before = puppet.engine().stats().dropped(DropReason::NoResponder);
        let packet = puppet.now(wire::PacketKind::Data).packet(&read_request(op, remote, 8));
        puppet.deliver(packet);
        if puppet.engine().stats().dropped(DropReason::NoResponder) > before {
            break;
        }
        puppet.head.psn = puppet.head.psn.plus(1);
    }
    puppet.sent();
    let refused = puppet.data(&write(9, remote, None, &[1; 8]));
    puppet.deliver(refused);
    assert_eq!(puppet.engine().stats().errors_sent, 1);
    assert_eq!(puppet.engine().stats().peers_failed, 0);
}

/// The write that the engine has just sent; the puppet acknowledges it from now on.
fn sent_write(puppet: &mut Puppet) -> OpId {
    let mut found = None;
    for packet in puppet.sent_data() {
        packet.records(|record| {
            if let Record::Write(write) = record {
                found = Some(write.op);
            }
        });
        puppet.head.ack = packet.psn().plus(1);
    }
    found.unwrap()
}

#[test]
fn a_count_of_errors_from_long_ago_holds_nothing_up() {
    for rested in [false, true] {
        let mut puppet = Puppet::connected(&small());
        let late = puppet.now(wire::PacketKind::Ping).packet(&[]);
        for context in 0..200 {
            puppet.pass(MICRO);
            puppet.world.write(0, PUPPET, context, SOMEWHERE, None, vec![0; 8]);
            puppet.drive();
            let op = sent_write(&mut puppet);
            puppet.head.errors += 1;
            let error = record(|into| wire::put_error(into, op, wire::ErrorCode::Key, 0));
            let refused = puppet.data(&error);
            puppet.deliver(refused);
            assert_eq!(puppet.ends(), [(context, Err(OpError::Key))]);
        }
        if rested {
            puppet.pass(50 * MILLI);
        }
        puppet.deliver(late);
        puppet.world.write(0, PUPPET, 200, SOMEWHERE, None, vec![0; 8]);
        puppet.drive();
        sent_write(&mut puppet);
        let ack = puppet.ack(puppet.head.ack, &[]);
        puppet.deliver(ack);
        assert_eq!(puppet.ends(), [(200, Ok(()))]);
    }
}

#[test]
fn a_rendezvous_read_does_not_wait_for_posted_writes() {
    let mut puppet = Puppet::connected(&Config { order: Order::RAW, ..small() });
    puppet.world.write(0, PUPPET, 1, SOMEWHERE, None, vec![0; 5_000]);
    puppet.world.recv(0, 2, 100_000);
    puppet.drive();
    assert_eq!(puppet.sent_data().len(), 4, "none of them is acknowledged");
    let announced = puppet.data(&announcement(0, 100_000, 9));
    puppet.deliver(announced);
    let asked = puppet.sent_data();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].reads()[0].rendezvous && !asked[0].has(Flags::BARRIER));
}

#[test]
fn credit_from_before_a_silence_does_not_count_after_it() {
    let mut puppet = Puppet::connected(&small());
    // No receive matches this message: it keeps the engine's state of the connection.
    puppet.send(1, vec![0; 100_000]);
    let announced = puppet.first.plus(1);
    (puppet.head.ack, puppet.head.accepted) = (announced, 1);
    let granted = puppet.ack_granting(16, announced, &[]);
    puppet.deliver(granted.clone());
    puppet.pass(25 * MILLI);
    assert_eq!(puppet.engine().connections(), 1);
    let data = puppet.data(&message(0, b"x"));
    puppet.ingest(&data);
    for context in 2..6 {
        puppet.world.read(0, PUPPET, context, SOMEWHERE, 8);
    }
    puppet.drive();
    // The number of requests sent, and whether the credit was requested with them.
    let asked = |puppet: &mut Puppet| -> (usize, bool) {
        let packets = puppet.sent_data();
        let requests = packets.iter().map(|packet| packet.reads().len()).sum();
        (requests, packets.iter().any(|packet| packet.has(Flags::ACK_REQUEST)))
    };
    assert_eq!(asked(&mut puppet), (1, true), "the puppet's state is new, and grants no more");
    puppet.deliver(granted);
    assert_eq!(asked(&mut puppet), (0, false), "said before the silence");
    let granted = puppet.ack_granting(16, announced.plus(1), &[]);
    puppet.deliver(granted);
    assert_eq!(asked(&mut puppet), (3, false));
}

#[test]
fn a_read_of_which_a_part_came_twice_and_another_never_does_not_complete() {
    for offsets in [[0, 0], [64, 64], [0, 32]] {
        let mut puppet = Puppet::connected(&small());
        let op = puppet.world.read(0, PUPPET, 1, SOMEWHERE, 128);
        puppet.drive();
        puppet.head.ack = puppet.head.ack.plus(1);
        for offset in offsets {
            let response = puppet.data(&answer(op, offset, &[1; 64]));
            puppet.deliver(response);
        }
        assert_eq!(puppet.ends(), [(1, Err(OpError::Reset))]);
        assert_eq!(puppet.engine().stats().dropped(DropReason::Overlap), 1);
    }
}

#[test]
fn a_long_message_of_which_a_part_came_twice_and_another_never_does_not_complete() {
    let mut puppet = Puppet::connected(&small());
    puppet.world.recv(0, 1, 128);
    let announced = puppet.data(&announcement(0, 128, 9));
    puppet.deliver(announced);
    let op = puppet.sent_data()[0].reads()[0].op;
    puppet.head.ack = puppet.head.ack.plus(1);
    for offset in [0, 0] {
        let response = puppet.data(&answer(op, offset, &[1; 64]));
        puppet.deliver(response);
    }
    assert_eq!(puppet.ends(), [(1, Err(OpError::Reset))]);
}
