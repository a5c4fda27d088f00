// SPDX-License-Identifier: MIT OR Apache-2.0
//! The match rule between messages and receives, and the state of multi-receive buffers.
//!
//! In: the source and tag that a receive wants, and those of a message. Out: whether they match
//! ([`matches()`]), and which bytes of a multi-receive buffer the message gets ([`MultiRecv`]).
//! Callers: the engine, for its own receives; the queue of receives that several engines share.
//! Bound: constant.

use crate::collections::list::List;
use crate::collections::serial::Msn;
use crate::collections::slab::SlotIndex;

/// The tags that a receive takes: those that agree with `tag` in each bit that is not set in
/// `ignore` (`fi_tagged(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TagMatch {
    /// The wanted tag.
    pub tag: u64,
    /// Bits that are not compared.
    pub ignore: u64,
}

impl TagMatch {
    /// Whether a message with this tag matches.
    #[must_use]
    #[inline]
    pub const fn takes(&self, tag: u64) -> bool {
        (self.tag ^ tag) & !self.ignore == 0
    }
}

/// The part of a message that each of its records repeats, and that matching needs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Envelope {
    /// Position of the message in the order of messages.
    pub msn: Msn,
    /// The tag of a tagged message.
    pub tag: Option<u64>,
    /// Remote CQ data.
    pub data: Option<u64>,
    /// Length of the whole message in bytes.
    pub total: u64,
}

/// The match rule: whether a receive takes a message from `source` with `tag`. It wants messages
/// from `from` (`None`: any source) with tags of `wanted` (`None`: untagged messages only).
#[must_use]
#[inline]
pub(crate) fn matches<S: PartialEq>(
    (from, wanted): (Option<S>, Option<TagMatch>),
    (source, tag): (S, Option<u64>),
) -> bool {
    from.is_none_or(|from| from == source)
        && match (wanted, tag) {
            (Some(wanted), Some(tag)) => wanted.takes(tag),
            (None, None) => true,
            _ => false,
        }
}

/// Two queues: a tagged message matches tagged receives only, an untagged one untagged receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queues<I> {
    pub(crate) untagged: List<I>,
    pub(crate) tagged: List<I>,
}

impl<I: SlotIndex> Default for Queues<I> {
    fn default() -> Self {
        Self { untagged: List::default(), tagged: List::default() }
    }
}

impl<I: SlotIndex> Queues<I> {
    /// The first member of one of them, or [`SlotIndex::NONE`].
    pub(crate) fn first(&self, tagged: bool) -> I {
        if tagged { self.tagged.head() } else { self.untagged.head() }
    }

    pub(crate) fn of(&mut self, tagged: bool) -> &mut List<I> {
        if tagged { &mut self.tagged } else { &mut self.untagged }
    }
}

/// Fill state of a multi-receive buffer (`fi_msg(3)`, `FI_MULTI_RECV`): messages lie one behind the
/// other, each in a slice of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct MultiRecv {
    /// Bytes from the beginning of the buffer that belong to slices.
    used: u64,
    /// The buffer closes when fewer bytes than this are left.
    least: u64,
    /// Slices of messages that have not ended.
    open: u32,
    /// The buffer takes no more messages, and ends with its last slice.
    closed: bool,
}

impl MultiRecv {
    /// An empty buffer, which takes messages until fewer than `least` bytes (at least one) are
    /// left.
    #[must_use]
    pub(crate) const fn new(least: u64) -> Self {
        Self { used: 0, least: if least == 0 { 1 } else { least }, open: 0, closed: false }
    }

    /// An empty buffer that takes no messages.
    #[must_use]
    pub(crate) const fn new_closed() -> Self {
        Self { closed: true, ..Self::new(1) }
    }

    /// Whether the buffer takes no more messages.
    #[must_use]
    pub(crate) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Number of slices of messages that have not ended.
    #[must_use]
    pub(crate) const fn open(&self) -> u32 {
        self.open
    }

    /// Offset and length of the slice that a message of `len` bytes gets in a buffer of `capacity`
    /// bytes; a message longer than the rest is truncated.
    #[must_use]
    pub(crate) fn next_slice(&self, capacity: u64, len: u64) -> (u64, u64) {
        (self.used, len.min(capacity.saturating_sub(self.used)))
    }

    /// Opens a slice of `len` bytes, which [`Self::next_slice`] gave, in a buffer of `capacity`
    /// bytes. Closes the buffer if fewer than the least bytes are left.
    pub(crate) fn open_slice(&mut self, capacity: u64, len: u64) {
        self.used += len;
        self.open += 1;
        self.closed = capacity.saturating_sub(self.used) < self.least;
    }

    /// Ends a slice. Returns whether the buffer has ended with it.
    pub(crate) fn end_slice(&mut self) -> bool {
        self.open = self.open.saturating_sub(1);
        self.closed && self.open == 0
    }

    /// Closes the buffer. Returns whether it has ended: no slice of it is open.
    pub(crate) const fn close(&mut self) -> bool {
        self.closed = true;
        self.open == 0
    }

    /// Whether the state is possible for a buffer of `capacity` bytes: all slices lie in it, and a
    /// closed buffer is full or was `cancelled`.
    #[must_use]
    pub(crate) fn is_sound(&self, capacity: u64, cancelled: bool) -> bool {
        let Some(left) = capacity.checked_sub(self.used) else { return false };
        let full = left < self.least;
        if self.closed { full || cancelled } else { self.used == 0 || !full }
    }
}
