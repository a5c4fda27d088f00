// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transport over bare AF_XDP sockets: the provider's own AF_XDP port with the provider's
//! configuration, without the protocol. Each message is one packet, without acknowledgement or
//! retransmission.
//!
//! A message has a header of the length of the provider's smallest packet, so that the same XDP
//! program redirects it. Only the first byte of the header is set. With `plain` a packet has the
//! message alone, as a datagram of the provider has.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use ofi_xdp_core::{PeerAddress, Transmitted};
use ofi_xdp_datapath::{
    BrokerAccess, InterfaceInfo, MacAddress, PortStats, RingSizes, XskMode, XskPort, XskPortConfig,
    XskTransmit, interfaces,
};
use serde::{Deserialize, Serialize};

use ofi_xdp_libfabric::Name;
use ofi_xdp_perf::report::Description;
use ofi_xdp_perf::transport::{SessionSide, Transport};

/// The header: the bytes that the XDP program looks at.
const HEADER: usize = 32;
/// The first byte of each packet: version 2, which the program expects.
const VERSION: u8 = 0x20;
/// Most packets of one poll.
const BATCH: u16 = 64;
/// Most packets for a wake-up of the kernel.
const BURST: u32 = 32;
/// Attempts when every frame is in flight.
const FULL_TRIES: u32 = 100_000;

/// The mode of AF_XDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RawMode {
    /// Zero-copy or native mode on hardware, generic mode on virtual links.
    Auto,
    /// Zero-copy: the device reads and writes the UMEM.
    Zerocopy,
    /// The driver copies.
    Copy,
    /// Generic mode.
    Skb,
}

/// The mode and the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::Args)]
pub struct RawConfig {
    /// The mode of AF_XDP
    #[arg(long, value_enum, default_value = "auto")]
    pub mode: RawMode,
    /// The queue of the interface (default: the first free one)
    #[arg(long, value_name = "N")]
    pub queue: Option<u32>,
    /// Doze while nothing comes, instead of spinning
    #[arg(long)]
    pub blocking: bool,
    /// Send messages without a header
    #[arg(long)]
    pub plain: bool,
}

/// An AF_XDP port, and the kernel socket that holds its UDP port.
#[derive(Debug)]
pub struct RawPending {
    port: XskPort,
    udp_socket: UdpSocket,
    interface: InterfaceInfo,
    header: usize,
    blocking: bool,
}

/// An AF_XDP port and its peer.
#[derive(Debug)]
pub struct RawTransport {
    port: XskPort,
    /// Never read: the XDP program redirects its packets.
    _udp_socket: UdpSocket,
    interface: String,
    peer: PeerAddress,
    mac: MacAddress,
    /// Packets written since the last wake-up of the kernel.
    queued: u32,
    /// Bytes before a message.
    header: usize,
    blocking: bool,
    stats: PortStats,
}

impl RawMode {
    /// The modes to try, best first.
    fn candidates(self, interface: &InterfaceInfo) -> &'static [XskMode] {
        match self {
            Self::Auto if interface.physical => &[XskMode::Zerocopy, XskMode::Copy, XskMode::Skb],
            Self::Auto => &[XskMode::Skb, XskMode::Copy],
            Self::Zerocopy => &[XskMode::Zerocopy],
            Self::Copy => &[XskMode::Copy],
            Self::Skb => &[XskMode::Skb],
        }
    }
}

impl Transport for RawTransport {
    type Config = RawConfig;
    type Pending = RawPending;

