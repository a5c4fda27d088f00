// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two sides of an endpoint, and the engine's finished operations of each.
//!
//! In: the engine. Out: its next completion of a side, or whether there is one. Bound: constant.

use ofi_xdp_core::{Completion, Engine};

/// A side of an endpoint (`FI_TRANSMIT`, `FI_RECV`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Sending.
    Transmit,
    /// Receiving.
    Receive,
}

impl Side {
    /// Whether a completion of this side waits to be read.
    pub(super) fn is_ready(self, engine: &Engine<'_>) -> bool {
        match self {
            Self::Transmit => engine.has_send_completion(),
            Self::Receive => engine.has_recv_completion(),
        }
    }

    /// The next completion of this side.
    // Inline: a completion is long, and a reader takes a few words of it.
    #[inline(always)]
    pub(super) fn poll(self, engine: &mut Engine<'_>) -> Option<Completion> {
        match self {
            Self::Transmit => engine.poll_send_completion(),
            Self::Receive => engine.poll_recv_completion(),
        }
    }
}
