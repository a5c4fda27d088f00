// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets with the reached values. They are never tests: figures of a shared machine decide
//! nothing.

use crate::measure::CONNECTED;
use crate::report::{Metric, Record};
use crate::suites::datagrams::{self, DATAGRAMS};
use crate::suites::lazy;
use crate::suites::matching::{self, MATCHING};
use crate::suites::path::{PATH, SHARE, least_ratio, ratio_to_tcp};
use crate::suites::standalone::EMPTY_READ;
use crate::suites::table::figure;

/// One target.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The suite of the records.
    pub suite: &'static str,
    /// The compared quantities.
    pub what: String,
    /// The target in words.
    pub target: String,
    /// The measured figure; `None` if a part of it was not measured.
    pub figure: Option<f64>,
    /// The figure's unit: `×` for a ratio.
    pub unit: &'static str,
    /// Whether the figure reaches the target.
    pub met: bool,
}

impl Row {
    /// The figure for the table.
    #[must_use]
    pub fn shown(&self) -> String {
        match self.figure {
            Some(value) => format!("{} {}", figure(value), self.unit),
            None => String::from("not measured"),
        }
    }

    /// `met`, `missed`, or nothing.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        match self.figure {
            Some(_) if self.met => "met",
            Some(_) => "MISSED",
            None => "–",
        }
    }
}

/// The direction of a target.
#[derive(Clone, Copy)]
enum Bound {
    Most(f64),
    Least(f64),
}

use Bound::{Least, Most};

/// All targets with figures in these records, in the order of the suites.
#[must_use]
pub fn targets(records: &[Record]) -> Vec<Row> {
    let figures = Figures(records);
    let mut rows = Rows(Vec::new());
    latency(&figures, &mut rows);
    waiting(&figures, &mut rows);
    rate(&figures, &mut rows);
    bandwidth(&figures, &mut rows);
    connected(&figures, &mut rows);
    automatic(&figures, &mut rows);
    path(&figures, &mut rows);
    scale(&figures, &mut rows);
    cpu(&figures, &mut rows);
    for (what, ratio) in lazy::ratios(records) {
        rows.add(lazy::SUITE, what, Least(1.0), Some(ratio), "×");
    }
    datagrams(&figures, &mut rows);
    matching(&figures, &mut rows);
    engine(&figures, &mut rows);
    let has_records = |suite: &str| records.iter().any(|record| record.suite == suite);
    rows.0.into_iter().filter(|row| has_records(row.suite)).collect()
}

/// An index of the records.
struct Figures<'a>(&'a [Record]);

/// The key of a record; most records are of tagged messages on a plain link.
#[derive(Clone, Copy)]
struct Key<'a> {
    suite: &'a str,
    peer: &'a str,
    mode: &'a str,
    size: usize,
    metric: &'a str,
    operation: Option<&'a str>,
    link: Option<&'a str>,
}

impl<'a> Key<'a> {
    fn new(suite: &'a str, metric: &'a str, size: usize) -> Self {
        Key { suite, peer: "", mode: "", size, metric, operation: None, link: None }
    }

    fn of(self, (peer, mode): (&'a str, &'a str)) -> Self {
        Self { peer, mode, ..self }
    }

    fn operation(self, operation: &'a str) -> Self {
        Self { operation: (operation != "tagged").then_some(operation), ..self }
    }

    fn link(self, link: Option<&'a str>) -> Self {
        Self { link, ..self }
    }
}

impl Figures<'_> {
    fn median(&self, key: Key<'_>) -> Option<f64> {
        let found = self.0.iter().find(|record| {
            record.suite == key.suite
                && record.peer == key.peer
                && record.mode == key.mode
                && record.size_bytes == key.size
                && record.metric == key.metric
                && record.operation.as_deref() == key.operation
                && record.link.as_deref() == key.link
        });
        found.map(|record| record.median)
    }

    /// The ratio of `one` to `other`.
    fn ratio(&self, one: Key<'_>, other: Key<'_>) -> Option<f64> {
        let other = self.median(other).filter(|other| *other > 0.0)?;
        Some(self.median(one)? / other)
    }

    /// The largest of several.
    fn best<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>) -> Option<f64> {
        keys.into_iter().filter_map(|key| self.median(key)).reduce(f64::max)
    }
}

