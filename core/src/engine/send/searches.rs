// SPDX-License-Identifier: MIT OR Apache-2.0
//! The searches for the path MTU that are under way: a connection has one while probes are sent,
//! and none at other times.
//!
//! In: connections. Out: their searches. The sender calls. Bound: [`SEARCHES_MAX`], searched one by
//! one.

use crate::peer::path_mtu::{PathMtu, ROUNDS_MAX};
use crate::peer::slots::ConnSlot;

/// Searches that are under way at once. Where more paths shrink together, the others begin at their
/// next time-outs.
const SEARCHES_MAX: usize = 64;

/// The searches under way, and their connections.
#[derive(Debug, Default, Hash)]
pub(crate) struct Searches {
    searches: heapless::Vec<(ConnSlot, PathMtu), SEARCHES_MAX>,
    /// The number of the last round of the last search that ended.
    round: u16,
}

impl Searches {
    /// The search of a connection. Bound: [`SEARCHES_MAX`].
    pub(super) fn of(&mut self, conn: ConnSlot) -> Option<&mut PathMtu> {
        let found = self.searches.iter_mut().find(|(other, _)| *other == conn);
        found.map(|(_, search)| search)
    }

    /// Begins a search. Returns whether there was room.
    pub(super) fn start(&mut self, conn: ConnSlot, size: u16, full: u16) -> bool {
        self.round = self.round.wrapping_add(ROUNDS_MAX.into());
        self.searches.push((conn, PathMtu::new(size, full, self.round))).is_ok()
    }

    /// Ends the search of a connection, if there is one.
    pub(super) fn end(&mut self, conn: ConnSlot) {
        self.searches.retain(|(other, _)| *other != conn);
    }
}
