// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests for other source ports, at the receiver (`docs/PROTOCOL.md` §13): packets of a
//! connection arrive by another queue than that of the port's socket.
//!
//! In: the latest packet of a connection, if the port wants another source port for it. Out: a
//! request that is due. Caller: `engine/receive/source_port.rs`. Bounds:
//! [`CONNECTIONS_MAX`] connections that request at one time, whatever source ports come; one
//! request for each source port and half a round trip, and fewer while the sender keeps to its
//! port.

use crate::collections::time::{TICK_NANOS, Tick};
use crate::wire::PortRequestBody;
use crate::{PeerId, WantedPort};

/// Connections that request at one time.
const CONNECTIONS_MAX: usize = 64;
/// Another connection takes a place whose last request is older (10 ms).
const KEEP_TICKS: u32 = (10_000_000 / TICK_NANOS) as u32;
/// The first repetition comes a round trip and this (100 µs) later; the pause doubles.
const REPEAT_TICKS: u32 = (100_000 / TICK_NANOS) as u32;
/// Doublings of that pause, at the most.
const DOUBLINGS_MAX: u8 = 12;
/// The pause is half the range of ticks at the most (137 s): a packet in the other half ends it.
const PAUSE_MAX: u64 = 1 << 31;

/// The last request of a connection.
#[derive(Clone, Copy, Debug)]
struct Requested {
    peer: PeerId,
    /// The `sent_at` of the latest packet that arrived by another queue.
    sent_at: Tick,
    /// When the last request was due.
    at: Tick,
    /// The source port that the last request was about.
    source: u16,
    wanted: WantedPort,
    /// Repetitions of that request.
    repeats: u8,
}

/// The connections that request other source ports, by the number of their peer.
#[derive(Debug)]
pub(crate) struct PortRequests([Requested; CONNECTIONS_MAX]);

impl Default for PortRequests {
    fn default() -> Self {
        let none = Requested {
            peer: PeerId::NONE,
            sent_at: Tick::default(),
            at: Tick::default(),
            source: 0,
            wanted: WantedPort::KEEP,
            repeats: 0,
        };
        Self([none; CONNECTIONS_MAX])
    }
}

impl PortRequests {
    fn place(&mut self, peer: PeerId) -> Option<&mut Requested> {
        self.0.get_mut(peer.slot() as usize % CONNECTIONS_MAX)
    }

    /// Records the latest packet of `peer`, sent at `sent_at` from port `source`. Returns whether
    /// a request is due. `round_trip` is the smoothed one, in ticks.
    pub(crate) fn arrived(
        &mut self,
        peer: PeerId,
        (source, wanted): (u16, WantedPort),
        sent_at: Tick,
        (now, round_trip): (Tick, u32),
    ) -> bool {
        let Some(last) = self.place(peer) else { return false };
        // Places are not aged, so the difference may wrap: a request is late then.
        let since = now.bits().wrapping_sub(last.at.bits());
        if last.peer != peer {
            let is_free = last.peer == PeerId::NONE || since >= KEEP_TICKS;
            if is_free {
                *last = Requested { peer, sent_at, at: now, source, wanted, repeats: 0 };
            }
            return is_free;
        }
        (last.sent_at, last.wanted) = (sent_at, wanted);
        let moved = last.source != source;
        let pause = if moved {
            round_trip / 2
        } else {
            let doubled = u64::from(round_trip) + u64::from(REPEAT_TICKS);
            let doubled = doubled << last.repeats.min(DOUBLINGS_MAX);
            doubled.min(PAUSE_MAX) as u32
        };
        let due = since >= pause;
        if due {
            last.repeats = if moved { 0 } else { last.repeats.saturating_add(1) };
            (last.source, last.at) = (source, now);
        }
        due
    }

    /// A later packet of `peer`, sent at `sent_at`, arrived by another queue and causes no request:
    /// one that is due still holds.
    pub(crate) fn overtaken(&mut self, peer: PeerId, sent_at: Tick) {
        if let Some(last) = self.place(peer).filter(|last| last.peer == peer) {
            last.sent_at = sent_at;
        }
    }

    /// The request of `peer`, unless a later packet than the one of `newest` was recorded or has
    /// arrived by the right queue.
    pub(crate) fn of(&mut self, peer: PeerId, latest: Tick) -> Option<PortRequestBody> {
        let last = self.place(peer)?;
        let current = last.peer == peer && last.sent_at == latest;
        current.then(|| PortRequestBody::new(last.source, last.wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: u32 = 1000;

    fn tick(bits: u32) -> Tick {
        Tick::from_bits(bits)
    }

    fn arrived(requests: &mut PortRequests, peer: PeerId, source: u16, now: u32) -> bool {
        let wanted = (source, WantedPort::other(4));
        requests.arrived(peer, wanted, tick(now), (tick(now), ROUND_TRIP))
    }

    #[test]
    fn a_sender_that_keeps_its_port_is_asked_less_and_less() {
        let mut requests = PortRequests::default();
        let peer = PeerId::new(3, 1);
        let times: std::vec::Vec<u32> =
            (1..1_000_000).filter(|&now| arrived(&mut requests, peer, 7000, now)).collect();
        assert_eq!(times[0], 1);
        assert_eq!(times[1], 1 + ROUND_TRIP + REPEAT_TICKS);
        assert!(times.len() < 12, "{times:?}");
        assert!(arrived(&mut requests, peer, 7001, 1_000_000), "it has changed the port");
        assert!(!arrived(&mut requests, peer, 7002, 1_000_000 + ROUND_TRIP / 2 - 1));
        assert!(arrived(&mut requests, peer, 7002, 1_000_000 + ROUND_TRIP / 2));
    }

    #[test]
    fn a_sender_on_a_long_path_is_asked_less_and_less() {
        let mut requests = PortRequests::default();
        let (peer, wanted) = (PeerId::new(3, 1), (7000, WantedPort::other(4)));
        // A second, which doubles to more than the range of ticks.
        let (round_trip, step) = (1 << 24, 1 << 22);
        let mut is_due = |now: u64| {
            let now = tick(now as u32);
            requests.arrived(peer, wanted, now, (now, round_trip))
        };
        let packets = (0..1u64 << 12).map(|packet| 1 + packet * step);
        let times: std::vec::Vec<u64> = packets.filter(|&now| is_due(now)).collect();
        let pauses: std::vec::Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses.len() > 10 && pauses.is_sorted(), "{pauses:?}");
    }

    #[test]
    fn a_request_that_a_later_packet_has_overtaken_is_not_sent() {
        let mut requests = PortRequests::default();
        let peer = PeerId::new(3, 1);
        assert!(arrived(&mut requests, peer, 7000, 5));
        let request = requests.of(peer, tick(5)).unwrap();
        assert_eq!((request.source.get(), request.wanted()), (7000, WantedPort::other(4)));
        assert!(requests.of(peer, tick(6)).is_none());
        assert!(requests.of(PeerId::new(4, 1), tick(5)).is_none());
    }

    #[test]
    fn many_connections_and_ports_take_a_bounded_place() {
        let mut requests = PortRequests::default();
        let due = |requests: &mut PortRequests, first: u32, now: u32| {
            (first..first + 10_000)
                .filter(|&slot| arrived(requests, PeerId::new(slot, 1), 1, now))
                .count()
        };
        assert_eq!(due(&mut requests, 0, 1), CONNECTIONS_MAX);
        assert_eq!(due(&mut requests, 10_000, KEEP_TICKS), 0);
        assert_eq!(due(&mut requests, 10_000, KEEP_TICKS + 1), CONNECTIONS_MAX);
    }
}
