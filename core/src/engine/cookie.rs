// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cookies (`docs/PROTOCOL.md` §5.2): what a hello brings back that might be forged, or old.
//!
//! In: a hello of which that must be shown. Out: an answer with a cookie, of which nothing is
//! remembered; and whether a hello has one. `handshake.rs` calls. Bound: one answer a hello.

use super::Engine;
use super::answer::Answer;
use crate::rng::mix_all;
use crate::wire::Handshake;
use crate::{Instant, PeerAddress, PeerId};

/// How long a cookie is good for, twice: the period in which it was made and the next.
const COOKIE_PERIOD_NANOS: u64 = 1 << 36;

impl Engine<'_> {
    /// Answers a hello with a cookie, and remembers nothing of it.
    pub(super) fn ask_again(&mut self, now: Instant, hello: &Handshake, to: PeerAddress) {
        let incarnation = hello.src_incarnation.get();
        let cookie = self.cookie(&to, incarnation, self.period(now));
        let cid = PeerId::from_bits(hello.src_cid.get());
        self.answer(Answer::Retry { to, cid, incarnation, cookie });
        self.stats.retries_sent += 1;
    }

    fn cookie(&self, address: &PeerAddress, incarnation: u64, period: u64) -> u64 {
        let [high, low]: [u64; 2] = zerocopy::transmute!(address.octets());
        let words = [high, low, u64::from(address.port()), incarnation, period];
        mix_all(self.identity.seed ^ self.identity.incarnation, &words).max(1)
    }

    fn period(&self, now: Instant) -> u64 {
        now.as_nanos() / COOKIE_PERIOD_NANOS
    }

    pub(super) fn is_cookie(&self, hello: &Handshake, from: &PeerAddress, now: Instant) -> bool {
        let period = self.period(now);
        let incarnation = hello.src_incarnation.get();
        [period, period.wrapping_sub(1)]
            .iter()
            .any(|&period| self.cookie(from, incarnation, period) == hello.cookie.get())
    }
}
