// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line that all measuring programs share: without a host a program is the server, with
//! one it measures there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::socket::sockopt::{Ipv6V6Only, ReuseAddr};
use nix::sys::socket::{
    self, AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, setsockopt,
};
use nix::unistd::Pid;

use crate::control::Control;
use crate::output::{OutputClosed, complain, print};
use crate::plan::{Bounds, Fetch, Workload};
use crate::session::{self, Measurement};
use crate::sizes::{Sizes, parse_size, parse_sizes};
use crate::transport::Transport;

/// Bytes in the first message of a start-up.
const START_UP_LEN: usize = 8;
/// Bounds of a measurement without others: messages, and a time.
const COUNT: u64 = 1_000_000;
const TIME_MS: u64 = 500;
/// Longest time that can be asked for: a day, in ms.
const DAY_MS: u64 = 86_400_000;
/// The port of servers.
pub const PORT: u16 = 7471;

/// The command line of a program with one transport; `A` has the arguments for that.
#[derive(Debug, Parser)]
#[command(version)]
struct MeasuringCli<A: Args> {
    /// The server to measure at, HOST or HOST:PORT; without it this program is the server
    host: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
    #[command(flatten)]
    phases: PhaseArguments,
    #[command(flatten)]
    transport: A,
}

/// The arguments of a server.
#[derive(Clone, Debug, Args)]
pub struct ServerArguments {
    /// Server: the address to listen at for clients (TCP; it carries set-up only) [default: port
    /// 7471 of all addresses]
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<SocketAddr>,
    /// Server: the number of clients after which it ends
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sessions: Option<u64>,
    /// Run on this core alone
    #[arg(long, value_name = "CORE")]
    pub core: Option<usize>,
}

/// The measurements of a client, exactly.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Exact measurements")]
pub struct PhaseArguments {
    /// Latency of messages of these sizes: 8, 64K, 8..1M (powers of two)
    #[arg(long, value_delimiter = ',', value_name = "SIZE,…", value_parser = parse_sizes)]
    latency: Vec<Sizes>,
    /// Streams: message size in bytes, messages in a window, and the most unanswered windows (1)
    #[arg(long, value_delimiter = ',', value_name = "SIZExWINDOW[xAHEAD],…")]
    #[arg(value_parser = parse_stream)]
    stream: Vec<StreamShape>,
    /// First count datagrams of kernel sockets that pass each way
    #[arg(long)]
    datagrams: bool,
    /// First measure the time from opening the fabric to the first answer
    #[arg(long)]
    start_up: bool,
    /// At the end measure the processor time of an idle process, over this time
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=DAY_MS))]
    idle: Option<u64>,
    /// Messages sent before each measurement
    #[arg(long, default_value_t = 500, value_name = "N")]
    warm_up: u64,
    /// Most messages of each measurement
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Longest time of each measurement
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=DAY_MS))]
    time: Option<u64>,
    /// Fail when an answer takes longer
    #[arg(long, default_value_t = 15_000, value_name = "MS")]
    timeout: u64,
    /// Check every byte
    #[arg(long)]
    verify: bool,
}

/// Windows of messages of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamShape {
    /// Bytes in a message.
    pub size: usize,
    /// Messages in a window.
    pub window: u32,
    /// Most unanswered windows.
    pub ahead: u32,
}

/// `SIZExWINDOW`, or `SIZExWINDOWxAHEAD`.
fn parse_stream(text: &str) -> Result<StreamShape, String> {
    let wrong = || format!("{text:?} is not SIZExWINDOW, such as 8x64, or SIZExWINDOWxAHEAD");
    let mut parts = text.split('x');
    let size = parse_size(parts.next().ok_or_else(wrong)?)?;
    let mut number = |missing: Option<u32>| match parts.next() {
        Some(part) => part.parse().ok().filter(|number| *number > 0).ok_or_else(wrong),
        None => missing.ok_or_else(wrong),
    };
    let (window, ahead) = (number(None)?, number(Some(1))?);
    if parts.next().is_some() {
        return Err(wrong());
    }
    Ok(StreamShape { size, window, ahead })
}

