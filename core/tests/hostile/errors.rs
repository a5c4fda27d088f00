// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failed operations of a peer, and later packets under the same identifier (`docs/PROTOCOL.md`
//! §7.1, §8.3).

use crate::puppet::*;
use crate::world::*;
use ofi_xdp_core::wire::{Flags, PacketKind, Record};
use ofi_xdp_core::*;

/// The identifier of the failed operation, and another one.
const OP: u32 = 9;
const OTHER: u32 = 10;

/// A region, and a write of [`OP`] that begins in it and ends outside.
fn refusing() -> (Puppet, Remote, Vec<u8>) {
    let mut puppet = Puppet::connected(&small());
    let remote = puppet.world.region(0, 0, 64, Access::WRITE);
    let outside = Remote { address: 60, ..remote };
    (puppet, remote, write(OP, outside, None, &[1; 8]))
}

/// The number of error records that the engine has sent since the last call. The puppet
/// acknowledges them from now on.
fn take_errors(puppet: &mut Puppet) -> usize {
    let mut errors = 0;
    for packet in puppet.sent_data() {
        packet.records(|record| errors += usize::from(matches!(record, Record::Error(_))));
        puppet.head.ack = packet.psn().plus(1);
    }
    errors
}

/// Remote CQ data that was delivered, and writes that were counted, since the last call.
fn notified(puppet: &mut Puppet) -> (Vec<u64>, u64) {
    let notified = puppet.world.completions(0).iter().map(|c| c.data.unwrap()).collect();
    (notified, puppet.engine().op_counters().target.writes)
}

#[test]
fn the_next_operation_of_a_name_is_not_part_of_the_one_that_was_refused() {
    let (mut puppet, remote, bad) = refusing();
    let refused = puppet.data(&bad);
    puppet.deliver(refused);
    assert_eq!(take_errors(&mut puppet), 1);
    // A slot has few generations: after 4,095 more operations the peer uses the same identifier.
    let good = puppet.data(&write(OP, remote, Some(6), &[2; 8]));
    puppet.deliver(good);
    assert_eq!(notified(&mut puppet), (vec![6], 1));
    for _ in 0..2 {
        let refused = puppet.data(&bad);
        puppet.deliver(refused);
        assert_eq!(take_errors(&mut puppet), 1, "else the peer takes it for done");
    }
    let good = puppet.data(&write(OP, remote, Some(7), &[2; 8]));
    puppet.deliver(good);
    assert_eq!(notified(&mut puppet), (vec![7], 2));
}

#[test]
fn an_operation_stays_refused_while_parts_of_it_may_be_under_way() {
    let (mut puppet, remote, bad) = refusing();
    let refused = puppet.data(&bad);
    // The parts behind it are late; the second was retransmitted after the error had arrived.
    let late = puppet.data(&write(OP, remote, Some(6), &[2; 8]));
    let again = {
        let mut head = puppet.now(PacketKind::Data);
        puppet.head.psn = puppet.head.psn.plus(1);
        head.flags = Flags::RETRANSMISSION;
        head
    };
    puppet.deliver(refused);
    assert_eq!(take_errors(&mut puppet), 1);
    let ack = puppet.ack(puppet.head.ack, &[]);
    puppet.deliver(ack);
    puppet.deliver(late);
    let again = Head { ack: puppet.head.ack, ..again };
    puppet.deliver(again.packet(&bad));
    assert_eq!((take_errors(&mut puppet), notified(&mut puppet)), (0, (vec![], 0)));
    // The first packet of a later operation proves that all parts have arrived.
    let other = puppet.data(&write(OTHER, remote, Some(7), &[3; 8]));
    puppet.deliver(other);
    let next = Head { flags: Flags::RETRANSMISSION, ..puppet.now(PacketKind::Data) };
    puppet.deliver(next.packet(&write(OP, remote, Some(8), &[4; 8])));
    assert_eq!(notified(&mut puppet), (vec![7, 8], 2));
}

