// SPDX-License-Identifier: MIT OR Apache-2.0
//! The candidates of each suite, with their workloads.

use crate::measure::{Candidate, Entry, LinkUse, READ, WRITE};
use crate::suites::lazy;
use ofi_xdp_harness::tier::XdpMode;

/// One suite: its entries, and its number of rounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The report's `suite`.
    pub suite: &'static str,
    /// Number of rounds.
    pub rounds: usize,
    /// The entries.
    pub entries: Vec<Entry>,
}

/// The modes of the provider that work on virtual cards: `auto` first.
const XDP_MODES: [XdpMode; 4] = [XdpMode::Auto, XdpMode::Skb, XdpMode::Copy, XdpMode::Udp];
/// The providers of libfabric that users would take in its place.
const OTHERS: [&str; 3] = ["tcp", "tcp;ofi_rxm", "udp;ofi_rxd"];
/// Message sizes of latencies, and those of a quick run.
const SIZES: &[usize] = &[8, 64, 256, 1024, 4096, 16_384, 65_536];
const SIZES_QUICK: &[usize] = &[8, 1024, 16_384];
/// Sizes and windows of large messages.
const BULK: &[(usize, u32)] = &[(4096, 64), (65_536, 16), (1 << 20, 16)];
const MTUS: [u32; 2] = [1500, 9000];
/// Messages in a window of small ones.
const WINDOW: u32 = 64;
/// Windows in flight of transports of single packets. Together they have less than the 256 frames
/// that a copying AF_XDP port gives the kernel.
const AHEAD: u32 = 3;
/// GSO batches in a window of datagrams, and bytes in a batch.
const BATCHES: usize = 4;
const BATCH_MAX: usize = 65_507;
/// Lost packets of a thousand.
const LOSSES: [u32; 3] = [0, 1, 10];

/// A suite by name; `None` for one that the lab does not measure.
#[must_use]
pub fn plan(suite: &str, quick: bool) -> Option<Plan> {
    let plan = |suite, rounds: u64, entries| Some(Plan { suite, rounds: rounds as usize, entries });
    // Rounds and the time of each measurement in ms: (quick, full).
    let by = |quickly: u64, fully: u64| if quick { quickly } else { fully };
    match suite {
        "latency" => plan("latency", by(1, 7), latency(by(40, 200), quick)),
        "rate" => plan("rate", by(1, 7), rate(by(60, 200))),
        "bandwidth" => plan("bandwidth", by(1, 5), bandwidth(by(40, 250), quick)),
        "connected" => plan("connected", by(1, 5), connected(by(40, 200), quick)),
        "scale" => plan("scale", by(1, 5), start_up()),
        "loss" => plan("loss", by(1, 3), loss(by(200, 1000), quick)),
        PGO_WORKLOAD => plan(PGO_WORKLOAD, 1, pgo_workload()),
        "cpu" => plan("cpu", by(1, 3), cpu(by(60, 250), by(500, 2000))),
        lazy::SUITE => plan(lazy::SUITE, by(1, 3), lazy::entries(quick)),
        _ => None,
    }
}

/// No suite: its results are not kept. It is the workload of a provider with profiling counters.
pub const PGO_WORKLOAD: &str = "pgo-workload";

/// The workload of one candidate.
#[derive(Clone, Debug)]
struct Measurement {
    time_ms: u64,
    latency: Vec<usize>,
    stream: Vec<(usize, u32)>,
    more: Vec<String>,
}

impl Measurement {
    fn new(time_ms: u64) -> Self {
        Self { time_ms, latency: Vec::new(), stream: Vec::new(), more: Vec::new() }
    }

    fn latency(self, sizes: &[usize]) -> Self {
        Self { latency: sizes.to_vec(), ..self }
    }

    fn stream(self, windows: &[(usize, u32)]) -> Self {
        Self { stream: windows.to_vec(), ..self }
    }

    fn more(self, arguments: &[&str]) -> Self {
        Self { more: arguments.iter().map(ToString::to_string).collect(), ..self }
    }

    fn also(mut self, argument: &str) -> Self {
        self.more.push(argument.to_owned());
        self
    }

    /// The workload as far as `candidate` can carry it. Transports of single packets stream full
    /// packets.
    fn of(&self, candidate: Candidate) -> Entry {
        let max = candidate.size_max;
        let mut arguments = vec![String::from("--time"), self.time_ms.to_string()];
        arguments.extend(self.more.iter().cloned());
        let sizes = self.latency.iter().filter(|size| **size <= max);
        let sizes: Vec<String> = sizes.map(ToString::to_string).collect();
        if !sizes.is_empty() {
            arguments.extend([String::from("--latency"), sizes.join(",")]);
        }
        let mut windows: Vec<String> = self
            .stream
            .iter()
            .map(|(size, window)| match *size {
                size if size > max => full_packets(candidate.program, max),
                size => format!("{size}x{window}"),
            })
            .collect();
        windows.dedup();
        if !windows.is_empty() {
            arguments.extend([String::from("--stream"), windows.join(",")]);
        }
        Entry::new(candidate, arguments)
    }
}

