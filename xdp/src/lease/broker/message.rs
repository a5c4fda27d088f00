// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two messages between a client and the broker.
//!
//! In: typed values. Out: bytes for a local socket, in this machine's byte order, and typed values
//! from such bytes. Any bytes are either refused or a [`SocketRequest`] within bounds. Callers:
//! `client.rs`, `xdp-broker`. Bound: fixed lengths.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::config::QueueRange;
use crate::lease::request::SocketRequest;
use crate::tier::status::XskMode;
use crate::xsk::umem::Layout;

/// "XDPB", and the version of the messages.
const MAGIC: u64 = 0x5844_5042_0000_0005;
/// Flags of a request: [`SocketRequest::steer`], [`SocketRequest::any_payload`].
const STEER: u32 = 1;
const ANY_PAYLOAD: u32 = 2;
/// Flags of a grant: `multi_buffer`, `may_steer` of [`Status::Granted`].
const MULTI_BUFFER: u32 = 1;
const MAY_STEER: u32 = 2;
/// Maximum length of a reason, in bytes.
const TEXT_BYTES: usize = 224;

/// Bytes of a [`SocketRequest`].
pub const REQUEST_BYTES: usize = size_of::<RawRequest>();
/// Bytes of a [`Reply`].
pub const REPLY_BYTES: usize = size_of::<RawReply>();

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawRequest {
    magic: u64,
    interface: u32,
    first: u32,
    last: u32,
    mode: u32,
    rx: u32,
    tx: u32,
    headroom: u32,
    longest: u32,
    flags: u32,
    port: u32,
    address: [u8; 16],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawReply {
    magic: u64,
    status: u32,
    queue: u32,
    mode: u32,
    text_len: u32,
    text: [u8; TEXT_BYTES],
    granted_flags: u32,
    kernel_rx_at: u32,
}

impl SocketRequest {
    /// The request as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REQUEST_BYTES] {
        let Self { interface, queues, local, mode, layout, longest, steer, any_payload } = *self;
        let flags = (u32::from(steer) * STEER) | (u32::from(any_payload) * ANY_PAYLOAD);
        let address = match local.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        zerocopy::transmute!(RawRequest {
            magic: MAGIC,
            interface,
            first: queues.first,
            last: queues.last,
            mode: mode_number(mode),
            rx: layout.sizes.rx.get(),
            tx: layout.sizes.tx.get(),
            headroom: layout.headroom,
            longest,
            flags,
            port: local.port().into(),
            address: address.octets(),
        })
    }

    /// The request in `bytes`; `None` if they are no request. Sizes are limited to valid values.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let raw = RawRequest::read_from_bytes(bytes).ok()?;
        if raw.magic != MAGIC {
            return None;
        }
        Some(Self {
            interface: raw.interface,
            queues: QueueRange { first: raw.first, last: raw.last },
            local: SocketAddr::new(
                Ipv6Addr::from(raw.address).to_canonical(),
                u16::try_from(raw.port).ok()?,
            ),
            mode: mode(raw.mode)?,
            layout: Layout::requested(raw.rx, raw.tx, raw.headroom),
            longest: raw.longest,
            steer: raw.flags & STEER != 0,
            any_payload: raw.flags & ANY_PAYLOAD != 0,
        })
    }
}

/// The broker's decision about a [`SocketRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Granted; the descriptors come with the reply.
    Granted {
        /// The queue of the socket.
        queue: u32,
        /// The mode of the socket.
        mode: XskMode,
        /// Whether a packet may take several frames.
        multi_buffer: bool,
        /// Whether the policy allows a rule of the device for the socket.
        may_steer: bool,
        /// Offset in bytes of the count of packets left to the kernel socket
        /// ([`Lease::kernel_rx_counter`](crate::Lease::kernel_rx_counter)).
        kernel_rx_at: u32,
    },
    /// All allowed queues are busy. The client may try again.
    Busy,
    /// Refused.
    Refused,
}

/// The broker's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The decision.
    pub status: Status,
    /// The reason for a refusal; for a granted request, the reason why packets are not steered.
    pub reason: String,
}

impl Reply {
    const GRANTED: u32 = 0;
    const BUSY: u32 = 1;
    const REFUSED: u32 = 2;

