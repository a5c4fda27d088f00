// SPDX-License-Identifier: MIT OR Apache-2.0
//! An attacker that sends packets under any source address, and reads those to its own alone
//! (`docs/PROTOCOL.md` §5.3, §10).

use crate::puppet::*;
use crate::world::*;
use ofi_xdp_core::wire::{PacketKind, Token};
use ofi_xdp_core::*;
use proptest::prelude::*;
use zerocopy::IntoBytes;

/// The attacker's own address.
const ATTACKER: usize = 9;
/// The longest time for which a cookie is good.
const COOKIE_NANOS: u64 = 10_000 * MILLI;

/// The bytes that the engine has sent to a node since the last call.
fn answered(puppet: &mut Puppet, node: usize) -> usize {
    let tap = puppet.world.link.tap.as_mut().unwrap();
    let all = std::mem::take(tap);
    all.iter().filter(|(_, to, _)| *to == address(node)).map(|(_, _, bytes)| bytes.len()).sum()
}

#[test]
fn one_forged_hello_ends_no_connection() {
    // The attacker knows the incarnation of the puppet, as it sees it, and counts epochs.
    let mut puppet = Puppet::connected(&small());
    puppet.send(5, vec![0; 8]);
    puppet.sent();
    let before = puppet.digest();
    for epoch in [2, 3, 1 << 14] {
        puppet.ingest(&puppet.hello(INCARNATION, epoch, 0));
    }
    assert_eq!(puppet.digest(), before);
    puppet.drive();
    assert_eq!(puppet.ends(), []);
    // The process proves with a cookie that the hello is its own.
    let cookie = puppet.cookie(INCARNATION, 2);
    puppet.deliver(puppet.hello(INCARNATION, 2, cookie));
    assert_eq!(puppet.ends(), [(5, Err(OpError::Reset))]);
    assert_eq!(puppet.sent().pop().unwrap().kind(), PacketKind::HelloAck);
}

#[test]
fn an_incarnation_is_another_for_each_peer() {
    let mut puppet = Puppet::unconnected(&small());
    puppet.world.link.cut.push(address(ATTACKER));
    puppet.deliver(puppet.hello(INCARNATION, 1, 0));
    let shown = puppet.sent().pop().unwrap();
    let hello = puppet.hello(INCARNATION, 1, 0);
    puppet.ingest_from(ATTACKER, &hello);
    puppet.drive();
    let other = puppet.sent().pop().unwrap();
    assert_eq!((shown.kind(), other.kind()), (PacketKind::HelloAck, PacketKind::HelloAck));
    let [shown_to, other_to] = [&shown, &other].map(|ack| ack.handshake());
    assert_ne!(shown_to.src_incarnation, other_to.src_incarnation);
    assert_ne!(shown_to.psn_base, other_to.psn_base);
    assert_ne!(shown.token(), other.token());
}

#[test]
fn a_hello_changes_no_state_of_a_connection_without_a_cookie() {
    // The engine waits for an answer to its own hello.
    let mut puppet = Puppet::unconnected(&small());
    puppet.send(5, vec![0; 8]);
    puppet.sent();
    let before = puppet.digest();
    for (incarnation, epoch) in [(INCARNATION, 1), (INCARNATION, 2), (7, 1), (7, 1 << 14)] {
        puppet.ingest(&puppet.hello(incarnation, epoch, 0));
    }
    assert_eq!(puppet.digest(), before);
    // The peer is accepted without proof of its address.
    let mut puppet = Puppet::unconnected(&small());
    puppet.deliver(puppet.hello(INCARNATION, 3, 0));
    let before = puppet.digest();
    for (incarnation, epoch) in [(INCARNATION, 2), (INCARNATION, 4), (7, 3), (7, 1 << 14)] {
        puppet.ingest(&puppet.hello(incarnation, epoch, 0));
    }
    assert_eq!(puppet.digest(), before);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn a_cookie_is_good_for_one_hello_and_ten_seconds(
        incarnation in 1u64.., epoch in 2u16..1 << 15, later in 0..3 * COOKIE_NANOS,
        bit in 0u32..64,
    ) {
        prop_assume!(incarnation != INCARNATION);
        let mut puppet = Puppet::connected(&small());
        let cookie = puppet.cookie(incarnation, epoch);
        puppet.pass(later);
        puppet.sent();
        let before = puppet.digest();
        puppet.ingest(&puppet.hello(incarnation, epoch, cookie ^ 1 << bit));
        puppet.ingest(&puppet.hello(incarnation ^ 1 << bit, epoch, cookie));
        puppet.ingest(&puppet.hello(incarnation, epoch ^ 1 << (bit % 15), cookie));
        prop_assert_eq!(puppet.digest(), before);
        // That of another address.
        let hello = puppet.hello(incarnation, epoch, cookie);
        puppet.ingest_from(ATTACKER, &hello);
        puppet.ingest_from(ATTACKER, &puppet.hello(incarnation, epoch + 1, cookie));
        puppet.drive();
        prop_assert_eq!(puppet.engine().stats().dropped(DropReason::UnexpectedHandshake), 0);
        prop_assert_eq!(puppet.engine().stats().peers_failed, 0);
        puppet.deliver(hello);
        let ended = puppet.engine().stats().peers_failed;
        prop_assert!(ended == 0 || later <= COOKIE_NANOS);
        prop_assert!(ended == 1 || later >= COOKIE_NANOS / 2);
    }
}

