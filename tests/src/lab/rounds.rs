// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round after round, everybody in turn.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::{Contestant, Field, Results, Series, Suite};
use crate::interrupt;

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

/// Measures `suite` on `field`. One that fails a round is tried again in the next; its failures are
/// kept.
///
/// # Errors
/// After SIGINT and the like.
pub fn run(suite: &Suite, field: &Field, contestants: Vec<Contestant>) -> anyhow::Result<Results> {
    let count = contestants.len();
    let progress = Progress::new(suite.rounds * count);
    let mut series: Vec<Series> = contestants.into_iter().map(Series::new).collect();
    for round in 0..suite.rounds {
        // Each round begins with another, so that nobody always follows the same one.
        for turn in 0..count {
            interrupt::check()?;
            let entry = &mut series[(round + turn) % count];
            let who = entry.contestant.label();
            progress.begin(format!("round {}/{}: {who}", round + 1, suite.rounds), turn == 0);
            let arguments = suite.arguments(&entry.contestant);
            let outcome = field.session(&entry.contestant, &arguments);
            interrupt::check()?;
            entry.add(outcome);
            progress.end_step();
        }
    }
    Ok(Results { suite: suite.clone(), setting: field.setting(), series })
}
