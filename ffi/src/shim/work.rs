// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_trigger(3)`: `struct fi_deferred_work`, and contexts of operations with `FI_TRIGGER`.

use std::ffi::c_void;
use std::sync::Arc;

use ofi_xdp_core::{AtomicForm, Context};

use super::{argument, atomic, done, msg, rma, tagged};
use crate::abi::{self, bits};
use crate::cntr::Cntr;
use crate::domain::Domain;
use crate::ep::Endpoint;
use crate::errno::Error;
use crate::fid::{self, Object};
use crate::ops::{FidOps, OpFlags, Side};
use crate::work::{Op, Work};

/// `FI_QUEUE_WORK`, `FI_CANCEL_WORK`, `FI_FLUSH_WORK` on a domain.
///
/// # Safety
/// `work` is NULL or what the command takes: the structures that it names are initialised, and its
/// objects open.
pub(super) unsafe fn control(
    domain: &Arc<Domain>,
    command: u32,
    work: *mut abi::fi_deferred_work,
) -> Result<(), Error> {
    let id = work.expose_provenance();
    match command {
        abi::FI_QUEUE_WORK => {
            // SAFETY: promised by the caller.
            let given = unsafe { argument(work) }?;
            // SAFETY: as above.
            let queued = unsafe { deferred(given, id) }?;
            domain.queue_work(queued)
        }
        abi::FI_CANCEL_WORK if work.is_null() => Err(Error::Invalid),
        abi::FI_CANCEL_WORK => domain.work().cancel(id),
        // All of it, or what waits for the counter that is named.
        _ => {
            // SAFETY: promised by the caller.
            let counter = match unsafe { work.as_ref() }.map(|work| work.triggering_cntr) {
                Some(counter) if !counter.is_null() => {
                    // SAFETY: as above.
                    Some(unsafe { fid::object::<Cntr>(counter.cast()) }?)
                }
                _ => None,
            };
            domain.work().flush(counter);
            Ok(())
        }
    }
}

/// # Safety
/// As [`control`].
unsafe fn deferred(work: &abi::fi_deferred_work, id: usize) -> Result<Work, Error> {
    // SAFETY: promised by the caller.
    let op = unsafe { operation(work) }?;
    let completion = if work.completion_cntr.is_null() {
        None
    } else if op.endpoint().is_none() {
        // Only the counter that it names is changed (fi_trigger(3)).
        return Err(Error::Invalid);
    } else {
        // SAFETY: promised by the caller.
        Some(Arc::clone(unsafe { fid::object::<Cntr>(work.completion_cntr.cast()) }?))
    };
    // SAFETY: promised by the caller.
    let counter = Arc::clone(unsafe { fid::object::<Cntr>(work.triggering_cntr.cast()) }?);
    Ok(Work { id, counter, threshold: work.threshold, op, completion })
}

/// # Safety
/// As [`control`]: `op` is the member of the union that `op_type` says.
unsafe fn operation(work: &abi::fi_deferred_work) -> Result<Op, Error> {
    // SAFETY: all members of the union are pointers; which one it is, is looked at by type below.
    let any = unsafe { work.op.msg };
    if any.is_null() {
        return Err(Error::Invalid);
    }
    match work.op_type {
        abi::FI_OP_SEND | abi::FI_OP_RECV => {
            // SAFETY: promised by the caller.
            let op = unsafe { argument(any) }?;
            let flags = OpFlags::Deferred(op.flags);
            // SAFETY: promised by the caller.
            let endpoint = Arc::clone(unsafe { fid::object::<Endpoint>(op.ep.cast()) }?);
            if work.op_type == abi::FI_OP_SEND {
                // SAFETY: promised by the caller.
                return Ok(Op::Send(endpoint, unsafe { msg::sending(&raw const op.msg, flags) }?));
            }
            // SAFETY: promised by the caller.
            Ok(Op::Recv(endpoint, unsafe { msg::receiving(&raw const op.msg, flags) }?))
        }
        abi::FI_OP_TSEND | abi::FI_OP_TRECV => {
            // SAFETY: promised by the caller.
            let op = unsafe { argument(any.cast::<abi::fi_op_tagged>()) }?;
            let flags = OpFlags::Deferred(op.flags);
            // SAFETY: promised by the caller.
            let endpoint = Arc::clone(unsafe { fid::object::<Endpoint>(op.ep.cast()) }?);
            if work.op_type == abi::FI_OP_TSEND {
                // SAFETY: promised by the caller.
                let send = unsafe { tagged::sending(&raw const op.msg, flags) }?;
                return Ok(Op::Send(endpoint, send));
            }
            // SAFETY: promised by the caller.
            Ok(Op::Recv(endpoint, unsafe { tagged::receiving(&raw const op.msg, flags) }?))
        }
        abi::FI_OP_READ | abi::FI_OP_WRITE => {
            // SAFETY: promised by the caller.
            let op = unsafe { argument(any.cast::<abi::fi_op_rma>()) }?;
            // SAFETY: promised by the caller.
            let endpoint = Arc::clone(unsafe { fid::object::<Endpoint>(op.ep.cast()) }?);
            // SAFETY: promised by the caller.
            let rma = unsafe { rma::message(&raw const op.msg, OpFlags::Deferred(op.flags)) }?;
            let writes = work.op_type == abi::FI_OP_WRITE;
            Ok(if writes { Op::Write(endpoint, rma) } else { Op::Read(endpoint, rma) })
        }
        // SAFETY: promised by the caller.
        _ => unsafe { rare_operation(work.op_type, any.cast()) },
    }
}