    fn open(
        config: &RawConfig,
        _role: SessionSide,
        local: IpAddr,
        size_max: usize,
    ) -> anyhow::Result<RawPending> {
        let udp_socket = UdpSocket::bind((local, 0)).with_context(|| format!("UDP at {local}"))?;
        let all = interfaces().context("cannot list the interfaces")?;
        let interface = all
            .into_iter()
            .find(|interface| interface.addresses.iter().any(|address| address.ip == local))
            .with_context(|| format!("no interface has {local}"))?;
        let mut refusals = Vec::new();
        let header = if config.plain { 0 } else { HEADER };
        let access = BrokerAccess { broker: None, udp_socket: udp_socket.as_fd() };
        for mode in config.mode.candidates(&interface) {
            let address = udp_socket.local_addr()?;
            let opening = XskPortConfig {
                interface: &interface,
                queue: config.queue,
                steer: false,
                any_payload: config.plain,
                local: address,
                mode: *mode,
                sizes: RingSizes::default(),
                access,
            };
            match opening.open() {
                Ok(port) => {
                    let room = port.payload_max() - header;
                    ensure!(size_max <= room, "a message has {room} bytes at most");
                    let blocking = config.blocking;
                    return Ok(RawPending { port, udp_socket, interface, header, blocking });
                }
                Err(error) => refusals.push(format!("{mode}: {error}")),
            }
        }
        bail!("no AF_XDP on {}: {}", interface.name, refusals.join("; "))
    }

    /// Socket address and link-layer address; the two hosts share a link.
    fn name(pending: &RawPending) -> anyhow::Result<Name> {
        let address = pending.udp_socket.local_addr()?;
        Ok(Name(format!("{address} {}", pending.interface.mac).into_bytes()))
    }

    fn establish(pending: RawPending, peer: &Name) -> anyhow::Result<Self> {
        let (address, mac) = std::str::from_utf8(&peer.0)?
            .split_once(' ')
            .context("the peer's name is no address and MAC address")?;
        let RawPending { port, udp_socket, interface, header, blocking } = pending;
        Ok(Self {
            port,
            _udp_socket: udp_socket,
            interface: interface.name,
            peer: PeerAddress::from(SocketAddr::from_str(address)?),
            mac: parse_mac(mac).with_context(|| format!("{mac:?} is no MAC address"))?,
            queued: 0,
            header,
            blocking,
            stats: PortStats::default(),
        })
    }

    fn describe(&self) -> Description {
        Description {
            provider: String::from("raw-af_xdp"),
            domain: format!("{} ({})", self.interface, self.port.mode()),
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
        let start = self.header;
        let (len, source) = (start + len, self.port.local_port());
        let outgoing = XskTransmit { len, to: self.peer, mac: self.mac, source, gateway: false };
        let mut fill = Some(fill);
        // bound: FULL_TRIES
        for _ in 0..FULL_TRIES {
            let sent = self.port.transmit(&mut self.stats, |packet| {
                let (header, message) = packet.get_mut(..outgoing.len)?.split_at_mut(start);
                if let Some(first) = header.first_mut() {
                    *first = VERSION;
                }
                fill.take()?(message);
                Some(outgoing)
            });
            match sent {
                Transmitted::Sent => {
                    self.queued += 1;
                    return if self.queued == BURST { self.flush() } else { Ok(()) };
                }
                Transmitted::Nothing => bail!("a message of {len} bytes does not fit"),
                // The kernel returns frames when it has sent them.
                Transmitted::Full => self.flush()?,
            }
        }
        bail!("the interface sends nothing any more")
    }

    #[inline]
    fn poll(&mut self, mut sink: impl FnMut(&[u8])) -> anyhow::Result<usize> {
        if self.queued > 0 {
            self.flush()?;
        }
        let start = self.header;
        let mut receive = || {
            self.port.receive(BATCH, &mut self.stats, &mut |datagram| {
                sink(datagram.bytes.get(start..).unwrap_or_default());
            })
        };
        let mut count = receive().context("AF_XDP receive")?;
        if count == 0 && self.blocking {
            super::doze();
            count = receive().context("AF_XDP receive")?;
        }
        Ok(usize::from(count))
    }
}

impl RawTransport {
    /// Wakes the kernel, once for all packets since the last wake-up.
    fn flush(&mut self) -> anyhow::Result<()> {
        self.queued = 0;
        self.port.flush(&mut self.stats).context("AF_XDP send")
    }
}

/// `02:00:00:00:00:01`.
fn parse_mac(text: &str) -> Option<MacAddress> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(MacAddress(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses() {
        let mac = MacAddress([2, 0, 0xab, 0, 0, 0xff]);
        assert_eq!(parse_mac(&mac.to_string()), Some(mac));
        assert_eq!(parse_mac("02:00:00:00:00"), None);
        assert_eq!(parse_mac("02:00:00:00:00:01:02"), None);
    }
}