    /// The reply as bytes; a long reason is truncated.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REPLY_BYTES] {
        let mut raw = RawReply::new_zeroed();
        raw.magic = MAGIC;
        raw.status = match self.status {
            Status::Granted { queue, mode, multi_buffer, may_steer, kernel_rx_at } => {
                (raw.queue, raw.mode, raw.kernel_rx_at) = (queue, mode_number(mode), kernel_rx_at);
                raw.granted_flags =
                    (u32::from(multi_buffer) * MULTI_BUFFER) | (u32::from(may_steer) * MAY_STEER);
                Self::GRANTED
            }
            Status::Busy => Self::BUSY,
            Status::Refused => Self::REFUSED,
        };
        let len = self.reason.floor_char_boundary(TEXT_BYTES);
        for (to, from) in raw.text.iter_mut().zip(self.reason.as_bytes().iter().take(len)) {
            *to = *from;
        }
        raw.text_len = u32::try_from(len).unwrap_or_default();
        zerocopy::transmute!(raw)
    }

    /// The reply in `bytes`; `None` if they are no reply.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let raw = RawReply::read_from_bytes(bytes).ok()?;
        if raw.magic != MAGIC {
            return None;
        }
        let status = match raw.status {
            Self::GRANTED => Status::Granted {
                queue: raw.queue,
                mode: mode(raw.mode)?,
                multi_buffer: raw.granted_flags & MULTI_BUFFER != 0,
                may_steer: raw.granted_flags & MAY_STEER != 0,
                kernel_rx_at: raw.kernel_rx_at,
            },
            Self::BUSY => Status::Busy,
            Self::REFUSED => Status::Refused,
            _ => return None,
        };
        let text = raw.text.get(..usize::try_from(raw.text_len).ok()?)?;
        Some(Self { status, reason: String::from_utf8_lossy(text).into_owned() })
    }
}

const fn mode_number(mode: XskMode) -> u32 {
    match mode {
        XskMode::Zerocopy => 0,
        XskMode::Copy => 1,
        XskMode::Skb => 2,
    }
}

const fn mode(number: u32) -> Option<XskMode> {
    match number {
        0 => Some(XskMode::Zerocopy),
        1 => Some(XskMode::Copy),
        2 => Some(XskMode::Skb),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RingSizes;
    use proptest::prelude::*;

    #[test]
    fn requests_come_back() {
        for (queue, mode) in
            [(None, XskMode::Skb), (Some(0), XskMode::Copy), (Some(7), XskMode::Zerocopy)]
        {
            let layout = Layout::new(RingSizes::default(), 42);
            let queues = QueueRange::one_or_any(queue);
            let steer = queue.is_some();
            let local = if steer { "198.18.0.1:7" } else { "[fd00::1]:65535" };
            let request = SocketRequest {
                interface: 3,
                queues,
                local: local.parse().unwrap(),
                mode,
                layout,
                longest: 9014,
                steer,
                any_payload: mode == XskMode::Copy,
            };
            assert_eq!(SocketRequest::from_bytes(&request.to_bytes()), Some(request));
        }
    }

    #[test]
    fn replies_come_back_and_long_reasons_are_cut() {
        let (queue, mode) = (3, XskMode::Skb);
        let granted = |multi_buffer, may_steer| Status::Granted {
            queue,
            mode,
            multi_buffer,
            may_steer,
            kernel_rx_at: 448,
        };
        for status in [granted(true, false), granted(false, true), Status::Busy, Status::Refused] {
            let reply = Reply { status, reason: "user nobody may not".to_owned() };
            assert_eq!(Reply::from_bytes(&reply.to_bytes()), Some(reply));
        }
        let reply = Reply { status: Status::Refused, reason: "ü".repeat(300) };
        let cut = Reply::from_bytes(&reply.to_bytes()).unwrap().reason;
        assert_eq!(cut, "ü".repeat(TEXT_BYTES / 2));
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(SocketRequest::from_bytes(&bytes).is_none());
            prop_assert!(Reply::from_bytes(&bytes).is_none());
        }

        #[test]
        fn an_accepted_request_is_within_bounds(
            mut numbers in proptest::array::uniform14(any::<u32>()),
            port in 0_u32..70_000,
        ) {
            numbers[3] %= 4;
            numbers[9] = port;
            let mut bytes = MAGIC.to_ne_bytes().to_vec();
            bytes.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
            match SocketRequest::from_bytes(&bytes) {
                Some(request) => {
                    prop_assert!(numbers[3] < 3);
                    prop_assert_eq!(u32::from(request.local.port()), port);
                    prop_assert!(request.layout.bytes() <= 2 * 32_768 * 4096);
                }
                None => prop_assert!(numbers[3] >= 3 || port > 65_535),
            }
        }
    }
}
