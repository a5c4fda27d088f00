// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that end a connection, and events that do not (`docs/PROTOCOL.md` §5).

use crate::puppet::*;
use crate::world::*;
use ofi_xdp_core::wire::{PacketKind, Token};
use ofi_xdp_core::*;

/// Another process at the puppet's address.
const SUCCESSOR: u64 = 0xdead_beef;

#[test]
fn a_forged_hello_ends_no_connection() {
    let mut puppet = Puppet::connected(&small());
    puppet.send(5, vec![0; 8]);
    puppet.sent();
    let before = puppet.digest();
    for (epoch, cookie) in [(1, 0), (2, 0), (u16::MAX, 1), (9, u64::MAX), (1 << 15, 77)] {
        puppet.ingest(&puppet.hello(SUCCESSOR, epoch, cookie));
    }
    assert_eq!(puppet.digest(), before);
    puppet.drive();
    assert_eq!(puppet.ends(), []);
    let answers = puppet.sent();
    assert_eq!(answers.len(), 5);
    assert!(answers.iter().all(|answer| answer.kind() == PacketKind::Retry));
    // A node at that address learns the cookie, and is believed only then. The cookie is valid for
    // one incarnation.
    let cookie = answers[0].handshake().cookie.get();
    puppet.ingest(&puppet.hello(SUCCESSOR + 1, 1, cookie));
    assert_eq!(puppet.digest(), before);
    puppet.sent();
    puppet.deliver(puppet.hello(SUCCESSOR, 1, cookie));
    assert_eq!(puppet.ends(), [(5, Err(OpError::Reset))]);
    assert_eq!(puppet.sent().last().unwrap().kind(), PacketKind::HelloAck);
}

#[test]
fn an_older_hello_of_the_same_process_changes_nothing() {
    let mut puppet = Puppet::unconnected(&small());
    puppet.deliver(puppet.hello(INCARNATION, 7, 0));
    let answer = puppet.sent().pop().unwrap();
    puppet.agreed(&answer);
    // While it is unknown whether the peer exists, the peer may prove that it wants this
    // connection.
    let before = puppet.digest();
    for epoch in [6, 1, 40_000] {
        puppet.ingest(&puppet.hello(INCARNATION, epoch, 0));
    }
    assert_eq!(puppet.digest(), before);
    puppet.drive();
    let answers = puppet.sent();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| answer.kind() == PacketKind::Retry));
    let ping = puppet.now(PacketKind::Ping).packet(&[]);
    puppet.deliver(ping);
    assert_eq!(puppet.engine().stats().handshakes, 1);
    let cookie = answers[0].handshake().cookie.get();
    for (epoch, cookie) in [(6, 0), (1, 0), (40_000, 0), (6, cookie)] {
        let hello = puppet.hello(INCARNATION, epoch, cookie);
        puppet.refused(&hello, DropReason::UnexpectedHandshake);
    }
}

#[test]
fn an_old_hello_is_no_answer_to_a_new_one() {
    let mut puppet = Puppet::connected(&small());
    let old = puppet.hello(INCARNATION, 1, 0);
    let close = puppet.now(PacketKind::Close).packet(&[]);
    puppet.deliver(close);
    puppet.send(5, vec![0; 8]);
    assert_eq!(puppet.sent().pop().unwrap().handshake().epoch.get(), 2);
    puppet.refused(&old, DropReason::UnexpectedHandshake);
    // A new handshake is valid: both sides want a connection.
    let cookie = puppet.cookie(INCARNATION, 2);
    puppet.deliver(puppet.hello(INCARNATION, 2, cookie));
    assert_eq!(puppet.engine().stats().crossed_hellos, 1);
}

#[test]
fn a_reset_that_answers_no_packet_ends_no_connection() {
    let mut puppet = Puppet::connected(&small());
    let token = puppet.head.token;
    puppet.send(5, vec![0; 3000]);
    assert_eq!(puppet.sent_data().len(), 3);
    for wrong in [3, 4, 255, 1 << 31, u32::MAX] {
        let reset = puppet.reset(token, puppet.first.plus(wrong));
        puppet.refused(&reset, DropReason::UnprovenReset);
    }
    puppet.refused(&puppet.reset(Token(token.0 ^ 1), puppet.first), DropReason::UnprovenReset);
    // The packet that it answers acknowledged another number.
    for wrong in [1, 2, 1 << 31, u32::MAX] {
        let ack = puppet.head.psn.plus(wrong);
        let head = Head { token, ack, ..puppet.now(PacketKind::Reset) };
        let reset = Head { cid: PeerId::NONE, psn: puppet.first, ..head }.packet(&[]);
        puppet.refused(&reset, DropReason::UnprovenReset);
    }
    puppet.deliver(puppet.reset(token, puppet.first.plus(2)));
    assert_eq!(puppet.ends(), [(5, Err(OpError::Reset))]);
}

