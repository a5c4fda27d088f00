// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of a peer: its rates, its window, and its binding.
//!
//! In: the model. Out: lines of the screen. Caller: `app.rs`. Bound: the screen.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::app::App;
use super::binding::{Binding, explained};
use super::model::PeerRow;
use super::samples;
use super::theme::Theme;
use crate::format::{packets, short, time, wrapped};
use crate::plain::state;

/// Width of the names of figures.
const NAME: usize = 14;

pub(super) fn draw(app: &mut App, frame: &mut Frame<'_>, title: Rect, page: Rect) {
    let theme = app.theme;
    let (Some(endpoint), Some(peer)) = (app.model.endpoint(), app.model.peer()) else { return };
    let process = format!("{} ({})", endpoint.page.process, endpoint.page.pid);
    let gone = if peer.gone || endpoint.gone { "  GONE: its last figures" } else { "" };
    let name = format!("peer {} of {process}{gone}", peer.line.address);
    frame.render_widget(app.title(&name), title);

    let rows = [Constraint::Length(3 * samples::height(page.height)), Constraint::Min(0)];
    let [graphs, words] = Layout::vertical(rows).areas(page);
    let series = [
        ("out", "/s", &peer.sent),
        ("in", "/s", &peer.received),
        ("retrans.", "/s", &peer.retransmitted),
    ];
    samples::draw(frame, graphs, &series, theme);
    let mut lines = vec![Line::default()];
    lines.extend(bound(peer, page.width.into(), theme));
    lines.push(Line::default());
    lines.extend(figures(peer).into_iter().map(|(name, text)| {
        let name = format!("{name:<NAME$}");
        Line::from(vec![Span::styled(name, theme.label()), Span::from(text)])
    }));
    frame.render_widget(Paragraph::new(lines), words);
}

/// The binding of the peer, now and in the last samples.
fn bound(peer: &PeerRow, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let (binding, why) = explained(&peer.line);
    let name = binding.name();
    let mut lines = vec![Line::from(vec![
        Span::styled(format!("{:<NAME$}", "bound by"), theme.label()),
        Span::styled(name, theme.title()),
    ])];
    let indented = |line| Line::from(format!("{:NAME$}{line}", ""));
    lines.extend(wrapped(&why, width.saturating_sub(NAME)).into_iter().map(indented));
    if peer.bindings.len() > 1 {
        let mut counts: BTreeMap<Binding, usize> = BTreeMap::new();
        for one in &peer.bindings {
            *counts.entry(*one).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let all = peer.bindings.len();
        let parts: Vec<String> = counts
            .iter()
            .map(|(one, count)| format!("{} {} %", one.name(), (100 * count + all / 2) / all))
            .collect();
        let text = format!("In the last {all} samples: {}.", parts.join(", "));
        lines.extend(wrapped(&text, width.saturating_sub(NAME)).into_iter().map(indented));
    }
    lines
}

/// The figures of the page, and names for them.
fn figures(peer: &PeerRow) -> Vec<(&'static str, String)> {
    let line = &peer.line;
    let state = match state(line) {
        "" => "established",
        other => other,
    };
    let mut figures = vec![
        ("state", state.to_owned()),
        ("window", format!("{} packets", packets(line.congestion_window))),
        ("in flight", short(line.in_flight.into())),
        ("lost", format!("{} of those in flight", short(line.lost.into()))),
        ("round trip", time(line.round_trip_ns)),
        ("retransmitted", format!("{} in this period of traffic", line.retransmitted)),
        ("time-outs", format!("{} in a row", line.timeouts)),
    ];
    let Some(limits) = line.limits else {
        figures.push(("receiver", "not known: the process runs an older provider".to_owned()));
        return figures;
    };
    let yes = |condition, yes: &str, no: &str| (if condition { yes } else { no }).to_owned();
    let waits = match (limits.unsent, limits.posted) {
        (true, _) => "to be sent",
        (false, true) => "for the peer",
        (false, false) => "nothing",
    };
    figures.extend([
        ("waiting", waits.to_owned()),
        ("receiver", yes(limits.receiver_not_ready, "not ready", "ready")),
        ("its storage", format!("{}/8 full", limits.occupancy_eighths.min(8))),
        ("its port", format!("{} packets between two polls", limits.packets_max)),
        ("credit", format!("{} more requests", limits.credits_free)),
        ("packet", format!("{} bytes at most", limits.packet_len_max)),
    ]);
    figures
}
