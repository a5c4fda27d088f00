// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deferred work (`fi_trigger(3)`): the commands of `fi_control` on a domain, and the union in
//! `struct fi_deferred_work`.
//!
//! In: the argument of a command. Out: [`Work`], to the domain's work queue. Called by the control
//! slot of a domain. Bound: one work a call.

use std::ffi::c_void;
use std::sync::Arc;

use ofi_xdp_core::AtomicForm;

use super::argument;
use super::atomic::{self, IocVector};
use super::object::object;
use super::{msg, rma, tagged};
use crate::endpoint::Endpoint;
use crate::objects::cntr::Cntr;
use crate::objects::domain::Domain;
use crate::runtime::OpFlags;
use crate::runtime::deferred::{Action, Work};
use crate::sys::abi;
use crate::sys::errno::Error;

/// `FI_QUEUE_WORK`, `FI_CANCEL_WORK`, `FI_FLUSH_WORK` on a domain.
///
/// # Safety
/// `work` is NULL or the argument of the command: the structures that it names are initialised, and
/// its objects open.
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
            // SAFETY: promised by the caller.
            domain.work().push(unsafe { deferred(domain, given, id) }?)
        }
        abi::FI_CANCEL_WORK if work.is_null() => Err(Error::Invalid),
        abi::FI_CANCEL_WORK => domain.work().cancel(id),
        // All works, or those that wait for the counter that is named.
        _ => {
            // SAFETY: promised by the caller.
            match unsafe { work.as_ref() }.map(|work| work.triggering_cntr) {
                Some(counter) if !counter.is_null() => {
                    // SAFETY: promised by the caller.
                    let counter = unsafe { object::<Cntr>(counter.cast()) }?;
                    domain.work().flush(Some(&**counter));
                }
                _ => domain.work().flush(None),
            }
            Ok(())
        }
    }
}

/// # Safety
/// As [`control`].
unsafe fn deferred(
    domain: &Arc<Domain>,
    work: &abi::fi_deferred_work,
    id: usize,
) -> Result<Work, Error> {
    // SAFETY: promised by the caller.
    let action = unsafe { action(domain, work) }?;
    let completion = match action {
        _ if work.completion_cntr.is_null() => None,
        // Only the counter that it names is changed (fi_trigger(3)).
        Action::Set(..) | Action::Add(..) => return Err(Error::Invalid),
        // SAFETY: promised by the caller.
        _ => Some(unsafe { counter(domain, work.completion_cntr) }?),
    };
    // SAFETY: promised by the caller.
    let trigger = unsafe { counter(domain, work.triggering_cntr) }?;
    let completion = completion.map(|counter| counter as _);
    Ok(Work { id, counter: trigger, threshold: work.threshold, action, completion })
}

/// A counter of the domain.
///
/// # Safety
/// `counter` is NULL or an open object.
unsafe fn counter(domain: &Arc<Domain>, counter: *mut abi::fid_cntr) -> Result<Arc<Cntr>, Error> {
    // SAFETY: promised by the caller.
    let counter = unsafe { object::<Cntr>(counter.cast()) }?;
    if Arc::ptr_eq(counter.domain(), domain) {
        Ok(Arc::clone(counter))
    } else {
        Err(Error::Invalid)
    }
}

/// An enabled endpoint of the domain.
///
/// # Safety
/// `ep` is NULL or an open object.
unsafe fn endpoint(domain: &Arc<Domain>, ep: *mut abi::fid_ep) -> Result<Arc<Endpoint>, Error> {
    // SAFETY: promised by the caller.
    let endpoint = unsafe { object::<Endpoint>(ep.cast()) }?;
    if !Arc::ptr_eq(endpoint.domain(), domain) {
        return Err(Error::Invalid);
    }
    endpoint.enabled()?;
    Ok(Arc::clone(endpoint))
}

