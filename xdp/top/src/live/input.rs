// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys, as in `htop`.
//!
//! In: keys of the terminal. Out: changes of the screen. Caller: `mod.rs`. Bound: one key.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::app::{App, Focus, Screen};

/// The state of the program after a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum After {
    GoOn,
    Quit,
}

/// Applies a key.
pub(super) fn key(app: &mut App, key: KeyEvent) -> After {
    if key.kind == KeyEventKind::Release {
        return After::GoOn;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if key.code == KeyCode::F(10) || (control && key.code == KeyCode::Char('c')) {
        return After::Quit;
    }
    match app.focus {
        Focus::Filter => filter(app, key.code),
        Focus::Sort(selected) => columns(app, selected, key.code),
        Focus::Help(first) => help(app, first, key.code),
        Focus::Page if control => {}
        Focus::Page if key.code == KeyCode::Char('q') => return After::Quit,
        Focus::Page => page(app, key.code),
    }
    After::GoOn
}

/// A key in the line of the filter.
fn filter(app: &mut App, code: KeyCode) {
    match code {
        KeyCode::Enter => app.focus = Focus::Page,
        KeyCode::Esc => {
            app.view().filter.clear();
            app.focus = Focus::Page;
        }
        KeyCode::Backspace => {
            app.view().filter.pop();
        }
        KeyCode::Char(letter) => app.view().filter_more(letter),
        other => steps(app, other),
    }
}

/// A key in the box of columns.
fn columns(app: &mut App, selected: usize, code: KeyCode) {
    let last = app.titles().len() - 1;
    match code {
        KeyCode::Up | KeyCode::Char('k') => app.focus = Focus::Sort(selected.saturating_sub(1)),
        KeyCode::Down | KeyCode::Char('j') => app.focus = Focus::Sort((selected + 1).min(last)),
        KeyCode::Home => app.focus = Focus::Sort(0),
        KeyCode::End => app.focus = Focus::Sort(last),
        KeyCode::Enter => {
            let view = app.view();
            view.reversed = view.sort == selected && !view.reversed;
            view.sort = selected;
            app.focus = Focus::Page;
        }
        KeyCode::Esc | KeyCode::F(6) | KeyCode::Char('q') => app.focus = Focus::Page,
        _ => {}
    }
}

/// A key in the help, which all but the arrows close.
fn help(app: &mut App, first: usize, code: KeyCode) {
    app.focus = match code {
        KeyCode::Up | KeyCode::PageUp => Focus::Help(first.saturating_sub(1)),
        KeyCode::Down | KeyCode::PageDown => Focus::Help(first + 1),
        _ => Focus::Page,
    };
}

/// A key of a page.
fn page(app: &mut App, code: KeyCode) {
    let has_table = matches!(app.screen, Screen::List | Screen::Endpoint);
    let count = app.titles().len();
    match code {
        KeyCode::F(1) | KeyCode::Char('h' | '?') => app.focus = Focus::Help(0),
        KeyCode::Enter => app.open(),
        KeyCode::Esc | KeyCode::Backspace => app.back(),
        KeyCode::Tab | KeyCode::BackTab => app.switch(),
        KeyCode::Char(' ') => app.paused = !app.paused,
        KeyCode::F(6) if has_table => app.focus = Focus::Sort(app.view().sort),
        KeyCode::Char('>' | '.') if has_table => app.view().sort_next(count, true),
        KeyCode::Char('<' | ',') if has_table => app.view().sort_next(count, false),
        KeyCode::Char('I' | 'i') if has_table => app.view().reversed ^= true,
        KeyCode::F(4) | KeyCode::Char('\\' | '/') if has_table => app.focus = Focus::Filter,
        KeyCode::Char('k') => app.step(-1),
        KeyCode::Char('j') => app.step(1),
        other => steps(app, other),
    }
}

/// A key that moves the selection.
fn steps(app: &mut App, code: KeyCode) {
    let page = app.view().rows.cast_signed();
    match code {
        KeyCode::Up => app.step(-1),
        KeyCode::Down => app.step(1),
        KeyCode::PageUp => app.step(-page),
        KeyCode::PageDown => app.step(page),
        KeyCode::Home => app.step(isize::MIN),
        KeyCode::End => app.step(isize::MAX),
        _ => {}
    }
}
