// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cookies (`docs/PROTOCOL.md` §5.2): proof that the sender of a hello receives at its address.
//!
//! In: a hello that may be forged, or old. Out: a reply with a cookie, without any state kept for
//! it; and whether a hello has a valid cookie. A cookie is good for the hello of one address,
//! incarnation and epoch, and for 5 to 10 s. `handshake.rs` calls. Bound: one reply a hello, of the
//! hello's length.

use crate::collections::secret::Use;
use crate::engine::connect::packet::StatelessPacket;
use crate::engine::ctx::Ctx;
use crate::wire::Handshake;
use crate::{PeerAddress, PeerId};

/// Period of cookies: a cookie is valid in the period in which it was made, and in the next.
const COOKIE_PERIOD_NANOS: u64 = 5_000_000_000;

impl Ctx<'_> {
    /// Replies to a hello with a cookie, and keeps no state for it.
    pub(super) fn send_retry(&mut self, hello: &Handshake, to: PeerAddress) {
        let incarnation = hello.src_incarnation.get();
        let cookie = self.cookie(hello, &to, self.period());
        let cid = PeerId::from_bits(hello.src_cid.get());
        self.table.queue_stateless(StatelessPacket::Retry { to, cid, incarnation, cookie });
        self.stats.retries_sent += 1;
    }

    fn cookie(&self, hello: &Handshake, from: &PeerAddress, period: u64) -> u64 {
        let [high, low, port] = from.words();
        let (incarnation, epoch) = (hello.src_incarnation.get(), hello.epoch.get().into());
        let words = [high, low, port, incarnation, epoch, period];
        self.secret.of(Use::HelloCookie, words).max(1)
    }

    fn period(&self) -> u64 {
        self.timers.now().as_nanos() / COOKIE_PERIOD_NANOS
    }

    /// Whether a hello repeats a cookie that this engine made for it a short time ago.
    pub(super) fn is_cookie(&self, hello: &Handshake, from: &PeerAddress) -> bool {
        let period = self.period();
        let shown = hello.cookie.get();
        let is_of = |period| self.cookie(hello, from, period) == shown;
        shown != 0 && (is_of(period) || is_of(period.wrapping_sub(1)))
    }
}
