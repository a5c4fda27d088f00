// SPDX-License-Identifier: MIT OR Apache-2.0
//! Integrity of packets: a CRC-32C over header and body (`docs/PROTOCOL.md` §3.3).
//!
//! In: a finished packet ([`seal`]) or a received one ([`verify`]). Out: the checksum field of the
//! header, or whether it is right. Callers: each place that sends a packet, and each place that
//! receives one. Bound: one pass over the packet.

use super::header::{HEADER_LEN, Header};
use crate::api::config::ChecksumFn;

/// Offset of the checksum field in a packet: the last four bytes of the header.
const CHECKSUM_AT: usize = HEADER_LEN - 4;

/// Writes the checksum of the finished `packet` into its header.
#[inline]
pub fn seal(packet: &mut [u8], checksum: ChecksumFn) {
    let Some(field) = packet.get_mut(CHECKSUM_AT..HEADER_LEN) else { return };
    field.fill(0);
    let crc = nonzero(checksum(0, packet));
    if let Some(field) = packet.get_mut(CHECKSUM_AT..HEADER_LEN) {
        field.copy_from_slice(&crc.to_le_bytes());
    }
}

/// Whether the checksum in `header`, the header of `packet`, is right.
#[inline]
pub(crate) fn verify(header: &Header, packet: &[u8], checksum: ChecksumFn) -> bool {
    header.checksum() == compute(packet, checksum)
}

/// The CRC-32C of a packet, with its checksum field taken as zero.
#[inline]
fn compute(packet: &[u8], checksum: ChecksumFn) -> u32 {
    let Some((header, rest)) = packet.split_first_chunk::<HEADER_LEN>() else { return 0 };
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
