// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rounds: each candidate is measured once in a round.

use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use super::{Distances, Entry, Environment, Results, Series};
use ofi_xdp_harness::interrupt;

/// Most sessions for one turn.
const ATTEMPTS: u32 = 3;

/// A progress bar on a terminal, lines elsewhere: what is measured, and how long is left.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    begin: Instant,
    steps: usize,
    done: usize,
}

impl Progress {
    /// A bar of `steps` steps.
    #[must_use]
    pub fn new(steps: usize) -> Self {
        let begin = Instant::now();
        if !stderr().is_terminal() {
            return Self { bar: None, begin, steps, done: 0 };
        }
        let bar = ProgressBar::new(steps as u64);
        let style = ProgressStyle::with_template("{bar:24.cyan/blue} {pos:>3}/{len}{left}  {msg}");
        let left = |state: &ProgressState, out: &mut dyn Write| {
            let (done, steps) = (state.pos() as usize, state.len().unwrap_or(0) as usize);
            let _ = out.write_str(&time_left(state.elapsed(), done, steps));
        };
        let style = style.map(|style| style.with_key("left", left));
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        // Seldom redrawn: the bar must not take processor time from the measurement.
        bar.enable_steady_tick(Duration::from_secs(1));
        Self { bar: Some(bar), begin, steps, done: 0 }
    }

    fn begin(&self, message: String, first: bool) {
        match &self.bar {
            Some(bar) => bar.set_message(message),
            None if first => {
                let left = time_left(self.begin.elapsed(), self.done, self.steps);
                eprintln!("{message}{left} …");
            }
            None => {}
        }
    }

    fn end_step(&mut self) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Prints a line, above the bar if there is one.
    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| println!("{line}")),
            None => println!("{line}"),
        }
    }
}

/// The time until the end, if each step takes as long as those before: `, 40 seconds left`. Nothing
/// before the first step has ended.
fn time_left(elapsed: Duration, done: usize, steps: usize) -> String {
    if done == 0 {
        return String::new();
    }
    let left = elapsed.mul_f64(steps.saturating_sub(done) as f64 / done as f64);
    format!(", {} left", HumanDuration(left))
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Measures `entries` in `environment` for `rounds` rounds. An entry that fails a round is measured
/// again in the next one; its failures are kept.
///
/// # Errors
/// After SIGINT and the like.
pub fn run(
    suite: (&'static str, usize),
    environment: &Environment,
    entries: Vec<Entry>,
) -> anyhow::Result<Results> {
    run_with(suite, environment, entries, |_| None)
}

/// As [`run`], and prints the line that `first` makes of each candidate's first round, when that
/// has ended.
///
/// # Errors
/// Those of [`run`].
pub fn run_with(
    (suite, rounds): (&'static str, usize),
    environment: &Environment,
    entries: Vec<Entry>,
    first: impl Fn(&Series) -> Option<String>,
) -> anyhow::Result<Results> {
    let count = entries.len();
    let mut progress = Progress::new(rounds * count);
    let mut series: Vec<Series> =
        entries.iter().map(|entry| Series::new(entry.candidate.clone())).collect();
    let mut distances = Distances::new(count);
    for round in 0..rounds {
        // Each round begins with another entry, so that no entry always follows the same one.
        for turn in 0..count {
            interrupt::check()?;
            let index = (round + turn) % count;
            let entry = &entries[index];
            let label = entry.candidate.label();
            let message = format!("{suite}, round {}/{rounds}: {label}", round + 1);
            progress.begin(message, turn == 0);
            let session = || environment.session(entry);
            let (outcome, distance) =
                on_near_cores(&mut distances, || environment.distance(), session);
            interrupt::check()?;
            series[index].add(outcome, distance);
            progress.end_step();
            if let Some(line) = (round == 0).then(|| first(&series[index])).flatten() {
                progress.say(&line);
            }
        }
    }
    // All or none: a ratio between near cores and far cores is meaningless.
    let is_far = |distance| distances.is_far(distance);
    if series.iter().all(|one| one.has_near(is_far)) {
        series.iter_mut().for_each(|one| one.drop_far(is_far));
    }
    Ok(Results { suite, rounds, setting: environment.setting(), distances, series })
}

/// A session, with the larger core distance before and after it. If the cores are farther apart
/// than they can be, the session is repeated up to [`ATTEMPTS`] times. A failed repetition is
/// ignored.
fn on_near_cores<T>(
    distances: &mut Distances,
    mut measure_distance: impl FnMut() -> Option<f64>,
    mut session: impl FnMut() -> anyhow::Result<T>,
) -> (anyhow::Result<T>, Option<f64>) {
    let mut before = distances.add(measure_distance());
    let mut outcome = session();
    let mut distance = farther(before, distances.add(measure_distance()));
    for _ in 1..ATTEMPTS {
        if outcome.is_err() || !distances.is_worth_another(distance) {
            break;
        }
        before = distances.add(measure_distance());
        if before.is_some_and(|before| distances.is_far(before)) {
            break;
        }
        let again = session();
        let beside = farther(before, distances.add(measure_distance()));
        if again.is_err() {
            break;
        }
        (outcome, distance) = (again, beside);
    }
    (outcome, distance)
}

/// The larger of two distances, if any is known.
fn farther(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of sessions, and the distance of the one that counts. `seen` are those of
    /// the sessions in turn, and the sessions of the numbers in `failing` fail.
    fn sessions(seen: &[Option<f64>], failing: &[u32]) -> (u32, Option<f64>) {
        let (mut measured, mut count) = (seen.iter(), 0);
        let (outcome, distance) = on_near_cores(
            &mut Distances::new(2),
            || *measured.next().unwrap(),
            || {
                count += 1;
                anyhow::ensure!(!failing.contains(&count), "no server");
                Ok(())
            },
        );
        assert_eq!(outcome.is_err(), failing.contains(&1));
        assert_eq!(measured.next(), None);
        (count, distance)
    }

    #[test]
    fn sessions_of_far_cores_are_repeated() {
        let (near, far) = (Some(28.0), Some(155.0));
        assert_eq!(sessions(&[near, near], &[]), (1, near));
        assert_eq!(sessions(&[near, far, near, near], &[]), (2, near));
        assert_eq!(sessions(&[near, far, near, far, near, far], &[]), (3, far));
        assert_eq!(sessions(&[near, far, far], &[]), (1, far), "no use yet");
        assert_eq!(sessions(&[far, far], &[]), (1, far), "never seen nearer");
        assert_eq!(sessions(&[near, far], &[1]), (1, far), "a failure is no measurement");
        assert_eq!(sessions(&[near, far, near, near], &[2]), (2, far), "nor a repetition");
        assert_eq!(sessions(&[None, None], &[]), (1, None));
    }

    #[test]
    fn the_time_left_is_that_of_the_steps_before() {
        let second = Duration::from_secs(1);
        assert_eq!(time_left(second, 0, 40), "");
        assert_eq!(time_left(10 * second, 8, 40), ", 40 seconds left");
        assert_eq!(time_left(600 * second, 8, 40), ", 40 minutes left");
        assert_eq!(time_left(10 * second, 40, 40), ", 0 seconds left");
    }

    #[test]
    fn repetitions_come_to_an_end() {
        let mut distances = Distances::new(1);
        distances.add(Some(28.0));
        assert!(!distances.is_worth_another(Some(28.0)));
        assert!(distances.is_worth_another(Some(155.0)));
        assert!(!distances.is_worth_another(Some(155.0)));
    }
}