#[test]
fn an_operation_stays_refused_while_its_peer_is_silent() {
    let (mut puppet, remote, bad) = refusing();
    let refused = puppet.data(&bad);
    puppet.deliver(refused);
    assert_eq!(take_errors(&mut puppet), 1);
    // The last part was lost, and is repeated after the time in which a connection gets idle.
    let mut last = puppet.now(PacketKind::Data);
    last.flags = Flags::RETRANSMISSION;
    let ack = puppet.ack(puppet.head.ack, &[]);
    puppet.deliver(ack);
    puppet.pass(21 * MILLI);
    puppet.deliver(Head { ack: puppet.head.ack, ..last }.packet(&write(
        OP,
        remote,
        Some(6),
        &[2; 8],
    )));
    assert_eq!(notified(&mut puppet), (vec![], 0));
    // A peer that is silent for the peer time-out has no part under way.
    puppet.pass(11_000 * MILLI);
    assert_eq!(puppet.engine().stats().connections_idle, 1);
}

#[test]
fn an_out_of_order_packet_confirms_no_earlier_part() {
    let (mut puppet, remote, bad) = refusing();
    let refused = puppet.data(&bad);
    let mut lost = puppet.now(PacketKind::Data);
    puppet.head.psn = puppet.head.psn.plus(1);
    puppet.deliver(refused);
    assert_eq!(take_errors(&mut puppet), 1);
    let out_of_order = puppet.data(&write(OTHER, remote, Some(7), &[3; 8]));
    puppet.deliver(out_of_order);
    (lost.flags, lost.ack) = (Flags::RETRANSMISSION, puppet.head.ack);
    puppet.deliver(lost.packet(&write(OP, remote, Some(6), &[2; 8])));
    assert_eq!(notified(&mut puppet), (vec![7], 1));
}

#[test]
fn an_error_that_overtook_a_packet_was_not_known_to_a_peer_that_acknowledged_less() {
    let (mut puppet, remote, bad) = refusing();
    puppet.send(1, vec![0; 8]);
    let refused = puppet.data(&bad);
    let late = puppet.data(&write(OP, remote, Some(6), &[2; 8]));
    puppet.deliver(refused);
    assert_eq!(puppet.sent_data().len(), 2);
    // The message is missing, and the error has arrived.
    let ack = puppet.ack(puppet.first, &[1]);
    puppet.deliver(ack);
    puppet.deliver(late);
    assert_eq!(notified(&mut puppet), (vec![], 0));
}

/// Two writes of two parts, with the data in the second; the first part of each is in error.
#[test]
fn a_refused_write_reports_no_remote_data_in_any_order_of_packets() {
    let orders = (0..1 << 8).map(|bits| [0, 2, 4, 6].map(|at| bits >> at & 3));
    let complete = |order: &[usize; 4]| (0..4).all(|part| order.contains(&part));
    for order in orders.filter(complete) {
        for flags in [Flags::empty(), Flags::RETRANSMISSION] {
            let (mut puppet, remote, bad) = refusing();
            puppet.head.flags = flags;
            let outside = Remote { address: 60, ..remote };
            let parts = [
                bad,
                write(OP, remote, Some(6), &[2; 8]),
                write(OTHER, outside, None, &[1; 8]),
                write(OTHER, remote, Some(7), &[2; 8]),
            ]
            .map(|part| puppet.data(&part));
            for part in order.into_iter().chain(0..4) {
                puppet.deliver(parts[part].clone());
            }
            assert_eq!(take_errors(&mut puppet), 2, "one for each write: {order:?}");
            assert_eq!(notified(&mut puppet).0, [], "{order:?}");
            let good = puppet.data(&write(OP, remote, Some(8), &[3; 8]));
            puppet.deliver(good);
            assert_eq!(notified(&mut puppet).0, [8], "another one of that name: {order:?}");
        }
    }
}
