// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applications that read their completion queue at intervals: one measurement a session.
//!
//! ```text
//!   client (initiator)          server (target)
//!     |------ Open(cell) ------->|  opens its endpoint
//!     |<----- Name --------------|
//!     |------ Peer(name) ------->|  knows its peer, posts its receives
//!     |<----- Ready(region) -----|
//!     |====== transfer ==========|  each side: one read of its queue, then a sleep
//!     |------ Stop(posted) ----->|  waits until all of it is there
//!     |<----- Done(delivered) ---|  end of the measured time
//! ```
//!
//! The measured time ends when the target has every byte, whatever the provider reports to the
//! initiator before. Memory is checked at sampled positions ([`stamp`]). Bounds: the transfer takes
//! [`Limits::time`], the rest of it [`Limits::grace`], the target's wait [`DRAIN`].

mod client;
mod link;
mod server;
mod stamp;

use std::str::FromStr;
use std::time::Duration;

use ofi_xdp_libfabric::Name;
use serde::{Deserialize, Serialize};

pub use client::run;
pub use server::serve;

/// Longest wait of the target for bytes that the initiator has posted.
const DRAIN: Duration = Duration::from_secs(1);

/// The kind of transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Transfer {
    /// Tagged messages from the client to the server; untagged where the provider has no tags.
    Tagged,
    /// RMA writes into the server's memory, without remote CQ data.
    Write,
    /// RMA reads from the server's memory.
    Read,
    /// Tagged messages, each answered by one of the same size.
    Pingpong,
}

impl Transfer {
    /// Whether the transfer is one-sided.
    fn is_rma(self) -> bool {
        matches!(self, Self::Write | Self::Read)
    }
}

/// The sleep of an application between two reads of its completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PollInterval {
    /// A sleep of this many microseconds; 0 is none.
    Every(u64),
    /// No call of the library during the transfer.
    Never,
}

impl PollInterval {
    /// Sleeps, if there is a sleep.
    fn sleep(self) {
        if let Self::Every(us @ 1..) = self {
            std::thread::sleep(Duration::from_micros(us));
        }
    }
}

impl FromStr for PollInterval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self::Never);
        }
        let number = text.parse().map(Self::Every);
        number.map_err(|_| format!("{text:?} is neither microseconds nor \"never\""))
    }
}

/// One measurement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The provider's full name.
    pub provider: String,
    /// The kind of transfer.
    pub transfer: Transfer,
    /// Bytes in an operation; at least 8.
    pub size: usize,
    /// Most outstanding operations.
    pub depth: usize,
    /// The poll interval of the client.
    pub client: PollInterval,
    /// The poll interval of the server.
    pub server: PollInterval,
}

/// The bounds of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Time in which operations are posted.
    pub time: Duration,
    /// Longest further time for their completions.
    pub grace: Duration,
}

/// A request of the client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    /// Opens an endpoint for this measurement.
    Open(Cell),
    /// The client's address.
    Peer(Name),
    /// The end of the transfer, with the number of posted operations.
    Stop(u64),
}

/// The server's answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// To `Open`: the server's address.
    Name(Name),
    /// To `Peer`: key and base address of the server's memory.
    Ready(u64, u64),
    /// To `Stop`: the number of operations that have arrived whole.
    Done(u64),
    /// The failure of any request.
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_microseconds_or_never() {
        assert_eq!("100".parse(), Ok(PollInterval::Every(100)));
        assert_eq!("never".parse(), Ok(PollInterval::Never));
        assert!("often".parse::<PollInterval>().is_err());
    }
}
