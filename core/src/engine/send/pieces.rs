// SPDX-License-Identifier: MIT OR Apache-2.0
//! Retransmission of a packet that is too long for the path, in pieces (`docs/PROTOCOL.md` §11.3).
//!
//! The packet is composed as a whole each time, and one piece of it is sent. In: a composed packet.
//! Out: its next piece in the same buffer. Bound: the pieces of one packet, which are sent one
//! behind the other.

use crate::collections::serial::Psn;
use crate::engine::ctx::Ctx;
use crate::peer::in_flight::InFlight;
use crate::peer::packet_record::TxFlags;
use crate::peer::slots::ConnSlot;
use crate::wire::{HEADER_LEN, PieceBody, full_segment};
use zerocopy::IntoBytes;

/// A piece in the buffer of its packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// Its length, with its header.
    pub(super) len: usize,
    /// Whether it is the last one.
    pub(super) is_last: bool,
    /// Where the next one begins in the body of the whole packet; 0 after the last one.
    next: usize,
}

/// Makes a packet of at most `room` bytes of the piece that begins at `offset` in the body of a
/// packet of `len` bytes. The piece is moved behind the header. `None`: there is no such piece.
pub(super) fn cut(packet: &mut [u8], len: usize, room: usize, offset: usize) -> Option<Piece> {
    let total = len.checked_sub(HEADER_LEN)?;
    // The packet may have become shorter since the last piece, and the pieces start anew.
    let offset = if offset < total { offset } else { 0 };
    let start = HEADER_LEN + size_of::<PieceBody>();
    let most = full_segment(room.checked_sub(start)?);
    let taken = most.min(total - offset);
    let from = HEADER_LEN + offset;
    if taken == 0 || packet.len() < start + taken {
        return None;
    }
    packet.copy_within(from..from + taken, start);
    let body = PieceBody {
        offset: u16::try_from(offset).ok()?.into(),
        total: u16::try_from(total).ok()?.into(),
        reserved: 0.into(),
    };
    packet.get_mut(HEADER_LEN..start)?.copy_from_slice(body.as_bytes());
    let is_last = offset + taken == total;
    let next = if is_last { 0 } else { offset + taken };
    Some(Piece { len: start + taken, is_last, next })
}

/// Records that a piece of packet `psn` goes out. Until the last one the packet stays among those
/// that wait to be sent again.
pub(super) fn record_piece(
    cx: &mut Ctx<'_>,
    in_flight: &mut InFlight<'_>,
    (conn, psn): (ConnSlot, Psn),
    piece: Piece,
) {
    cx.stats.pieces_sent += 1;
    let state = &mut cx.table[conn];
    state.piece_sent(psn, piece.next);
    if piece.is_last {
        return;
    }
    let lost = TxFlags::LOST;
    let before = state.tx().change_record(in_flight, psn, |record| record.flags |= lost);
    if before.is_some_and(|before| !before.flags.contains(lost)) {
        // The packet of a tail loss probe.
        state.tx_mut().packet_lost(psn);
    }
}
