// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `xdp-perf`.
//!
//! In: arguments. Out: measurements, their bounds, and the transport. Caller: `main`.

use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};
use clap_complete::Shell;
use ofi_xdp_libfabric::Wait;
use ofi_xdp_perf::cli::{PhaseArguments, ServerArguments, StreamShape, latency, stream};
use ofi_xdp_perf::plan::{Bounds, STREAM_SIZE_MIN, Workload};
use ofi_xdp_perf::sizes::{Sizes, parse_sizes};
use ofi_xdp_perf::transport::{FabricConfig, RmaConfig, buffers_each_way};

use crate::operation::{Operation, PerfConfig};

/// Most messages of a measurement that is bounded by its time.
const COUNT_MAX: u64 = u32::MAX as u64;
/// Time of each measurement without an option.
const SECONDS: f64 = 3.0;
/// Bytes of an atomic operation.
const ATOMIC_LEN: usize = 8;
/// Messages under way in a measurement of the rate, and bytes in one of the bandwidth. Beside long
/// messages there are fewer: no more than there are buffers for each direction.
const RATE_WINDOW: u32 = 64;
const BANDWIDTH_BYTES: usize = 8 << 20;

/// Latency, message rate and bandwidth of a libfabric provider.
///
/// Start it without arguments on one host, and with that host's address on another one.
#[derive(Clone, Debug, Parser)]
#[command(version, name = "xdp-perf")]
pub(crate) struct Arguments {
    /// The server, HOST or HOST:PORT; without it this is the server
    pub(crate) host: Option<String>,
    /// The provider, by its full name
    #[arg(short, long, default_value = "xdp", value_name = "NAME")]
    #[arg(help = "The provider, by its full name: xdp, tcp, \"tcp;ofi_rxm\"")]
    pub(crate) provider: String,
    /// The operation
    #[arg(short, long, value_enum, default_value = "tagged")]
    pub(crate) operation: Operation,
    /// Rate of operations of these sizes, 64 under way
    #[arg(short, long, value_delimiter = ',', value_name = "SIZE,…", value_parser = parse_sizes)]
    rate: Vec<Sizes>,
    /// Bandwidth of operations of these sizes, 8 MiB under way
    #[arg(short, long, value_delimiter = ',', value_name = "SIZE,…", value_parser = parse_sizes)]
    bandwidth: Vec<Sizes>,
    /// Time of each measurement [default: 3]
    #[arg(short = 't', long, value_name = "SECONDS", value_parser = parse_seconds)]
    #[arg(conflicts_with = "time")]
    seconds: Option<f64>,
    /// Time between two lines of progress
    #[arg(short, long, default_value = "1", value_name = "SECONDS", value_parser = parse_seconds)]
    interval: f64,
    /// Measure this provider in turns with the other one, and print both
    #[arg(short, long, value_name = "NAME")]
    pub(crate) compare: Option<String>,
    /// Turns of each provider in a comparison; a result is the median
    #[arg(long, default_value_t = 5, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Print one JSON object, and nothing else
    #[arg(short, long)]
    pub(crate) json: bool,
    /// Messages over a connection (`FI_EP_MSG`), also where the provider has reliable datagrams
    #[arg(long)]
    connected: bool,
    /// Never inject small messages
    #[arg(long)]
    no_inject: bool,
    /// Require a provider with automatic progress
    #[arg(long)]
    auto_progress: bool,
    /// How to wait for completions of messages
    #[arg(long, default_value = "spin", value_parser = parse_wait, value_name = "spin|sread|fd")]
    wait: Wait,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    #[command(flatten)]
    pub(crate) phases: PhaseArguments,
    /// Print the completions of a shell
    #[arg(long, value_name = "SHELL", hide = true)]
    pub(crate) completions: Option<Shell>,
}

fn parse_wait(text: &str) -> Result<Wait, String> {
    match text {
        "spin" => Ok(Wait::Spin),
        "sread" => Ok(Wait::Sread),
        "fd" => Ok(Wait::Fd),
        other => Err(format!("{other:?} is none of spin, sread and fd")),
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| format!("{text:?} is no number of seconds between 0.001 and 86400"))
}

/// The sizes of an option; those of atomic operations are all the same.
fn sizes(of: &[Sizes], operation: Operation) -> Vec<usize> {
    let mut sizes: Vec<usize> = of.iter().flat_map(|sizes| sizes.0.iter().copied()).collect();
    if operation == Operation::Atomic {
        sizes.iter_mut().for_each(|size| *size = ATOMIC_LEN);
        sizes.dedup();
    }
    sizes
}

