// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects that are bound to an endpoint (`fi_ep_bind`).
//!
//! In: objects of the endpoint's domain, one a call, before `fi_enable`; counters also later. Out:
//! all of them, to `enable`. Afterwards the references keep them busy. Bound: one object of each
//! kind, and one counter for each kind of operation.

use std::net::SocketAddr;
use std::sync::Arc;

use ofi_xdp_datapath::HybridPort;

use crate::endpoint::shared_rx::SharedRx;
use crate::endpoint::shared_tx::SharedTx;
use crate::objects::av::Av;
use crate::objects::cntr::{self, Cntr};
use crate::objects::cq::Cq;
use crate::objects::domain::Domain;
use crate::objects::eq::Eq;
use crate::objects::object_ops::BindTarget;
use crate::runtime::{CompletionPolicy, Side};
use crate::sys::abi::{self, bits};
use crate::sys::errno::Error;

/// A completion queue that is bound to a side.
#[derive(Clone, Debug)]
pub(super) struct BoundCq {
    pub(super) queue: Arc<Cq>,
    /// Only operations with `FI_COMPLETION` write completions (`FI_SELECTIVE_COMPLETION`).
    pub(super) selective: bool,
}

/// A counter, and the kinds of operations that it counts.
#[derive(Clone, Debug)]
pub(super) struct BoundCntr {
    pub(super) counter: Arc<Cntr>,
    pub(super) flags: u64,
}

/// The queues that an endpoint needs to be enabled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NeededQueues {
    /// One, or a counter, for each direction of its capabilities: `fi_enable`.
    Required,
    /// Those that are bound: `fi_connect` and `fi_accept`, as of libfabric's `tcp`. MXL's endpoints
    /// have the capabilities of both directions and a queue for one.
    AsBound,
}

/// The bound objects. After `fi_enable` the references keep them busy.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    /// The port, until the runtime takes it. Boxed, because most endpoints have none by themselves.
    pub(super) port: Option<Box<HybridPort>>,
    /// The address that the application has asked for before `fi_enable`: it stays.
    pub(super) name: Option<SocketAddr>,
    pub(super) av: Option<Arc<Av>>,
    pub(super) eq: Option<Arc<Eq>>,
    pub(super) transmit: Option<BoundCq>,
    pub(super) receive: Option<BoundCq>,
    pub(super) counters: Vec<BoundCntr>,
    pub(super) shared_rx: Option<Arc<SharedRx>>,
    pub(super) shared_tx: Option<Arc<SharedTx>>,
}

impl Bindings {
    /// Binds an object to an endpoint of `domain`. A shared transmit context must admit the
    /// attributes `tx`.
    ///
    /// # Errors
    /// [`Error::BadFlags`] for flags that the kind of object does not have. [`Error::Invalid`] for
    /// an object of another domain or fabric, a second one of its kind, or a kind that does not
    /// bind to endpoints.
    pub(super) fn bind(
        &mut self,
        domain: &Arc<Domain>,
        tx: Option<&abi::fi_tx_attr>,
        target: &BindTarget,
        flags: u64,
    ) -> Result<(), Error> {
        let ours = |other: &Arc<Domain>| Arc::ptr_eq(other, domain);
        if let Some(queue) = target.get::<Cq>().filter(|queue| ours(queue.domain())) {
            return self.bind_cq(&queue, flags);
        }
        if let Some(av) = target.get::<Av>().filter(|av| ours(av.domain())) {
            return put(&mut self.av, av);
        }
        if let Some(counter) = target.get::<Cntr>().filter(|counter| ours(counter.domain())) {
            return self.bind_cntr(counter, flags);
        }
        if let Some(shared) = target.get::<SharedRx>().filter(|shared| ours(shared.domain())) {
            return put(&mut self.shared_rx, shared);
        }
        if let Some(shared) = target.get::<SharedTx>().filter(|shared| ours(shared.domain())) {
            if !tx.is_none_or(|tx| shared.admits(tx)) {
                log::warn!(target: "ep_ctrl", "beyond the shared context's attributes");
                return Err(Error::Invalid);
            }
            return put(&mut self.shared_tx, shared);
        }
        let queue = target.get::<Eq>().ok_or(Error::Invalid)?;
        if flags != 0 {
            return Err(Error::BadFlags);
        }
        if !Arc::ptr_eq(queue.fabric(), domain.fabric()) {
            return Err(Error::Invalid);
        }
        put(&mut self.eq, queue)
    }

    /// A queue for each side at most (`fi_endpoint(3)`).
    fn bind_cq(&mut self, queue: &Arc<Cq>, flags: u64) -> Result<(), Error> {
        if flags & !(bits::SEND | bits::RECV | bits::SELECTIVE_COMPLETION) != 0 {
            return Err(Error::BadFlags);
        }
        if flags & (bits::SEND | bits::RECV) == 0 {
            return Err(Error::Invalid);
        }
        let taken = (flags & bits::SEND != 0 && self.transmit.is_some())
            || (flags & bits::RECV != 0 && self.receive.is_some());
        if taken {
            return Err(Error::Invalid);
        }
        let selective = flags & bits::SELECTIVE_COMPLETION != 0;
        let bound = BoundCq { queue: Arc::clone(queue), selective };
        if flags & bits::SEND != 0 {
            self.transmit = Some(bound.clone());
        }
        if flags & bits::RECV != 0 {
            self.receive = Some(bound);
        }
        Ok(())
    }

    /// Each kind of operation has one counter at most (`fi_endpoint(3)`).
    fn bind_cntr(&mut self, counter: Arc<Cntr>, flags: u64) -> Result<(), Error> {
        if flags & !cntr::ENDPOINT_FLAGS != 0 {
            return Err(Error::BadFlags);
        }
        if flags == 0 || self.counts(flags) {
            return Err(Error::Invalid);
        }
        self.counters.push(BoundCntr { counter, flags });
        Ok(())
    }

    /// Whether a counter is bound for one of these kinds of operations.
    pub(super) fn counts(&self, kinds: u64) -> bool {
        self.counters.iter().any(|bound| bound.flags & kinds != 0)
    }

    /// Sides without a queue: their operations are only counted, or the capability is absent.
    pub(super) fn unbound(&self) -> Vec<Side> {
        let sides = [(&self.transmit, Side::Transmit), (&self.receive, Side::Receive)];
        sides.into_iter().filter(|(queue, _)| queue.is_none()).map(|(_, side)| side).collect()
    }
}

/// The completion policy of a side.
pub(super) fn policy(queue: Option<&BoundCq>) -> CompletionPolicy {
    match queue {
        None => CompletionPolicy::None,
        Some(BoundCq { selective: true, .. }) => CompletionPolicy::Selective,
        Some(_) => CompletionPolicy::All,
    }
}

/// Binds an object of a kind that can be bound once.
fn put<T>(slot: &mut Option<T>, object: T) -> Result<(), Error> {
    if slot.is_some() {
        return Err(Error::Invalid);
    }
    *slot = Some(object);
    Ok(())
}
