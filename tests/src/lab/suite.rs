// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is measured.

use super::{Contestant, Entry};

/// Messages in a stream's window.
pub(crate) const WINDOW: u32 = 64;

/// A list of measurements, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suite {
    /// The report's `suite`.
    pub name: &'static str,
    /// Latencies: message sizes in bytes.
    pub latency: Vec<usize>,
    /// Streams: message size in bytes, messages in a window.
    pub stream: Vec<(usize, u32)>,
    /// How often everybody is measured.
    pub rounds: usize,
    /// The time of each measurement, in ms.
    pub time_ms: u64,
}

impl Suite {
    /// The main job: ping-pong and stream.
    #[must_use]
    pub fn run(quick: bool) -> Self {
        let mut latency = vec![8, 64, 256, 1024, 4096, 16_384, 65_536];
        if quick {
            latency.retain(|size| [8, 1024, 16_384].contains(size));
        }
        let (rounds, time_ms) = if quick { (3, 60) } else { (5, 80) };
        Self { name: "run", latency, stream: vec![(8, WINDOW)], rounds, time_ms }
    }

    /// Everybody, with what each can carry.
    #[must_use]
    pub fn entries(&self, contestants: Vec<Contestant>) -> Vec<Entry> {
        let entry = |contestant| Entry { arguments: self.arguments(&contestant), contestant };
        contestants.into_iter().map(entry).collect()
    }

    /// The measurements' arguments for a program's `client`, as far as `contestant` can carry them.
    /// What is too large to stream in one datagram is streamed in the largest.
    #[must_use]
    pub fn arguments(&self, contestant: &Contestant) -> Vec<String> {
        let mut arguments = vec![String::from("--time"), self.time_ms.to_string()];
        let max = contestant.size_max;
        let latency: Vec<_> =
            self.latency.iter().filter(|size| **size <= max).map(ToString::to_string).collect();
        if !latency.is_empty() {
            arguments.extend([String::from("--latency"), latency.join(",")]);
        }
        let stream = self.stream.iter().map(|(size, window)| match *size {
            size if size > max => format!("{max}x{WINDOW}"),
            size => format!("{size}x{window}"),
        });
        let stream: Vec<_> = stream.collect();
        if !stream.is_empty() {
            arguments.extend([String::from("--stream"), stream.join(",")]);
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{XdpMode, contestants};

    #[test]
    fn every_contestant_gets_what_it_can_carry() {
        let all = contestants(XdpMode::Auto);
        let of = |peer| all.iter().find(|c| c.peer == peer).unwrap();
        let bulk = Suite { stream: vec![(1 << 20, 16)], ..Suite::run(true) };
        assert!(bulk.arguments(of("tcp")).contains(&String::from("1048576x16")));
        assert!(bulk.arguments(of("kernel-udp")).contains(&String::from("1472x64")));
        let run = Suite::run(false).arguments(of("raw-af_xdp"));
        assert!(run.contains(&String::from("8,64,256,1024")), "{run:?}");
    }
}
