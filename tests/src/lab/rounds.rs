// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round after round, everybody in turn.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::{Contestant, Distances, Field, Results, Series};
use crate::interrupt;

/// Sessions for one turn at most.
const ATTEMPTS: u32 = 3;

/// One contestant, and what is measured of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Who.
    pub contestant: Contestant,
    /// Arguments for its program's client.
    pub arguments: Vec<String>,
}

/// A progress bar on a terminal, lines elsewhere.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// For `steps` steps.
    #[must_use]
    pub fn new(steps: usize) -> Self {
        if !stderr().is_terminal() {
            return Self { bar: None };
        }
        let bar = ProgressBar::new(steps as u64);
        let style = ProgressStyle::with_template("{bar:40.cyan/blue} {pos:>3}/{len}  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        // Seldom: the bar must not take a core from what is measured.
        bar.enable_steady_tick(Duration::from_secs(1));
        Self { bar: Some(bar) }
    }

    fn begin(&self, message: String, first: bool) {
        match &self.bar {
            Some(bar) => bar.set_message(message),
            None if first => eprintln!("{message} …"),
            None => {}
        }
    }

    fn end_step(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Measures `entries` on `field`, so many rounds. One that fails a round is tried again in the
/// next; its failures are kept.
///
/// # Errors
/// After SIGINT and the like.
pub fn run(
    (suite, rounds): (&'static str, usize),
    field: &Field,
    entries: Vec<Entry>,
) -> anyhow::Result<Results> {
    let count = entries.len();
    let progress = Progress::new(rounds * count);
    let mut series: Vec<Series> =
        entries.iter().map(|entry| Series::new(entry.contestant.clone())).collect();
    let mut distances = Distances::new();
    for round in 0..rounds {
        // Each round begins with another, so that nobody always follows the same one.
        for turn in 0..count {
            interrupt::check()?;
            let place = (round + turn) % count;
            let Entry { contestant, arguments } = &entries[place];
            let message = format!("{suite}, round {}/{rounds}: {}", round + 1, contestant.label());
            progress.begin(message, turn == 0);
            let session = || field.session(contestant, arguments);
            let (outcome, distance) = near(&mut distances, || field.distance(), session);
            interrupt::check()?;
            series[place].add(outcome, distance);
            progress.end_step();
        }
    }
    series.iter_mut().for_each(|one| one.drop_far(|distance| distances.is_far(distance)));
    Ok(Results { suite, rounds, setting: field.setting(), distances, series })
}

/// A session, and how far the cores were from each other before it or after, as `look` says: again,
/// up to [`ATTEMPTS`] times, while that is farther than it can be.
fn near<T>(
    distances: &mut Distances,
    mut look: impl FnMut() -> Option<f64>,
    mut session: impl FnMut() -> anyhow::Result<T>,
) -> (anyhow::Result<T>, f64) {
    let mut look = |distances: &mut Distances| {
        let distance = look();
        distance.into_iter().for_each(|distance| distances.add(distance));
        distance.unwrap_or(0.0)
    };
    let mut before = look(distances);
    let mut attempt = 1;
    loop {
        let outcome = session();
        let after = look(distances);
        let distance = before.max(after);
        if outcome.is_err() || attempt == ATTEMPTS || !distances.is_far(distance) {
            return (outcome, distance);
        }
        (before, attempt) = (after, attempt + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many sessions there were, and the distance beside the last, where the cores are so far
    /// from each other in turn.
    fn sessions(seen: &[Option<f64>], fail: bool) -> (u32, f64) {
        let (mut looks, mut count) = (seen.iter(), 0);
        let (outcome, distance) = near(
            &mut Distances::new(),
            || *looks.next().unwrap(),
            || {
                count += 1;
                anyhow::ensure!(!fail, "nobody there");
                Ok(())
            },
        );
        assert_eq!(outcome.is_err(), fail);
        (count, distance)
    }

    #[test]
    fn what_far_cores_measured_is_measured_again() {
        let (near, far) = (Some(28.0), Some(155.0));
        assert_eq!(sessions(&[near, near], false), (1, 28.0));
        assert_eq!(sessions(&[near, far, near, near], false), (3, 28.0));
        assert_eq!(sessions(&[near, far, far, far], false), (3, 155.0));
        assert_eq!(sessions(&[far, far], false), (1, 155.0), "never seen nearer");
        assert_eq!(sessions(&[near, far], true), (1, 155.0), "a failure is no measurement");
        assert_eq!(sessions(&[None, None], false), (1, 0.0));
    }
}
