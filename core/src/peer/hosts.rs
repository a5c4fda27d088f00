// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slots that hosts have in the pools of connections (`docs/PROTOCOL.md` §9.1).
//!
//! In: an address, a pool. Out: the host, its counts ([`HostSlots`]). Caller: the connection table.
//! Bound: all operations are O(1).

#![allow(clippy::indexing_slicing, reason = "there is an element for each pool")]

use crate::PeerAddress;
use crate::api::hosts::{Host, HostSlots};

/// The pools of connections in which a host has a share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SharedPool {
    /// Slots for peers.
    Peers,
    /// Connections.
    Connections,
    /// Rendezvous reads, and ends of long messages.
    RendezvousReads,
    /// Messages of several packets that are arriving.
    Assemblies,
    /// Credit for requests beyond the one of each connection.
    Credits,
    /// Errors that are not acknowledged.
    Errors,
}

/// How many pools these are.
const POOLS: usize = SharedPool::Errors as usize + 1;

/// The slots of hosts in each of these pools.
#[derive(Clone, Debug)]
pub(crate) struct HostShares {
    /// The key of the hashes.
    key: [u64; 2],
    pools: [HostSlots; POOLS],
}

impl HostShares {
    /// No host has a slot.
    pub(crate) const fn new(key: [u64; 2]) -> Self {
        Self { key, pools: [const { HostSlots::EMPTY }; POOLS] }
    }

    /// The host of an address.
    pub(crate) fn host(&self, address: &PeerAddress) -> Host {
        Host::of(self.key, address)
    }
}

impl core::ops::Index<SharedPool> for HostShares {
    type Output = HostSlots;

    #[inline]
    fn index(&self, pool: SharedPool) -> &HostSlots {
        &self.pools[pool as usize]
    }
}

impl core::ops::IndexMut<SharedPool> for HostShares {
    #[inline]
    fn index_mut(&mut self, pool: SharedPool) -> &mut HostSlots {
        &mut self.pools[pool as usize]
    }
}
