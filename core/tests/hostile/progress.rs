// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer that answers pings must make progress as well (`docs/PROTOCOL.md` §5.5).

use crate::puppet::*;
use crate::unnamed::*;
use crate::world::*;
use ofi_xdp_core::wire::ReadRequestRecord;
use ofi_xdp_core::wire::{PacketKind, PieceBody};
use ofi_xdp_core::*;
use std::time::Duration;
use zerocopy::IntoBytes;

/// The peer time-out of these tests.
const TIMEOUT: u64 = 1_000 * MILLI;

fn connected() -> Puppet {
    let peer_timeout = Duration::from_nanos(TIMEOUT);
    Puppet::connected(&Config { peer_timeout, ..small() })
}

/// Lets time pass while the puppet is heard all the time. It acknowledges all packets.
fn pass_heard(puppet: &mut Puppet, nanos: u64) {
    let step = TIMEOUT / 10;
    for _ in 0..nanos / step {
        puppet.pass(step);
        for packet in puppet.sent_data() {
            let next = packet.psn().plus(1);
            if puppet.head.ack.is_before(next) {
                puppet.head.ack = next;
            }
        }
        let ack = puppet.ack(puppet.head.ack, &[]);
        puppet.deliver(ack);
    }
}

/// Checks that the connection lasts for the peer time-out, and no longer than twice that.
fn ends_in_time(puppet: &mut Puppet) {
    pass_heard(puppet, TIMEOUT);
    assert_eq!(puppet.engine().connections(), 1, "not yet");
    pass_heard(puppet, TIMEOUT);
    assert_eq!(puppet.engine().connections(), 0, "no progress");
}

#[test]
fn a_hole_that_is_never_filled_ends_the_connection() {
    let mut puppet = connected();
    let _lost = puppet.data(&message(0, b"a"));
    let next = puppet.data(&message(1, b"b"));
    puppet.deliver(next);
    ends_in_time(&mut puppet);
    assert_eq!(puppet.engine().stored_messages(), 0);
}

#[test]
fn a_message_that_never_comes_ends_the_connection_though_packets_are_in_order() {
    let mut puppet = connected();
    let skipping = puppet.data(&message(1, b"b"));
    puppet.deliver(skipping);
    ends_in_time(&mut puppet);
}

#[test]
fn a_message_that_does_not_grow_ends_the_connection_though_others_come() {
    let mut puppet = connected();
    let half = puppet.data(&segment(0, 128, 0, &[1; 64]));
    puppet.deliver(half);
    for msn in 1..30 {
        pass_heard(&mut puppet, TIMEOUT / 10);
        if puppet.engine().connections() == 0 {
            assert!(msn > 10, "too soon");
            return;
        }
        puppet.world.recv(0, msn.into(), 1);
        let whole = puppet.data(&message(msn, b"w"));
        puppet.deliver(whole);
    }
    panic!("it lasts");
}

#[test]
fn a_message_that_grows_slowly_comes_to_its_end() {
    let mut puppet = connected();
    puppet.world.recv(0, 1, 640);
    for part in 0..10 {
        let next = puppet.data(&segment(0, 640, part * 64, &[1; 64]));
        puppet.deliver(next);
        pass_heard(&mut puppet, TIMEOUT / 2);
    }
    assert_eq!(puppet.ends(), [(1, Ok(()))]);
}

#[test]
fn a_read_that_is_acknowledged_and_never_answered_ends_in_error() {
    let mut puppet = connected();
    puppet.world.read(0, PUPPET, 7, Remote { key: 1, address: 0 }, 64);
    puppet.drive();
    pass_heard(&mut puppet, TIMEOUT);
    assert_eq!(puppet.ends(), []);
    pass_heard(&mut puppet, TIMEOUT);
    assert_eq!(puppet.ends(), [(7, Err(OpError::TimedOut))]);
}

#[test]
fn an_atomic_that_is_acknowledged_and_never_answered_ends_in_error() {
    let mut puppet = connected();
    puppet.world.fetch_add(0, PUPPET, 7, Remote { key: 1, address: 0 }, 1);
    puppet.drive();
    pass_heard(&mut puppet, 2 * TIMEOUT);
    assert_eq!(puppet.ends(), [(7, Err(OpError::TimedOut))]);
}

#[test]
fn a_long_message_whose_bytes_never_come_ends_in_error() {
    let mut puppet = connected();
    puppet.world.recv(0, 7, 100_000);
    let announced = puppet.data(&announcement(0, 100_000, 3));
    puppet.deliver(announced);
    pass_heard(&mut puppet, TIMEOUT);
    assert_eq!(puppet.ends(), []);
    pass_heard(&mut puppet, TIMEOUT);
    assert_eq!(puppet.ends(), [(7, Err(OpError::TimedOut))]);
}