#[test]
fn a_cookie_for_one_address_proves_no_other() {
    let mut puppet = Puppet::connected(&small());
    puppet.world.link.cut.push(address(ATTACKER));
    // The attacker has a connection of its own. When it asks for the next one, it gets a cookie.
    for epoch in 1..3 {
        let hello = puppet.hello(7, epoch, 0);
        puppet.ingest_from(ATTACKER, &hello);
        puppet.drive();
    }
    let retry = puppet.sent().pop().unwrap();
    assert_eq!(retry.kind(), PacketKind::Retry);
    let cookie = retry.handshake().cookie.get();
    let before = puppet.digest();
    // This hello comes under the address of the puppet.
    let hello = puppet.hello(7, 2, cookie);
    puppet.ingest(&hello);
    assert_eq!(puppet.digest(), before);
    puppet.ingest_from(ATTACKER, &hello);
    assert_ne!(puppet.digest(), before, "it is good for the attacker's address");
}

#[test]
fn an_attacker_gets_no_more_bytes_than_it_sends() {
    let kinds = [
        PacketKind::Hello,
        PacketKind::HelloAck,
        PacketKind::Retry,
        PacketKind::Reset,
        PacketKind::Ping,
        PacketKind::Close,
        PacketKind::Ack,
        PacketKind::Probe,
        PacketKind::ProbeAck,
        PacketKind::Piece,
        PacketKind::PortRequest,
        PacketKind::Data,
    ];
    for known in [false, true] {
        for kind in kinds {
            let mut puppet = Puppet::unconnected(&small());
            if known {
                puppet.engine().insert_peer(address(PUPPET)).unwrap();
            }
            let body = match kind {
                PacketKind::Hello | PacketKind::HelloAck | PacketKind::Retry => {
                    puppet.handshake(INCARNATION, 1, 0).as_bytes().to_vec()
                }
                PacketKind::Ack => vec![0; 24],
                PacketKind::Probe => [vec![0, 0, 40, 0], vec![0; 4]].concat(),
                PacketKind::ProbeAck | PacketKind::PortRequest => vec![0; 8],
                PacketKind::Piece => [vec![0, 0, 128, 0], vec![0; 68]].concat(),
                _ => Vec::new(),
            };
            let mut sent = 0;
            for slot in [0, 1, u32::MAX] {
                let head = Head { cid: PeerId::from_bits(slot), ..puppet.now(kind) };
                let packet = head.packet(&body);
                sent += packet.len();
                puppet.deliver(packet);
            }
            // Nor does anything follow.
            puppet.pass(12_000 * MILLI);
            assert!(answered(&mut puppet, PUPPET) <= sent, "{kind:?}");
        }
    }
}

#[test]
fn a_guess_of_a_token_is_no_proof() {
    // Before its address is proven, a connection sends nothing but what it was asked for.
    let mut puppet = Puppet::unconnected(&small());
    let mut sent = puppet.hello(INCARNATION, 1, 0).len();
    puppet.deliver(puppet.hello(INCARNATION, 1, 0));
    let answer = puppet.sent().pop().unwrap();
    let cid = PeerId::from_bits(answer.handshake().src_cid.get());
    // All that an attacker may compute: its own incarnation twice, the epoch, small numbers.
    for guess in [0, 1, INCARNATION, u64::MAX] {
        let token = Token::new(INCARNATION, guess, 1);
        let ping = Head { cid, token, ack: Psn(0), ..puppet.now(PacketKind::Ping) }.packet(&[]);
        sent += ping.len();
        puppet.deliver(ping);
    }
    assert_eq!(puppet.engine().stats().handshakes, 0);
    puppet.pass(12_000 * MILLI);
    assert!(answered(&mut puppet, PUPPET) <= sent);
}

