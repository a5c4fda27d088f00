// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transports: implementations that move the messages of a session.

mod fabric;
mod open;
mod rma;

pub use fabric::{FabricConfig, FabricPending, FabricTransport};
pub use open::buffers_each_way;
pub use rma::{RmaConfig, RmaPending, RmaTransport};

use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::plan::Fetch;
use crate::report::Description;
use ofi_xdp_libfabric::Name;

/// The side of the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionSide {
    /// Sends first, and measures.
    Client,
    /// Answers.
    Server,
}

/// Moves messages between two processes.
///
/// Set-up has two steps, because each side must know the other's address. First [`Transport::open`]
/// on both and an exchange of [`Transport::name`]s, then [`Transport::establish`] on both, the
/// server first.
pub trait Transport: Sized {
    /// The configuration, which the client chooses for both sides.
    type Config: Clone + Serialize + DeserializeOwned;
    /// An open transport without a peer.
    type Pending;

    /// Opens a side at the local address `local`, for messages of at most `size_max` bytes.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn open(
        config: &Self::Config,
        role: SessionSide,
        local: IpAddr,
        size_max: usize,
    ) -> anyhow::Result<Self::Pending>;

    /// The address to give to the other side.
    ///
    /// # Errors
    /// When there is no address.
    fn name(pending: &Self::Pending) -> anyhow::Result<Name>;

    /// Connects to the other side, `peer`.
    ///
    /// # Errors
    /// When the peer cannot be reached.
    fn establish(pending: Self::Pending, peer: &Name) -> anyhow::Result<Self>;

    /// The configuration as reported.
    fn describe(&self) -> Description;

    /// Whether every message arrives, once and in order.
    fn is_reliable(&self) -> bool;

    /// Whether [`Transport::poll`] sleeps when there is nothing (for 20 ms at most).
    fn sleeps(&self) -> bool;

    /// Most messages without an answer, where the transport relies on the client for a bound.
    fn unanswered_max(&self) -> Option<usize> {
        None
    }

    /// Time from `fi_fabric` until the transport can send, without waits for the other side's name.
    fn opening(&self) -> Duration {
        Duration::ZERO
    }

    /// Performs an operation on `count` blocks of `len` bytes of the other side's memory, and waits
    /// for the results.
    ///
    /// # Errors
    /// When there are no one-sided operations, or when one fails.
    fn fetch(&mut self, _fetch: Fetch, _len: usize, _count: u32) -> anyhow::Result<()> {
        anyhow::bail!("only one-sided operations of libfabric bring bytes")
    }

    /// Sends a message of `len` bytes, which `fill` may write; other bytes keep the buffer's
    /// contents. Waits for room, within a bound of the transport.
    ///
    /// # Errors
    /// When the message cannot be sent.
    fn send(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> anyhow::Result<()>;

    /// Passes messages that have arrived to `sink`. Returns their number.
    ///
    /// # Errors
    /// When the transport detects a failure of the peer or the network.
    fn poll(&mut self, sink: impl FnMut(&[u8])) -> anyhow::Result<usize>;
}