struct Rows(Vec<Row>);

impl Rows {
    fn add(
        &mut self,
        suite: &'static str,
        what: impl Into<String>,
        bound: Bound,
        figure: Option<f64>,
        unit: &'static str,
    ) {
        let (target, met) = match bound {
            Most(most) => (format!("≤ {most} {unit}"), figure.is_some_and(|it| it <= most)),
            Least(least) => (format!("≥ {least} {unit}"), figure.is_some_and(|it| it >= least)),
        };
        self.0.push(Row { suite, what: what.into(), target, figure, unit, met });
    }
}

const TCP: (&str, &str) = ("tcp", "spin");
const RXD: (&str, &str) = ("udp;ofi_rxd", "spin");
const UDP: (&str, &str) = ("xdp", "udp");
const AUTO: (&str, &str) = ("xdp", "auto");
const FIXED: [(&str, &str); 3] = [("xdp", "skb"), ("xdp", "copy"), UDP];
/// Both AF_XDP modes of a virtual link.
const AF_XDP: [&str; 2] = ["skb", "copy"];

fn latency(figures: &Figures<'_>, rows: &mut Rows) {
    let p50 = Key::new("latency", Metric::HalfRttP50.name(), 8);
    for (operation, words) in [("tagged", "tagged"), ("write", "write with remote CQ data")] {
        let of = |who| p50.operation(operation).of(who);
        let mut add = |what: String, bound, one, other| {
            let what = format!("8 B half round trip, {words}: {what}");
            rows.add("latency", what, bound, figures.ratio(one, other), "×");
        };
        for mode in AF_XDP {
            let (xdp, raw) = (("xdp", mode), ("raw-af_xdp", mode));
            add(format!("AF_XDP {mode} / raw AF_XDP {mode}"), Most(1.3), of(xdp), p50.of(raw));
        }
        add(String::from("AF_XDP skb / tcp"), Most(0.4), of(FIXED[0]), of(TCP));
        add(String::from("AF_XDP skb / udp;ofi_rxd"), Most(0.2), of(FIXED[0]), of(RXD));
        let spinning = p50.of(("kernel-udp", "spin"));
        add(String::from("UDP tier / spinning UDP"), Most(1.4), of(UDP), spinning);
        add(String::from("UDP tier / tcp"), Most(0.85), of(UDP), of(TCP));
    }
    let p999 = Key::new("latency", Metric::HalfRttP999.name(), 8);
    for mode in AF_XDP {
        let spread = |peer| figures.ratio(p999.of((peer, mode)), p50.of((peer, mode)));
        let ratio = spread("xdp").zip(spread("raw-af_xdp")).map(|(xdp, raw)| xdp / raw);
        let what = format!("8 B p99.9 / p50: AF_XDP {mode} / raw AF_XDP {mode}");
        rows.add("latency", what, Most(1.0), ratio, "×");
    }
}

fn waiting(figures: &Figures<'_>, rows: &mut Rows) {
    let p50 = Key::new("latency", Metric::HalfRttP50.name(), 8);
    for (how, asleep, words) in [
        ("sread", "sread", "in fi_cq_sread, which spins first"),
        ("sread", "sread at once", "asleep in fi_cq_sread"),
        ("fd", "fd", "asleep on the descriptor"),
    ] {
        for mode in ["auto", "udp"] {
            let asleep = format!("{mode} {asleep}");
            let ratio = figures.ratio(p50.of(("xdp", &asleep)), p50.of(("tcp", how)));
            let what = format!("8 B half round trip, {words}: xdp {mode} / tcp");
            rows.add("latency", what, Most(1.1), ratio, "×");
        }
    }
}