#[test]
fn a_long_message_whose_request_is_answered_and_never_acknowledged_ends_in_error() {
    let mut puppet = connected();
    puppet.world.recv(0, 7, 1000);
    let announced = puppet.data(&announcement(0, 1000, 3));
    puppet.deliver(announced);
    let read = puppet.sent_data()[0].reads()[0];
    let bytes = puppet.data(&answer(read.op, 0, &[1; 1000]));
    puppet.deliver(bytes);
    for _ in 0..20 {
        puppet.pass(TIMEOUT / 10);
        let ack = puppet.ack(puppet.first, &[]);
        puppet.deliver(ack);
    }
    assert_eq!(puppet.ends(), [(7, Err(OpError::TimedOut))]);
    assert_eq!(puppet.engine().connections(), 0);
}

#[test]
fn a_long_message_behind_many_that_wait_is_read_though_no_packet_comes() {
    const WAITING: u32 = 400;
    let mut puppet = Puppet::beside_good_peer(&Config { recvs: 512, ..small() }).connect();
    for context in 0..=u64::from(WAITING) {
        puppet.world.recv(0, context, 100_000);
    }
    for first in (0..WAITING).step_by(20) {
        let many = (first..first + 20).flat_map(|msn| announcement(msn, 100_000, 3));
        let packet = puppet.data(&many.collect::<Vec<_>>());
        puppet.deliver(packet);
    }
    puppet.pass(50 * MILLI);
    puppet.head.ack = puppet.first.plus(puppet.sent_data().len() as u32);
    let ack = puppet.ack(puppet.head.ack, &[]);
    puppet.deliver(ack);
    let at = PeerAddress::new(address(GOOD + 1).ip(), 1);
    puppet.world.link.cut.push(at);
    let other = Unnamed::connect_from(&mut puppet, at).unwrap();
    puppet.sent();
    other.send(&mut puppet, 0, &announcement(0, 100_000, 5));
    puppet.pass(10 * MILLI);
    let keys = |seen: &Seen| seen.reads().into_iter().map(|read| read.remote.key);
    assert_eq!(puppet.sent_data().iter().flat_map(keys).collect::<Vec<_>>(), [5]);
}

#[test]
fn a_peer_whose_packets_find_no_room_is_not_taken_for_idle() {
    let mut puppet = connected();
    let remote = puppet.world.region(0, 0, 64, Access::WRITE);
    // The answer, and the rest of the message, may be behind the packet without room.
    puppet.world.read(0, PUPPET, 7, Remote { key: 1, address: 0 }, 64);
    puppet.drive();
    let half = puppet.data(&segment(0, 128, 0, &[1; 64]));
    puppet.deliver(half);
    puppet.world.set_unpolled(0, true);
    let events = small().events;
    for op in 0..events {
        let write = puppet.data(&write(op, remote, Some(1), &[1; 8]));
        puppet.deliver(write);
    }
    let refused = puppet.data(&write(events, remote, Some(1), &[1; 8]));
    let behind = puppet.data(&message(1, b"m"));
    puppet.deliver(behind);
    for _ in 0..30 {
        puppet.deliver(refused.clone());
        pass_heard(&mut puppet, TIMEOUT / 10);
    }
    assert_eq!(puppet.engine().connections(), 1, "the application reads no completions");
    puppet.world.set_unpolled(0, false);
    puppet.drive();
    puppet.deliver(refused);
    assert_eq!(puppet.ends().len() as u32, events + 1);
    // Then it owes them again.
    ends_in_time(&mut puppet);
    assert_eq!(puppet.ends(), [(7, Err(OpError::TimedOut))]);
}

/// Packets that never can be processed do not hold the answer up.
#[test]
fn a_peer_that_breaks_its_credit_or_the_length_of_a_packet_still_owes_answers() {
    let beyond_credit = |puppet: &mut Puppet, _| {
        let requests: Vec<u8> =
            (0..17).flat_map(|op| read_request(op, Remote { key: 1, address: 0 }, 8)).collect();
        let head = puppet.now(PacketKind::Data);
        puppet.deliver(head.packet(&requests));
    };
    let longer_pieces = |puppet: &mut Puppet, round| {
        let total = if round == 0 { 128 } else { 192 };
        let body = PieceBody { offset: 0.into(), total: total.into(), reserved: 0.into() };
        let bytes = [body.as_bytes(), &[0; 64]].concat();
        puppet.deliver(puppet.now(PacketKind::Piece).packet(&bytes));
    };
    let attacks: [fn(&mut Puppet, u32); 2] = [beyond_credit, longer_pieces];
    for attack in attacks {
        let mut puppet = connected();
        puppet.world.read(0, PUPPET, 7, Remote { key: 1, address: 0 }, 64);
        puppet.drive();
        for round in 0..20 {
            attack(&mut puppet, round);
            pass_heard(&mut puppet, TIMEOUT / 10);
        }
        assert_eq!(puppet.ends(), [(7, Err(OpError::TimedOut))]);
    }
}

