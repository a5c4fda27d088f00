// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handshake of a connection: this side's hello and its repetitions (`docs/PROTOCOL.md` §5.2).
//!
//! In: hellos as they are sent, and the peer's replies. Out: the number and the cookie that a hello
//! carries, and when it is repeated. The engine's handshake calls. All operations are O(1).

use crate::Instant;
use crate::collections::time::Tick;

/// First repetition of a handshake; doubles each time.
const HELLO_REPEAT_NANOS: u64 = 5_000_000;
/// The interval doubles this many times at the most (320 ms).
const HELLO_REPEAT_DOUBLINGS: u8 = 6;

/// This side's hello.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Hello {
    /// The cookie that the peer asked to see in the next hello.
    cookie: u64,
    /// When the handshake is repeated.
    repeat_at: Option<Tick>,
    /// The number that the hello of this side proposes for the connection; 0: it has sent none.
    proposed: u16,
    /// How often it was repeated, for a timer or a second retry, or the answer to that of the peer
    /// was; only at 0 what comes next tells the round trip.
    repeated: u8,
}

impl Hello {
    /// No hello was sent. A handshake before this connection is not measured.
    pub(super) fn none() -> Self {
        Self { repeated: 1, ..Self::default() }
    }

    /// The number that the last hello proposed for the connection; 0: there was none.
    pub(crate) const fn proposed(&self) -> u16 {
        self.proposed
    }

    /// The cookie of the next hello.
    pub(crate) const fn cookie(&self) -> u64 {
        self.cookie
    }

    /// When the handshake is repeated.
    #[inline]
    pub(crate) const fn repeat_at(&self) -> Option<Tick> {
        self.repeat_at
    }

    /// Records the first hello of a connection, which proposes number `epoch`.
    pub(crate) fn sent(&mut self, epoch: u16, now: Tick) {
        *self = Self { proposed: epoch, ..Self::default() };
        self.expect_reply(now);
    }

    /// Proposes `epoch` in the next hello, unless one was sent.
    pub(crate) fn propose(&mut self, epoch: u16) {
        if self.proposed == 0 {
            self.proposed = epoch;
        }
    }

    /// The handshake is repeated if no reply arrives in time.
    pub(crate) fn expect_reply(&mut self, now: Tick) {
        self.repeat_at = Some(now.plus_nanos(HELLO_REPEAT_NANOS));
    }

    /// Records a repetition; the time to the next one doubles.
    pub(crate) fn repeated(&mut self, now: Tick) {
        self.repeated = self.repeated.saturating_add(1);
        let pause = HELLO_REPEAT_NANOS << self.repeated.min(HELLO_REPEAT_DOUBLINGS);
        self.repeat_at = Some(now.plus_nanos(pause));
    }

    /// Repeats the handshake no more.
    pub(crate) fn stop(&mut self) {
        self.repeat_at = None;
    }

    /// Records that this side agreed to the hello of the peer. If hellos `crossed`, the answer
    /// tells the round trip, provided that the hello of this side was sent once.
    pub(crate) fn agreed(&mut self, crossed: bool) {
        self.repeated = u8::from(crossed && self.repeated > 0);
    }

    /// Puts the cookie that the peer asked for in the next hello. If an earlier one has shown a
    /// cookie, the answer may be to that one.
    pub(crate) fn show(&mut self, cookie: u64) {
        if self.cookie != 0 {
            self.repeated = self.repeated.max(1);
        }
        self.cookie = cookie;
    }

    /// Records that this side has agreed to the hello of the peer once more. What comes next may
    /// answer any of these agreements.
    pub(crate) fn answered_again(&mut self) {
        self.repeated = self.repeated.max(1);
    }

    /// Whether the answer tells the round trip.
    pub(crate) const fn is_measured(&self) -> bool {
        self.repeated == 0
    }

    /// Ages the time here, which compares correctly with `before`.
    pub(super) fn age(&mut self, before: Instant, now: Instant) {
        self.repeat_at = self.repeat_at.map(|at| at.aged(before, now));
    }
}
