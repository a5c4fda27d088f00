// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_enable`: a runtime starts on the endpoint's port.
//!
//! In: the bindings, which must be complete. Out: a [`Runtime`], to the bound queues and counters,
//! the domain's region table and the progress thread. Called once. Bound: the capacities that the
//! endpoint was opened with; all memory is allocated here.

use std::cell::RefCell;
use std::sync::Arc;

use ofi_xdp_core::{CompletionGroup, Config};

use super::bind::{Bindings, BoundCntr, BoundCq, NeededQueues, policy};
use super::capacities::{carry_datagrams, serve_connections, transmit_only};
use super::shared_tx::SharedTx;
use super::{Enabled, Endpoint, PEERS, open_port};
use crate::objects::cntr::Cntr;
use crate::objects::object_ops::BindTarget;
use crate::objects::shared_runtimes::{
    BoundObject, BoundQueue, QueuePair, RuntimeGroup, RuntimeKey,
};
use crate::runtime::addresses::AddressTable;
use crate::runtime::peer_link::Observer;
use crate::runtime::{
    Attachment, CompletionSource, GroupQueues, Runtime, RuntimeConfig, Side, Wakers,
};
use crate::sys::abi::bits;
use crate::sys::errno::Error;
use crate::sys::limits::REGIONS_MAX;
use crate::sys::{param, reserve};

/// Largest peer table, whatever the address vector was opened for.
const PEERS_MAX: u32 = 1 << 20;

impl Endpoint {
    /// Starts the runtime, and adds it to the bound objects. A connected endpoint joins one that
    /// others with its bindings have started, if there is room.
    ///
    /// # Errors
    /// [`Error::BadState`] without a shared context that was asked for;
    /// [`Error::NoAddressVector`]; [`Error::NoCompletionQueue`]; [`Error::NoMemory`]; as
    /// [`Runtime::start`] and [`open_port`].
    pub(super) fn start(&self, bindings: &mut Bindings, queues: NeededQueues) -> Result<(), Error> {
        if let Some(place) = &self.place {
            bindings.av = place.vector.get().cloned();
        }
        let av = self.complete(bindings)?;
        if queues == NeededQueues::Required {
            self.check_queues(bindings)?;
        }
        let joined = self.join_runtime(bindings, av)?;
        let RuntimeGroup { runtime, group } = joined.clone();
        let link = self.connection.as_ref().map(|connection| {
            let peer = runtime.add_link(Arc::clone(connection) as Arc<dyn Observer>, group)?;
            connection.runs_on(&runtime, peer);
            Ok::<_, Error>(peer)
        });
        let peer = link.transpose().inspect_err(|_| self.leave(bindings, &joined))?;
        let (transmits, receives) =
            (policy(bindings.transmit.as_ref()), policy(bindings.receive.as_ref()));
        let (address, shared_rx) = (runtime.local_addr(), bindings.shared_rx.clone());
        let enabled = Enabled { runtime, group, transmits, receives, shared_rx, address, peer };
        self.enabled.set(enabled).map_err(|_| Error::BadState)
    }

    /// A runtime, and the group of its endpoints that have these queues.
    fn join_runtime(
        &self,
        bindings: &mut Bindings,
        av: Arc<AddressTable>,
    ) -> Result<RuntimeGroup, Error> {
        let queue = |BoundCq { queue, selective }: &BoundCq| BoundQueue {
            queue: BoundObject::of(queue),
            selective: *selective,
            waits: queue.waker().is_some(),
        };
        let queues = [&bindings.transmit, &bindings.receive].map(|bound| bound.as_ref().map(queue));
        let Some(key) = self.runtime_key(bindings, queues) else {
            let (runtime, group) =
                (self.start_runtime(bindings, av, 1)?, CompletionGroup::default());
            let added = self.add_group(&runtime, bindings, group);
            added.inspect_err(|_| self.end_runtime(&runtime, bindings))?;
            return Ok(RuntimeGroup { runtime, group });
        };
        let bindings = RefCell::new(bindings);
        self.domain.runtimes().join(
            &key,
            queues,
            |room| self.start_runtime(&mut bindings.borrow_mut(), av, room),
            |runtime, group| self.add_group(runtime, &bindings.borrow(), group),
            |runtime| self.end_runtime(runtime, &bindings.borrow()),
        )
    }

    /// The properties that connected endpoints of one runtime have in common; `None` for an
    /// endpoint that has one of its own. Counters are those of a runtime, and so are ports.
    fn runtime_key(&self, bindings: &Bindings, queues: QueuePair) -> Option<RuntimeKey> {
        let Bindings { counters, shared_rx, port, name, .. } = bindings;
        let has_port = port.is_some() || name.is_some() || self.local.port() != 0;
        if self.connection.is_none() || has_port || !counters.is_empty() {
            return None;
        }
        Some(RuntimeKey {
            ip: self.local.ip(),
            shared_rx: shared_rx.as_ref().map(|shared| (BoundObject::of(shared), queues)),
            order: self.order,
            rma_event: self.caps & bits::RMA_EVENT != 0,
            sends: self.sends,
            recvs: self.recvs,
        })
    }

