// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints of this program, and two of them in one process.
//!
//! In: a local address. Out: endpoints, and lines for the test. All tasks call. Bound: the buffers
//! of an endpoint.

use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use ofi_xdp_libfabric::{Endpoint, Error, Info, Kind, Name, Peer, Route, Setup, Wait, Want};

/// Number of buffers of an endpoint, and bytes in each.
pub(super) const SLOTS: usize = 64;
pub(super) const SIZE: usize = 4096;
pub(super) const TAG: u64 = 7;
/// Limit of most tasks.
pub(super) const LIFE: Duration = Duration::from_secs(60);

/// Opens an endpoint that spins.
pub(super) fn open(local: IpAddr, port: Option<u16>) -> anyhow::Result<Endpoint> {
    open_with(local, port, Setup { slots: SLOTS, size: SIZE, wait: Wait::Spin })
}

/// Opens an endpoint with a setup.
pub(super) fn open_with(
    local: IpAddr,
    port: Option<u16>,
    setup: Setup,
) -> anyhow::Result<Endpoint> {
    Ok(Endpoint::open(&Info::find(&want(Kind::Rdm, local, port, None))?, setup)?)
}

/// The request of all tasks to libfabric.
pub(super) fn want(
    kind: Kind,
    local: IpAddr,
    port: Option<u16>,
    destination: Option<&Name>,
) -> Want<'_> {
    Want {
        provider: "xdp",
        kind,
        tagged: true,
        rma: false,
        atomic: false,
        auto_progress: false,
        source: Some(local),
        port,
        destination,
    }
}

/// Prints a line, at once.
pub(super) fn say(line: &str) -> anyhow::Result<()> {
    println!("{line}");
    Ok(std::io::stdout().flush()?)
}

/// Two endpoints in one process, each with the other in its address vector.
pub(super) struct Pair {
    pub(super) ends: [Endpoint; 2],
    peers: [Peer; 2],
    pub(super) deadline: Instant,
}

impl Pair {
    /// Opens both.
    pub(super) fn open(local: IpAddr) -> anyhow::Result<Self> {
        let mut ends = [open(local, None)?, open(local, None)?];
        let names = [ends[0].name()?, ends[1].name()?];
        let peers = [ends[0].insert(&names[1])?, ends[1].insert(&names[0])?];
        Ok(Self { ends, peers, deadline: Instant::now() + Duration::from_secs(20) })
    }

    /// Sends a message with this `number` from one of them to the other, and verifies it.
    pub(super) fn exchange(&mut self, number: u32) -> anyhow::Result<()> {
        let (from, to) = if number.is_multiple_of(2) { (0, 1) } else { (1, 0) };
        self.ends[to].receive(0, Some(TAG))?;
        self.ends[from].bytes(1)?[..4].copy_from_slice(&number.to_le_bytes());
        let (mut posted, mut sent, mut received) = (false, false, false);
        while !(sent && received) {
            ensure!(Instant::now() < self.deadline, "message {number} did not arrive");
            if !posted {
                posted = self.send(from)?;
            }
            self.ends[from].poll(|_| sent = true)?;
            self.ends[to].poll(|_| received = true)?;
        }
        let arrived = self.ends[to].bytes(0)?[..4].to_vec();
        ensure!(arrived == number.to_le_bytes(), "message {number} arrived as {arrived:?}");
        Ok(())
    }

    /// Sends the first bytes of a buffer; `false` if there was no room.
    pub(super) fn send(&mut self, from: usize) -> anyhow::Result<bool> {
        match self.ends[from].send(1, 4, Route { peer: self.peers[from], tag: Some(TAG) }) {
            Ok(()) => Ok(true),
            Err(Error::Again) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
