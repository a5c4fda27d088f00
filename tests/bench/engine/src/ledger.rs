// SPDX-License-Identifier: MIT OR Apache-2.0
//! The instruction ledger (`instructions.toml`), and the gate that holds the engine to it.
//!
//! In: counts. Out: the file, or the rows that cost more than the ledger says. The margin,
//! [`MARGIN`], is for other compilers. A change that costs more must record the new count
//! (`cargo xtask bench engine --record`), and give the reason in its commit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::callgrind;
use crate::workload::Workload;
use crate::worst_case::Case;

/// The part by which a count may exceed the ledger.
const MARGIN: f64 = 0.03;

/// Workloads that are counted as a whole, both sides together.
const WHOLE: [Workload; 5] = [
    Workload::PingPong,
    Workload::Singles,
    Workload::Messages,
    Workload::Bulk,
    Workload::KernelBulk,
];

/// Instructions, by name.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
pub(crate) struct Ledger {
    /// For one operation of a workload, both sides together.
    operations: BTreeMap<String, f64>,
    /// For one packet of a workload, both sides together.
    packets: BTreeMap<String, f64>,
    /// For one call on a hot path.
    paths: BTreeMap<String, f64>,
    /// For each of the most expensive calls, and for the usual ones.
    worst: BTreeMap<String, f64>,
}

impl Ledger {
    /// Counts everything. Takes half a minute.
    ///
    /// # Errors
    /// When valgrind is not installed or fails.
    pub(crate) fn count() -> Result<Self> {
        let mut ledger = Self::default();
        for workload in WHOLE {
            let cost = callgrind::count(workload)?;
            let name = workload.name().to_owned();
            // Messages that share packets are counted by the message, longer ones by the packet.
            if workload == Workload::Messages {
                ledger.operations.insert(name, cost.per_operation.round());
            } else {
                ledger.packets.insert(name, cost.per_packet.round());
            }
        }
        for (name, cost) in callgrind::count_paths()?.into_iter().chain(callgrind::count_reads()?) {
            ledger.paths.insert(name.to_owned(), cost.round());
        }
        for case in Case::ALL {
            ledger.worst.insert(case.name().to_owned(), callgrind::count_worst(case)?);
        }
        Ok(ledger)
    }

    /// Reads the ledger at `path`.
    ///
    /// # Errors
    /// When it cannot be read or is not understood.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not understood", path.display()))
    }

    /// Writes the ledger.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, self.text()).with_context(|| format!("cannot write {}", path.display()))
    }

    fn text(&self) -> String {
        let mut text = String::from(
            "# Instructions of the engine, by callgrind (docs/TESTING.md, Cost of the engine).\n\
             # Written by `cargo xtask bench engine --record`; the stage `instructions` fails\n\
             # where one is exceeded by more than 3 %.\n",
        );
        for (title, about, costs) in self.sections() {
            let _ = write!(text, "\n# {about}\n[{title}]\n");
            for (name, cost) in costs {
                let _ = writeln!(text, "{name} = {cost:.1}");
            }
        }
        text
    }

    fn sections(&self) -> [(&'static str, &'static str, &BTreeMap<String, f64>); 4] {
        [
            ("operations", "An operation, both sides together.", &self.operations),
            ("packets", "A packet, both sides together.", &self.packets),
            ("paths", "A call on a hot path; with a marker around it, some 10.", &self.paths),
            (
                "worst",
                "One of the most expensive packets and receives, or a usual one.",
                &self.worst,
            ),
        ]
    }

    /// A line for each count beside that of the ledger, and whether all are within the margin.
    pub(crate) fn compare(&self, written: &Self) -> (String, bool) {
        let (mut text, mut within) = (String::new(), true);
        for ((title, _, costs), (_, _, before)) in
            self.sections().into_iter().zip(written.sections())
        {
            for (name, &cost) in costs {
                let judgement = match before.get(name) {
                    None => "not written down",
                    Some(&before) if cost > before * (1.0 + MARGIN) => "TOO MUCH",
                    Some(&before) if cost < before * (1.0 - MARGIN) => "less: write it down",
                    Some(_) => "",
                };
                within &= !matches!(judgement, "TOO MUCH" | "not written down");
                let known = before.get(name).map_or_else(String::new, |cost| format!("{cost:.0}"));
                let line = format!("{title:<11} {name:<16} {cost:>7.0} {known:>7}  {judgement}");
                let _ = writeln!(text, "{}", line.trim_end());
            }
            for name in before.keys().filter(|name| !costs.contains_key(*name)) {
                within = false;
                let _ = writeln!(text, "{title:<11} {name:<16} is written down, not counted");
            }
        }
        within &= self.compare_worst(&mut text);
        (text, within)
    }

    /// A line for each of the most expensive calls beside the usual one, and whether all are within
    /// their limits.
    fn compare_worst(&self, text: &mut String) -> bool {
        let mut within = true;
        for case in Case::ALL {
            let cost = |case: Case| self.worst.get(case.name());
            let (Some(&cost), Some(&usual)) = (cost(case), cost(case.usual())) else { continue };
            let (ratio, limit) = (cost / usual, case.limit());
            let judgement = if ratio > limit { "TOO MUCH" } else { "" };
            within &= ratio <= limit;
            let name = case.name();
            let line = format!("multiple    {name:<16} {ratio:>7.1} {limit:>7.0}  {judgement}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
        within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(cost: f64) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.packets.insert(String::from("ping-pong"), cost);
        ledger.paths.insert(String::from("post_send"), 100.0);
        ledger
    }

    #[test]
    fn three_in_a_hundred_more_pass_and_no_more() {
        let written = ledger(1000.0);
        assert!(ledger(1030.0).compare(&written).1);
        let (text, within) = ledger(1031.0).compare(&written);
        assert!(!within && text.contains("TOO MUCH"), "{text}");
        let (text, within) = ledger(900.0).compare(&written);
        assert!(within && text.contains("write it down"), "{text}");
    }

    #[test]
    fn a_row_missing_on_either_side_fails() {
        let mut more = ledger(1000.0);
        more.paths.insert(String::from("cq_read"), 7.0);
        assert!(!more.compare(&ledger(1000.0)).1);
        assert!(!ledger(1000.0).compare(&more).1);
    }

    #[test]
    fn a_multiple_above_its_limit_fails() {
        let mut ledger = ledger(1000.0);
        ledger.worst.insert(String::from("packet"), 800.0);
        ledger.worst.insert(String::from("hole"), 40_000.0);
        assert!(ledger.compare(&ledger.clone()).1);
        ledger.worst.insert(String::from("hole"), 40_001.0);
        let (text, within) = ledger.compare(&ledger.clone());
        assert!(!within && text.contains("TOO MUCH"), "{text}");
    }

    #[test]
    fn a_ledger_survives_its_file() {
        let ledger = ledger(1234.0);
        assert_eq!(toml::from_str::<Ledger>(&ledger.text()).unwrap(), ledger);
    }
}
