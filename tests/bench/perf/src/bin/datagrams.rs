// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams between two processes: `datagrams --listen IP:PORT` receives, and
//! `datagrams IP:PORT --provider xdp --pings 8` or `--stream 64` sends.
//!
//! The provider is one of libfabric's with `FI_EP_DGRAM`, or `raw-af_xdp`. A TCP connection carries
//! addresses and counts. The sender prints one JSON object, and ends; so does the receiver. Bounds:
//! the time of the measurement, [`TIMEOUT`] for each answer over TCP.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Parser;
use ofi_xdp_bench::datagrams::{
    Datagrams, FabricDatagrams, Opening, RawDatagrams, Received, pings, receive, stream,
};
use ofi_xdp_bench::report::{DatagramPings, DatagramStream};
use ofi_xdp_bench::transport::RawMode;
use ofi_xdp_libfabric::Name;
use ofi_xdp_perf::cli::pin;
use ofi_xdp_perf::control::Control;
use ofi_xdp_perf::report::Latency;
use serde::{Deserialize, Serialize};

/// The provider that is none.
const RAW: &str = "raw-af_xdp";
/// Longest wait for an answer of the other side, beyond the measurement.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Time after an address vector has the peer, in which the receiver begins to poll.
const SETTLES: Duration = Duration::from_millis(50);

#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The receiver
    #[arg(required_unless_present = "listen", value_name = "IP:PORT")]
    receiver: Option<String>,
    /// Receive: the address to wait at for the sender (TCP; it carries set-up only)
    #[arg(long, conflicts_with = "receiver", value_name = "IP:PORT")]
    listen: Option<SocketAddr>,
    /// The provider, or raw-af_xdp
    #[arg(long, default_value = "xdp", value_name = "NAME")]
    provider: String,
    /// The mode of raw-af_xdp
    #[arg(long, value_enum, default_value = "auto")]
    mode: RawMode,
    /// Measure round trips of datagrams of this size
    #[arg(long, value_name = "SIZE", conflicts_with = "stream")]
    pings: Option<usize>,
    /// Measure datagrams of this size one way
    #[arg(long, value_name = "SIZE", required_unless_present_any = ["pings", "listen"])]
    stream: Option<usize>,
    /// Milliseconds of the measurement
    #[arg(long, default_value_t = 1000, value_name = "MS")]
    time: u64,
    /// Run on this core alone
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,
}

/// What the receiver does.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    opening: Opening,
    /// Whether it answers.
    echo: bool,
    /// Milliseconds of the measurement.
    time: u64,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    pin(cli.core)?;
    if let Some(address) = cli.listen {
        return serve(address);
    }
    let size = cli.pings.or(cli.stream).context("neither pings nor a stream")?;
    ensure!(size > 0, "a datagram has its number in the first byte");
    let opening = Opening { provider: cli.provider.clone(), mode: cli.mode, size };
    let request = Request { opening, echo: cli.pings.is_some(), time: cli.time };
    let control = Control::connect(cli.receiver.as_deref().unwrap_or_default(), TIMEOUT, |_| ())?;
    match cli.provider.as_str() {
        RAW => send::<RawDatagrams>(control, &request),
        _ => send::<FabricDatagrams>(control, &request),
    }
}

/// Waits for a sender, and receives.
fn serve(address: SocketAddr) -> anyhow::Result<()> {
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    println!("listening at {}", listener.local_addr()?);
    let mut control = Control::new(listener.accept()?.0)?;
    let request: Request = control.receive(TIMEOUT)?;
    match request.opening.provider.as_str() {
        RAW => answer::<RawDatagrams>(control, &request),
        _ => answer::<FabricDatagrams>(control, &request),
    }
}

/// The receiver's part.
fn answer<D: Datagrams>(mut control: Control, request: &Request) -> anyhow::Result<()> {
    let pending = D::open(&request.opening, control.local_ip()?)?;
    control.send(&D::name(&pending)?)?;
    let peer: Name = control.receive(TIMEOUT)?;
    let mut end = D::establish(pending, &peer)?;
    control.send(&())?;
    let received = receive(&mut end, request.echo)?;
    control.send(&received)
}

/// The sender's part; prints the report.
fn send<D: Datagrams>(mut control: Control, request: &Request) -> anyhow::Result<()> {
    control.send(request)?;
    let pending = D::open(&request.opening, control.local_ip()?)?;
    let peer: Name = control.receive(TIMEOUT)?;
    control.send(&D::name(&pending)?)?;
    control.receive::<()>(TIMEOUT)?;
    let mut end = D::establish(pending, &peer)?;
    std::thread::sleep(SETTLES);
    let Request { opening: Opening { provider, size, .. }, echo, time } = request;
    let (provider, time) = (provider.clone(), Duration::from_millis(*time));
    let text = if *echo {
        let (round_trips, lost) = pings(&mut end, time)?;
        control.receive::<Received>(TIMEOUT)?;
        let latency = Latency::new(*size, &round_trips, lost, Duration::ZERO);
        let Latency { round_trips, lost, p50_ns, p99_ns, .. } = latency;
        serde_json::to_string(&DatagramPings { provider, round_trips, lost, p50_ns, p99_ns })?
    } else {
        let (sent, seconds) = stream(&mut end, time)?;
        let received: Received = control.receive(TIMEOUT)?;
        serde_json::to_string(&DatagramStream {
            provider,
            sent,
            sent_rate: sent as f64 / seconds,
            received: received.count,
            received_rate: received.count as f64 / received.seconds,
        })?
    };
    println!("{text}");
    Ok(())
}
