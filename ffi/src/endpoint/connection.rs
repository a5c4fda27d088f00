// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection of a connected endpoint (`FI_EP_MSG`, `fi_cm(3)`).
//!
//! ```text
//!            connect              accepted by the listener
//!  Opened ─────────────▶ Requesting ──────────────▶ Opening ──────────▶ Connected ──────▶ Ended
//!     │     accept                                     ▲    both sides      shutdown, close,
//!     └────────────────────────────────────────────────┘    know of it      failure
//! ```
//!
//! In: calls of the application, outcomes of the connection manager, changes of the connection from
//! the runtime. Out: events for the event queue. An endpoint has one connection in its life. Bound:
//! the data of one request.
//!
//! Locks: calls of the runtime and of the connection manager are made without the lock of the
//! state, because both call back.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use ofi_xdp_core::PeerId;
use ofi_xdp_core::cm::RequestId;

use crate::objects::connection_manager::{CmSocket, ConnectionRequest, RequestOutcome, Requester};
use crate::objects::eq::{Eq, ErrorEvent, Event};
use crate::runtime::Runtime;
use crate::runtime::peer_link::Observer;
use crate::sys::abi;
use crate::sys::errno::Error;
use crate::sys::peer_check;

/// Most bytes that an application can add to a request or an answer (`FI_OPT_CM_DATA_SIZE`).
pub(crate) const CM_DATA_MAX: usize = ofi_xdp_core::cm::CONNECT_DATA_MAX;

/// The object of an event, as the application knows it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventOrigin {
    /// C's pointer to the object, exposed.
    pub(crate) fid: usize,
    /// The application's context of the object.
    pub(crate) context: usize,
}

impl EventOrigin {
    /// A connection event with the data of the other side (`struct fi_eq_cm_entry`).
    pub(super) fn event(self, code: u32, data: &[u8]) -> Event {
        Event::new(code, abi::cm_entry(self.fid, data))
    }

