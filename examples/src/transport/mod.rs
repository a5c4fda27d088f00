// SPDX-License-Identifier: MIT OR Apache-2.0
//! What moves the messages of a session.

mod fabric;
mod open;
mod raw;
mod rma;
mod train;
mod udp;

pub use fabric::{FabricConfig, FabricPending, FabricTransport};
pub use raw::{RawConfig, RawMode, RawPending, RawTransport};
pub use rma::{RmaConfig, RmaPending, RmaTransport};
pub use train::{TrainConfig, TrainTransport};
pub use udp::{UdpConfig, UdpTransport};

use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fabric::Name;
use crate::report::Description;

/// How long a receiver dozes that finds nothing and may not spin.
const DOZE: Duration = Duration::from_micros(50);

/// Leaves the processor to others for a moment.
fn doze() {
    std::thread::sleep(DOZE);
}

/// Which side of the session this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Sends first, and measures.
    Client,
    /// Answers.
    Server,
}

/// Moves messages between two processes.
///
/// Set-up has two steps, because each side must know the other's address: [`Transport::open`] on
/// both, an exchange of [`Transport::name`]s, then [`Transport::establish`] on both, the server
/// first.
pub trait Transport: Sized {
    /// What the client chooses, for both sides.
    type Config: Clone + Serialize + DeserializeOwned;
    /// Open, but without a peer.
    type Pending;

    /// Opens a side at the local address `local`, for messages of at most `size_max` bytes.
    ///
    /// # Errors
    /// Whatever keeps it from opening.
    fn open(
        config: &Self::Config,
        role: Role,
        local: IpAddr,
        size_max: usize,
    ) -> anyhow::Result<Self::Pending>;

    /// The address to give to the other side.
    ///
    /// # Errors
    /// When there is none.
    fn name(pending: &Self::Pending) -> anyhow::Result<Name>;

    /// Makes `peer` the other side.
    ///
    /// # Errors
    /// When it cannot be reached.
    fn establish(pending: Self::Pending, peer: &Name) -> anyhow::Result<Self>;

    /// What this is.
    fn describe(&self) -> Description;

    /// Whether every message arrives, once and in order.
    fn is_reliable(&self) -> bool;

    /// Whether [`Transport::poll`] sleeps when there is nothing (for 20 ms at most).
    fn sleeps(&self) -> bool;

    /// How long it took to open, from `fi_fabric` until it could send; none of what was waited for
    /// the other side's name is in it.
    fn opening(&self) -> Duration {
        Duration::ZERO
    }

    /// Reads `count` blocks of `len` bytes from the other side's memory, and waits for them.
    ///
    /// # Errors
    /// Where there are no one-sided operations, or they fail.
    fn read(&mut self, _len: usize, _count: u32) -> anyhow::Result<()> {
        anyhow::bail!("only one-sided operations of libfabric can read")
    }

    /// Sends a message of `len` bytes that `fill` may write; what it leaves is whatever the buffer
    /// had. Waits for room, within a bound of the transport's.
    ///
    /// # Errors
    /// When the message cannot be sent.
    fn send(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> anyhow::Result<()>;

    /// Hands messages that have arrived to `sink`. Returns their number.
    ///
    /// # Errors
    /// When the peer or the network failed, and the transport knows.
    fn poll(&mut self, sink: impl FnMut(&[u8])) -> anyhow::Result<usize>;
}
