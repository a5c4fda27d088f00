// SPDX-License-Identifier: MIT OR Apache-2.0
//! The share of a host, with any number of ports, of what all peers use (`docs/PROTOCOL.md` §9.1),
//! and a good peer beside it.

use crate::puppet::*;
use crate::unnamed::*;
use crate::world::*;
use ofi_xdp_core::wire::{Body, PacketKind, PieceBody};
use ofi_xdp_core::*;
use std::time::Duration;
use zerocopy::IntoBytes;

/// The time in which a good peer begins.
const BEGIN: Duration = Duration::from_millis(100);

/// Checks that a message of the good peer arrives in time.
fn good_message_arrives(puppet: &mut Puppet, context: u64, len: usize) {
    puppet.ends();
    // A tag that no such peer uses.
    let tag = Some(TagMatch { tag: 7, ignore: 0 });
    let receive = |r: &mut RecvRequest| (r.context, r.tag) = (Context(context), tag);
    puppet.world.recv_with(0, len, receive).unwrap();
    let send = |r: &mut SendRequest| (r.common.context, r.tag) = (Context(context), Some(7));
    puppet.world.send_with(GOOD, 0, send, vec![1; len]).unwrap();
    let arrived = |world: &World| {
        let all = [0, GOOD].map(|node| &world.nodes[node].completions);
        all.iter().all(|ends| ends.iter().any(|end| end.context.0 == context))
    };
    assert!(puppet.world.run_until(BEGIN, arrived), "the good peer waits");
    let good = puppet.world.completions(GOOD);
    assert!(good.iter().all(|end| end.outcome.is_ok()), "{good:?}");
    assert_eq!(puppet.world.received(0, context), vec![1; len]);
}

#[test]
fn quiet_connections_of_one_host_leave_half_of_the_peer_table() {
    let config = Config { peers: 64, connections: 64, responders: 64, ..small() };
    let mut puppet = Puppet::beside_good_peer(&config);
    for port in 1..200 {
        Unnamed::connect(&mut puppet, port).unwrap();
        // Their connections rest, and keep their places in the table.
        puppet.pass(50 * MILLI);
    }
    // Each one beyond the share of the host takes the place of another one.
    assert_eq!(puppet.engine().stats().connections_ended, 199 - 33);
    good_message_arrives(&mut puppet, 1, 8);
}

#[test]
fn a_host_that_comes_back_with_other_ports_replaces_its_closed_peers() {
    let config = Config { peers: 64, connections: 64, responders: 64, ..small() };
    let mut puppet = Puppet::beside_good_peer(&config);
    for port in 1..200 {
        let peer = Unnamed::connect(&mut puppet, port);
        // The slot of the first peer that makes room is in quarantine for 128 ms.
        puppet.pass(200 * MILLI);
        let peer = peer.or_else(|| Unnamed::connect(&mut puppet, port)).unwrap();
        let close = peer.now(&puppet, PacketKind::Close).packet(&[]);
        puppet.ingest_at(peer.at, &close);
        puppet.drive();
    }
    good_message_arrives(&mut puppet, 1, 8);
}

#[test]
fn busy_connections_of_one_host_leave_half_of_the_connections() {
    let config = Config { peers: 256, connections: 32, responders: 32, ..small() };
    let mut puppet = Puppet::beside_good_peer(&config);
    good_message_arrives(&mut puppet, 1, 8);
    // It rests, and loses its connection.
    puppet.world.run(Duration::from_millis(50));
    let mut peers = 0;
    for port in 1..200 {
        if let Some(peer) = Unnamed::connect(&mut puppet, port) {
            peers += 1;
            // A hole that is never filled.
            peer.send(&mut puppet, 1, &message(1, b"x"));
        }
    }
    assert_eq!((peers, puppet.engine().connections()), (17, 17));
    good_message_arrives(&mut puppet, 2, 8);
}

#[test]
fn the_application_names_peers_of_a_host_beyond_its_share() {
    let config = Config { peers: 256, connections: 32, responders: 32, ..small() };
    let mut puppet = Puppet::unconnected(&config);
    for port in 1..25 {
        let at = PeerAddress::new(address(PUPPET).ip(), port);
        puppet.engine().insert_peer(at).unwrap();
        let peer = Unnamed::connect(&mut puppet, port).unwrap();
        peer.send(&mut puppet, 1, &message(1, b"x"));
    }
    assert_eq!(puppet.engine().connections(), 24);
}

