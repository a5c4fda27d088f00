// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of a packet that precede each change of state (`docs/PROTOCOL.md` §4.2).

use crate::puppet::*;
use crate::world::*;
use ofi_xdp_core::wire::{Flags, PacketKind};
use ofi_xdp_core::*;

/// A connection with a posted receive, and a message in flight that would complete it.
fn expectant() -> (Puppet, Vec<u8>) {
    let mut puppet = Puppet::connected(&small());
    puppet.world.recv(0, 1, 8);
    let records = message(0, &[7; 8]);
    (puppet, records)
}

#[test]
fn the_packet_that_these_tests_spoil_is_good() {
    let (mut puppet, records) = expectant();
    let good = puppet.data(&records);
    puppet.deliver(good);
    assert_eq!(puppet.ends(), [(1, Ok(()))]);
    assert_eq!(puppet.world.received(0, 1), [7; 8]);
}

#[test]
fn a_packet_with_another_token_changes_nothing() {
    let (mut puppet, records) = expectant();
    for bit in 0..32 {
        let mut head = puppet.now(PacketKind::Data);
        head.token.0 ^= 1 << bit;
        puppet.refused(&head.packet(&records), DropReason::WrongToken);
    }
    for kind in [PacketKind::Ping, PacketKind::Close] {
        for bit in 0..64 {
            let mut head = puppet.now(kind);
            head.token.0 ^= 1 << bit;
            puppet.refused(&head.packet(&[]), DropReason::WrongToken);
        }
    }
    for bit in 0..64 {
        puppet.head.token.0 ^= 1 << bit;
        let ack = puppet.ack(puppet.first, &[]);
        puppet.refused(&ack, DropReason::WrongToken);
        puppet.head.token.0 ^= 1 << bit;
    }
}

#[test]
fn a_packet_from_another_address_changes_nothing() {
    let (mut puppet, records) = expectant();
    let good = puppet.data(&records);
    puppet.refused_from(PUPPET + 1, &good, DropReason::WrongSource);
    puppet.deliver(good);
    assert_eq!(puppet.ends(), [(1, Ok(()))]);
}

#[test]
fn a_packet_with_one_bit_changed_changes_nothing() {
    let (mut puppet, records) = expectant();
    let good = puppet.data(&records);
    // Bytes 0 and 1 are checked before the checksum.
    for bit in 16..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let claims_head = bit == 2 * 8 + 5;
        let reason = if claims_head { DropReason::Unprotected } else { DropReason::Checksum };
        puppet.refused(&bytes, reason);
    }
}

#[test]
fn a_checksum_over_the_head_needs_a_kernel_that_verified_the_rest() {
    let mut puppet = Puppet::connected(&small());
    puppet.world.recv(0, 1, 1000);
    let mut head = puppet.now(PacketKind::Data);
    head.flags |= Flags::HEAD_CHECKSUM;
    let good = head.packet(&message(0, &[7; 1000]));
    puppet.refused(&good, DropReason::Unprotected);
    puppet.coverage = ChecksumCoverage::Head;
    for byte in (0..64).filter(|byte| *byte > 2) {
        let mut bytes = good.clone();
        bytes[byte] ^= 1;
        puppet.refused(&bytes, DropReason::Checksum);
    }
    let two = [message(0, &[7; 400]), message(1, &[7; 400])].concat();
    puppet.refused(&head.packet(&two), DropReason::Malformed);
    for cut in [1, 8, 900] {
        let mut bytes = good.clone();
        bytes.truncate(bytes.len() - cut);
        puppet.refused(&bytes, DropReason::Malformed);
    }
    puppet.deliver(good);
    assert_eq!(puppet.ends(), [(1, Ok(()))]);
    assert_eq!(puppet.world.received(0, 1), [7; 1000]);
}

#[test]
fn a_packet_without_a_checksum_changes_nothing() {
    let (mut puppet, records) = expectant();
    let mut bytes = puppet.data(&records);
    bytes[28..32].fill(0);
    puppet.refused(&bytes, DropReason::Checksum);
}

