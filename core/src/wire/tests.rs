// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything written is read back equal; nothing that is read can panic.

use super::*;
use crate::collections::serial::{Msn, Psn};
use crate::{DropReason, PeerId};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;
use zerocopy::{FromZeros, IntoBytes};

const CRC: ChecksumFn = crc32c::crc32c_append;

fn envelope() -> impl Strategy<Value = Envelope> {
    (any::<u32>(), any::<Option<u64>>(), any::<Option<u64>>())
        .prop_map(|(msn, tag, data)| Envelope { msn: Msn(msn), tag, data, total: 0 })
}

fn packet(kind: PacketKind, body: &[u8]) -> Vec<u8> {
    let header = Header::new(kind, PeerId::new(3, 4), Token(0xdead_beef)).with_psn(Psn(9));
    let mut bytes = [header.as_bytes(), body].concat();
    seal(&mut bytes, CRC);
    bytes
}

#[test]
fn field_offsets_are_those_of_the_document() {
    let header = Header::new(PacketKind::Data, PeerId::from_bits(0x0403_0201), Token(0x0807_0605))
        .with_flags(Flags::ACK_REQUEST | Flags::RETRANSMISSION)
        .with_psn(Psn(0x0c0b_0a09))
        .with_received(Psn(0x100f_0e0d), 0x1211, ReceiverStatus::new(0, true, 1))
        .with_sent_at(0x1817_1615);
    let expected: [u8; 32] = [
        0x20,
        0x10,
        0x03,
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        0x11,
        0x12,
        0,
        0b0001_1000,
        0x15,
        0x16,
        0x17,
        0x18,
        0,
        0,
        0,
        0,
    ];
    assert_eq!(header.as_bytes(), expected);

    let mut ack = Ack::new_zeroed();
    (ack.echo, ack.hold, ack.wait) = (1.into(), 2.into(), 3.into());
    (ack.congestion_marks, ack.sack_offset) = (4.into(), 5.into());
    (ack.sack_words, ack.responder_credit, ack.received) = (6, 7, 8.into());
    let expected = [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 5, 0, 6, 7, 0, 0, 8, 0, 0, 0];
    assert_eq!(ack.as_bytes(), expected);

    let envelope =
        Envelope { msn: Msn(0x0403_0201), tag: Some(0x1234), data: Some(0x55), total: 3000 };
    let mut bytes = [0xff; 64];
    let len = put_segment(&mut bytes, &envelope, 1408, 3, |p| p.fill(0xaa)).unwrap();
    assert_eq!(len, 24 + 8 + 8);
    assert_eq!(bytes[..8], [0x11, 3, 3, 0, 1, 2, 3, 4]);
    assert_eq!(bytes[8..16], 0x1234u64.to_le_bytes());
    assert_eq!(bytes[16..24], [0x80, 5, 0, 0, 0xb8, 0x0b, 0, 0]);
    assert_eq!(bytes[24..32], 0x55u64.to_le_bytes());
    assert_eq!(bytes[32..40], [0xaa, 0xaa, 0xaa, 0, 0, 0, 0, 0]);
}

#[test]
fn rnr_is_honoured_in_its_own_epoch_only() {
    assert!(ReceiverStatus::new(0, true, 7).receiver_not_ready_in(7));
    assert!(!ReceiverStatus::new(0, true, 7).receiver_not_ready_in(8));
    assert!(!ReceiverStatus::new(0, true, 7).receiver_not_ready_in(5));
    assert!(!ReceiverStatus::new(0, false, 7).receiver_not_ready_in(7));
}