#[test]
fn the_answer_to_a_hello_says_where_its_numbers_begin() {
    let mut puppet = Puppet::unconnected(&small());
    puppet.world.recv(0, 1, 8);
    // An old handshake, from an attempt that the peer has given up, with a base of its own.
    puppet.deliver(puppet.hello(INCARNATION, 1, 0));
    let answer = puppet.sent().pop().unwrap();
    puppet.agreed(&answer);
    puppet.head.psn = Psn(0x1234_5678);
    let agree = |puppet: &mut Puppet, echo: Psn| {
        puppet.deliver(puppet.agreement(INCARNATION, 1, echo));
    };
    // A puppet that does not know the engine's first packet number learns it again.
    let wrong = puppet.first.plus(1);
    agree(&mut puppet, wrong);
    assert_eq!(puppet.engine().stats().handshakes, 0);
    assert_eq!(puppet.sent().pop().unwrap().kind(), PacketKind::HelloAck);
    let right = puppet.first;
    agree(&mut puppet, right);
    assert_eq!(puppet.engine().stats().handshakes, 1);
    let data = puppet.data(&message(0, &[3; 8]));
    puppet.deliver(data);
    assert_eq!(puppet.ends(), [(1, Ok(()))]);
    assert_eq!(puppet.world.received(0, 1), [3; 8]);
}

#[test]
fn an_answer_to_another_hello_changes_nothing() {
    let mut puppet = Puppet::unconnected(&small());
    puppet.send(5, vec![0; 8]);
    let hello = puppet.sent().pop().unwrap().handshake();
    puppet.head.cid = PeerId::from_bits(hello.src_cid.get());
    puppet.incarnation = hello.src_incarnation.get() ^ 1;
    let (epoch, base) = (hello.epoch.get(), Psn(hello.psn_base.get()));
    let ack = puppet.agreement(INCARNATION, epoch, base);
    puppet.refused(&ack, DropReason::UnexpectedHandshake);
    puppet.incarnation ^= 1;
    // It also holds for an attempt that was given up: its numbers began elsewhere, whatever the
    // epoch.
    for (epoch, base) in [(epoch, base.plus(1)), (epoch, Psn(0)), (epoch + 1, base.plus(1))] {
        let ack = puppet.agreement(INCARNATION, epoch, base);
        puppet.refused(&ack, DropReason::UnexpectedHandshake);
    }
    let ack = puppet.agreement(INCARNATION, epoch, base);
    puppet.refused_from(PUPPET + 1, &ack, DropReason::WrongSource);
    puppet.deliver(ack);
    assert_eq!(puppet.engine().stats().handshakes, 1);
}

#[test]
fn a_peer_that_is_in_the_middle_of_something_keeps_its_state() {
    // The connection becomes idle 20 ms after the newest packet. A late packet is not the newest,
    // so the handshake that it starts needs its own proof.
    let mut puppet = Puppet::connected(&small());
    puppet.world.recv(0, 1, 128);
    let older = puppet.now(PacketKind::Data).sent_at;
    puppet.pass(MILLI);
    let ping = puppet.now(PacketKind::Ping).packet(&[]);
    puppet.deliver(ping);
    puppet.pass(20 * MILLI - 5 * MICRO);
    let mut head = puppet.now(PacketKind::Data);
    head.sent_at = older;
    puppet.deliver(head.packet(&segment(0, 128, 0, &[1; 64])));
    puppet.head.psn = puppet.head.psn.plus(1);
    puppet.pass(MILLI);
    assert_eq!(puppet.engine().connections(), 1);
    let rest = puppet.data(&segment(0, 128, 64, &[2; 64]));
    puppet.deliver(rest);
    assert_eq!(puppet.ends(), [(1, Ok(()))]);
    puppet.pass(25 * MILLI);
    assert_eq!(puppet.engine().connections(), 0, "and gives it back afterwards");
}

