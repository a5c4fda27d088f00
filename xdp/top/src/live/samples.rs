// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last samples of a figure, as columns beside its value.
//!
//! In: series of samples. Out: lines of the screen. Callers: the pages of an endpoint and of a
//! peer. Bound: the width.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

use super::model::Series;
use super::theme::Theme;
use crate::format::short;

/// Width of name, value and maximum.
const LABEL: u16 = 32;
/// Screens of this height have columns of [`HIGH`] lines instead of one.
const TALL: u16 = 36;
const HIGH: u16 = 4;

/// The lines that each series takes on a screen of this height.
pub(super) const fn height(screen: u16) -> u16 {
    if screen >= TALL { HIGH } else { 1 }
}

/// Draws series below each other: name, unit and samples of each.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    series: &[(&str, &str, &Series)],
    theme: Theme,
) {
    let areas = Layout::vertical(series.iter().map(|_| Constraint::Fill(1))).split(area);
    for ((name, unit, samples), area) in series.iter().zip(areas.iter()) {
        let columns = [Constraint::Length(LABEL), Constraint::Min(0)];
        let [label, graph] = Layout::horizontal(columns).areas(*area);
        let value = format!("{}{unit}", short(samples.last()));
        let max = format!("max {}", short(samples.max()));
        let line = Line::from(vec![
            Span::styled(format!("{name:<9}"), theme.label()),
            Span::from(format!("{value:>10} {max:>11}")),
        ]);
        frame.render_widget(Paragraph::new(line), label);
        let width = usize::from(graph.width);
        let shown: Vec<Option<u64>> = samples.newest(width).map(|one| Some(one as u64)).collect();
        // The newest sample is the last one.
        let graph = Rect { width: shown.len().min(width) as u16, ..graph };
        frame.render_widget(Sparkline::default().data(shown).style(theme.samples()), graph);
    }
}
