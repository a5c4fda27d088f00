// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two reports beside each other: each figure before and after.
//!
//! In: the records of two runs. Out: a table for the terminal, a page. Caller: the task `report`.
//! Bound: the records. Two runs are two machines or two hours: a figure is better or worse only
//! where no round of one run is within the rounds of the other.

use std::fmt::Write as _;

use crate::report::Record;
use crate::suites::html::{TABLE_END, document, escape, meanings, metric, number, table};
use crate::suites::table::{figure, scale};
use crate::table::{cells, new_table};

/// A figure in both runs.
#[derive(Clone, Copy, Debug)]
struct Change<'a> {
    before: &'a Record,
    after: &'a Record,
}

/// The effect of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Better,
    Worse,
    /// The rounds of the two runs overlap.
    Alike,
    /// One round, of a quantity that differs from round to round.
    OneRound,
}

/// The figures of two runs.
#[derive(Debug)]
pub struct Comparison<'a> {
    changes: Vec<Change<'a>>,
    /// Figures of one run alone.
    alone: usize,
}

impl<'a> Comparison<'a> {
    /// Pairs the figures of two runs.
    #[must_use]
    pub fn new(before: &'a [Record], after: &'a [Record]) -> Self {
        let pair = |after: &'a Record| {
            let before = before.iter().find(|one| is_same(one, after))?;
            Some(Change { before, after })
        };
        let changes: Vec<Change<'a>> = after.iter().filter_map(pair).collect();
        let alone = before.len() + after.len() - 2 * changes.len();
        Self { changes, alone }
    }

    /// Whether no figure is in both runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// One line: the number of figures by verdict.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |verdict| self.changes.iter().filter(|one| one.verdict() == verdict).count();
        format!(
            "{} figures: {} better, {} worse, {} alike, {} of one round; {} in one run only",
            self.changes.len(),
            count(Verdict::Better),
            count(Verdict::Worse),
            count(Verdict::Alike),
            count(Verdict::OneRound),
            self.alone
        )
    }

    /// All figures for a terminal.
    #[must_use]
    pub fn table(&self) -> String {
        let header = ["figure", "before", "after", "unit", "after / before", ""];
        let mut table = new_table(&header);
        for one in &self.changes {
            let [before, after] = one.shown();
            table.add_row(cells([
                one.name(),
                before,
                after,
                scale(one.before).1.to_owned(),
                figure(one.ratio()),
                one.verdict().name().to_owned(),
            ]));
        }
        table.to_string()
    }

    /// All figures as a page. `names` are those of the two runs.
    #[must_use]
    pub fn page(&self, names: [&str; 2]) -> String {
        let [before, after] = names.map(escape);
        let mut text = format!(
            "<p>Before: {before}. After: {after}. {}. A figure is better or worse where no round \
             of one run is within the rounds of the other.</p>\n",
            self.summary()
        );
        let headers =
            ["suite", "metric", "bytes", "of", "before", "after", "unit", "ratio", "verdict"];
        text.push_str(&table(&headers));
        for one in &self.changes {
            let [before, after] = one.shown();
            let _ = write!(
                text,
                "<tr><td>{}</td><td>{}</td>",
                escape(&one.after.suite),
                metric(&one.after.metric)
            );
            text.push_str(&number(one.after.size_bytes as f64, &one.after.size_bytes.to_string()));
            let _ = write!(text, "<td>{}</td>", escape(&one.after.subject()));
            text.push_str(&number(one.before.median, &before));
            text.push_str(&number(one.after.median, &after));
            let _ = write!(text, "<td>{}</td>", escape(scale(one.before).1));
            text.push_str(&number(one.ratio(), &figure(one.ratio())));
            let verdict = one.verdict();
            let _ =
                writeln!(text, "<td class=\"{}\">{}</td></tr>", verdict.class(), verdict.name());
        }
        text.push_str(TABLE_END);
        text.push_str(&meanings(self.changes.iter().map(|one| one.after.metric.as_str())));
        document("xdp: two reports", &text)
    }
}

