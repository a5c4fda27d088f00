// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records as a table for a terminal.

use crate::report::Record;
use crate::table::{cells, new_table};

/// A row for each record, in groups of one metric and size.
#[must_use]
pub fn table(records: &[Record]) -> String {
    let mut table =
        new_table(&["metric", "bytes", "peer", "mode", "", "median", "low", "high", "unit"]);
    let mut sorted: Vec<&Record> = records.iter().collect();
    // The sort is stable: within a group the order is that of the entries.
    sorted.sort_by(|a, b| {
        (&a.metric, &a.link, &a.polling, &a.operation, a.size_bytes).cmp(&(
            &b.metric,
            &b.link,
            &b.polling,
            &b.operation,
            b.size_bytes,
        ))
    });
    for record in sorted {
        let (scale, unit) = scale(record);
        let number = |value: f64| figure(value / scale);
        table.add_row(cells([
            record.metric.clone(),
            record.size_bytes.to_string(),
            record.peer.clone(),
            record.mode.clone(),
            record.conditions(),
            number(record.median),
            number(record.low),
            number(record.high),
            unit.to_owned(),
        ]));
    }
    table.to_string()
}

/// The unit of the table for a record's unit, with the conversion factor.
pub(super) fn scale(record: &Record) -> (f64, &str) {
    match (record.unit.as_str(), record.median) {
        ("ns", median) if median >= 1e6 => (1e6, "ms"),
        ("ns", median) if median >= 1e3 => (1e3, "µs"),
        ("1/s", median) if median >= 1e6 => (1e6, "million/s"),
        ("1/s", median) if median >= 1e3 => (1e3, "thousand/s"),
        ("B/s", median) if median >= 1e8 => (1e9, "GB/s"),
        ("B/s", _) => (1e6, "MB/s"),
        ("B", median) if median >= 1e6 => (1e6, "MB"),
        (unit, _) => (1.0, unit),
    }
}

/// Three significant digits.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        ..0.0995 => format!("{value:.4}"),
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_can_be_read() {
        let texts = [0.01234, 1.2345, 12.345, 123.45].map(figure);
        assert_eq!(texts, ["0.0123", "1.23", "12.3", "123"]);
        let record = Record::plain("s", ("p", "m"), 8, "x", &[2.5e6]).unwrap().in_unit("1/s");
        assert_eq!(scale(&record), (1e6, "million/s"));
        assert!(table(&[record]).contains("2.50"));
        let bandwidth = |rate| Record::plain("s", ("p", "m"), 8, "x", &[rate]).unwrap();
        assert_eq!(scale(&bandwidth(2.5e9).in_unit("B/s")), (1e9, "GB/s"));
        assert_eq!(scale(&bandwidth(2.5e6).in_unit("B/s")), (1e6, "MB/s"));
    }
}
