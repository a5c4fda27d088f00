// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ofi-xdp-sim`: runs of the simulator by hand and in CI.

use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use ofi_xdp_sim::corpus::STORIES;
use ofi_xdp_sim::coverage::Transition;
use ofi_xdp_sim::scenario::Scenario;
use ofi_xdp_sim::share::{self, Bottleneck};
use ofi_xdp_sim::swarm::{Failure, Sums, shrink};
use ofi_xdp_sim::trace::Trace;
use ofi_xdp_sim::{measure, run, swarm};
use std::fs::File;
use std::io::{BufWriter, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// From so many seeds on, a transition that was never taken fails a swarm.
const COVERAGE_SEEDS: u64 = 2_000;
/// Where the table of goodput lies.
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots/goodput.md");

/// The deterministic simulator.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One run, the same each time.
    Run(RunArgs),
    /// Many runs by lot.
    Swarm(SwarmArgs),
    /// The stories with names.
    Corpus {
        /// Only stories with this in their names.
        name: Option<String>,
    },
    /// Goodput over loss, round trip and message length.
    Table {
        /// Replaces the snapshot.
        #[arg(long)]
        write: bool,
    },
    /// Shares of a bottleneck: beside cross traffic, or of streams with different round trips.
    Shares {
        /// Beside cross traffic.
        #[arg(long)]
        beside: bool,
        /// Only rates up to so many gigabits per second.
        #[arg(long, default_value_t = 100)]
        gigabits: u64,
        /// Only round trips up to so many microseconds.
        #[arg(long, default_value_t = 10_000)]
        round_trip: u64,
    },
    /// The targets, as JSON; fails where one is missed.
    Targets,
}

#[derive(Args)]
struct RunArgs {
    /// The seed.
    #[arg(long)]
    seed: u64,
    /// Prints every packet.
    #[arg(long)]
    trace: bool,
    /// Writes every packet to this file.
    #[arg(long)]
    pcap: Option<PathBuf>,
    /// Reads the scenario from this file; else it is the swarm's for the seed.
    #[arg(long)]
    scenario: Option<PathBuf>,
}

#[derive(Args)]
struct SwarmArgs {
    /// For so long.
    #[arg(long, conflicts_with = "seeds")]
    minutes: Option<f64>,
    /// So many seeds.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// From this one on.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Goes on after failures, and lists them without shrinking.
    #[arg(long)]
    keep_going: bool,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Run(args) => run_one(&args),
        Command::Swarm(args) => run_swarm(&args),
        Command::Corpus { name } => run_corpus(name.as_deref().unwrap_or("")),
        Command::Table { write } => {
            let table = measure::goodput_table()?;
            print!("{table}");
            if write {
                std::fs::write(TABLE, table).context("cannot write the snapshot")?;
            }
            Ok(())
        }
        Command::Shares { beside: true, gigabits, .. } => shares_beside(gigabits * 1_000_000_000),
        Command::Shares { gigabits, round_trip, .. } => {
            shares_among(gigabits * 1_000_000_000, round_trip)
        }
        Command::Targets => {
            let targets = measure::targets()?;
            println!("{}", serde_json::to_string_pretty(&targets)?);
            if targets.missed.is_empty() { Ok(()) } else { bail!("{}", targets.missed.join("; ")) }
        }
    }
}

/// Prints the shares of one stream beside cross traffic.
fn shares_beside(rate_max: u64) -> Result<()> {
    println!(
        "| Gb/s | queue, ms | others | connected | used | least own | least other | sent again |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for rate in share::BESIDE_RATES.into_iter().filter(|rate| *rate <= rate_max) {
        for queue_us in share::BESIDE_QUEUES {
            for (cross, late) in [(1, false), (1, true), (8, false), (8, true)] {
                let one =
                    Bottleneck { late, ..Bottleneck::beside(rate, queue_us, cross, 8_000_000) };
                let shares = one.measure()?;
                let (own, other) = shares.least();
                println!(
                    "| {} | {} | {cross} | {} | {:.3} | {own:.2} | {other:.2} | {} |",
                    rate as f64 / 1e9,
                    queue_us / 1_000,
                    if late { "late" } else { "before" },
                    shares.used(),
                    shares.again
                );
            }
        }
    }
    Ok(())
}

/// Prints the shares of the engine's streams.
fn shares_among(rate_max: u64, round_trip_max: u64) -> Result<()> {
    println!("| Gb/s | round trip, µs | streams | far | used | spread | sent again |");
    println!("|---|---|---|---|---|---|---|");
    for rate in share::RATES.into_iter().filter(|rate| *rate <= rate_max) {
        for round_trip in share::ROUND_TRIPS {
            for (streams, far) in
                share::STREAMS.iter().flat_map(|streams| [(*streams, 1), (*streams, 10)])
            {
                if round_trip * far > round_trip_max || (streams, far) == (1, 10) {
                    continue;
                }
                let shares = Bottleneck::among(rate, round_trip, streams, far).measure()?;
                println!(
                    "| {} | {round_trip} | {streams} | {far} | {:.3} | {:.2} | {} |",
                    rate / 1_000_000_000,
                    shares.used(),
                    shares.spread(),
                    shares.again
                );
            }
        }
    }
    Ok(())
}

