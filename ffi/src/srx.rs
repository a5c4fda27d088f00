// SPDX-License-Identifier: MIT OR Apache-2.0
//! A shared receive context (`fi_srx_context`, `fi_endpoint(3)`, "Shared contexts"): receives that
//! serve whichever of its endpoints a message arrives at.
//!
//! What comes in: receives of every kind, from the application; questions for one, from the engines
//! of the endpoints, under their locks. What goes out: each receive to one engine, the one whose
//! message fits it first, in posting order ([`queue`]); the completion is that endpoint's. A
//! buffer for many messages is given away part by part, so endpoints fill it together.
//!
//! Two ways lead from a receive to its message. A message that arrives takes the first receive that
//! fits. One for which there is none is stored by its endpoint, which then is *hungry*; a receive
//! that is posted is offered to the hungry endpoints. Neither can miss the other: the endpoint
//! says that it is hungry before it looks at the queue once more, and the receive is in the queue
//! before the endpoints are asked.
//!
//! Locks: the list of endpoints, then an endpoint's, then the queue's. Bounds: the context's size;
//! its endpoints.

mod queue;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use ofi_xdp_core::{Context, PeerAddress, Probe};

use crate::abi::{self, ADDR_NONE, bits, fi_addr_t};
use crate::av::Av;
use crate::domain::Domain;
use crate::ep::{MIN_MULTI_RECV, Reports};
use crate::errno::Error;
use crate::hints;
use crate::info::{Info, RX_OP_FLAGS, SIZE_DEFAULT};
use crate::msg::{Receiving, receiving};
use crate::ops::{EndpointOps, FidOps, MsgOps, OpFlags, Recv, Side, TaggedOps};
use crate::progress::{ActiveEndpoint, Taking};

use queue::RecvQueue;
pub(crate) use queue::{PartEnd, SharedSource};

/// An endpoint that takes receives from here.
#[derive(Debug)]
struct Member {
    endpoint: Arc<ActiveEndpoint>,
    reports: Reports,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SharedRx {
    domain: Arc<Domain>,
    queue: Arc<RecvQueue>,
    members: RwLock<Vec<Member>>,
    /// The vector that its endpoints share: it says who a directed receive is for.
    vector: Mutex<Weak<Av>>,
    /// `FI_DIRECTED_RECV` was asked for: receives may name their source.
    directed: bool,
    op_flags: AtomicU64,
    min_multi_recv: AtomicUsize,
}

impl SharedRx {
    /// `fi_srx_context`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for attributes that were never offered.
    pub(crate) fn open(
        domain: &Arc<Domain>,
        attributes: Option<&abi::fi_rx_attr>,
    ) -> Result<Arc<Self>, Error> {
        let offer = Info::offer(domain.interface());
        let wanted = attributes.copied().unwrap_or(abi::fi_rx_attr { size: 0, ..offer.rx });
        if attributes.is_some() {
            hints::check_rx(&wanted, offer.caps, &offer.rx).map_err(|attribute| {
                log::warn!(target: "ep_ctrl", "{attribute} is not what was offered");
                Error::Invalid
            })?;
        }
        let size = if wanted.size == 0 { SIZE_DEFAULT } else { wanted.size };
        Ok(Arc::new(Self {
            domain: Arc::clone(domain),
            queue: Arc::new(RecvQueue::new(size)),
            members: RwLock::default(),
            vector: Mutex::default(),
            directed: wanted.caps & bits::DIRECTED_RECV != 0,
            op_flags: AtomicU64::new(attributes.map_or(0, |it| it.op_flags)),
            min_multi_recv: AtomicUsize::new(MIN_MULTI_RECV),
        }))
    }

    /// The domain that it belongs to.
    pub(crate) const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// What an endpoint with this vector takes receives from.
    ///
    /// # Errors
    /// [`Error::Invalid`] if its other endpoints have another vector.
    pub(crate) fn source(&self, av: &Arc<Av>, reports: Reports) -> Result<SharedSource, Error> {
        let mut vector = self.vector.lock().unwrap_or_else(PoisonError::into_inner);
        match vector.upgrade() {
            Some(known) if !Arc::ptr_eq(&known, av) => {
                log::warn!(
                    target: "ep_ctrl",
                    "endpoints of one shared receive context share one address vector"
                );
                return Err(Error::Invalid);
            }
            _ => *vector = Arc::downgrade(av),
        }
        Ok(SharedSource::new(Arc::clone(&self.queue), reports))
    }

    /// From now on receives that are posted are offered to `endpoint`.
    pub(crate) fn join(&self, endpoint: &Arc<ActiveEndpoint>, reports: Reports) {
        let mut members = self.members_mut();
        members.push(Member { endpoint: Arc::clone(endpoint), reports });
        self.name_tellers(&members);
        drop(members);
        endpoint.feed();
    }

    /// The end of [`Self::join`].
    pub(crate) fn leave(&self, endpoint: &Arc<ActiveEndpoint>) {
        let mut members = self.members_mut();
        members.retain(|member| !Arc::ptr_eq(&member.endpoint, endpoint));
        if members.is_empty() {
            // The next ones may have another.
            *self.vector.lock().unwrap_or_else(PoisonError::into_inner) = Weak::new();
        }
        self.name_tellers(&members);
    }

    /// Has the queue know which endpoints tell what nobody told: those whose receives are read.
    fn name_tellers(&self, members: &[Member]) {
        let tellers = members.iter().filter(|member| member.reports != Reports::Never);
        self.queue.set_tellers(tellers.map(|member| member.endpoint.receive_waker().cloned()));
    }

