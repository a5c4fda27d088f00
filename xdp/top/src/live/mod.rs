// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interactive output: pages on a terminal, with keys as in `htop`.
//!
//! In: the statistics pages, keys, signals. Out: the terminal, which is as before after the end.
//! Caller: `main.rs`. Bound: one read of the pages each interval.

mod app;
mod binding;
mod columns;
mod draw;
mod endpoint;
mod help;
mod input;
mod list;
mod model;
mod peer;
mod samples;
mod table;
mod terminal;
mod theme;
mod users;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use ratatui::crossterm::event::{self, Event};

use self::app::App;
use self::input::After;
use self::terminal::Terminal;
use self::theme::Theme;
use self::users::Users;
use crate::clock;

pub(crate) use self::terminal::is_interactive;

/// How long a signal may wait for its effect.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Shows the pages of `folder` until the user quits, or a signal comes.
///
/// # Errors
/// The terminal cannot be read or written.
pub(crate) fn run(folder: &Path, interval: Duration) -> Result<()> {
    let mut terminal = Terminal::open()?;
    let mut app = App::new(Users::of_machine(), Theme::of_environment());
    let mut read_at = clock::now();
    app.update(read(folder), 0.0);
    let mut due = read_at + interval;
    let mut changed = true;
    while !terminal.ends.load(Ordering::Relaxed) {
        if changed {
            terminal.screen.draw(|frame| draw::draw(&mut app, frame))?;
        }
        let now = clock::now();
        changed = event::poll(due.saturating_duration_since(now).min(WAIT_MAX))?;
        if changed
            && let Event::Key(key) = event::read()?
            && input::key(&mut app, key) == After::Quit
        {
            break;
        }
        let now = clock::now();
        if now >= due {
            due = now + interval;
            if !app.paused {
                app.update(read(folder), now.duration_since(read_at).as_secs_f64());
                read_at = now;
                changed = true;
            }
        }
    }
    Ok(())
}

fn read(folder: &Path) -> Result<Vec<ofi_xdp_statistics::Page>, String> {
    ofi_xdp_statistics::read_all(folder)
        .map_err(|error| format!("cannot read {}: {error}", folder.display()))
}