/// The action of deferred work.
///
/// # Safety As [`control`]: `op` is the member of the union that `op_type` selects.
unsafe fn action(domain: &Arc<Domain>, work: &abi::fi_deferred_work) -> Result<Action, Error> {
    // SAFETY: all members of the union are pointers; `op_type` selects the type below.
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
            let endpoint = unsafe { endpoint(domain, op.ep) }?;
            if work.op_type == abi::FI_OP_SEND {
                // SAFETY: promised by the caller.
                return Ok(Action::Post(endpoint, unsafe { msg::send_message(&op.msg, flags) }?));
            }
            // SAFETY: promised by the caller.
            Ok(Action::Receive(endpoint, unsafe { msg::recv_message(&op.msg, flags) }?))
        }
        abi::FI_OP_TSEND | abi::FI_OP_TRECV => {
            // SAFETY: promised by the caller.
            let op = unsafe { argument(any.cast::<abi::fi_op_tagged>()) }?;
            let flags = OpFlags::Deferred(op.flags);
            // SAFETY: promised by the caller.
            let endpoint = unsafe { endpoint(domain, op.ep) }?;
            if work.op_type == abi::FI_OP_TSEND {
                // SAFETY: promised by the caller.
                return Ok(Action::Post(endpoint, unsafe {
                    tagged::send_message(&op.msg, flags)
                }?));
            }
            // SAFETY: promised by the caller.
            Ok(Action::Receive(endpoint, unsafe { tagged::recv_message(&op.msg, flags) }?))
        }
        abi::FI_OP_READ | abi::FI_OP_WRITE => {
            // SAFETY: promised by the caller.
            let op = unsafe { argument(any.cast::<abi::fi_op_rma>()) }?;
            let flags = OpFlags::Deferred(op.flags);
            // SAFETY: promised by the caller.
            let endpoint = unsafe { endpoint(domain, op.ep) }?;
            if work.op_type == abi::FI_OP_WRITE {
                // SAFETY: promised by the caller.
                return Ok(Action::Post(endpoint, unsafe { rma::write_message(&op.msg, flags) }?));
            }
            // SAFETY: promised by the caller.
            Ok(Action::Post(endpoint, unsafe { rma::read_message(&op.msg, flags) }?))
        }
        abi::FI_OP_CNTR_SET | abi::FI_OP_CNTR_ADD => {
            // SAFETY: promised by the caller.
            let op = unsafe { argument(any.cast::<abi::fi_op_cntr>()) }?;
            // SAFETY: promised by the caller.
            let counter = unsafe { counter(domain, op.cntr) }?;
            let sets = work.op_type == abi::FI_OP_CNTR_SET;
            let (set, add) = (Action::Set, Action::Add);
            Ok(if sets { set(counter, op.value) } else { add(counter, op.value) })
        }
        // SAFETY: promised by the caller.
        kind => unsafe { atomic_action(domain, kind, any.cast()) },
    }
}

/// The action of a deferred atomic operation.
///
/// # Safety
/// As [`action`]; `op` is not NULL.
unsafe fn atomic_action(
    domain: &Arc<Domain>,
    kind: abi::fi_op_type,
    op: *const c_void,
) -> Result<Action, Error> {
    let (ep, message, flags, form, compare, result) = match kind {
        abi::FI_OP_ATOMIC => {
            // SAFETY: promised by the caller.
            let op = unsafe { argument(op.cast::<abi::fi_op_atomic>()) }?;
            (op.ep, &op.msg, op.flags, AtomicForm::Base, IocVector::EMPTY, IocVector::EMPTY)
        }
        abi::FI_OP_FETCH_ATOMIC => {
            // SAFETY: promised by the caller.
            let op = unsafe { argument(op.cast::<abi::fi_op_fetch_atomic>()) }?;
            let result = IocVector { first: op.fetch.msg_iov, count: op.fetch.iov_count };
            (op.ep, &op.msg, op.flags, AtomicForm::Fetch, IocVector::EMPTY, result)
        }
        abi::FI_OP_COMPARE_ATOMIC => {
            // SAFETY: promised by the caller.
            let op = unsafe { argument(op.cast::<abi::fi_op_compare_atomic>()) }?;
            let compare = IocVector { first: op.compare.msg_iov, count: op.compare.iov_count };
            let result = IocVector { first: op.fetch.msg_iov, count: op.fetch.iov_count };
            (op.ep, &op.msg, op.flags, AtomicForm::Compare, compare, result)
        }
        _ => return Err(Error::NotSupported),
    };
    // SAFETY: promised by the caller.
    let endpoint = unsafe { endpoint(domain, ep) }?;
    let flags = OpFlags::Deferred(flags);
    // SAFETY: promised by the caller.
    Ok(Action::Post(endpoint, unsafe { atomic::message(form, message, flags, compare, result) }?))
}