impl PhaseArguments {
    /// The measurements that were asked for. With `fetch` they are of that operation in place of
    /// messages.
    #[must_use]
    pub fn phases(&self, fetch: Option<Fetch>) -> Vec<Workload> {
        let mut phases = Vec::new();
        phases.extend(self.datagrams.then_some(Workload::Datagrams { port: 0 }));
        phases.extend(self.start_up.then_some(Workload::StartUp { size: START_UP_LEN }));
        let sizes = self.latency.iter().flat_map(|sizes| &sizes.0);
        phases.extend(sizes.map(|size| latency(fetch, *size)));
        phases.extend(self.stream.iter().map(|shape| stream(fetch, *shape)));
        phases.extend(self.idle.map(|milliseconds| Workload::Quiet { milliseconds }));
        phases
    }

    /// The bounds of each measurement.
    #[must_use]
    pub const fn bounds(&self) -> Bounds {
        Bounds {
            warm_up: self.warm_up,
            count: match self.count {
                Some(count) => count,
                None => COUNT,
            },
            time: Duration::from_millis(match self.time {
                Some(milliseconds) => milliseconds,
                None => TIME_MS,
            }),
            timeout: Duration::from_millis(self.timeout),
            interval: None,
        }
    }

    /// Whether one of the bounds was given.
    #[must_use]
    pub const fn is_timed(&self) -> bool {
        self.count.is_some() || self.time.is_some()
    }

    /// Whether every byte is checked.
    #[must_use]
    pub const fn verifies(&self) -> bool {
        self.verify
    }
}

/// The latency of messages, or of `fetch`.
#[must_use]
pub fn latency(fetch: Option<Fetch>, size: usize) -> Workload {
    fetch.map_or(Workload::Latency { size }, |fetch| Workload::FetchLatency { fetch, size })
}

/// A stream of messages, or of `fetch`.
#[must_use]
pub fn stream(fetch: Option<Fetch>, shape: StreamShape) -> Workload {
    let StreamShape { size, window, ahead } = shape;
    fetch.map_or(Workload::Stream { size, window, ahead }, |fetch| Workload::Fetch {
        fetch,
        size,
        window,
    })
}

/// Runs a measuring program with one transport, and prints its failure. Its client prints one JSON
/// object.
#[must_use]
pub fn main<T, A>() -> ExitCode
where
    T: Transport,
    A: Args + Into<T::Config>,
{
    let MeasuringCli::<A> { host, server, phases, transport } = MeasuringCli::parse();
    outcome(match host {
        None => listen(&server, session::serve::<T>),
        Some(host) => measure::<T>(&host, server.core, &phases, &transport.into()),
    })
}

/// The exit code of a program; prints its failure.
#[must_use]
pub fn outcome(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has left wants no more.
        Err(error) if error.is::<OutputClosed>() => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("error: {error:#}"));
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
    let listener = listener(arguments.listen, bind)?;
    print(&format!("listening at {}\n", listener.local_addr()?))?;
    let mut left = arguments.sessions.unwrap_or(u64::MAX);
    // bound: the clients
    while left > 0 {
        let (stream, client) = listener.accept()?;
        let opened = Control::new(stream).and_then(|mut control| {
            Ok(control.has_request(session::OPENING_TIMEOUT)?.then_some(control))
        });
        let control = match opened {
            Ok(Some(control)) => control,
            // A look at the port is no session.
            Ok(None) => continue,
            Err(error) => {
                complain(&format!("client {client}: {error:#}"));
                continue;
            }
        };
        left -= 1;
        match serve(control) {
            Ok(()) => {}
            // A server for many clients survives the failure of one.
            Err(error) if left > 0 => complain(&format!("client {client}: {error:#}")),
            Err(error) => return Err(error.context(format!("client {client}"))),
        }
    }
    Ok(())
}

/// A listener at `address` by `bind`. Without an address it is at [`PORT`] of all addresses: those
/// of IPv4 alone where the host has no IPv6.
fn listener<T>(
    address: Option<SocketAddr>,
    bind: impl Fn(SocketAddr) -> nix::Result<T>,
) -> anyhow::Result<T> {
    let all = |ip| SocketAddr::new(ip, PORT);
    let mut tried = address.unwrap_or_else(|| all(Ipv6Addr::UNSPECIFIED.into()));
    let mut bound = bind(tried);
    if address.is_none() && matches!(bound, Err(Errno::EAFNOSUPPORT)) {
        tried = all(Ipv4Addr::UNSPECIFIED.into());
        bound = bind(tried);
    }
    bound.with_context(|| format!("cannot listen at {tried}"))
}

