// SPDX-License-Identifier: MIT OR Apache-2.0
//! A passive endpoint, which listens for connection requests (`fi_endpoint(3)`, `fi_cm(3)`).
//!
//! In: an address, an event queue, requests from the connection manager. Out: an event for each
//! request; its answer is the application's. Bound: [`BACKLOG`] requests without an answer, or as
//! many as the application sets; the rest is asked to try again.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::Duration;

use ofi_xdp_core::Instant;

use super::connection::EventOrigin;
use crate::getinfo::interface::Interface;
use crate::getinfo::{Info, InfoRequest, hints, unspecified};
use crate::objects::connection_manager::{
    CmSocket, ConnectionManager, ConnectionRequest, NewRequest, Purpose, RequestSink,
};
use crate::objects::eq::{ArrivedRequest, Eq};
use crate::objects::fabric::Fabric;
use crate::objects::object_ops::{BindTarget, ObjectOps};
use crate::sys::abi;
use crate::sys::clock::now;
use crate::sys::errno::Error;
use crate::sys::owned_info::OwnedInfo;

/// How long the names at a local address are taken for the present ones.
const NAMES_AGE: Duration = Duration::from_secs(5);
/// Maximum number of local addresses with known names.
const ADDRESSES_MAX: usize = 64;

/// Requests without an answer, unless the application sets another number (`FI_BACKLOG`).
pub(crate) const BACKLOG: u32 = 1024;

#[derive(Debug)]
struct State {
    /// The address, until it is given up.
    name: Option<SocketAddr>,
    /// The socket at it, unless another process has taken the address in a moment without one.
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
    names: Mutex<NamesCache>,
}

/// The names of the fabric and of the domain at a local address; `None` where no interface has it.
type ListenerNames = Option<(String, String)>;

/// The names at the addresses that the last requests were for, and the time until which they hold.
/// They come from a listing of all interfaces, which takes milliseconds where there are hundreds.
#[derive(Debug, Default)]
struct NamesCache {
    by_address: HashMap<IpAddr, ListenerNames>,
    until: Instant,
}

impl NamesCache {
    /// The names at `local` at `now`; those that `look_up` finds, unless they are known.
    fn get(
        &mut self,
        local: IpAddr,
        now: Instant,
        look_up: impl FnOnce() -> ListenerNames,
    ) -> ListenerNames {
        if now >= self.until || self.by_address.len() >= ADDRESSES_MAX {
            self.by_address.clear();
            self.until = now.after(NAMES_AGE);
        }
        self.by_address.entry(local).or_insert_with(look_up).clone()
    }
}

impl State {
    /// Opens the socket at the address again.
    fn bind_again(&mut self, manager: &ConnectionManager) {
        if let Some(name) = self.name {
            // Without a socket `fi_listen` fails while the address is in use.
            self.socket = manager.open(name, Purpose::Listen(BACKLOG)).ok();
        }
    }
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
                name: None,
                socket: None,
                events: None,
                origin: EventOrigin::default(),
                backlog: BACKLOG,
                listening: false,
            }),
            names: Mutex::default(),
        });
        if let Some(source) = request.source {
            passive.set_name(source)?;
        }
        Ok(passive)
    }

    /// `fi_setname`: binds the endpoint to an address, in place of an earlier one, which it keeps
    /// after an error.
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
        let opened = manager.open(address, Purpose::Listen(BACKLOG));
        let socket = opened.inspect_err(|_| state.bind_again(manager))?;
        state.name = Some(socket.local());
        state.socket = Some(socket);
        Ok(())
    }

    /// `fi_getname`.
    ///
    /// # Errors
    /// [`Error::BadState`] before it has an address.
    pub(crate) fn name(&self) -> Result<SocketAddr, Error> {
        self.lock().name.ok_or(Error::BadState)
    }

    /// Gives its address to an active endpoint, which `open` opens there with this one as its
    /// handle. After an error of `open` it has the address again.
    ///
    /// # Errors
    /// [`Error::BadState`] without an address, or while it listens; those of `open`.
    pub(crate) fn give_name<T>(
        &self,
        open: impl FnOnce(SocketAddr) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut state = self.lock();
        let name = state.name.filter(|_| !state.listening).ok_or(Error::BadState)?;
        let manager = self.fabric.connection_manager()?;
        state.socket.take().into_iter().for_each(|socket| manager.close(socket));
        let opened = open(name).inspect_err(|_| state.bind_again(manager))?;
        state.name = None;
        Ok(opened)
    }

    /// `fi_listen`.
    ///
    /// # Errors
    /// [`Error::NoEventQueue`]; [`Error::BadState`] if it listens already; as [`Self::set_name`].
    pub(crate) fn listen(self: &Arc<Self>, origin: EventOrigin) -> Result<(), Error> {
        let mut state = self.lock();
        if state.socket.is_none() {
            let name = state.name.unwrap_or_else(|| SocketAddr::new(unspecified(self.ip), 0));
            drop(state);
            self.set_name(name)?;
            state = self.lock();
        }
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

    /// The names of the fabric and of the domain at a local address; `None`: those of the template.
    /// They stay, too, where no interface that is up has the address: it may have been removed, and
    /// the kernel still receives by one without a carrier.
    fn names_at(&self, local: IpAddr) -> ListenerNames {
        if local == self.ip {
            return None;
        }
        let look_up = || {
            let interface = Interface::with_address(local).ok().flatten();
            if interface.is_none() {
                log::info!(target: "ep_ctrl", "no interface that is up has the address {local}");
            }
            interface.map(|it| (it.network(), it.nic.name))
        };
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(local, now(), look_up)
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
        let names = self.names_at(request.local().ip());
        let state = self.lock();
        let Some(events) = state.events.as_ref().filter(|events| events.admit().is_ok()) else {
            static WARNING: Once = Once::new();
            let warn =
                || log::warn!(target: "ep_ctrl", "an event queue is full: requests are rejected");
            WARNING.call_once(warn);
            return;
        };
        let template = Arc::clone(&self.template);
        let arrival = ArrivedRequest { request, template, names, info: None };
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_names_at_an_address_are_looked_up_once_in_a_while() {
        let mut names = NamesCache::default();
        let mut looked_up = 0;
        let mut ask = |number: u32, time| {
            let local = Ipv4Addr::from_bits(number).into();
            let found = names.get(local, time, || {
                looked_up += 1;
                Some((number.to_string(), "eth0".to_owned()))
            });
            assert_eq!(found, Some((number.to_string(), "eth0".to_owned())));
            looked_up
        };
        let start = Instant::from_nanos(1 << 40);
        assert_eq!([0; 100].map(|_| ask(1, start)).last(), Some(&1));
        assert_eq!(ask(2, start), 2);
        assert_eq!(ask(1, start.after(NAMES_AGE)), 3, "the address may have another interface");
        let last = u32::try_from(ADDRESSES_MAX).unwrap() + 2;
        assert_eq!((2..=last).map(|number| ask(number, start.after(NAMES_AGE))).last(), Some(68));
        assert!(names.by_address.len() <= ADDRESSES_MAX);
    }
}
