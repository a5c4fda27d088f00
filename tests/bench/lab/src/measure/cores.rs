// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distances between the cores of client and server.
//!
//! The host of a virtual machine moves its processors. At times two of them share a cache, at times
//! a cache line crosses the whole package. Then work of two processes together takes up to twice as
//! long, for a second or an hour. So the transfer time of a cache line is measured before and after
//! each session ([`super::run`]). Out: nanoseconds. Bound: [`TIMEOUT`].

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Round trips in a series, and number of series. The quickest series counts: another process may
/// take a core for a while.
const HANDOVERS: u32 = 500;
const GOES: usize = 8;
/// Time without an answer after which there is no result: another process has the core.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Ratio to the smallest distance from which cores count as far. The levels between the caches of
/// one package differ by a factor of three and more.
const FAR: f64 = 2.0;

/// The cache line that goes to and fro: the number of the turn, even for one side and odd for the
/// other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU32);

/// The distances of one run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Distances {
    seen: Vec<f64>,
    /// Remaining repetitions of sessions.
    repetitions: usize,
}

impl Distances {
    /// No distances; at most `repetitions` sessions may be repeated.
    #[must_use]
    pub const fn new(repetitions: usize) -> Self {
        Self { seen: Vec::new(), repetitions }
    }

    /// Adds a distance, if it was measured.
    pub fn add(&mut self, distance: Option<f64>) -> Option<f64> {
        self.seen.extend(distance);
        distance
    }

    /// Whether a session with this distance must be repeated; counts the repetition.
    pub fn is_worth_another(&mut self, distance: Option<f64>) -> bool {
        let is = distance.is_some_and(|distance| self.is_far(distance)) && self.repetitions > 0;
        self.repetitions -= usize::from(is);
        is
    }

    /// Whether the distance is more than [`FAR`] times the smallest one.
    #[must_use]
    pub fn is_far(&self, distance: f64) -> bool {
        let least = self.seen.iter().copied().reduce(f64::min);
        least.is_some_and(|least| distance > FAR * least)
    }

    /// All distances.
    #[must_use]
    pub fn seen(&self) -> &[f64] {
        &self.seen
    }
}

/// Transfer time of a cache line between core 0 and core 1, the cores of clients and servers, in
/// ns. `None` on a machine without these cores, or without time for them.
pub(super) fn handover_ns() -> Option<f64> {
    let line = &Line::default();
    thread::scope(|scope| {
        let there = scope.spawn(move || pin(0).and_then(|()| turns(line, 0)));
        let back = scope.spawn(move || pin(1).and_then(|()| turns(line, 1)));
        back.join().ok().flatten()?;
        let quickest = there.join().ok().flatten()?;
        Some(quickest.as_secs_f64() * 1e9 / f64::from(2 * HANDOVERS))
    })
}

fn pin(core: usize) -> Option<()> {
    let mut cores = CpuSet::new();
    cores.set(core).ok()?;
    sched_setaffinity(Pid::from_raw(0), &cores).ok()
}

/// Takes every other turn from `first` on; returns the time of the quickest series.
fn turns(line: &Line, first: u32) -> Option<Duration> {
    let (begin, mut quickest, mut turn) = (Instant::now(), Duration::MAX, first);
    for _ in 0..GOES {
        let start = Instant::now();
        for _ in 0..HANDOVERS {
            let mut reads = 0_u32;
            // bound: TIMEOUT
            while line.0.load(Ordering::Acquire) != turn {
                reads = reads.wrapping_add(1);
                if reads.is_multiple_of(4096) && begin.elapsed() > TIMEOUT {
                    return None;
                }
            }
            line.0.store(turn.wrapping_add(1), Ordering::Release);
            turn = turn.wrapping_add(2);
        }
        quickest = quickest.min(start.elapsed());
    }
    Some(quickest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_is_twice_as_far_as_the_nearest() {
        let mut distances = Distances::new(0);
        assert!(!distances.is_far(150.0), "nothing to compare with");
        distances.add(Some(150.0));
        assert!(!distances.is_far(150.0));
        distances.add(Some(28.0));
        assert!(distances.is_far(150.0));
        assert!(!distances.is_far(56.0));
        assert_eq!(distances.seen(), [150.0, 28.0]);
    }

    #[test]
    fn both_sides_take_their_turns() {
        let line = &Line::default();
        let (there, back) = thread::scope(|scope| {
            let there = scope.spawn(move || turns(line, 0));
            let back = scope.spawn(move || turns(line, 1));
            (there.join().unwrap(), back.join().unwrap())
        });
        // On one core, or on a busy one, a side may end without an answer.
        let all = u32::try_from(GOES).unwrap() * 2 * HANDOVERS;
        if there.is_some() && back.is_some() {
            assert_eq!(line.0.load(Ordering::Relaxed), all);
        }
    }

    #[test]
    fn a_side_without_an_answer_gives_up() {
        assert_eq!(turns(&Line::default(), 1), None);
    }
}
