// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round after round, everybody in turn.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::{Contestant, Field, Results, Series};
use crate::interrupt;

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
    for round in 0..rounds {
        // Each round begins with another, so that nobody always follows the same one.
        for turn in 0..count {
            interrupt::check()?;
            let place = (round + turn) % count;
            let Entry { contestant, arguments } = &entries[place];
            let message = format!("{suite}, round {}/{rounds}: {}", round + 1, contestant.label());
            progress.begin(message, turn == 0);
            let outcome = field.session(contestant, arguments);
            interrupt::check()?;
            series[place].add(outcome);
            progress.end_step();
        }
    }
    Ok(Results { suite, rounds, setting: field.setting(), series })
}
