// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of the suite `path`: a row for each path and transfer, a column for each transport.

use crate::report::{Metric, Record};
use crate::suites::table::figure;
use crate::table::{cells, new_table};

/// The suite's name.
pub const PATH: &str = "path";
/// The metric of a stream's share in its fair one.
pub(in super::super) const SHARE: &str = "share";
/// The report's `peer` for the other traffic.
pub(super) const KERNEL_TCP: &str = "kernel-tcp";

/// The bandwidth below which the largest transfer exceeds its time limit, in bytes per second.
const UNFINISHED: f64 = (64 << 20) as f64 / 14.0;

/// The application's part of a full frame of 1,538 bytes, preamble and gap included.
const FULL: f64 = 1_448.0 / 1_538.0;

/// Columns of the table of bandwidths: peer and mode.
const COLUMNS: [(&str, &str); 5] =
    [("xdp", "auto"), ("xdp", "skb"), ("xdp", "udp"), ("tcp", "spin"), ("udp;ofi_rxd", "spin")];

/// Both tables.
pub(super) fn tables(records: &[Record]) -> String {
    format!(
        "GB/s (0: not within the time limit):\n{}\n\n\
         share in the fair one, beside kernel TCP (CUBIC), lowest and highest of TCP:\n{}",
        bandwidths(records),
        shares(records)
    )
}

/// Whether a record's link loses packets at random.
fn is_lossy(link: &str) -> bool {
    link.contains("loss")
}

/// Bytes per second that the bottleneck of a record's link carries in full packets, without their
/// headers; `None`: no bottleneck.
fn goodput(link: &str) -> Option<f64> {
    let (rate, _) = link.split_once(" Gb/s")?;
    let gigabits: f64 = rate.rsplit(' ').next()?.parse().ok()?;
    Some(gigabits * 1e9 / 8.0 * FULL)
}

/// The least ratio to `tcp` on a link: 0.9 without loss. With loss it is 2, or that of 0.9 of
/// the bottleneck if that is less.
pub(in super::super) fn least_ratio(link: &str, tcp: &Record) -> f64 {
    if !is_lossy(link) {
        return 0.9;
    }
    let bottleneck = goodput(link).filter(|_| tcp.median > 0.0).map(|all| 0.9 * all / tcp.median);
    (bottleneck.unwrap_or(2.0).min(2.0) * 100.0).round() / 100.0
}

/// The ratio to `tcp`. A transfer of `tcp` that exceeded its time limit counts with the largest
/// bandwidth at which it does.
pub(in super::super) fn ratio_to_tcp(of: &Record, tcp: &Record) -> f64 {
    of.median / if tcp.median > 0.0 { tcp.median } else { UNFINISHED }
}

fn bandwidths(records: &[Record]) -> String {
    let header = ["path", "operation", "MiB", "auto", "skb", "udp", "tcp", "rxd", "auto / tcp"];
    let mut table = new_table(&header);
    let all: Vec<&Record> =
        records.iter().filter(|one| one.suite == PATH && one.is(Metric::Bandwidth)).collect();
    // A row is named by the record of `tcp`, which each transfer has.
    for row in all.iter().filter(|one| one.peer == "tcp") {
        let of = |(peer, mode): (&str, &str)| {
            let same = |one: &&&Record| {
                (&one.link, &one.operation, one.size_bytes)
                    == (&row.link, &row.operation, row.size_bytes)
            };
            let mut found = all.iter().filter(same);
            found.find(|one| one.peer == peer && one.mode == mode)
        };
        let number = |value: Option<f64>| value.map_or_else(String::new, figure);
        let mut texts = vec![
            row.link.clone().unwrap_or_default(),
            row.operation.clone().unwrap_or_else(|| String::from("tagged")),
            (row.size_bytes >> 20).to_string(),
        ];
        texts.extend(COLUMNS.map(|column| number(of(column).map(|one| one.median / 1e9))));
        texts.push(number(of(COLUMNS[0]).map(|auto| ratio_to_tcp(auto, row))));
        table.add_row(cells(texts));
    }
    table.to_string()
}

fn shares(records: &[Record]) -> String {
    let mut table = new_table(&["path", "streams", "xdp", "TCP low", "TCP median", "TCP high"]);
    let all: Vec<&Record> = records.iter().filter(|one| one.metric == SHARE).collect();
    for own in all.iter().filter(|one| one.peer == "xdp") {
        let same = |one: &&&Record| one.link == own.link && one.mode == own.mode;
        let tcp = all.iter().filter(same).find(|one| one.peer == KERNEL_TCP);
        let number = |of: fn(&Record) -> f64| tcp.map_or_else(String::new, |tcp| figure(of(tcp)));
        table.add_row(cells([
            own.link.clone().unwrap_or_default(),
            own.mode.clone(),
            figure(own.median),
            number(|tcp| tcp.low),
            number(|tcp| tcp.median),
            number(|tcp| tcp.high),
        ]));
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_all_transports_of_a_path() {
        let record = |peer, mode, value| Record {
            link: Some(String::from("delay 5 ms, loss 0.1 %")),
            ..Record::plain(PATH, (peer, mode), 1 << 20, "bandwidth", &[value]).unwrap()
        };
        let records =
            [record("xdp", "auto", 3e9), record("tcp", "spin", 2e9), record("xdp", "udp", 1e9)];
        let text = tables(&records);
        let row = text.lines().find(|line| line.contains("5 ms")).unwrap();
        for part in ["3.00", "2.00", "1.00", "1.50", "tagged"] {
            assert!(row.contains(part), "{text}");
        }
        let unfinished = record("tcp", "spin", 0.0);
        assert!((ratio_to_tcp(&records[0], &unfinished) - 625.8).abs() < 0.1);
    }

    #[test]
    fn with_loss_the_bound_is_twice_tcp_or_the_bottleneck() {
        let tcp = |value| Record::plain(PATH, ("tcp", "spin"), 1 << 20, "bandwidth", &[value]);
        let least = |link, value| least_ratio(link, &tcp(value).unwrap());
        assert_eq!(least("delay 5 ms", 1e9), 0.9);
        assert_eq!(least("delay 5 ms, loss 0.1 %", 1e9), 2.0);
        assert_eq!(least("delay 5 ms, loss 0.1 %, 1 Gb/s, queue 10 ms", 1e6), 2.0);
        assert_eq!(least("delay 5 ms, loss 0.1 %, 1 Gb/s, queue 10 ms", 0.0), 2.0);
        let near = least("delay 5 ms, loss 0.1 %, 0.2 Gb/s, queue 10 ms", 0.0235e9);
        assert!((0.89..0.91).contains(&near), "{near}");
    }
}
