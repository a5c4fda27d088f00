// SPDX-License-Identifier: MIT OR Apache-2.0
//! Headers of IPv4 packets that differ in their length alone.
//!
//! In: the headers of a packet, then lengths of packets. Out: the bytes that [`emit`](super::emit)
//! writes, for fewer instructions. Caller: the AF_XDP port, for packets that go where the last one
//! went. Bound: one copy of 42 bytes.

use std::net::IpAddr;
use std::ops::Range;

use zerocopy::network_endian::U16;
use zerocopy::{Immutable, IntoBytes, KnownLayout, Unaligned};

use super::checksum::InternetChecksum;
use super::ethernet::{self, Ethernet};
use super::fields::{EmitError, Headers, UdpChecksum};
use super::ipv4::Ipv4;
use super::udp::{self, Udp};

/// The three headers as they stand in the frame.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FrameHeaders {
    ethernet: Ethernet,
    ip: Ipv4,
    udp: Udp,
}

/// The headers of packets without UDP checksum from one address to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Template {
    headers: FrameHeaders,
    /// The sum over the IPv4 header without its length.
    sum: InternetChecksum,
}

impl Template {
    /// The template of packets with `headers`; `None` where the UDP checksum is computed.
    pub(crate) fn new(headers: &Headers) -> Option<Self> {
        let (IpAddr::V4(source), IpAddr::V4(destination), UdpChecksum::Omit) =
            (headers.source.ip(), headers.destination.ip(), headers.checksum)
        else {
            return None;
        };
        let ethernet = ethernet::header(headers, ethernet::TYPE_IPV4);
        let ip = Ipv4::without_length(source, destination, headers.traffic_class);
        let no_sum = InternetChecksum::default;
        let udp = Udp::new(headers, UdpChecksum::Omit, 0, &[], no_sum);
        let sum = no_sum().add(ip.as_bytes());
        Some(Self { headers: FrameHeaders { ethernet, ip, udp }, sum })
    }

    /// Writes the headers directly before the packet at `payload` in `frame`, and returns the range
    /// of the whole frame.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    #[inline]
    pub(crate) fn write(
        &self,
        frame: &mut [u8],
        payload: Range<usize>,
    ) -> Result<Range<usize>, EmitError> {
        let before = frame.get_mut(..payload.start).ok_or(EmitError::NoRoom)?;
        let length = payload.end.checked_sub(payload.start).ok_or(EmitError::NoRoom)?;
        let udp_length = udp::length(length)?;
        let mut headers = self.headers;
        headers.udp.length = U16::new(udp_length);
        headers.ip.set_length(udp_length, self.sum)?;
        headers.write_to_suffix(before).map_err(|_| EmitError::NoRoom)?;
        Ok(payload.start.saturating_sub(size_of::<FrameHeaders>())..payload.end)
    }
}