/// The engine has sent a handshake for a message: takes over its numbers as if it had been
/// accepted. Returns the epoch that it proposes.
fn asked(puppet: &mut Puppet) -> u16 {
    let hello = puppet.sent().into_iter().rfind(|seen| seen.kind() == PacketKind::Hello);
    let hello = hello.unwrap().handshake();
    puppet.head.cid = PeerId::from_bits(hello.src_cid.get());
    puppet.incarnation = hello.src_incarnation.get();
    puppet.first = Psn(hello.psn_base.get());
    puppet.head.ack = puppet.first;
    hello.epoch.get()
}

/// The puppet accepts the handshake of [`asked`], and the message goes out to it.
fn agree(puppet: &mut Puppet, epoch: u16) {
    puppet.deliver(puppet.agreement(INCARNATION, epoch, puppet.first));
    assert_eq!(puppet.engine().stats().handshakes, 1);
    let data = puppet.sent_data();
    assert_eq!(data.iter().map(Seen::psn).collect::<Vec<_>>(), [puppet.first]);
    puppet.head.token = Token::new(INCARNATION, puppet.incarnation, epoch);
    assert_eq!(data[0].parsed().header.token(), puppet.head.token.low());
    let head = Head { ack: puppet.first.plus(1), accepted: 1, ..puppet.now(PacketKind::Ping) };
    puppet.deliver(head.packet(&[]));
    assert_eq!(puppet.ends(), [(5, Ok(()))]);
}

#[test]
fn a_forged_hello_does_not_keep_the_peer_from_agreeing() {
    for epoch in [1, 9, 20_000, 40_000] {
        let mut puppet = Puppet::unconnected(&small());
        puppet.send(5, vec![0; 8]);
        let proposed = asked(&mut puppet);
        puppet.deliver(puppet.hello(SUCCESSOR, epoch, 0));
        agree(&mut puppet, proposed);
        // A forger that reads what is sent to the puppet's address has a cookie.
        let mut puppet = Puppet::unconnected(&small());
        puppet.send(5, vec![0; 8]);
        let proposed = asked(&mut puppet);
        let cookie = puppet.cookie(SUCCESSOR, epoch);
        puppet.deliver(puppet.hello(SUCCESSOR, epoch, cookie));
        agree(&mut puppet, proposed);
    }
}

#[test]
fn a_forged_hello_without_an_epoch_does_not_keep_this_side_from_asking() {
    let mut puppet = Puppet::unconnected(&small());
    let elsewhere = PUPPET + 1;
    puppet.world.link.cut.push(address(elsewhere));
    // The next epoch of this side is not newer than 0.
    let hello = puppet.hello(SUCCESSOR, 0x7fff, 0);
    puppet.ingest_from(elsewhere, &hello);
    puppet.deliver(puppet.hello(SUCCESSOR, 0, 0));
    puppet.send(5, vec![0; 8]);
    puppet.pass(6 * MILLI);
    let proposed = asked(&mut puppet);
    let unnumbered = puppet.agreement(INCARNATION, 0, puppet.first);
    puppet.refused(&unnumbered, DropReason::Malformed);
    agree(&mut puppet, proposed);
    assert_eq!(puppet.engine().stats().dropped(DropReason::Malformed), 2);
}

#[test]
fn a_hello_is_repeated_also_behind_a_forged_one() {
    let mut puppet = Puppet::unconnected(&small());
    puppet.send(5, vec![0; 8]);
    let proposed = asked(&mut puppet);
    let cookie = puppet.cookie(SUCCESSOR, 9);
    puppet.deliver(puppet.hello(SUCCESSOR, 9, cookie));
    puppet.sent();
    // The first one was lost.
    puppet.pass(6 * MILLI);
    assert_eq!(asked(&mut puppet), proposed);
    agree(&mut puppet, proposed);
}

#[test]
fn a_post_behind_a_forged_hello_asks_the_peer() {
    for idle in [MILLI, 25 * MILLI, 3_600_000 * MILLI] {
        let mut puppet = Puppet::unconnected(&small());
        puppet.deliver(puppet.hello(SUCCESSOR, 9, 0));
        puppet.pass(idle);
        puppet.send(5, vec![0; 8]);
        puppet.pass(6 * MILLI);
        let proposed = asked(&mut puppet);
        agree(&mut puppet, proposed);
    }
}

