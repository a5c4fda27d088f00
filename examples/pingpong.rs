// SPDX-License-Identifier: MIT OR Apache-2.0
//! A minimal libfabric client and server. `c/pingpong.c` is the same program in C, call by call.
//!
//! ```text
//! host A $ pingpong xdp 198.18.0.1
//! host B $ pingpong xdp 198.18.0.2 198.18.0.1
//! ```
//!
//! The server's endpoint has a fixed port; the client's first message is its address. Each wait is
//! bounded by [`TIMEOUT`].

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use ofi_xdp_libfabric::{
    Endpoint, Error, Info, Kind, Name, Operation, Peer, Route, Setup, Wait, Want,
};

/// The server's port.
const PORT: u16 = 7470;
/// The tag of all messages.
const TAG: u64 = 1;
/// Round trips.
const COUNT: u32 = 10_000;
/// Time limit of each wait.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The two buffers, and their size in bytes.
const INCOMING: usize = 0;
const OUTGOING: usize = 1;
const SIZE: usize = 64;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [provider, local] => server(provider, local.parse()?),
        [provider, local, server] => client(provider, local.parse()?, server.parse()?),
        _ => bail!("usage: pingpong PROVIDER LOCAL-ADDRESS [SERVER-ADDRESS]"),
    }
}

fn client(provider: &str, local: IpAddr, server: IpAddr) -> anyhow::Result<()> {
    let mut side = Side::open(provider, local, None)?;
    let peer = side.endpoint.insert(&Name::from(SocketAddr::new(server, PORT)))?;

    // The first message is this side's address, which the server does not have yet.
    let name = side.endpoint.name()?;
    side.send(peer, &name.0)?;
    ensure!(side.receive()? == b"welcome", "that is no ping-pong server");

    let start = Instant::now();
    for number in 0..COUNT {
        side.send(peer, &number.to_le_bytes())?;
        ensure!(side.receive()? == number.to_le_bytes(), "the answer to {number} is another");
    }
    let one_way = start.elapsed() / COUNT / 2;
    println!("{COUNT} round trips, {} ns one way", one_way.as_nanos());
    side.finish()
}

fn server(provider: &str, local: IpAddr) -> anyhow::Result<()> {
    let mut side = Side::open(provider, local, Some(PORT))?;
    let client = Name(side.receive()?);
    let peer = side.endpoint.insert(&client)?;
    side.send(peer, b"welcome")?;
    for _ in 0..COUNT {
        let message = side.receive()?;
        side.send(peer, &message)?;
    }
    println!("{COUNT} messages answered");
    side.finish()
}

/// An endpoint with one buffer for each direction.
struct Side {
    endpoint: Endpoint,
    /// Bytes in the incoming buffer, once a message is there.
    received: Option<usize>,
    /// Whether the send from the outgoing buffer is incomplete.
    sending: bool,
}

impl Side {
    /// Finds the provider, and opens an endpoint at a local address.
    fn open(provider: &str, local: IpAddr, port: Option<u16>) -> anyhow::Result<Self> {
        let info = Info::find(&Want {
            provider,
            kind: Kind::Rdm,
            tagged: true,
            rma: false,
            atomic: false,
            auto_progress: false,
            source: Some(local),
            port,
            destination: None,
        })?;
        println!("provider {}, domain {}", info.provider(), info.domain());
        let setup = Setup { slots: 2, size: SIZE, wait: Wait::Spin };
        let mut endpoint = Endpoint::open(&info, setup)?;
        endpoint.receive(INCOMING, Some(TAG))?;
        Ok(Self { endpoint, received: None, sending: false })
    }

    /// Sends a message of at most [`SIZE`] bytes.
    fn send(&mut self, peer: Peer, message: &[u8]) -> anyhow::Result<()> {
        self.until(|side| (!side.sending).then_some(()))?;
        self.endpoint.bytes(OUTGOING)?[..message.len()].copy_from_slice(message);
        let to = Route { peer, tag: Some(TAG) };
        // A full queue is no error: progress makes room.
        let len = message.len();
        let sent = self.until(|side| match side.endpoint.send(OUTGOING, len, to) {
            Err(Error::Again) => None,
            sent => Some(sent),
        })?;
        self.sending = true;
        Ok(sent?)
    }

    /// Waits for a message, and posts the buffer again.
    fn receive(&mut self) -> anyhow::Result<Vec<u8>> {
        let len = self.until(|side| side.received.take())?;
        let message = self.endpoint.bytes(INCOMING)?[..len].to_vec();
        self.endpoint.receive(INCOMING, Some(TAG))?;
        Ok(message)
    }

    /// Waits until the last message has arrived: closing an endpoint cancels unsent messages.
    fn finish(&mut self) -> anyhow::Result<()> {
        self.until(|side| (!side.sending).then_some(()))
    }

    /// Drives progress until `ready` has a value. A provider with manual progress does nothing
    /// between these calls.
    fn until<T>(&mut self, mut ready: impl FnMut(&mut Self) -> Option<T>) -> anyhow::Result<T> {
        let deadline = Instant::now() + TIMEOUT;
        // bound: TIMEOUT
        loop {
            if let Some(value) = ready(self) {
                return Ok(value);
            }
            let (received, sending) = (&mut self.received, &mut self.sending);
            self.endpoint.poll(|completion| match completion.operation {
                Operation::Receive => *received = Some(completion.len),
                _ => *sending = false,
            })?;
            ensure!(Instant::now() < deadline, "nothing happened for {TIMEOUT:?}");
        }
    }
}
