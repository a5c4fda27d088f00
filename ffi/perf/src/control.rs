// SPDX-License-Identifier: MIT OR Apache-2.0
//! The out-of-band connection: TCP, one JSON message a line.
//!
//! It carries addresses, the start and the end of each phase, and failures; it is silent during a
//! measurement. The local addresses of its two ends are those of the transport: they reach the
//! other side. Bounds: a line is at most [`LINE_MAX`] bytes, a wait at most the caller's.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{KeepAlive, TcpKeepIdle, TcpKeepInterval};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::plan::Workload;
use ofi_xdp_libfabric::Name;

/// The longest line.
pub const LINE_MAX: usize = 64 * 1024;

/// The first request of a session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SessionOpening<C> {
    /// The version of the client's program: both sides have the same.
    pub version: String,
    /// The transport to open.
    pub config: C,
    /// Bytes in the longest message.
    pub size_max: usize,
    /// Whether every byte is checked.
    pub verify: bool,
}

impl<C> SessionOpening<C> {
    /// The version of this program.
    pub const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    /// This opening with another description of the transport.
    #[must_use]
    pub fn with<D>(self, config: D) -> SessionOpening<D> {
        let Self { version, size_max, verify, .. } = self;
        SessionOpening { version, config, size_max, verify }
    }
}

/// A request of the client. `C` is the transport's configuration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlRequest<C> {
    /// The first request.
    Open(SessionOpening<C>),
    /// The second request: connect to this address.
    Address(Name),
    /// Prepare for this phase.
    Start(Workload),
    /// The phase is over.
    Stop,
    /// The session is over.
    End,
}

/// An answer of the server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlAnswer {
    /// The answer to `Open`: the server's address.
    Address(Name),
    /// The answer to the start of [`Workload::Datagrams`]: the server's UDP port.
    Port(u16),
    /// The answer to the end of [`Workload::Datagrams`]: those that arrived at the server.
    Arrived(u32),
    /// The answer to all other requests: done.
    Ready,
    /// The failure of any request; the session is over.
    Failed(String),
}

/// Bytes of a line that is not understood that the message shows.
const SHOWN_MAX: usize = 60;
/// Silence after which TCP asks whether the other side's host is there, and the time between two
/// questions.
const KEEP_ALIVE_SECONDS: u32 = 5;

/// Time without a server after which its user is told that it is waited for.
const NOTICE_AFTER: Duration = Duration::from_secs(1);

/// One end of the connection.
#[derive(Debug)]
pub struct Control {
    reader: BufReader<TcpStream>,
}

