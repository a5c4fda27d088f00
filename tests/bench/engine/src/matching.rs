// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of a message among many posted receives or stored messages.
//!
//! In: the command line (`cargo xtask bench matching`). Out: for each pattern and each depth the
//! time of a message, sent, received and matched, and a table with the targets; a missed target is
//! a failure. Two engines in memory, as in the other suites; a message has a tag of its own, which
//! is drawn at random among those of the depth. It is a program of its own, because more calls keep
//! the compiler from inlining as it does in `main.rs`. Bound: the rounds.

mod line;
mod mark;
#[allow(dead_code, reason = "`main.rs` needs more of it")]
mod pair;
#[allow(dead_code, reason = "`main.rs` needs more of it")]
mod record;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant as Clock;

use anyhow::{Result, ensure};
use clap::Parser;
use comfy_table::{CellAlignment, Table, presets};
use ofi_xdp_core::{Budget, Config, PeerId, TagMatch};

use crate::pair::Pair;
use crate::record::Record;

/// Posted receives or stored messages.
const DEPTHS: [u64; 4] = [10, 100, 1_000, 10_000];
/// The most that a message costs at the greatest depth, in units of the cost at the least.
const RATIO_MAX: f64 = 2.0;
/// Messages of a round.
const MESSAGES: u64 = 10_000;
/// Rounds, of which the fastest counts.
const ROUNDS: usize = 9;
/// Messages that are sent before the receiver polls.
const BATCH: u64 = 8;
/// Bytes of a message.
const LEN: u64 = 8;
/// Bits that MPI implementations ignore in each receive, for their own protocols.
const PROTOCOL_BITS: u64 = 3 << 60;

/// Measures a message among 10 to 10,000 posted receives and stored messages.
#[derive(Debug, Parser)]
#[command(name = "ofi-xdp-engine-matching")]
struct Cli {
    /// Fewer rounds
    #[arg(long)]
    quick: bool,
    /// Where the records go
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let Cli { quick, out } = Cli::parse();
    let (records, missed) = measure(quick)?;
    println!("{}", times(&records));
    println!("\n{}", table(&records));
    if let Some(out) = out {
        record::write(&out, &records)?;
    }
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The waiting receives or messages, and the way in which they match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pattern {
    /// Receives of one source and one tag, posted before their messages.
    PostedExact,
    /// Receives of one tag from any source.
    PostedAnySource,
    /// Receives with some ignored bits, as MPI posts them.
    PostedMpi,
    /// Receives of MPI, and messages in their reverse order.
    PostedReverse,
    /// Messages of one source and one tag, stored before their receives.
    StoredExact,
    /// Stored messages, and receives from any source.
    StoredAnySource,
    /// Stored messages, and receives with some ignored bits.
    StoredMpi,
}

impl Pattern {
    const ALL: [Self; 7] = [
        Self::PostedExact,
        Self::PostedAnySource,
        Self::PostedMpi,
        Self::PostedReverse,
        Self::StoredExact,
        Self::StoredAnySource,
        Self::StoredMpi,
    ];

    /// As in the report.
    const fn name(self) -> &'static str {
        match self {
            Self::PostedExact => "posted-exact",
            Self::PostedAnySource => "posted-any-source",
            Self::PostedMpi => "posted-mpi",
            Self::PostedReverse => "posted-reverse",
            Self::StoredExact => "stored-exact",
            Self::StoredAnySource => "stored-any-source",
            Self::StoredMpi => "stored-mpi",
        }
    }

    const fn is_stored(self) -> bool {
        matches!(self, Self::StoredExact | Self::StoredAnySource | Self::StoredMpi)
    }

    /// The source and tags of the receive for `tag`.
    fn wanted(self, peer: PeerId, tag: u64) -> (Option<PeerId>, TagMatch) {
        let any = matches!(self, Self::PostedAnySource | Self::StoredAnySource);
        let mpi = matches!(self, Self::PostedMpi | Self::PostedReverse | Self::StoredMpi);
        let ignore = if mpi { PROTOCOL_BITS } else { 0 };
        ((!any).then_some(peer), TagMatch { tag, ignore })
    }
}

/// Pseudorandom numbers, the same in each run (Marsaglia, "Xorshift RNGs", 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// One pattern at one depth.
struct Bench {
    pair: Pair,
    pattern: Pattern,
    depth: u64,
    random: Random,
    sent: u64,
}

impl Bench {
    /// A pair in which as many receives or messages wait as the depth says.
    fn new(pattern: Pattern, depth: u64) -> Result<Self> {
        let config = Config { recvs: 16 << 10, unexpected: [16 << 10, 0, 0, 0], ..pair::config() };
        let pair = Pair::with(&config)?;
        let mut bench = Self { pair, pattern, depth, random: Random(0x9e37_79b9), sent: 0 };
        for tag in 0..depth {
            if pattern.is_stored() {
                bench.send(tag)?;
            } else {
                bench.recv(tag)?;
            }
        }
        bench.await_acks()?;
        Ok(bench)
    }