/// Atomic operations and counters.
///
/// # Safety
/// As [`operation`]; `op` is not NULL.
unsafe fn rare_operation(kind: abi::fi_op_type, op: *const c_void) -> Result<Op, Error> {
    const NONE: (*const abi::fi_ioc, usize) = (std::ptr::null(), 0);
    let (ep, message, flags, form, compare, result) = match kind {
        abi::FI_OP_ATOMIC => {
            // SAFETY: promised by the caller.
            let op = unsafe { argument(op.cast::<abi::fi_op_atomic>()) }?;
            (op.ep, &op.msg, op.flags, AtomicForm::Base, NONE, NONE)
        }
        abi::FI_OP_FETCH_ATOMIC => {
            // SAFETY: promised by the caller.
            let op = unsafe { argument(op.cast::<abi::fi_op_fetch_atomic>()) }?;
            let result = (op.fetch.msg_iov.cast_const(), op.fetch.iov_count);
            (op.ep, &op.msg, op.flags, AtomicForm::Fetch, NONE, result)
        }
        abi::FI_OP_COMPARE_ATOMIC => {
            // SAFETY: promised by the caller.
            let op = unsafe { argument(op.cast::<abi::fi_op_compare_atomic>()) }?;
            let result = (op.fetch.msg_iov.cast_const(), op.fetch.iov_count);
            let compare = (op.compare.msg_iov, op.compare.iov_count);
            (op.ep, &op.msg, op.flags, AtomicForm::Compare, compare, result)
        }
        abi::FI_OP_CNTR_SET | abi::FI_OP_CNTR_ADD => {
            // SAFETY: promised by the caller.
            let op = unsafe { argument(op.cast::<abi::fi_op_cntr>()) }?;
            // SAFETY: promised by the caller.
            let counter = Arc::clone(unsafe { fid::object::<Cntr>(op.cntr.cast()) }?);
            let sets = kind == abi::FI_OP_CNTR_SET;
            return Ok(if sets { Op::Set(counter, op.value) } else { Op::Add(counter, op.value) });
        }
        _ => return Err(Error::NotSupported),
    };
    // SAFETY: promised by the caller.
    let endpoint = Arc::clone(unsafe { fid::object::<Endpoint>(ep.cast()) }?);
    let message = (std::ptr::from_ref(message), OpFlags::Deferred(flags));
    // SAFETY: promised by the caller.
    Ok(Op::Atomic(endpoint, unsafe { atomic::message(form, message, compare, result) }?))
}

/// Queues what `op` makes of its endpoint until the condition in `context` holds.
///
/// # Safety
/// `ep` is NULL or an open object; `context` is NULL or a `struct fi_triggered_context`, whose
/// counter is open.
unsafe fn trigger(
    ep: *mut abi::fid_ep,
    context: *mut c_void,
    op: impl FnOnce(Arc<Endpoint>) -> Result<Op, Error>,
) -> Result<(), Error> {
    // SAFETY: promised by the caller.
    let endpoint = unsafe { fid::object::<Endpoint>(ep.cast()) }?;
    // SAFETY: promised by the caller.
    let given = unsafe { argument(context.cast::<abi::fi_triggered_context>()) }?;
    if given.event_type != abi::FI_TRIGGER_THRESHOLD {
        return Err(Error::NotSupported);
    }
    // SAFETY: the event type says which member of the union it is.
    let condition = unsafe { given.trigger.threshold };
    // SAFETY: promised by the caller.
    let counter = Arc::clone(unsafe { fid::object::<Cntr>(condition.cntr.cast()) }?);
    endpoint.trigger(Work {
        id: context.expose_provenance(),
        counter,
        threshold: condition.threshold as u64,
        op: op(Arc::clone(endpoint))?,
        completion: None,
    })
}

/// Posts what a call asks for by `post`; or, where `FI_TRIGGER` is among the call's flags, or among
/// the endpoint's default flags of a call that leaves them to it, queues what `work` makes of it: a
/// triggered operation. `given` says a request's context and flags.
///
/// # Safety
/// `ep` is NULL or an open object; with `FI_TRIGGER`, the context is a `struct
/// fi_triggered_context`, whose counter is open.
#[inline]
pub(super) unsafe fn post_or_trigger<T: FidOps + Object, R>(
    ep: *mut abi::fid_ep,
    (side, request): (Side, Result<R, Error>),
    given: impl FnOnce(&R) -> (Context, OpFlags),
    post: impl FnOnce(&T, R) -> Result<(), Error>,
    work: impl FnOnce(Arc<Endpoint>, OpFlags, R) -> Op,
) -> isize {
    // SAFETY: promised by the caller.
    let endpoint = unsafe { fid::object::<T>(ep.cast::<abi::fid>()) };
    let (endpoint, request) = match endpoint.and_then(|endpoint| Ok((endpoint, request?))) {
        Ok(asked) => asked,
        Err(error) => return done(Err(error)),
    };
    let (context, flags) = given(&request);
    let flags = match flags {
        OpFlags::Given(flags) if flags & bits::TRIGGER != 0 => Some(flags),
        OpFlags::Default if endpoint.triggers(side) => None,
        _ => return done(post(endpoint, request)),
    };
    let context = std::ptr::with_exposed_provenance_mut(context.0 as usize);
    let op = |endpoint: Arc<Endpoint>| {
        // The other flags hold for the operation when it begins, default ones as they are now.
        let flags = flags.unwrap_or_else(|| endpoint.flags(side, OpFlags::Default));
        if flags & bits::INJECT != 0 {
            // The buffer is the application's again when this returns, and is read later.
            return Err(Error::BadFlags);
        }
        Ok(work(endpoint, OpFlags::Given(flags & !bits::TRIGGER), request))
    };
    // SAFETY: promised by the caller.
    done(unsafe { trigger(ep, context, op) })
}
