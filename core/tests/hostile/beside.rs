// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers of one host fill what all peers use (`docs/PROTOCOL.md` §9.1). A good peer beside them
//! ends as many operations in the same virtual time, none of them in error.

use crate::puppet::*;
use crate::unnamed::*;
use crate::world::*;
use ofi_xdp_core::wire::{PacketKind, PieceBody, Token};
use ofi_xdp_core::*;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Rounds of an attack, and the time of each.
const ROUNDS: u32 = 60;
const ROUND: Duration = Duration::from_millis(5);
/// Hostile peers that try to connect.
const PORTS: u16 = 60;
/// The tag of the good peer's messages.
const TAG: u64 = 7;

/// What hostile peers do in a round.
type Attack = fn(&mut Puppet, &mut [Unnamed], u32);

/// Packets that an attacker sends under the address of the good peer, without reading any of its.
fn forge(puppet: &mut Puppet, round: u32, kinds: &[PacketKind], bodies: &[&[u8]]) {
    let numbers = [0, 1, round, !0 >> 12].map(|n| (PeerId::from_bits(n), Token(u64::from(n))));
    for (kind, body) in kinds.iter().zip(bodies) {
        for (cid, token) in numbers {
            let head = Head { cid, token, ack: Psn(round), ..puppet.now(*kind) };
            puppet.ingest_from(GOOD, &head.packet(body));
        }
    }
    puppet.drive();
}

fn each(puppet: &mut Puppet, peers: &[Unnamed], ahead: u32, records: &[u8]) {
    peers.iter().for_each(|peer| peer.send(puppet, ahead, records));
}

/// A packet in order from each peer.
fn each_next(puppet: &mut Puppet, peers: &mut [Unnamed], records: &[u8]) {
    for peer in peers {
        peer.send(puppet, 0, records);
        peer.head.psn = peer.head.psn.plus(1);
    }
}

fn idle(_: &mut Puppet, _: &mut [Unnamed], _: u32) {}

fn more_peers(puppet: &mut Puppet, _: &mut [Unnamed], round: u32) {
    for port in 0..20 {
        Unnamed::connect(puppet, 100 + 20 * round as u16 + port);
    }
}

fn hellos_without_proof(puppet: &mut Puppet, _: &mut [Unnamed], round: u32) {
    for port in 0..100 {
        let at = PeerAddress::new(address(PUPPET).ip(), 5000 + 100 * round as u16 + port);
        let hello = puppet.hello(INCARNATION, 1, 0);
        puppet.ingest_at(at, &hello);
    }
    puppet.drive();
}

fn holes(puppet: &mut Puppet, peers: &mut [Unnamed], _: u32) {
    each(puppet, peers, 1, &[]);
}

fn messages_out_of_order(puppet: &mut Puppet, peers: &mut [Unnamed], round: u32) {
    each(puppet, peers, 1 + round, &message(1 + round, b"x"));
}

fn packets_far_ahead(puppet: &mut Puppet, peers: &mut [Unnamed], round: u32) {
    each(puppet, peers, 1 + 800 * round, &[]);
}

fn halves_of_messages(puppet: &mut Puppet, peers: &mut [Unnamed], round: u32) {
    each_next(puppet, peers, &segment(round, 2, 0, b"x"));
}

fn unwanted_messages(puppet: &mut Puppet, peers: &mut [Unnamed], round: u32) {
    each_next(puppet, peers, &message(round, b"x"));
}

fn announcements_without_bytes(puppet: &mut Puppet, peers: &mut [Unnamed], round: u32) {
    for context in 0..4 {
        // A receive that takes untagged messages.
        let context = 1_000_000 + 1000 * u64::from(round) + context;
        let posted = puppet.world.recv_with(0, 1 << 20, |r| r.context = Context(context));
        if posted.is_err() {
            break;
        }
    }
    each_next(puppet, peers, &announcement(round, 1 << 20, 3));
}

fn requests_that_are_never_acknowledged(puppet: &mut Puppet, peers: &mut [Unnamed], round: u32) {
    let nowhere = Remote { key: 1, address: 0 };
    each_next(puppet, peers, &read_request(round, nowhere, 8));
}

fn accesses_without_a_right(puppet: &mut Puppet, peers: &mut [Unnamed], round: u32) {
    let nowhere = Remote { key: 1, address: 0 };
    each_next(puppet, peers, &write(round, nowhere, Some(1), b"x"));
}

fn first_pieces(puppet: &mut Puppet, peers: &mut [Unnamed], round: u32) {
    let body = PieceBody { offset: 0.into(), total: 128.into(), reserved: 0.into() };
    for peer in peers {
        let mut head = peer.now(puppet, PacketKind::Piece);
        head.psn = head.psn.plus(round);
        let piece = head.packet(&[body.as_bytes(), &[0; 64]].concat());
        puppet.ingest_at(peer.at, &piece);
    }
    puppet.drive();
}

fn hellos_of_the_good_peer(puppet: &mut Puppet, _: &mut [Unnamed], round: u32) {
    for (incarnation, cookie) in [(INCARNATION, 0), (INCARNATION, 1), (1, 0), (u64::MAX, !0)] {
        for epoch in [1, 2, 2 + round as u16, 1 << 14] {
            let hello = puppet.hello(incarnation, epoch, cookie);
            puppet.ingest_from(GOOD, &hello);
        }
    }
    puppet.drive();
}

fn ends_of_the_good_peer(puppet: &mut Puppet, _: &mut [Unnamed], round: u32) {
    let kinds = [PacketKind::Close, PacketKind::Reset, PacketKind::Ping];
    forge(puppet, round, &kinds, &[&[], &[], &[]]);
}

