// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of the engine: two of them in memory on one core, driven by the loop of production.
//!
//! In: the command line (`cargo xtask bench engine` calls `measure`). Out: a table, and
//! `target/bench/engine.json`. `instructions` fails if a row costs more than the ledger says. It
//! also fails if one of the most expensive calls costs more than its multiple of the usual one.
//! Nothing is allocated during a measurement, and time is a number: instructions repeat exactly.

mod callgrind;
mod ledger;
mod line;
mod many_peers;
mod mark;
mod pair;
mod record;
mod remote;
mod targets;
mod workload;
mod worst_case;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Parser, Subcommand};
use comfy_table::{CellAlignment, Table, presets};

use crate::callgrind::Instructions;
use crate::ledger::Ledger;
use crate::pair::Pair;
use crate::record::Record;
use crate::workload::Workload;

/// Measures the engine without a network.
#[derive(Debug, Parser)]
#[command(name = "ofi-xdp-engine-bench")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Rates, times and instructions of every workload
    Measure {
        /// One short round each
        #[arg(long)]
        quick: bool,
        /// Where the records go
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// A simulator; its measured targets are part of the table
        #[arg(long, value_name = "PROGRAM")]
        simulator: Option<PathBuf>,
    },
    /// Instructions of the workloads and of each hot path, beside those that are written down;
    /// fails where one costs more
    Instructions {
        /// The file of the ledger
        #[arg(long, value_name = "FILE")]
        ledger: PathBuf,
        /// Writes them down instead
        #[arg(long)]
        record: bool,
    },
    /// Where the instructions of one workload are, by file and by function
    Profile {
        #[arg(value_enum, default_value_t = Workload::PingPong)]
        workload: Workload,
    },
    /// Messages to one peer, and to ten thousand in turn: records in JSON
    Peers {
        /// Fewer rounds, shorter
        #[arg(long)]
        quick: bool,
        /// Only one case, by its name in the records, for a profile
        #[arg(long, value_name = "MODE")]
        only: Option<String>,
    },
    /// Does COUNT operations of one kind and prints operations, data packets, acknowledgments
    Work {
        #[arg(value_enum)]
        workload: Workload,
        count: u64,
    },
}