proptest! {
    #[test]
    fn messages_come_back(
        messages in prop::collection::vec(
            (envelope(), prop::collection::vec(any::<u8>(), 0..64)),
            0..8,
        ),
    ) {
        let mut body = vec![0xffu8; 1024];
        let mut at = 0;
        for (envelope, payload) in &messages {
            let envelope = Envelope { total: payload.len() as u64, ..*envelope };
            let len = put_message(&mut body[at..], &envelope, |into| into.copy_from_slice(payload));
            prop_assert_eq!(len, Some(message_len(payload.len(), envelope.data.is_some())));
            at += len.unwrap();
        }
        let bytes = packet(PacketKind::Data, &body[..at]);
        let parsed = Packet::parse(&bytes, ChecksumCoverage::Head, CRC);
        let Body::Data(records) = parsed.unwrap().body else {
            panic!("not data");
        };
        let found: Vec<_> = records.collect();
        prop_assert_eq!(found.len(), messages.len());
        for (record, (envelope, payload)) in found.iter().zip(&messages) {
            let Record::Message(record) = record else { panic!("not a message") };
            prop_assert_eq!(record.payload, payload);
            prop_assert_eq!(record.envelope, Envelope { total: payload.len() as u64, ..*envelope });
        }
    }

    #[test]
    fn a_record_that_does_not_fit_is_not_written(
        envelope in envelope(), payload in 0u32..100, room in 0usize..130,
    ) {
        let envelope = Envelope { total: u64::from(payload), ..envelope };
        let mut into = vec![0u8; room];
        let needed = message_len(payload as usize, envelope.data.is_some());
        let put = put_message(&mut into, &envelope, |p| p.fill(1));
        prop_assert_eq!(put, (needed <= room).then_some(needed));
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        fix in any::<bool>(),
        kind in 0u8..0x12,
    ) {
        let mut bytes = bytes;
        if fix && bytes.len() >= HEADER_LEN {
            // Past the first checks, into the bodies.
            bytes[0] = VERSION << 4;
            bytes[1] = kind;
            seal(&mut bytes, CRC);
        }
        let parsed = Packet::parse(&bytes, ChecksumCoverage::Head, CRC);
        if let Ok(Packet { body: Body::Data(records), .. }) = parsed {
            prop_assert!(records.count() <= bytes.len() / ALIGN);
        }
    }

    #[test]
    fn one_flipped_bit_is_noticed(
        payload in prop::collection::vec(any::<u8>(), 0..100), bit in any::<prop::sample::Index>(),
    ) {
        let envelope = Envelope { msn: Msn(1), tag: None, data: None, total: payload.len() as u64 };
        let mut body = vec![0; 256];
        let len = put_message(&mut body, &envelope, |p| p.copy_from_slice(&payload)).unwrap();
        let mut bytes = packet(PacketKind::Data, &body[..len]);
        prop_assert!(Packet::parse(&bytes, ChecksumCoverage::Head, CRC).is_ok());
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Packet::parse(&bytes, ChecksumCoverage::Head, CRC).is_err());
    }

    #[test]
    fn sack_bits_name_packets(ack_psn: u32, offset in 0u16..1_024, words: [u64; 4]) {
        let mut ack = Ack::new_zeroed();
        ack.sack_offset = offset.into();
        let sack = Sack::new(Psn(ack_psn), &ack, &words);
        let named: Vec<_> = sack
            .words()
            .flat_map(|(first, word)| {
                let bits = (0..64).filter(move |bit| word >> bit & 1 == 1);
                bits.map(move |bit| first.plus(bit))
            })
            .collect();
        let expected: Vec<_> = (0u32..256)
            .filter(|bit| words[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
            .map(|bit| Psn(ack_psn).plus(1 + 64 * u32::from(offset)).plus(bit))
            .collect();
        prop_assert_eq!(sack.highest(), expected.last().copied());
        prop_assert_eq!(named, expected);
    }
}

#[test]
fn a_segment_is_alone_and_inside_its_message() {
    let envelope = Envelope { msn: Msn(0), tag: None, data: None, total: 64 };
    let mut body = [0; 200];
    let one = put_segment(&mut body, &envelope, 0, 32, |p| p.fill(1)).unwrap();
    assert!(
        Packet::parse(&packet(PacketKind::Data, &body[..one]), ChecksumCoverage::Head, CRC).is_ok()
    );
    let two = one + put_segment(&mut body[one..], &envelope, 32, 32, |p| p.fill(1)).unwrap();
    let error = |body: &[u8]| {
        Packet::parse(&packet(PacketKind::Data, body), ChecksumCoverage::Head, CRC).err()
    };
    assert_eq!(error(&body[..two]), Some(DropReason::Malformed));
    let outside = put_segment(&mut body, &envelope, 33, 32, |p| p.fill(1)).unwrap();
    assert_eq!(error(&body[..outside]), Some(DropReason::Malformed));
}

#[test]
fn an_ack_has_the_words_it_announces() {
    let mut ack = Ack::new_zeroed();
    ack.sack_words = 2;
    let bytes = ack;
    let with =
        |words: usize| packet(PacketKind::Ack, &[bytes.as_bytes(), &vec![7u8; words * 8]].concat());
    let two = with(2);
    let Body::Ack(_, words) = Packet::parse(&two, ChecksumCoverage::Head, CRC).unwrap().body else {
        panic!("not an ack")
    };
    assert_eq!(words.len(), 2);
    assert_eq!(
        Packet::parse(&with(1), ChecksumCoverage::Head, CRC).err(),
        Some(DropReason::Malformed)
    );
    assert_eq!(
        Packet::parse(&with(3), ChecksumCoverage::Head, CRC).err(),
        Some(DropReason::Malformed)
    );
    ack.sack_words = 17;
    let too_many = packet(PacketKind::Ack, &[ack.as_bytes(), &[7u8; 17 * 8]].concat());
    assert_eq!(
        Packet::parse(&too_many, ChecksumCoverage::Head, CRC).err(),
        Some(DropReason::Malformed)
    );
}

/// A packet with one segment of `len` bytes, and remote CQ data if `data` says so.
fn long_packet(len: u16, data: Option<u64>) -> Vec<u8> {
    let envelope = Envelope { msn: Msn(1), tag: Some(2), data, total: 1 << 20 };
    let mut body = vec![0; 2048];
    let taken = put_segment(&mut body, &envelope, 4096, len, |payload| payload.fill(7)).unwrap();
    packet(PacketKind::Data, &body[..taken])
}

/// Two records, of 500 bytes each.
fn two_messages() -> Vec<u8> {
    let envelope = Envelope { msn: Msn(1), tag: None, data: None, total: 500 };
    let mut body = vec![0; message_len(500, false)];
    put_message(&mut body, &envelope, |payload| payload.fill(1)).unwrap();
    body.repeat(2)
}

fn parsed(packet: &[u8], coverage: ChecksumCoverage) -> Option<DropReason> {
    Packet::parse(packet, coverage, CRC).err()
}

#[test]
fn a_long_packet_leaves_its_payload_to_the_udp_checksum() {
    for data in [None, Some(9)] {
        let mut bytes = long_packet(1344, data);
        seal_for(ChecksumCoverage::Head, &mut bytes, CRC);
        assert_eq!(parsed(&bytes, ChecksumCoverage::Head), None);
        assert_eq!(parsed(&bytes, ChecksumCoverage::Whole), Some(DropReason::Unprotected));
        for bit in 0..64 * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(parsed(&damaged, ChecksumCoverage::Head).is_some(), "bit {bit} of the head");
        }
        bytes[64] ^= 1;
        assert_eq!(parsed(&bytes, ChecksumCoverage::Head), None, "the UDP checksum is for that");
        cover_whole(&mut bytes, CRC);
        for coverage in [ChecksumCoverage::Head, ChecksumCoverage::Whole] {
            assert_eq!(parsed(&bytes, coverage), None);
            bytes[64] ^= 1;
            assert_eq!(parsed(&bytes, coverage), Some(DropReason::Checksum));
            bytes[64] ^= 1;
        }
    }
}

