// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page with all endpoints, a row each.
//!
//! In: the model. Out: lines of the screen. Caller: `app.rs`. Bound: the screen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::widgets::{Paragraph, Wrap};

use super::app::App;
use super::columns::ENDPOINTS;
use crate::format::short;

const NONE: &str = "No process on this machine has an endpoint of the xdp provider.";

pub(super) fn draw(app: &mut App, frame: &mut Frame<'_>, title: Rect, page: Rect) {
    let App { list, model, theme, .. } = app;
    list.draw(frame, page, (&ENDPOINTS, &model.endpoints), *theme);
    let count = list.ordered(&ENDPOINTS, &model.endpoints).len();
    if model.endpoints.is_empty() || count == 0 {
        let below = Rect { y: page.y + 1, height: page.height.saturating_sub(1), ..page };
        let text = if model.endpoints.is_empty() { NONE } else { "The filter shows none." };
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), below.clamp(page));
    }
    let sum = |of: fn(&super::model::Rates) -> f64| {
        // Not `sum`: that of no value is -0.
        short(app.model.endpoints.iter().map(|one| of(&one.rates)).fold(0.0, |a, b| a + b))
    };
    let name = format!(
        "xdp-top  endpoints {}  out {}/s  in {}/s  placed {}B/s",
        app.list.range(count),
        sum(|rates| rates.sent),
        sum(|rates| rates.received),
        sum(|rates| rates.bytes),
    );
    frame.render_widget(app.title(&name), title);
}