fn main() -> Result<ExitCode> {
    match Cli::parse().task {
        Task::Measure { quick, out, simulator } => {
            let mut records = Vec::new();
            for workload in Workload::ALL {
                records.extend(measure(workload, quick)?);
            }
            let targets = simulator.map(|program| targets::of(&program)).transpose()?;
            print_records(&records);
            if let Some(targets) = &targets {
                println!("\nmeasured in the simulator:\n{}", targets.table);
                records.extend_from_slice(&targets.records);
            }
            if let Some(out) = out {
                record::write(&out, &records)?;
                println!("\n{}", out.display());
            }
            let missed = targets.is_some_and(|targets| !targets.met);
            Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Task::Instructions { ledger, record } => {
            let counted = Ledger::count()?;
            if record {
                counted.write(&ledger)?;
                println!("{} is written", ledger.display());
                return Ok(ExitCode::SUCCESS);
            }
            let (text, within) = counted.compare(&Ledger::read(&ledger)?);
            println!("instructions                  counted written");
            print!("{text}");
            if !within {
                println!(
                    "if it must be so: `cargo xtask bench engine --record`, and the reason in the \
                     commit"
                );
            }
            Ok(if within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Task::Profile { workload } => {
            print_profile(workload, &callgrind::count(workload)?);
            Ok(ExitCode::SUCCESS)
        }
        Task::Peers { quick, only } => {
            println!("{}", serde_json::to_string(&many_peers::measure(quick, only.as_deref())?)?);
            Ok(ExitCode::SUCCESS)
        }
        Task::Work { workload, count } => {
            let work = workload.run(&mut workload.pair()?, count)?;
            println!("{} {} {}", work.operations, work.data_packets, work.acks);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Rounds of one workload, each so long that a reading of the clock costs nothing in comparison.
fn measure(workload: Workload, quick: bool) -> Result<Vec<Record>> {
    let (rounds, least) =
        if quick { (3, Duration::from_millis(50)) } else { (7, Duration::from_millis(300)) };
    let mut pair = workload.pair()?;
    let mut count = 10_000;
    while time(workload, &mut pair, count)? < least {
        count *= 2;
    }
    let mut seconds = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        seconds.push(time(workload, &mut pair, count)?.as_secs_f64() / count as f64);
    }
    let what = (workload.name(), workload.len());
    let mut records = copies(workload, &mut pair, count)?;
    let cost = callgrind::count(workload)?;
    let each = |of: &dyn Fn(f64) -> f64| seconds.iter().map(|&s| of(s)).collect::<Vec<f64>>();
    records.extend([
        Record::new(what, ("message_rate", "1/s"), &each(&|s| 1.0 / s)),
        Record::new(what, ("message_time", "ns"), &each(&|s| s * 1e9)),
        Record::new(what, ("bandwidth", "B/s"), &each(&|s| workload.len() as f64 / s)),
        Record::new(what, ("instructions_per_message", "1"), &[cost.per_operation]),
        Record::new(what, ("instructions_per_packet", "1"), &[cost.per_packet]),
    ]);
    Ok(records)
}

/// The number of copies of a message's bytes on the way out and on the way in, and the time of two
/// copies.
fn copies(workload: Workload, pair: &mut Pair, count: u64) -> Result<Vec<Record>> {
    let before = pair.copied();
    workload.run(pair, count)?;
    let after = pair.copied();
    let bytes = (count * workload.len()) as f64;
    let share = |after: u64, before: u64| [(after - before) as f64 / bytes];
    let what = (workload.name(), workload.len());
    let gathered = share(after.gathered, before.gathered);
    let placed = share(after.placed, before.placed);
    let len = usize::try_from(workload.len())?;
    let (from, mut to) = (vec![7_u8; COPY_AREA], vec![0_u8; COPY_AREA]);
    let start = Instant::now();
    for number in 0..COPY_COUNT {
        let at = number * len % (COPY_AREA - len);
        to[at..at + len].copy_from_slice(std::hint::black_box(&from[at..at + len]));
    }
    let nanos = start.elapsed().as_secs_f64() * 1e9 / COPY_COUNT as f64;
    std::hint::black_box(&to);
    Ok(vec![
        Record::new(what, ("bytes_gathered", "1"), &gathered),
        Record::new(what, ("bytes_placed", "1"), &placed),
        Record::new(what, ("copy_time", "ns"), &[2.0 * nanos]),
    ])
}

/// Where bytes are copied for comparison: as much as the buffers of a workload; and how often.
const COPY_AREA: usize = 2 << 20;
const COPY_COUNT: usize = 20_000;

fn time(workload: Workload, pair: &mut Pair, count: u64) -> Result<Duration> {
    let start = Instant::now();
    workload.run(pair, count)?;
    Ok(start.elapsed())
}

fn print_records(records: &[Record]) {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["work", "bytes", "metric", "median", "low", "high", "unit"]);
    for record in records {
        let number =
            |value: f64| if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") };
        table.add_row([
            record.mode.to_owned(),
            record.size_bytes.to_string(),
            record.metric.clone(),
            number(record.median),
            number(record.low),
            number(record.high),
            record.unit.to_owned(),
        ]);
    }
    for column in [1, 3, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}");
}

fn print_profile(workload: Workload, cost: &Instructions) {
    println!(
        "{}: {:.0} instructions a packet sent, received and acknowledged, {:.0} an operation",
        workload.name(),
        cost.per_packet,
        cost.per_operation
    );
    for (title, list) in [("file", &cost.files), ("function", &cost.functions)] {
        println!("\nby {title}:");
        for (name, instructions) in list.iter().take(25) {
            println!("{instructions:>8.1}  {name}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }
}
