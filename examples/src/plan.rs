// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session measures, and its bounds in number and in time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The smallest message of a stream: its header, two 32-bit numbers.
pub const STREAM_SIZE_MIN: usize = 8;

/// One measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Ping-pong: one message there, the same back.
    Latency {
        /// Bytes in a message.
        size: usize,
    },
    /// Windows of messages one way; the server answers each window with one message.
    Stream {
        /// Bytes in a message; at least [`STREAM_SIZE_MIN`].
        size: usize,
        /// Messages in a window.
        window: u32,
        /// Most windows that are not answered; with one, each waits for the answer to the one
        /// before.
        ahead: u32,
    },
    /// Windows of blocks that the client reads from the server's memory; the server does nothing.
    Read {
        /// Bytes in a block.
        size: usize,
        /// Blocks in a window.
        window: u32,
    },
    /// The first message there and back, right after opening. Only as the first phase.
    StartUp {
        /// Bytes in the message.
        size: usize,
    },
    /// Nothing: neither side calls the transport, for so long.
    Idle {
        /// How long, in ms.
        milliseconds: u64,
    },
}

impl Phase {
    /// Bytes in this phase's messages.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Latency { size }
            | Self::Stream { size, .. }
            | Self::Read { size, .. }
            | Self::StartUp { size } => *size,
            Self::Idle { .. } => 0,
        }
    }
}

/// The bounds of each phase: it ends at the first that is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Most messages that are sent before measuring; at most `time` is spent on them.
    pub warm_up: u64,
    /// Most messages measured.
    pub count: u64,
    /// How long to measure.
    pub time: Duration,
    /// How long to wait for an answer before the session fails.
    pub patience: Duration,
}