fn messages_of_the_good_peer(puppet: &mut Puppet, _: &mut [Unnamed], round: u32) {
    let (whole, part) = (message(round, b"false"), segment(round, 3_000, 0, b"false"));
    forge(puppet, round, &[PacketKind::Data; 2], &[&whole, &part]);
}

fn requests_without_proof(puppet: &mut Puppet, _: &mut [Unnamed], round: u32) {
    for port in 0..5 {
        let at = PeerAddress::new(address(PUPPET).ip(), 20_000 + 5 * round as u16 + port);
        puppet.sent();
        let hello = puppet.hello(INCARNATION, 1, 0);
        puppet.ingest_at(at, &hello);
        puppet.drive();
        let Some(answer) = puppet.sent().pop() else { continue };
        if answer.kind() != PacketKind::HelloAck {
            continue;
        }
        puppet.agreed(&answer);
        let peer = Unnamed { at, head: puppet.head };
        peer.send(puppet, 0, &read_request(0, Remote { key: 1, address: 0 }, 8));
        peer.send(puppet, 2, &[]);
    }
}

fn segments_twice(puppet: &mut Puppet, peers: &mut [Unnamed], round: u32) {
    for half in [b"a", b"b"] {
        each_next(puppet, peers, &segment(round, 2, 0, half));
    }
}

fn writes_with_data(puppet: &mut Puppet, peers: &mut [Unnamed], round: u32) {
    let target = puppet.world.region(0, 1 << 20, 8, Access::WRITE);
    for (number, peer) in peers.iter().enumerate() {
        // Some come before an earlier packet, so their data waits.
        let records = write(round, target, Some(1), b"x");
        peer.send(puppet, 1 + number as u32 % 3, &records);
    }
    puppet.world.deregister(0, target.key);
}

fn reads_that_are_never_acknowledged(puppet: &mut Puppet, peers: &mut [Unnamed], round: u32) {
    let source = puppet.world.region(0, 1 << 20, 64, Access::READ);
    each_next(puppet, peers, &read_request(round, source, 64));
    puppet.world.deregister(0, source.key);
}

fn config() -> Config {
    Config {
        peers: 64,
        connections: 32,
        responders: 64,
        recvs: 512,
        sends: 512,
        rendezvous_reads: 8,
        ..small()
    }
}

/// Posts the operations of the good peer in a round.
fn post_good(world: &mut World, remote: Remote, round: u32) {
    for (number, len) in [8, 3_000, 100_000].into_iter().enumerate() {
        let context = Context(u64::from(round) * 10 + number as u64);
        let tag = Some(TagMatch { tag: TAG, ignore: 0 });
        let receive = |r: &mut RecvRequest| (r.context, r.tag) = (context, tag);
        let is_late = number > 0 && round % 2 == 1;
        if !is_late {
            world.recv_with(0, len, receive).unwrap();
        }
        let send = |r: &mut SendRequest| (r.common.context, r.tag) = (context, Some(TAG));
        world.send_with(GOOD, 0, send, vec![1; len]).unwrap();
        if is_late {
            world.recv_with(0, len, receive).unwrap();
        }
    }
    let context = u64::from(round) * 10 + 5;
    world.write(GOOD, 0, context, remote, None, vec![1; 2_000]);
    world.read(GOOD, 0, context + 1, remote, 2_000);
    world.fetch_add(GOOD, 0, context + 2, remote, 1);
}

/// How many operations the good peer ends beside an attack.
fn good_operations(attack: Attack) -> usize {
    let mut puppet = Puppet::beside_good_peer(&config());
    let remote = puppet.world.region(0, 0, 2_048, Access::READ | Access::WRITE);
    let mut peers = connect_all(&mut puppet, PORTS);
    let mut ended = 0;
    for round in 0..ROUNDS {
        attack(&mut puppet, &mut peers, round);
        post_good(&mut puppet.world, remote, round);
        puppet.world.run_until(ROUND, |_| false);
        puppet.world.now += ROUND.as_nanos() as u64 / 10;
        puppet.ends();
        let good = puppet.world.completions(GOOD);
        assert!(good.iter().all(|end| end.outcome.is_ok()), "{good:?}");
        ended += good.len();
    }
    ended
}

#[test]
fn a_good_peer_ends_its_operations_beside_each_attack() {
    let alone = good_operations(idle);
    assert_eq!(alone, 6 * ROUNDS as usize);
    let attacks: [(&str, Attack); 18] = [
        ("more peers", more_peers),
        ("hellos without proof", hellos_without_proof),
        ("holes", holes),
        ("messages out of order", messages_out_of_order),
        ("packets far ahead", packets_far_ahead),
        ("halves of messages", halves_of_messages),
        ("unwanted messages", unwanted_messages),
        ("announcements without bytes", announcements_without_bytes),
        ("requests that are never acknowledged", requests_that_are_never_acknowledged),
        ("accesses without a right", accesses_without_a_right),
        ("first pieces", first_pieces),
        ("hellos of the good peer", hellos_of_the_good_peer),
        ("ends of the good peer", ends_of_the_good_peer),
        ("messages of the good peer", messages_of_the_good_peer),
        ("requests without proof", requests_without_proof),
        ("segments twice", segments_twice),
        ("writes with data", writes_with_data),
        ("reads that are never acknowledged", reads_that_are_never_acknowledged),
    ];
    for (name, attack) in attacks {
        let beside = good_operations(attack);
        assert!(beside * 10 >= alone * 9, "{name}: {beside} of {alone}");
    }
}