#[test]
fn rendezvous_reads_that_one_host_never_answers_leave_half_of_the_slots() {
    let config = Config { peers: 64, connections: 64, responders: 64, ..small() };
    let config = Config { rendezvous_reads: 16, ..config };
    let mut puppet = Puppet::beside_good_peer(&config);
    let peers = connect_all(&mut puppet, 20);
    for (context, peer) in (100..).zip(&peers) {
        puppet.world.recv(0, context, 1 << 20);
        peer.send(&mut puppet, 0, &announcement(0, 1 << 20, 3));
    }
    assert_eq!(puppet.engine().stats().rendezvous, 20);
    good_message_arrives(&mut puppet, 1, 1 << 20);
}

#[test]
fn messages_of_one_host_that_never_grow_leave_slots_to_others() {
    let config = Config { peers: 256, connections: 256, responders: 256, ..small() };
    let config = Config { assemblies: 64, unexpected: [256, 8, 8, 8], ..config };
    let mut puppet = Puppet::beside_good_peer(&config);
    for peer in connect_all(&mut puppet, 60) {
        peer.send(&mut puppet, 0, &segment(0, 2, 0, b"x"));
        peer.send(&mut puppet, 1, &segment(1, 2, 0, b"x"));
    }
    assert_eq!(puppet.engine().stats().messages_accepted, 33);
    good_message_arrives(&mut puppet, 1, 3000);
}

#[test]
fn messages_of_one_host_that_no_receive_wants_leave_storage_to_others() {
    let config = Config { peers: 256, connections: 256, responders: 256, ..small() };
    let mut puppet = Puppet::beside_good_peer(&config);
    for peer in connect_all(&mut puppet, 60) {
        for msn in 0..2 {
            peer.send(&mut puppet, msn, &message(msn, b"x"));
        }
    }
    // 33 of 64 small slots, and 9 of the 16 next larger ones.
    assert_eq!(puppet.engine().stored_messages(), 42);
    let send = |r: &mut SendRequest| r.tag = Some(7);
    puppet.world.send_with(GOOD, 0, send, vec![1; 8]).unwrap();
    puppet.world.run(BEGIN);
    assert_eq!(puppet.engine().stored_messages(), 43);
    good_message_arrives(&mut puppet, 1, 8);
}

#[test]
fn orphans_stay_where_a_host_that_has_its_share_wants_storage() {
    let mut puppet = Puppet::beside_good_peer(&Config { unexpected: [16, 0, 0, 0], ..small() });
    let gone = Unnamed::connect(&mut puppet, 1).unwrap();
    for msn in 0..4 {
        gone.send(&mut puppet, msn, &message(msn, b"x"));
    }
    let close = gone.now(&puppet, PacketKind::Close).packet(&[]);
    puppet.ingest_at(gone.at, &close);
    puppet.drive();
    let at = PeerAddress::new(address(GOOD + 1).ip(), 1);
    puppet.world.link.cut.push(at);
    let other = Unnamed::connect_from(&mut puppet, at).unwrap();
    for msn in 0..10 {
        other.send(&mut puppet, msn, &message(msn, b"yy"));
    }
    let stats = puppet.engine().stats();
    assert_eq!((stats.messages_put_out, stats.receiver_not_ready), (0, 1));
    for context in 0..4 {
        puppet.world.recv(0, context, 2);
    }
    puppet.drive();
    let received = puppet.world.completions(0);
    assert_eq!(received.iter().map(|it| it.len).collect::<Vec<_>>(), [1; 4]);
}

#[test]
fn messages_of_one_host_are_no_occupancy_for_others() {
    let config = Config { peers: 256, connections: 256, responders: 256, ..small() };
    let mut puppet = Puppet::beside_good_peer(&config);
    for peer in connect_all(&mut puppet, 60) {
        peer.send(&mut puppet, 0, &message(0, b"x"));
    }
    for is_named in [false, true] {
        if is_named {
            puppet.world.recv(GOOD, 0, 8);
            puppet.world.send(0, GOOD, 0, vec![2; 8]);
            puppet.world.run(BEGIN);
        }
        good_message_arrives(&mut puppet, 1, 8);
        let good = &puppet.world.nodes[GOOD].engine;
        let seen = good.peer_reports().find(|report| report.address == address(0));
        assert_eq!(seen.unwrap().occupancy, 0, "33 of 64 slots have messages of the one host");
        good_message_arrives(&mut puppet, 2, 10_000);
        assert_eq!(puppet.engine().stats().rendezvous, 0, "the message is not announced");
    }
}

