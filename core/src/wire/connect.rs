// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of connection management (`docs/PROTOCOL.md` §12): one structure of 52 bytes, and data
//! of the application behind it. Version, kind and checksum are where each other packet has them.
//!
//! In: any bytes ([`ConnectPacket::parse`]), or the fields of a packet ([`ConnectPacket::put`]).
//! Out: a packet with a sound structure, or the reason for dropping it; bytes with a checksum.
//! Caller: `cm`. Bound: one pass over the packet for its checksum.

use super::header::{HEADER_LEN, Header, VERSION};
use super::integrity::{seal, verify};
use crate::api::config::ChecksumFn;
use crate::api::limits::CONNECT_DATA_MAX;
use crate::api::port::ChecksumCoverage;
use crate::api::stats::DropReason;
use crate::{PeerAddress, PeerId};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Purpose of a packet of connection management.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ConnectKind {
    /// Initiator: a request; repeated as a sign of life.
    Connect = 0x20,
    /// Listener: the request must come again with this cookie.
    Cookie = 0x21,
    /// Listener: the request waits for its application.
    Pending = 0x22,
    /// Listener: the application accepted the request.
    Accept = 0x23,
    /// Initiator: the acceptance has arrived.
    Confirm = 0x24,
    /// Listener: the request is rejected.
    Reject = 0x25,
    /// Initiator: the rejection has arrived.
    RejectAck = 0x26,
    /// Initiator: there is no such request any more.
    Cancel = 0x27,
}

impl ConnectKind {
    const fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            0x20 => Self::Connect,
            0x21 => Self::Cookie,
            0x22 => Self::Pending,
            0x23 => Self::Accept,
            0x24 => Self::Confirm,
            0x25 => Self::Reject,
            0x26 => Self::RejectAck,
            0x27 => Self::Cancel,
            _ => return None,
        })
    }

    /// Whether packets of this kind name a data port.
    const fn has_port(self) -> bool {
        matches!(self, Self::Connect | Self::Accept)
    }

    /// Whether packets of this kind may carry data.
    const fn has_data(self) -> bool {
        matches!(self, Self::Connect | Self::Accept | Self::Reject)
    }
}

/// The reason of a rejection, with its number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum RejectReason {
    /// No endpoint listens there.
    Refused = 1,
    /// The application of the other side rejected the request; its data is in
    /// [`Agent::data`](crate::cm::Agent::data).
    Rejected = 2,
    /// The backlog of the listener is full: try again later.
    Busy = 3,
    /// The listener gave the request up before: it received nothing of it, or its acceptance was
    /// not confirmed.
    Gone = 4,
}

impl RejectReason {
    const fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Refused,
            2 => Self::Rejected,
            3 => Self::Busy,
            4 => Self::Gone,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ConnectLayout {
    version_auth: u8,
    kind: u8,
    reason: u8,
    reserved: u8,
    data_len: U16,
    port: U16,
    nonce: U64,
    proof: U64,
    nonce_high: U32,
    checksum: U32,
    ip: [u8; 16],
    cid: U32,
}

impl ConnectLayout {
    fn nonce(&self) -> u128 {
        u128::from(self.nonce_high.get()) << 64 | u128::from(self.nonce.get())
    }
}

/// Bits of the number of a request. With 2^10 requests under way, one of 64 bits would be guessed
/// too easily.
pub const NONCE_BITS: u32 = 96;
/// Bytes of a packet without data.
pub const CONNECT_LEN: usize = size_of::<ConnectLayout>();
/// The longest packet of connection management.
pub const CONNECT_PACKET_MAX: usize = CONNECT_LEN + CONNECT_DATA_MAX;

static_assertions::const_assert_eq!(CONNECT_LEN, 52);
static_assertions::const_assert_eq!(core::mem::offset_of!(ConnectLayout, checksum), HEADER_LEN - 4);

/// A packet of connection management. Fields that its kind does not have are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectPacket<'a> {
    /// The purpose.
    pub kind: ConnectKind,
    /// [`ConnectKind::Reject`]: the reason.
    pub reason: Option<RejectReason>,
    /// The number of the request, from its initiator: [`NONCE_BITS`] bits.
    pub nonce: u128,
    /// [`ConnectKind::Connect`], [`ConnectKind::Cookie`], [`ConnectKind::Cancel`]: the cookie.
    /// [`ConnectKind::Accept`], [`ConnectKind::Confirm`], and a cancel that answers an accept: the
    /// number of the acceptance.
    pub proof: u64,
    /// [`ConnectKind::Connect`], [`ConnectKind::Accept`]: the data port. An unspecified IP address
    /// stands for that of the packet's sender.
    pub address: PeerAddress,
    /// As [`Self::address`]: the name that the sender's engine has given to the connection.
    pub cid: PeerId,
    /// Data of the application.
    pub data: &'a [u8],
}