    /// Opens the port, unless it is open. An attempt that failed behind [`Runtime::start`] has
    /// closed it, and the application may know its address.
    ///
    /// # Errors
    /// As [`open_port`].
    pub(super) fn open_own_port(&self, bindings: &mut Bindings) -> Result<(), Error> {
        if bindings.port.is_none() {
            let address = bindings.name.unwrap_or(self.local);
            bindings.port = Some(open_port(&self.domain, address, self.carries_datagrams)?);
        }
        Ok(())
    }

    /// Starts a runtime for `room` endpoints.
    fn start_runtime(
        &self,
        bindings: &mut Bindings,
        av: Arc<AddressTable>,
        room: u32,
    ) -> Result<Arc<Runtime>, Error> {
        let before = reserve::refusals();
        let receives = policy(bindings.receive.as_ref());
        let thread = self.domain.thread()?;
        let vector = self.connection.is_none().then_some(&av);
        let shared_rx = bindings.shared_rx.as_ref();
        let shared = shared_rx.map(|shared| shared.source(vector, receives));
        let shared = shared.transpose()?;
        let wakers = Wakers::new(thread.alarm()?);
        let endpoint = Attachment {
            source_err: self.caps & bits::SOURCE_ERR != 0,
            is_connected: self.connection.is_some(),
            names_sources: self.carries_datagrams && self.caps & bits::SOURCE != 0,
        };
        let config = self.config(&av, room)?;
        self.open_own_port(bindings)?;
        let port = &mut bindings.port;
        let runtime = Runtime::start(RuntimeConfig { config, port, av, endpoint, wakers, shared })?;
        let joined = bind_counters(&runtime, bindings)
            .and_then(|()| self.domain.registry().join(&runtime))
            .and_then(|()| reserve::check(before))
            .and_then(|()| thread.add(&runtime));
        if let Err(error) = joined {
            self.end_runtime(&runtime, bindings);
            return Err(error);
        }
        Ok(runtime)
    }

    /// Adds a new group of endpoints to the runtime and to the bound queues. A queue of both sides
    /// reads receives first.
    fn add_group(
        &self,
        runtime: &Arc<Runtime>,
        bindings: &Bindings,
        group: CompletionGroup,
    ) -> Result<(), Error> {
        let Bindings { transmit, receive, .. } = bindings;
        let waker =
            |bound: &Option<BoundCq>| bound.as_ref().and_then(|it| it.queue.waker().cloned());
        runtime.add_group(GroupQueues {
            group,
            transmit: waker(transmit),
            receive: waker(receive),
            unbound: bindings.unbound(),
        })?;
        let sides = [(receive, Side::Receive), (transmit, Side::Transmit)];
        let added = sides.into_iter().try_for_each(|(bound, side)| match bound {
            Some(bound) => bound.queue.add(runtime, &[CompletionSource { side, group }]),
            None => Ok(()),
        });
        let shared = || self.join_shared(runtime, bindings);
        added.and_then(|()| shared()).inspect_err(|_| remove_group(runtime, bindings, group))
    }

    /// Adds a runtime to the bound shared receive context.
    fn join_shared(&self, runtime: &Arc<Runtime>, bindings: &Bindings) -> Result<(), Error> {
        let Some(shared) = &bindings.shared_rx else { return Ok(()) };
        let directed = self.caps & bits::DIRECTED_RECV != 0;
        let vector = bindings.av.as_ref().filter(|_| self.connection.is_none());
        let receives = policy(bindings.receive.as_ref());
        shared.join(runtime, receives, directed, vector.map(|av| av.table()))
    }

    /// Binds an object after `fi_enable`. Sandia `OpenSHMEM` binds a shared transmit context and
    /// counters that late.
    ///
    /// The endpoint has transmit resources of its own then, so the context is not used, and may be
    /// closed before the endpoint. A connected endpoint shares its runtime with others, and a
    /// counter would include their operations.
    ///
    /// # Errors
    /// [`Error::BadState`] for another object, and for a counter of a connected endpoint;
    /// [`Error::Invalid`] for a context of another domain; as [`Bindings::bind`] and
    /// [`Cntr::add_endpoint`].
    pub(super) fn bind_late(
        &self,
        bindings: &mut Bindings,
        enabled: &Enabled,
        target: &BindTarget,
        flags: u64,
    ) -> Result<(), Error> {
        if let Some(shared) = target.get::<SharedTx>() {
            let is_ours = Arc::ptr_eq(shared.domain(), &self.domain);
            return if is_ours { Ok(()) } else { Err(Error::Invalid) };
        }
        let counter = target.get::<Cntr>().filter(|_| self.connection.is_none());
        let counter = counter.ok_or(Error::BadState)?;
        bindings.bind(&self.domain, self.tx.as_ref(), target, flags)?;
        bind_counter(&enabled.runtime, &counter, flags)
            .inspect_err(|_| drop(bindings.counters.pop()))
    }

