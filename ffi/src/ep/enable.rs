// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_enable`: what is bound becomes an active endpoint.
//!
//! In: the bindings, which must be complete. Out: an engine on the endpoint's port, known to its
//! queues, its counters, the domain's regions and the domain's thread. Called once. Bound: the
//! capacities that the endpoint was opened with; all memory that it will ever need is allocated
//! here.

use std::sync::{Arc, Mutex};

use ofi_xdp_core::Config;

use super::bound::{Bindings, BoundCntr, BoundCq};
use super::{Endpoint, PEERS, Reports, Running};
use crate::abi::bits;
use crate::av::Av;
use crate::errno::Error;
use crate::ops::Side;
use crate::param;
use crate::progress::{Activation, ActiveEndpoint, Wakers};
use crate::registry::REGIONS_MAX;

/// Most peers that an endpoint can know, whatever its address vector was opened for.
const PEERS_MAX: u32 = 1 << 20;

impl Endpoint {
    /// Starts the engine, and makes it known to what is bound.
    ///
    /// # Errors
    /// [`Error::BadState`] without a shared context that was asked for, and after an attempt that
    /// failed; [`Error::NoAddressVector`]; [`Error::NoCompletionQueue`]; what
    /// [`ActiveEndpoint::start`] says.
    pub(super) fn start(&self, bindings: &mut Bindings) -> Result<(), Error> {
        let av = self.complete(bindings)?;
        let receives = Reports::of(bindings.receive.as_ref());
        let thread = self.domain.thread()?;
        let shared_rx = bindings.shared_rx.clone();
        let shared = shared_rx.as_ref().map(|shared| shared.source(&av, receives)).transpose()?;
        let waker =
            |bound: &Option<BoundCq>| bound.as_ref().and_then(|it| it.queue.waker().cloned());
        let active = ActiveEndpoint::start(Activation {
            config: self.config(&av),
            port: bindings.port.take().ok_or(Error::BadState)?,
            av,
            wakers: Wakers {
                transmit: waker(&bindings.transmit),
                receive: waker(&bindings.receive),
                counters: bindings.counter_wakers(),
                told: Mutex::default(),
                thread: Arc::clone(thread.waker()),
            },
            directed: self.caps & bits::DIRECTED_RECV != 0,
            source_err: self.caps & bits::SOURCE_ERR != 0,
            unread: bindings.unread(),
            shared,
        })?;
        announce(&active, bindings)?;
        self.domain.registry().join(&active)?;
        thread.add(&active);
        if let Some(shared) = &shared_rx {
            shared.join(&active, receives);
        }
        let transmits = Reports::of(bindings.transmit.as_ref());
        let running = Running { active, transmits, receives, shared_rx };
        self.running.set(running).map_err(|_| Error::BadState)
    }

    /// Whether everything is bound that the endpoint's capabilities take (`fi_endpoint(3)`,
    /// `fi_enable`); its address vector.
    fn complete(&self, bindings: &Bindings) -> Result<Arc<Av>, Error> {
        let Bindings { av, transmit, receive, shared_rx, shared_tx, .. } = bindings;
        let unshared =
            (self.shares_rx && shared_rx.is_none()) || (self.shares_tx && shared_tx.is_none());
        if unshared {
            log::warn!(target: "ep_ctrl", "no shared context is bound (FI_SHARED_CONTEXT)");
            return Err(Error::BadState);
        }
        let av = av.as_ref().ok_or(Error::NoAddressVector)?;
        let missing = |queue: &Option<BoundCq>, kinds: u64| {
            self.caps & kinds != 0 && queue.is_none() && !bindings.counts(kinds)
        };
        if missing(transmit, bits::SEND | bits::READ | bits::WRITE) || missing(receive, bits::RECV)
        {
            return Err(Error::NoCompletionQueue);
        }
        Ok(Arc::clone(av))
    }

    fn config(&self, av: &Av) -> Config {
        let mut config = Config::new(ofi_xdp_checksum::crc32c);
        // Peers that speak first take a place too.
        let expected = u32::try_from(av.expected().saturating_mul(2)).unwrap_or(u32::MAX);
        config.peers = expected.clamp(PEERS, PEERS_MAX);
        config.sends = self.sends;
        config.recvs = self.recvs;
        config.parts = self.recvs;
        config.regions = REGIONS_MAX;
        config.order = self.order;
        config.rma_events = self.caps & bits::RMA_EVENT != 0;
        config.death = param::values().peer_timeout;
        config
    }
}

/// Makes a new endpoint known to the queues and counters that are bound. A queue that has both
/// sides is read for receives first.
fn announce(active: &Arc<ActiveEndpoint>, bindings: &Bindings) -> Result<(), Error> {
    let Bindings { transmit, receive, counters, .. } = bindings;
    match (transmit, receive) {
        (Some(tx), Some(rx)) if Arc::ptr_eq(&tx.queue, &rx.queue) => {
            tx.queue.add(active, &[Side::Receive, Side::Transmit])?;
        }
        _ => {
            for (bound, side) in [(transmit, Side::Transmit), (receive, Side::Receive)] {
                if let Some(bound) = bound {
                    bound.queue.add(active, &[side])?;
                }
            }
        }
    }
    counters
        .iter()
        .try_for_each(|BoundCntr { counter, flags }| counter.add_endpoint(active, *flags))
}
