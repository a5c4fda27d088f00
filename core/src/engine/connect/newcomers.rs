// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of peers that spoke first, until the caller has compared them with those of its
//! application (`docs/PROTOCOL.md` §9.1).
//!
//! In: the address of each new peer, taken in or not. Out: the same, in any order. Called by
//! `handshake` and the façade. Bound: [`NEWCOMERS_MAX`]; further ones say hello again.

use crate::PeerAddress;

/// Addresses that wait: as many as a progress call receives packets.
const NEWCOMERS_MAX: usize = 64;

/// Addresses of peers that the caller may have to name.
#[derive(Debug, Default)]
pub(super) struct Newcomers(heapless::Vec<PeerAddress, NEWCOMERS_MAX>);

impl Newcomers {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, address: PeerAddress) {
        // A peer that is not taken in says hello again.
        let _ = self.0.push(address);
    }

    pub(super) fn pop(&mut self) -> Option<PeerAddress> {
        self.0.pop()
    }
}