    /// Ends an enabled endpoint, and its runtime with the last one.
    pub(super) fn stop(&self, bindings: &Bindings, enabled: &Enabled) {
        if let Some(peer) = enabled.peer {
            enabled.runtime.remove_link(peer);
            let queues = bindings.transmit.iter().chain(&bindings.receive);
            queues.for_each(|bound| bound.queue.forget(&enabled.runtime, peer));
        }
        let joined = RuntimeGroup { runtime: Arc::clone(&enabled.runtime), group: enabled.group };
        self.leave(bindings, &joined);
    }

    /// Leaves a runtime, which ends with its last endpoint.
    fn leave(&self, bindings: &Bindings, joined: &RuntimeGroup) {
        let RuntimeGroup { runtime, group } = joined;
        if self.domain.runtimes().leave(joined, || remove_group(runtime, bindings, *group)) {
            self.end_runtime(runtime, bindings);
        }
    }

    /// Ends a runtime without endpoints, which some of the bound objects may not have yet.
    fn end_runtime(&self, runtime: &Arc<Runtime>, bindings: &Bindings) {
        // An endpoint that is enabled has started it.
        if let Ok(thread) = self.domain.thread() {
            thread.remove(runtime);
        }
        self.domain.work().forget(runtime);
        let source = bindings.shared_rx.as_ref().and_then(|shared| {
            // Messages that arrive from now on take no receive that other endpoints share.
            shared.leave(runtime);
            runtime.leave_shared()
        });
        runtime.close();
        if let Some(source) = source {
            runtime.end_shared(&source);
        }
        for BoundCntr { counter, .. } in &bindings.counters {
            counter.remove_endpoint(runtime);
        }
        self.domain.registry().leave(runtime);
    }

    /// Checks that all objects but queues are bound that the endpoint needs (`fi_endpoint(3)`,
    /// `fi_enable`); returns the address vector.
    fn complete(&self, bindings: &Bindings) -> Result<Arc<AddressTable>, Error> {
        let Bindings { av, shared_rx, shared_tx, .. } = bindings;
        let unshared =
            (self.shares_rx && shared_rx.is_none()) || (self.shares_tx && shared_tx.is_none());
        if unshared {
            log::warn!(target: "ep_ctrl", "no shared context is bound (FI_SHARED_CONTEXT)");
            return Err(Error::BadState);
        }
        match (&self.connection, av) {
            (Some(_), _) => Ok(Arc::new(AddressTable::new(0))),
            (None, Some(av)) => Ok(Arc::clone(av.table())),
            (None, None) => Err(Error::NoAddressVector),
        }
    }

    /// Checks that each direction of the endpoint's capabilities has a queue or a counter.
    fn check_queues(&self, bindings: &Bindings) -> Result<(), Error> {
        let Bindings { transmit, receive, .. } = bindings;
        let missing = |queue: &Option<BoundCq>, kinds: u64| {
            self.caps & kinds != 0 && queue.is_none() && !bindings.counts(kinds)
        };
        if missing(transmit, bits::SEND | bits::READ | bits::WRITE) || missing(receive, bits::RECV)
        {
            return Err(Error::NoCompletionQueue);
        }
        Ok(())
    }

    fn config(&self, av: &AddressTable, room: u32) -> Result<Config, Error> {
        let values = param::values()?;
        let mut config = Config::new(ofi_xdp_checksum::crc32c);
        // Peers that send first take a slot too.
        let expected = u32::try_from(av.expected().saturating_mul(2)).unwrap_or(u32::MAX);
        config.peers = expected.clamp(PEERS, PEERS_MAX);
        config.sends = self.sends;
        config.recvs = self.recvs;
        config.slices = self.recvs;
        config.regions = REGIONS_MAX;
        config.order = self.order;
        config.rma_events = self.caps & bits::RMA_EVENT != 0;
        config.peer_timeout = values.peer_timeout;
        config.path_retry = values.path_retry;
        if self.connection.is_some() {
            serve_connections(&mut config, room);
        }
        if self.carries_datagrams {
            carry_datagrams(&mut config);
        }
        if let Some(place) = &self.place {
            config.name_port = place.name.port();
            if place.side == Side::Transmit {
                transmit_only(&mut config);
            }
        }
        Ok(config)
    }
}

/// Adds a new runtime to the bound counters.
fn bind_counters(runtime: &Arc<Runtime>, bindings: &Bindings) -> Result<(), Error> {
    let mut counters = bindings.counters.iter();
    counters.try_for_each(|BoundCntr { counter, flags }| bind_counter(runtime, counter, *flags))
}

/// Adds a runtime and a counter to each other.
fn bind_counter(runtime: &Arc<Runtime>, counter: &Cntr, flags: u64) -> Result<(), Error> {
    // Counters of regions, which may be bound to later, poll (`cntr`).
    runtime.add_counter(counter.waker())?;
    counter.add_endpoint(runtime, flags)
}

/// Reverses [`Endpoint::add_group`].
fn remove_group(runtime: &Arc<Runtime>, bindings: &Bindings, group: CompletionGroup) {
    for bound in [&bindings.transmit, &bindings.receive].into_iter().flatten() {
        bound.queue.remove(runtime, group);
    }
    runtime.remove_group(group);
}
