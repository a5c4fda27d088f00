// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is measured in which suite, and with what.

use crate::lab::{Contestant, Entry, LinkUse, READ, WRITE, XdpMode};

/// One suite: its entries, and how often they are measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The report's `suite`.
    pub suite: &'static str,
    /// How often everybody is measured.
    pub rounds: usize,
    /// Who, with what.
    pub entries: Vec<Entry>,
}

/// Every way that the provider can be told to take, where cards are virtual: `auto` first.
const XDP_MODES: [XdpMode; 4] = [XdpMode::Auto, XdpMode::Skb, XdpMode::Copy, XdpMode::Udp];
/// libfabric's own that users would take instead.
const OTHERS: [&str; 3] = ["tcp", "tcp;ofi_rxm", "udp;ofi_rxd"];
/// Message sizes of latencies; the same, quickly.
const SIZES: &[usize] = &[8, 64, 256, 1024, 4096, 16_384, 65_536];
const SIZES_QUICK: &[usize] = &[8, 1024, 16_384];
/// Sizes and windows of bulk.
const BULK: &[(usize, u32)] = &[(4096, 64), (65_536, 16), (1 << 20, 16)];
const MTUS: [u32; 2] = [1500, 9000];
/// Messages in a window of small ones.
const WINDOW: u32 = 64;
/// Windows under way of who only knows packets; together less than the 256 frames that an AF_XDP
/// port lends the kernel where that copies.
const AHEAD: u32 = 3;
/// Trains in a window of datagrams, and bytes in a train.
const TRAINS: usize = 4;
const TRAIN_MAX: usize = 65_507;
/// Losses of a thousand packets.
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
        "scale" => plan("scale", by(1, 5), start_up()),
        "loss" => plan("loss", by(1, 3), loss(by(200, 1000), quick)),
        TRAINING => plan(TRAINING, 1, training()),
        "cpu" => plan("cpu", by(1, 3), cpu(by(60, 250), by(500, 2000))),
        _ => None,
    }
}

/// No suite: nothing is kept of what it measures. It is work for a provider that counts what runs.
pub const TRAINING: &str = "train";

/// What is measured of one contestant.
#[derive(Clone, Debug)]
struct Wish {
    time_ms: u64,
    latency: Vec<usize>,
    stream: Vec<(usize, u32)>,
    more: Vec<String>,
}

impl Wish {
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

    /// As far as `contestant` can carry it. Who only knows packets streams full ones.
    fn of(&self, contestant: Contestant) -> Entry {
        let max = contestant.size_max;
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
                size if size > max => full_packets(contestant.program, max),
                size => format!("{size}x{window}"),
            })
            .collect();
        windows.dedup();
        if !windows.is_empty() {
            let option = if contestant.operation == READ { "--read" } else { "--stream" };
            arguments.extend([String::from(option), windows.join(",")]);
        }
        Entry { contestant, arguments }
    }
}

/// The stream of who only knows packets: full ones, of which so many are under way that nobody
/// waits for an answer, as nobody does whose windows are 16 MiB; and not so many that any are lost.
fn full_packets(program: &str, size: usize) -> String {
    let window = if program == "kernel-udp-trains" {
        TRAINS * (TRAIN_MAX / size.max(1)).min(64)
    } else {
        WINDOW as usize
    };
    format!("{size}x{window}x{AHEAD}")
}

/// Ping-pong: everybody spinning, then asleep, then one-sided, then on one host.
fn latency(time_ms: u64, quick: bool) -> Vec<Entry> {
    let all = Wish::new(time_ms).latency(if quick { SIZES_QUICK } else { SIZES });
    let small = Wish::new(time_ms).latency(&[8]);
    let mut entries: Vec<Entry> =
        XDP_MODES.map(|mode| all.of(Contestant::xdp(mode))).into_iter().collect();
    entries.extend([XdpMode::Skb, XdpMode::Copy].map(|mode| all.of(Contestant::raw(mode))));
    entries.extend([false, true].map(|blocking| all.of(Contestant::kernel_udp(blocking))));
    entries.extend(OTHERS.map(|name| all.of(Contestant::provider(name))));
    for how in ["sread", "fd"] {
        for mode in [XdpMode::Auto, XdpMode::Udp] {
            let waiting = Contestant::xdp(mode).waiting(how);
            if how == "sread" {
                entries.push(small.of(waiting.clone().asleep_at_once()));
            }
            entries.push(small.of(waiting));
        }
        entries.push(small.of(Contestant::provider("tcp").waiting(how)));
    }
    let one_sided = [
        Contestant::xdp(XdpMode::Skb),
        Contestant::xdp(XdpMode::Copy),
        Contestant::xdp(XdpMode::Udp),
        Contestant::provider("tcp"),
        Contestant::provider("udp;ofi_rxd"),
    ];
    entries.extend(one_sided.map(|who| small.of(who.one_sided(WRITE))));
    let one_host = Wish::new(time_ms).latency(&[8, 4096]);
    let neighbours =
        [Contestant::xdp(XdpMode::Auto), Contestant::provider("shm"), Contestant::provider("tcp")];
    entries.extend(neighbours.map(|who| one_host.of(who.on(LinkUse::Loopback))));
    entries
}

/// Small messages in windows of 64.
fn rate(time_ms: u64) -> Vec<Entry> {
    let wish = Wish::new(time_ms).stream(&[(8, WINDOW), (64, WINDOW)]);
    let mut entries: Vec<Entry> =
        XDP_MODES.map(|mode| wish.of(Contestant::xdp(mode))).into_iter().collect();
    entries.extend([XdpMode::Skb, XdpMode::Copy].map(|mode| wish.of(Contestant::raw(mode))));
    entries.extend(
        [Contestant::kernel_udp(false), Contestant::kernel_udp_trains()].map(|who| wish.of(who)),
    );
    entries.extend(OTHERS.map(|name| wish.of(Contestant::provider(name))));
    entries
}

