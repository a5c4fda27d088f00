// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite `lazy`: applications that read their completion queue at intervals.
//!
//! A cell is one transfer with the poll intervals of both sides. Out: an entry for each cell
//! and candidate, a table with a row a cell, and targets. A cell in which nothing arrives within
//! its bounds has no record: the table shows it as `none`.

use crate::measure::{Candidate, Entry, READ, TAGGED, WRITE};
use crate::report::{Metric, Record};
use crate::table::{cells as table_cells, new_table};
use ofi_xdp_harness::tier::XdpMode;

/// The suite's name.
pub(super) const SUITE: &str = "lazy";
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const SIZES: [usize; 3] = [64 * KIB, MIB, 64 * MIB];
/// Bytes of a small message, and most outstanding ones.
const SMALL: usize = 8;
const SMALL_DEPTH: usize = 64;
/// Poll intervals in µs, besides none.
const INTERVALS: [u64; 4] = [20, 100, 1000, 10_000];
const INTERVALS_QUICK: [u64; 3] = [100, 1000, 10_000];
const MODES: [XdpMode; 4] = [XdpMode::Auto, XdpMode::Skb, XdpMode::Copy, XdpMode::Udp];
const TCP: (&str, &str) = ("tcp", "spin");
/// The candidates, as records name them.
const COLUMNS: [(&str, &str, &str); 6] = [
    ("tcp", "tcp", "spin"),
    ("tcp;ofi_rxm", "tcp;ofi_rxm", "spin"),
    ("xdp auto", "xdp", "auto"),
    ("AF_XDP skb", "xdp", "skb"),
    ("AF_XDP copy", "xdp", "copy"),
    ("UDP tier", "xdp", "udp"),
];

/// The poll intervals of initiator and target in µs; `None`: the target calls nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Polling {
    initiator: u64,
    target: Option<u64>,
}

impl Polling {
    /// Both sides spin.
    const SPIN: Self = Self { initiator: 0, target: Some(0) };
    /// The target calls nothing.
    const NEVER: Self = Self { initiator: 0, target: None };

    fn label(self) -> String {
        let time = |us: u64| match us {
            0 => String::from("spin"),
            us if us.is_multiple_of(1000) => format!("{} ms", us / 1000),
            us => format!("{us} µs"),
        };
        match (self.initiator, self.target) {
            (initiator, Some(target)) if initiator == target => format!("both {}", time(target)),
            (0, Some(target)) => format!("target {}", time(target)),
            (initiator, Some(_)) => format!("initiator {}", time(initiator)),
            (_, None) => String::from("target never"),
        }
    }
}

/// One measurement of each candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cell {
    /// The program's transfer, and the report's operation.
    transfer: &'static str,
    size: usize,
    depth: usize,
    polling: Polling,
    metric: Metric,
}

impl Cell {
    fn operation(&self) -> &'static str {
        if self.transfer == "pingpong" { TAGGED } else { self.transfer }
    }

    /// The record's `polling`.
    fn polling(&self) -> String {
        format!("{} outstanding, {}", self.depth, self.polling.label())
    }

    /// The median of a candidate in this cell.
    fn median(&self, records: &[Record], (peer, mode): (&str, &str)) -> Option<f64> {
        let operation = Some(self.operation()).filter(|operation| *operation != TAGGED);
        let polling = self.polling();
        let found = records.iter().find(|one| {
            one.suite == SUITE
                && (one.peer.as_str(), one.mode.as_str()) == (peer, mode)
                && one.is(self.metric)
                && one.size_bytes == self.size
                && one.operation.as_deref() == operation
                && one.polling.as_deref() == Some(polling.as_str())
        });
        found.map(|one| one.median)
    }

    /// How many times as good as `tcp` a candidate is; 0 where only `tcp` moves anything, `None`
    /// where `tcp` moves nothing.
    fn gain(&self, records: &[Record], who: (&str, &str)) -> Option<f64> {
        let tcp = self.median(records, TCP).filter(|tcp| *tcp > 0.0)?;
        let own = self.median(records, who);
        Some(match self.metric {
            Metric::HalfRttP50 => own.map_or(0.0, |own| tcp / own),
            _ => own.map_or(0.0, |own| own / tcp),
        })
    }
}

/// All poll intervals of a transfer.
fn pollings(rma: bool, quick: bool) -> Vec<Polling> {
    let mut all = vec![Polling::SPIN];
    let intervals: &[u64] = if quick { &INTERVALS_QUICK } else { &INTERVALS };
    for us in intervals {
        all.push(Polling { initiator: *us, target: Some(*us) });
        if !quick {
            all.push(Polling { initiator: *us, target: Some(0) });
            all.push(Polling { initiator: 0, target: Some(*us) });
        }
    }
    if rma {
        all.push(Polling::NEVER);
    }
    all
}

/// The cells of a run.
fn cells(quick: bool) -> Vec<Cell> {
    let mut all = Vec::new();
    let transfers: &[&str] = if quick { &[WRITE, TAGGED] } else { &[TAGGED, WRITE, READ] };
    for transfer in transfers {
        for size in SIZES.into_iter().filter(|size| !quick || *size == MIB) {
            for depth in [1, 4].into_iter().filter(|depth| !quick || *depth == 4) {
                let metric = Metric::Bandwidth;
                let pollings = pollings(*transfer != TAGGED, quick).into_iter();
                all.extend(pollings.map(|polling| Cell { transfer, size, depth, polling, metric }));
            }
        }
    }
    if !quick {
        for (transfer, depth, metric) in
            [(TAGGED, SMALL_DEPTH, Metric::MessageRate), ("pingpong", 1, Metric::HalfRttP50)]
        {
            let cell = |polling| Cell { transfer, size: SMALL, depth, polling, metric };
            all.extend(pollings(false, quick).into_iter().map(cell));
        }
    }
    all
}

