// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is bound to an endpoint (`fi_ep_bind`).
//!
//! In: objects of the endpoint's domain, one at a time, before `fi_enable`. Out: all of them, to
//! `enable`; afterwards they are kept so that they stay busy. Bound: one of each kind, and a
//! counter for each kind of operation.

use std::sync::Arc;

use ofi_xdp_datapath::HybridPort;

use super::Endpoint;
use crate::abi::bits;
use crate::av::Av;
use crate::cntr::{self, Cntr};
use crate::cq::Cq;
use crate::eq::Eq;
use crate::errno::Error;
use crate::ops::{Bound, Side};
use crate::srx::SharedRx;
use crate::stx::SharedTx;
use crate::waker::Waker;

/// A queue, as bound to one side.
#[derive(Clone, Debug)]
pub(super) struct BoundCq {
    pub(super) queue: Arc<Cq>,
    /// Only operations that ask for it make completions (`FI_SELECTIVE_COMPLETION`).
    pub(super) selective: bool,
}

/// A counter, and what it counts.
#[derive(Clone, Debug)]
pub(super) struct BoundCntr {
    pub(super) counter: Arc<Cntr>,
    pub(super) flags: u64,
}

/// What is bound, until the endpoint is active; then what keeps those objects busy.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    /// The endpoint's own port, until its engine has it.
    pub(super) port: Option<HybridPort>,
    pub(super) av: Option<Arc<Av>>,
    eq: Option<Arc<Eq>>,
    pub(super) transmit: Option<BoundCq>,
    pub(super) receive: Option<BoundCq>,
    pub(super) counters: Vec<BoundCntr>,
    pub(super) shared_rx: Option<Arc<SharedRx>>,
    pub(super) shared_tx: Option<Arc<SharedTx>>,
}

impl Bindings {
    /// Of a new endpoint, with its own port.
    pub(super) fn of(port: HybridPort) -> Self {
        Self { port: Some(port), ..Self::default() }
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

    /// Sides that have no queue: those whose operations are only counted, or not asked for at all.
    pub(super) fn unread(&self) -> Vec<Side> {
        let sides = [(&self.transmit, Side::Transmit), (&self.receive, Side::Receive)];
        sides.into_iter().filter(|(queue, _)| queue.is_none()).map(|(_, side)| side).collect()
    }

    /// Wakers of the counters that are told of this endpoint's progress. Those of regions may be
    /// bound later, and look by themselves (`cntr`).
    pub(super) fn counter_wakers(&self) -> Vec<Arc<Waker>> {
        self.counters.iter().filter_map(|bound| bound.counter.waker().cloned()).collect()
    }
}

impl Endpoint {
    /// Binds an object.
    ///
    /// # Errors
    /// [`Error::BadFlags`] for flags that this kind of object has not; [`Error::Invalid`] for one
    /// of another domain, for a second one of its kind, and for what binds to no endpoint.
    pub(super) fn bind_object(&self, other: Bound, flags: u64) -> Result<(), Error> {
        let mut bindings = self.bindings();
        match other {
            Bound::Cq(queue) if Arc::ptr_eq(queue.domain(), &self.domain) => {
                bindings.bind_cq(&queue, flags)
            }
            Bound::Av(av) if Arc::ptr_eq(av.domain(), &self.domain) => put(&mut bindings.av, av),
            Bound::Cntr(counter) if Arc::ptr_eq(counter.domain(), &self.domain) => {
                bindings.bind_cntr(counter, flags)
            }
            Bound::SharedRx(shared) if Arc::ptr_eq(shared.domain(), &self.domain) => {
                put(&mut bindings.shared_rx, shared)
            }
            Bound::SharedTx(shared) if Arc::ptr_eq(shared.domain(), &self.domain) => {
                if !self.tx.is_none_or(|tx| shared.admits(&tx)) {
                    log::warn!(target: "ep_ctrl", "beyond the shared context's attributes");
                    return Err(Error::Invalid);
                }
                put(&mut bindings.shared_tx, shared)
            }
            Bound::Eq(eq) => {
                bindings.eq = Some(eq);
                Ok(())
            }
            _ => Err(Error::Invalid),
        }
    }
}

/// Binds what may be bound once.
fn put<T>(place: &mut Option<T>, object: T) -> Result<(), Error> {
    if place.is_some() {
        return Err(Error::Invalid);
    }
    *place = Some(object);
    Ok(())
}
