// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two sides of an endpoint, and the engine's finished operations of each.
//!
//! In: the engine. Out: its next completion of a side, or whether there is one. Bound: constant.

use ofi_xdp_core::{Completion, CompletionGroup, Engine};

/// A side of an endpoint (`FI_TRANSMIT`, `FI_RECV`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Sending.
    Transmit,
    /// Receiving.
    Receive,
}

/// The completions of a side, of the endpoints of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CompletionSource {
    /// The side.
    pub(crate) side: Side,
    /// The endpoints: all of a runtime that has one group.
    pub(crate) group: CompletionGroup,
}

impl CompletionSource {
    /// Whether a completion waits to be read. `sorted`: the engine sorts them by group.
    pub(super) fn is_ready(self, engine: &Engine<'_>, sorted: bool) -> bool {
        match (self.side, sorted) {
            (Side::Transmit, false) => engine.has_send_completion(),
            (Side::Receive, false) => engine.has_recv_completion(),
            (Side::Transmit, true) => engine.has_send_completion_of(self.group),
            (Side::Receive, true) => engine.has_recv_completion_of(self.group),
        }
    }

    /// The next completion.
    // Inline: a completion is long, and a reader takes a few words of it.
    #[inline(always)]
    pub(super) fn poll(self, engine: &mut Engine<'_>, sorted: bool) -> Option<Completion> {
        if sorted {
            return self.poll_group(engine);
        }
        match self.side {
            Side::Transmit => engine.poll_send_completion(),
            Side::Receive => engine.poll_recv_completion(),
        }
    }

    #[inline(never)]
    fn poll_group(self, engine: &mut Engine<'_>) -> Option<Completion> {
        match self.side {
            Side::Transmit => engine.poll_send_completion_of(self.group),
            Side::Receive => engine.poll_recv_completion_of(self.group),
        }
    }
}
