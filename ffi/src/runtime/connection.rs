// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections of connected endpoints (`FI_EP_MSG`) on a runtime, which may have many.
//!
//! In: endpoints; names of the other side; packets, which open and end connections. Out: both
//! changes, once each, to the observer of the endpoint. Called by the endpoints, and after every
//! call that moves packets. Bound: the endpoints; at the end of one, the posted receives.

use std::sync::{Arc, MutexGuard};

use ofi_xdp_core::{Budget, CompletionGroup, Instant, LinkState, PeerAddress, PeerId};

use super::peer_link::{LinkPhase, Observer};
use super::{LINGER, Runtime, State};
use crate::sys::clock::now;
use crate::sys::errno::Error;
use crate::sys::param;

impl Runtime {
    /// Adds a connected endpoint. The result is the peer that it has, before it is connected.
    ///
    /// # Errors
    /// [`Error::NoMemory`] when there are too many; [`Error::Again`] where their slots are in use
    /// again only after a short time.
    pub(crate) fn add_link(
        &self,
        observer: Arc<dyn Observer>,
        group: CompletionGroup,
    ) -> Result<PeerId, Error> {
        let State { engine, links, .. } = &mut *self.lock();
        let peer = engine.with_mut(|engine| engine.insert_connected())?;
        links.insert(peer, observer, group);
        Ok(peer)
    }

    /// Expects the connection of an endpoint with the other side's port and its engine's name for
    /// the connection; `ours`: opens it. The attempt ends after the connect time-out.
    ///
    /// # Errors
    /// [`Error::BadState`] if there was a connection; those of the engine.
    pub(crate) fn open_connection(
        &self,
        peer: PeerId,
        to: (PeerAddress, PeerId),
        ours: bool,
    ) -> Result<(), Error> {
        let connect_timeout = param::connect_timeout()?;
        let mut state = self.lock();
        let State { engine, links, .. } = &mut *state;
        if links.phase(peer) != LinkPhase::Unnamed {
            return Err(Error::BadState);
        }
        let now = now();
        engine.with_mut(|engine| engine.open_connection(now, peer, to, ours))?;
        links.open(peer, now.after(connect_timeout));
        self.drive(&mut state, now, Budget::PROGRESS);
        self.wake(&mut state, None);
        Ok(())
    }

    /// The other side has confirmed that this side accepted. The attempt has the connect time-out
    /// once more, until the first packet of the connection.
    ///
    /// # Errors
    /// Those of the parameters.
    pub(crate) fn confirm_connection(&self, peer: PeerId) -> Result<(), Error> {
        let connect_timeout = param::connect_timeout()?;
        let mut state = self.lock();
        if state.links.phase(peer) == LinkPhase::Opening {
            state.links.open(peer, now().after(connect_timeout));
        }
        Ok(())
    }

    /// Ends the connection of an endpoint from this side, after the peer has acknowledged what was
    /// sent or [`LINGER`] has passed.
    ///
    /// # Errors
    /// [`Error::NotConnected`] without a connection.
    pub(crate) fn end_connection(&self, peer: PeerId) -> Result<(), Error> {
        let mut state = self.linger_for(peer);
        let now = now();
        let (LinkPhase::Opening | LinkPhase::Open) = state.links.phase(peer) else {
            return Err(Error::NotConnected);
        };
        Self::end_link(&mut state, peer, now);
        self.drive(&mut state, now, Budget::PROGRESS);
        self.wake(&mut state, None);
        Ok(())
    }

    /// Ends the connection of an endpoint at once, if there is one: it has no answer, or the other
    /// side knows nothing of it.
    pub(crate) fn abandon_connection(&self, peer: PeerId) {
        let mut state = self.lock();
        let now = now();
        Self::end_link(&mut state, peer, now);
        self.drive(&mut state, now, Budget::POST);
        self.wake(&mut state, None);
    }

    /// Removes an endpoint, as [`Self::end_connection`] ends its connection. Afterwards none of its
    /// memory is accessed, and none of its completions is read any more.
    pub(crate) fn remove_link(&self, peer: PeerId) {
        let mut state = self.linger_for(peer);
        let now = now();
        state.links.remove(peer);
        let State { engine, memory, .. } = &mut *state;
        engine.with_mut(|engine| {
            engine.advance(now);
            // It has been in the table since the endpoint was added, so this cannot fail.
            let _ = engine.remove_peer(peer);
            engine.cancel_from(peer);
            engine.discard_completions(peer, |part| memory.abandon_shared(part));
        });
        self.drive(&mut state, now, Budget::POST);
        self.wake(&mut state, None);
    }

    /// Waits until the connection has opened, and nothing is under way on it.
    fn linger_for(&self, peer: PeerId) -> MutexGuard<'_, State> {
        self.linger_while(now().after(LINGER), |state| {
            let is_single = state.links.is_single();
            state.links.phase(peer) == LinkPhase::Opening
                || state.engine.with(|engine| {
                    if is_single { engine.has_work() } else { !engine.is_idle(peer) }
                })
        })
    }

    /// Tells the observers of changes.
    #[inline]
    pub(super) fn follow_connections(&self, state: &mut State, now: Instant) {
        // bound: the changes, each noted once
        while let Some((peer, change)) = state.engine.with_mut(|engine| engine.poll_link()) {
            if peer.is_none() {
                for peer in state.links.peers() {
                    let is = state.engine.with(|engine| engine.link(peer));
                    Self::follow(state, peer, is, now);
                }
            } else {
                Self::follow(state, peer, change, now);
            }
        }
        // bound: the attempts under way
        while let Some(peer) = state.links.overdue(now) {
            Self::follow(state, peer, LinkState::Ended, now);
        }
    }

    /// Tells the observer of one endpoint that its connection is in this state.
    fn follow(state: &mut State, peer: PeerId, is: LinkState, now: Instant) {
        let Some(link) = state.links.get(peer) else { return };
        match is {
            LinkState::Open if link.phase == LinkPhase::Opening => {
                link.phase = LinkPhase::Open;
                link.observer.connected();
            }
            LinkState::Ended => {
                Self::end_link(state, peer, now);
                // The peer may have sent first: it is told that nothing follows.
                Self::move_packets(state, now, Budget::POST);
            }
            LinkState::Open | LinkState::Opening => {}
        }
    }

    /// Ends a connection here: operations complete in error, receives as cancelled.
    #[cold]
    fn end_link(state: &mut State, peer: PeerId, now: Instant) {
        let State { engine, links, .. } = state;
        let Some(link) = links.get(peer) else { return };
        if !matches!(link.phase, LinkPhase::Opening | LinkPhase::Open) {
            return;
        }
        link.phase = LinkPhase::Ended;
        engine.with_mut(|engine| {
            engine.advance(now);
            // The endpoint keeps its identifier until it is closed.
            let _ = engine.end_connected(peer);
            engine.cancel_from(peer);
        });
        link.observer.disconnected();
    }
}
