// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets made by hand (`docs/PROTOCOL.md` §3): a header, a body, and the checksum.
//!
//! In: the fields. Out: the bytes of a datagram. Callers: the liar and the forger.

use ofi_xdp_core::wire::{Flags, Handshake, Header, PacketKind, ReceiverStatus, Token, seal};
use ofi_xdp_core::{PeerId, Psn};
use zerocopy::IntoBytes;

/// The fields of a header that attacks choose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) kind: PacketKind,
    pub(crate) flags: Flags,
    pub(crate) cid: PeerId,
    pub(crate) token: Token,
    /// The packet number of `Data` and `Reset`; other kinds have a part of the token in its place.
    pub(crate) psn: Psn,
    pub(crate) ack: Psn,
    /// The sender's clock, in units of 64 ns.
    pub(crate) sent_at: u32,
}

impl Head {
    /// The packet with `body`.
    pub(crate) fn packet(&self, body: &[u8]) -> Vec<u8> {
        let mut header = Header::new(self.kind, self.cid, self.token)
            .with_flags(self.flags)
            .with_received(self.ack, 0, ReceiverStatus::default())
            .with_sent_at(self.sent_at);
        if matches!(self.kind, PacketKind::Data | PacketKind::Reset) {
            header = header.with_psn(self.psn);
        }
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(body);
        seal(&mut bytes, crc32c::crc32c_append);
        bytes
    }
}

/// A `HELLO` with this body.
pub(crate) fn hello(body: &Handshake, sent_at: u32) -> Vec<u8> {
    let head = Head {
        kind: PacketKind::Hello,
        flags: Flags::empty(),
        cid: PeerId::NONE,
        token: Token(0),
        psn: Psn(0),
        ack: Psn(0),
        sent_at,
    };
    head.packet(body.as_bytes())
}
