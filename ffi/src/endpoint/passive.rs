// SPDX-License-Identifier: MIT OR Apache-2.0
//! A passive endpoint, which listens for connection requests (`fi_endpoint(3)`, `fi_cm(3)`).
//!
//! In: an address, an event queue, requests from the connection manager. Out: an event for each
//! request; its answer is the application's. Bound: [`BACKLOG`] requests without an answer, or as
//! many as the application sets; the rest is asked to try again.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::connection::EventOrigin;
use crate::getinfo::interface::Interface;
use crate::getinfo::{Info, InfoRequest, hints, unspecified};
use crate::objects::connection_manager::{
    CmSocket, ConnectionRequest, NewRequest, Purpose, RequestSink,
};
use crate::objects::eq::{ArrivedRequest, Eq};
use crate::objects::fabric::Fabric;
use crate::objects::object_ops::{BindTarget, ObjectOps};
use crate::sys::abi;
use crate::sys::errno::Error;
use crate::sys::owned_info::OwnedInfo;

/// Requests without an answer, unless the application sets another number (`FI_BACKLOG`).
pub(crate) const BACKLOG: u32 = 1024;

#[derive(Debug)]
struct State {
    socket: Option<Arc<CmSocket>>,
    events: Option<Arc<Eq>>,
    origin: EventOrigin,
    backlog: u32,
    listening: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct PassiveEndpoint {
    fabric: Arc<Fabric>,
    /// The offer that it was opened with: requests have a copy of it.
    template: Arc<OwnedInfo>,
    /// An address of the family that it listens on.
    ip: IpAddr,
    state: Mutex<State>,
}

impl PassiveEndpoint {
    /// `fi_passive_ep`, with an offer of `fi_getinfo`, and its copy `template`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an offer of another type of endpoint; [`Error::NoData`] without an
    /// interface for it; [`Error::Os`] if the address cannot be bound.
    pub(crate) fn open(
        fabric: &Arc<Fabric>,
        request: &InfoRequest,
        template: OwnedInfo,
    ) -> Result<Arc<Self>, Error> {
        if request.ep.is_none_or(|ep| ep.type_ != abi::FI_EP_MSG) {
            return Err(Error::Invalid);
        }
        let offers = |interface: &Interface| {
            fabric.contains(interface)
                && hints::check(request, &Info::offer_of(abi::FI_EP_MSG, interface, request.caps))
                    .is_ok()
        };
        let interfaces = Interface::all()?;
        let interface = interfaces.iter().find(|it| offers(it)).ok_or(Error::NoData)?;
        let ip = request.source.map_or(interface.ip, |source| source.ip());
        let passive = Arc::new(Self {
            fabric: Arc::clone(fabric),
            template: Arc::new(template),
            ip,
            state: Mutex::new(State {
                socket: None,
                events: None,
                origin: EventOrigin::default(),
                backlog: BACKLOG,
                listening: false,
            }),
        });
        if let Some(source) = request.source {
            passive.set_name(source)?;
        }
        Ok(passive)
    }

    /// `fi_setname`: binds the endpoint to an address, in place of an earlier one.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an address of another family; [`Error::BadState`] while it listens;
    /// [`Error::Os`]: in use, or not of this host.
    pub(crate) fn set_name(&self, address: SocketAddr) -> Result<(), Error> {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        if address.is_ipv4() != self.ip.is_ipv4() {
            return Err(Error::Invalid);
        }
        let mut state = self.lock();
        if state.listening {
            return Err(Error::BadState);
        }
        let manager = self.fabric.connection_manager()?;
        // The new address may be the old one.
        state.socket.take().into_iter().for_each(|socket| manager.close(socket));
        state.socket = Some(manager.open(address, Purpose::Listen(BACKLOG))?);
        Ok(())
    }

    /// `fi_getname`.
    ///
    /// # Errors
    /// [`Error::BadState`] before it has an address.
    pub(crate) fn name(&self) -> Result<SocketAddr, Error> {
        self.lock().socket.as_ref().map(|socket| socket.local()).ok_or(Error::BadState)
    }