#[test]
fn a_reset_with_other_numbers_is_answered_by_one_question() {
    let mut puppet = Puppet::connected(&small());
    let token = puppet.head.token;
    // Nothing is in flight: the reset answers nothing.
    for _ in 0..100 {
        puppet.ingest(&puppet.reset(token, puppet.first));
    }
    puppet.drive();
    let asked = puppet.sent();
    assert_eq!(asked.iter().map(Seen::kind).collect::<Vec<_>>(), [PacketKind::Ping]);
    assert_eq!(puppet.engine().stats().dropped(DropReason::UnprovenReset), 99);
    // A peer without the connection repeats the numbers of the question.
    puppet.send(5, vec![0; 8]);
    puppet.deliver(puppet.reset(token, asked[0].psn()));
    assert_eq!(puppet.ends(), [(5, Err(OpError::Reset))]);
}

#[test]
fn a_close_with_an_old_number_is_answered_by_one_question() {
    let mut puppet = Puppet::connected(&small());
    puppet.send(5, vec![0; 8]);
    puppet.sent();
    let first = puppet.first;
    puppet.deliver(
        Head { ack: first.plus(1), accepted: 1, ..puppet.now(PacketKind::Ping) }.packet(&[]),
    );
    assert_eq!(puppet.ends(), [(5, Ok(()))]);
    puppet.sent();
    // Nothing is in flight, so one number is possible.
    for behind in [1, 2, 1 << 15, 1 << 16] {
        let ack = Psn(first.0.wrapping_add(1).wrapping_sub(behind));
        puppet.ingest(&Head { ack, accepted: 1, ..puppet.now(PacketKind::Close) }.packet(&[]));
    }
    puppet.drive();
    let asked = puppet.sent();
    assert_eq!(asked.iter().map(Seen::kind).collect::<Vec<_>>(), [PacketKind::Ping]);
    assert_eq!(puppet.engine().stats().dropped(DropReason::UnprovenReset), 3);
    assert_eq!(puppet.engine().connections(), 1);
    // While packets are in flight, a close acknowledges some of them, or none.
    puppet.send(6, vec![0; 8]);
    let before = Head { ack: first, accepted: 1, ..puppet.now(PacketKind::Close) }.packet(&[]);
    puppet.refused(&before, DropReason::UnprovenReset);
    let head = Head { ack: first.plus(1), accepted: 1, ..puppet.now(PacketKind::Close) };
    puppet.deliver(head.packet(&[]));
    assert_eq!(puppet.ends(), [(6, Err(OpError::Closed))]);
}

#[test]
fn a_question_about_an_unknown_connection_is_answered() {
    let mut puppet = Puppet::connected(&small());
    let ping = Head { cid: CID, ..puppet.now(PacketKind::Ping) };
    puppet.deliver(ping.packet(&[]));
    let reset = puppet.sent().pop().unwrap();
    assert_eq!(reset.kind(), PacketKind::Reset);
    assert_eq!((reset.token(), reset.parsed().header.ack_psn()), (ping.token, ping.ack));
    // Nothing else is: two engines without a connection do not answer each other for ever.
    let close = Head { kind: PacketKind::Close, ..ping }.packet(&[]);
    puppet.refused(&close, DropReason::UnknownConnection);
    puppet.drive();
    assert!(puppet.sent().is_empty());
}

#[test]
fn hellos_without_proof_take_an_eighth_of_the_slots() {
    let config = Config { peers: 256, connections: 64, responders: 64, ..small() };
    let mut puppet = Puppet::unconnected(&config);
    let say = |puppet: &mut Puppet, node: usize, hello: &[u8]| {
        puppet.world.link.cut.push(address(100 + node));
        puppet.ingest_from(100 + node, hello);
        puppet.drive();
        puppet.sent().pop().unwrap()
    };
    let hello = puppet.hello(INCARNATION, 1, 0);
    for node in 1..1000 {
        let answer = say(&mut puppet, node, &hello).kind();
        let kind = if node <= 8 { PacketKind::HelloAck } else { PacketKind::Retry };
        assert_eq!(answer, kind, "hello {node}");
        puppet.pass(MILLI);
    }
    // One that is there gets in, and an unproven one makes room.
    for node in 1000..1020 {
        let mut answer = say(&mut puppet, node, &hello);
        if answer.kind() == PacketKind::Retry {
            let cookie = answer.handshake().cookie.get();
            let proven = puppet.hello(INCARNATION, 1, cookie);
            answer = say(&mut puppet, node, &proven);
        }
        assert_eq!(answer.kind(), PacketKind::HelloAck, "hello {node}");
    }
    let stats = puppet.engine().stats();
    assert_eq!(stats.dropped(DropReason::NoRoom), 0);
    assert!(stats.retries_sent < 1000 - 8 + 20, "room was made: {stats:?}");
}
