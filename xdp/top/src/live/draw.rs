// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole screen: a page, the line of keys, and a box above the page.
//!
//! In: the state of the screen. Out: its lines. Callers: `mod.rs`, tests. Bound: the screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};

use super::app::{App, Focus, Screen};
use super::{endpoint, help, list, peer};

/// Draws the screen, and notes how much of it there was room for.
pub(super) fn draw(app: &mut App, frame: &mut Frame<'_>) {
    let rows = [Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
    let [title, page, keys] = Layout::vertical(rows).areas(frame.area());
    match app.screen {
        Screen::List => list::draw(app, frame, title, page),
        Screen::Endpoint | Screen::Details(_) => endpoint::draw(app, frame, title, page),
        Screen::Peer => peer::draw(app, frame, title, page),
    }
    match app.focus {
        Focus::Sort(selected) => help::draw_columns(app, selected, frame, page),
        Focus::Help(first) => app.focus = Focus::Help(help::draw(app, first, frame, page)),
        Focus::Page | Focus::Filter => {}
    }
    help::draw_keys(app, frame, keys);
}