    /// Gives its address up, for an active endpoint that is opened with this one as its handle.
    ///
    /// # Errors
    /// [`Error::BadState`] without an address, or while it listens.
    pub(crate) fn release_name(&self) -> Result<SocketAddr, Error> {
        let name = self.name()?;
        let mut state = self.lock();
        if state.listening {
            return Err(Error::BadState);
        }
        let socket = state.socket.take().ok_or(Error::BadState)?;
        self.fabric.connection_manager()?.close(socket);
        Ok(name)
    }

    /// `fi_listen`.
    ///
    /// # Errors
    /// [`Error::NoEventQueue`]; [`Error::BadState`] if it listens already; as [`Self::set_name`].
    pub(crate) fn listen(self: &Arc<Self>, origin: EventOrigin) -> Result<(), Error> {
        if self.lock().socket.is_none() {
            self.set_name(SocketAddr::new(unspecified(self.ip), 0))?;
        }
        let mut state = self.lock();
        if state.events.is_none() {
            return Err(Error::NoEventQueue);
        }
        if state.listening {
            return Err(Error::BadState);
        }
        (state.listening, state.origin) = (true, origin);
        let sink: Weak<Self> = Arc::downgrade(self);
        let (socket, backlog) = (state.socket.clone(), state.backlog);
        drop(state);
        if let Some(socket) = socket {
            socket.listen(Some(sink), backlog);
        }
        Ok(())
    }

    /// `FI_BACKLOG`: the most requests without an answer; from the next `fi_listen` on.
    pub(crate) fn set_backlog(&self, backlog: u32) {
        self.lock().backlog = backlog.clamp(1, BACKLOG);
    }

    /// Takes no more requests. The result is those that the application has not answered; their
    /// events are withdrawn. When the last reference to such a request is dropped, it is rejected:
    /// an endpoint that was opened for it has one.
    pub(crate) fn stop_listening(&self) -> Vec<Arc<ConnectionRequest>> {
        let (socket, events, origin) = {
            let mut state = self.lock();
            state.listening = false;
            (state.socket.clone(), state.events.clone(), state.origin)
        };
        let listed = socket.map_or(vec![], |socket| socket.stop_listening());
        let unanswered = listed.into_iter().filter_map(|request| request.downcast().ok()).collect();
        if let Some(events) = events {
            events.forget(origin.fid);
        }
        unanswered
    }

    // A panic while the lock is held leaves a state that is sound.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestSink for PassiveEndpoint {
    /// A request that finds the event queue full is rejected: it is dropped.
    fn requested(&self, socket: &Arc<CmSocket>, request: NewRequest, data: &[u8]) {
        let request = ConnectionRequest::new(socket, request);
        let state = self.lock();
        let Some(events) = state.events.as_ref().filter(|events| events.admit().is_ok()) else {
            log::warn!(target: "ep_ctrl", "the event queue is full: a request is rejected");
            return;
        };
        let arrival = ArrivedRequest { request, template: Arc::clone(&self.template) };
        let mut event = state.origin.event(abi::FI_CONNREQ, data);
        event.arrival = Some(arrival);
        events.push(event);
    }
}

impl ObjectOps for PassiveEndpoint {
    fn bind(self: &Arc<Self>, target: &BindTarget, flags: u64) -> Result<(), Error> {
        let queue = target.get::<Eq>().ok_or(Error::Invalid)?;
        if flags != 0 {
            return Err(Error::BadFlags);
        }
        if !Arc::ptr_eq(queue.fabric(), &self.fabric) {
            return Err(Error::Invalid);
        }
        let mut state = self.lock();
        if state.events.is_some() {
            return Err(Error::Invalid);
        }
        state.events = Some(queue);
        Ok(())
    }

    fn close(&self) -> Result<(), Error> {
        let socket = self.lock().socket.take();
        if let Some(socket) = socket {
            self.fabric.connection_manager()?.close(socket);
        }
        Ok(())
    }
}
