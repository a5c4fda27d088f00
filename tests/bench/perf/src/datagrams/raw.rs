// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams of bare AF_XDP sockets, without a header.

use std::net::IpAddr;

use ofi_xdp_libfabric::Name;
use ofi_xdp_perf::transport::{SessionSide, Transport as _};

use super::{Datagrams, Opening};
use crate::transport::{RawConfig, RawPending, RawTransport};

/// An open end.
#[derive(Debug)]
pub struct RawDatagrams {
    transport: RawTransport,
    size: usize,
    sent: u64,
}

impl Datagrams for RawDatagrams {
    type Pending = (RawPending, usize);

    fn open(opening: &Opening, local: IpAddr) -> anyhow::Result<Self::Pending> {
        let config = RawConfig { mode: opening.mode, queue: None, blocking: false, plain: true };
        let pending = RawTransport::open(&config, SessionSide::Client, local, opening.size)?;
        Ok((pending, opening.size))
    }

    fn name((pending, _): &Self::Pending) -> anyhow::Result<Name> {
        RawTransport::name(pending)
    }

    fn establish((pending, size): Self::Pending, peer: &Name) -> anyhow::Result<Self> {
        Ok(Self { transport: RawTransport::establish(pending, peer)?, size, sent: 0 })
    }

    /// The transport gathers packets of a burst until the next poll.
    #[inline]
    fn send(&mut self, first: u8, _more: bool) -> anyhow::Result<bool> {
        self.transport.send(self.size, |bytes| {
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
        })?;
        self.sent += 1;
        Ok(true)
    }

    #[inline]
    fn poll(&mut self, mut sink: impl FnMut(u8)) -> anyhow::Result<()> {
        self.transport.poll(|bytes| sink(bytes.first().copied().unwrap_or_default()))?;
        Ok(())
    }

    fn sent(&self) -> u64 {
        self.sent
    }
}
