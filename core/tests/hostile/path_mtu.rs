// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes, answers and pieces that no honest peer sends (`docs/PROTOCOL.md` §11).

use crate::puppet::*;
use crate::world::*;
use ofi_xdp_core::wire::{
    Body, Flags, HEADER_LEN, PIECED_LEN_MAX, PacketKind, PieceBody, ProbeBody,
};
use ofi_xdp_core::*;
use zerocopy::IntoBytes;

/// The body of a probe or of its answer.
fn probe(round: u16, size: u16) -> Vec<u8> {
    let body = ProbeBody { round: round.into(), size: size.into(), reserved: 0.into() };
    body.as_bytes().to_vec()
}

/// The body of a piece.
fn piece(offset: u16, total: u16, bytes: &[u8]) -> Vec<u8> {
    let body = PieceBody { offset: offset.into(), total: total.into(), reserved: 0.into() };
    let mut whole = body.as_bytes().to_vec();
    whole.extend_from_slice(bytes);
    whole
}

/// The probes that the engine has sent: round and size.
fn probes(puppet: &mut Puppet) -> Vec<(u16, u16)> {
    let sent = puppet.sent();
    let of = |seen: &Seen| match seen.parsed().body {
        Body::Probe(probe) => {
            assert_eq!(seen.0.len(), usize::from(probe.size.get()), "padded to its size");
            Some((probe.round.get(), probe.size.get()))
        }
        _ => None,
    };
    sent.iter().filter_map(of).collect()
}

/// A connection with a full packet that is never answered.
fn silent() -> Puppet {
    let mut puppet = Puppet::connected(&small());
    puppet.send(1, pattern(1, 1400));
    // The tail loss probe, and the time-out, which begins a round of probes.
    while puppet.engine().stats().path_probes < 4 {
        puppet.pass(100 * MICRO);
    }
    puppet
}

#[test]
fn a_probe_of_another_length_than_it_says_is_malformed() {
    let mut puppet = Puppet::connected(&small());
    for (size, len) in [(100, 99), (100, 101), (40, 39), (0, 40), (u16::MAX, 1472)] {
        let mut body = probe(1, size);
        body.resize(len - HEADER_LEN, 0);
        let packet = puppet.now(PacketKind::Probe).packet(&body);
        puppet.refused(&packet, DropReason::Malformed);
    }
    for len in 0..8 {
        let packet = puppet.now(PacketKind::Probe).packet(&probe(1, 40)[..len]);
        puppet.refused(&packet, DropReason::Malformed);
    }
}

#[test]
fn a_probe_is_answered_with_the_size_that_arrived() {
    let mut puppet = Puppet::connected(&small());
    for size in [1300, 1400, 1216] {
        let mut body = probe(9, size);
        body.resize(usize::from(size) - HEADER_LEN, 0);
        let packet = puppet.now(PacketKind::Probe).packet(&body);
        puppet.ingest(&packet);
    }
    puppet.drive();
    let answers: Vec<_> = puppet
        .sent()
        .iter()
        .filter_map(|seen| match seen.parsed().body {
            Body::ProbeAck(answer) => Some((answer.round.get(), answer.size.get())),
            _ => None,
        })
        .collect();
    assert_eq!(answers, [(9, 1400)], "one answer for all, with the largest");
}

#[test]
fn an_answer_without_a_probe_has_no_effect() {
    let mut puppet = Puppet::connected(&small());
    let before = *puppet.engine().stats();
    for size in [0, 1, 1216, 1472, 8972, u16::MAX] {
        let packet = puppet.now(PacketKind::ProbeAck).packet(&probe(1, size));
        puppet.deliver(packet);
    }
    let stats = *puppet.engine().stats();
    assert_eq!(stats.dropped(DropReason::UnaskedProbeAck), 6);
    assert_eq!((stats.path_shrinks, stats.path_raises), (0, 0));
    assert_eq!(stats.packets_sent, before.packets_sent);
}

#[test]
fn an_answer_of_a_size_that_was_not_asked_for_has_no_effect() {
    let mut puppet = silent();
    let asked = probes(&mut puppet);
    let round = asked.last().unwrap().0;
    let sizes: Vec<u16> =
        asked.iter().filter(|probe| probe.0 == round).map(|probe| probe.1).collect();
    assert_eq!(sizes, [1472, 1472, 1472, 1216]);
    for (round, size) in
        [(round, 1217), (round, 1400), (round + 1, 1216), (round - 1, 1216), (round, 0)]
    {
        let packet = puppet.now(PacketKind::ProbeAck).packet(&probe(round, size));
        puppet.deliver(packet);
    }
    assert_eq!(puppet.engine().stats().dropped(DropReason::UnaskedProbeAck), 5);
    // The round ends without an answer.
    puppet.pass(2 * MILLI);
    assert_eq!(puppet.engine().stats().path_shrinks, 0);
}