fn rate(figures: &Figures<'_>, rows: &mut Rows) {
    for size in [8, 64] {
        let rate = Key::new("rate", Metric::MessageRate.name(), size);
        for (name, other) in [("tcp", TCP), ("udp;ofi_rxd", RXD)] {
            let ratio = figures.ratio(rate.of(AUTO), rate.of(other));
            rows.add(
                "rate",
                format!("{size} B messages, window 64: auto / {name}"),
                Least(10.0),
                ratio,
                "×",
            );
        }
        let millions = figures.median(rate.of(AUTO)).map(|rate| rate / 1e6);
        let what = format!("{size} B messages, window 64: auto");
        rows.add("rate", what, Least(3.0), millions, "million/s");
    }
}

/// The record's name of a link with packets of this length, and the sizes with which bare AF_XDP
/// sockets and kernel sockets fill them.
const LINKS: [(Option<&str>, &str, usize, usize); 2] =
    [(None, "1500", 1440, 1472), (Some("mtu 9000"), "9000", 3744, 8972)];

fn bandwidth(figures: &Figures<'_>, rows: &mut Rows) {
    const LARGE: usize = 1 << 20;
    let metric = Metric::Bandwidth.name();
    for (link, mtu, raw_size, batch_size) in LINKS {
        let large = Key::new("bandwidth", metric, LARGE).link(link);
        let mut add = |what: String, bound, figure| {
            rows.add("bandwidth", format!("1 MiB, MTU {mtu}: {what}"), bound, figure, "×");
        };
        for operation in ["tagged", "write", "read"] {
            let large = large.operation(operation);
            let best = figures.best(FIXED.into_iter().chain([AUTO]).map(|who| large.of(who)));
            let tcp = figures.median(large.of(TCP));
            let ratio = best.zip(tcp).map(|(best, tcp)| best / tcp);
            add(format!("{operation}, best mode / tcp"), Least(1.2), ratio);
        }
        let batched = Key::new("bandwidth", metric, batch_size).link(link);
        let batched = batched.of(("kernel-udp", "gso"));
        for operation in ["tagged", "write", "read"] {
            let ratio = figures.ratio(large.operation(operation).of(UDP), batched);
            add(format!("{operation}, UDP tier / raw GSO and GRO"), Least(0.4), ratio);
        }
        for mode in AF_XDP {
            let raw = Key::new("bandwidth", metric, raw_size).link(link).of(("raw-af_xdp", mode));
            for operation in ["tagged", "write", "read"] {
                let ratio = figures.ratio(large.operation(operation).of(("xdp", mode)), raw);
                add(format!("{operation}, AF_XDP {mode} / raw AF_XDP {mode}"), Least(0.85), ratio);
            }
        }
    }
}

/// Connected endpoints beside those of `tcp`. The bounds are those of datagrams.
fn connected(figures: &Figures<'_>, rows: &mut Rows) {
    const SUITE: &str = "connected";
    let key = |metric: Metric, size| Key::new(SUITE, metric.name(), size).operation(CONNECTED);
    for (what, who, least) in [("AF_XDP skb", FIXED[0], 2.5), ("UDP tier", UDP, 1.0)] {
        let half = key(Metric::HalfRttP50, 8);
        let ratio = figures.ratio(half.of(TCP), half.of(who));
        rows.add(SUITE, format!("8 B: tcp / {what}, half round trip"), Least(least), ratio, "×");
    }
    for (what, metric, size) in [
        ("8 B, rate", Metric::MessageRate, 8),
        ("64 KiB", Metric::Bandwidth, 65_536),
        ("1 MiB", Metric::Bandwidth, 1 << 20),
    ] {
        let key = key(metric, size);
        let best = figures.best(FIXED.into_iter().chain([AUTO]).map(|who| key.of(who)));
        let ratio = best.zip(figures.median(key.of(TCP))).map(|(best, tcp)| best / tcp);
        rows.add(SUITE, format!("{what}: best mode / tcp"), Least(1.0), ratio, "×");
    }
}

