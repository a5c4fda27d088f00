// SPDX-License-Identifier: MIT OR Apache-2.0
//! The look of texts: colours, or attributes alone.
//!
//! In: whether colours are wanted. Out: styles. Callers: the pages. Bound: none.

use ratatui::style::{Color, Modifier, Style};

/// Styles with or without colours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) colours: bool,
}

impl Theme {
    /// Without colours if the user asks for none (no-color.org).
    pub(super) fn of_environment() -> Self {
        Self { colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }

    /// A colour, or `otherwise` without colours.
    fn either(self, colour: Color, otherwise: Modifier) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new().add_modifier(otherwise) }
    }

    /// The first line of the screen.
    pub(super) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// A label beside a figure.
    pub(super) fn label(self) -> Style {
        self.either(Color::Cyan, Modifier::empty())
    }

    /// The names of columns.
    pub(super) fn header(self) -> Style {
        if self.colours {
            Style::new().fg(Color::Black).bg(Color::Green)
        } else {
            Style::new().add_modifier(Modifier::UNDERLINED)
        }
    }

    /// The name of the column that the rows are sorted by.
    pub(super) fn sorted(self) -> Style {
        if self.colours {
            Style::new().fg(Color::Black).bg(Color::Cyan)
        } else {
            Style::new().add_modifier(Modifier::UNDERLINED | Modifier::BOLD)
        }
    }

    /// The row, or the entry, that Enter opens.
    pub(super) fn selected(self) -> Style {
        if self.colours {
            Style::new().fg(Color::Black).bg(Color::Cyan)
        } else {
            Style::new().add_modifier(Modifier::REVERSED)
        }
    }

    /// The words beside the names of keys.
    pub(super) fn key(self) -> Style {
        self.selected()
    }

    /// A figure or a sentence that asks for attention.
    pub(super) fn warning(self) -> Style {
        self.either(Color::Yellow, Modifier::BOLD)
    }

    /// Columns of samples.
    pub(super) fn samples(self) -> Style {
        self.either(Color::Green, Modifier::empty())
    }
}