/// The entries: each cell of each candidate. Candidates share a link by peer and mode.
pub(super) fn entries(quick: bool) -> Vec<Entry> {
    let mut candidates = ["tcp", "tcp;ofi_rxm"].map(Candidate::provider).to_vec();
    candidates.extend(MODES.map(Candidate::xdp));
    let (time, grace) = if quick { ("400", "800") } else { ("300", "3000") };
    let mut entries = Vec::new();
    for cell in cells(quick) {
        let Polling { initiator, target } = cell.polling;
        let target = target.map_or_else(|| String::from("never"), |us| us.to_string());
        for candidate in &candidates {
            let arguments = [
                ["--transfer", cell.transfer],
                ["--size", &cell.size.to_string()],
                ["--depth", &cell.depth.to_string()],
                ["--every", &initiator.to_string()],
                ["--server-every", &target],
                ["--time", time],
                ["--grace", grace],
            ];
            let arguments = arguments.concat().into_iter().map(ToOwned::to_owned).collect();
            let candidate = candidate.clone().polling(cell.operation(), cell.polling());
            entries.push(Entry::new(candidate, arguments));
        }
    }
    entries
}

/// A row for each cell, a column for each candidate, with its ratio to `tcp`.
#[must_use]
pub fn lazy_table(records: &[Record], quick: bool) -> String {
    let mut header = vec!["", "bytes", "outstanding", "polls", "unit"];
    header.extend(COLUMNS.map(|(title, ..)| title));
    let mut table = new_table(&header);
    for cell in cells(quick) {
        let (factor, unit) = match cell.metric {
            Metric::Bandwidth => (1e9, "GB/s"),
            Metric::MessageRate => (1e6, "million/s"),
            _ => (1e3, "µs"),
        };
        let mut texts = vec![
            cell.operation().to_owned(),
            cell.size.to_string(),
            cell.depth.to_string(),
            cell.polling.label(),
            unit.to_owned(),
        ];
        for (_, peer, mode) in COLUMNS {
            let value = cell.median(records, (peer, mode)).map(|value| value / factor);
            let gain = cell.gain(records, (peer, mode)).filter(|_| (peer, mode) != TCP);
            texts.push(match (value, gain) {
                (None, _) => String::from("none"),
                (Some(value), None) => format!("{value:.3}"),
                (Some(value), Some(gain)) => format!("{value:.3} ({gain:.2}×)"),
            });
        }
        table.add_row(table_cells(texts));
    }
    format!("{table}\nnone: no offer, or nothing arrived within the bounds of the cell")
}

/// The figures of the targets, in words and as ratios, for each mode, operation and size.
///
/// The first is the ratio to `tcp` in the worst cell of those in which `tcp` moves something. The
/// second is the ratio of a target that calls nothing to one that spins.
pub(super) fn ratios(records: &[Record]) -> Vec<(String, f64)> {
    let measured = |cell: &Cell| {
        let polling = cell.polling();
        records.iter().any(|one| one.suite == SUITE && one.polling.as_ref() == Some(&polling))
    };
    let cells: Vec<Cell> = cells(false).into_iter().filter(measured).collect();
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for cell in &cells {
        if !groups.contains(&(cell.transfer, cell.size)) {
            groups.push((cell.transfer, cell.size));
        }
    }
    let mut rows = Vec::new();
    for (transfer, size) in groups {
        let group = || cells.iter().filter(|cell| (cell.transfer, cell.size) == (transfer, size));
        for mode in MODES.map(XdpMode::as_str) {
            let who = ("xdp", mode);
            let gains = group().filter_map(|cell| Some((cell.gain(records, who)?, cell)));
            let Some((gain, worst)) = gains.min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
            let what = format!("{transfer} {size} B: {mode} / tcp, worst: {}", worst.polling());
            rows.push((what, gain));
            let never = group().filter(|cell| cell.polling == Polling::NEVER).filter_map(|never| {
                let spin = Cell { polling: Polling::SPIN, ..*never }.median(records, who)?;
                Some(never.median(records, who).unwrap_or(0.0) / spin)
            });
            if let Some(least) = never.reduce(f64::min) {
                let what = format!("{transfer} {size} B, {mode}: target never / both spin");
                rows.push((what, least));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(who: Candidate, cell: &Cell, value: f64) -> Record {
        let who = who.polling(cell.operation(), cell.polling());
        Record::new(SUITE, &who, cell.size, cell.metric, &[value]).unwrap()
    }

    #[test]
    fn the_worst_cell_decides_and_none_is_no_zero_of_tcp() {
        let cells: Vec<Cell> = cells(true).into_iter().filter(|c| c.transfer == WRITE).collect();
        let mut records = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            if cell.polling != Polling::NEVER {
                records.push(record(Candidate::provider("tcp"), cell, 2e9));
            }
            records.push(record(Candidate::xdp(XdpMode::Udp), cell, 1e9 + index as f64 * 1e9));
        }
        let rows = ratios(&records);
        let of = |text: &str| rows.iter().find(|row| row.0.contains(text)).unwrap().1;
        assert_eq!(of("udp / tcp, worst: 4 outstanding, both spin"), 0.5);
        assert_eq!(of("auto / tcp"), 0.0, "it moves nothing where tcp does");
        assert_eq!(of("udp: target never / both spin"), 5.0);
        let table = lazy_table(&records, true);
        assert!(table.contains("1.000 (0.50×)") && table.contains("none"), "{table}");
    }

    #[test]
    fn a_quick_run_is_a_part_of_the_whole() {
        let all = cells(false);
        assert!(cells(true).iter().all(|cell| all.contains(cell)));
        assert_eq!(cells(true).len(), 9);
    }
}