/// The largest distance of `auto` to the best fixed mode, over all common measurements.
fn automatic(figures: &Figures<'_>, rows: &mut Rows) {
    let latency = worst(figures, "latency", Metric::HalfRttP50, |auto, fixed| {
        auto / fixed.iter().copied().fold(f64::INFINITY, f64::min)
    });
    rows.add("latency", "auto / best fixed mode, worst size", Most(1.1), latency, "×");
    for (suite, metric) in [("rate", Metric::MessageRate), ("bandwidth", Metric::Bandwidth)] {
        let behind = worst(figures, suite, metric, |auto, fixed| {
            fixed.iter().copied().fold(0.0, f64::max) / auto
        });
        let what = "best fixed mode / auto, worst size";
        rows.add(suite, what, Most(1.1), behind, "×");
    }
}

fn worst(
    figures: &Figures<'_>,
    suite: &str,
    metric: Metric,
    behind: fn(f64, &[f64]) -> f64,
) -> Option<f64> {
    let of_auto = figures.0.iter().filter(|record| {
        record.suite == suite
            && record.is(metric)
            && (record.peer.as_str(), record.mode.as_str()) == AUTO
    });
    let each = of_auto.filter_map(|auto| {
        let key = Key {
            operation: auto.operation.as_deref(),
            link: auto.link.as_deref(),
            ..Key::new(suite, metric.name(), auto.size_bytes)
        };
        let fixed: Vec<f64> = FIXED.iter().filter_map(|who| figures.median(key.of(*who))).collect();
        (fixed.len() == FIXED.len()).then(|| behind(auto.median, &fixed))
    });
    each.reduce(f64::max)
}

/// The worst transfer of each path, and the shares beside other traffic.
fn path(figures: &Figures<'_>, rows: &mut Rows) {
    let of = |who: (&str, &str), metric: &str| {
        let mine = |one: &&Record| (one.peer.as_str(), one.mode.as_str()) == who;
        let records = figures.0.iter().filter(|one| one.suite == PATH && one.metric == metric);
        records.filter(mine).collect::<Vec<_>>()
    };
    let tcp = of(TCP, Metric::Bandwidth.name());
    let mut links: Vec<&str> = tcp.iter().filter_map(|one| one.link.as_deref()).collect();
    links.dedup();
    for link in links {
        for mode in [AUTO, FIXED[0], UDP] {
            let all = of(mode, Metric::Bandwidth.name());
            let each = all.iter().filter(|one| one.link.as_deref() == Some(link));
            let ratios = each.filter_map(|one| {
                let same = |tcp: &&&Record| {
                    (&tcp.link, &tcp.operation, tcp.size_bytes)
                        == (&one.link, &one.operation, one.size_bytes)
                };
                let tcp = tcp.iter().find(same)?;
                Some((ratio_to_tcp(one, tcp), least_ratio(link, tcp)))
            });
            let margin = |(ratio, least): &(f64, f64)| ratio / least;
            let worst = ratios.min_by(|one, other| margin(one).total_cmp(&margin(other)));
            if let Some((ratio, least)) = worst {
                let what = format!("{link}: {} / tcp, worst transfer", mode.1);
                rows.add(PATH, what, Least(least), Some(ratio), "×");
            }
        }
    }
    for one in figures.0.iter().filter(|one| one.metric == SHARE) {
        let link = one.link.as_deref().unwrap_or_default();
        let what = format!("{link}: {} TCP, share of {}", one.mode, one.peer);
        rows.add(PATH, what, Least(0.25), Some(one.low), "×");
    }
}

