// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_atomic`: the ten calls that post an atomic operation, and the three that tell
//! whether an operation is offered.
//!
//! In: the arguments of a call, read by `arguments`. Out: one [`Request`], to [`Endpoint::post`].
//! Called by libfabric. Descriptors are ignored, as local memory needs no registration.

mod arguments;

use std::ffi::{c_int, c_void};

use ofi_xdp_core::{ATOMIC_LEN_MAX, AtomicForm, Remote};

use super::object::object;
use super::{answer, array, control, done, trigger};
use crate::endpoint::Endpoint;
use crate::runtime::{OpFlags, Request, Side};
use crate::sys::abi::{self, fi_addr_t};
use crate::sys::errno::Error;

use arguments::{AtomicCall, Local, elements};
pub(super) use arguments::{IocVector, known, message};

pub(super) static OPS: abi::fi_ops_atomic = abi::fi_ops_atomic {
    size: size_of::<abi::fi_ops_atomic>(),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    readwrite: Some(readwrite),
    readwritev: Some(readwritev),
    readwritemsg: Some(readwritemsg),
    compwrite: Some(compwrite),
    compwritev: Some(compwritev),
    compwritemsg: Some(compwritemsg),
    writevalid: Some(writevalid),
    readwritevalid: Some(readwritevalid),
    compwritevalid: Some(compwritevalid),
};

/// Posts an atomic operation, or queues it if it is a triggered operation.
///
/// # Safety
/// `ep` is NULL or an open object; the context of a triggered operation is the structure that
/// `fi_trigger(3)` asks for.
unsafe fn post(ep: *mut abi::fid_ep, atomic: Result<Request, Error>) -> isize {
    // SAFETY: promised by the caller.
    done(match (unsafe { object::<Endpoint>(ep.cast()) }, atomic) {
        (Ok(endpoint), Ok(atomic)) if endpoint.is_triggered(Side::Transmit, atomic.flags) => {
            // SAFETY: promised by the caller.
            unsafe { trigger::queue_request(ep, atomic) }
        }
        (Ok(endpoint), Ok(atomic)) => endpoint.post(&atomic).map(drop),
        (Err(error), _) | (_, Err(error)) => Err(error),
    })
}

unsafe extern "C" fn write(
    ep: *mut abi::fid_ep,
    operands: *const c_void,
    count: usize,
    _desc: *mut c_void,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
    context: *mut c_void,
) -> isize {
    let (form, flags, remote) = (AtomicForm::Base, OpFlags::Default, Remote { key, address });
    let call = AtomicCall { form, datatype, op, peer, remote, context, flags };
    // SAFETY: the man page's contract.
    unsafe { post(ep, call.with(&Local::operands(&elements(operands, count)))) }
}

unsafe extern "C" fn writev(
    ep: *mut abi::fid_ep,
    iov: *const abi::fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
    context: *mut c_void,
) -> isize {
    let (form, flags, remote) = (AtomicForm::Base, OpFlags::Default, Remote { key, address });
    let call = AtomicCall { form, datatype, op, peer, remote, context, flags };
    // SAFETY: the man page's contract: `count` elements.
    let iov = unsafe { array(iov, count) };
    // SAFETY: the man page's contract.
    unsafe { post(ep, iov.and_then(|iov| call.with(&Local::operands(iov)))) }
}

unsafe extern "C" fn writemsg(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_atomic,
    flags: u64,
) -> isize {
    let (form, none) = (AtomicForm::Base, IocVector::EMPTY);
    // SAFETY: the man page's contract.
    let atomic = unsafe { message(form, msg, OpFlags::Given(flags), none, none) };
    // SAFETY: the man page's contract.
    unsafe { post(ep, atomic) }
}

unsafe extern "C" fn inject(
    ep: *mut abi::fid_ep,
    operands: *const c_void,
    count: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
) -> isize {
    let (form, flags, remote) = (AtomicForm::Base, OpFlags::Inject, Remote { key, address });
    let context = std::ptr::null_mut();
    let call = AtomicCall { form, datatype, op, peer, remote, context, flags };
    // SAFETY: the man page's contract.
    unsafe { post(ep, call.with(&Local::operands(&elements(operands, count)))) }
}

