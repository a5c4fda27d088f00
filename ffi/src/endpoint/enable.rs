// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_enable`: a runtime starts on the endpoint's port.
//!
//! In: the bindings, which must be complete. Out: a [`Runtime`], to the bound queues and counters,
//! the domain's region table and the progress thread. Called once. Bound: the capacities that the
//! endpoint was opened with; all memory is allocated here.

use std::sync::{Arc, Mutex};

use ofi_xdp_core::Config;

use super::bind::{Bindings, BoundCntr, BoundCq, policy};
use super::{Enabled, Endpoint, PEERS};
use crate::runtime::addresses::AddressTable;
use crate::runtime::peer_link::Observer;
use crate::runtime::{Attachment, Runtime, RuntimeConfig, Side, Wakers};
use crate::sys::abi::bits;
use crate::sys::errno::Error;
use crate::sys::limits::REGIONS_MAX;
use crate::sys::{param, reserve};

/// Largest peer table, whatever the address vector was opened for.
const PEERS_MAX: u32 = 1 << 20;
/// Slots for the one peer of a connected endpoint, and for packets to a former one.
const PEERS_CONNECTED: u32 = 4;

impl Endpoint {
    /// Starts the runtime, and adds it to the bound objects.
    ///
    /// # Errors
    /// [`Error::BadState`] without a shared context that was asked for, and after an attempt that
    /// failed behind [`Runtime::start`]; [`Error::NoAddressVector`]; [`Error::NoCompletionQueue`];
    /// [`Error::NoMemory`]; as [`Runtime::start`].
    pub(super) fn start(&self, bindings: &mut Bindings) -> Result<(), Error> {
        let before = reserve::refusals();
        let av = self.complete(bindings)?;
        let receives = policy(bindings.receive.as_ref());
        let thread = self.domain.thread()?;
        let shared_rx = bindings.shared_rx.clone();
        let vector = self.connection.is_none().then_some(&av);
        let shared = shared_rx.as_ref().map(|shared| shared.source(vector, receives));
        let shared = shared.transpose()?;
        let waker =
            |bound: &Option<BoundCq>| bound.as_ref().and_then(|it| it.queue.waker().cloned());
        let endpoint = Attachment {
            wakers: Wakers {
                transmit: waker(&bindings.transmit),
                receive: waker(&bindings.receive),
                counters: bindings.counter_wakers(),
                last_counters: Mutex::default(),
                thread: Arc::clone(thread.waker()),
            },
            unbound: bindings.unbound(),
            source_err: self.caps & bits::SOURCE_ERR != 0,
            observer: self.connection.clone().map(|it| -> Arc<dyn Observer> { it }),
        };
        let config = self.config(&av)?;
        let port = &mut bindings.port;
        let runtime = Runtime::start(RuntimeConfig { config, port, av, endpoint, shared })?;
        let joined = announce(&runtime, bindings)
            .and_then(|()| self.domain.registry().join(&runtime))
            .and_then(|()| reserve::check(before))
            .and_then(|()| thread.add(&runtime));
        if let Err(error) = joined {
            self.withdraw(&runtime, bindings);
            return Err(error);
        }
        if let Some(connection) = &self.connection {
            connection.runs_on(&runtime);
        }
        if let Some(shared) = &shared_rx {
            shared.join(&runtime, receives, self.caps & bits::DIRECTED_RECV != 0);
        }
        let transmits = policy(bindings.transmit.as_ref());
        let enabled = Enabled { runtime, transmits, receives, shared_rx };
        self.enabled.set(enabled).map_err(|_| Error::BadState)
    }

    /// Removes a runtime from the bound objects that it was added to.
    fn withdraw(&self, runtime: &Arc<Runtime>, bindings: &Bindings) {
        self.domain.registry().leave(runtime);
        for BoundCntr { counter, .. } in &bindings.counters {
            counter.remove_endpoint(runtime);
        }
        for bound in [&bindings.transmit, &bindings.receive].into_iter().flatten() {
            bound.queue.remove(runtime);
        }
        runtime.close();
    }

    /// Checks that all objects are bound that the endpoint's capabilities need (`fi_endpoint(3)`,
    /// `fi_enable`); returns the address vector.
    fn complete(&self, bindings: &Bindings) -> Result<Arc<AddressTable>, Error> {
        let Bindings { av, transmit, receive, shared_rx, shared_tx, .. } = bindings;
        let unshared =
            (self.shares_rx && shared_rx.is_none()) || (self.shares_tx && shared_tx.is_none());
        if unshared {
            log::warn!(target: "ep_ctrl", "no shared context is bound (FI_SHARED_CONTEXT)");
            return Err(Error::BadState);
        }
        let table = match (&self.connection, av) {
            (Some(connection), _) => connection.table(),
            (None, Some(av)) => av.table(),
            (None, None) => return Err(Error::NoAddressVector),
        };
        let missing = |queue: &Option<BoundCq>, kinds: u64| {
            self.caps & kinds != 0 && queue.is_none() && !bindings.counts(kinds)
        };
        if missing(transmit, bits::SEND | bits::READ | bits::WRITE) || missing(receive, bits::RECV)
        {
            return Err(Error::NoCompletionQueue);
        }
        Ok(Arc::clone(table))
    }

    fn config(&self, av: &AddressTable) -> Result<Config, Error> {
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
            serve_one_peer(&mut config);
        }
        Ok(config)
    }
}

/// The capacities for the one peer of a connected endpoint.
const fn serve_one_peer(config: &mut Config) {
    config.named_peers_only = true;
    config.peers = PEERS_CONNECTED;
    config.connections = PEERS_CONNECTED;
    config.assemblies = 256;
    config.responders = 256;
    config.unexpected = [1024, 512, 128, 32];
}

/// Adds a new runtime to the bound queues and counters. A queue of both sides reads receives first.
fn announce(runtime: &Arc<Runtime>, bindings: &Bindings) -> Result<(), Error> {
    let Bindings { transmit, receive, counters, .. } = bindings;
    match (transmit, receive) {
        (Some(tx), Some(rx)) if Arc::ptr_eq(&tx.queue, &rx.queue) => {
            tx.queue.add(runtime, &[Side::Receive, Side::Transmit])?;
        }
        _ => {
            for (bound, side) in [(transmit, Side::Transmit), (receive, Side::Receive)] {
                if let Some(bound) = bound {
                    bound.queue.add(runtime, &[side])?;
                }
            }
        }
    }
    counters
        .iter()
        .try_for_each(|BoundCntr { counter, flags }| counter.add_endpoint(runtime, *flags))
}