fn scale(figures: &Figures<'_>, rows: &mut Rows) {
    let insertion = |metric| figures.median(Key::new("scale", metric, 0).of(UDP));
    rows.add("scale", "1,000,000 addresses inserted", Most(2.0), insertion("insertion_time"), "s");
    let memory = insertion("insertion_memory").map(|bytes| bytes / 1e6);
    rows.add("scale", "1,000,000 addresses inserted: resident", Most(150.0), memory, "MB");
    let address = insertion("address_memory");
    rows.add("scale", "a peer without a connection, resident", Most(80.0), address, "B");
    let connects = |of| figures.median(Key::new("scale", "connect_rate_per_core", 0).of(of));
    let rate = connects(UDP);
    rows.add("scale", "connections opened, for each core", Least(20_000.0), rate, "/s");
    let memory = figures.median(Key::new("scale", "connection_memory", 0).of(UDP));
    rows.add("scale", "a connection at rest, beside its queues", Most(2048.0), memory, "B");
    let ratio = rate.zip(connects(TCP)).map(|(ours, tcp)| ours / tcp);
    rows.add("scale", "connections opened, for each core / tcp", Least(1.0), ratio, "×");
    let engine =
        |metric, mode| figures.median(Key::new("scale", metric, 8).of(("engine-pair", mode)));
    for (metric, what, most) in [
        ("idle_peer_memory", "a connected peer at rest: slot and index", 80.0),
        ("active_peer_memory", "active peer: with state, timer, notes of packets", 1024.0),
    ] {
        rows.add("scale", what, Most(most), engine(metric, "10000 peers"), "B");
    }
    let alone = engine("message_rate", "1 peer");
    let ratio = engine("message_rate", "10000 peers").zip(alone).map(|(many, one)| many / one);
    rows.add("scale", "messages to 10,000 peers in turn / to one", Least(0.5), ratio, "×");
    let start_up = Key::new("scale", Metric::StartUp.name(), 0);
    for mode in ["auto", "skb", "copy", "udp"] {
        let times =
            figures.median(start_up.of(("xdp", mode))).zip(figures.median(start_up.of(TCP)));
        let beyond = times.map(|(xdp, tcp)| (xdp - tcp) / 1e6);
        let what = format!("start-up to the first message, beyond tcp: {mode}");
        rows.add("scale", what, Most(50.0), beyond, "ms");
    }
}

fn cpu(figures: &Figures<'_>, rows: &mut Rows) {
    let read = Key::new("cpu", EMPTY_READ, 0);
    for mode in ["auto", "skb"] {
        let what = format!("a read that finds nothing: {mode}");
        rows.add("cpu", what, Most(60.0), figures.median(read.of(("xdp", mode))), "ns");
    }
    let ratio = figures.ratio(read.of(UDP), read.of(("tcp;ofi_rxm", "spin")));
    rows.add("cpu", "a read that finds nothing: UDP tier / tcp;ofi_rxm", Most(1.0), ratio, "×");
    let idle = Key::new("cpu", Metric::IdleCpu.name(), 0);
    for mode in ["auto", "skb", "udp"] {
        let percent = figures.median(idle.of(("xdp", mode))).map(|share| share * 100.0);
        let what = format!("idle endpoint, FI_PROGRESS_AUTO: {mode}");
        rows.add("cpu", what, Most(1.0), percent, "% of a core");
    }
}

/// Datagrams beside bare AF_XDP sockets of the same mode, and beside libfabric's `udp`.
fn datagrams(figures: &Figures<'_>, rows: &mut Rows) {
    let key = |metric, size| Key::new(DATAGRAMS, metric, size).operation(datagrams::OPERATION);
    let half = key(Metric::HalfRttP50.name(), datagrams::PING);
    for mode in AF_XDP {
        let what = format!("8 B half round trip: AF_XDP {mode} / raw AF_XDP {mode}");
        let ratio = figures.ratio(half.of(("xdp", mode)), half.of(("raw-af_xdp", mode)));
        rows.add(DATAGRAMS, what, Most(1.15), ratio, "×");
    }
    for size in datagrams::STREAMS {
        let rate = key(datagrams::RECEIVED, size);
        for mode in AF_XDP {
            let what = format!("{size} B received a second: AF_XDP {mode} / raw AF_XDP {mode}");
            let ratio = figures.ratio(rate.of(("xdp", mode)), rate.of(("raw-af_xdp", mode)));
            rows.add(DATAGRAMS, what, Least(0.9), ratio, "×");
        }
        let what = format!("{size} B received a second: auto / raw AF_XDP skb");
        let ratio = figures.ratio(rate.of(AUTO), rate.of(("raw-af_xdp", "skb")));
        rows.add(DATAGRAMS, what, Least(0.9), ratio, "×");
        for (name, who) in [("auto", AUTO), ("UDP tier", UDP)] {
            let what = format!("{size} B received a second: {name} / udp");
            let ratio = figures.ratio(rate.of(who), rate.of(("udp", "spin")));
            rows.add(DATAGRAMS, what, Least(2.0), ratio, "×");
        }
    }
}

