// SPDX-License-Identifier: MIT OR Apache-2.0
//! An observer of the wire: invariants 10, 11, 12, 15, 17, 18.
//!
//! In: every packet as it leaves its sender. Out: a complaint. Bound: notes on
//! [`NOTES_MAX`] packets of each direction of each connection.

use super::{Checked, broken};
use crate::wire::{DATA, PIECE, RETRANSMISSION, RecordView, View};
use ofi_xdp_test_kit::rng::hash;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};

/// Packets of a connection that are remembered: more than two windows.
const NOTES_MAX: usize = 2 * WINDOW as usize;
/// Packets that may be under way.
const WINDOW: u32 = ofi_xdp_core::WINDOW_PACKETS;

/// The observer's note of a packet number.
#[derive(Clone, Debug)]
struct Note {
    /// One hash for each record.
    records: Vec<u64>,
    sent: u64,
    /// Time-outs and probes of the sender at that time.
    timers: u64,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default)]
struct Direction {
    ack: Option<u32>,
    accepted: Option<u16>,
    /// Number of the first note.
    first: u32,
    notes: VecDeque<Note>,
    /// The packet that is being sent in pieces: its number, the length of its body, and the body so
    /// far.
    pieced: (u32, usize, Vec<u8>),
}

impl Direction {
    /// The number after the last one sent.
    fn next(&self) -> u32 {
        self.first.wrapping_add(self.notes.len() as u32)
    }
}

/// Facts about a sender that its packet does not have.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// World time.
    pub now: u64,
    /// Time-outs and probes so far.
    pub timers: u64,
    /// The least round trip that there can be; 0: clocks cannot be trusted.
    pub round_trip_min: u64,
}

/// Directions by sender, receiver and token.
type Directions = HashMap<(u32, u32, u32), Direction, BuildHasherDefault<DefaultHasher>>;

/// The onlooker.
#[derive(Debug, Default)]
pub struct Observer {
    directions: Directions,
}

/// Whether `one` comes before `other` (RFC 1982).
const fn is_before(one: u32, other: u32) -> bool {
    one != other && other.wrapping_sub(one) < 1 << 31
}

fn record_hash(record: &RecordView<'_>) -> u64 {
    // The bytes of a read response come from memory that may be written or deregistered meanwhile.
    if record.kind == 0x31 {
        return hash(u64::from(record.kind), &record.bytes[4..16]);
    }
    hash(0, record.bytes)
}

impl Observer {
    /// Checks a packet that leaves its sender.
    ///
    /// # Errors
    /// An invariant is broken.
    pub fn observe(&mut self, sender: Sender, view: &View<'_>) -> Checked {
        // A node's traffic with itself has one token for both directions.
        if !view.is_connected() || sender.from == sender.to {
            return Ok(());
        }
        let back = self.directions.get(&(sender.to, sender.from, view.token));
        let (peer_ack, peer_next) = match back {
            Some(back) => (back.ack, (!back.notes.is_empty()).then(|| back.next())),
            None => (None, None),
        };
        let direction = self.directions.entry((sender.from, sender.to, view.token)).or_default();
        Self::acknowledgment(direction, view)?;
        Self::selective(peer_next, view)?;
        if view.kind == PIECE {
            return Self::piece(direction, sender, view);
        }
        if view.kind != DATA {
            return Ok(());
        }
        if view.flags & RETRANSMISSION == 0 {
            Self::window(direction, peer_ack, sender, view)
        } else {
            Self::repeated(direction, sender, view)
        }
    }

    /// 11, 15: neither the cumulative acknowledgment nor the acceptance of messages goes back.
    fn acknowledgment(direction: &mut Direction, view: &View<'_>) -> Checked {
        if let Some(before) = direction.ack.replace(view.ack_psn)
            && is_before(view.ack_psn, before)
        {
            return broken(11, format!("acknowledged {before} and then {}", view.ack_psn));
        }
        if let Some(before) = direction.accepted.replace(view.accepted_msn)
            && before.wrapping_sub(view.accepted_msn).wrapping_sub(1) < 1 << 14
        {
            return broken(15, format!("accepted {before} and then {}", view.accepted_msn));
        }
        Ok(())
    }

    /// 12: each acknowledged packet was sent, and the next expected number is not marked as
    /// received.
    fn selective(peer_next: Option<u32>, view: &View<'_>) -> Checked {
        let Some(next) = peer_next else { return Ok(()) };
        if is_before(next, view.ack_psn) {
            return broken(12, format!("{} acknowledged, {next} not sent yet", view.ack_psn));
        }
        match view.selective().find(|&psn| !is_before(psn, next)) {
            Some(psn) => broken(12, format!("{psn} acknowledged, {next} not sent yet")),
            None => Ok(()),
        }
    }

    /// 10: new packets are numbered without gaps, and not more are under way than the window says.
    fn window(
        direction: &mut Direction,
        peer_ack: Option<u32>,
        sender: Sender,
        view: &View<'_>,
    ) -> Checked {
        if direction.notes.is_empty() {
            direction.first = view.psn;
        }
        if view.psn != direction.next() {
            return broken(10, format!("{} sent after {}", view.psn, direction.next()));
        }
        if let Some(ack) = peer_ack
            && view.psn.wrapping_sub(ack) >= WINDOW
            && is_before(ack, view.psn)
        {
            return broken(10, format!("{} sent while {ack} is the latest wanted", view.psn));
        }
        if direction.notes.len() == NOTES_MAX {
            direction.notes.pop_front();
            direction.first = direction.first.wrapping_add(1);
        }
        let records = view.records().map(|record| record_hash(&record)).collect();
        direction.notes.push_back(Note { records, sent: sender.now, timers: sender.timers });
        Ok(())
    }

    /// 18: pieces of a packet follow one another from its beginning to its end, and make the whole
    /// packet together.
    fn piece(direction: &mut Direction, sender: Sender, view: &View<'_>) -> Checked {
        let Some((offset, total, bytes)) = view.piece() else {
            return broken(18, "a piece without a header");
        };
        let (psn, len, body) = &mut direction.pieced;
        if offset == 0 {
            (*psn, *len, *body) = (view.psn, total, Vec::new());
        }
        if *len != total {
            // Records were superseded since the last piece. The receiver waits for the next
            // beginning, too.
            return Ok(());
        }
        if *psn != view.psn || body.len() != offset {
            return broken(18, format!("a piece of {} without those before it", view.psn));
        }
        body.extend_from_slice(bytes);
        if body.len() < total {
            return Ok(());
        }
        let body = std::mem::take(body);
        let whole = View { kind: DATA, body: &body, ..*view };
        Self::repeated(direction, sender, &whole)
    }

    /// 17, 18: a packet is repeated a round trip later at the earliest, with the same records, less
    /// those of an attempt that is over.
    fn repeated(direction: &mut Direction, sender: Sender, view: &View<'_>) -> Checked {
        let index = view.psn.wrapping_sub(direction.first) as usize;
        let Some(note) = direction.notes.get_mut(index) else {
            return broken(18, format!("{} sent again, but never before", view.psn));
        };
        let mut before = note.records.iter();
        for record in view.records() {
            let wanted = record_hash(&record);
            if !before.any(|&known| known == wanted) {
                return broken(18, format!("{} now holds another {}", view.psn, record.name));
            }
        }
        let after = sender.now - note.sent;
        if note.timers == sender.timers && after < sender.round_trip_min {
            return broken(17, format!("{} sent again after {after} ns", view.psn));
        }
        note.sent = sender.now;
        note.timers = sender.timers;
        Ok(())
    }
}