impl Arguments {
    /// Itself, unless it has an option that its operation has no use for.
    ///
    /// # Errors
    /// The name of the option, and the reason.
    pub(crate) fn checked(self) -> Result<Self, clap::Error> {
        let refused = [
            (self.connected, "--connected", "are measured over reliable datagrams where there are"),
            (self.no_inject, "--no-inject", "are injected as the provider proposes"),
            (self.auto_progress, "--auto-progress", "take the provider's own way of progress"),
            (self.wait != Wait::Spin, "--wait", "are polled for"),
        ];
        let one_sided = matches!(self.config(""), PerfConfig::OneSided(_));
        let Some((_, option, why)) = refused.into_iter().find(|(is_set, ..)| one_sided && *is_set)
        else {
            return Ok(self);
        };
        let message = format!("{option} is for messages: {} operations {why}", self.operation);
        Err(Self::command().error(ErrorKind::ArgumentConflict, message))
    }

    /// The measurements: those that were asked for, or one of each kind.
    pub(crate) fn phases(&self) -> Vec<Workload> {
        let fetch = self.operation.fetch();
        let mut phases = self.phases.phases(fetch);
        let mut rates = sizes(&self.rate, self.operation);
        let mut bandwidths = sizes(&self.bandwidth, self.operation);
        if phases.is_empty() && rates.is_empty() && bandwidths.is_empty() {
            phases.push(latency(fetch, ATOMIC_LEN));
            rates.push(ATOMIC_LEN);
            if self.operation != Operation::Atomic {
                bandwidths.push(64 << 10);
            }
        }
        // One set of buffers is for the whole session: its longest message limits their number.
        let sizes = phases.iter().map(Workload::size).chain(rates.iter().copied());
        let size_max = sizes.chain(bandwidths.iter().copied()).max().unwrap_or(0);
        let window_max = RATE_WINDOW.min(buffers_each_way(size_max) as u32);
        let rate = |size| stream(fetch, rate_shape(size, window_max));
        let bandwidth = |size| stream(fetch, bandwidth_shape(size, window_max));
        phases.extend(rates.into_iter().map(rate));
        phases.extend(bandwidths.into_iter().map(bandwidth));
        phases
    }

    /// The bounds of each measurement.
    pub(crate) fn bounds(&self) -> Bounds {
        let exact = self.phases.bounds();
        let interval = Some(Duration::from_secs_f64(self.interval));
        match self.seconds {
            Some(seconds) => {
                let time = Duration::from_secs_f64(seconds);
                Bounds { count: COUNT_MAX, time, interval, ..exact }
            }
            None if self.phases.is_timed() => Bounds { interval, ..exact },
            None => {
                let time = Duration::from_secs_f64(SECONDS);
                Bounds { count: COUNT_MAX, time, interval, ..exact }
            }
        }
    }

    /// The transport of a session with `provider`.
    pub(crate) fn config(&self, provider: &str) -> PerfConfig {
        let provider = provider.to_owned();
        match self.operation {
            Operation::Message | Operation::Tagged => PerfConfig::Messages(FabricConfig {
                provider,
                tagged: self.operation == Operation::Tagged && !self.connected,
                connected: self.connected,
                wait: self.wait,
                inject: !self.no_inject,
                auto_progress: self.auto_progress,
            }),
            Operation::Write | Operation::Read => {
                PerfConfig::OneSided(RmaConfig { provider, atomic: false })
            }
            Operation::Atomic => PerfConfig::OneSided(RmaConfig { provider, atomic: true }),
        }
    }
}

/// Small messages: a window waits for the answer to the one before.
fn rate_shape(size: usize, window: u32) -> StreamShape {
    StreamShape { size: size.max(STREAM_SIZE_MIN), window, ahead: 1 }
}

/// Long messages: four windows are under way.
fn bandwidth_shape(size: usize, window_max: u32) -> StreamShape {
    const AHEAD: u32 = 4;
    let size = size.max(STREAM_SIZE_MIN);
    let under_way = (BANDWIDTH_BYTES / size).clamp(AHEAD as usize, window_max as usize) as u32;
    StreamShape { size, window: under_way / AHEAD, ahead: AHEAD }
}

#[cfg(test)]
mod tests {
    use ofi_xdp_perf::plan::Fetch;

    use super::*;

