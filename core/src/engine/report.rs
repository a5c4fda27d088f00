// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports about connections, for statistics: nothing here changes anything.
//!
//! In: a connection and its peer. Out: a [`PeerReport`]. The thread that publishes statistics
//! calls, some times a second.

use crate::PeerAddress;
use crate::collections::time::{TICK_NANOS, Tick};
use crate::peer::{Connection, Peer};
use core::time::Duration;

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
    pub congestion_window: u32,
    /// Data packets under way: sent and not acknowledged, selectively acknowledged ones included.
    pub in_flight: u32,
    /// Of those, taken for lost at this moment.
    pub lost: u32,
    /// Time-outs in a row, a tail probe included.
    pub timeouts: u32,
    /// The longest packet for it at present (`docs/PROTOCOL.md` §11), in bytes.
    pub packet_max: u32,
    /// How full the peer's storage for messages is, in eighths.
    pub occupancy: u32,
    /// Number of the next data packet to it, modulo 2^32: differences are packets sent.
    pub next_packet: u32,
    /// Packets to it that went out again, modulo 2^32, since it has had traffic.
    pub retransmitted: u32,
    /// Data packets received from it, modulo 2^32.
    pub received: u32,
    /// Whether operations of the application have not ended.
    pub posted: bool,
    /// Whether something waits to be sent for the first time.
    pub unsent: bool,
    /// Whether messages wait because the peer has reported receiver-not-ready.
    pub receiver_not_ready: bool,
    /// How many more requests the peer allows (`docs/PROTOCOL.md` §8.2).
    pub credits_free: u32,
    /// Packets that may be under way at the most: the peer's port holds them between two polls.
    pub packets_max: u32,
}

impl PeerReport {
    /// The report of a connection with its peer.
    pub(super) fn new(peer: &Peer, conn: &Connection, payload_max: usize, now: Tick) -> Self {
        let time = |ticks: u32| Duration::from_nanos(u64::from(ticks) * TICK_NANOS);
        Self {
            address: peer.address(),
            established: peer.is_established(),
            round_trip: time(conn.path().rtt().smoothed()),
            round_trip_least: time(conn.path().rtt().least()),
            congestion_window: conn.path().congestion().size(),
            in_flight: conn.tx().under_way(),
            lost: conn.tx().lost().into(),
            timeouts: conn.path().timeouts().into(),
            packet_max: peer.payload_max(payload_max) as u32,
            occupancy: conn.path().occupancy().into(),
            next_packet: conn.tx().next_psn().0,
            retransmitted: conn.tx().retransmitted(),
            received: conn.rx().received(),
            posted: !conn.sends().list().is_empty(),
            unsent: conn.has_unsent(),
            receiver_not_ready: conn.hold_until().is_some(),
            credits_free: conn.free_credits(now).into(),
            packets_max: conn.path().window_limit(peer.port_packets()),
        }
    }
}
