// SPDX-License-Identifier: MIT OR Apache-2.0
//! A shared receive context (`fi_srx_context`, `fi_endpoint(3)`, "Shared contexts"): receives for
//! messages of all its endpoints.
//!
//! In: receives of every mode, from the application; searches by the endpoints' engines, under
//! their locks. Out: each receive to the engine with the first matching message, in posting order
//! (`runtime::receive_queue`); that endpoint completes it. A multi-receive buffer is given out in
//! slices, so endpoints share it. Bound: the size of the context; its endpoints.
//!
//! A receive meets its message in two ways. A message that arrives takes the first receive that
//! matches. Without one, the endpoint stores it and sets `has_unmatched`; a receive that is posted
//! is offered to the endpoints with that flag. No message and receive miss each other. The endpoint
//! sets the flag before it searches the queue again; the receive is in the queue before the flags
//! are read.
//!
//! Lock order: the list of endpoints, a runtime's lock, the queue's lock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ofi_xdp_core::{Context, DeferredId, PeerAddress};

use super::receives::{MIN_MULTI_RECV, Receives, classify_recv};
use crate::getinfo::hints;
use crate::getinfo::{Info, RX_OP_FLAGS, SIZE_DEFAULT};
use crate::objects::domain::Domain;
use crate::objects::object_ops::{BindTarget, ObjectOps};
use crate::runtime::addresses::AddressTable;
use crate::runtime::receive_queue::RecvQueue;
use crate::runtime::receive_source::SharedSource;
use crate::runtime::{CompletionPolicy, OpFlags, Recv, RecvMode, RecvOptions, Runtime, Side};
use crate::sys::abi::{self, ADDR_NONE, bits};
use crate::sys::errno::Error;

/// An endpoint of the context.
#[derive(Debug)]
struct SharingEndpoint {
    runtime: Arc<Runtime>,
    policy: CompletionPolicy,
    /// Whether the endpoint's receives may name their source.
    directed: bool,
    /// Its address vector; a connected endpoint has none.
    vector: Option<Arc<AddressTable>>,
}