#[test]
fn a_packet_from_before_the_wrap_of_the_numbers_changes_nothing() {
    // A quarter of the clock on the wire: 68 s.
    const STALE: u32 = 1 << 30;
    let (mut puppet, records) = expectant();
    let newest = puppet.newest_sent_at();
    for behind in [STALE, STALE + 1, 2 * STALE - 1] {
        let mut head = puppet.now(PacketKind::Data);
        head.sent_at = newest.wrapping_sub(behind);
        puppet.refused(&head.packet(&records), DropReason::Stale);
    }
    let mut head = puppet.now(PacketKind::Data);
    head.sent_at = newest.wrapping_sub(STALE - 1);
    puppet.deliver(head.packet(&records));
    assert_eq!(puppet.ends(), [(1, Ok(()))], "late, but not too late");
}

#[test]
fn an_acknowledgment_of_packets_that_were_not_sent_changes_nothing() {
    let mut puppet = Puppet::connected(&small());
    puppet.send(5, vec![0; 8]);
    let next = puppet.first.plus(1);
    for beyond in [1, 2, 255, 1 << 30, 1 << 31, RANGE.wrapping_neg() - 1] {
        let ack = puppet.ack(next.plus(beyond), &[]);
        puppet.refused(&ack, DropReason::AckOfUnsent);
    }
    // The bitmap begins one beyond the number in the header: both name the packet after the last.
    for (ack, sack) in [(next, 1), (puppet.first, 1), (next, 1 << 63)] {
        let ack = puppet.ack(ack, &[sack]);
        puppet.refused(&ack, DropReason::AckOfUnsent);
    }
    let mut head = puppet.now(PacketKind::Ping);
    head.ack = next.plus(1);
    puppet.refused(&head.packet(&[]), DropReason::AckOfUnsent);
    assert_eq!(puppet.ends(), []);
}

#[test]
fn an_echo_of_a_time_that_is_yet_to_come_measures_nothing() {
    let mut puppet = Puppet::connected(&small());
    puppet.send(5, vec![0; 8]);
    let (before, now) = (puppet.path(), puppet.newest_sent_at());
    // Of the future, or held for longer than it is old.
    for (echo, hold) in [(now + 2, 0), (now + (1 << 20), 0), (now ^ 1 << 31, 0), (now - 9, 11)] {
        let ack = puppet.ack_echoing(echo, hold);
        puppet.deliver(ack);
        assert_eq!(puppet.path(), before, "{echo} {hold}");
        assert_eq!(puppet.ends(), []);
    }
    assert_eq!(puppet.engine().stats().echoes_ignored, 4);
    let ack = puppet.ack_echoing(now - 900, 0);
    puppet.deliver(ack);
    assert_ne!(puppet.path(), before, "an echo of the past is measured");
}

#[test]
fn messages_that_were_never_posted_are_not_taken_for_accepted() {
    let mut puppet = Puppet::connected(&small());
    for accepted in [1, 2, 0x7fff] {
        let head = Head { accepted, ..puppet.now(PacketKind::Ping) };
        puppet.refused(&head.packet(&[]), DropReason::AckOfUnsent);
    }
    puppet.send(5, vec![0; 8]);
    let ack = puppet.first.plus(1);
    let head = Head { ack, accepted: 2, ..puppet.now(PacketKind::Ping) };
    puppet.refused(&head.packet(&[]), DropReason::AckOfUnsent);
    let head = Head { ack, accepted: 1, ..puppet.now(PacketKind::Ping) };
    puppet.deliver(head.packet(&[]));
    assert_eq!(puppet.ends(), [(5, Ok(()))]);
}