#[test]
fn messages_that_were_received_count_no_more() {
    let config = Config { unexpected: [8, 0, 0, 0], ..small() };
    let mut puppet = Puppet::connected(&config);
    for msn in 0..64 {
        let packet = puppet.data(&message(msn, b"x"));
        puppet.deliver(packet);
        puppet.world.recv(0, msn.into(), 1);
        puppet.drive();
    }
    assert_eq!(puppet.ends().len(), 64);
}

#[test]
fn pieces_of_one_host_leave_slots_to_others() {
    let config = Config { peers: 256, connections: 256, responders: 256, ..small() };
    let mut puppet = Puppet::beside_good_peer(&config);
    let peers = connect_all(&mut puppet, 30);
    good_message_arrives(&mut puppet, 1, 8);
    // Only short packets pass now: those of the good peer go again in pieces.
    puppet.world.link.passes = 1300;
    let bytes = vec![1; 20_000];
    let send = |r: &mut SendRequest| (r.common.context, r.tag) = (Context(2), Some(7));
    puppet.world.send_with(GOOD, 0, send, bytes).unwrap();
    for _ in 0..200 {
        // A copy of the piece: its packet keeps its slot.
        for peer in &peers {
            let body = PieceBody { offset: 0.into(), total: 128.into(), reserved: 0.into() };
            let head = peer.now(&puppet, PacketKind::Piece);
            let piece = head.packet(&[body.as_bytes(), &[0; 64]].concat());
            puppet.ingest_at(peer.at, &piece);
        }
        puppet.world.run(Duration::from_millis(5));
        puppet.world.now += 5 * MILLI;
    }
    let good = puppet.world.completions(GOOD);
    assert!(good.iter().any(|end| end.context.0 == 2 && end.outcome.is_ok()), "{good:?}");
    assert!(puppet.world.nodes[GOOD].engine.stats().pieces_sent > 0);
}

#[test]
fn credit_of_one_host_leaves_credit_to_others() {
    let config = Config { peers: 64, connections: 64, responders: 264, ..small() };
    let mut puppet = Puppet::beside_good_peer(&config);
    let remote = puppet.world.region(0, 0, 64, Access::READ);
    // 200 slots beyond one for each connection, 150 of them for credit.
    for peer in connect_all(&mut puppet, 20) {
        peer.send(&mut puppet, 0, &read_request(1, remote, 8));
    }
    good_message_arrives(&mut puppet, 1, 8);
    puppet.sent();
    for context in 0..32 {
        puppet.world.read(GOOD, 0, 100 + context, remote, 8);
    }
    puppet.world.run(Duration::from_millis(5));
    let good = puppet.world.completions(GOOD);
    assert!(good.len() == 32 && good.iter().all(|end| end.outcome.is_ok()), "{good:?}");
    let credit = |seen: &Seen| match seen.parsed().body {
        Body::Ack(ack, _) => ack.responder_credit,
        _ => 0,
    };
    assert_eq!(puppet.sent().iter().map(credit).max(), Some(16));
}

#[test]
fn errors_that_one_host_never_acknowledges_leave_slots_to_others() {
    let config = Config { peers: 64, connections: 64, responders: 104, ..small() };
    let mut puppet = Puppet::beside_good_peer(&config);
    good_message_arrives(&mut puppet, 1, 8);
    // 40 slots for errors: of 20 peers each has three, but for those that are reset.
    let wrong = Remote { key: 1, address: 0 };
    for peer in &mut connect_all(&mut puppet, 20) {
        for op in 0..3 {
            peer.send(&mut puppet, 0, &write(op, wrong, None, b"x"));
            peer.head.psn = peer.head.psn.plus(1);
        }
    }
    assert_eq!(puppet.engine().stats().errors_sent, 21);
    for context in 10..20 {
        puppet.world.write(GOOD, 0, context, wrong, None, vec![1; 8]);
    }
    puppet.world.run(BEGIN);
    let good = puppet.world.completions(GOOD);
    assert_eq!(good.len(), 10);
    assert!(good.iter().all(|end| end.outcome == Err(OpError::Key)), "{good:?}");
}