    fn parse(arguments: &[&str]) -> Arguments {
        Arguments::try_parse_from([&["xdp-perf"], arguments].concat()).unwrap()
    }

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn without_measurements_there_is_one_of_each_kind() {
        let phases = parse(&["host"]).phases();
        let expected = [
            Workload::Latency { size: 8 },
            Workload::Stream { size: 8, window: 64, ahead: 1 },
            Workload::Stream { size: 65_536, window: 16, ahead: 4 },
        ];
        assert_eq!(phases, expected);
        let atomic = parse(&["host", "-o", "atomic"]).phases();
        let fetch = Fetch::Add;
        let expected = [
            Workload::FetchLatency { fetch, size: 8 },
            Workload::Fetch { fetch, size: 8, window: 64 },
        ];
        assert_eq!(atomic, expected);
    }

    #[test]
    fn sizes_are_measured_in_order() {
        let phases = parse(&["host", "-o", "read", "--latency", "8..32", "-b", "1M,64M"]).phases();
        let fetch = Fetch::Read;
        let expected = [
            Workload::FetchLatency { fetch, size: 8 },
            Workload::FetchLatency { fetch, size: 16 },
            Workload::FetchLatency { fetch, size: 32 },
            Workload::Fetch { fetch, size: 1 << 20, window: 2 },
            Workload::Fetch { fetch, size: 64 << 20, window: 1 },
        ];
        assert_eq!(phases, expected);
    }

    #[test]
    fn a_time_without_a_count_has_no_other_bound() {
        assert_eq!(parse(&["host"]).bounds().time, Duration::from_secs(3));
        assert_eq!(parse(&["host", "-t", "0.5"]).bounds().count, COUNT_MAX);
        let exact = parse(&["host", "--time", "200", "--count", "7"]).bounds();
        assert_eq!((exact.time, exact.count), (Duration::from_millis(200), 7));
    }

    #[test]
    fn no_more_is_under_way_than_there_are_buffers() {
        let phases = parse(&["host", "-o", "write", "--rate", "8", "-b", "64K,1M"]).phases();
        let expected = [
            Workload::Stream { size: 8, window: 16, ahead: 1 },
            Workload::Stream { size: 64 << 10, window: 4, ahead: 4 },
            Workload::Stream { size: 1 << 20, window: 2, ahead: 4 },
        ];
        assert_eq!(phases, expected);
        for sizes in ["8", "8,256M", "0..256M"] {
            let arguments = parse(&["host", "--latency", "1M", "--rate", sizes, "-b", sizes]);
            let phases = arguments.phases();
            let size_max = phases.iter().map(Workload::size).max().unwrap();
            for phase in phases {
                let Workload::Stream { window, ahead, .. } = phase else { continue };
                assert!((window * ahead) as usize <= buffers_each_way(size_max), "{phase:?}");
            }
        }
    }

    #[test]
    fn options_of_messages_are_refused_for_one_sided_operations() {
        let options: [&[&str]; 4] =
            [&["--connected"], &["--no-inject"], &["--auto-progress"], &["--wait", "fd"]];
        for option in options {
            for operation in ["write", "read", "atomic"] {
                let arguments = parse(&[&["host", "-o", operation], option].concat());
                let error = arguments.checked().unwrap_err();
                assert_eq!((error.kind(), error.exit_code()), (ErrorKind::ArgumentConflict, 2));
                let text = error.to_string();
                let wanted = format!("{} is for messages: {operation} operations", option[0]);
                assert!(text.contains(&wanted), "{text}");
            }
            assert!(parse(&[&["host", "-o", "message"], option].concat()).checked().is_ok());
        }
        assert!(parse(&["host", "-o", "write", "--wait", "spin"]).checked().is_ok());
    }

    #[test]
    fn nonsense_is_refused() {
        let bad: [&[&str]; 12] = [
            &["--sessions", "0"],
            &["host", "--time", "0"],
            &["host", "--time", "86400001"],
            &["host", "--idle", "0"],
            &["host", "--idle", "99999999999999999999"],
            &["host", "-t", "0"],
            &["host", "-t", "nan"],
            &["host", "-t", "1", "--time", "5"],
            &["host", "--rounds", "0"],
            &["host", "-o", "teleport"],
            &["host", "--latency", "12Q"],
            &["host", "second"],
        ];
        for arguments in bad {
            let parsed = Arguments::try_parse_from([&["xdp-perf"], arguments].concat());
            assert!(parsed.is_err(), "{arguments:?}");
        }
    }
}