    fn recv(&mut self, tag: u64) -> Result<()> {
        let (from, wanted) = self.pattern.wanted(self.pair.nodes[1].peer, tag);
        self.pair.recv_tagged(1, tag, from, Some(wanted))
    }

    fn send(&mut self, tag: u64) -> Result<()> {
        self.pair.send_tagged(0, tag, (LEN, Some(tag)), false)?;
        self.sent += 1;
        self.pair.drive(0, Budget::PROGRESS)?;
        if self.sent.is_multiple_of(BATCH) {
            self.await_acks()?;
        }
        Ok(())
    }

    /// Drives both sides until all messages are acknowledged.
    fn await_acks(&mut self) -> Result<()> {
        let mut idle = 0;
        while self.sent > 0 {
            for side in [1, 0] {
                self.pair.drive(side, Budget::PROGRESS)?;
            }
            while self.pair.sent(0)? {
                self.sent -= 1;
            }
            idle += 1;
            Pair::check_progress(idle)?;
        }
        Ok(())
    }

    /// Nanoseconds of a message, over a round.
    fn round(&mut self) -> Result<f64> {
        let start = Clock::now();
        for number in 0..MESSAGES {
            let tag = match self.pattern {
                Pattern::PostedReverse => self.depth - 1 - number % self.depth,
                _ => self.random.below(self.depth),
            };
            if self.pattern.is_stored() {
                self.recv(tag)?;
                self.send(tag)?;
                self.await_acks()?;
                ensure!(self.pair.received(1)?.is_some(), "message {tag} was not stored");
            } else {
                self.send(tag)?;
                self.await_acks()?;
                let received = self.pair.received(1)?;
                ensure!(received.is_some_and(|(found, _)| found == tag), "message {tag} is lost");
                self.recv(tag)?;
            }
        }
        Ok(start.elapsed().as_nanos() as f64 / MESSAGES as f64)
    }
}

/// The time of a message, for each pattern and depth; and whether a target was missed.
///
/// # Errors
/// When the engines stand still, or a message finds another receive than its own.
fn measure(quick: bool) -> Result<(Vec<Record>, bool)> {
    let rounds = if quick { 3 } else { ROUNDS };
    let mut records = Vec::new();
    for pattern in Pattern::ALL {
        for depth in DEPTHS {
            let mut bench = Bench::new(pattern, depth)?;
            bench.round()?;
            let times = (0..rounds).map(|_| bench.round()).collect::<Result<Vec<_>>>()?;
            let what = ("message_time", "ns");
            let record = Record::new((pattern.name(), depth), what, &times);
            records.push(Record { suite: "matching", ..record });
        }
    }
    let missed = Pattern::ALL.iter().any(|pattern| ratio(&records, *pattern) > RATIO_MAX);
    Ok((records, missed))
}

/// The cost at the greatest depth, in units of that at the least. The fastest rounds are compared.
fn ratio(records: &[Record], pattern: Pattern) -> f64 {
    let low = |depth| {
        let found = records.iter().find(|r| r.mode == pattern.name() && r.size_bytes == depth);
        found.map_or(f64::NAN, |record| record.low)
    };
    low(DEPTHS[DEPTHS.len() - 1]) / low(DEPTHS[0])
}

/// A row for each pattern, a column for each depth: the fastest round in ns.
fn times(records: &[Record]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let depths = DEPTHS.iter().map(|depth| format!("among {depth}"));
    table.set_header(std::iter::once(String::from("ns a message")).chain(depths));
    for pattern in Pattern::ALL {
        let row = records.iter().filter(|record| record.mode == pattern.name());
        let lows = row.map(|record| format!("{:.0}", record.low));
        table.add_row(std::iter::once(pattern.name().to_owned()).chain(lows));
    }
    table.to_string()
}

/// A row for each target.
fn table(records: &[Record]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["10,000 against 10", "ratio", "target", ""]);
    for pattern in Pattern::ALL {
        let ratio = ratio(records, pattern);
        let met = if ratio <= RATIO_MAX { "met" } else { "MISSED" };
        let (ratio, target) = (format!("{ratio:.2}"), format!("≤ {RATIO_MAX:.0}"));
        table.add_row([pattern.name(), &ratio, &target, met]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_matches_each_message_with_its_own_receive() {
        for pattern in Pattern::ALL {
            let mut bench = Bench::new(pattern, 100).unwrap();
            bench.round().unwrap();
            let engine = &bench.pair.nodes[1].engine;
            let waiting =
                if pattern.is_stored() { engine.has_stored() } else { !engine.has_stored() };
            assert!(waiting, "{pattern:?}");
        }
    }
}
