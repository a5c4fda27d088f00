// SPDX-License-Identifier: MIT OR Apache-2.0
//! The share that one peer has of what all peers use (`docs/PROTOCOL.md` §9).

use crate::puppet::*;
use crate::world::*;
use ofi_xdp_core::wire::PacketKind;
use ofi_xdp_core::*;
use std::time::Duration;

/// A connection, and a storage of two small messages.
fn two_places() -> Puppet {
    Puppet::connected(&Config { unexpected: [2, 0, 0, 0], ..small() })
}

/// Sends `count` messages that no receive matches.
fn store(puppet: &mut Puppet, first: u32, count: u32) {
    for msn in first..first + count {
        let packet = puppet.data(&message(msn, &[msn as u8]));
        puppet.deliver(packet);
    }
    puppet.pass(MILLI);
}

/// Ends the connection, and makes the next one.
fn come_back(puppet: &mut Puppet, epoch: u16) {
    let close = puppet.now(PacketKind::Close).packet(&[]);
    puppet.deliver(close);
    assert_eq!(puppet.engine().connections(), 0);
    puppet.deliver(puppet.hello(INCARNATION, epoch, 0));
    let answer = puppet.sent().pop().unwrap();
    puppet.agreed(&answer);
}

#[test]
fn messages_of_an_ended_connection_are_evicted_when_the_storage_is_full() {
    let mut puppet = two_places();
    store(&mut puppet, 0, 2);
    come_back(&mut puppet, 2);
    store(&mut puppet, 0, 1);
    let stats = *puppet.engine().stats();
    assert_eq!((stats.messages_put_out, stats.receiver_not_ready), (1, 0));
    assert_eq!(puppet.engine().stored_messages(), 2);
    for context in 0..2 {
        puppet.world.recv(0, context, 1);
    }
    puppet.drive();
    assert_eq!(puppet.ends(), [(0, Ok(())), (1, Ok(()))]);
    assert_eq!(puppet.world.received(0, 0), [1], "the oldest one has left");
    assert_eq!(puppet.world.received(0, 1), [0]);
}

#[test]
fn messages_of_an_open_connection_are_not_evicted() {
    let mut puppet = two_places();
    store(&mut puppet, 0, 3);
    let stats = *puppet.engine().stats();
    assert_eq!((stats.messages_put_out, stats.receiver_not_ready), (0, 1));
}

#[test]
fn messages_of_a_named_peer_are_not_evicted() {
    for named_before in [true, false] {
        let mut puppet = two_places();
        if named_before {
            puppet.engine().insert_peer(address(PUPPET)).unwrap();
        }
        store(&mut puppet, 0, 2);
        come_back(&mut puppet, 2);
        puppet.engine().insert_peer(address(PUPPET)).unwrap();
        store(&mut puppet, 0, 1);
        let stats = *puppet.engine().stats();
        assert_eq!((stats.messages_put_out, stats.receiver_not_ready), (0, 1), "{named_before}");
        for context in 0..2 {
            puppet.world.recv(0, context, 1);
        }
        puppet.drive();
        assert_eq!(puppet.world.received(0, 1), [1]);
    }
}

#[test]
fn messages_of_a_removed_peer_are_evicted_when_the_storage_is_full() {
    let config = Config { unexpected: [2, 0, 0, 0], ..small() };
    let mut puppet = Puppet::beside_good_peer(&config).connect();
    let named = puppet.engine().insert_peer(address(PUPPET)).unwrap();
    store(&mut puppet, 0, 2);
    puppet.engine().remove_peer(named).unwrap();
    assert_eq!(puppet.engine().stored_messages(), 2);
    puppet.engine().insert_peer(address(GOOD)).unwrap();
    puppet.world.send(GOOD, 0, 0, vec![9]);
    puppet.world.run(Duration::from_millis(5));
    let stats = *puppet.engine().stats();
    assert_eq!((stats.messages_put_out, stats.receiver_not_ready), (1, 0));
    let good = &puppet.world.nodes[GOOD].engine;
    let seen = good.peer_reports().find(|report| report.address == address(0));
    assert_eq!(seen.unwrap().occupancy, 4, "its own message, and a place that an orphan has");
    for context in 0..2 {
        puppet.world.recv(0, context, 1);
    }
    puppet.drive();
    assert_eq!([0, 1].map(|context| puppet.world.received(0, context)), [[1], [9]]);
    puppet.world.audit();
}

#[test]
fn a_message_that_was_received_makes_room_once() {
    let mut puppet = two_places();
    store(&mut puppet, 0, 2);
    come_back(&mut puppet, 2);
    puppet.world.recv(0, 0, 1);
    store(&mut puppet, 0, 2);
    let stats = *puppet.engine().stats();
    assert_eq!((stats.messages_put_out, stats.receiver_not_ready), (1, 0));
    store(&mut puppet, 2, 1);
    assert_eq!(puppet.engine().stats().receiver_not_ready, 1, "none is left to put out");
}

#[test]
fn messages_that_can_be_evicted_do_not_count_as_occupancy() {
    let mut puppet = two_places();
    store(&mut puppet, 0, 2);
    let full = puppet.sent().pop().unwrap().parsed().header.receiver_status();
    come_back(&mut puppet, 2);
    store(&mut puppet, 0, 1);
    let half = puppet.sent().pop().unwrap().parsed().header.receiver_status();
    assert_eq!((full.occupancy(), half.occupancy()), (7, 4));
}
