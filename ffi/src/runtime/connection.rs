// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection of a connected endpoint (`FI_EP_MSG`): its runtime has one peer.
//!
//! In: the peer, which the endpoint has put into its address table; packets, which open and end the
//! connection. Out: both changes, once each, to the observer. Called by the endpoint, and after
//! every call that moves packets. Bound: one peer; at the end the posted receives.

use ofi_xdp_core::{Budget, Instant};

use super::peer_link::{PEER, PeerLink};
use super::{LINGER, Runtime, State};
use crate::sys::clock::now;
use crate::sys::errno::Error;
use crate::sys::param;

impl Runtime {
    /// Expects the connection of the peer in the table; `ours`: opens it. The attempt ends after
    /// twice the connect time-out: the peer may need one until it knows of this side's answer.
    ///
    /// # Errors
    /// [`Error::BadState`] if there was a connection; those of the engine.
    pub(crate) fn open_connection(&self, ours: bool) -> Result<(), Error> {
        let connect_timeout = param::values()?.connect_timeout;
        let mut state = self.lock();
        let State { engine, peers, link, .. } = &mut *state;
        if *link != PeerLink::Unnamed {
            return Err(Error::BadState);
        }
        let now = now();
        engine.with_mut(|engine| {
            peers.sync(&self.av);
            let peer = peers.peer(engine, &self.av, PEER)?;
            *link = PeerLink::Opening(peer, now.after(connect_timeout * 2));
            if ours { engine.connect(now, peer).map_err(Error::from) } else { Ok(()) }
        })?;
        self.drive(&mut state, now, Budget::PROGRESS);
        self.wake(&mut state, None);
        Ok(())
    }

    /// Ends the connection from this side, after the peer has acknowledged what was sent or
    /// [`LINGER`] has passed.
    ///
    /// # Errors
    /// [`Error::NotConnected`] without a connection.
    pub(crate) fn end_connection(&self) -> Result<(), Error> {
        let mut state = self.linger(now().after(LINGER));
        let now = now();
        let (PeerLink::Opening(..) | PeerLink::Open(_)) = state.link else {
            return Err(Error::NotConnected);
        };
        self.end_link(&mut state, now);
        self.drive(&mut state, now, Budget::PROGRESS);
        self.wake(&mut state, None);
        Ok(())
    }

    /// Tells the observer of changes.
    #[inline]
    pub(super) fn follow_connection(&self, state: &mut State, now: Instant) {
        let (peer, open, overdue) = match state.link {
            PeerLink::Opening(peer, until) => (peer, false, until <= now),
            PeerLink::Open(peer) => (peer, true, false),
            PeerLink::Unnamed | PeerLink::Ended => return,
        };
        // A connection may open and end in one call.
        let (connected, ended) = state.engine.with(|engine| {
            let stats = engine.stats();
            (stats.handshakes > 0 && !open, stats.connections_ended > 0)
        });
        if connected {
            state.link = PeerLink::Open(peer);
            if let Some(observer) = &self.endpoint.observer {
                observer.connected();
            }
        }
        if ended || (overdue && !connected) {
            self.end_link(state, now);
            // The peer may have sent first: it is told that nothing follows.
            Self::move_packets(state, now, Budget::POST);
        }
    }

    /// Ends the connection here: operations complete in error, receives as cancelled.
    #[cold]
    fn end_link(&self, state: &mut State, now: Instant) {
        let (PeerLink::Opening(peer, _) | PeerLink::Open(peer)) = state.link else { return };
        state.link = PeerLink::Ended;
        // An error means that the peer was taken out of the table already.
        let _ = self.av.remove(PEER);
        state.engine.with_mut(|engine| {
            engine.advance(now);
            let _ = engine.remove_peer(peer);
            engine.cancel_all();
        });
        if let Some(observer) = &self.endpoint.observer {
            observer.disconnected();
        }
    }
}