unsafe extern "C" fn readwrite(
    ep: *mut abi::fid_ep,
    operands: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
    context: *mut c_void,
) -> isize {
    let (form, flags, remote) = (AtomicForm::Fetch, OpFlags::Default, Remote { key, address });
    let call = AtomicCall { form, datatype, op, peer, remote, context, flags };
    let (operands, result) = (elements(operands, count), elements(result, count));
    let local = Local { operands: &operands, compare: &[], result: &result };
    // SAFETY: the man page's contract.
    unsafe { post(ep, call.with(&local)) }
}

unsafe extern "C" fn readwritev(
    ep: *mut abi::fid_ep,
    iov: *const abi::fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    result: *mut abi::fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
    context: *mut c_void,
) -> isize {
    let (form, flags, remote) = (AtomicForm::Fetch, OpFlags::Default, Remote { key, address });
    let call = AtomicCall { form, datatype, op, peer, remote, context, flags };
    let operands = IocVector { first: iov, count };
    let result = IocVector { first: result, count: result_count };
    // SAFETY: the man page's contract.
    let local = unsafe { Local::of(operands, IocVector::EMPTY, result) };
    // SAFETY: the man page's contract.
    unsafe { post(ep, local.and_then(|local| call.with(&local))) }
}

unsafe extern "C" fn readwritemsg(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_atomic,
    result: *mut abi::fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let (form, none) = (AtomicForm::Fetch, IocVector::EMPTY);
    let result = IocVector { first: result, count: result_count };
    // SAFETY: the man page's contract.
    let atomic = unsafe { message(form, msg, OpFlags::Given(flags), none, result) };
    // SAFETY: the man page's contract.
    unsafe { post(ep, atomic) }
}

unsafe extern "C" fn compwrite(
    ep: *mut abi::fid_ep,
    operands: *const c_void,
    count: usize,
    _desc: *mut c_void,
    compare: *const c_void,
    _compare_desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
    context: *mut c_void,
) -> isize {
    let (form, flags, remote) = (AtomicForm::Compare, OpFlags::Default, Remote { key, address });
    let call = AtomicCall { form, datatype, op, peer, remote, context, flags };
    let (operands, result) = (elements(operands, count), elements(result, count));
    let compare = elements(compare, count);
    let local = Local { operands: &operands, compare: &compare, result: &result };
    // SAFETY: the man page's contract.
    unsafe { post(ep, call.with(&local)) }
}

unsafe extern "C" fn compwritev(
    ep: *mut abi::fid_ep,
    iov: *const abi::fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    compare: *const abi::fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    result: *mut abi::fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
    context: *mut c_void,
) -> isize {
    let (form, flags, remote) = (AtomicForm::Compare, OpFlags::Default, Remote { key, address });
    let call = AtomicCall { form, datatype, op, peer, remote, context, flags };
    let operands = IocVector { first: iov, count };
    let compare = IocVector { first: compare, count: compare_count };
    let result = IocVector { first: result, count: result_count };
    // SAFETY: the man page's contract.
    let local = unsafe { Local::of(operands, compare, result) };
    // SAFETY: the man page's contract.
    unsafe { post(ep, local.and_then(|local| call.with(&local))) }
}

unsafe extern "C" fn compwritemsg(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_atomic,
    compare: *const abi::fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    result: *mut abi::fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let compare = IocVector { first: compare, count: compare_count };
    let result = IocVector { first: result, count: result_count };
    let flags = OpFlags::Given(flags);
    // SAFETY: the man page's contract.
    let atomic = unsafe { message(AtomicForm::Compare, msg, flags, compare, result) };
    // SAFETY: the man page's contract.
    unsafe { post(ep, atomic) }
}

/// `fi_atomicvalid` and its kin: most elements of one operation, if it is one.
///
/// # Safety
/// `count` is NULL or may be written.
unsafe fn valid(
    form: AtomicForm,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
    count: *mut usize,
) -> c_int {
    control(|| {
        let (datatype, _) = known(form, datatype, op)?;
        // SAFETY: promised by the caller.
        unsafe { answer(count, ATOMIC_LEN_MAX / datatype.size()) }
    })
}

unsafe extern "C" fn writevalid(
    _ep: *mut abi::fid_ep,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: the man page's contract.
    unsafe { valid(AtomicForm::Base, datatype, op, count) }
}

unsafe extern "C" fn readwritevalid(
    _ep: *mut abi::fid_ep,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: the man page's contract.
    unsafe { valid(AtomicForm::Fetch, datatype, op, count) }
}

unsafe extern "C" fn compwritevalid(
    _ep: *mut abi::fid_ep,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: the man page's contract.
    unsafe { valid(AtomicForm::Compare, datatype, op, count) }
}
