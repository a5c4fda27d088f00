// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the screen: which page is open, and how its table is seen.
//!
//! In: keys and samples. Out: the state that is drawn. Callers: `mod.rs`, `input.rs`, the pages.
//! Bound: one page, and one box above it.

use ofi_xdp_statistics::Page;
use ratatui::text::{Line, Span};

use super::columns::{ENDPOINTS, ENDPOINTS_BY, PEERS, PEERS_BY};
use super::model::{Model, Open};
use super::table::TableView;
use super::theme::Theme;
use super::users::Users;

/// The page that is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Screen {
    /// All endpoints.
    List,
    /// An endpoint and its peers.
    Endpoint,
    /// Everything about an endpoint in words, from this line on.
    Details(u16),
    /// A peer.
    Peer,
}

/// The part of the screen that keys go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Focus {
    Page,
    /// The line of the filter.
    Filter,
    /// The box with the columns; this one is selected.
    Sort(usize),
    /// The help, from this line on.
    Help(usize),
}

/// Everything that is drawn.
#[derive(Debug)]
pub(super) struct App {
    pub(super) model: Model,
    pub(super) screen: Screen,
    pub(super) focus: Focus,
    pub(super) list: TableView,
    pub(super) peers: TableView,
    pub(super) paused: bool,
    /// Why the pages cannot be read.
    pub(super) failure: Option<String>,
    pub(super) theme: Theme,
}

impl App {
    pub(super) fn new(users: Users, theme: Theme) -> Self {
        Self {
            model: Model::new(users),
            screen: Screen::List,
            focus: Focus::Page,
            list: TableView::new(ENDPOINTS_BY),
            peers: TableView::new(PEERS_BY),
            paused: false,
            failure: None,
            theme,
        }
    }

    /// Takes the pages of a read, `elapsed` seconds after the one before.
    pub(super) fn update(&mut self, pages: Result<Vec<Page>, String>, elapsed: f64) {
        match pages {
            Ok(pages) => {
                self.failure = None;
                self.model.update(pages, elapsed);
            }
            Err(failure) => self.failure = Some(failure),
        }
    }

    /// The titles of the columns of the table on the screen.
    pub(super) fn titles(&self) -> Vec<&'static str> {
        match self.screen {
            Screen::List => ENDPOINTS.iter().map(|column| column.title).collect(),
            _ => PEERS.iter().map(|column| column.title).collect(),
        }
    }

    /// The view of the table on the screen.
    pub(super) fn view(&mut self) -> &mut TableView {
        match self.screen {
            Screen::List => &mut self.list,
            _ => &mut self.peers,
        }
    }

    /// Moves the selection of the table on the screen by `step` rows.
    pub(super) fn step(&mut self, step: isize) {
        match self.screen {
            Screen::List => {
                let ordered = self.list.ordered(&ENDPOINTS, &self.model.endpoints);
                self.list.step(&ordered, step);
            }
            Screen::Details(line) => {
                let step = step.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
                self.screen = Screen::Details(line.saturating_add_signed(step));
            }
            Screen::Endpoint | Screen::Peer => {
                let Some(endpoint) = self.model.endpoint() else { return };
                let ordered = self.peers.ordered(&PEERS, &endpoint.peers);
                self.peers.step(&ordered, step);
                if self.screen == Screen::Peer {
                    self.open_peer();
                }
            }
        }
    }

    /// Opens the page of the selected row.
    pub(super) fn open(&mut self) {
        match self.screen {
            Screen::List => {
                let ordered = self.list.ordered(&ENDPOINTS, &self.model.endpoints);
                let Some(index) = self.list.select(&ordered) else { return };
                let key = ordered[index].key.clone();
                // The page that comes back is the one that was left.
                self.list.step(&ordered, 0);
                self.model.open = Open { endpoint: Some(key), peer: None };
                self.peers = TableView::new(PEERS_BY);
                self.screen = Screen::Endpoint;
            }
            Screen::Endpoint => self.open_peer(),
            Screen::Details(_) | Screen::Peer => {}
        }
    }

    fn open_peer(&mut self) {
        let Some(endpoint) = self.model.endpoint() else { return };
        let ordered = self.peers.ordered(&PEERS, &endpoint.peers);
        let Some(index) = self.peers.select(&ordered) else { return };
        let address = ordered[index].line.address.clone();
        self.peers.step(&ordered, 0);
        self.model.open.peer = Some(address);
        self.screen = Screen::Peer;
    }

    /// Goes back to the page before; clears the filter of a page with one.
    pub(super) fn back(&mut self) {
        let has_table = matches!(self.screen, Screen::List | Screen::Endpoint);
        if has_table && !self.view().filter.is_empty() {
            self.view().filter.clear();
            return;
        }
        match self.screen {
            Screen::List => {}
            Screen::Endpoint => {
                self.model.open = Open::default();
                self.screen = Screen::List;
            }
            Screen::Details(_) | Screen::Peer => {
                self.model.open.peer = None;
                self.screen = Screen::Endpoint;
            }
        }
    }

    /// Changes between the peers of an endpoint and all about it in words.
    pub(super) fn switch(&mut self) {
        self.screen = match self.screen {
            Screen::Endpoint => Screen::Details(0),
            Screen::Details(_) => Screen::Endpoint,
            other => other,
        };
    }

    /// The first line of a page: its name, and the state of the whole screen.
    pub(super) fn title(&self, name: &str) -> Line<'static> {
        let mut spans = vec![Span::styled(name.to_owned(), self.theme.title())];
        if self.paused {
            spans.push(Span::styled("  PAUSED", self.theme.warning()));
        }
        if let Some(failure) = &self.failure {
            spans.push(Span::styled(format!("  {failure}"), self.theme.warning()));
        }
        Line::from(spans)
    }
}
