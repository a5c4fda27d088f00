// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel UDP as fast as it gets: trains of equal datagrams in one call, cut by the kernel or the
//! card (`UDP_SEGMENT`), and joined again at the other end (`UDP_GRO`, udp(7)). The provider's own
//! UDP port with nothing on top.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use ofi_xdp_core::{Datagram, Destination, Instant, PeerId, Transmit, Transmitted};
use ofi_xdp_datapath::{PortStats, UdpPort, interfaces};
use serde::{Deserialize, Serialize};

use super::{Role, Transport};
use crate::fabric::Name;
use crate::report::Description;

/// Most datagrams taken in one poll.
const BATCH: u16 = 64;
/// Datagrams that the receive buffer should hold.
const WINDOW: u16 = 1024;
/// How often to try when the port is full.
const FULL_TRIES: u32 = 1000;

/// How to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::Args)]
pub struct TrainConfig {
    /// Doze while nothing comes, instead of spinning
    #[arg(long)]
    pub blocking: bool,
}

/// The port and its peer.
#[derive(Debug)]
pub struct TrainTransport {
    port: UdpPort,
    to: Option<Destination>,
    queued: bool,
    blocking: bool,
    stats: PortStats,
}

impl Transport for TrainTransport {
    type Config = TrainConfig;
    type Pending = Self;

    fn open(
        config: &TrainConfig,
        _role: Role,
        local: IpAddr,
        size_max: usize,
    ) -> anyhow::Result<Self> {
        let all = interfaces().context("cannot list the interfaces")?;
        let has = |address: IpAddr| address == local;
        let interface = all.iter().find(|one| one.addresses.iter().any(|a| has(a.ip)));
        let mtu = interface.with_context(|| format!("no interface has {local}"))?.mtu;
        let port = UdpPort::bind(SocketAddr::new(local, 0), mtu, WINDOW)
            .with_context(|| format!("UDP at {local}"))?;
        let room = port.payload_max();
        ensure!(size_max <= room, "a datagram has {room} bytes at most");
        let blocking = config.blocking;
        Ok(Self { port, to: None, queued: false, blocking, stats: PortStats::default() })
    }

    fn name(pending: &Self) -> anyhow::Result<Name> {
        Ok(Name(pending.port.local_addr().to_string().into_bytes()))
    }

    fn establish(mut pending: Self, peer: &Name) -> anyhow::Result<Self> {
        let peer = SocketAddr::from_str(std::str::from_utf8(&peer.0)?)?;
        pending.to = Some(Destination { peer: PeerId::new(0, 0), address: peer.into() });
        Ok(pending)
    }

    fn describe(&self) -> Description {
        Description {
            provider: String::from("kernel-udp-trains"),
            domain: self.port.local_addr().ip().to_string(),
            endpoint: None,
            wait: String::from(if self.blocking { "doze" } else { "spin" }),
            tagged: false,
        }
    }

    fn is_reliable(&self) -> bool {
        false
    }

    fn sleeps(&self) -> bool {
        self.blocking
    }

    #[inline]
    fn send(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> anyhow::Result<()> {
        let to = self.to.context("not established")?;
        let mut fill = Some(fill);
        // bound: FULL_TRIES
        for _ in 0..FULL_TRIES {
            let sent = self.port.transmit(|packet| {
                fill.take()?(packet.get_mut(..len)?);
                // Nobody but the kernel receives here.
                Some(Transmit { len, to, receive_max: 0 })
            });
            match sent {
                Transmitted::Sent => {
                    self.queued = true;
                    return Ok(());
                }
                Transmitted::Nothing => bail!("a message of {len} bytes does not fit"),
                Transmitted::Full => self.port.flush(&mut self.stats),
            }
        }
        bail!("the socket sends nothing any more")
    }

    #[inline]
    fn poll(&mut self, mut sink: impl FnMut(&[u8])) -> anyhow::Result<usize> {
        if self.queued {
            self.queued = false;
            self.port.flush(&mut self.stats);
        }
        // Without a second socket no look depends on the time.
        let sink = &mut |datagram: Datagram<'_>| sink(datagram.bytes);
        let count = self.port.receive(Instant::ZERO, BATCH, &mut self.stats, sink);
        Ok(usize::from(count))
    }
}
