// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another peer of a host that has its share of the peers or of the connections
//! (`docs/PROTOCOL.md` §9.1): peers of that host make room for it.

use crate::puppet::*;
use crate::unnamed::*;
use crate::world::*;
use ofi_xdp_core::wire::PacketKind;
use ofi_xdp_core::*;
use std::time::Duration;

/// Connections of [`with_connections`], and how many of them one host takes.
const CONNECTIONS: u32 = 32;
const SHARE: u16 = 17;
/// The peer time-out of these tests.
const TIMEOUT: u64 = 1_000 * MILLI;

fn with_connections() -> Puppet {
    let config = Config { peers: 256, connections: CONNECTIONS, responders: 32, ..small() };
    let config = Config { unexpected: [256, 16, 8, 2], ..config };
    let peer_timeout = Duration::from_nanos(TIMEOUT);
    Puppet::unconnected(&Config { peer_timeout, ..config })
}

/// An engine with 64 places for peers.
fn with_peers() -> Puppet {
    Puppet::unconnected(&Config { peers: 64, connections: 64, responders: 64, ..small() })
}

/// Peers that rest, as many as the host may have.
fn resting(puppet: &mut Puppet) -> Vec<Unnamed> {
    let peers = connect_all(puppet, 33);
    puppet.pass(50 * MILLI);
    assert_eq!((peers.len(), puppet.engine().connections()), (33, 0));
    peers
}

/// The engine's answer to a hello from `port` of the host, and its notice to another peer.
fn answer_to_hello(puppet: &mut Puppet, port: u16) -> Vec<Seen> {
    let at = PeerAddress::new(address(PUPPET).ip(), port);
    let hello = puppet.hello(INCARNATION, 1, 0);
    puppet.sent();
    puppet.ingest_at(at, &hello);
    puppet.drive();
    let mut sent = puppet.sent();
    let answers = [PacketKind::Close, PacketKind::HelloAck, PacketKind::Retry];
    sent.retain(|seen| answers.contains(&seen.kind()));
    sent
}

/// Checks that the engine does not answer a hello.
fn finds_no_room(puppet: &mut Puppet) {
    let before = puppet.engine().stats().dropped(DropReason::NoRoom);
    let answer = answer_to_hello(puppet, 100);
    assert!(answer.is_empty(), "{:?} {:?}", answer[0].kind(), puppet.engine().stats());
    assert_eq!(puppet.engine().stats().dropped(DropReason::NoRoom), before + 1);
}

/// Checks that the engine agrees to a hello.
fn finds_room(puppet: &mut Puppet) {
    let kinds: Vec<_> = answer_to_hello(puppet, 100).iter().map(Seen::kind).collect();
    assert_eq!(kinds, [PacketKind::HelloAck]);
}

#[test]
fn a_resting_peer_makes_room_for_another_one_of_its_host_and_is_notified() {
    let mut puppet = with_peers();
    let peers = resting(&mut puppet);
    let sent = answer_to_hello(&mut puppet, 100);
    let kinds: Vec<_> = sent.iter().map(Seen::kind).collect();
    assert_eq!(kinds, [PacketKind::Close, PacketKind::HelloAck]);
    let notified = peers.iter().find(|peer| peer.head.token == sent[0].token()).unwrap();
    // It has no connection any more, and makes another one.
    notified.send(&mut puppet, 0, &message(0, b"x"));
    assert_eq!(puppet.engine().stats().dropped(DropReason::UnknownConnection), 1);
    puppet.pass(50 * MILLI);
    Unnamed::connect(&mut puppet, notified.at.port()).unwrap();
}

#[test]
fn a_peer_of_another_host_or_that_the_application_named_makes_no_room() {
    let config = Config { peers: 256, connections: 64, responders: 64, ..small() };
    let mut puppet = Puppet::unconnected(&config);
    let other = |port| PeerAddress::new(address(GOOD).ip(), port);
    let mut kept: Vec<Unnamed> =
        (1..=20).map(|port| Unnamed::connect_from(&mut puppet, other(port)).unwrap()).collect();
    puppet.engine().insert_peer(PeerAddress::new(address(PUPPET).ip(), 99)).unwrap();
    kept.push(Unnamed::connect(&mut puppet, 99).unwrap());
    // 99 is the port of the named one.
    for port in (1..400).filter(|&port| port != 99) {
        Unnamed::connect(&mut puppet, port).unwrap();
        puppet.pass(50 * MILLI);
    }
    assert!(puppet.engine().stats().connections_ended > 250);
    for peer in &kept {
        peer.send(&mut puppet, 0, &message(0, b"x"));
    }
    assert_eq!(puppet.engine().stored_messages(), 21);
}

#[test]
fn a_resting_peer_with_a_stored_message_keeps_its_place() {
    let mut puppet = with_peers();
    for peer in connect_all(&mut puppet, 33) {
        peer.send(&mut puppet, 0, &message(0, b"x"));
    }
    puppet.pass(50 * MILLI);
    finds_no_room(&mut puppet);
    assert_eq!(puppet.engine().stored_messages(), 33);
}

