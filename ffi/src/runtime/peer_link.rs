// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections of connected endpoints, as their runtime knows them, and the [`Observer`] of
//! their changes. The methods of the runtime are in `connection`.
//!
//! In: peers of the engine. Out: the observer of each, the connections that open for too long.
//! Called under the lock of the runtime. Bound: the endpoints of the runtime.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ofi_xdp_core::{CompletionGroup, Instant, PeerId};

/// Learns of the changes of a connection, under the lock of the runtime: it calls no runtime.
pub(crate) trait Observer: std::fmt::Debug + Send + Sync {
    /// Both sides know of the connection.
    fn connected(&self);

    /// The connection, or the attempt at one, has ended. All operations have completed.
    fn disconnected(&self);
}

/// The connection as the observer knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum LinkPhase {
    /// The peer is not known yet.
    #[default]
    Unnamed,
    /// The peer is known; the connection opens.
    Opening,
    /// Both sides know of the connection.
    Open,
    /// The connection has ended. An endpoint has one connection in its life (`fi_connect(3)`).
    Ended,
}

/// A connected endpoint.
#[derive(Debug)]
pub(super) struct PeerLink {
    pub(super) phase: LinkPhase,
    /// The end of the attempt, while the connection opens.
    until: Instant,
    pub(super) observer: Arc<dyn Observer>,
    /// The endpoints that have the same completion queues.
    group: CompletionGroup,
}

/// The connected endpoints of a runtime, by the peers that the engine has for them.
#[derive(Debug, Default)]
pub(super) struct PeerLinks {
    links: HashMap<PeerId, PeerLink>,
    /// Connections that open, or did, and the [ends](PeerLink::until) that attempts have or had:
    /// oldest first.
    deadlines: VecDeque<(Instant, PeerId)>,
}

impl PeerLinks {
    /// Adds an endpoint.
    pub(super) fn insert(
        &mut self,
        peer: PeerId,
        observer: Arc<dyn Observer>,
        group: CompletionGroup,
    ) {
        let (phase, until) = (LinkPhase::Unnamed, Instant::ZERO);
        self.links.insert(peer, PeerLink { phase, until, observer, group });
    }

    /// The group of an endpoint.
    pub(super) fn group(&self, peer: PeerId) -> Option<CompletionGroup> {
        self.links.get(&peer).map(|link| link.group)
    }

    /// Removes an endpoint.
    pub(super) fn remove(&mut self, peer: PeerId) -> Option<PeerLink> {
        self.links.remove(&peer)
    }

    /// An endpoint.
    pub(super) fn get(&mut self, peer: PeerId) -> Option<&mut PeerLink> {
        self.links.get_mut(&peer)
    }

    /// The phase of an endpoint's connection.
    pub(super) fn phase(&self, peer: PeerId) -> LinkPhase {
        self.links.get(&peer).map_or(LinkPhase::Ended, |link| link.phase)
    }

    /// Whether there is one endpoint.
    pub(super) fn is_single(&self) -> bool {
        self.links.len() == 1
    }

    /// All endpoints.
    pub(super) fn peers(&self) -> Vec<PeerId> {
        self.links.keys().copied().collect()
    }

    /// Begins an attempt, or gives it more time: it ends at `until`, which no other attempt
    /// outlasts.
    pub(super) fn open(&mut self, peer: PeerId, until: Instant) {
        if let Some(link) = self.get(peer) {
            (link.phase, link.until) = (LinkPhase::Opening, until);
            self.deadlines.push_back((until, peer));
        }
    }

    /// Whether an attempt with this peer ends at this time.
    fn ends_at(&self, (until, peer): (Instant, PeerId)) -> bool {
        let link = self.links.get(&peer);
        link.is_some_and(|link| link.phase == LinkPhase::Opening && link.until == until)
    }

    /// When the first attempt ends, if one is made. Bound: attempts that have succeeded since
    /// [`Self::overdue`].
    pub(super) fn opens_until(&self) -> Option<Instant> {
        let first = self.deadlines.iter().find(|&&deadline| self.ends_at(deadline));
        first.map(|&(until, _)| until)
    }

    /// An attempt that ends at `now` or before. Forgets those that have succeeded.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<PeerId> {
        // bound: the attempts that have ended
        while let Some(&(until, peer)) = self.deadlines.front() {
            let ends = self.ends_at((until, peer));
            if ends && until > now {
                return None;
            }
            self.deadlines.pop_front();
            if ends {
                return Some(peer);
            }
        }
        None
    }
}