#[test]
fn the_id_of_a_removed_peer_names_no_later_peer() {
    let config = Config { peers: 1, connections: 1, ..small() };
    let mut puppet = Puppet::connected(&config);
    let former = puppet.head.cid;
    puppet.engine().remove_peer(former).unwrap();
    puppet.drive();
    let another = PeerAddress::new(address(PUPPET).ip(), 7001);
    assert_eq!(puppet.engine().insert_peer(another), Err(PeersFull::Quarantined), "for a while");
    puppet.pass(127 * MILLI);
    assert_eq!(puppet.engine().insert_peer(another), Err(PeersFull::Quarantined));
    assert_eq!(puppet.engine().stats().quarantined, 2);
    puppet.pass(2 * MILLI);
    // The next tenant of the slot is a new connection of the same puppet.
    puppet.sent();
    puppet.deliver(puppet.hello(INCARNATION, 9, 0));
    let answer = puppet.sent().pop().unwrap();
    puppet.agreed(&answer);
    assert_eq!(puppet.head.cid.slot(), former.slot());
    assert_ne!(puppet.head.cid, former);
    let mut head = puppet.now(PacketKind::Data);
    head.cid = former;
    puppet.refused(&head.packet(&message(0, &[1; 8])), DropReason::UnknownConnection);
    let late = puppet.world.send_with(0, PUPPET, |r| r.common.peer = former, vec![0; 8]);
    assert_eq!(late, Err(PostError::UnknownPeer));
    assert_eq!(puppet.engine().remove_peer(former), Err(Unknown));
}

/// More than a window, less than the numbers that an attacker has to try.
const RANGE: u32 = 1 << 16;

#[test]
fn a_packet_with_a_number_that_none_in_flight_has_changes_nothing() {
    let (mut puppet, records) = expectant();
    let next = puppet.head.psn;
    for ahead in [RANGE, 1 << 20, 1 << 31, RANGE.wrapping_neg() - 1] {
        let head = Head { psn: next.plus(ahead), ..puppet.now(PacketKind::Data) };
        puppet.refused(&head.packet(&records), DropReason::Stale);
    }
    // A copy that is late, and one beyond the window, are answered.
    for ahead in [RANGE.wrapping_neg(), RANGE - 1] {
        let head = Head { psn: next.plus(ahead), ..puppet.now(PacketKind::Data) };
        puppet.sent();
        puppet.deliver(head.packet(&records));
        assert_eq!(puppet.sent().pop().unwrap().kind(), PacketKind::Ack);
    }
    assert_eq!(puppet.ends(), []);
    let data = puppet.data(&records);
    puppet.deliver(data);
    assert_eq!(puppet.ends(), [(1, Ok(()))]);
}

/// Every page is taken by packets behind the next one, which itself has none.
#[test]
fn a_packet_in_order_takes_effect_once_where_no_page_is_left() {
    /// Packets that a page has bits of.
    const PAGE: u32 = 16 << 10;
    for strange in [false, true] {
        for part in [false, true] {
            let mut puppet = Puppet::connected(&Config { reorder_pages: 3, ..small() });
            // A named peer may take every page.
            puppet.world.peer(0, PUPPET);
            let remote = puppet.world.region(0, 0, 64, Access::WRITE);
            puppet.world.recv(0, 1, 192);
            let records = |number: u64| match part {
                false => message(number as u32, &[1; 64]),
                true => segment(0, 192, 64 * number, &[1; 64]),
            };
            let first = puppet.data(&records(0));
            puppet.deliver(first);
            puppet.ends();
            puppet.world.recv(0, 2, 192);
            let next = puppet.now(PacketKind::Data);
            assert_eq!(next.psn.0 % PAGE, PAGE - 1, "the next one is the first of a page");
            for far in (0..3).map(|page| 129 + page * PAGE) {
                let head = Head { psn: next.psn.plus(far), ..next };
                puppet.deliver(head.packet(&write(far, remote, None, &[1; 8])));
            }
            let stats = *puppet.engine().stats();
            assert_eq!(stats.dropped_total(), 0, "{stats:?}");
            // An unknown flag keeps a packet from the fast path.
            let flags = if strange { Flags::from_bits_retain(0x80) } else { Flags::empty() };
            let next = Head { flags, ..next }.packet(&records(1));
            puppet.deliver(next.clone());
            let placed = puppet.engine().stats().bytes_placed - stats.bytes_placed;
            assert_eq!(placed, 64, "strange: {strange}, part: {part}");
            puppet.deliver(next);
            let stats = *puppet.engine().stats();
            assert_eq!(stats.dropped(DropReason::Duplicate), 1, "strange: {strange}, {part}");
            puppet.head.psn = puppet.head.psn.plus(1);
            let last = puppet.data(&records(2));
            puppet.deliver(last);
            assert!(puppet.ends().iter().all(|end| end.1.is_ok()));
        }
    }
}
