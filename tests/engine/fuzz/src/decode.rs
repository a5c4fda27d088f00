// SPDX-License-Identifier: MIT OR Apache-2.0
//! Target `decode`: any bytes as a packet.
//!
//! Rules: parsing never panics. A parsed packet can be walked to its end, lies within the bytes,
//! and a second parse gives the same result. With a correct checksum, a packet is rejected for its
//! structure or not at all.

use ofi_xdp_core::wire::{self, Body, HEADER_LEN, Packet, Record};
use ofi_xdp_core::{ChecksumCoverage, DropReason};

/// Parses `bytes` as they are, and with the right version and checksum.
///
/// # Panics
/// When a rule does not hold.
pub fn run(bytes: &[u8]) {
    let _ = walk(bytes);
    if bytes.len() >= HEADER_LEN {
        let mut sealed = bytes.to_vec();
        sealed[0] = wire::VERSION << 4;
        wire::seal(&mut sealed, crc32c::crc32c_append);
        if let Err(reason) = walk(&sealed) {
            assert!(
                matches!(reason, DropReason::Kind | DropReason::Malformed),
                "{reason} in a packet of the right version and checksum"
            );
        }
    }
}

fn walk(bytes: &[u8]) -> Result<(), DropReason> {
    let packet = Packet::parse(bytes, ChecksumCoverage::Head, crc32c::crc32c_append)?;
    let header = packet.header;
    assert!(header.kind().is_some());
    let _ = (header.flags(), header.dst_cid(), header.token(), header.psn(), header.ack_psn());
    let _ = (header.accepted_msn(), header.receiver_status(), header.sent_at());
    match &packet.body {
        Body::Data(records) => {
            let parts: Vec<Record<'_>> = records.clone().collect();
            let again: Vec<Record<'_>> = records.clone().collect();
            assert_eq!(format!("{parts:?}"), format!("{again:?}"), "a walk repeats");
            assert!(parts.len() <= bytes.len() / 8, "a record takes 8 bytes at least");
            for record in &parts {
                check(record, bytes);
            }
        }
        Body::Ack(ack, words) => assert_eq!(words.len(), usize::from(ack.sack_words)),
        Body::Handshake(_) => assert!(bytes.len() > HEADER_LEN),
        Body::Ping | Body::Close | Body::Reset => assert_eq!(bytes.len(), HEADER_LEN),
        Body::Probe(probe) => assert_eq!(bytes.len(), usize::from(probe.size.get())),
        Body::ProbeAck(_) | Body::PortRequest(_) => assert_eq!(bytes.len(), HEADER_LEN + 8),
        Body::Piece(piece, part) => {
            assert!(part.len() < usize::from(piece.total.get()), "a piece is not the whole");
        }
    }
    Ok(())
}

/// A record's payload is within the packet, and within the record's own length.
fn check(record: &Record<'_>, bytes: &[u8]) {
    let payload = match record {
        Record::Message(message) => {
            assert_eq!(message.payload.len() as u64, message.envelope.total);
            message.payload
        }
        Record::Segment(segment) => {
            let end = segment.offset.checked_add(segment.payload.len() as u64);
            assert!(end.is_some_and(|end| end <= segment.envelope.total));
            assert!(!segment.payload.is_empty());
            segment.payload
        }
        Record::Write(write) => write.payload,
        Record::Response(response) => response.payload,
        Record::AtomicRequest(request) => {
            let _ = request.checked();
            request.payload
        }
        Record::Rts(_) | Record::Fin(_) | Record::ReadRequest(_) | Record::Error(_) => return,
    };
    let (outer, inner) = (bytes.as_ptr_range(), payload.as_ptr_range());
    assert!(outer.start <= inner.start && inner.end <= outer.end, "payload outside its packet");
}
