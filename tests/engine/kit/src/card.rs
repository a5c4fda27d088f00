// SPDX-License-Identifier: MIT OR Apache-2.0
//! The card of a host: several receive queues, of which the port has one, and the source ports of
//! packets to other hosts.
//!
//! In: packets that arrive, and advice of the engine. Out: the source port that a packet should
//! have had, and the one of a packet that leaves. A packet of another queue arrives all the same,
//! as it does by a kernel socket. Bound: one source port for each peer.

use std::collections::BTreeMap;

use ofi_xdp_core::rss::Rss;
use ofi_xdp_core::{Instant, PathAdvice, PeerAddress, SourcePort, WantedPort};

/// A card with several receive queues.
#[derive(Debug)]
pub struct HostCard {
    /// The rule by which it picks the queue of a packet.
    pub rss: Rss<'static>,
    /// The queue of the port.
    pub queue: u32,
    /// The number of queues.
    pub queues: u16,
    /// Whether requests name a source port, as they do where the rule is known.
    pub names: bool,
    /// Whether packets to others keep the own source port.
    pub keeps: bool,
    /// Packets that arrived by the port's queue.
    pub direct: u64,
    /// Packets that arrived by others.
    pub misdirected: u64,
    /// Changes of source ports.
    pub changes: u64,
    sources: BTreeMap<u32, SourcePort>,
}

impl HostCard {
    /// A card of `queues` queues that follows `rss`; the port has queue `queue`.
    #[must_use]
    pub const fn new(rss: Rss<'static>, queue: u32, queues: u16) -> Self {
        Self {
            rss,
            queue,
            queues,
            names: false,
            keeps: false,
            direct: 0,
            misdirected: 0,
            changes: 0,
            sources: BTreeMap::new(),
        }
    }

    /// A packet from `from` arrives at `to`: the source port that it should have.
    pub fn arrived(&mut self, from: PeerAddress, to: PeerAddress) -> WantedPort {
        if self.rss.queue(from, to) == self.queue {
            self.direct += 1;
            return WantedPort::KEEP;
        }
        self.misdirected += 1;
        let named = self.names.then(|| self.rss.source_for(from, to, self.queue)).flatten();
        named.and_then(WantedPort::named).unwrap_or_else(|| WantedPort::other(self.queues))
    }

    /// The source port of packets to node `to`.
    #[must_use]
    pub fn source(&self, to: u32, own: u16) -> u16 {
        self.sources.get(&to).map_or(own, SourcePort::port)
    }

    /// Follows the engine's advice about packets from `from` to `to`.
    pub fn advise(
        &mut self,
        now: Instant,
        (from, to): (u32, u32),
        own: u16,
        advice: PathAdvice,
    ) -> bool {
        if self.keeps {
            return false;
        }
        let source = self.sources.entry(to).or_insert_with(|| SourcePort::new(own));
        let changed = source.advise(now, own, from << 16 ^ to, advice);
        self.changes += u64::from(changed);
        changed
    }
}