/// The stream of transports of single packets: full packets. Enough are in flight that no window
/// waits for an answer, as with windows of 16 MiB, and few enough that none is lost.
fn full_packets(program: &str, size: usize) -> String {
    let window = if program == "kernel-udp-gso" {
        BATCHES * (BATCH_MAX / size.max(1)).min(64)
    } else {
        WINDOW as usize
    };
    format!("{size}x{window}x{AHEAD}")
}

/// Ping-pong: all candidates spinning, then asleep, then one-sided, then on one host.
fn latency(time_ms: u64, quick: bool) -> Vec<Entry> {
    let all = Measurement::new(time_ms).latency(if quick { SIZES_QUICK } else { SIZES });
    let small = Measurement::new(time_ms).latency(&[8]);
    let mut entries: Vec<Entry> =
        XDP_MODES.map(|mode| all.of(Candidate::xdp(mode))).into_iter().collect();
    entries.extend([XdpMode::Skb, XdpMode::Copy].map(|mode| all.of(Candidate::raw(mode))));
    entries.extend([false, true].map(|blocking| all.of(Candidate::kernel_udp(blocking))));
    entries.extend(OTHERS.map(|name| all.of(Candidate::provider(name))));
    for how in ["sread", "fd"] {
        for mode in [XdpMode::Auto, XdpMode::Udp] {
            let waiting = Candidate::xdp(mode).waiting(how);
            if how == "sread" {
                entries.push(small.of(waiting.clone().asleep_at_once()));
            }
            entries.push(small.of(waiting));
        }
        entries.push(small.of(Candidate::provider("tcp").waiting(how)));
    }
    let one_sided = [
        Candidate::xdp(XdpMode::Skb),
        Candidate::xdp(XdpMode::Copy),
        Candidate::xdp(XdpMode::Udp),
        Candidate::provider("tcp"),
        Candidate::provider("udp;ofi_rxd"),
    ];
    entries.extend(one_sided.map(|who| small.of(who.one_sided(WRITE))));
    let one_host = Measurement::new(time_ms).latency(&[8, 4096]);
    let neighbours =
        [Candidate::xdp(XdpMode::Auto), Candidate::provider("shm"), Candidate::provider("tcp")];
    entries.extend(neighbours.map(|who| one_host.of(who.on(LinkUse::Loopback))));
    entries
}

/// Small messages in windows of 64.
fn rate(time_ms: u64) -> Vec<Entry> {
    let measurement = Measurement::new(time_ms).stream(&[(8, WINDOW), (64, WINDOW)]);
    let mut entries: Vec<Entry> =
        XDP_MODES.map(|mode| measurement.of(Candidate::xdp(mode))).into_iter().collect();
    entries.extend([XdpMode::Skb, XdpMode::Copy].map(|mode| measurement.of(Candidate::raw(mode))));
    entries.extend(
        [Candidate::kernel_udp(false), Candidate::kernel_udp_gso()].map(|who| measurement.of(who)),
    );
    entries.extend(OTHERS.map(|name| measurement.of(Candidate::provider(name))));
    entries
}

/// Large messages with each operation, over packets of both lengths.
fn bandwidth(time_ms: u64, quick: bool) -> Vec<Entry> {
    let tagged = Measurement::new(time_ms).stream(if quick { &BULK[1..] } else { BULK });
    let large = Measurement::new(time_ms).stream(&BULK[2..]);
    let mut entries = Vec::new();
    for mtu in MTUS.into_iter().filter(|mtu| !quick || *mtu == MTUS[0]) {
        let mut add =
            |measurement: &Measurement, who: Candidate| entries.push(measurement.of(who.mtu(mtu)));
        for mode in XDP_MODES {
            add(&tagged, Candidate::xdp(mode));
            add(&large, Candidate::xdp(mode).one_sided(WRITE));
            add(&large, Candidate::xdp(mode).one_sided(READ));
        }
        for mode in [XdpMode::Skb, XdpMode::Copy] {
            add(&large, Candidate::raw(mode));
        }
        add(&large, Candidate::kernel_udp_gso());
        for name in OTHERS {
            add(&tagged, Candidate::provider(name));
        }
        for operation in [WRITE, READ] {
            add(&large, Candidate::provider("tcp").one_sided(operation));
        }
    }
    entries
}

/// Connected endpoints: ping-pong, small messages in windows, and large ones.
fn connected(time_ms: u64, quick: bool) -> Vec<Entry> {
    let measurement = Measurement::new(time_ms)
        .latency(if quick { SIZES_QUICK } else { SIZES })
        .stream(&[(8, WINDOW), BULK[1], BULK[2]]);
    let ours = XDP_MODES.map(|mode| measurement.of(Candidate::xdp(mode).connected()));
    let tcp = measurement.of(Candidate::provider("tcp").connected());
    ours.into_iter().chain([tcp]).collect()
}

