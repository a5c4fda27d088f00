// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of the measuring programs: `server`, or `client` with its measurements.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::control::Control;
use crate::plan::{Bounds, Phase};
use crate::session;
use crate::transport::Transport;

/// Bytes in the first message of a start-up.
const START_UP_LEN: usize = 8;

/// The command line; `A` has the arguments for the program's transport.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli<A: Args> {
    #[command(subcommand)]
    role: RoleArguments<A>,
}

#[derive(Debug, Subcommand)]
enum RoleArguments<A: Args> {
    /// Answer clients, one after the other
    Server(ServerArguments),
    /// Measure at a server, and print one JSON object
    Client(Box<ClientArguments<A>>),
}

/// The arguments of a server.
#[derive(Debug, Args)]
pub struct ServerArguments {
    /// The address to listen at for clients (TCP; it carries set-up only)
    #[arg(long, default_value = "[::]:7471", value_name = "IP:PORT")]
    listen: SocketAddr,
    /// Number of clients after which the server ends
    #[arg(long, value_name = "N")]
    sessions: Option<u64>,
    /// Run on this core alone
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,
}

#[derive(Debug, Args)]
struct ClientArguments<A: Args> {
    /// The server, HOST:PORT
    #[arg(default_value = "127.0.0.1:7471")]
    server: String,
    /// Message sizes for latency, in bytes
    #[arg(long, value_delimiter = ',', value_name = "SIZE,…")]
    latency: Vec<usize>,
    /// Streams: message size in bytes, messages in a window, and the most unanswered windows (1)
    #[arg(long, value_delimiter = ',', value_name = "SIZExWINDOW[xAHEAD],…")]
    #[arg(value_parser = parse_stream)]
    stream: Vec<Phase>,
    /// Streams of reads from the server's memory (perf-rma): bytes in a block, and blocks in a
    /// window
    #[arg(long, value_delimiter = ',', value_name = "SIZExWINDOW,…", value_parser = parse_reads)]
    read: Vec<Phase>,
    /// First measure the time from opening the fabric to the first answer
    #[arg(long)]
    start_up: bool,
    /// At the end measure the processor time of an idle process, over this time
    #[arg(long, value_name = "MS")]
    idle: Option<u64>,
    /// Messages sent before each measurement
    #[arg(long, default_value_t = 500, value_name = "N")]
    warm_up: u64,
    /// Most messages of each phase
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    count: u64,
    /// Longest time of each phase
    #[arg(long, default_value_t = 500, value_name = "MS")]
    time: u64,
    /// Fail when an answer takes longer
    #[arg(long, default_value_t = 15_000, value_name = "MS")]
    timeout: u64,
    /// Check every byte
    #[arg(long)]
    verify: bool,
    /// Run on this core alone
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,
    #[command(flatten)]
    transport: A,
}

/// `SIZExWINDOW`.
fn parse_window(text: &str) -> Result<(usize, u32), String> {
    let parts = text.split_once('x');
    let parts = parts.and_then(|(size, window)| Some((size.parse().ok()?, window.parse().ok()?)));
    parts.ok_or_else(|| format!("{text:?} is not SIZExWINDOW, such as 8x64"))
}

/// `SIZExWINDOW`, or `SIZExWINDOWxAHEAD`.
fn parse_stream(text: &str) -> Result<Phase, String> {
    let (stream, ahead) = match text.rsplit_once('x') {
        Some((stream, ahead)) if stream.contains('x') => (stream, ahead),
        _ => (text, "1"),
    };
    let (size, window) = parse_window(stream)?;
    let ahead = ahead.parse().map_err(|_| format!("{ahead:?} in {text:?} is no number"))?;
    Ok(Phase::Stream { size, window, ahead })
}

fn parse_reads(text: &str) -> Result<Phase, String> {
    parse_window(text).map(|(size, window)| Phase::Read { size, window })
}

/// Runs a measuring program, and prints its failure.
#[must_use]
pub fn main<T, A>() -> ExitCode
where
    T: Transport,
    A: Args + Into<T::Config>,
{
    outcome(match Cli::<A>::parse().role {
        RoleArguments::Server(arguments) => listen(&arguments, session::serve::<T>),
        RoleArguments::Client(arguments) => measure::<T, A>(*arguments),
    })
}

/// The exit code of a program; prints its failure.
#[must_use]
pub fn outcome(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Listens for clients, and serves them by `serve`, one after the other.
///
/// # Errors
/// When the address is taken, or when the last session fails.
pub fn listen(
    arguments: &ServerArguments,
    serve: impl Fn(Control) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    pin(arguments.core)?;
    let listener = TcpListener::bind(arguments.listen)
        .with_context(|| format!("cannot listen at {}", arguments.listen))?;
    println!("listening at {}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let sessions = arguments.sessions.unwrap_or(u64::MAX);
    for session in 1..=sessions {
        let (stream, client) = listener.accept()?;
        let served = Control::new(stream).and_then(&serve);
        match served {
            Ok(()) => {}
            // A server for many clients survives the failure of one.
            Err(error) if session < sessions => eprintln!("client {client}: {error:#}"),
            Err(error) => return Err(error.context(format!("client {client}"))),
        }
    }
    Ok(())
}

fn measure<T, A>(arguments: ClientArguments<A>) -> anyhow::Result<()>
where
    T: Transport,
    A: Args + Into<T::Config>,
{
    pin(arguments.core)?;
    let bounds = Bounds {
        warm_up: arguments.warm_up,
        count: arguments.count,
        time: Duration::from_millis(arguments.time),
        timeout: Duration::from_millis(arguments.timeout),
    };
    let mut phases: Vec<Phase> =
        arguments.start_up.then_some(Phase::StartUp { size: START_UP_LEN }).into_iter().collect();
    phases.extend(arguments.latency.iter().map(|size| Phase::Latency { size: *size }));
    phases.extend(arguments.stream);
    phases.extend(arguments.read);
    phases.extend(arguments.idle.map(|milliseconds| Phase::Idle { milliseconds }));
    if phases.is_empty() {
        phases
            .extend([Phase::Latency { size: 8 }, Phase::Stream { size: 8, window: 64, ahead: 1 }]);
    }
    let control = Control::connect(&arguments.server, bounds.timeout)?;
    let config = arguments.transport.into();
    let report = session::run::<T>(control, &config, &phases, bounds, arguments.verify)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// Confines this thread, and threads that it starts later, to one core.
///
/// # Errors
/// When there is no such core.
pub fn pin(core: Option<usize>) -> anyhow::Result<()> {
    let Some(core) = core else { return Ok(()) };
    let mut cores = CpuSet::new();
    cores.set(core).with_context(|| format!("core {core}"))?;
    sched_setaffinity(Pid::from_raw(0), &cores)
        .with_context(|| format!("cannot run on core {core}"))
}
