// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transport over kernel UDP in batches: equal datagrams in one call. The kernel or the card
//! splits them (`UDP_SEGMENT`); the other end joins them again (`UDP_GRO`, udp(7)). It is the
//! provider's own UDP port without the protocol.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use ofi_xdp_core::{Datagram, Destination, Instant, PeerId, Transmit, Transmitted};
use ofi_xdp_datapath::{PortStats, UdpPort, interfaces};
use serde::{Deserialize, Serialize};

use ofi_xdp_libfabric::Name;
use ofi_xdp_perf::report::Description;
use ofi_xdp_perf::transport::{SessionSide, Transport};

/// Most datagrams of one poll.
const BATCH: u16 = 64;
/// Datagrams that fit in the receive buffer.
const WINDOW: u16 = 1024;
/// Attempts when the port is full.
const FULL_TRIES: u32 = 1000;

/// The way of waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::Args)]
pub struct GsoConfig {
    /// Doze while nothing comes, instead of spinning
    #[arg(long)]
    pub blocking: bool,
}

/// The port and its peer.
#[derive(Debug)]
pub struct GsoTransport {
    port: UdpPort,
    to: Option<Destination>,
    queued: bool,
    blocking: bool,
    stats: PortStats,
}

impl Transport for GsoTransport {
    type Config = GsoConfig;
    type Pending = Self;

    fn open(
        config: &GsoConfig,
        _role: SessionSide,
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
            provider: String::from("kernel-udp-gso"),
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
                // Only the kernel receives here.
                Some(Transmit { len, to, receive_max: 0 })
            });
            match sent {
                Transmitted::Sent => {
                    self.queued = true;
                    return Ok(());
                }
                Transmitted::Nothing => bail!("a message of {len} bytes does not fit"),
                Transmitted::Full => self.port.flush(&mut self.stats, |_| {}),
            }
        }
        bail!("the socket sends nothing any more")
    }

    #[inline]
    fn poll(&mut self, mut sink: impl FnMut(&[u8])) -> anyhow::Result<usize> {
        if self.queued {
            self.queued = false;
            self.port.flush(&mut self.stats, |_| {});
        }
        // Without a second socket, polls do not depend on the time.
        let sink = &mut |datagram: Datagram<'_>| sink(datagram.bytes);
        let count = self.port.receive(Instant::ZERO, BATCH, &mut self.stats, sink);
        Ok(usize::from(count))
    }
}