fn run_one(args: &RunArgs) -> Result<()> {
    let scenario = match &args.scenario {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            toml::from_str(&text).with_context(|| format!("{} is no scenario", path.display()))?
        }
        None => Scenario::swarm(args.seed),
    };
    let mut trace = Trace::default();
    if args.trace {
        trace.text = Some(Box::new(BufWriter::new(stdout())));
    }
    if let Some(path) = &args.pcap {
        let file =
            File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        trace.capture(Box::new(BufWriter::new(file)))?;
    }
    println!("{}", scenario.to_toml()?);
    let report = run::run_traced(args.seed, &scenario, trace)?;
    println!(
        "digest {:016x}: {} packets in {:.6} s of virtual time",
        report.digest,
        report.packets,
        report.time as f64 / 1e9
    );
    Ok(())
}

fn run_swarm(args: &SwarmArgs) -> Result<()> {
    // A panic is a finding here; its text is in the violation.
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let end = args.minutes.map(|minutes| start + Duration::from_secs_f64(minutes * 60.0));
    let bar = progress(args);
    let mut sums = Sums::default();
    let mut failed = 0;
    for seed in args.first.. {
        let over = match end {
            Some(end) => Instant::now() >= end,
            None => seed - args.first >= args.seeds,
        };
        if over {
            break;
        }
        match swarm::one(seed) {
            Ok(report) => sums.add(&report),
            Err(violation) if args.keep_going => {
                failed += 1;
                bar.suspend(|| println!("seed {seed}: {violation}"));
            }
            Err(violation) => {
                bar.finish_and_clear();
                return report_failure(&shrink(seed, &Scenario::swarm(seed), &violation));
            }
        }
        bar.inc(1);
        if sums.runs.is_multiple_of(64) {
            let missing = sums.coverage.missing().count();
            let taken = Transition::ALL.len() - missing;
            bar.set_message(format!(
                "{taken} of {} transitions, {} packets lost",
                Transition::ALL.len(),
                sums.faults.lost
            ));
        }
    }
    bar.finish_and_clear();
    summary(&sums, start.elapsed());
    if failed > 0 {
        bail!("{failed} runs failed");
    }
    let missing: Vec<&str> = sums.coverage.missing().map(Transition::text).collect();
    if sums.runs >= COVERAGE_SEEDS && !missing.is_empty() {
        bail!("never taken in {} runs: {}", sums.runs, missing.join(", "));
    }
    Ok(())
}

fn progress(args: &SwarmArgs) -> ProgressBar {
    let bar = match args.minutes {
        Some(_) => ProgressBar::new_spinner(),
        None => ProgressBar::new(args.seeds),
    };
    let style = ProgressStyle::with_template("{elapsed} {bar:30} {pos} runs, {per_sec} {msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn summary(sums: &Sums, elapsed: Duration) {
    println!(
        "{} runs in {:.1} s ({:.0} runs/s), {} packets, {:.0} s of virtual time",
        sums.runs,
        elapsed.as_secs_f64(),
        sums.runs as f64 / elapsed.as_secs_f64(),
        sums.packets,
        sums.time as f64 / 1e9
    );
    for (name, count) in sums.faults.rows() {
        println!("  fault       {count:>10}  {name}");
    }
    for &transition in Transition::ALL {
        println!("  transition  {:>10}  {}", sums.coverage.count(transition), transition.text());
    }
}

fn report_failure(failure: &Failure) -> Result<()> {
    let path = format!("sim-{}.toml", failure.seed);
    let text = failure.scenario.to_toml()?;
    std::fs::write(&path, &text).with_context(|| format!("cannot write {path}"))?;
    println!("seed {}: {}", failure.seed, failure.original);
    println!("shrunk to:\n{text}");
    println!("which gives: {}", failure.violation);
    println!("again: ofi-xdp-sim run --seed {} --scenario {path} --trace", failure.seed);
    bail!("seed {} broke invariant {}", failure.seed, failure.original.invariant)
}

fn run_corpus(name: &str) -> Result<()> {
    let mut failed = Vec::new();
    for story in STORIES.iter().filter(|story| story.name.contains(name)) {
        let start = Instant::now();
        let outcome = (story.tell)();
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("ok    {:6.2} s  {}", seconds, story.name),
            Err(violation) => {
                println!("FAIL  {:6.2} s  {}: {violation}", seconds, story.name);
                failed.push(story.name);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}