    /// A failed attempt. A listener with a full backlog refuses, too; the provider's number of the
    /// error tells the difference.
    fn error(self, error: Error, data: &[u8]) -> ErrorEvent {
        let Self { fid, context } = self;
        let (detail, bytes) = (error.number(), data.to_vec());
        let number = if error == Error::Again { libc::ECONNREFUSED } else { detail };
        ErrorEvent { fid, context, data: 0, number, detail, bytes }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum ConnectPhase {
    #[default]
    Opened,
    Requesting,
    Opening,
    Connected,
    Ended,
}

#[derive(Debug, Default)]
struct State {
    phase: ConnectPhase,
    origin: EventOrigin,
    events: Option<Arc<Eq>>,
    peer: Option<SocketAddr>,
    /// Data of the other side, until the connection is open.
    data: Vec<u8>,
    /// The request that the endpoint was opened for, until its acceptance is confirmed or has
    /// failed. It keeps the socket of the listener, which repeats the acceptance till then.
    incoming: Option<Arc<ConnectionRequest>>,
    /// The request that the connection manager knows of.
    request: Option<(Arc<CmSocket>, RequestId)>,
}

impl State {
    /// The attempt has failed; whether one was under way.
    fn fail(&mut self, error: Error, data: &[u8]) -> bool {
        if !matches!(self.phase, ConnectPhase::Requesting | ConnectPhase::Opening) {
            return false;
        }
        self.phase = ConnectPhase::Ended;
        if let Some(events) = &self.events {
            events.push_error(self.origin.error(error, data));
        }
        true
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct EndpointConnection {
    /// The address of the listener, if the endpoint was opened for a request.
    listener: Option<SocketAddr>,
    /// The runtime, and the peer that it has for the endpoint.
    runtime: OnceLock<(Weak<Runtime>, PeerId)>,
    state: Mutex<State>,
}

impl EndpointConnection {
    /// The connection of a new endpoint, which was opened for the request `incoming`, if any.
    pub(super) fn new(incoming: Option<Arc<ConnectionRequest>>) -> Arc<Self> {
        let (listener, peer) = incoming.as_ref().map(|it| (it.local(), it.peer())).unzip();
        let state = Mutex::new(State { peer, incoming, ..State::default() });
        Arc::new(Self { listener, runtime: OnceLock::new(), state })
    }

    /// The address of the listener, if the endpoint was opened for a request.
    pub(super) const fn listener(&self) -> Option<SocketAddr> {
        self.listener
    }

    /// The request that the endpoint was opened for, until its acceptance is confirmed or has
    /// failed.
    pub(crate) fn incoming(&self) -> Option<Arc<ConnectionRequest>> {
        self.lock().incoming.clone()
    }

    /// Records the runtime, when the endpoint is enabled, and the peer that it has there.
    pub(super) fn runs_on(&self, runtime: &Arc<Runtime>, peer: PeerId) {
        // An endpoint is enabled once.
        let _ = self.runtime.set((Arc::downgrade(runtime), peer));
    }

    /// The address of the peer.
    ///
    /// # Errors
    /// [`Error::NotConnected`] while none is known.
    pub(crate) fn peer(&self) -> Result<SocketAddr, Error> {
        self.lock().peer.ok_or(Error::NotConnected)
    }

    /// Asks the listener at `to`, through `socket`, for a connection with the data port `local`.
    /// The endpoint was opened for no request.
    ///
    /// # Errors
    /// [`Error::BadState`] after a call of this or of [`Self::accept`]; as [`CmSocket::connect`].
    pub(super) fn connect(
        self: &Arc<Self>,
        (origin, events): (EventOrigin, Arc<Eq>),
        socket: &Arc<CmSocket>,
        (to, local): (SocketAddr, SocketAddr),
        data: &[u8],
    ) -> Result<(), Error> {
        let (_, peer) = self.runtime()?;
        self.begin(ConnectPhase::Requesting, origin, events)?;
        self.lock().peer = Some(to);
        let requester: Weak<Self> = Arc::downgrade(self);
        match socket.connect(to, (local, peer), data, requester) {
            Ok(id) => {
                self.lock().request = Some((Arc::clone(socket), id));
                Ok(())
            }
            Err(error) => {
                self.lock().phase = ConnectPhase::Opened;
                Err(error)
            }
        }
    }

    /// Accepts the request that the endpoint was opened for; the data port of this side is at
    /// `local`.
    ///
    /// # Errors
    /// [`Error::BadState`] without such a request and after an earlier call;
    /// [`Error::NotConnected`] if the request has ended.
    pub(super) fn accept(
        self: &Arc<Self>,
        (origin, events): (EventOrigin, Arc<Eq>),
        local: SocketAddr,
        data: &[u8],
    ) -> Result<(), Error> {
        let request = self.incoming().ok_or(Error::BadState)?;
        self.begin(ConnectPhase::Opening, origin, events)?;
        let accepted = self.accept_request(&request, local, data);
        if accepted.is_err() {
            // The caller learns of it; there is no event.
            self.lock().phase = ConnectPhase::Ended;
            self.abandon();
            request.turn_down();
            self.leave_listener();
        }
        accepted
    }

    /// Opens the connection, then accepts: the first packet may follow the answer at once.
    fn accept_request(
        self: &Arc<Self>,
        request: &ConnectionRequest,
        local: SocketAddr,
        data: &[u8],
    ) -> Result<(), Error> {
        let (runtime, peer) = self.runtime()?;
        runtime.open_connection(peer, (request.peer().into(), request.cid()), false)?;
        let requester: Weak<Self> = Arc::downgrade(self);
        let id = request.accept((local, peer), data, requester)?;
        let mut state = self.lock();
        // The outcome may be known by now.
        if state.incoming.is_some() {
            state.request = Some((Arc::clone(request.socket()), id));
        }
        Ok(())
    }

    /// The acceptance needs no repetition any more: a listener that is closed frees its address,
    /// although connections that it has accepted are open.
    fn leave_listener(&self) {
        let mut state = self.lock();
        let references = state.incoming.take().map(|incoming| (incoming, state.request.take()));
        drop(state);
        // The last reference to a request locks its socket.
        drop(references);
    }

    /// Ends the connection of an attempt that has failed. The other side waits for nothing.
    fn abandon(&self) {
        if let Ok((runtime, peer)) = self.runtime() {
            runtime.abandon_connection(peer);
        }
    }

    /// Ends the connection from this side.
    ///
    /// # Errors
    /// [`Error::NotConnected`] without a connection.
    pub(super) fn shutdown(&self) -> Result<(), Error> {
        if !matches!(self.lock().phase, ConnectPhase::Opening | ConnectPhase::Connected) {
            return Err(Error::NotConnected);
        }
        let (runtime, peer) = self.runtime()?;
        runtime.end_connection(peer)
    }

    /// Withdraws a request, and rejects one that the endpoint was opened for and has not accepted.
    /// Afterwards the connection manager calls no more, and has no reference. The event queue has
    /// no event of the endpoint from here on.
    pub(super) fn close(&self) {
        let (incoming, request, events, origin) = {
            let mut state = self.lock();
            state.phase = ConnectPhase::Ended;
            (state.incoming.take(), state.request.take(), state.events.take(), state.origin)
        };
        if let Some(incoming) = incoming {
            incoming.turn_down();
        }
        if let Some((socket, id)) = request {
            socket.forget(id);
        }
        if let Some(events) = events {
            events.forget(origin.fid);
        }
    }

    /// Leaves [`ConnectPhase::Opened`], which happens once.
    fn begin(
        &self,
        phase: ConnectPhase,
        origin: EventOrigin,
        events: Arc<Eq>,
    ) -> Result<(), Error> {
        let mut state = self.lock();
        if state.phase != ConnectPhase::Opened {
            return Err(Error::BadState);
        }
        (state.phase, state.origin, state.events) = (phase, origin, Some(events));
        Ok(())
    }

    fn runtime(&self) -> Result<(Arc<Runtime>, PeerId), Error> {
        let (runtime, peer) = self.runtime.get().ok_or(Error::BadState)?;
        Ok((runtime.upgrade().ok_or(Error::BadState)?, *peer))
    }

    /// The listener has accepted: the connection opens to its data port.
    fn accepted(&self, to: SocketAddr, cid: PeerId, data: &[u8]) {
        {
            let mut state = self.lock();
            if state.phase != ConnectPhase::Requesting {
                return;
            }
            (state.phase, state.data) = (ConnectPhase::Opening, data.to_vec());
        }
        let opened = self
            .runtime()
            .and_then(|(runtime, peer)| runtime.open_connection(peer, (to.into(), cid), true));
        if let Err(error) = opened {
            self.fail(error, &[]);
        }
    }

    /// The attempt has failed: a connection that opens ends.
    fn fail(&self, error: Error, data: &[u8]) {
        let failed = self.lock().fail(error, data);
        if failed {
            self.abandon();
        }
    }

    // A panic while the lock is held leaves a state that is sound.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requester for EndpointConnection {
    fn outcome(&self, outcome: RequestOutcome, data: &[u8]) {
        match outcome {
            RequestOutcome::Accepted(to, cid) => return self.accepted(to, cid, data),
            RequestOutcome::Confirmed => {
                // An error means that the endpoint closes.
                let _ = self.runtime().and_then(|(it, peer)| it.confirm_connection(peer));
                self.connected();
            }
            RequestOutcome::Failed(error) => self.fail(error, data),
            RequestOutcome::Unanswered(error) => {
                if let Ok(peer) = self.peer() {
                    peer_check::report_request(peer, error);
                }
                self.fail(error, data);
            }
        }
        self.leave_listener();
    }
}

impl Observer for EndpointConnection {
    fn connected(&self) {
        let mut state = self.lock();
        if state.phase != ConnectPhase::Opening {
            return;
        }
        state.phase = ConnectPhase::Connected;
        let data = std::mem::take(&mut state.data);
        if let Some(events) = &state.events {
            events.push(state.origin.event(abi::FI_CONNECTED, &data));
        }
    }

    fn disconnected(&self) {
        // The connection manager may call `connected` at the same time: the phase that is read is
        // the one that ends.
        let mut state = self.lock();
        if state.phase != ConnectPhase::Connected {
            // The listener has accepted, and its data port does not answer.
            state.fail(Error::TimedOut, &[]);
            return;
        }
        state.phase = ConnectPhase::Ended;
        if let Some(events) = &state.events {
            events.push(state.origin.event(abi::FI_SHUTDOWN, &[]));
        }
    }
}