#[test]
fn packets_that_are_short_or_of_several_records_are_summed_whole() {
    let several = packet(PacketKind::Data, &two_messages());
    let counted = {
        let mut body = vec![0; 2048];
        let remote = crate::Remote { key: 1, address: 2 };
        let op = crate::OpId::from_bits(3);
        let put = put_write(&mut body, op, remote, (Some(4), true, 64), 1000, |_| ()).unwrap();
        packet(PacketKind::Data, &body[..put])
    };
    let probe = packet(PacketKind::Probe, &[0; 1000]);
    let short = long_packet(HEAD_CHECKSUM_FROM as u16 - 64, None);
    for mut bytes in [several, counted, probe, short] {
        let whole = bytes.clone();
        seal_for(ChecksumCoverage::Head, &mut bytes, CRC);
        assert_eq!(bytes, whole);
        cover_whole(&mut bytes, CRC);
        assert_eq!(bytes, whole);
    }
}

#[test]
fn a_checksum_over_the_head_of_another_packet_is_malformed() {
    for body in [&two_messages()[..], &[], &[0x20], &[0xff; 900]] {
        let header = Header::new(PacketKind::Data, PeerId::new(3, 4), Token(5))
            .with_flags(Flags::HEAD_CHECKSUM);
        let mut bytes = [header.as_bytes(), body].concat();
        seal(&mut bytes, CRC);
        assert_eq!(parsed(&bytes, ChecksumCoverage::Head), Some(DropReason::Malformed));
    }
}
