// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of a session, with their bounds in number and in time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The smallest message of a stream: its header, two 32-bit numbers.
pub const STREAM_SIZE_MIN: usize = 8;

/// An operation that brings bytes from the server's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fetch {
    /// `fi_read`.
    Read,
    /// `fi_fetch_atomic`: one is added to a number of 8 bytes.
    Add,
}

/// One measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Ping-pong: each message comes back unchanged.
    Latency {
        /// Bytes in a message.
        size: usize,
    },
    /// Windows of messages in one direction; the server answers each window with one message.
    Stream {
        /// Bytes in a message; at least [`STREAM_SIZE_MIN`].
        size: usize,
        /// Messages in a window.
        window: u32,
        /// Most unanswered windows; with 1, each window waits for the answer to the previous one.
        ahead: u32,
    },
    /// Operations on the server's memory, each of which waits for the one before; the server does
    /// nothing.
    FetchLatency {
        /// The operation.
        fetch: Fetch,
        /// Bytes in a block; of an atomic operation 8.
        size: usize,
    },
    /// Windows of such operations.
    Fetch {
        /// The operation.
        fetch: Fetch,
        /// Bytes in a block; of an atomic operation 8.
        size: usize,
        /// Operations in a window.
        window: u32,
    },
    /// The first message and its answer, right after opening. Only as the first phase.
    StartUp {
        /// Bytes in the message.
        size: usize,
    },
    /// Datagrams of kernel sockets, each way. The transport has no part in it.
    Datagrams {
        /// The client's UDP port; the client fills it in.
        port: u16,
    },
    /// An idle phase: neither side calls the transport.
    Quiet {
        /// Duration in ms.
        milliseconds: u64,
    },
}

impl Workload {
    /// Bytes in this phase's messages.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Latency { size }
            | Self::Stream { size, .. }
            | Self::FetchLatency { size, .. }
            | Self::Fetch { size, .. }
            | Self::StartUp { size } => *size,
            Self::Datagrams { .. } | Self::Quiet { .. } => 0,
        }
    }
}

/// The bounds of each phase: it ends at the first bound that is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Most messages before a measurement; their time is at most `time`.
    pub warm_up: u64,
    /// Most messages of the measurement.
    pub count: u64,
    /// Longest time of the measurement.
    pub time: Duration,
    /// Longest wait for an answer; then the session fails.
    pub timeout: Duration,
    /// Time between two reports of the progress of a measurement; `None`: no reports.
    pub interval: Option<Duration>,
}