#[test]
fn the_packet_goes_in_pieces_when_only_short_packets_pass() {
    let mut puppet = silent();
    let (round, _) = *probes(&mut puppet).last().unwrap();
    let packet = puppet.now(PacketKind::ProbeAck).packet(&probe(round, 1216));
    puppet.deliver(packet);
    // The next probe arrives, and the packet has not.
    puppet.pass(10 * MILLI);
    let answer = puppet.ack_echoing(puppet.newest_sent_at(), 0);
    puppet.deliver(answer);
    puppet.pass(MILLI);
    assert_eq!(puppet.engine().stats().path_shrinks, 1);
    let pieces: Vec<_> = puppet
        .sent()
        .iter()
        .filter_map(|seen| match seen.parsed().body {
            Body::Piece(piece, bytes) => {
                assert!(seen.0.len() <= 1216 && seen.psn() == puppet.first);
                assert!(seen.has(Flags::RETRANSMISSION));
                Some((piece.offset.get(), piece.total.get(), bytes.len()))
            }
            _ => None,
        })
        .take(2)
        .collect();
    assert_eq!(pieces, [(0, 1416, 1152), (1152, 1416, 264)]);
}

#[test]
fn malformed_pieces_leave_no_trace() {
    let mut puppet = Puppet::connected(&small());
    let long = (PIECED_LEN_MAX - HEADER_LEN + 1) as u16;
    for (offset, total, len) in [
        // Empty; a whole; beyond the end; not in units; too long.
        (0, 128, 0),
        (64, 64, 0),
        (0, 128, 128),
        (64, 128, 128),
        (128, 128, 64),
        (1, 128, 64),
        (0, 128, 63),
        (u16::MAX, 128, 64),
        (0, 0, 64),
        (0, long, 64),
        (0, u16::MAX, 64),
    ] {
        let packet = puppet.now(PacketKind::Piece).packet(&piece(offset, total, &vec![0; len]));
        puppet.refused(&packet, DropReason::Malformed);
    }
}

#[test]
fn pieces_of_a_message_make_one_message_whatever_comes_twice() {
    let mut puppet = Puppet::connected(&small());
    puppet.world.recv(0, 7, 1000);
    let whole = message(0, &pattern(3, 1000));
    let total = whole.len() as u16;
    for (from, to) in [(512, 1016), (0, 256), (512, 1016), (0, 512), (0, 512), (512, 1016)] {
        let packet =
            puppet.now(PacketKind::Piece).packet(&piece(from as u16, total, &whole[from..to]));
        puppet.deliver(packet);
    }
    assert_eq!(puppet.ends(), [(7, Ok(()))]);
    assert_eq!(puppet.world.received(0, 7), pattern(3, 1000));
    assert_eq!(puppet.engine().stats().dropped(DropReason::Duplicate), 2);
}

#[test]
fn pieces_of_nonsense_are_counted_and_the_packet_may_still_come() {
    let mut puppet = Puppet::connected(&small());
    puppet.world.recv(0, 7, 100);
    for from in [0, 64] {
        let packet = puppet.now(PacketKind::Piece).packet(&piece(from, 128, &[0xff; 64]));
        puppet.deliver(packet);
    }
    assert_eq!(puppet.engine().stats().dropped(DropReason::MalformedPieces), 1);
    let packet = puppet.data(&message(0, &pattern(3, 100)));
    puppet.deliver(packet);
    assert_eq!(puppet.ends(), [(7, Ok(()))]);
}

#[test]
fn pieces_without_room_are_counted() {
    let config = Config { pieced: 2, ..small() };
    let mut puppet = Puppet::connected(&config);
    for psn in 0..3 {
        let head = puppet.now(PacketKind::Piece);
        let head = Head { psn: head.psn.plus(psn), ..head };
        puppet.deliver(head.packet(&piece(0, 128, &[0; 64])));
    }
    assert_eq!(puppet.engine().stats().dropped(DropReason::PieceWithoutRoom), 1);
}