impl Control {
    /// Connects to a server, within `timeout`. Each address of its name is tried in turn. `waiting`
    /// is called once if none of them is listened at after [`NOTICE_AFTER`].
    ///
    /// # Errors
    /// When no server listens there.
    pub fn connect(
        server: &str,
        timeout: Duration,
        waiting: impl FnOnce(SocketAddr),
    ) -> anyhow::Result<Self> {
        let begin = Instant::now();
        let addresses = server.to_socket_addrs().with_context(|| format!("server {server:?}"))?;
        let addresses: Vec<SocketAddr> = addresses.collect();
        let mut waiting = Some(waiting);
        // bound: timeout
        loop {
            let mut failure = None;
            for &address in &addresses {
                match TcpStream::connect_timeout(&address, timeout) {
                    Ok(stream) => return Self::new(stream),
                    Err(error) => failure = Some((address, error)),
                }
            }
            let (address, error) = failure.context("the server's name has no address")?;
            if error.kind() != ErrorKind::ConnectionRefused {
                return Err(error).with_context(|| {
                    let reason = "is the host up, and does a firewall drop the port?";
                    format!("cannot reach {address}: {reason} (`ping {}`)", address.ip())
                });
            }
            let waited = begin.elapsed();
            if waited >= timeout {
                return Err(error).with_context(|| {
                    format!("nobody listens at {address}: start `xdp-perf` there")
                });
            }
            if waited >= NOTICE_AFTER
                && let Some(waiting) = waiting.take()
            {
                waiting(address);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Takes over an accepted connection.
    ///
    /// # Errors
    /// When the socket is closed already.
    pub fn new(stream: TcpStream) -> anyhow::Result<Self> {
        stream.set_nodelay(true)?;
        // A side whose host has died says nothing for ever.
        setsockopt(&stream, KeepAlive, &true)?;
        setsockopt(&stream, TcpKeepIdle, &KEEP_ALIVE_SECONDS)?;
        setsockopt(&stream, TcpKeepInterval, &KEEP_ALIVE_SECONDS)?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// The local address that reaches the other side.
    ///
    /// # Errors
    /// When the socket is closed.
    pub fn local_ip(&self) -> anyhow::Result<IpAddr> {
        Ok(self.reader.get_ref().local_addr()?.ip().to_canonical())
    }

    /// The addresses of this end and of the other one, with their TCP ports.
    ///
    /// # Errors
    /// When the socket is closed.
    pub fn ends(&self) -> anyhow::Result<(SocketAddr, SocketAddr)> {
        let stream = self.reader.get_ref();
        // The scope of an IPv6 address stays.
        let plain = |address: SocketAddr| match address.ip().to_canonical() {
            IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
            IpAddr::V6(_) => address,
        };
        Ok((plain(stream.local_addr()?), plain(stream.peer_addr()?)))
    }

    /// Whether the other side says something before it leaves. Sleeps until either.
    ///
    /// # Errors
    /// When it does neither within `timeout`, or the connection is broken.
    pub fn has_request(&mut self, timeout: Duration) -> anyhow::Result<bool> {
        let stream = self.reader.get_ref();
        stream.set_read_timeout(Some(timeout))?;
        let peeked = stream.peek(&mut [0]).context("the other side says nothing")?;
        Ok(peeked > 0)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// When the connection is closed.
    pub fn send(&mut self, message: &impl Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line).context("the other side is gone")
    }

    /// Receives one message, within `timeout`.
    ///
    /// # Errors
    /// When no message came, the connection is closed, or the message was not understood.
    pub fn receive<M: DeserializeOwned>(&mut self, timeout: Duration) -> anyhow::Result<M> {
        let line = self.line(Instant::now() + timeout)?;
        serde_json::from_slice(&line).with_context(|| {
            let start = String::from_utf8_lossy(&line[..line.len().min(SHOWN_MAX)]).into_owned();
            let port = self.reader.get_ref().peer_addr().map_or(0, |peer| peer.port());
            format!(
                "the other side is no xdp-perf of this version; it says {start:?} \
                 (`ss --tcp --listening --processes 'sport = {port}'` there names it)"
            )
        })
    }

    /// The next line, which is whole before `deadline`.
    fn line(&mut self, deadline: Instant) -> anyhow::Result<Vec<u8>> {
        let mut line = Vec::new();
        // bound: deadline, LINE_MAX
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "the other side says nothing");
            self.reader.get_ref().set_read_timeout(Some(left))?;
            let bytes = self.reader.fill_buf().context("the other side says nothing")?;
            ensure!(!bytes.is_empty(), "the other side is gone");
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(bytes.len(), |end| end + 1);
            line.extend_from_slice(&bytes[..taken]);
            self.reader.consume(taken);
            ensure!(line.len() <= LINE_MAX, "the other side's line has no end");
            if end.is_some() {
                return Ok(line);
            }
        }
    }

    /// Sleeps until a message, or the end of the connection, waits to be received.
    ///
    /// # Errors
    /// When none came within `timeout`, or the connection is broken.
    pub fn wait(&mut self, timeout: Duration) -> anyhow::Result<()> {
        if !self.reader.buffer().is_empty() {
            return Ok(());
        }
        let stream = self.reader.get_ref();
        stream.set_read_timeout(Some(timeout))?;
        stream.peek(&mut [0]).map(drop).context("the other side says nothing")
    }

    /// Whether a message, or the end of the connection, waits to be received. Never sleeps.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn is_pending(&mut self) -> anyhow::Result<bool> {
        if !self.reader.buffer().is_empty() {
            return Ok(true);
        }
        let stream = self.reader.get_ref();
        stream.set_nonblocking(true)?;
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        match peeked {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error).context("the other side is gone"),
        }
    }
}
