// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line of keys, the help, and the box of columns.
//!
//! In: the state of the screen. Out: lines above the page. Caller: `app.rs`. Bound: the screen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::app::{App, Focus, Screen};

/// Width of the names of keys in the help.
const KEYS: usize = 16;

const HELP: [(&str, &str); 20] = [
    ("arrows PgUp PgDn", "select a row (also j, k, Home, End)"),
    ("Enter", "open the endpoint, or the peer"),
    ("Esc", "clear the filter, or go back"),
    ("Tab", "endpoint: its peers, or all in words"),
    ("F4 / \\", "filter by text"),
    ("F6", "choose the column to sort by; again: reverse"),
    ("< > I", "sort by the next column; reverse the order"),
    ("Space", "pause, or go on"),
    ("q F10 Ctrl-C", "quit"),
    ("OUT/s IN/s", "packets of this endpoint a second"),
    ("BYTES/s", "bytes placed into its memory"),
    ("MSG/s", "messages sent and accepted"),
    ("XDP%", "packets that came by AF_XDP, in percent"),
    ("RETR RETR/s", "packets that went again"),
    ("TIER", "zerocopy, copy, skb: AF_XDP; udp: the kernel"),
    ("INTERFACE", "its name, and the queues of AF_XDP"),
    ("RTT", "round-trip time, smoothed"),
    ("WINDOW FLIGHT", "packets that may be, and that are in flight"),
    ("LOST", "packets in flight that are taken for lost"),
    ("STATE", "begins: no answer yet; silent: time-outs"),
];

/// Draws the help over `page`, from line `first` on. Returns the first line that was drawn.
pub(super) fn draw(app: &App, first: usize, frame: &mut Frame<'_>, page: Rect) -> usize {
    let room = usize::from(page.height.saturating_sub(2));
    let first = first.min(HELP.len().saturating_sub(room));
    let lines: Vec<Line<'_>> = HELP
        .iter()
        .skip(first)
        .map(|(key, what)| {
            Line::from(vec![
                Span::styled(format!("{key:<KEYS$} "), app.theme.label()),
                Span::from(*what),
            ])
        })
        .collect();
    draw_box(frame, page, " xdp-top: Esc closes this ", lines);
    first
}

/// Draws the box of columns over `page`.
pub(super) fn draw_columns(app: &App, selected: usize, frame: &mut Frame<'_>, page: Rect) {
    let theme = app.theme;
    let room = usize::from(page.height.saturating_sub(2));
    let skipped = (selected + 1).saturating_sub(room);
    let titles = app.titles().into_iter().enumerate().skip(skipped);
    let lines: Vec<Line<'_>> = titles
        .map(|(index, title)| {
            let style = if index == selected { theme.selected() } else { Default::default() };
            Line::styled(format!("{title:<12}"), style)
        })
        .collect();
    draw_box(frame, page, " sort by ", lines);
}

/// Draws a box with a title in the middle of `page`, or over all of it.
fn draw_box(frame: &mut Frame<'_>, page: Rect, title: &str, lines: Vec<Line<'_>>) {
    let longest = lines.iter().map(Line::width).max().unwrap_or(0).max(title.len());
    let width = page.width.min(longest as u16 + 2);
    let height = page.height.min(lines.len() as u16 + 2);
    let area = Rect {
        x: page.x + (page.width - width) / 2,
        y: page.y + (page.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title)), area);
}

/// Draws the line of keys, or that of the filter.
pub(super) fn draw_keys(app: &mut App, frame: &mut Frame<'_>, area: Rect) {
    let theme = app.theme;
    if app.focus == Focus::Filter {
        let text = format!("{}_", app.view().filter);
        let line = Line::from(vec![
            Span::styled("Enter", theme.title()),
            Span::styled("Done ", theme.key()),
            Span::styled("Esc", theme.title()),
            Span::styled("Clear", theme.key()),
            Span::from(format!(" Filter: {text}")),
        ]);
        return frame.render_widget(line, area);
    }
    let pause = if app.paused { "Go on" } else { "Pause" };
    let (help, quit) = (("F1", "Help"), ("F10", "Quit"));
    let keys = match app.screen {
        Screen::List => {
            vec![help, ("F4", "Filter"), ("F6", "Sort"), ("Enter", "Open"), ("Space", pause), quit]
        }
        Screen::Endpoint => vec![
            help,
            ("F4", "Filter"),
            ("F6", "Sort"),
            ("Enter", "Open"),
            ("Tab", "Words"),
            ("Esc", "Back"),
            ("Space", pause),
            quit,
        ],
        Screen::Details(_) => {
            vec![help, ("Tab", "Peers"), ("Esc", "Back"), ("Space", pause), quit]
        }
        Screen::Peer => {
            vec![help, ("Up/Down", "Others"), ("Esc", "Back"), ("Space", pause), quit]
        }
    };
    let mut spans = Vec::new();
    for (key, what) in keys {
        spans.push(Span::styled(key, theme.title()));
        spans.push(Span::styled(format!("{what} "), theme.key()));
    }
    let has_table = matches!(app.screen, Screen::List | Screen::Endpoint);
    let filter = &app.view().filter;
    if has_table && !filter.is_empty() {
        spans.push(Span::styled(format!(" Filter: {filter}"), theme.warning()));
    }
    frame.render_widget(Line::from(spans), area);
}
