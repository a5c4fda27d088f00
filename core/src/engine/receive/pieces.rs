// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that arrive in pieces (`docs/PROTOCOL.md` §11.3): their bytes, until all are there.
//!
//! In: pieces of packets that are neither duplicates nor beyond the window. Out: the body of a
//! packet. A packet without a slot, or with one that another packet took, is sent again. Bound:
//! the slots, which are searched one by one.

use crate::Instant;
use crate::PeerId;
use crate::api::hosts::Host;
use crate::collections::serial::Psn;
use crate::wire::{HEADER_LEN, PIECED_LEN_MAX, PieceBody, SEGMENT_QUANTUM};
use core::hash::{Hash, Hasher};

/// A slot may be taken by another packet when no new piece of its own has come for this long.
const FORGOTTEN_NANOS: u64 = 100_000_000;
/// A piece joins no others that are older than this: before a packet number can come again.
const STALE_NANOS: u64 = 60_000_000_000;
/// The longest body.
const BODY_LEN_MAX: usize = PIECED_LEN_MAX - HEADER_LEN;
/// Units of [`SEGMENT_QUANTUM`] bytes in it, in words of 64.
const UNIT_WORDS: usize = BODY_LEN_MAX.div_ceil(SEGMENT_QUANTUM).div_ceil(64);

/// The name of a packet: its peer, the epoch of the connection, and its number.
pub(super) type PacketName = (PeerId, u16, Psn);

/// A packet that is arriving in pieces.
#[derive(Clone, Debug)]
pub(crate) struct Pieced {
    name: Option<PacketName>,
    /// The host of an unnamed peer.
    host: Option<Host>,
    /// When its last new piece arrived.
    at: Instant,
    total: u16,
    missing: u16,
    /// Bit `i % 64` of word `i / 64`: unit `i` has arrived.
    arrived: [u64; UNIT_WORDS],
    bytes: [u8; BODY_LEN_MAX],
}

impl Default for Pieced {
    fn default() -> Self {
        Self {
            name: None,
            host: None,
            at: Instant::ZERO,
            total: 0,
            missing: 0,
            arrived: [0; UNIT_WORDS],
            bytes: [0; BODY_LEN_MAX],
        }
    }
}

impl Hash for Pieced {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, self.at, self.total, self.missing, self.arrived).hash(state);
    }
}

impl Pieced {
    fn reset(&mut self, (name, host): (PacketName, Option<Host>), total: u16) {
        (self.name, self.host) = (Some(name), host);
        (self.total, self.missing) = (total, total);
        self.arrived = [0; UNIT_WORDS];
    }

    /// Whether the next packet may take this slot.
    fn is_free(&self, now: Instant) -> bool {
        self.name.is_none() || now >= self.at.after_nanos(FORGOTTEN_NANOS)
    }

    /// Places the units that have not arrived. The piece was checked (`wire::PieceBody`).
    fn place(&mut self, offset: usize, bytes: &[u8]) {
        // bound: the units of a piece
        for (unit, part) in (offset / SEGMENT_QUANTUM..).zip(bytes.chunks(SEGMENT_QUANTUM)) {
            let start = unit * SEGMENT_QUANTUM;
            let into = self.bytes.get_mut(start..start + part.len());
            let (Some(word), Some(into)) = (self.arrived.get_mut(unit / 64), into) else { return };
            if *word & 1 << (unit % 64) == 0 {
                *word |= 1 << (unit % 64);
                into.copy_from_slice(part);
                self.missing = self.missing.saturating_sub(part.len() as u16);
            }
        }
    }
}

/// The outcome of a piece.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arrived<'a> {
    /// Others are missing.
    Part,
    /// It was the last one: the body of the packet.
    Whole(&'a [u8]),
    /// No slot is free.
    NoRoom,
    /// Shorter ones of the packet came before it.
    Late,
}

/// The slots for packets that arrive in pieces.
#[derive(Debug, Default, Hash)]
pub(crate) struct Pieces<'s> {
    slots: &'s mut [Pieced],
}

impl<'s> Pieces<'s> {
    /// No packet is arriving.
    pub(crate) const fn new(slots: &'s mut [Pieced]) -> Self {
        Self { slots }
    }
}