/// Whether both measure the same.
fn is_same(one: &Record, other: &Record) -> bool {
    let key = |of: &Record| {
        (
            of.suite.clone(),
            of.peer.clone(),
            of.mode.clone(),
            of.size_bytes,
            of.metric.clone(),
            of.operation.clone(),
            of.context(),
        )
    };
    key(one) == key(other)
}

impl Change<'_> {
    fn ratio(&self) -> f64 {
        self.after.median / self.before.median
    }

    fn verdict(&self) -> Verdict {
        let is_one = |one: &Record| one.low == one.high && is_measured(one);
        if is_one(self.before) || is_one(self.after) {
            return Verdict::OneRound;
        }
        let (above, below) = (self.after.low > self.before.high, self.after.high < self.before.low);
        match (above, below, more_is_better(self.after)) {
            (false, false, _) => Verdict::Alike,
            (true, _, true) | (_, true, false) => Verdict::Better,
            _ => Verdict::Worse,
        }
    }

    /// Both medians in the unit of the earlier one.
    fn shown(&self) -> [String; 2] {
        let (factor, _) = scale(self.before);
        [self.before, self.after].map(|one| figure(one.median / factor))
    }

    fn name(&self) -> String {
        let Record { metric, size_bytes, .. } = self.after;
        format!("{metric}, {size_bytes} B, {}", self.after.subject())
    }
}

impl Verdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Alike => "alike",
            Self::OneRound => "one round",
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Better => "met",
            Self::Worse => "missed",
            Self::Alike | Self::OneRound => "none",
        }
    }
}

/// Whether rounds of the quantity differ: counts of instructions and bytes do not.
fn is_measured(record: &Record) -> bool {
    record.unit == "ns" || record.unit.ends_with("/s") || record.metric.ends_with("share")
}

/// Whether a larger value is the better one: rates and shares. Times, bytes and counts of
/// instructions are costs.
fn more_is_better(record: &Record) -> bool {
    record.unit.ends_with("/s") || record.metric.ends_with("share")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(metric: &str, unit: &str, rounds: &[f64]) -> Record {
        Record::plain("latency", ("xdp", "auto"), 8, metric, rounds).unwrap().in_unit(unit)
    }

    fn verdict(unit: &str, before: &[f64], after: &[f64]) -> Verdict {
        let (before, after) = (record("x", unit, before), record("x", unit, after));
        Change { before: &before, after: &after }.verdict()
    }

    #[test]
    fn figures_differ_where_no_rounds_overlap() {
        assert_eq!(verdict("ns", &[10.0, 12.0], &[12.0, 15.0]), Verdict::Alike);
        assert_eq!(verdict("ns", &[10.0, 12.0], &[13.0, 15.0]), Verdict::Worse);
        assert_eq!(verdict("ns", &[10.0, 12.0], &[7.0, 9.0]), Verdict::Better);
        assert_eq!(verdict("B/s", &[10.0, 12.0], &[13.0, 15.0]), Verdict::Better);
        assert_eq!(verdict("1/s", &[10.0, 12.0], &[7.0, 9.0]), Verdict::Worse);
        assert_eq!(verdict("1/s", &[10.0, 12.0], &[7.0]), Verdict::OneRound);
        assert_eq!(verdict("instructions", &[10.0], &[11.0]), Verdict::Worse);
    }

    #[test]
    fn pairs_are_the_same_figure_and_the_others_are_counted() {
        let before = [record("rtt", "ns", &[2000.0, 2100.0]), record("old", "ns", &[1.0])];
        let after = [record("rtt", "ns", &[1000.0, 1100.0]), record("new", "ns", &[1.0])];
        let comparison = Comparison::new(&before, &after);
        let summary = "1 figures: 1 better, 0 worse, 0 alike, 0 of one round; 2 in one run only";
        assert_eq!(comparison.summary(), summary);
        let table = comparison.table();
        for wanted in ["rtt, 8 B, xdp, auto", "2.05", "1.05", "µs", "0.51", "better"] {
            assert!(table.contains(wanted), "{wanted}: {table}");
        }
        let page = comparison.page(["a & b", "c"]);
        assert!(page.contains("a &amp; b") && page.contains("class=\"met\">better"));
        let [old, new] = [&before[1..], &after[1..]];
        assert!(Comparison::new(old, new).is_empty());
    }
}
