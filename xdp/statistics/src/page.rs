// SPDX-License-Identifier: MIT OR Apache-2.0
//! The content of a page, which is JSON in its file.
//!
//! In: the provider's figures. Out: the same figures. Callers: the files of this crate, and its
//! users. Bound: [`PEERS_MAX`] peers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Maximum number of peers in a page: the first ones with traffic.
pub const PEERS_MAX: usize = 128;

/// Configuration and counters of an endpoint.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Page {
    /// The user that owns the file, as the file system tells a reader.
    #[serde(skip_deserializing)]
    pub owner: u32,
    /// The name of the file, without its ending; a reader finds it in no other page.
    #[serde(skip_deserializing)]
    pub file: String,
    /// The process id.
    pub pid: u32,
    /// The name of the process (`/proc/PID/comm`).
    pub process: String,
    /// The endpoint's address.
    pub endpoint: String,
    /// The path of packets: `AF_XDP zerocopy`, `AF_XDP copy`, `AF_XDP skb` or `kernel UDP`.
    pub tier: String,
    /// Reason against a better tier; empty if there is none better.
    pub why_not_better: String,
    /// Name of the interface.
    pub interface: String,
    /// Driver of the interface.
    pub driver: String,
    /// Queues of the AF_XDP sockets, as `3` or `0-3,7`; empty without one.
    pub queues: String,
    /// What makes more packets come by AF_XDP; empty unless most come by other queues.
    pub advice: String,
    /// The interface's MTU in bytes.
    pub mtu: u32,
    /// Time of the page by the monotonic clock, in ns.
    pub written_at_ns: u64,
    /// Counters since the endpoint was opened, by name.
    pub counters: BTreeMap<String, u64>,
    /// Dropped packets by reason; reasons with a count of 0 are left out.
    pub drops: BTreeMap<String, u64>,
    /// Frames by verdict of the XDP program, since it was loaded, for all endpoints of the
    /// interface; empty without AF_XDP.
    pub verdicts: BTreeMap<String, u64>,
    /// Peers with traffic.
    pub peers: Vec<PeerLine>,
    /// Number of peers with traffic.
    pub connections: u32,
}

/// A peer in a page.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PeerLine {
    /// The peer's address.
    pub address: String,
    /// Whether the connection is established.
    pub established: bool,
    /// Smoothed round-trip time in ns; 0 before the first measurement.
    pub round_trip_ns: u64,
    /// Congestion window in packets.
    pub congestion_window: f64,
    /// Data packets in flight.
    pub in_flight: u32,
    /// Data packets in flight that are marked lost.
    pub lost: u32,
    /// Consecutive time-outs.
    pub timeouts: u32,
    /// Number of the next data packet to the peer, modulo 2^32. A difference is a number of sent
    /// packets.
    pub next_packet: u32,
    /// Packets retransmitted to the peer, modulo 2^32, in the present period of traffic.
    pub retransmitted: u32,
    /// Data packets received from the peer, modulo 2^32.
    pub received: u32,
    /// Limits of the packets to the peer; `None` on a page of an older provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

/// Limits of the packets to a peer, as they are between two calls of the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Whether operations of the application have not ended.
    pub posted: bool,
    /// Whether something waits to be sent for the first time.
    pub unsent: bool,
    /// Whether messages wait because the peer has reported receiver-not-ready.
    pub receiver_not_ready: bool,
    /// The receive-buffer occupancy of the peer, from 0 to 7 eighths.
    pub occupancy_eighths: u32,
    /// Requests (reads, atomics, rendezvous) that the peer allows beside the present ones.
    pub credits_free: u32,
    /// Packets that may be in flight at the most: the peer's port holds them between two polls.
    pub packets_max: u32,
    /// The longest packet to the peer, in bytes.
    pub packet_len_max: u32,
}