impl SharingEndpoint {
    fn options(&self, mode: RecvMode, flags: u64) -> RecvOptions {
        let (signal, directed) = (self.policy.signals(flags), self.directed);
        RecvOptions { mode, signal, directed, connected: None }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SharedRx {
    domain: Arc<Domain>,
    queue: Arc<RecvQueue>,
    members: RwLock<Vec<SharingEndpoint>>,
    /// `FI_DIRECTED_RECV`: receives may name their source. `None`: where an endpoint's may.
    directed: Option<bool>,
    op_flags: AtomicU64,
    min_multi_recv: AtomicUsize,
}

impl SharedRx {
    /// `fi_srx_context`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for attributes that are not offered; [`Error::NoMemory`].
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
        let mut secret = [0; 2];
        for word in &mut secret {
            *word = getrandom::u64().map_err(|_| Error::Os(libc::EIO))?;
        }
        Ok(Arc::new(Self {
            domain: Arc::clone(domain),
            queue: Arc::new(RecvQueue::new(size, secret)?),
            members: RwLock::default(),
            directed: attributes.map(|it| it.caps & bits::DIRECTED_RECV != 0),
            op_flags: AtomicU64::new(attributes.map_or(0, |it| it.op_flags)),
            min_multi_recv: AtomicUsize::new(MIN_MULTI_RECV),
        }))
    }

    /// The domain that it belongs to.
    pub(crate) const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// The source of receives for an endpoint with this vector. A connected endpoint has none: its
    /// receives name no source.
    ///
    /// # Errors
    /// [`Error::Invalid`] if its other endpoints have another vector.
    pub(crate) fn source(
        &self,
        av: Option<&Arc<AddressTable>>,
        policy: CompletionPolicy,
    ) -> Result<SharedSource, Error> {
        check_vector(&self.members(), av)?;
        Ok(SharedSource::new(Arc::clone(&self.queue), policy))
    }

    /// Offers receives that are posted from now on to `runtime`, which has the address vector `av`;
    /// `directed`: they may name their source there.
    ///
    /// # Errors
    /// As [`Self::source`]: another endpoint may have joined since that call.
    pub(crate) fn join(
        &self,
        runtime: &Arc<Runtime>,
        policy: CompletionPolicy,
        directed: bool,
        av: Option<&Arc<AddressTable>>,
    ) -> Result<(), Error> {
        let mut members = self.members_mut();
        check_vector(&members, av)?;
        let (runtime, vector) = (Arc::clone(runtime), av.cloned());
        members.push(SharingEndpoint { runtime: Arc::clone(&runtime), policy, directed, vector });
        self.name_notifiers(&members);
        drop(members);
        runtime.resume_matching();
        Ok(())
    }

    /// Reverses [`Self::join`].
    pub(crate) fn leave(&self, runtime: &Arc<Runtime>) {
        let mut members = self.members_mut();
        members.retain(|member| !Arc::ptr_eq(&member.runtime, runtime));
        self.name_notifiers(&members);
    }

    /// Sets the notifiers: endpoints with a receive queue report unreported releases.
    fn name_notifiers(&self, members: &[SharingEndpoint]) {
        let notifiers = members.iter().filter(|member| member.policy != CompletionPolicy::None);
        // Collected first: the lock of a runtime comes before that of the queue.
        let wakers = notifiers.map(|member| member.runtime.receive_waker()).collect();
        self.queue.set_notifiers(wakers);
    }

    /// The source of a receive, `None` for any.
    ///
    /// # Errors
    /// [`Error::BadState`] without endpoints: the first one that is enabled brings the vector.
    /// [`Error::Invalid`] for an address that is not in the vector.
    fn source_of(&self, recv: &Recv) -> Result<Option<PeerAddress>, Error> {
        if recv.from == ADDR_NONE || self.directed == Some(false) {
            return Ok(None);
        }
        let members = self.members();
        let directs = || members.is_empty() || members.iter().any(|member| member.directed);
        if !self.directed.unwrap_or_else(directs) {
            return Ok(None);
        }
        let occupant = vector(&members).ok_or(Error::BadState)?.occupant(recv.from);
        Ok(Some(occupant.ok_or(Error::Invalid)?.address))
    }

    fn enqueue(&self, recv: &Recv, flags: u64, min_free: Option<u64>) -> Result<(), Error> {
        let source = self.source_of(recv)?;
        let reports = flags & bits::COMPLETION != 0;
        self.queue.push(recv, source, min_free, reports)?;
        self.members().iter().for_each(|member| member.runtime.resume_matching());
        Ok(())
    }

    /// Peeks at the stored messages of its endpoints, one after the other. If none matches, the
    /// [`notifier`] completes the peek.
    fn peek(&self, recv: &Recv, mode: RecvMode, flags: u64) -> Result<(), Error> {
        let members = self.members();
        // bound: its endpoints
        for member in members.iter() {
            if member.runtime.stores(recv, member.directed)? {
                return member.runtime.receive(recv, member.options(mode, flags)).map(drop);
            }
        }
        let member = notifier(&members).ok_or(Error::BadState)?;
        member.runtime.receive(recv, member.options(mode, flags)).map(drop)
    }

    /// Receives or discards a claimed message, at the endpoint where it was claimed.
    fn take_claimed(&self, recv: &Recv, mode: RecvMode, flags: u64) -> Result<(), Error> {
        // bound: its endpoints
        for member in self.members().iter() {
            match member.runtime.receive(recv, member.options(mode, flags)) {
                Err(Error::Invalid) => {}
                taken => return taken.map(drop),
            }
        }
        Err(Error::Invalid)
    }

    fn members(&self) -> RwLockReadGuard<'_, Vec<SharingEndpoint>> {
        self.members.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn members_mut(&self) -> RwLockWriteGuard<'_, Vec<SharingEndpoint>> {
        self.members.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address vector of the endpoints, if they have one.
fn vector(members: &[SharingEndpoint]) -> Option<&Arc<AddressTable>> {
    members.iter().find_map(|member| member.vector.as_ref())
}

/// Checks that a new endpoint has the address vector of the others: directed receives name their
/// source by it.
fn check_vector(members: &[SharingEndpoint], av: Option<&Arc<AddressTable>>) -> Result<(), Error> {
    if av.zip(vector(members)).is_some_and(|(av, known)| !Arc::ptr_eq(av, known)) {
        log::warn!(
            target: "ep_ctrl",
            "endpoints of one shared receive context share one address vector"
        );
        return Err(Error::Invalid);
    }
    Ok(())
}

/// The endpoint that completes receives which met no endpoint: the first one with a receive queue;
/// if there are only counters, the first.
fn notifier(members: &[SharingEndpoint]) -> Option<&SharingEndpoint> {
    members
        .iter()
        .find(|member| member.policy != CompletionPolicy::None)
        .or_else(|| members.first())
}

impl ObjectOps for SharedRx {
    /// Does nothing: it is ready when it is opened.
    fn enable(self: &Arc<Self>) -> Result<(), Error> {
        Ok(())
    }

    fn bind(self: &Arc<Self>, _target: &BindTarget, _flags: u64) -> Result<(), Error> {
        // Queues and counters are bound to its endpoints (fi_endpoint(3)).
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

impl Receives for SharedRx {
    fn receive(&self, recv: &Recv) -> Result<Option<DeferredId>, Error> {
        let flags = match recv.flags {
            OpFlags::Default => self.op_flags.load(Ordering::Relaxed),
            OpFlags::Given(flags) | OpFlags::Deferred(flags) => flags,
            OpFlags::Inject => 0,
        };
        match classify_recv(recv, flags, &self.min_multi_recv)? {
            RecvMode::Single | RecvMode::Deferred => self.enqueue(recv, flags, None),
            RecvMode::Multi { min_free } => self.enqueue(recv, flags, Some(min_free.max(1))),
            mode @ RecvMode::Peek(_) => self.peek(recv, mode, flags),
            mode @ RecvMode::Claimed(_) => self.take_claimed(recv, mode, flags),
        }?;
        Ok(None)
    }

    // The default flags of a shared context cannot contain `FI_TRIGGER`.
    fn triggers_recv(&self, flags: OpFlags) -> bool {
        matches!(flags, OpFlags::Given(flags) if flags & bits::TRIGGER != 0)
    }

    /// Cancels a receive that has met no endpoint yet; the [`notifier`] completes it.
    fn cancel(&self, context: Context) -> Result<(), Error> {
        if context == Context::default() {
            return Ok(());
        }
        match notifier(&self.members()) {
            Some(member) => member.runtime.cancel_shared(&self.queue, context),
            None => self.queue.cancel(context, |_, _| Ok(())),
        }
    }

    fn min_multi_recv(&self) -> usize {
        self.min_multi_recv.load(Ordering::Relaxed)
    }

    fn set_min_multi_recv(&self, min_free: usize) {
        self.min_multi_recv.store(min_free, Ordering::Relaxed);
    }

    fn size(&self, _side: Side) -> Result<usize, Error> {
        Err(Error::NoOption)
    }

    fn receives_left(&self) -> Result<usize, Error> {
        Ok(self.queue.room())
    }
}
