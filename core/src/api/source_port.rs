// SPDX-License-Identifier: MIT OR Apache-2.0
//! The source port of packets to one peer (`docs/PROTOCOL.md` §13).
//!
//! A card spreads flows over its receive queues by a hash of addresses and ports, and an `AF_XDP`
//! socket receives from one queue. So a receiver may want packets with another source port. In: the
//! requests of the peer, time-outs. Out: the source port. Callers: ports, which keep a
//! [`SourcePort`] for each peer. Bound: one change for each request about the present port;
//! [`WantedPort::tries_max`] changes, then a pause of 10 s, which doubles.

use crate::api::rss::SOURCE_FIRST;
use crate::collections::mix::mix;
use crate::{Instant, collections::time::TICK_NANOS};

/// Below it a request counts receive queues. Between it and [`SOURCE_FIRST`] it has no meaning.
const COUNTS_END: u16 = 1024;
/// Tries for a receiver that names ports: the first one leads to its queue, unless the card has
/// changed.
const NAMED_TRIES: u16 = 8;
/// Tries for each queue of a receiver that cannot name ports. A port leads to its queue by chance:
/// one sender of 3,000 finds none. With four tries it would be one of 55.
const TRIES_A_QUEUE: u16 = 8;
/// The most tries, and so many that a path that drops packets counts as.
const TRIES_MAX: u16 = TRIES_A_QUEUE * COUNTS_END;
const TIMED_OUT_TRIES: u16 = 8;
/// In place of a count of tries: requests are ignored until the pause is over.
const PAUSED: u16 = u16::MAX;
/// A port without a request for so long was right (1 s, in ticks): tries are counted anew.
const RIGHT_TICKS: u32 = (1_000_000_000 / TICK_NANOS) as u32;
/// The first pause, in ticks: 10 s.
const PAUSE_TICKS: u32 = (10_000_000_000 / TICK_NANOS) as u32;
/// Doublings of the pause, at the most: the clock of four bytes wraps after 275 s.
const PAUSE_DOUBLINGS: u8 = 4;

static_assertions::const_assert!((PAUSE_TICKS as u64) << PAUSE_DOUBLINGS < u32::MAX as u64);
static_assertions::const_assert!(TRIES_MAX < PAUSED);

/// The source port that a receiver wants for the packets of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct WantedPort(u16);

impl WantedPort {
    /// The present one: packets arrive by the right queue.
    pub const KEEP: Self = Self(0);

    /// The wanted port from its form on the wire: a count of queues or a port that can be named.
    /// Other numbers change nothing.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        if bits < COUNTS_END || bits >= SOURCE_FIRST { Self(bits) } else { Self::KEEP }
    }

    /// The form on the wire.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Any other one, for a card of `queues` receive queues.
    #[must_use]
    pub const fn other(queues: u16) -> Self {
        let most = COUNTS_END - 1;
        Self(if queues == 0 {
            1
        } else if queues > most {
            most
        } else {
            queues
        })
    }

    /// This one; `None` for a port that no sender chooses. Others may be those of services of the
    /// sender's host.
    #[must_use]
    pub const fn named(port: u16) -> Option<Self> {
        if port < SOURCE_FIRST { None } else { Some(Self(port)) }
    }

    /// Whether the present port is right.
    #[must_use]
    pub const fn is_keep(self) -> bool {
        self.0 == 0
    }

    /// How many ports a sender tries before it pauses.
    #[must_use]
    pub const fn tries_max(self) -> u16 {
        if self.0 >= SOURCE_FIRST {
            return NAMED_TRIES;
        }
        self.0 * TRIES_A_QUEUE
    }
}

/// What an engine tells its port about the path to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathAdvice {
    /// The peer received a packet from port `source`, and wants another one.
    Wanted {
        /// The source port of that packet.
        source: u16,
        /// The source port that the peer wants.
        wanted: WantedPort,
    },
    /// Packets are not answered: the path may drop the present port.
    TimedOut,
}

/// The source port of packets to one peer. The endpoint's own port is the first choice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SourcePort {
    /// The time of the last change, or of the beginning of the pause, in ticks that wrap.
    changed_at: u32,
    port: u16,
    tries: u16,
    pauses: u8,
}

impl SourcePort {
    /// The endpoint's `own` port.
    #[must_use]
    pub const fn new(own: u16) -> Self {
        Self { changed_at: 0, port: own, tries: 0, pauses: 0 }
    }

    /// The source port of the next packet.
    #[must_use]
    #[inline(always)]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Follows the advice of the engine at time `now`. Returns whether the port has changed. The
    /// `salt` spreads the choices of different peers.
    pub fn advise(&mut self, now: Instant, own: u16, salt: u32, advice: PathAdvice) -> bool {
        let now = (now.as_nanos() / TICK_NANOS) as u32;
        match advice {
            PathAdvice::Wanted { source, wanted } => self.want(now, own, salt, (source, wanted)),
            PathAdvice::TimedOut => self.time_out(now, own),
        }
    }

    /// The port cannot be had: packets leave from the endpoint's `own` one. The try counts.
    pub const fn refuse(&mut self, own: u16) {
        self.port = own;
    }