impl<'a> ConnectPacket<'a> {
    /// A packet with these numbers, and nothing else.
    #[must_use]
    pub const fn new(kind: ConnectKind, nonce: u128, proof: u64) -> Self {
        let (address, cid) = (PeerAddress::NONE, PeerId::NONE);
        Self { kind, reason: None, nonce, proof, address, cid, data: &[] }
    }

    /// Checks version, kind, checksum and structure.
    ///
    /// # Errors
    /// The first [`DropReason`] that applies.
    pub fn parse(bytes: &'a [u8], checksum: ChecksumFn) -> Result<Self, DropReason> {
        let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| DropReason::Truncated)?;
        if header.version() != VERSION {
            return Err(DropReason::Version);
        }
        if header.authentication() != 0 {
            return Err(DropReason::Authentication);
        }
        let (layout, data) =
            ConnectLayout::ref_from_prefix(bytes).map_err(|_| DropReason::Truncated)?;
        let kind = ConnectKind::from_wire(layout.kind).ok_or(DropReason::Kind)?;
        verify(header, bytes, ChecksumCoverage::Whole, checksum)?;
        let address = PeerAddress::from_v6(layout.ip, layout.port.get());
        let reason = RejectReason::from_wire(layout.reason);
        let has_len = data.len() == usize::from(layout.data_len.get());
        let has_data = data.is_empty() || kind.has_data() && data.len() <= CONNECT_DATA_MAX;
        let has_port = kind.has_port() == (address.port() != 0);
        let has_reason = (kind == ConnectKind::Reject) == (layout.reason != 0);
        let has_known = layout.reason == 0 || reason.is_some();
        if !(has_len && has_data && has_port && has_reason && has_known) {
            return Err(DropReason::Malformed);
        }
        Ok(Self {
            kind,
            reason,
            nonce: layout.nonce(),
            proof: layout.proof.get(),
            address,
            cid: if kind.has_port() { PeerId::from_bits(layout.cid.get()) } else { PeerId::NONE },
            data,
        })
    }

    /// The nonce of the packet that begins with `bytes`, of which nothing else is checked.
    #[must_use]
    pub fn nonce_of(bytes: &[u8]) -> Option<u128> {
        let (layout, _) = ConnectLayout::ref_from_prefix(bytes).ok()?;
        Some(layout.nonce())
    }

    /// Writes the packet with its checksum, and returns its length; `None` without room for it.
    #[must_use]
    pub fn put(&self, into: &mut [u8], checksum: ChecksumFn) -> Option<usize> {
        let packet = into.get_mut(..CONNECT_LEN + self.data.len())?;
        let layout = ConnectLayout {
            version_auth: VERSION << 4,
            kind: self.kind as u8,
            reason: self.reason.map_or(0, |reason| reason as u8),
            reserved: 0,
            data_len: U16::new(self.data.len() as u16),
            port: U16::new(self.address.port()),
            nonce: U64::new(self.nonce as u64),
            proof: U64::new(self.proof),
            nonce_high: U32::new((self.nonce >> 64) as u32),
            checksum: U32::new(0),
            ip: self.address.octets(),
            cid: U32::new(if self.kind.has_port() { self.cid.bits() } else { 0 }),
        };
        let (head, data) = packet.split_at_mut_checked(CONNECT_LEN)?;
        head.copy_from_slice(layout.as_bytes());
        data.copy_from_slice(self.data);
        seal(packet, checksum);
        Some(packet.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn crc(seed: u32, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(seed, bytes)
    }

    fn any_packet() -> impl Strategy<Value = (ConnectKind, u8, u128, u64, [u8; 16], u16, Vec<u8>)> {
        let kind = (0x20u8..0x28).prop_map(|kind| ConnectKind::from_wire(kind).unwrap());
        let data = prop::collection::vec(any::<u8>(), 0..=CONNECT_DATA_MAX);
        let nonce = 0..1u128 << NONCE_BITS;
        (kind, 1u8..=4, nonce, any::<u64>(), any::<[u8; 16]>(), 1u16.., data)
    }

    proptest! {
        #[test]
        fn packets_come_back(
            (kind, reason, nonce, proof, ip, port, data) in any_packet(),
            at: prop::sample::Index,
            bit in 0u8..8,
        ) {
            let is_reject = kind == ConnectKind::Reject;
            let reason = is_reject.then(|| RejectReason::from_wire(reason).unwrap());
            let address =
                if kind.has_port() { PeerAddress::from_v6(ip, port) } else { PeerAddress::NONE };
            let data = if kind.has_data() { &data[..] } else { &[] };
            let cid = if kind.has_port() { PeerId::from_bits(proof as u32) } else { PeerId::NONE };
            let packet = ConnectPacket { kind, reason, nonce, proof, address, cid, data };
            let mut bytes = [0; CONNECT_PACKET_MAX];
            let len = packet.put(&mut bytes, crc).unwrap();
            prop_assert_eq!(ConnectPacket::parse(&bytes[..len], crc), Ok(packet));
            prop_assert_eq!(packet.put(&mut [0; CONNECT_PACKET_MAX][..len - 1], crc), None);
            // Damage and truncation are seen.
            prop_assert!(ConnectPacket::parse(&bytes[..len - 1], crc).is_err());
            bytes[at.index(len)] ^= 1 << bit;
            prop_assert!(ConnectPacket::parse(&bytes[..len], crc).is_err());
        }

        #[test]
        fn any_bytes_are_refused_or_sound(
            mut bytes in prop::collection::vec(any::<u8>(), 0..400),
            kind in 0x1fu8..0x29,
        ) {
            if let Some(start) = bytes.first_chunk_mut::<6>() {
                start[..4].copy_from_slice(&[VERSION << 4, kind, 0, 0]);
            }
            if let Some(len) = bytes.len().checked_sub(CONNECT_LEN) {
                bytes[4..6].copy_from_slice(&(len as u16).to_le_bytes());
            }
            seal(&mut bytes, crc);
            if let Ok(packet) = ConnectPacket::parse(&bytes, crc) {
                prop_assert!(packet.data.len() <= CONNECT_DATA_MAX);
                prop_assert_eq!(packet.address.port() != 0, packet.kind.has_port());
                prop_assert!(packet.data.is_empty() || packet.kind.has_data());
                prop_assert!(packet.kind != ConnectKind::Reject || packet.reason.is_some());
            }
        }
    }

    #[test]
    fn each_rule_of_the_structure_has_a_refusal() {
        let port = PeerAddress::from_v4([198, 18, 0, 1], 9);
        let new = |kind| ConnectPacket::new(kind, 1, 2);
        let connect = ConnectPacket { address: port, ..new(ConnectKind::Connect) };
        let reject = ConnectPacket { reason: Some(RejectReason::Busy), ..new(ConnectKind::Reject) };
        let refused = [
            new(ConnectKind::Connect),
            new(ConnectKind::Reject),
            ConnectPacket { address: port, ..new(ConnectKind::Cookie) },
            ConnectPacket { reason: reject.reason, ..connect },
            ConnectPacket { data: &[1], ..new(ConnectKind::Pending) },
            ConnectPacket { data: &[1; CONNECT_DATA_MAX + 1], ..connect },
        ];
        let parsed = |packet: &ConnectPacket<'_>| {
            let mut bytes = [0; CONNECT_PACKET_MAX + 1];
            let len = packet.put(&mut bytes, crc).unwrap();
            ConnectPacket::parse(&bytes[..len], crc).map(|_| ())
        };
        for packet in &refused {
            assert_eq!(parsed(packet), Err(DropReason::Malformed), "{packet:?}");
        }
        assert_eq!((parsed(&connect), parsed(&reject)), (Ok(()), Ok(())));
        let mut bytes = [0; CONNECT_LEN];
        let _ = reject.put(&mut bytes, crc);
        bytes[2] = 5;
        seal(&mut bytes, crc);
        assert_eq!(ConnectPacket::parse(&bytes, crc), Err(DropReason::Malformed), "reason 5");
    }
}
