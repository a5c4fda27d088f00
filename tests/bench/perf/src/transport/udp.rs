// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transport over plain UDP sockets: one datagram for a message, one system call for a
//! datagram.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use ofi_xdp_libfabric::Name;
use ofi_xdp_perf::report::Description;
use ofi_xdp_perf::transport::{SessionSide, Transport};

/// The way of waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::Args)]
pub struct UdpConfig {
    /// Sleep in the kernel for each datagram, instead of spinning on a non-blocking socket
    #[arg(long)]
    pub blocking: bool,
}

/// A connected UDP socket.
#[derive(Debug)]
pub struct UdpTransport {
    socket: UdpSocket,
    config: UdpConfig,
    buffer: Vec<u8>,
}

impl Transport for UdpTransport {
    type Config = UdpConfig;
    type Pending = Self;

    fn open(
        config: &UdpConfig,
        _role: SessionSide,
        local: IpAddr,
        size_max: usize,
    ) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind((local, 0)).with_context(|| format!("UDP at {local}"))?;
        if config.blocking {
            socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        } else {
            socket.set_nonblocking(true)?;
        }
        Ok(Self { socket, config: *config, buffer: vec![0; size_max.max(64)] })
    }

    fn name(pending: &Self) -> anyhow::Result<Name> {
        Ok(Name(pending.socket.local_addr()?.to_string().into_bytes()))
    }

    fn establish(pending: Self, peer: &Name) -> anyhow::Result<Self> {
        let peer: SocketAddr = std::str::from_utf8(&peer.0)?.parse()?;
        pending.socket.connect(peer).with_context(|| format!("UDP to {peer}"))?;
        Ok(pending)
    }

    fn describe(&self) -> Description {
        Description {
            provider: String::from("kernel-udp"),
            domain: self.socket.local_addr().map_or_else(|_| String::new(), |a| a.ip().to_string()),
            endpoint: None,
            wait: String::from(if self.config.blocking { "blocking" } else { "spin" }),
            tagged: false,
        }
    }

    fn is_reliable(&self) -> bool {
        false
    }

    fn sleeps(&self) -> bool {
        self.config.blocking
    }

    fn send(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> anyhow::Result<()> {
        let message = &mut self.buffer[..len];
        fill(message);
        match self.socket.send(message) {
            Ok(_) => Ok(()),
            // A full buffer drops the datagram, as a full queue further on would.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error).context("UDP send"),
        }
    }

    fn poll(&mut self, mut sink: impl FnMut(&[u8])) -> anyhow::Result<usize> {
        match self.socket.recv(&mut self.buffer) {
            Ok(len) => {
                sink(&self.buffer[..len]);
                Ok(1)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(0)
            }
            Err(error) => Err(error).context("UDP receive"),
        }
    }
}