impl Pieces<'_> {
    /// Whether an unnamed peer of a host may take another slot: the host has no more than are free.
    fn has_share(&self, now: Instant, host: Host) -> bool {
        let free = self.slots.iter().filter(|slot| slot.is_free(now)).count();
        let taken = |slot: &&Pieced| slot.host == Some(host) && !slot.is_free(now);
        self.slots.iter().filter(taken).count() <= free
    }

    /// A slot that a new packet may take, unless its `host` has its share of them.
    fn free_slot(&self, now: Instant, host: Option<Host>) -> Option<usize> {
        if host.is_some_and(|host| !self.has_share(now, host)) {
            return None;
        }
        self.slots.iter().position(|slot| slot.is_free(now))
    }

    /// The slot of the last one of the packets of the same connection that come after the packet
    /// `name`. It makes room. Otherwise a later packet could have the slot for ever: one that is
    /// refused until earlier ones have arrived is sent again and again.
    fn slot_behind(&self, (peer, epoch, psn): PacketName) -> Option<usize> {
        let ahead = |slot: &Pieced| {
            let name = slot.name.filter(|name| (name.0, name.1) == (peer, epoch));
            name.filter(|name| psn.is_before(name.2)).map(|name| name.2.since(psn))
        };
        let behind =
            self.slots.iter().enumerate().filter_map(|(at, slot)| Some((ahead(slot)?, at)));
        behind.max().map(|(_, at)| at)
    }

    /// Keeps a piece of the packet `name`, of a named peer or of one at a `host`.
    pub(super) fn arrive(
        &mut self,
        now: Instant,
        (name, host): (PacketName, Option<Host>),
        piece: &PieceBody,
        bytes: &[u8],
    ) -> Arrived<'_> {
        let total = piece.total.get();
        let known =
            |slot: &Pieced| slot.name == Some(name) && now < slot.at.after_nanos(STALE_NANOS);
        let at = self.slots.iter().position(known);
        let at = at.or_else(|| self.free_slot(now, host)).or_else(|| self.slot_behind(name));
        let Some(slot) = at.and_then(|at| self.slots.get_mut(at)) else { return Arrived::NoRoom };
        // A repeated packet may be shorter: superseded records are left out. A longer one is late.
        // Otherwise a peer could change between two lengths, and keep its slot for ever.
        let is_known = known(slot);
        if is_known && total > slot.total {
            return Arrived::Late;
        }
        if !is_known || slot.total != total {
            slot.reset((name, host), total);
            slot.at = now;
        }
        let missing = slot.missing;
        slot.place(piece.offset.get().into(), bytes);
        if slot.missing < missing {
            slot.at = now;
        }
        if slot.missing > 0 {
            return Arrived::Part;
        }
        slot.name = None;
        Arrived::Whole(slot.bytes.get(..usize::from(total)).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const NAME: PacketName = (PeerId::NONE, 1, Psn(7));

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn arrive(
        pieces: &mut Pieces<'_>,
        now: u64,
        name: PacketName,
        whole: &[u8],
        part: (usize, usize),
    ) -> Option<Vec<u8>> {
        let total = whole.len() as u16;
        let body =
            PieceBody { offset: (part.0 as u16).into(), total: total.into(), reserved: 0.into() };
        match pieces.arrive(at(now), (name, None), &body, &whole[part.0..part.1]) {
            Arrived::Whole(body) => Some(body.to_vec()),
            Arrived::Part | Arrived::NoRoom | Arrived::Late => None,
        }
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_in_any_order_make_the_packet(
            len in 200usize..BODY_LEN_MAX,
            unit in 1usize..20,
            order in prop::collection::vec(0usize..1000, 1..400),
            again in 0usize..3,
        ) {
            let whole: Vec<u8> = (0..len).map(|i| (i * 7 / 3) as u8).collect();
            let mut slots = [Pieced::default()];
            let mut pieces = Pieces::new(&mut slots);
            let step = unit * SEGMENT_QUANTUM;
            let mut parts: Vec<_> =
                (0..len).step_by(step).map(|from| (from, len.min(from + step))).collect();
            let repeated: Vec<_> = parts.iter().copied().take(again).collect();
            parts.splice(0..0, repeated);
            for (at, with) in order.into_iter().enumerate() {
                let (at, with) = (at % parts.len(), with % parts.len());
                parts.swap(at, with);
            }
            let made: Vec<_> = parts
                .into_iter()
                .filter_map(|part| arrive(&mut pieces, 0, NAME, &whole, part))
                .collect();
            prop_assert_eq!(made.first(), Some(&whole));
        }
    }

    #[test]
    fn a_packet_of_another_length_begins_anew() {
        let mut slots = [Pieced::default()];
        let mut pieces = Pieces::new(&mut slots);
        let (long, short) = ([1; 192], [2; 128]);
        assert_eq!(arrive(&mut pieces, 0, NAME, &long, (0, 128)), None);
        assert_eq!(arrive(&mut pieces, 0, NAME, &short, (64, 128)), None);
        assert_eq!(arrive(&mut pieces, 0, NAME, &short, (0, 64)), Some(short.to_vec()));
    }

    #[test]
    fn a_slot_is_kept_while_its_packet_arrives_and_no_longer() {
        let mut slots = [Pieced::default()];
        let mut pieces = Pieces::new(&mut slots);
        let whole = [3; 192];
        let other = (PeerId::NONE, 2, Psn(7));
        assert_eq!(arrive(&mut pieces, 0, NAME, &whole, (0, 64)), None);
        assert_eq!(arrive(&mut pieces, FORGOTTEN_NANOS - 1, other, &whole, (0, 192 - 64)), None);
        assert_eq!(arrive(&mut pieces, FORGOTTEN_NANOS - 1, other, &whole, (128, 192)), None);
        assert!(arrive(&mut pieces, FORGOTTEN_NANOS - 1, NAME, &whole, (64, 192)).is_some());
        assert_eq!(arrive(&mut pieces, FORGOTTEN_NANOS, NAME, &whole, (0, 64)), None);
        assert_eq!(arrive(&mut pieces, 2 * FORGOTTEN_NANOS, other, &whole, (0, 128)), None);
        assert!(arrive(&mut pieces, 2 * FORGOTTEN_NANOS, other, &whole, (128, 192)).is_some());
    }

    #[test]
    fn an_earlier_packet_takes_the_slot_of_a_later_one_of_its_connection() {
        let mut slots = [Pieced::default(), Pieced::default()];
        let mut pieces = Pieces::new(&mut slots);
        let (whole, before) = ([3; 192], (NAME.0, NAME.1, Psn(6)));
        let (after, last) = ((NAME.0, NAME.1, Psn(8)), (NAME.0, NAME.1, Psn(9)));
        for name in [last, after] {
            assert_eq!(arrive(&mut pieces, 0, name, &whole, (0, 64)), None);
        }
        let another = (PeerId::NONE, 2, Psn(1));
        assert_eq!(arrive(&mut pieces, 0, another, &whole, (0, 64)), None);
        assert_eq!(arrive(&mut pieces, 0, another, &whole, (64, 192)), None, "no room for it");
        assert_eq!(arrive(&mut pieces, 0, NAME, &whole, (0, 64)), None);
        assert_eq!(arrive(&mut pieces, 0, before, &whole, (0, 64)), None);
        assert!(arrive(&mut pieces, 0, NAME, &whole, (64, 192)).is_some(), "8 and 9 made room");
        assert!(arrive(&mut pieces, 0, before, &whole, (64, 192)).is_some());
    }

    #[test]
    fn a_piece_that_comes_again_keeps_no_slot() {
        let mut slots = [Pieced::default()];
        let mut pieces = Pieces::new(&mut slots);
        let (whole, other) = ([3; 192], (PeerId::NONE, 2, Psn(7)));
        for now in [0, FORGOTTEN_NANOS / 2, FORGOTTEN_NANOS - 1] {
            assert_eq!(arrive(&mut pieces, now, NAME, &whole, (0, 64)), None);
        }
        assert_eq!(arrive(&mut pieces, FORGOTTEN_NANOS, other, &whole, (0, 64)), None);
        assert!(arrive(&mut pieces, FORGOTTEN_NANOS, other, &whole, (64, 192)).is_some());
    }

    #[test]
    fn a_packet_that_changes_its_length_keeps_no_slot() {
        let mut slots = [Pieced::default()];
        let mut pieces = Pieces::new(&mut slots);
        let (long, short) = ([3; 256], [3; 192]);
        let other = (PeerId::NONE, 2, Psn(7));
        let pause = FORGOTTEN_NANOS / 2;
        for now in 0..3 {
            let whole: &[u8] = if now % 2 == 0 { &long } else { &short };
            assert_eq!(arrive(&mut pieces, now * pause, NAME, whole, (0, 64)), None);
        }
        assert_eq!(arrive(&mut pieces, 3 * pause, other, &short, (0, 64)), None);
        assert!(arrive(&mut pieces, 3 * pause, other, &short, (64, 192)).is_some());
    }

    #[test]
    fn pieces_of_two_packets_with_one_number_do_not_mix() {
        let mut slots = [Pieced::default()];
        let mut pieces = Pieces::new(&mut slots);
        assert_eq!(arrive(&mut pieces, 0, NAME, &[1; 192], (0, 128)), None);
        assert_eq!(arrive(&mut pieces, STALE_NANOS, NAME, &[2; 192], (128, 192)), None);
        assert_eq!(
            arrive(&mut pieces, STALE_NANOS, NAME, &[2; 192], (0, 128)),
            Some([2; 192].to_vec())
        );
    }
}