/// A listener at `address`. That of all IPv6 addresses takes IPv4 as well, whatever the host's
/// default is (`net.ipv6.bindv6only`).
fn bind(address: SocketAddr) -> nix::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let listener = socket::socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    if address.is_ipv6() {
        setsockopt(&listener, Ipv6V6Only, &false)?;
    }
    setsockopt(&listener, ReuseAddr, &true)?;
    socket::bind(listener.as_raw_fd(), &SockaddrStorage::from(address))?;
    socket::listen(&listener, Backlog::MAXCONN)?;
    Ok(listener.into())
}

/// `host` with the port of servers, unless it has one. An address of IPv6 may stand in brackets.
#[must_use]
pub fn with_port(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, PORT).to_string(),
        Err(_) if host.contains(':') && !host.ends_with(']') => host.to_owned(),
        Err(_) => format!("{host}:{PORT}"),
    }
}

fn measure<T: Transport>(
    host: &str,
    core: Option<usize>,
    phases: &PhaseArguments,
    config: &T::Config,
) -> anyhow::Result<()> {
    pin(core)?;
    let control = Control::connect(&with_port(host), phases.bounds().timeout, |_| ())?;
    let (bounds, verify) = (phases.bounds(), phases.verifies());
    let phases = phases.phases(None);
    let measurement = Measurement { phases: &phases, bounds, verify };
    let (begin, mut observer) = (|_: &_, _| Ok(()), |_| Ok(()));
    let report = session::run::<T>(control, (config, config), measurement, begin, &mut observer)?;
    print(&format!("{}\n", serde_json::to_string(&report)?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_have_a_window_and_may_run_ahead() {
        let shape = |size, window, ahead| Ok(StreamShape { size, window, ahead });
        assert_eq!(parse_stream("8x64"), shape(8, 64, 1));
        assert_eq!(parse_stream("64Kx16x4"), shape(65_536, 16, 4));
        for bad in ["8", "x64", "8x", "8x0", "8x64x0", "8x64x1x1", "8 x 64"] {
            assert!(parse_stream(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_host_has_the_port_of_servers() {
        assert_eq!(with_port("10.0.0.1"), "10.0.0.1:7471");
        assert_eq!(with_port("10.0.0.1:9"), "10.0.0.1:9");
        assert_eq!(with_port("fd00::1"), "[fd00::1]:7471");
        assert_eq!(with_port("[fd00::1]:9"), "[fd00::1]:9");
        assert_eq!(with_port("[fd00::1]"), "[fd00::1]:7471");
        assert_eq!(with_port("[fe80::1%2]"), "[fe80::1%2]:7471");
        assert_eq!(with_port("host"), "host:7471");
    }

    /// A host of which the kernel has no IPv6.
    fn without_ipv6(address: SocketAddr) -> nix::Result<SocketAddr> {
        if address.is_ipv6() { Err(Errno::EAFNOSUPPORT) } else { Ok(address) }
    }

    #[test]
    fn a_server_without_an_address_listens_at_those_that_the_host_has() {
        let all: SocketAddr = "[::]:7471".parse().unwrap();
        assert_eq!(listener(None, Ok).unwrap(), all);
        assert_eq!(listener(None, without_ipv6).unwrap(), "0.0.0.0:7471".parse().unwrap());
        let given: SocketAddr = "127.0.0.1:9".parse().unwrap();
        assert_eq!(listener(Some(given), without_ipv6).unwrap(), given);
        let refused = listener(Some(all), without_ipv6).unwrap_err();
        assert!(format!("{refused:#}").starts_with("cannot listen at [::]:7471: "), "{refused:#}");
        let taken = listener(None, |_| Err::<(), _>(Errno::EADDRINUSE)).unwrap_err();
        assert!(format!("{taken:#}").starts_with("cannot listen at [::]:7471: "), "{taken:#}");
    }

    /// Where the administrator has set that sockets of IPv6 take no IPv4 by themselves.
    #[test]
    fn root_the_listener_at_all_addresses_takes_both_families() {
        let skip = std::env::var("OFI_XDP_UNPRIVILEGED").is_ok_and(|value| value == "skip");
        if skip && !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: needs CAP_SYS_ADMIN");
            return;
        }
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        std::fs::write("/proc/sys/net/ipv6/bindv6only", "1").unwrap();
        let one_family = TcpListener::bind("[::]:0").unwrap();
        assert!(socket::getsockopt(&one_family, Ipv6V6Only).unwrap(), "the setting has an effect");
        let listener = bind("[::]:0".parse().unwrap()).unwrap();
        assert!(!socket::getsockopt(&listener, Ipv6V6Only).unwrap());
    }
}
