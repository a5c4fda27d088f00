// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP (RFC 768).
//!
//! In: the payload of an IP header. Out: the ports and the payload; in the other direction the
//! header of one packet. Caller: [`super`]. Bound: 8 bytes of header.

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::checksum::InternetChecksum;
use super::fields::{EmitError, Headers, Reject, UdpChecksum};

/// The header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Udp {
    pub(super) source: U16,
    pub(super) destination: U16,
    pub(super) length: U16,
    checksum: [u8; 2],
}

/// The header at the start of `bytes`, and the payload that its length covers.
#[inline]
pub(super) fn parse(bytes: &[u8]) -> Result<(&Udp, &[u8]), Reject> {
    let (header, rest) = Udp::ref_from_prefix(bytes).map_err(|_| Reject::Truncated)?;
    let payload = usize::from(header.length.get())
        .checked_sub(size_of::<Udp>())
        .and_then(|length| rest.get(..length))
        .ok_or(Reject::Length)?;
    Ok((header, payload))
}

/// The length field of a packet of `payload` bytes.
#[inline]
pub(super) fn length(payload: usize) -> Result<u16, EmitError> {
    payload
        .checked_add(size_of::<Udp>())
        .and_then(|length| u16::try_from(length).ok())
        .ok_or(EmitError::NoRoom)
}

impl Udp {
    /// The header before `payload` with `length` in its length field. `pseudo_header` is the IP
    /// header's part of the checksum.
    #[inline]
    pub(super) fn new(
        headers: &Headers,
        checksum: UdpChecksum,
        length: u16,
        payload: &[u8],
        pseudo_header: impl FnOnce() -> InternetChecksum,
    ) -> Self {
        let mut header = Self {
            source: U16::new(headers.source.port()),
            destination: U16::new(headers.destination.port()),
            length: U16::new(length),
            checksum: [0; 2],
        };
        if checksum == UdpChecksum::Compute {
            let sum = pseudo_header().add(header.as_bytes()).add(payload).finish();
            // RFC 768: a computed zero travels as all ones, since zero says "not computed".
            header.checksum = if sum == [0, 0] { [0xff, 0xff] } else { sum };
        }
        header
    }
}
