// SPDX-License-Identifier: MIT OR Apache-2.0
//! Integrity of packets: a CRC-32C over header and body, or over the head of the packet where the
//! UDP checksum protects the rest (`docs/PROTOCOL.md` §3.3).
//!
//! In: a finished packet ([`seal`]) or a received one ([`verify`]). Out: the checksum field of the
//! header, or the reason to drop the packet. Callers: each place that sends a packet, and each
//! place that receives one. Bound: one pass over the bytes that the checksum covers.

use super::header::{Flags, HEADER_LEN, Header};
use super::layout::{LEN_BEFORE_PAYLOAD_MAX, RecordStart, padded};
use crate::api::config::ChecksumFn;
use crate::api::port::ChecksumCoverage;
use crate::api::stats::DropReason;
use zerocopy::FromBytes;

/// Offset of the checksum field in a packet: the last four bytes of the header.
const CHECKSUM_AT: usize = HEADER_LEN - 4;
/// Offset of the flags in a packet.
const FLAGS_AT: usize = 2;
/// Bytes that the checksum of a packet with [`Flags::HEAD_CHECKSUM`] covers: header, the header of
/// the one record, and its remote CQ data.
const HEAD_LEN: usize = HEADER_LEN + LEN_BEFORE_PAYLOAD_MAX;
static_assertions::const_assert_eq!(HEAD_LEN, 64);
/// Length in bytes from which on a packet may have a checksum over its head alone: half of the
/// payload of Ethernet's MTU. Shorter packets are cheap to sum, and `AF_XDP` is the faster way to
/// receive them.
pub const HEAD_CHECKSUM_FROM: usize = 736;

/// Writes the checksum of the finished `packet` into its header. Its flags tell what it covers.
#[inline]
pub fn seal(packet: &mut [u8], checksum: ChecksumFn) {
    if has_flag(packet) {
        seal_head(packet, checksum);
    } else {
        seal_whole(packet, checksum);
    }
}

#[inline(always)]
fn seal_whole(packet: &mut [u8], checksum: ChecksumFn) {
    let Some(field) = packet.get_mut(CHECKSUM_AT..HEADER_LEN) else { return };
    field.fill(0);
    let crc = nonzero(checksum(0, packet));
    if let Some(field) = packet.get_mut(CHECKSUM_AT..HEADER_LEN) {
        field.copy_from_slice(&crc.to_le_bytes());
    }
}

#[inline]
fn seal_head(packet: &mut [u8], checksum: ChecksumFn) {
    let len = packet.len().min(HEAD_LEN);
    if let Some(head) = packet.get_mut(..len) {
        seal_whole(head, checksum);
    }
}

/// Writes the checksum of the finished `packet`, which may leave by a path with this coverage: over
/// the head of a packet that qualifies, else over all bytes. The packet has no flag yet.
#[inline]
pub(crate) fn seal_for(coverage: ChecksumCoverage, packet: &mut [u8], checksum: ChecksumFn) {
    if coverage == ChecksumCoverage::Head
        && packet.len() >= HEAD_CHECKSUM_FROM
        && is_one_payload(packet)
    {
        set_flag(packet, true);
        seal_head(packet, checksum);
    } else {
        seal_whole(packet, checksum);
    }
}

/// Makes the checksum of a sealed `packet` cover all bytes: it leaves by a path that may damage
/// them.
#[inline]
pub fn cover_whole(packet: &mut [u8], checksum: ChecksumFn) {
    if has_flag(packet) {
        set_flag(packet, false);
        seal_whole(packet, checksum);
    }
}

/// Checks the checksum of `packet`, which has this `header` and came by a path with this coverage.
///
/// # Errors
/// [`DropReason::Unprotected`], [`DropReason::Checksum`], and [`DropReason::Malformed`] for a
/// checksum over the head of a packet that does not qualify.
#[inline]
pub(crate) fn verify(
    header: &Header,
    packet: &[u8],
    coverage: ChecksumCoverage,
    checksum: ChecksumFn,
) -> Result<(), DropReason> {
    if header.has_head_checksum() {
        return verify_head(header, packet, coverage, checksum);
    }
    if header.checksum() == compute(packet, checksum) { Ok(()) } else { Err(DropReason::Checksum) }
}

#[inline(never)]
fn verify_head(
    header: &Header,
    packet: &[u8],
    coverage: ChecksumCoverage,
    checksum: ChecksumFn,
) -> Result<(), DropReason> {
    if coverage == ChecksumCoverage::Whole {
        return Err(DropReason::Unprotected);
    }
    let head = packet.get(..HEAD_LEN).unwrap_or(packet);
    if header.checksum() != compute(head, checksum) {
        return Err(DropReason::Checksum);
    }
    if is_one_payload(packet) { Ok(()) } else { Err(DropReason::Malformed) }
}

/// Whether a packet has a single record, and its head has all but payload.
#[inline]
fn is_one_payload(packet: &[u8]) -> bool {
    let Ok((header, body)) = Header::ref_from_prefix(packet) else { return false };
    let Ok((start, _)) = RecordStart::ref_from_prefix(body) else { return false };
    let len = usize::from(start.len.get());
    header.is_data()
        && start.len_before_payload().is_some_and(|before| body.len() == before + padded(len))
}

#[inline]
fn has_flag(packet: &[u8]) -> bool {
    Header::ref_from_prefix(packet).is_ok_and(|(header, _)| header.has_head_checksum())
}

#[inline]
fn set_flag(packet: &mut [u8], is_set: bool) {
    if let Some(flags) = packet.get_mut(FLAGS_AT) {
        let others = *flags & !Flags::HEAD_CHECKSUM.bits();
        *flags = if is_set { others | Flags::HEAD_CHECKSUM.bits() } else { others };
    }
}

/// The CRC-32C of `bytes`, which begin with a header, with its checksum field taken as zero.
#[inline]
fn compute(bytes: &[u8], checksum: ChecksumFn) -> u32 {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else { return 0 };
    let mut header = *header;
    if let Some(field) = header.last_chunk_mut::<4>() {
        *field = [0; 4];
    }
    nonzero(checksum(checksum(0, &header), rest))
}

/// The value on the wire: zero is sent as all ones. Zero on the wire means "no checksum", which
/// this version does not accept.
const fn nonzero(crc: u32) -> u32 {
    if crc == 0 { u32::MAX } else { crc }
}
