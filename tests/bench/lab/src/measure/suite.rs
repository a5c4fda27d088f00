// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of the main job.

use super::{Candidate, Entry};

/// Messages in a stream's window.
pub(crate) const WINDOW: u32 = 64;

/// A list of measurements, with their number of rounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suite {
    /// The report's `suite`.
    pub name: &'static str,
    /// Latencies: message sizes in bytes.
    pub latency: Vec<usize>,
    /// Streams: message size in bytes, messages in a window.
    pub stream: Vec<(usize, u32)>,
    /// Number of rounds.
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

    /// All candidates, each with the workload that it can carry.
    #[must_use]
    pub fn entries(&self, candidates: Vec<Candidate>) -> Vec<Entry> {
        let entry = |candidate: Candidate| {
            let arguments = self.arguments(&candidate);
            Entry::new(candidate, arguments)
        };
        candidates.into_iter().map(entry).collect()
    }

    /// The arguments for a program's `client`, as far as `candidate` can carry the measurements. A
    /// stream beyond the size of one datagram uses the largest datagram.
    #[must_use]
    pub fn arguments(&self, candidate: &Candidate) -> Vec<String> {
        let mut arguments = vec![String::from("--time"), self.time_ms.to_string()];
        let max = candidate.size_max;
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
    use crate::measure::candidates;
    use ofi_xdp_harness::tier::XdpMode;

    #[test]
    fn every_candidate_gets_a_workload_that_it_can_carry() {
        let all = candidates(XdpMode::Auto);
        let of = |peer| all.iter().find(|c| c.peer == peer).unwrap();
        let bulk = Suite { stream: vec![(1 << 20, 16)], ..Suite::run(true) };
        assert!(bulk.arguments(of("tcp")).contains(&String::from("1048576x16")));
        assert!(bulk.arguments(of("kernel-udp")).contains(&String::from("1472x64")));
        let run = Suite::run(false).arguments(of("raw-af_xdp"));
        assert!(run.contains(&String::from("8,64,256,1024")), "{run:?}");
    }
}
