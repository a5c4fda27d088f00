// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of each packet (`docs/PROTOCOL.md` §3.2).

use super::token::Token;
use crate::PeerId;
use crate::collections::serial::Psn;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version of this crate, in the upper half of byte 0.
pub const VERSION: u8 = 2;
/// Bytes of the header.
pub const HEADER_LEN: usize = size_of::<Header>();
/// Bytes at the end of a packet that are reserved for an authentication tag (`docs/PROTOCOL.md`
/// §10).
pub const TAG_RESERVE: usize = 8;

/// Purpose of a packet (`docs/PROTOCOL.md` §3.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum PacketKind {
    /// Acknowledgment, with an echoed time stamp.
    Ack = 0x01,
    /// First packet of a handshake.
    Hello = 0x02,
    /// Answer to [`Self::Hello`].
    HelloAck = 0x03,
    /// Request to repeat the handshake with this cookie, as a proof that the sender receives at its
    /// address.
    Retry = 0x04,
    /// Reset: the connection is unknown.
    Reset = 0x05,
    /// Request for an acknowledgment, without other contents.
    Ping = 0x06,
    /// Close notification: this connection ends. Sent once, not acknowledged.
    Close = 0x07,
    /// Probe of the path MTU: as long as the packets that are to follow.
    Probe = 0x08,
    /// Answer to [`Self::Probe`], with the size that arrived.
    ProbeAck = 0x09,
    /// A piece of a [`Self::Data`] packet that is too long for the path. It has that packet's
    /// number.
    Piece = 0x0a,
    /// Request for another source port of the receiver's packets.
    PortRequest = 0x0b,
    /// Records; the only kind that takes a packet sequence number.
    Data = 0x10,
}

bitflags::bitflags! {
    /// Flags of a packet.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Flags: u8 {
        /// The receiver should acknowledge at once.
        const ACK_REQUEST = 1 << 0;
        /// This packet number was sent before.
        const RETRANSMISSION = 1 << 1;
        /// The receiver must process the records only when everything before this packet is placed.
        const BARRIER = 1 << 2;
        /// The sender of this packet has received duplicates since its last acknowledgment.
        const DUPLICATES_SEEN = 1 << 3;
        /// The sender of this packet has dropped a packet beyond its window. This version never
        /// sends it.
        const BEYOND_WINDOW_SEEN = 1 << 4;
        /// The checksum of this [`PacketKind::Data`] packet covers its head alone
        /// (`docs/PROTOCOL.md` §3.3).
        const HEAD_CHECKSUM = 1 << 5;
    }
}

/// State of a packet's sender as a receiver of messages (`docs/PROTOCOL.md` §3.2, §6.4). Bits 0 to
/// 2: receive-buffer occupancy in eighths. Bit 3: receiver not ready. Bits 4 to 7: low bits of the
/// receiver-not-ready epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverStatus(pub u8);

impl ReceiverStatus {
    const RECEIVER_NOT_READY: u8 = 1 << 3;

    const OCCUPANCY_MAX: u8 = 7;

    /// Packs occupancy in eighths, receiver-not-ready state and epoch.
    #[must_use]
    #[inline]
    pub const fn new(occupancy: u8, receiver_not_ready: bool, rnr_epoch: u8) -> Self {
        let rnr = if receiver_not_ready { Self::RECEIVER_NOT_READY } else { 0 };
        let occupancy =
            if occupancy > Self::OCCUPANCY_MAX { Self::OCCUPANCY_MAX } else { occupancy };
        Self(occupancy | rnr | rnr_epoch << 4)
    }

    /// Receive-buffer occupancy, from 0 to 7 eighths.
    #[must_use]
    pub const fn occupancy(self) -> u8 {
        self.0 & Self::OCCUPANCY_MAX
    }

    /// Whether the sender discards messages of attempt `rnr_epoch`, from the accepted one on. This
    /// stays so until this side starts over. In a late packet the bit may belong to another attempt
    /// with the same low bits.
    #[must_use]
    pub const fn receiver_not_ready_in(self, rnr_epoch: u8) -> bool {
        self.0 & Self::RECEIVER_NOT_READY != 0 && self.0 >> 4 == rnr_epoch & 0xf
    }
}

/// The common header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    version_auth: u8,
    kind: u8,
    flags: u8,
    /// The number of times that this sender has started over after receiver-not-ready, modulo 256,
    /// at the first transmission of this packet number.
    pub rnr_epoch: u8,
    dst_cid: U32,
    token: U32,
    psn: U32,
    ack_psn: U32,
    accepted_msn: U16,
    /// The number of error records from this side in this connection, modulo 256.
    pub err_count: u8,
    receiver_status: u8,
    sent_at: U32,
    checksum: U32,
}

static_assertions::const_assert_eq!(size_of::<Header>(), 32);

impl Header {
    /// A header with version, kind, connection and token, and zeros elsewhere.
    #[must_use]
    #[inline]
    pub fn new(kind: PacketKind, dst_cid: PeerId, token: Token) -> Self {
        Self {
            version_auth: VERSION << 4,
            kind: kind as u8,
            dst_cid: U32::new(dst_cid.bits()),
            token: U32::new(token.low()),
            psn: U32::new(token.high()),
            ..zerocopy::FromZeros::new_zeroed()
        }
    }