    /// The peer that an application means by `from`.
    fn resolve(&self, from: fi_addr_t) -> Result<PeerAddress, Error> {
        let vector = self.vector.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        // Before its first endpoint is enabled, an address means nothing here.
        let occupant = vector.ok_or(Error::BadState)?.occupant(from).ok_or(Error::Invalid)?;
        Ok(occupant.address)
    }

    /// A receive of any kind.
    fn post(&self, recv: &Recv) -> Result<(), Error> {
        let flags = match recv.flags {
            OpFlags::Default => self.op_flags.load(Ordering::Relaxed),
            OpFlags::Given(flags) | OpFlags::Deferred(flags) => flags,
            OpFlags::Inject => 0,
        };
        match receiving(recv, flags)? {
            Receiving::One => self.enqueue(recv, flags, None),
            Receiving::Many => {
                let least = self.min_multi_recv.load(Ordering::Relaxed).max(1);
                self.enqueue(recv, flags, Some(least as u64))
            }
            Receiving::Probe(probe) => self.probe(recv, flags, probe),
            Receiving::Claimed(taking) => self.take_claimed(recv, flags, taking),
        }
    }

    fn enqueue(&self, recv: &Recv, flags: u64, least: Option<u64>) -> Result<(), Error> {
        let source = match recv.from {
            ADDR_NONE => None,
            from if self.directed => Some(self.resolve(from)?),
            _ => None,
        };
        let told = flags & bits::COMPLETION != 0;
        self.queue.push(recv, source, least, told)?;
        self.members().iter().for_each(|member| member.endpoint.feed());
        Ok(())
    }

    /// A look at the messages that its endpoints store, one endpoint after the other. If there is
    /// none, [`teller`] says who tells.
    fn probe(&self, recv: &Recv, flags: u64, probe: Probe) -> Result<(), Error> {
        let members = self.members();
        // bound: its endpoints
        for Member { endpoint, reports } in members.iter() {
            if endpoint.stores(recv)? {
                return endpoint.peek(recv, probe, reports.signals(flags));
            }
        }
        let Member { endpoint, reports } = teller(&members).ok_or(Error::BadState)?;
        endpoint.peek(recv, probe, reports.signals(flags))
    }

    /// What was claimed, at whichever endpoint.
    fn take_claimed(&self, recv: &Recv, flags: u64, taking: Taking) -> Result<(), Error> {
        // bound: its endpoints
        for Member { endpoint, reports } in self.members().iter() {
            match endpoint.take_claimed(recv, taking, reports.signals(flags)) {
                Err(Error::Invalid) => {}
                taken => return taken,
            }
        }
        Err(Error::Invalid)
    }

    fn members(&self) -> RwLockReadGuard<'_, Vec<Member>> {
        self.members.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn members_mut(&self) -> RwLockWriteGuard<'_, Vec<Member>> {
        self.members.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The endpoint that tells what ends without one: the first whose receives are read, or, where
/// there are counters only, the first.
fn teller(members: &[Member]) -> Option<&Member> {
    members.iter().find(|member| member.reports != Reports::Never).or_else(|| members.first())
}

impl MsgOps for SharedRx {
    fn recv(&self, recv: Recv) -> Result<(), Error> {
        self.post(&recv)
    }
}

impl TaggedOps for SharedRx {
    fn tagged_recv(&self, recv: Recv) -> Result<(), Error> {
        self.post(&recv)
    }
}

impl FidOps for SharedRx {
    /// It is ready as it is opened (`fi_endpoint(3)` asks it of endpoints alone).
    fn enable(self: &Arc<Self>) -> Result<(), Error> {
        Ok(())
    }

    fn bind(self: &Arc<Self>, _other: crate::ops::Bound, _flags: u64) -> Result<(), Error> {
        // Queues and counters are its endpoints' (fi_endpoint(3)).
        Err(Error::Invalid)
    }

    fn op_flags(&self, side: Side) -> Result<u64, Error> {
        match side {
            Side::Transmit => Err(Error::Invalid),
            Side::Receive => Ok(self.op_flags.load(Ordering::Relaxed)),
        }
    }

    fn set_op_flags(&self, side: Side, flags: u64) -> Result<(), Error> {
        if side == Side::Transmit {
            return Err(Error::Invalid);
        }
        if flags & !RX_OP_FLAGS != 0 {
            return Err(Error::BadFlags);
        }
        self.op_flags.store(flags, Ordering::Relaxed);
        Ok(())
    }
}

impl EndpointOps for SharedRx {
    /// [`teller`] says who tells: the receive has met no endpoint yet.
    fn cancel(&self, context: Context) -> Result<(), Error> {
        if context == Context::default() {
            return Ok(());
        }
        let members = self.members();
        self.queue.cancel(context, |recv, many| {
            teller(&members).map_or(Ok(()), |member| member.endpoint.tell_cancelled(recv, many))
        })
    }

    fn min_multi_recv(&self) -> Result<usize, Error> {
        Ok(self.min_multi_recv.load(Ordering::Relaxed))
    }

    fn set_min_multi_recv(&self, least: usize) -> Result<(), Error> {
        self.min_multi_recv.store(least, Ordering::Relaxed);
        Ok(())
    }

    fn receives_left(&self) -> Result<usize, Error> {
        Ok(self.queue.room())
    }
}
