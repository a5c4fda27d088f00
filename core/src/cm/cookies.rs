// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cookies of requests (`docs/PROTOCOL.md` §12.2): proof that an initiator receives at its address.
//!
//! A listener makes them, and keeps none. An initiator keeps those of a few listeners, so that its
//! next request to one of them has the cookie from the beginning.
//!
//! In: the time, addresses, cookies that came. Out: cookies. Callers: `initiator` and `listener`.
//! Bound: [`LISTENERS_MAX`] cookies; a listener sends one in [`SENT_EVERY_NANOS`].

use crate::collections::secret::{Secret, Use};
use crate::{Instant, PeerAddress};

/// Period of cookies: a cookie is good in the period in which it was made, and in the next.
pub(super) const COOKIE_PERIOD_NANOS: u64 = 10_000_000_000;
/// The most listeners whose cookies an initiator keeps.
const LISTENERS_MAX: usize = 16;

/// Time between two cookies of a listener, on average: 20,000 a second. Under a flood of requests
/// from forged addresses the others are dropped, which costs less than their answers.
const SENT_EVERY_NANOS: u64 = 50_000;
/// Cookies of the time to come that may be sent at once: 2,000.
const SENT_AHEAD_NANOS: u64 = 100_000_000;

/// The rate at which a listener sends cookies: a token bucket, as the time at which it is full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CookieRate {
    full_at: Instant,
}

impl CookieRate {
    /// Whether one more cookie may be sent now. Takes it.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now).after_nanos(SENT_EVERY_NANOS);
        let may = full_at <= now.after_nanos(SENT_AHEAD_NANOS);
        if may {
            self.full_at = full_at;
        }
        may
    }
}

/// A cookie that an initiator keeps.
#[derive(Clone, Copy, Debug)]
struct KnownCookie {
    listener: PeerAddress,
    cookie: u64,
    received_at: Instant,
}

/// The cookies of an initiator, the oldest first.
#[derive(Debug, Default)]
pub(super) struct KnownCookies(heapless::Vec<KnownCookie, LISTENERS_MAX>);

impl KnownCookies {
    /// Keeps the cookie that `listener` has made, in place of its last one or of the oldest.
    pub(super) fn keep(&mut self, now: Instant, listener: PeerAddress, cookie: u64) {
        self.0.retain(|known| known.listener != listener);
        if self.0.is_full() {
            self.0.remove(0);
        }
        // There is room.
        let _ = self.0.push(KnownCookie { listener, cookie, received_at: now });
    }

    /// The cookie to show to `listener`; 0: none that may be good. The answer to one that is not
    /// good any more is a new one.
    pub(super) fn shown_to(&self, now: Instant, listener: PeerAddress) -> u64 {
        let known = self.0.iter().find(|known| known.listener == listener);
        let is_good =
            |known: &&KnownCookie| now < known.received_at.after_nanos(COOKIE_PERIOD_NANOS);
        known.filter(is_good).map_or(0, |known| known.cookie)
    }
}

/// The cookie for requests from `from` at this time, by the secret of its listener.
pub(super) fn cookie(secret: &Secret, now: Instant, from: PeerAddress) -> u64 {
    of_period(secret, period(now), from)
}

/// Whether `shown` is a cookie that was made for requests from `from` a short time ago.
pub(super) fn is_cookie(secret: &Secret, now: Instant, from: PeerAddress, shown: u64) -> bool {
    let is_of = |period| of_period(secret, period, from) == shown;
    shown != 0 && (is_of(period(now)) || is_of(period(now).wrapping_sub(1)))
}

fn of_period(secret: &Secret, period: u64, from: PeerAddress) -> u64 {
    let [high, low, port] = from.words();
    secret.of(Use::ConnectCookie, [high, low, port, period]).max(1)
}

const fn period(now: Instant) -> u64 {
    now.as_nanos() / COOKIE_PERIOD_NANOS
}
