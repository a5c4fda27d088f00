// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of an endpoint: its properties, rates and troubles, and its peers or all in words.
//!
//! In: the model. Out: lines of the screen. Caller: `app.rs`. Bound: the screen.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Paragraph;

use super::app::{App, Screen};
use super::columns::{PEERS, share};
use super::model::EndpointRow;
use super::samples;
use super::theme::Theme;
use crate::format::{cut, flowed, short, wrapped};
use crate::rates::KERNEL;

/// Lines that a text takes beside the peers, on a short and on a tall screen.
const LINES: (usize, usize) = (1, 4);
/// The height that makes a screen tall.
const TALL: u16 = 36;

pub(super) fn draw(app: &mut App, frame: &mut Frame<'_>, title: Rect, page: Rect) {
    let theme = app.theme;
    let Some(endpoint) = app.model.endpoint() else { return };
    let (process, pid) = (&endpoint.page.process, endpoint.page.pid);
    let closed = if endpoint.gone { "  CLOSED: its last figures" } else { "" };
    let name = format!("{process} ({pid})  {}{closed}", endpoint.page.endpoint);
    frame.render_widget(app.title(&name), title);

    let width = usize::from(page.width);
    let properties: Vec<Line<'_>> =
        flowed(&properties(endpoint), width).into_iter().map(Line::from).collect();
    let lines = if page.height >= TALL { LINES.1 } else { LINES.0 };
    let is_details = matches!(app.screen, Screen::Details(_));
    let troubles = if is_details { Vec::new() } else { texts(endpoint, width, lines, theme) };
    let rows = [
        Constraint::Length(properties.len() as u16),
        Constraint::Length(3 * samples::height(page.height)),
        Constraint::Length(troubles.len() as u16),
        Constraint::Min(4),
    ];
    let [top, graphs, words, rest] = Layout::vertical(rows).areas(page);
    frame.render_widget(Paragraph::new(properties), top);
    let series = [
        ("out", "/s", &endpoint.sent),
        ("in", "/s", &endpoint.received),
        ("placed", "B/s", &endpoint.bytes),
    ];
    samples::draw(frame, graphs, &series, theme);
    frame.render_widget(Paragraph::new(troubles), words);
    if let Screen::Details(first) = app.screen {
        let text = Text::from(details(endpoint, width, theme));
        let last = (text.height() as u16).saturating_sub(rest.height);
        frame.render_widget(Paragraph::new(text).scroll((first.min(last), 0)), rest);
        app.screen = Screen::Details(first.min(last));
        app.peers.rows = usize::from(rest.height).max(1);
    } else {
        draw_peers(app, frame, rest);
    }
}

/// The table of peers, with a line above it.
fn draw_peers(app: &mut App, frame: &mut Frame<'_>, area: Rect) {
    let App { model, peers, theme, .. } = app;
    let Some(endpoint) = model.endpoint() else { return };
    let [line, table] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    peers.draw(frame, table, (&PEERS, &endpoint.peers), *theme);
    let shown = peers.ordered(&PEERS, &endpoint.peers).len();
    let mut name = format!("peers {}", peers.range(shown));
    let on_page = endpoint.page.peers.len();
    if endpoint.page.connections as usize > on_page {
        name += &format!("; the page has {on_page} of {}", endpoint.page.connections);
    }
    frame.render_widget(Line::styled(name, theme.title()), line);
}

/// The properties of an endpoint, and its totals.
fn properties(endpoint: &EndpointRow) -> Vec<String> {
    let page = &endpoint.page;
    let mut properties = vec![
        format!("user {}", endpoint.user),
        page.tier.clone(),
        format!("on {}", page.interface),
    ];
    if !page.driver.is_empty() {
        properties.push(format!("driver {}", page.driver));
    }
    if !page.queues.is_empty() {
        properties.push(format!("queues {}", page.queues));
    }
    properties.push(format!("MTU {}", page.mtu));
    let rates = &endpoint.rates;
    properties.push(format!("messages/s {}", short(rates.messages)));
    if rates.xdp_share.is_some() {
        let (share, other) = (share(rates.xdp_share), short(rates.other_queue));
        properties.push(format!("by AF_XDP {share} % (other queues {other}/s)"));
    }
    properties.push(format!(
        "retransmitted {} ({}/s)",
        endpoint.total("retransmissions"),
        short(rates.retransmitted)
    ));
    properties.push(format!("time-outs {}", endpoint.total("timeouts")));
    properties.push(format!("not ready {}", endpoint.total("receiver_not_ready")));
    properties
}

/// The names of a list with their counts, the greatest first.
fn counts(list: &BTreeMap<String, u64>) -> String {
    let mut some: Vec<(&String, &u64)> = list.iter().filter(|(_, count)| **count > 0).collect();
    some.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let some: Vec<String> = some.iter().map(|(what, count)| format!("{what} {count}")).collect();
    some.join(", ")
}

/// The texts of an endpoint that are not empty: title, text, and whether it asks for attention.
fn sentences(endpoint: &EndpointRow) -> Vec<(&'static str, String, bool)> {
    let page = &endpoint.page;
    let why = if page.tier == KERNEL { page.why_not_better.clone() } else { String::new() };
    let all = [
        ("not better because", why, true),
        ("for more by AF_XDP", page.advice.clone(), true),
        ("dropped", counts(&page.drops), true),
        ("XDP program", counts(&page.verdicts), false),
    ];
    all.into_iter().filter(|(_, text, _)| !text.is_empty()).collect()
}

/// The texts of an endpoint, in `lines` lines each at the most.
fn texts(endpoint: &EndpointRow, width: usize, lines: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut texts = Vec::new();
    for (title, text, warns) in sentences(endpoint) {
        let mut words = wrapped(&format!("{title}: {text}"), width);
        if words.len() > lines {
            words.truncate(lines);
            if let Some(last) = words.last_mut() {
                *last = format!("{} ...", cut(last, width.saturating_sub(4)));
            }
        }
        texts.extend(words.into_iter().enumerate().map(|(number, line)| {
            titled(line, if number == 0 { title } else { "" }, warns, theme)
        }));
    }
    texts
}

/// A line that begins with `title`.
fn titled(line: String, title: &str, warns: bool, theme: Theme) -> Line<'static> {
    let style = if warns { theme.warning() } else { theme.label() };
    match line.strip_prefix(title) {
        Some(rest) if !title.is_empty() => {
            Line::from(vec![Span::styled(title.to_owned(), style), Span::from(rest.to_owned())])
        }
        _ => Line::from(line),
    }
}

/// Everything about an endpoint in words.
fn details(endpoint: &EndpointRow, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = texts(endpoint, width, usize::MAX, theme);
    lines.push(Line::default());
    lines.push(Line::styled("counters since the endpoint was opened", theme.title()));
    let counters = endpoint.page.counters.iter();
    let items: Vec<String> =
        counters.map(|(name, count)| cut(&format!("{name:<22}{count:>14}"), 38)).collect();
    lines.extend(flowed(&items, width).into_iter().map(Line::from));
    lines
}