#[test]
fn data_of_one_host_behind_missing_packets_leaves_slots_to_others() {
    let config = Config { peers: 256, connections: 256, responders: 256, ..small() };
    let mut puppet = Puppet::beside_good_peer(&Config { events: 64, ..config });
    let remote = puppet.world.region(0, 0, 64, Access::WRITE);
    // Each packet brings a completion that waits for the packet before it.
    let peers = connect_all(&mut puppet, 60);
    for peer in &peers {
        peer.send(&mut puppet, 1, &write(1, remote, Some(9), b"x"));
    }
    assert_eq!(puppet.engine().stats().dropped(DropReason::NoEvent), 60 - 33);
    for context in 10..20 {
        puppet.world.write(GOOD, 0, context, remote, Some(context), vec![1; 8]);
    }
    puppet.world.run(BEGIN);
    let good = puppet.world.completions(GOOD);
    assert!(good.len() == 10 && good.iter().all(|end| end.outcome.is_ok()), "{good:?}");
    // Those that were delivered count no more.
    for peer in &peers {
        peer.send(&mut puppet, 0, &write(2, remote, None, b"x"));
    }
    puppet.world.completions(0);
    for peer in &peers {
        peer.send(&mut puppet, 3, &write(3, remote, Some(9), b"x"));
    }
    assert_eq!(puppet.engine().stats().dropped(DropReason::NoEvent), 2 * (60 - 33));
}

#[test]
fn wide_windows_of_one_host_leave_pages_to_others() {
    let config = Config { peers: 64, connections: 64, responders: 64, ..small() };
    let mut puppet = Puppet::beside_good_peer(&Config { reorder_pages: 16, ..config });
    // Packets far ahead of a missing one.
    for peer in connect_all(&mut puppet, 20) {
        peer.send(&mut puppet, 20_000, &message(1, b"x"));
    }
    let beyond = puppet.engine().stats().dropped(DropReason::BeyondWindow);
    assert_eq!(beyond, 20 - 9);
    let at = PeerAddress::new(address(GOOD + 1).ip(), 1);
    puppet.world.link.cut.push(at);
    let other = Unnamed::connect_from(&mut puppet, at).unwrap();
    other.send(&mut puppet, 20_000, &message(1, b"x"));
    assert_eq!(puppet.engine().stats().dropped(DropReason::BeyondWindow), beyond);
}

#[test]
fn a_long_message_that_waits_for_the_share_of_its_host_leaves_no_connection_without_a_timer() {
    const LEN: usize = 1 << 20;
    let config = Config { peers: 64, connections: 64, responders: 64, ..small() };
    let mut puppet = Puppet::beside_good_peer(&config);
    let mut peers = connect_all(&mut puppet, 4);
    let resting = peers.pop().unwrap();
    for (context, peer) in (100..).zip(&peers) {
        puppet.world.recv(0, context, LEN);
        peer.send(&mut puppet, 0, &announcement(0, LEN as u64, 3));
    }
    resting.send(&mut puppet, 0, &announcement(0, LEN as u64, 3));
    puppet.pass(50 * MILLI);
    assert_eq!(puppet.engine().connections(), 3, "the others have not answered");
    puppet.world.recv(0, 104, LEN);
    puppet.drive();
    assert_eq!(puppet.engine().stats().rendezvous, 4);
    puppet.pass(50 * MILLI);
    assert_eq!(puppet.engine().connections(), 3, "it rests again");
}

#[test]
fn connections_whose_packets_find_no_room_stay_beside_others_of_their_host() {
    let mut puppet = Puppet::beside_good_peer(&Config { peers: 64, ..small() });
    let remote = puppet.world.region(0, 0, 64, Access::WRITE);
    puppet.world.set_unpolled(0, true);
    let peers = connect_all(&mut puppet, 5);
    let events = small().events;
    for op in 0..events {
        peers[0].send(&mut puppet, op, &write(op, remote, Some(1), &[1; 8]));
    }
    let next = |peer: usize| if peer == 0 { events } else { 0 };
    for (number, peer) in peers.iter().enumerate() {
        peer.send(&mut puppet, next(number), &segment(0, 128, 0, &[1; 64]));
    }
    let part = small().peer_timeout.as_nanos() as u64 / 4;
    for rounds in 1..4 {
        puppet.pass(part + 100 * MILLI);
        for (number, peer) in peers.iter().enumerate() {
            let refused = write(events, remote, Some(1), &[1; 8]);
            peer.send(&mut puppet, next(number) + 1, &refused);
        }
        assert_eq!(puppet.engine().stats().dropped(DropReason::NoEvent), 5 * rounds);
        assert!(Unnamed::connect(&mut puppet, 9).is_none(), "round {rounds}");
    }
    puppet.pass(part + 100 * MILLI);
    assert!(Unnamed::connect(&mut puppet, 9).is_some(), "no more packets have come");
    assert_eq!(puppet.engine().stats().connections_ended, 1);
}