#[test]
fn a_search_that_finds_no_peer_to_make_room_is_repeated_as_late_as_one_that_does() {
    let mut puppet = with_peers();
    for peer in connect_all(&mut puppet, 33) {
        peer.send(&mut puppet, 0, &message(0, b"x"));
    }
    puppet.pass(50 * MILLI);
    finds_no_room(&mut puppet);
    for context in 0..33 {
        puppet.world.recv(0, context, 1);
    }
    puppet.drive();
    assert_eq!(puppet.ends().len(), 33);
    // Of 64 places, 31 are free: one is searched for in 8 ms.
    finds_no_room(&mut puppet);
    puppet.pass(10 * MILLI);
    let kinds: Vec<_> = answer_to_hello(&mut puppet, 100).iter().map(Seen::kind).collect();
    assert_eq!(kinds, [PacketKind::Close, PacketKind::HelloAck]);
}

#[test]
fn a_peer_that_cannot_be_notified_keeps_its_place() {
    let mut puppet = with_peers();
    resting(&mut puppet);
    let hello = puppet.hello(INCARNATION, 1, 0);
    puppet.sent();
    // Answers that wait leave no room for the notice.
    let unknown = Head { cid: PeerId::from_bits(0), ..puppet.now(PacketKind::Ping) }.packet(&[]);
    for _ in 0..127 {
        puppet.ingest(&unknown);
    }
    puppet.ingest_at(PeerAddress::new(address(PUPPET).ip(), 100), &hello);
    assert_eq!(puppet.engine().stats().dropped(DropReason::NoRoom), 1);
    puppet.drive();
    assert_eq!(puppet.engine().stats().connections_ended, 0);
    // Another search comes at its pace.
    puppet.pass(10 * MILLI);
    Unnamed::connect(&mut puppet, 100).unwrap();
}

#[test]
fn an_idle_connection_makes_room_for_another_one_of_its_host() {
    let mut puppet = with_connections();
    let peers = connect_all(&mut puppet, SHARE);
    assert_eq!(puppet.engine().connections(), SHARE.into());
    // Pings keep the connections, which have nothing to do.
    for round in 0..10 {
        puppet.pass(10 * MILLI);
        for peer in &peers {
            let ping = peer.now(&puppet, PacketKind::Ping).packet(&[]);
            puppet.ingest_at(peer.at, &ping);
            puppet.drive();
        }
        Unnamed::connect(&mut puppet, 100 + round).unwrap();
    }
    assert_eq!(puppet.engine().connections(), SHARE.into());
    assert_eq!(puppet.engine().stats().connections_ended, 0);
}

#[test]
fn a_connection_with_a_failed_operation_makes_room_when_it_has_rested() {
    // A response for each connection, and an error for each.
    let config = Config { peers: 256, connections: CONNECTIONS, ..small() };
    let mut puppet = Puppet::unconnected(&Config { responders: 2 * CONNECTIONS + 8, ..config });
    let wrong = Remote { key: 1, address: 0 };
    for mut peer in connect_all(&mut puppet, SHARE) {
        peer.send(&mut puppet, 0, &write(9, wrong, None, b"x"));
        peer.head.psn = peer.head.psn.plus(1);
        // It has the error.
        peer.head.ack = peer.head.ack.plus(1);
        let ping = peer.now(&puppet, PacketKind::Ping).packet(&[]);
        puppet.ingest_at(peer.at, &ping);
    }
    puppet.drive();
    assert_eq!(puppet.engine().stats().errors_sent, SHARE.into());
    finds_no_room(&mut puppet);
    puppet.pass(50 * MILLI);
    assert_eq!(puppet.engine().connections(), SHARE.into(), "they know what has failed");
    let kinds: Vec<_> = answer_to_hello(&mut puppet, 100).iter().map(Seen::kind).collect();
    assert_eq!(kinds, [PacketKind::Close, PacketKind::HelloAck]);
    assert_eq!(puppet.engine().stats().connections_ended, 1);
}

#[test]
fn a_peer_that_rested_gets_a_connection_of_its_host() {
    let mut puppet = with_connections();
    let first = Unnamed::connect(&mut puppet, 100).unwrap();
    puppet.pass(50 * MILLI);
    assert_eq!(connect_all(&mut puppet, SHARE).len(), SHARE.into());
    first.send(&mut puppet, 0, &message(0, b"x"));
    assert_eq!(puppet.engine().stored_messages(), 1);
    assert_eq!(puppet.engine().connections(), SHARE.into());
}

/// Connections with a hole, as many as the host may have.
fn with_holes(puppet: &mut Puppet, count: u16) -> Vec<Unnamed> {
    let peers = connect_all(puppet, count);
    peers.iter().for_each(|peer| peer.send(puppet, 1, &message(1, b"x")));
    finds_no_room(puppet);
    peers
}

/// Lets most of the peer time-out pass, in which all peers are heard.
fn pass_heard(puppet: &mut Puppet, peers: &[Unnamed]) {
    for _ in 0..8 {
        puppet.pass(TIMEOUT / 10);
        for peer in peers {
            let ping = peer.now(puppet, PacketKind::Ping).packet(&[]);
            puppet.ingest_at(peer.at, &ping);
            puppet.drive();
        }
    }
}

