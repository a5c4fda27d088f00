// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports of the progress of a measurement, one an interval.
//!
//! In: the time of each step, which was read anyway. Out: an [`Interval`] to the observer. Caller:
//! the client. Bound: one report an interval.

use std::time::Duration;

/// The progress of a measurement since the report before.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// Time since the measurement began.
    pub at: Duration,
    /// Time since the report before.
    pub took: Duration,
    /// Round trips, operations, or messages that arrived, since then.
    pub count: u64,
    /// The median of the latencies since then, in ns, where they are measured.
    pub p50_ns: Option<u64>,
}

/// A receiver of reports. Its failure ends the measurement.
pub type ProgressObserver<'o> = dyn FnMut(Interval) -> anyhow::Result<()> + 'o;

/// The observer of a measurement.
pub(super) struct Ticker<'o> {
    interval: Option<Duration>,
    next: Duration,
    last: (Duration, u64),
    observer: &'o mut ProgressObserver<'o>,
}

impl std::fmt::Debug for Ticker<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticker").field("interval", &self.interval).finish_non_exhaustive()
    }
}

impl<'o> Ticker<'o> {
    pub(super) fn new(interval: Option<Duration>, observer: &'o mut ProgressObserver<'o>) -> Self {
        Self { interval, next: Duration::MAX, last: (Duration::ZERO, 0), observer }
    }

    /// A measurement begins.
    pub(super) fn start(&mut self) {
        self.next = self.interval.unwrap_or(Duration::MAX);
        self.last = (Duration::ZERO, 0);
    }

    /// Whether a report is due `elapsed` after the beginning.
    #[inline]
    pub(super) fn is_due(&self, elapsed: Duration) -> bool {
        elapsed >= self.next
    }

    /// Reports `count` in all.
    ///
    /// # Errors
    /// The failure of the observer.
    #[cold]
    pub(super) fn report(
        &mut self,
        at: Duration,
        count: u64,
        p50_ns: Option<u64>,
    ) -> anyhow::Result<()> {
        let (before, counted) = self.last;
        let took = at.saturating_sub(before);
        self.last = (at, count);
        // A step that took several intervals is one report.
        self.next = at + self.interval.unwrap_or(Duration::MAX - at);
        (self.observer)(Interval { at, took, count: count.saturating_sub(counted), p50_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_what_came_since_the_one_before() {
        let mut seen = Vec::new();
        let mut observer = |interval: Interval| {
            seen.push((interval.count, interval.took));
            Ok(())
        };
        let mut ticker = Ticker::new(Some(Duration::from_secs(1)), &mut observer);
        ticker.start();
        assert!(!ticker.is_due(Duration::from_millis(999)));
        assert!(ticker.is_due(Duration::from_millis(1_500)));
        ticker.report(Duration::from_millis(1_500), 30, None).unwrap();
        assert!(!ticker.is_due(Duration::from_millis(2_000)));
        ticker.report(Duration::from_millis(2_500), 50, None).unwrap();
        assert_eq!(seen, [(30, Duration::from_millis(1_500)), (20, Duration::from_secs(1))]);
    }

    #[test]
    fn without_an_interval_there_is_no_report() {
        let mut observer = |_| unreachable!("no report is due");
        let mut ticker = Ticker::new(None, &mut observer);
        ticker.start();
        assert!(!ticker.is_due(Duration::from_secs(3_600)));
    }
}