/// Bulk, each way that it moves, over packets of both lengths.
fn bandwidth(time_ms: u64, quick: bool) -> Vec<Entry> {
    let tagged = Wish::new(time_ms).stream(if quick { &BULK[1..] } else { BULK });
    let large = Wish::new(time_ms).stream(&BULK[2..]);
    let mut entries = Vec::new();
    for mtu in MTUS.into_iter().filter(|mtu| !quick || *mtu == MTUS[0]) {
        let mut add = |wish: &Wish, who: Contestant| entries.push(wish.of(who.mtu(mtu)));
        for mode in XDP_MODES {
            add(&tagged, Contestant::xdp(mode));
            add(&large, Contestant::xdp(mode).one_sided(WRITE));
            add(&large, Contestant::xdp(mode).one_sided(READ));
        }
        for mode in [XdpMode::Skb, XdpMode::Copy] {
            add(&large, Contestant::raw(mode));
        }
        add(&large, Contestant::kernel_udp_trains());
        for name in OTHERS {
            add(&tagged, Contestant::provider(name));
        }
        for operation in [WRITE, READ] {
            add(&large, Contestant::provider("tcp").one_sided(operation));
        }
    }
    entries
}

/// From `fi_fabric` to the first answer.
fn start_up() -> Vec<Entry> {
    let wish = Wish::new(20).latency(&[8]).more(&["--start-up"]);
    let mut entries: Vec<Entry> =
        XDP_MODES.map(|mode| wish.of(Contestant::xdp(mode))).into_iter().collect();
    entries.extend(OTHERS.map(|name| wish.of(Contestant::provider(name))));
    entries
}

/// Messages of 64 KiB, and small ones there and back, over links that lose packets.
fn loss(time_ms: u64, quick: bool) -> Vec<Entry> {
    let wish = Wish::new(time_ms).latency(&[8]).stream(&[(65_536, 16)]).more(&["--warm-up", "20"]);
    let mut entries = Vec::new();
    for per_mille in LOSSES.into_iter().filter(|loss| !quick || *loss != 1) {
        let who = [
            Contestant::xdp(XdpMode::Auto),
            Contestant::xdp(XdpMode::Udp),
            Contestant::provider("tcp"),
            Contestant::provider("udp;ofi_rxd"),
        ];
        entries.extend(who.map(|who| wish.of(who.losing(per_mille))));
    }
    entries
}

/// What processors do: while nothing happens, and while messages of both kinds move and the
/// application sleeps.
fn cpu(time_ms: u64, idle_ms: u64) -> Vec<Entry> {
    let idle = idle_ms.to_string();
    let wish =
        Wish::new(time_ms).latency(&[8]).stream(&[(65_536, 16)]).more(&["--idle", idle.as_str()]);
    let automatic = wish.clone().also("--auto-progress");
    let mut entries = Vec::new();
    for mode in [XdpMode::Auto, XdpMode::Skb, XdpMode::Udp] {
        entries.push(automatic.of(Contestant::xdp(mode)));
        entries.push(automatic.of(Contestant::xdp(mode).waiting("sread")));
    }
    for name in OTHERS {
        entries.push(wish.of(Contestant::provider(name)));
    }
    entries.push(wish.of(Contestant::provider("tcp").waiting("sread")));
    entries
}

/// Small messages and long ones, both ways round, spinning and asleep, each way that packets go.
fn training() -> Vec<Entry> {
    let messages = Wish::new(100).latency(SIZES_QUICK).stream(&[(8, WINDOW), BULK[1], BULK[2]]);
    let reads = Wish::new(100).stream(&BULK[2..]);
    // Small ones, too: what is not seen at work is put among what never runs.
    let writes = Wish::new(100).latency(SIZES_QUICK).stream(&BULK[2..]);
    let mut entries = Vec::new();
    for mode in XDP_MODES {
        entries.push(messages.of(Contestant::xdp(mode)));
        for (what, wish) in [(WRITE, &writes), (READ, &reads)] {
            entries.push(wish.of(Contestant::xdp(mode).one_sided(what)));
        }
    }
    entries.push(Wish::new(100).latency(&[8]).of(Contestant::xdp(XdpMode::Auto).waiting("sread")));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::SUITES;

    #[test]
    fn every_suite_has_a_plan_and_nobody_is_in_it_twice() {
        for suite in SUITES.into_iter().chain([TRAINING]) {
            for quick in [false, true] {
                let Some(plan) = plan(suite, quick) else {
                    assert_eq!(suite, "engine");
                    continue;
                };
                let key = |entry: &Entry| {
                    let who = &entry.contestant;
                    format!(
                        "{}/{}/{}/{:?}/{:?}",
                        who.peer, who.mode, who.operation, who.link, who.options
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
    fn who_knows_packets_alone_streams_full_ones() {
        let plan = plan("bandwidth", false).unwrap();
        let has = |peer: &str, text: &str| {
            let mut of = plan.entries.iter().filter(|entry| entry.contestant.peer == peer);
            of.any(|entry| entry.arguments.iter().any(|argument| argument == text))
        };
        assert!(has("raw-af_xdp", "1440x64x3") && has("raw-af_xdp", "3744x64x3"));
        assert!(has("kernel-udp", "1472x176x3") && has("kernel-udp", "8972x28x3"));
        assert!(has("tcp", "4096x64,65536x16,1048576x16") && has("xdp", "--read"));
    }
}