/// Many receives or stored messages cost what few cost.
fn matching(figures: &Figures<'_>, rows: &mut Rows) {
    for (depths, stored) in [(matching::POSTED, false), (matching::STORED, true)] {
        let [few, .., many] = depths.map(|depth| matching::waiting(depth, stored));
        let time = |what: &str| {
            let key = Key::new(MATCHING, matching::MESSAGE_TIME, 8).operation(what);
            figures.median(key.link(Some("one host")).of(UDP))
        };
        let ratio = time(&many).zip(time(&few)).map(|(many, few)| many / few);
        rows.add(MATCHING, format!("a message: {many} / {few}"), Most(2.0), ratio, "×");
    }
}

fn engine(figures: &Figures<'_>, rows: &mut Rows) {
    let of = |metric, size, mode| {
        figures.median(Key::new("engine", metric, size).of(("engine-pair", mode)))
    };
    let small = of("message_time", 8, "messages");
    rows.add("engine", "8 B message sent and received, coalesced", Most(60.0), small, "ns");
    let packet = of("message_time", 1408, "packets").zip(of("copy_time", 1408, "packets"));
    let packet = packet.map(|(all, copies)| all - copies);
    rows.add("engine", "full packet, besides its two copies", Most(150.0), packet, "ns");
    for (metric, what) in [("bytes_gathered", "out"), ("bytes_placed", "in")] {
        let copies = of(metric, 1408, "packets");
        rows.add("engine", format!("copies on the way {what}"), Most(1.0), copies, "a byte");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Candidate;
    use ofi_xdp_harness::tier::XdpMode;

    fn p50(who: &Candidate, ns: f64) -> Record {
        Record::new("latency", who, 8, Metric::HalfRttP50, &[ns]).unwrap()
    }

    fn find<'a>(rows: &'a [Row], what: &str) -> &'a Row {
        rows.iter()
            .find(|row| row.what.contains(what))
            .unwrap_or_else(|| panic!("{what}: {rows:?}"))
    }

    #[test]
    fn a_target_is_met_missed_or_not_measured() {
        let records = [
            p50(&Candidate::xdp(XdpMode::Skb), 2000.0),
            p50(&Candidate::raw(XdpMode::Skb), 1600.0),
            p50(&Candidate::provider("tcp"), 4000.0),
            p50(&Candidate::provider("tcp").one_sided("write"), 9000.0),
        ];
        let rows = targets(&records);
        let raw = find(&rows, "tagged: AF_XDP skb / raw");
        assert_eq!((raw.outcome(), raw.shown().as_str()), ("met", "1.25 ×"));
        assert_eq!(find(&rows, "tagged: AF_XDP skb / tcp").outcome(), "MISSED");
        assert_eq!(find(&rows, "write with remote CQ data: AF_XDP skb / tcp").outcome(), "–");
        assert!(rows.iter().all(|row| row.suite == "latency"), "others were not measured");
    }

    #[test]
    fn auto_is_compared_with_the_best_fixed_mode_where_all_were_measured() {
        let of = |mode, ns| p50(&Candidate::xdp(mode), ns);
        let mut records =
            vec![of(XdpMode::Auto, 2000.0), of(XdpMode::Skb, 1900.0), of(XdpMode::Copy, 2500.0)];
        assert_eq!(find(&targets(&records), "auto / best").figure, None);
        records.push(of(XdpMode::Udp, 1000.0));
        assert_eq!(find(&targets(&records), "auto / best").figure, Some(2.0));
    }
}
