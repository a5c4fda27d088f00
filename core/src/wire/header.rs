// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header that every packet begins with (`docs/PROTOCOL.md` §3.2).

use super::{Checksum, VERSION, compute_checksum};
use crate::PeerId;
use crate::serial::Psn;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What a packet is for (`docs/PROTOCOL.md` §3.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum PacketKind {
    /// What has arrived, and a time stamp back.
    Ack = 0x01,
    /// First packet of a handshake.
    Hello = 0x02,
    /// Answer to [`Self::Hello`].
    HelloAck = 0x03,
    /// "Say hello again, with this cookie": proves that the asker receives at its address.
    Retry = 0x04,
    /// "I know no such connection."
    Reset = 0x05,
    /// Asks for an acknowledgment; carries nothing else.
    Ping = 0x06,
    /// "This connection ends here." Sent once, not acknowledged.
    Close = 0x07,
    /// Records; the only kind that has a packet sequence number and is retransmitted.
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
        /// Take the records in only when everything before this packet is placed.
        const BARRIER = 1 << 2;
        /// The sender of this packet has received duplicates since its last acknowledgment.
        const DUPLICATES_SEEN = 1 << 3;
        /// The sender of this packet has dropped a packet beyond its window. Not sent yet.
        const BEYOND_WINDOW_SEEN = 1 << 4;
    }
}

/// The sender of a packet as a receiver of messages (`docs/PROTOCOL.md` §3.2, §6.4): how full it is
/// (bits 0 to 2, in eighths), whether it discards messages (bit 3), and the low
/// bits of its receiver-not-ready epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pressure(pub u8);

impl Pressure {
    const RECEIVER_NOT_READY: u8 = 1 << 3;

    const EIGHTHS: u8 = 7;

    /// Packs how full the receiver is, its receiver-not-ready state and its epoch.
    #[must_use]
    #[inline]
    pub const fn new(eighths_full: u8, receiver_not_ready: bool, rnr_epoch: u8) -> Self {
        let rnr = if receiver_not_ready { Self::RECEIVER_NOT_READY } else { 0 };
        let full = if eighths_full > Self::EIGHTHS { Self::EIGHTHS } else { eighths_full };
        Self(full | rnr | rnr_epoch << 4)
    }

    /// How full the receiver is, from 0 to 7 eighths.
    #[must_use]
    pub const fn eighths_full(self) -> u8 {
        self.0 & Self::EIGHTHS
    }

    /// Whether messages of attempt `rnr_epoch` are being discarded, from the accepted one on. True
    /// once is true until the sender starts over; of a late packet it may be another attempt, whose
    /// low bits are the same.
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
    /// How often this sender has started over after receiver-not-ready, modulo 256; of the time
    /// when the packet's number was first sent.
    pub rnr_epoch: u8,
    dst_cid: U32,
    token: U32,
    psn: U32,
    ack_psn: U32,
    accepted_msn: U16,
    /// How many error records this side has issued in this connection, modulo 256.
    pub err_count: u8,
    pressure: u8,
    sent_at: U32,
    checksum: U32,
}

static_assertions::const_assert_eq!(size_of::<Header>(), 32);

impl Header {
    /// A header with everything zero but version, kind and connection.
    #[must_use]
    #[inline]
    pub fn new(kind: PacketKind, dst_cid: PeerId, token: u32) -> Self {
        Self {
            version_auth: VERSION << 4,
            kind: kind as u8,
            dst_cid: U32::new(dst_cid.bits()),
            token: U32::new(token),
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

    /// Sets the packet sequence number.
    #[must_use]
    #[inline]
    pub const fn with_psn(mut self, psn: Psn) -> Self {
        self.psn = U32::new(psn.0);
        self
    }

    /// Sets what this side has received: the cumulative packet number, the low bits of the next
    /// message to be accepted, and the pressure.
    #[must_use]
    #[inline]
    pub const fn with_received(mut self, ack: Psn, accepted_msn: u16, pressure: Pressure) -> Self {
        self.ack_psn = U32::new(ack.0);
        self.accepted_msn = U16::new(accepted_msn);
        self.pressure = pressure.0;
        self
    }

    /// Sets the sender's clock, in units of 64 ns.
    #[must_use]
    #[inline]
    pub const fn with_sent_at(mut self, ticks: u32) -> Self {
        self.sent_at = U32::new(ticks);
        self
    }

    /// Whether it is of a packet of this version and `kind`, and says nothing out of the ordinary.
    #[inline]
    pub(super) const fn is_plain(&self, kind: PacketKind) -> bool {
        self.version_auth == VERSION << 4
            && self.kind == kind as u8
            && self.flags & !Flags::ACK_REQUEST.bits() == 0
            && self.pressure & Pressure::RECEIVER_NOT_READY == 0
    }

    /// Whether it has no flag that this version does not know. What has one, is ignored: but a
    /// packet with one is taken in by the general ways only, so that tests can compare.
    #[inline]
    pub(crate) const fn is_understood(&self) -> bool {
        self.flags & !Flags::all().bits() == 0
    }

    /// Whether the checksum is that of `packet`, which this is the header of.
    #[inline]
    pub(crate) fn is_sound(&self, packet: &[u8], checksum: Checksum) -> bool {
        self.checksum() == compute_checksum(packet, checksum)
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

    /// What the packet is for, if this version knows it.
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
            0x10 => PacketKind::Data,
            _ => return None,
        })
    }

    /// The flags; unknown ones are ignored.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        Flags::from_bits_truncate(self.flags)
    }

    /// The receiver's own name for this connection.
    #[must_use]
    pub const fn dst_cid(&self) -> PeerId {
        PeerId::from_bits(self.dst_cid.get())
    }

    /// Proof that the sender knows both incarnations and the epoch.
    #[must_use]
    pub const fn token(&self) -> u32 {
        self.token.get()
    }

    /// The packet sequence number; 0 in kinds that have none.
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

    /// How hard pressed the sender is as a receiver.
    #[must_use]
    pub const fn pressure(&self) -> Pressure {
        Pressure(self.pressure)
    }

    /// The sender's clock when it sent this, in units of 64 ns.
    #[must_use]
    pub const fn sent_at(&self) -> u32 {
        self.sent_at.get()
    }
}
