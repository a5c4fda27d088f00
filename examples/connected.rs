// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client that connects to a server and writes to its memory. `c/connected.c` is the same program
//! in C, call by call.
//!
//! ```text
//! host A $ connected xdp 198.18.0.1
//! host B $ connected xdp 198.18.0.2 198.18.0.1
//! ```
//!
//! The server's first message describes its memory. The client writes there with remote CQ data,
//! and ends the connection. Each wait is bounded by [`TIMEOUT`].

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use ofi_xdp_libfabric::{
    Completion, Endpoint, Info, Kind, Listener, Name, Operation, Peer, RemoteBuffer, RemoteRegion,
    Route, Setup, Wait, Want,
};

/// The server's port.
const PORT: u16 = 7471;
/// The remote CQ data of the write.
const DATA: u64 = 0x0123_4567_89ab_cdef;
/// Time limit of each wait.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The buffer that is written to or from, the buffer for messages, and their size in bytes.
const WRITTEN: usize = 0;
const MESSAGE: usize = 1;
const SETUP: Setup = Setup { slots: 2, size: 64, wait: Wait::Spin };
/// The other end of the connection.
const TO_PEER: Route = Route { peer: Peer::CONNECTED, tag: None };

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [provider, local] => server(provider, local.parse()?),
        [provider, local, server] => client(provider, local.parse()?, server.parse()?),
        _ => bail!("usage: connected PROVIDER LOCAL-ADDRESS [SERVER-ADDRESS]"),
    }
}

fn server(provider: &str, local: IpAddr) -> anyhow::Result<()> {
    let info = Info::find(&want(provider, local, Some(PORT), None))?;
    println!("provider {}, domain {}", info.provider(), info.domain());
    let mut endpoint = Listener::open(&info)?.accept(SETUP, TIMEOUT)?;

    let region = endpoint.region(&info)?.to_bytes();
    endpoint.bytes(MESSAGE)?[..region.len()].copy_from_slice(&region);
    endpoint.send(MESSAGE, region.len(), TO_PEER)?;

    let written = until(&mut endpoint, Operation::RemoteWrite)?;
    ensure!(written.data == DATA, "remote CQ data {:#x}, not {DATA:#x}", written.data);
    let bytes = &endpoint.bytes(WRITTEN)?[..written.len];
    println!("written with data {:#x}: {}", written.data, String::from_utf8_lossy(bytes));
    Ok(endpoint.wait_shutdown(TIMEOUT)?)
}

fn client(provider: &str, local: IpAddr, server: IpAddr) -> anyhow::Result<()> {
    let server = Name::from(SocketAddr::new(server, PORT));
    let info = Info::find(&want(provider, local, None, Some(&server)))?;
    println!("provider {}, domain {}", info.provider(), info.domain());
    let mut endpoint = Endpoint::connect(&info, SETUP, TIMEOUT)?;

    endpoint.receive(MESSAGE, None)?;
    let received = until(&mut endpoint, Operation::Receive)?;
    let region = RemoteRegion::from_bytes(&endpoint.bytes(MESSAGE)?[..received.len])
        .context("the server's first message is too short for its region")?;

    let text = b"hello";
    endpoint.bytes(WRITTEN)?[..text.len()].copy_from_slice(text);
    let to = RemoteBuffer { peer: Peer::CONNECTED, region, slot: WRITTEN };
    endpoint.write_data(WRITTEN, text.len(), to, DATA)?;
    until(&mut endpoint, Operation::Write)?;
    println!("{} bytes written", text.len());
    Ok(endpoint.shutdown()?)
}

/// A request for a connected endpoint with RMA.
fn want<'a>(
    provider: &'a str,
    local: IpAddr,
    port: Option<u16>,
    destination: Option<&'a Name>,
) -> Want<'a> {
    let (kind, source) = (Kind::Msg, Some(local));
    Want {
        provider,
        kind,
        tagged: false,
        rma: true,
        atomic: false,
        auto_progress: false,
        source,
        port,
        destination,
    }
}

/// Drives progress until an operation of this kind completes. Other completions are not waited for.
fn until(endpoint: &mut Endpoint, operation: Operation) -> anyhow::Result<Completion> {
    let deadline = Instant::now() + TIMEOUT;
    let mut found = None;
    // bound: TIMEOUT
    while found.is_none() {
        endpoint.poll(|completion| {
            if completion.operation == operation {
                found = Some(completion);
            }
        })?;
        ensure!(Instant::now() < deadline, "no {operation:?} for {TIMEOUT:?}");
    }
    found.context("no completion")
}