#[test]
fn a_connection_without_progress_makes_room_for_another_one_of_its_host() {
    let mut puppet = with_connections();
    let elsewhere = PeerAddress::new(address(GOOD).ip(), 1);
    let elsewhere = Unnamed::connect_from(&mut puppet, elsewhere).unwrap();
    elsewhere.send(&mut puppet, 1, &message(1, b"x"));
    // Its connection is not free: the share is one less.
    let mut peers = with_holes(&mut puppet, SHARE - 1);
    peers.push(elsewhere);
    pass_heard(&mut puppet, &peers);
    assert_eq!(puppet.engine().stats().connections_ended, 0, "none asks");
    finds_room(&mut puppet);
    assert_eq!(puppet.engine().stats().connections_ended, 1);
    let stored = puppet.engine().stored_messages();
    peers.last().unwrap().send(&mut puppet, 0, &message(0, b"x"));
    assert_eq!(puppet.engine().stored_messages(), stored + 1, "that of another host goes on");
}

#[test]
fn a_message_that_does_not_grow_makes_room_for_another_connection_of_its_host() {
    let mut puppet = with_connections();
    let peers = connect_all(&mut puppet, SHARE);
    peers.iter().for_each(|peer| peer.send(&mut puppet, 0, &segment(0, 128, 0, &[1; 64])));
    finds_no_room(&mut puppet);
    pass_heard(&mut puppet, &peers);
    finds_room(&mut puppet);
}

#[test]
fn a_newcomer_that_the_application_knows_is_taken_in_beyond_the_share_of_its_host() {
    let mut puppet = with_connections();
    with_holes(&mut puppet, SHARE);
    let newcomers: Vec<_> = std::iter::from_fn(|| puppet.engine().take_newcomer()).collect();
    let asked = newcomers[0];
    assert_eq!(asked, PeerAddress::new(address(PUPPET).ip(), 100));
    puppet.engine().insert_peer(asked).unwrap();
    finds_room(&mut puppet);
    assert_eq!(puppet.engine().take_newcomer(), None, "it is in the table");
    // Its connection is one more that the others do not have.
    assert_eq!(puppet.engine().connections(), u32::from(SHARE) + 1);
    assert_eq!(puppet.engine().stats().connections_ended, 0);
}

#[test]
fn a_newcomer_without_a_slot_in_the_table_is_taken_in_if_the_application_knows_it() {
    let mut puppet = with_peers();
    for peer in connect_all(&mut puppet, 33) {
        peer.send(&mut puppet, 0, &message(0, b"x"));
    }
    puppet.pass(50 * MILLI);
    while puppet.engine().take_newcomer().is_some() {}
    finds_no_room(&mut puppet);
    let asked = puppet.engine().take_newcomer().unwrap();
    puppet.engine().insert_peer(asked).unwrap();
    finds_room(&mut puppet);
}

#[test]
fn an_address_is_no_newcomer_before_it_is_proven_where_that_is_asked() {
    let config = Config { peers: 256, connections: 32, responders: 32, ..small() };
    let mut puppet = Puppet::unconnected(&config);
    connect_all(&mut puppet, 17);
    let other = |port| PeerAddress::new(address(GOOD).ip(), port);
    for port in 1..=7 {
        Unnamed::connect_from(&mut puppet, other(port)).unwrap();
    }
    while puppet.engine().take_newcomer().is_some() {}
    // Three quarters of the connections are taken.
    let hello = puppet.hello(INCARNATION, 1, 0);
    puppet.ingest_at(other(100), &hello);
    assert_eq!(puppet.engine().take_newcomer(), None);
    Unnamed::connect_from(&mut puppet, other(100)).unwrap();
    assert_eq!(puppet.engine().take_newcomer(), Some(other(100)));
}

#[test]
fn a_connection_that_makes_progress_makes_no_room() {
    let mut puppet = with_connections();
    let peers = with_holes(&mut puppet, SHARE);
    pass_heard(&mut puppet, &peers);
    // The packet that was missing arrives, and another one is missing.
    for peer in &peers {
        peer.send(&mut puppet, 0, &message(0, b"x"));
        peer.send(&mut puppet, 3, &message(3, b"x"));
    }
    finds_no_room(&mut puppet);
    assert_eq!(puppet.engine().stats().connections_ended, 0);
}

#[test]
fn every_hello_of_a_batch_is_answered() {
    let config = Config { peers: 256, connections: 256, responders: 256, ..small() };
    let mut puppet = Puppet::unconnected(&config);
    let hello = puppet.hello(INCARNATION, 1, 0);
    let batch = Budget::PROGRESS.rx_packets;
    for port in 1..=batch {
        puppet.ingest_at(PeerAddress::new(address(PUPPET).ip(), port), &hello);
    }
    puppet.drive();
    let is_answer = |seen: &Seen| [PacketKind::HelloAck, PacketKind::Retry].contains(&seen.kind());
    assert_eq!(puppet.sent().iter().filter(|seen| is_answer(seen)).count(), batch.into());
}
