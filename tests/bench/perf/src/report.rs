// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of the programs that measure one thing: a JSON object each.

use serde::{Deserialize, Serialize};

/// The output of the program `peers`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Insertion {
    /// The provider.
    pub provider: String,
    /// Addresses inserted.
    pub count: u64,
    /// Duration of the insertion.
    pub seconds: f64,
    /// Growth of the resident memory.
    pub resident_bytes: u64,
}

/// The output of the program `connections`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Connections {
    /// The provider.
    pub provider: String,
    /// Connections between the two processes.
    pub count: u64,
    /// From the first request to the last connection.
    pub seconds: f64,
    /// The time in which one process closes all of them.
    pub close_seconds: f64,
    /// Processor time of both processes until the last connection.
    pub cpu_seconds: f64,
    /// Growth of the resident memory, in the process with the greater one.
    pub resident_bytes: u64,
    /// Growth with each of the last four of ten connections: memory beside the queues, which are
    /// allocated for many endpoints together.
    pub growth_bytes: f64,
    /// The part of the growth in all that is left after the close.
    pub left_bytes: u64,
}

/// The report of `threads`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThreadRates {
    /// The provider.
    pub provider: String,
    /// Messages a second of all threads together, for each round.
    pub message_rate: Vec<f64>,
}

/// The output of the program `reads`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EmptyReads {
    /// The provider.
    pub provider: String,
    /// The mean time of a read that finds nothing, in ns: one value a round.
    pub read_ns: Vec<f64>,
}

/// The output of the program `matching`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Matching {
    /// The provider.
    pub provider: String,
    /// Posted receives, or stored messages.
    pub depth: u64,
    /// The time of a message, sent, matched and received, in ns: one value a round.
    pub message_ns: Vec<f64>,
}

/// The output of the program `datagrams` for pings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DatagramPings {
    /// The provider, or `raw-af_xdp`.
    pub provider: String,
    /// Round trips that were measured.
    pub round_trips: u64,
    /// Pings without an answer; each was sent again.
    pub lost: u64,
    /// Half a round trip, median, in ns.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
}

/// The output of the program `datagrams` for a stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DatagramStream {
    /// The provider, or `raw-af_xdp`.
    pub provider: String,
    /// Datagrams that the sender sent.
    pub sent: u64,
    /// Those per second.
    pub sent_rate: f64,
    /// Datagrams that the receiver received.
    pub received: u64,
    /// Those per second, from the first to the last one.
    pub received_rate: f64,
}