    /// A request about another port than the present one is an old one, or about a packet of the
    /// kernel's socket: it changes nothing.
    fn want(&mut self, now: u32, own: u16, salt: u32, (source, wanted): (u16, WantedPort)) -> bool {
        if source != self.port || wanted.is_keep() {
            return false;
        }
        let since = now.wrapping_sub(self.changed_at);
        if self.tries == PAUSED {
            if since < PAUSE_TICKS << self.pauses {
                return false;
            }
            self.tries = 0;
            self.pauses = (self.pauses + 1).min(PAUSE_DOUBLINGS);
        } else if since >= RIGHT_TICKS {
            (self.tries, self.pauses) = (0, 0);
        }
        if self.tries >= wanted.tries_max() {
            self.tries = PAUSED;
            return self.change(now, own);
        }
        self.tries += 1;
        let port = WantedPort::named(wanted.0).map_or_else(
            || {
                let spread =
                    mix(u64::from(salt) << 32 ^ u64::from(now) << 8 ^ u64::from(self.tries));
                SOURCE_FIRST | spread as u16
            },
            WantedPort::bits,
        );
        self.change(now, port)
    }

    /// The path, or a firewall on it, may drop packets with the present port.
    fn time_out(&mut self, now: u32, own: u16) -> bool {
        if self.port == own {
            return false;
        }
        if self.tries != PAUSED {
            self.tries = self.tries.saturating_add(TIMED_OUT_TRIES).min(TRIES_MAX);
        }
        self.change(now, own)
    }

    const fn change(&mut self, now: u32, port: u16) -> bool {
        let changed = self.port != port;
        self.changed_at = now;
        self.port = port;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const OWN: u16 = 7000;
    const SECOND: u64 = 1_000_000_000;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn want(port: &mut SourcePort, now: u64, wanted: WantedPort) -> bool {
        let advice = PathAdvice::Wanted { source: port.port(), wanted };
        port.advise(at(now), OWN, 3, advice)
    }

    /// The changes until the sender pauses, when no port is right.
    fn tries(port: &mut SourcePort, now: u64, wanted: WantedPort) -> Vec<u16> {
        (0..10_000)
            .map(|step| (want(port, now + step * 20_000, wanted), port.port()))
            .take_while(|&(changed, _)| changed)
            .map(|(_, port)| port)
            .collect()
    }

    #[test]
    fn a_receiver_that_is_never_content_gets_a_bounded_number_of_changes() {
        for queues in [1, 4, 16, 64] {
            let wanted = WantedPort::other(queues);
            let mut port = SourcePort::new(OWN);
            let mut now = 0;
            for pause in [10, 20, 40, 80, 160, 160] {
                let ports = tries(&mut port, now, wanted);
                assert_eq!(ports.len(), usize::from(wanted.tries_max()) + 1, "{queues} queues");
                assert_eq!(ports.last(), Some(&OWN), "the pause keeps to the own port");
                assert!(ports[..ports.len() - 1].iter().all(|&port| port >= SOURCE_FIRST));
                now += (pause - 1) * SECOND;
                assert!(!want(&mut port, now, wanted), "{pause} s");
                now += SECOND + 200_000_000;
            }
        }
    }

    #[test]
    fn a_port_that_works_stays() {
        let mut port = SourcePort::new(OWN);
        assert!(want(&mut port, 0, WantedPort::other(4)));
        let works = port.port();
        assert!(works >= SOURCE_FIRST);
        for source in [OWN, works.wrapping_add(1), 0] {
            let wanted = WantedPort::other(4);
            let late = PathAdvice::Wanted { source, wanted };
            assert!(!port.advise(at(1), OWN, 3, late), "a request about another port");
        }
        let keep = PathAdvice::Wanted { source: works, wanted: WantedPort::KEEP };
        assert!(!port.advise(at(2), OWN, 3, keep));
        assert_eq!(port.port(), works);
        // A card that changes much later begins anew.
        for hour in 1..100 {
            assert!(want(&mut port, hour * 20 * SECOND, WantedPort::other(1)));
        }
    }

    #[test]
    fn a_named_port_is_taken_and_one_that_no_sender_chooses_is_ignored() {
        let mut port = SourcePort::new(OWN);
        assert!(want(&mut port, 0, WantedPort::named(50_001).unwrap()));
        assert_eq!(port.port(), 50_001);
        assert!(!want(&mut port, 1, WantedPort::named(50_001).unwrap()), "the same one");
        for bits in [COUNTS_END, 4789, SOURCE_FIRST - 1] {
            let mut port = SourcePort::new(OWN);
            assert_eq!(WantedPort::named(bits), None);
            assert!(!want(&mut port, 0, WantedPort::from_bits(bits)));
            assert_eq!(port.port(), OWN);
        }
        for bits in 1..COUNTS_END {
            let mut port = SourcePort::new(OWN);
            assert!(want(&mut port, 0, WantedPort::from_bits(bits)));
            assert!(port.port() >= SOURCE_FIRST, "a count of queues");
        }
    }

    #[test]
    fn a_port_that_cannot_be_had_counts_as_tried() {
        let mut port = SourcePort::new(OWN);
        let wanted = WantedPort::named(50_001).unwrap();
        for _ in 0..wanted.tries_max() {
            assert!(want(&mut port, 0, wanted));
            port.refuse(OWN);
            assert_eq!(port.port(), OWN);
        }
        assert!(!want(&mut port, 0, wanted), "the pause has begun");
    }

    #[test]
    fn time_outs_lead_back_to_the_own_port() {
        let mut port = SourcePort::new(OWN);
        assert!(!port.advise(at(0), OWN, 3, PathAdvice::TimedOut), "it is the own one");
        // A firewall drops all other ports: four attempts, and the sender pauses.
        for attempt in 0..4 {
            assert!(want(&mut port, attempt, WantedPort::other(4)));
            assert!(port.advise(at(attempt), OWN, 3, PathAdvice::TimedOut));
            assert_eq!(port.port(), OWN);
        }
        assert!(!want(&mut port, 5, WantedPort::other(4)));
        assert!(!want(&mut port, 9 * SECOND, WantedPort::other(4)));
        assert!(want(&mut port, 11 * SECOND, WantedPort::other(4)));
    }
}
