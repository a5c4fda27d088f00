// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ofi-xdp-lab`: two hosts, the provider against its peers, one report. `cargo xtask run` and
//! `cargo xtask bench` build everything and call it.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use ofi_xdp_tests::lab::{
    Contestant, Field, Results, Suite, XdpMode, contestants, introduce, run, serve,
};
use ofi_xdp_tests::report::{self, Metric};
use ofi_xdp_tests::{conformance, interrupt, netns, paths, plot, table};

/// Latency and message rate of the provider `xdp`, beside those of its peers.
#[derive(Debug, Parser)]
#[command(name = "ofi-xdp-lab", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Ping-pong and stream between two hosts, a table, a report and pictures (target/run)
    Run(RunArguments),
    /// One suite of benchmarks, or all (target/bench)
    Bench(BenchArguments),
    /// The conformance suite between two hosts, over AF_XDP
    Conformance {
        /// The suite
        program: PathBuf,
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Fewer sizes and rounds: a quarter of a minute
    #[arg(long)]
    quick: bool,
    /// How the provider's packets travel
    #[arg(long, value_enum, default_value = "auto")]
    mode: XdpMode,
    /// Use this interface, and another machine, instead of two hosts made of namespaces
    #[arg(long, value_name = "INTERFACE")]
    nic: Option<String>,
    /// The other machine's address; `run --serve` runs there
    #[arg(long, value_name = "IP", requires = "nic", conflicts_with = "serve")]
    peer: Option<IpAddr>,
    /// Be the other machine
    #[arg(long, requires = "nic")]
    serve: bool,
}

#[derive(Debug, Args)]
struct BenchArguments {
    /// latency, rate or bandwidth; all of them if none is named
    #[arg(value_parser = ["latency", "rate", "bandwidth"])]
    suite: Option<String>,
    /// Fewer rounds, shorter
    #[arg(long)]
    quick: bool,
    /// How the provider's packets travel
    #[arg(long, value_enum, default_value = "auto")]
    mode: XdpMode,
}

fn main() -> ExitCode {
    let task = Cli::parse().task;
    let outcome = interrupt::install().and_then(|()| match &task {
        Task::Run(arguments) => main_job(arguments),
        Task::Bench(arguments) => bench(arguments),
        Task::Conformance { program, arguments } => {
            let status = conformance::run(program, arguments)?;
            Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    });
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ofi-xdp-lab: {error:#}");
            // As a shell reports a program that SIGINT ended.
            if interrupt::check().is_err() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

fn main_job(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let field = match (&arguments.nic, arguments.peer) {
        (Some(nic), None) if arguments.serve => {
            serve(nic, arguments.mode)?;
            return Ok(ExitCode::SUCCESS);
        }
        (Some(_), None) => anyhow::bail!("--nic needs --peer IP, or --serve on the other machine"),
        (Some(nic), Some(peer)) => Field::Machine { nic: nic.clone(), peer },
        (None, _) => two_hosts()?,
    };
    let suite = Suite::run(arguments.quick);
    let results = measure(&suite, &field, arguments.mode)?;
    drop(field);

    println!("half round trip of 8 bytes, and 8-byte messages in windows of 64:\n");
    println!("{}\n", table::summary(&results, 8, 8));
    let folder = paths::workspace().join("target/run");
    let report = folder.join("report.json");
    report::write(&report, &results.records())?;
    let mut written = vec![report];
    written.extend(plot::distribution(&results, 8, &folder.join("latency"))?);
    written.extend(plot::by_size(&results, &folder.join("latency-by-size"))?);
    say_where(&written);
    Ok(verdict(&results))
}

fn bench(arguments: &BenchArguments) -> anyhow::Result<ExitCode> {
    let field = two_hosts()?;
    let names = match &arguments.suite {
        Some(name) => vec![name.as_str()],
        None => vec!["latency", "rate", "bandwidth"],
    };
    let mut code = ExitCode::SUCCESS;
    for suite in names.into_iter().filter_map(|name| Suite::bench(name, arguments.quick)) {
        let results = measure(&suite, &field, arguments.mode)?;
        let metrics: &[Metric] = match suite.name {
            "latency" => &[Metric::HalfRttP50, Metric::HalfRttP99],
            "rate" => &[Metric::MessageRate],
            _ => &[Metric::Bandwidth],
        };
        for metric in metrics {
            println!("{}: {metric:?}\n{}\n", suite.name, table::detail(&results, *metric));
        }
        if suite.name == "latency" {
            print_targets(&results);
        }
        let path = paths::workspace().join(format!("target/bench/{}.json", suite.name));
        report::write(&path, &results.records())?;
        say_where(&[path]);
        if verdict(&results) != ExitCode::SUCCESS {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

/// Two hosts, on a machine rid of what killed runs left.
fn two_hosts() -> anyhow::Result<Field> {
    netns::sweep()?;
    Field::two_hosts()
}

/// Introduces the provider, then measures everybody.
fn measure(suite: &Suite, field: &Field, mode: XdpMode) -> anyhow::Result<Results> {
    let mut all: Vec<Contestant> = contestants(mode);
    let seen = introduce(field, &all[0]);
    interrupt::check()?;
    match seen {
        Ok(way) => all[0].mode = way,
        Err(error) => eprintln!("xdp: {error:#}\n"),
    }
    run(suite, field, all)
}

/// The speed that is aimed at, as information: a time on a shared machine decides nothing.
fn print_targets(results: &Results) {
    let p50 = |peer| results.find(peer, None)?.median(Metric::HalfRttP50, 8);
    for (peer, most) in [("raw-af_xdp", 2.0), ("tcp", 0.5)] {
        match p50("xdp").zip(p50(peer)) {
            Some((xdp, other)) => {
                let mark = if xdp <= most * other { "met" } else { "missed" };
                println!("target: xdp ≤ {most} × {peer}: {:.3} × ({mark})", xdp / other);
            }
            None => println!("target: xdp ≤ {most} × {peer}: not measured"),
        }
    }
    println!();
}

fn say_where(files: &[PathBuf]) {
    for file in files {
        println!("wrote {}", file.display());
    }
}

/// Failed sessions, told; failure if `xdp` had one.
fn verdict(results: &Results) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for series in results.series.iter().filter(|series| !series.failures.is_empty()) {
        let (label, count) = (series.contestant.label(), series.failures.len());
        eprintln!("{label}: {count} of {} rounds failed; the last:", results.suite.rounds);
        eprintln!("  {}", series.failures[count - 1]);
        if series.contestant.peer == "xdp" {
            code = ExitCode::FAILURE;
        }
    }
    code
}