/// Time from `fi_fabric` to the first answer.
fn start_up() -> Vec<Entry> {
    let measurement = Measurement::new(20).latency(&[8]).more(&["--start-up"]);
    let mut entries: Vec<Entry> =
        XDP_MODES.map(|mode| measurement.of(Candidate::xdp(mode))).into_iter().collect();
    entries.extend(OTHERS.map(|name| measurement.of(Candidate::provider(name))));
    entries
}

/// Messages of 64 KiB, and round trips of small ones, over links that lose packets.
fn loss(time_ms: u64, quick: bool) -> Vec<Entry> {
    let measurement =
        Measurement::new(time_ms).latency(&[8]).stream(&[(65_536, 16)]).more(&["--warm-up", "20"]);
    let mut entries = Vec::new();
    for per_mille in LOSSES.into_iter().filter(|loss| !quick || *loss != 1) {
        let who = [
            Candidate::xdp(XdpMode::Auto),
            Candidate::xdp(XdpMode::Udp),
            Candidate::provider("tcp"),
            Candidate::provider("udp;ofi_rxd"),
        ];
        entries.extend(who.map(|who| measurement.of(who.losing(per_mille))));
    }
    entries
}

/// Processor time: of idle processes, and of transfers of both kinds while the application sleeps.
fn cpu(time_ms: u64, idle_ms: u64) -> Vec<Entry> {
    let idle = idle_ms.to_string();
    let measurement = Measurement::new(time_ms)
        .latency(&[8])
        .stream(&[(65_536, 16)])
        .more(&["--idle", idle.as_str()]);
    let automatic = measurement.clone().also("--auto-progress");
    let mut entries = Vec::new();
    for mode in [XdpMode::Auto, XdpMode::Skb, XdpMode::Udp] {
        entries.push(automatic.of(Candidate::xdp(mode)));
        entries.push(automatic.of(Candidate::xdp(mode).waiting("sread")));
    }
    for name in OTHERS {
        entries.push(measurement.of(Candidate::provider(name)));
    }
    entries.push(measurement.of(Candidate::provider("tcp").waiting("sread")));
    entries
}

/// Small and large messages, with each operation, spinning and asleep, on each tier; connected
/// endpoints.
fn pgo_workload() -> Vec<Entry> {
    let messages =
        Measurement::new(100).latency(SIZES_QUICK).stream(&[(8, WINDOW), BULK[1], BULK[2]]);
    let reads = Measurement::new(100).stream(&BULK[2..]);
    // Small ones too: code that the workload never runs is placed among unused code.
    let writes = Measurement::new(100).latency(SIZES_QUICK).stream(&BULK[2..]);
    let mut entries = Vec::new();
    for mode in XDP_MODES {
        entries.push(messages.of(Candidate::xdp(mode)));
        for (what, measurement) in [(WRITE, &writes), (READ, &reads)] {
            entries.push(measurement.of(Candidate::xdp(mode).one_sided(what)));
        }
    }
    entries.push(
        Measurement::new(100).latency(&[8]).of(Candidate::xdp(XdpMode::Auto).waiting("sread")),
    );
    for mode in [XdpMode::Auto, XdpMode::Udp] {
        entries.push(messages.of(Candidate::xdp(mode).connected()));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::{DATAGRAMS, MATCHING, PATH, QUEUES, SUITES, THREADS};

    #[test]
    fn every_suite_has_a_plan_with_each_candidate_once() {
        for suite in SUITES.into_iter().chain([PGO_WORKLOAD]) {
            for quick in [false, true] {
                let Some(plan) = plan(suite, quick) else {
                    assert!(
                        ["engine", PATH, DATAGRAMS, MATCHING, QUEUES, THREADS].contains(&suite),
                        "{suite}"
                    );
                    continue;
                };
                let key = |entry: &Entry| {
                    let who = &entry.candidate;
                    format!(
                        "{}/{}/{}/{:?}/{:?}/{:?}/{:?}",
                        who.peer,
                        who.mode,
                        who.operation,
                        who.link,
                        who.options,
                        who.polling,
                        entry.arguments.iter().skip_while(|one| *one != "--size").nth(1)
                    )
                };
                let mut keys: Vec<String> = plan.entries.iter().map(key).collect();
                keys.sort();
                let count = keys.len();
                keys.dedup();
                assert_eq!(keys.len(), count, "{suite}: {keys:?}");
            }
        }
    }

    #[test]
    fn transports_of_single_packets_stream_full_ones() {
        let plan = plan("bandwidth", false).unwrap();
        let has = |peer: &str, text: &str| {
            let mut of = plan.entries.iter().filter(|entry| entry.candidate.peer == peer);
            of.any(|entry| entry.arguments.iter().any(|argument| argument == text))
        };
        assert!(has("raw-af_xdp", "1440x64x3") && has("raw-af_xdp", "3744x64x3"));
        assert!(has("kernel-udp", "1472x176x3") && has("kernel-udp", "8972x28x3"));
        assert!(has("tcp", "4096x64,65536x16,1048576x16"));
        let reads = |entry: &Entry| entry.candidate.arguments.contains(&READ);
        assert!(plan.entries.iter().any(reads), "reads are measured, too");
    }
}
