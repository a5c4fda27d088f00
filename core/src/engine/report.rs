// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the engine tells of its peers to people who look: nothing here changes anything.
//!
//! In: a caller that has a moment. Out: a [`PeerReport`] for each peer with traffic. Called by who
//! publishes statistics, some times a second. Bound: the active peers.

use core::time::Duration;

use crate::time::TICK_NANOS;
use crate::{Engine, PeerAddress};

/// One peer with traffic, as it is at this moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerReport {
    /// Its address.
    pub address: PeerAddress,
    /// Whether data can go out.
    pub established: bool,
    /// Smoothed round trip (RFC 6298 §2); zero before the first measurement.
    pub round_trip: Duration,
    /// The least one seen.
    pub round_trip_least: Duration,
    /// Congestion window (`docs/PROTOCOL.md` §4.6), in units of 2^-16 packets.
    pub window: u32,
    /// Data packets under way: sent and not acknowledged, selectively acknowledged ones included.
    pub in_flight: u32,
    /// Of those, taken for lost at this moment.
    pub lost: u32,
    /// Time-outs in a row, a tail probe included.
    pub timeouts: u32,
    /// How full the peer's storage for messages is, in eighths.
    pub pressure: u32,
    /// Number of the next data packet to it, modulo 2^32: differences are packets sent.
    pub next_packet: u32,
    /// Packets to it that went out again, modulo 2^32, since it has had traffic.
    pub resent: u32,
    /// Data packets received from it, modulo 2^32.
    pub received: u32,
}

impl Engine<'_> {
    /// A report for each peer with traffic.
    pub fn peer_reports(&self) -> impl Iterator<Item = PeerReport> + '_ {
        // bound: the active peers that there can be
        (0..self.actives.capacity()).filter(|&number| self.actives.is_used(number)).map(|number| {
            let active = &self.actives[number];
            let peer = &self.peers[active.peer];
            let time = |ticks: u32| Duration::from_nanos(u64::from(ticks) * TICK_NANOS);
            PeerReport {
                address: peer.address,
                established: peer.is_established(),
                round_trip: time(active.rtt.smoothed()),
                round_trip_least: time(active.rtt.least()),
                window: active.congestion.size(),
                in_flight: active.next_psn.0.wrapping_sub(active.first_psn.0),
                lost: active.lost.into(),
                timeouts: active.backoff.into(),
                pressure: active.pressure.into(),
                next_packet: active.next_psn.0,
                resent: active.resent,
                received: active.received,
            }
        })
    }
}