#[test]
fn another_hello_before_there_is_a_connection_ends_no_operation() {
    let mut puppet = Puppet::unconnected(&small());
    puppet.send(5, vec![0; 8]);
    let proposed = asked(&mut puppet);
    let cookie = puppet.cookie(SUCCESSOR, 9);
    puppet.deliver(puppet.hello(SUCCESSOR, 9, cookie));
    puppet.sent();
    // Forged packets change nothing. A peer that exists proves it, and gets the posted message.
    let before = puppet.digest();
    puppet.ingest(&puppet.hello(INCARNATION, proposed, 0));
    puppet.ingest(&puppet.hello(INCARNATION, proposed, 1));
    assert_eq!(puppet.digest(), before);
    puppet.drive();
    let retry = puppet.sent().pop().unwrap();
    assert_eq!(retry.kind(), PacketKind::Retry);
    let cookie = retry.handshake().cookie.get();
    puppet.deliver(puppet.hello(INCARNATION, proposed, cookie));
    // It also holds for a newer handshake of the same process, which has given up its first one.
    let cookie = puppet.cookie(INCARNATION, proposed + 1);
    puppet.deliver(puppet.hello(INCARNATION, proposed + 1, cookie));
    assert_eq!(puppet.ends(), []);
    let answer = puppet.sent().pop().unwrap();
    puppet.agreed(&answer);
    assert_eq!(answer.handshake().epoch.get(), proposed + 1);
    agree(&mut puppet, proposed + 1);
}

#[test]
fn a_first_packet_after_a_pause_is_no_answer_to_the_handshake() {
    let mut puppet = Puppet::unconnected(&small());
    puppet.deliver(puppet.hello(INCARNATION, 1, 0));
    let answer = puppet.sent().pop().unwrap();
    puppet.agreed(&answer);
    puppet.pass(30 * MILLI);
    assert_eq!(puppet.engine().connections(), 0);
    let data = puppet.data(&message(0, b"x"));
    puppet.deliver(data);
    let report = puppet.engine().peer_reports().next().unwrap();
    assert!(report.established);
    assert_eq!(report.round_trip_least, core::time::Duration::ZERO, "nothing was measured");
}

#[test]
fn an_answer_after_a_repeated_retry_measures_no_round_trip() {
    for (retries, round_trip) in [(1, 100 * MICRO), (2, 0)] {
        let mut puppet = Puppet::unconnected(&small());
        puppet.send(5, vec![0; 8]);
        let proposed = asked(&mut puppet);
        for _ in 0..retries {
            puppet.pass(MILLI);
            puppet.deliver(puppet.retry(INCARNATION, proposed, 77));
            assert_eq!(puppet.sent().pop().unwrap().handshake().cookie.get(), 77);
        }
        puppet.pass(100 * MICRO);
        puppet.deliver(puppet.agreement(INCARNATION, proposed, puppet.first));
        let report = puppet.engine().peer_reports().next().unwrap();
        assert!(report.established);
        // The agreement may be an answer to the first of the two hellos.
        let measured = report.round_trip.as_nanos() as u64;
        assert!(measured.abs_diff(round_trip) < TICK, "{retries}: {report:?}");
    }
}

#[test]
fn a_connected_endpoint_takes_no_hello_that_names_no_connection() {
    let mut puppet = Puppet::unconnected(&Config { named_peers_only: true, ..small() });
    let hello = puppet.hello(INCARNATION, 1, 0);
    puppet.refused(&hello, DropReason::UnknownConnection);
    puppet.drive();
    assert!(puppet.sent().is_empty());
}

