// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cookies (`docs/PROTOCOL.md` §5.2): proof that the sender of a hello receives at its address.
//!
//! In: a hello that may be forged, or old. Out: a reply with a cookie, without any state kept for
//! it; and whether a hello has a valid cookie. `handshake.rs` calls. Bound: one reply a hello.

use crate::collections::rng::mix_all;
use crate::engine::connect::packet::StatelessPacket;
use crate::engine::ctx::Ctx;
use crate::wire::Handshake;
use crate::{PeerAddress, PeerId};

/// Period of cookies: a cookie is valid in the period in which it was made, and in the next.
const COOKIE_PERIOD_NANOS: u64 = 1 << 36;

impl Ctx<'_> {
    /// Replies to a hello with a cookie, and keeps no state for it.
    pub(super) fn send_retry(&mut self, hello: &Handshake, to: PeerAddress) {
        let incarnation = hello.src_incarnation.get();
        let cookie = self.cookie(&to, incarnation, self.period());
        let cid = PeerId::from_bits(hello.src_cid.get());
        self.table.queue_stateless(StatelessPacket::Retry { to, cid, incarnation, cookie });
        self.stats.retries_sent += 1;
    }

    fn cookie(&self, address: &PeerAddress, incarnation: u64, period: u64) -> u64 {
        let [high, low]: [u64; 2] = zerocopy::transmute!(address.octets());
        let words = [high, low, u64::from(address.port()), incarnation, period];
        mix_all(self.identity.seed ^ self.identity.incarnation, &words).max(1)
    }

    fn period(&self) -> u64 {
        self.timers.now().as_nanos() / COOKIE_PERIOD_NANOS
    }

    pub(super) fn is_cookie(&self, hello: &Handshake, from: &PeerAddress) -> bool {
        let period = self.period();
        let incarnation = hello.src_incarnation.get();
        [period, period.wrapping_sub(1)]
            .iter()
            .any(|&period| self.cookie(from, incarnation, period) == hello.cookie.get())
    }
}
