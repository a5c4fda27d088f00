// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggered operations (`fi_trigger(3)`): data calls with `FI_TRIGGER`.
//!
//! In: a request or a receive; its context is a `struct fi_triggered_context`. Out: [`Work`], to
//! the domain's work queue. Called by the data slots. Bound: one work a call.

use std::sync::Arc;

use ofi_xdp_core::Context;

use super::argument;
use super::object::object;
use crate::endpoint::Endpoint;
use crate::objects::cntr::Cntr;
use crate::runtime::deferred::{Action, Work};
use crate::runtime::{Recv, Request, Side};
use crate::sys::abi;
use crate::sys::errno::Error;

/// Queues a call with `FI_TRIGGER` until the condition in its context holds.
///
/// # Errors
/// [`Error::Invalid`] for an object that is no endpoint, and for a counter of another domain;
/// [`Error::BadFlags`] as [`Endpoint::triggered_flags`]; [`Error::Again`] when the queue is full.
///
/// # Safety
/// `ep` is an open object; the request's context is NULL or a `struct fi_triggered_context` with an
/// open counter.
#[cold]
pub(super) unsafe fn queue_request(ep: *mut abi::fid_ep, request: Request) -> Result<(), Error> {
    // SAFETY: promised by the caller.
    let endpoint = unsafe { object::<Endpoint>(ep.cast()) }?;
    // SAFETY: promised by the caller.
    let condition = unsafe { Condition::read(request.context) }?;
    let flags = endpoint.triggered_flags(Side::Transmit, request.flags)?;
    let shared = Arc::clone(endpoint);
    condition.queue(endpoint, Action::Post(shared, Request { flags, ..request }))
}

/// Queues a receive with `FI_TRIGGER` until the condition in its context holds.
///
/// # Errors
/// As [`queue_request`].
///
/// # Safety
/// As [`queue_request`].
#[cold]
pub(super) unsafe fn queue_recv(ep: *mut abi::fid_ep, recv: Recv) -> Result<(), Error> {
    // SAFETY: promised by the caller.
    let endpoint = unsafe { object::<Endpoint>(ep.cast()) }?;
    // SAFETY: promised by the caller.
    let condition = unsafe { Condition::read(recv.context) }?;
    let flags = endpoint.triggered_recv_flags(&recv)?;
    let shared = Arc::clone(endpoint);
    condition.queue(endpoint, Action::Receive(shared, Recv { flags, ..recv }))
}

/// The condition that starts a triggered operation.
struct Condition {
    id: usize,
    counter: Arc<Cntr>,
    threshold: u64,
}

impl Condition {
    /// Reads a `struct fi_triggered_context`.
    ///
    /// # Safety
    /// The context is NULL or such a structure, with an open counter.
    unsafe fn read(context: Context) -> Result<Self, Error> {
        let id = context.0 as usize;
        let context = std::ptr::with_exposed_provenance::<abi::fi_triggered_context>(id);
        // SAFETY: promised by the caller.
        let given = unsafe { argument(context) }?;
        if given.event_type != abi::FI_TRIGGER_THRESHOLD {
            return Err(Error::NotSupported);
        }
        // SAFETY: the event type selects the member of the union.
        let condition = unsafe { given.trigger.threshold };
        // SAFETY: promised by the caller.
        let counter = Arc::clone(unsafe { object::<Cntr>(condition.cntr.cast()) }?);
        Ok(Self { id, counter, threshold: condition.threshold as u64 })
    }

    fn queue(self, endpoint: &Endpoint, action: Action) -> Result<(), Error> {
        let Self { id, counter, threshold } = self;
        if !Arc::ptr_eq(counter.domain(), endpoint.domain()) {
            return Err(Error::Invalid);
        }
        endpoint.enabled()?;
        endpoint.domain().work().push(Work { id, counter, threshold, action, completion: None })
    }
}