#[test]
fn an_old_hello_asks_a_peer_that_was_not_heard_whether_it_has_the_connection() {
    let mut puppet = Puppet::connected(&small());
    // The epochs of the peer have gone on by more than half of their range.
    let epoch = 1 + 40_000;
    let hello = puppet.hello(INCARNATION, epoch, 0);
    puppet.refused(&hello, DropReason::UnexpectedHandshake);
    for pause in [21 * MILLI, 1_000 * MILLI] {
        puppet.pass(pause);
        let before = puppet.digest();
        puppet.ingest(&puppet.hello(INCARNATION, epoch, 0));
        assert_eq!(puppet.digest(), before);
        let cookie = puppet.cookie(INCARNATION, epoch);
        puppet.deliver(puppet.hello(INCARNATION, epoch, cookie));
        let asked: Vec<_> = puppet.sent().iter().map(Seen::kind).collect();
        assert_eq!(asked, [PacketKind::Ping], "after {pause} ns");
        // The hello was a copy: the peer answers, and the connection rests.
        let ack = puppet.ack(puppet.head.ack, &[]);
        puppet.deliver(ack);
        puppet.pass(50 * MILLI);
        assert_eq!(puppet.engine().connections(), 0);
        assert_eq!(puppet.engine().stats().connections_ended, 0);
    }
    let cookie = puppet.cookie(INCARNATION, epoch);
    puppet.deliver(puppet.hello(INCARNATION, epoch, cookie));
    let (token, high) = (puppet.head.token, puppet.head.token.high());
    puppet.deliver(puppet.reset(token, Psn(high)));
    assert_eq!(puppet.engine().stats().connections_ended, 1);
    puppet.sent();
    puppet.deliver(puppet.hello(INCARNATION, epoch, cookie));
    assert_eq!(puppet.sent().pop().unwrap().kind(), PacketKind::HelloAck);
}

#[test]
fn a_reset_ends_a_connection_that_rests_if_it_answers_a_ping() {
    let mut puppet = Puppet::connected(&small());
    let epoch = 1 + 40_000;
    puppet.pass(50 * MILLI);
    let cookie = puppet.cookie(INCARNATION, epoch);
    puppet.deliver(puppet.hello(INCARNATION, epoch, cookie));
    assert_eq!(puppet.sent().pop().unwrap().kind(), PacketKind::Ping);
    // The answer takes longer than the connection needs to rest.
    puppet.pass(30 * MILLI);
    assert_eq!(puppet.engine().connections(), 0);
    let (token, high) = (puppet.head.token, puppet.head.token.high());
    puppet.refused(&puppet.reset(Token(token.0 ^ 1), Psn(high)), DropReason::UnprovenReset);
    puppet.refused(&puppet.reset(token, puppet.first), DropReason::UnprovenReset);
    let head = Head { token, psn: Psn(high), ..puppet.now(PacketKind::Reset) };
    let head = Head { cid: PeerId::NONE, ack: puppet.head.psn.plus(1), ..head };
    puppet.refused(&head.packet(&[]), DropReason::UnprovenReset);
    puppet.deliver(puppet.reset(token, Psn(high)));
    assert_eq!(puppet.engine().stats().connections_ended, 1);
    puppet.deliver(puppet.hello(INCARNATION, epoch, cookie));
    assert_eq!(puppet.sent().pop().unwrap().kind(), PacketKind::HelloAck);
}

#[test]
fn an_answer_to_a_repeated_agreement_measures_no_round_trip() {
    for (copies, wrong, round_trip) in
        [(0, false, 100 * MICRO), (1, false, 0), (2, false, 0), (0, true, 0)]
    {
        let mut puppet = Puppet::unconnected(&small());
        puppet.deliver(puppet.hello(INCARNATION, 1, 0));
        let answer = puppet.sent().pop().unwrap();
        puppet.agreed(&answer);
        for _ in 0..copies {
            // The agreement was lost.
            puppet.pass(5 * MILLI);
            puppet.deliver(puppet.hello(INCARNATION, 1, 0));
            assert_eq!(puppet.sent().pop().unwrap().kind(), PacketKind::HelloAck);
        }
        if wrong {
            // The answer to another hello of the engine.
            let other = puppet.first.plus(1);
            puppet.deliver(puppet.agreement(INCARNATION, 1, other));
            assert_eq!(puppet.sent().pop().unwrap().kind(), PacketKind::HelloAck);
        }
        puppet.pass(100 * MICRO);
        let ping = puppet.now(PacketKind::Ping).packet(&[]);
        puppet.deliver(ping);
        let report = puppet.engine().peer_reports().next().unwrap();
        assert!(report.established);
        // The peer may have answered the first agreement, or the last one.
        let measured = report.round_trip.as_nanos() as u64;
        assert!(measured.abs_diff(round_trip) < TICK, "{copies}, {wrong}: {report:?}");
    }
}