#[test]
fn a_message_that_waits_for_a_receive_waits_as_long_as_it_takes() {
    let mut puppet = connected();
    puppet.send(5, vec![0; 100_000]);
    pass_heard(&mut puppet, 5 * TIMEOUT);
    assert_eq!(puppet.ends(), [], "announced, and not wanted yet");
    assert_eq!(puppet.engine().connections(), 1);
}

#[test]
fn a_read_that_is_never_answered_ends_in_error_though_others_are_answered() {
    let mut puppet = connected();
    let remote = Remote { key: 1, address: 0 };
    let (mut unanswered, mut asked) = (None, Vec::new());
    for context in 7..40 {
        // An answer comes after the next request, so the peer owes two at any time.
        let late = std::mem::take(&mut asked);
        puppet.world.read(0, PUPPET, context, remote, context as usize);
        puppet.drive();
        for packet in puppet.sent_data() {
            puppet.head.ack = packet.psn().plus(1);
            asked.extend(packet.reads());
        }
        puppet.pass(TIMEOUT / 10);
        let ack = puppet.ack_granting(8, puppet.head.ack, &[]);
        puppet.deliver(ack);
        for request in late {
            // The first one gets no answer.
            if *unanswered.get_or_insert(request.op) != request.op {
                let bytes = vec![1; request.len as usize];
                let answer = puppet.data(&answer(request.op, 0, &bytes));
                puppet.deliver(answer);
            }
        }
    }
    let ends = puppet.ends();
    assert_eq!(ends.iter().find(|end| end.0 == 7), Some(&(7, Err(OpError::TimedOut))));
    assert!(ends.iter().filter(|end| end.1.is_ok()).count() > 7, "{ends:?}");
}

#[test]
fn reads_of_one_length_that_are_answered_one_by_one_are_progress() {
    let mut puppet = connected();
    let remote = Remote { key: 1, address: 0 };
    for context in 7..40 {
        puppet.world.read(0, PUPPET, context, remote, 64);
        puppet.drive();
        let mut asked = Vec::new();
        for packet in puppet.sent_data() {
            puppet.head.ack = packet.psn().plus(1);
            asked.extend(packet.reads());
        }
        let ack = puppet.ack(puppet.head.ack, &[]);
        puppet.deliver(ack);
        pass_heard(&mut puppet, TIMEOUT / 10);
        for request in asked {
            let answer = puppet.data(&answer(request.op, 0, &[1; 64]));
            puppet.deliver(answer);
        }
        assert_eq!(puppet.ends(), [(context, Ok(()))]);
    }
}

/// The requests that the engine has sent. They are acknowledged with the next packet.
fn requests(puppet: &mut Puppet) -> Vec<ReadRequestRecord> {
    let packets = puppet.sent_data();
    if let Some(last) = packets.last() {
        puppet.head.ack = last.psn().plus(1);
    }
    packets.iter().flat_map(Seen::reads).collect()
}

#[test]
fn a_long_read_that_waits_for_its_next_request_is_not_late() {
    const PART: usize = 4 << 20;
    const PAYLOAD: usize = 1_408;
    let mut puppet = connected();
    puppet.world.recv(0, 8, 100_000);
    puppet.world.read(0, PUPPET, 7, Remote { key: 1, address: 0 }, PART + 64);
    puppet.drive();
    let asked = requests(&mut puppet);
    assert_eq!(asked.len(), 1, "the peer grants one request");
    // Once the first part is answered, a long message has the credit.
    let announced = puppet.data(&announcement(0, 100_000, 3));
    puppet.deliver(announced);
    pass_heard(&mut puppet, TIMEOUT / 10);
    for offset in (0..PART).step_by(PAYLOAD) {
        let bytes = vec![1; PAYLOAD.min(PART - offset)];
        let part = puppet.data(&answer(asked[0].op, offset as u64, &bytes));
        puppet.ingest(&part);
    }
    puppet.drive();
    let asked = requests(&mut puppet);
    assert_eq!(asked.len(), 1);
    assert!(asked[0].len < 100_000, "{asked:?}: for the message, not for the rest");
    for offset in 0..10 {
        let part = puppet.data(&answer(asked[0].op, 64 * offset, &[1; 64]));
        puppet.deliver(part);
        pass_heard(&mut puppet, TIMEOUT / 2);
    }
    assert_eq!(puppet.engine().connections(), 1, "nothing of the read is outstanding");
    assert_eq!(puppet.ends(), []);
}
