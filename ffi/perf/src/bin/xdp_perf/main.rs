// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xdp-perf`: latency, message rate and bandwidth of a libfabric provider between two hosts.
//!
//! In: nothing (the server), or a host and measurements. Out: lines while it measures and tables,
//! or one JSON object. Bound: the time and the number of each measurement.
#![deny(unsafe_code)]

mod arguments;
mod compare;
mod operation;
mod text;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{CommandFactory as _, Parser as _};
use ofi_xdp_perf::cli::{self, outcome, pin, with_port};
use ofi_xdp_perf::control::Control;
use ofi_xdp_perf::output::{complain, print};
use ofi_xdp_perf::plan::Workload;
use ofi_xdp_perf::report::PerfReport;
use ofi_xdp_perf::session::{self, Interval, Measurement};
use ofi_xdp_perf::transport::{FabricTransport, RmaTransport};

use crate::arguments::Arguments;
use crate::operation::PerfConfig;

fn main() -> ExitCode {
    match Arguments::try_parse().and_then(Arguments::checked) {
        Ok(arguments) => outcome(run(&arguments)),
        Err(error) => error.exit(),
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    if let Some(shell) = arguments.completions {
        let (mut command, mut output) = (Arguments::command(), Vec::new());
        clap_complete::generate(shell, &mut command, "xdp-perf", &mut output);
        return print(&String::from_utf8_lossy(&output));
    }
    let Some(host) = &arguments.host else {
        return cli::listen(&arguments.server, serve);
    };
    pin(arguments.server.core)?;
    let host = with_port(host);
    match &arguments.compare {
        Some(other) => compare::run(arguments, &host, other),
        None => alone(arguments, &host),
    }
}

/// Serves a client with the transport that it asks for.
fn serve(control: Control) -> Result<()> {
    session::answer_all::<PerfConfig>(control, |control, opening| match opening.config.clone() {
        PerfConfig::Messages(config) => {
            session::session::<FabricTransport>(control, &opening.with(config))
        }
        PerfConfig::OneSided(config) => {
            session::session::<RmaTransport>(control, &opening.with(config))
        }
    })
}

/// Measures one provider, and shows it.
fn alone(arguments: &Arguments, host: &str) -> Result<()> {
    let phases = arguments.phases();
    let operation = arguments.operation;
    if arguments.json {
        let report = measure(arguments, host, &arguments.provider, &phases, None)?;
        return print(&format!("{}\n", serde_json::to_string(&report)?));
    }
    let report = measure(arguments, host, &arguments.provider, &phases, Some(operation.text()))?;
    print(&text::results(&report, operation))
}

/// One session with `provider`. `shown`: the progress is printed, with this name of the operation.
fn measure(
    arguments: &Arguments,
    host: &str,
    provider: &str,
    phases: &[Workload],
    shown: Option<&str>,
) -> Result<PerfReport> {
    ensure!(!phases.is_empty(), "there is nothing to measure");
    let mut bounds = arguments.bounds();
    bounds.interval = bounds.interval.filter(|_| shown.is_some());
    let verify = arguments.phases.verifies();
    let measurement = Measurement { phases, bounds, verify };
    let control = Control::connect(host, bounds.timeout, |address| {
        complain(&format!("waiting for a server at {address}: start `xdp-perf` there"));
    })?;
    let mut is_first = true;
    let begin = |with: &_, phase| {
        let Some(operation) = shown else { return Ok(()) };
        let heading = std::mem::take(&mut is_first).then(|| text::heading(with, host));
        print(&(heading.unwrap_or_default() + &text::phase(phase, operation)))
    };
    let mut observer = |interval: Interval| print(&text::interval(interval));
    let config = arguments.config(provider);
    match &config {
        PerfConfig::Messages(one) => session::run::<FabricTransport>(
            control,
            (one, &config),
            measurement,
            begin,
            &mut observer,
        ),
        PerfConfig::OneSided(one) => {
            session::run::<RmaTransport>(control, (one, &config), measurement, begin, &mut observer)
        }
    }
}