    /// Sets the flags.
    #[must_use]
    #[inline]
    pub const fn with_flags(mut self, flags: Flags) -> Self {
        self.flags = flags.bits();
        self
    }

    /// Sets the packet sequence number, in the field of the upper half of the token.
    #[must_use]
    #[inline]
    pub const fn with_psn(mut self, psn: Psn) -> Self {
        self.psn = U32::new(psn.0);
        self
    }

    /// Moves on to the next packet sequence number.
    #[inline(always)]
    pub(super) fn advance_psn(&mut self) {
        self.psn = U32::new(self.psn().plus(1).0);
    }

    /// Sets the acknowledgment: the cumulative packet number, the low bits of the next message to
    /// be accepted, and the receive state.
    #[must_use]
    #[inline]
    pub const fn with_received(
        mut self,
        ack: Psn,
        accepted_msn: u16,
        status: ReceiverStatus,
    ) -> Self {
        self.ack_psn = U32::new(ack.0);
        self.accepted_msn = U16::new(accepted_msn);
        self.receiver_status = status.0;
        self
    }

    /// Sets the sender's clock, in units of 64 ns.
    #[must_use]
    #[inline]
    pub const fn with_sent_at(mut self, ticks: u32) -> Self {
        self.sent_at = U32::new(ticks);
        self
    }

    /// Whether the packet is of this version and `kind`, without any special condition.
    #[inline]
    pub(super) const fn is_plain(&self, kind: PacketKind) -> bool {
        const USUAL: Flags = Flags::ACK_REQUEST.union(Flags::HEAD_CHECKSUM);
        self.version_auth == VERSION << 4
            && self.kind == kind as u8
            && self.flags & !USUAL.bits() == 0
            && self.receiver_status & ReceiverStatus::RECEIVER_NOT_READY == 0
    }

    /// Whether all flags are known in this version. Unknown flags are ignored; but a packet with
    /// one takes the general path only, so that tests can compare the two paths.
    #[inline]
    pub(crate) const fn is_understood(&self) -> bool {
        self.flags & !Flags::all().bits() == 0
    }

    pub(super) const fn version(&self) -> u8 {
        self.version_auth >> 4
    }

    pub(super) const fn authentication(&self) -> u8 {
        self.version_auth & 0xf
    }

    pub(super) const fn checksum(&self) -> u32 {
        self.checksum.get()
    }

    /// The packet's kind, if this version knows it.
    #[must_use]
    #[inline]
    pub const fn kind(&self) -> Option<PacketKind> {
        Some(match self.kind {
            0x01 => PacketKind::Ack,
            0x02 => PacketKind::Hello,
            0x03 => PacketKind::HelloAck,
            0x04 => PacketKind::Retry,
            0x05 => PacketKind::Reset,
            0x06 => PacketKind::Ping,
            0x07 => PacketKind::Close,
            0x08 => PacketKind::Probe,
            0x09 => PacketKind::ProbeAck,
            0x0a => PacketKind::Piece,
            0x0b => PacketKind::PortRequest,
            0x10 => PacketKind::Data,
            _ => return None,
        })
    }

    /// Whether the packet has records.
    #[inline(always)]
    pub(super) const fn is_data(&self) -> bool {
        self.kind == PacketKind::Data as u8
    }

    /// Whether the checksum covers the head of the packet alone.
    #[inline(always)]
    pub(super) const fn has_head_checksum(&self) -> bool {
        self.is_data() && self.flags & Flags::HEAD_CHECKSUM.bits() != 0
    }

    /// The flags; unknown ones are ignored.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        Flags::from_bits_truncate(self.flags)
    }

    /// The receiver's identifier of this connection.
    #[must_use]
    pub const fn dst_cid(&self) -> PeerId {
        PeerId::from_bits(self.dst_cid.get())
    }

    /// The lower half of the token.
    #[must_use]
    pub const fn token(&self) -> u32 {
        self.token.get()
    }

    /// Whether the packet proves that its sender is the other side of the connection with this
    /// token (`docs/PROTOCOL.md` §5.3). A packet with records does so together with the range of
    /// its packet number, which is checked where the window is known.
    #[must_use]
    #[inline(always)]
    pub const fn proves(&self, token: Token) -> bool {
        self.token.get() == token.low() && (self.has_psn() || self.psn.get() == token.high())
    }

    /// Whether the packet has a packet sequence number.
    #[inline(always)]
    pub(crate) const fn has_psn(&self) -> bool {
        self.is_data() || self.kind == PacketKind::Piece as u8
    }

    /// The packet sequence number; in kinds that have none, the upper half of the token.
    #[must_use]
    pub const fn psn(&self) -> Psn {
        Psn(self.psn.get())
    }

    /// The lowest packet number that the sender of this packet has not received.
    #[must_use]
    pub const fn ack_psn(&self) -> Psn {
        Psn(self.ack_psn.get())
    }

    /// Low 16 bits of the next message that the sender of this packet will accept.
    #[must_use]
    pub const fn accepted_msn(&self) -> u16 {
        self.accepted_msn.get()
    }

    /// State of the packet's sender as a receiver of messages.
    #[must_use]
    pub const fn receiver_status(&self) -> ReceiverStatus {
        ReceiverStatus(self.receiver_status)
    }

    /// The sender's clock at the transmission, in units of 64 ns.
    #[must_use]
    pub const fn sent_at(&self) -> u32 {
        self.sent_at.get()
    }
}
