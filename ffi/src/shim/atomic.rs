// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_atomic`: ten ways to ask for an atomic operation, and three to ask whether it is
//! one.
//!
//! Each ends in one [`Atomic`], which `arguments` makes. Descriptors are ignored: local memory
//! needs no registration.

mod arguments;

use std::ffi::{c_int, c_void};

use ofi_xdp_core::{ATOMIC_LEN_MAX, AtomicForm, Remote};

use super::work::post_or_trigger;
use super::{answer, array, control};
use crate::abi::{self, fi_addr_t};
use crate::ep::Endpoint;
use crate::errno::Error;
use crate::fid::Object;
use crate::ops::{Atomic, AtomicOps, OpFlags, Side};
use crate::work::Op;

use arguments::{Local, Request, elements, vectors};
pub(super) use arguments::{known, message};

pub(super) static OPS: abi::fi_ops_atomic = abi::fi_ops_atomic {
    size: size_of::<abi::fi_ops_atomic>(),
    write: Some(write::<Endpoint>),
    writev: Some(writev::<Endpoint>),
    writemsg: Some(writemsg::<Endpoint>),
    inject: Some(inject::<Endpoint>),
    readwrite: Some(readwrite::<Endpoint>),
    readwritev: Some(readwritev::<Endpoint>),
    readwritemsg: Some(readwritemsg::<Endpoint>),
    compwrite: Some(compwrite::<Endpoint>),
    compwritev: Some(compwritev::<Endpoint>),
    compwritemsg: Some(compwritemsg::<Endpoint>),
    writevalid: Some(writevalid),
    readwritevalid: Some(readwritevalid),
    compwritevalid: Some(compwritevalid),
};

/// # Safety
/// `ep` is NULL or an open object.
unsafe fn post<T: AtomicOps + Object>(
    ep: *mut abi::fid_ep,
    atomic: Result<Atomic, Error>,
) -> isize {
    let work = |it, flags, atomic| Op::Atomic(it, Atomic { flags, ..atomic });
    let given = |atomic: &Atomic| (atomic.context, atomic.flags);
    // SAFETY: promised by the caller.
    unsafe { post_or_trigger(ep, (Side::Transmit, atomic), given, T::atomic, work) }
}

unsafe extern "C" fn write<T: AtomicOps + Object>(
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
    let request = Request { form, datatype, op, peer, remote, context, flags };
    // SAFETY: the man page's contract.
    unsafe { post::<T>(ep, request.with(&Local::operands(&elements(operands, count)))) }
}

unsafe extern "C" fn writev<T: AtomicOps + Object>(
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
    let request = Request { form, datatype, op, peer, remote, context, flags };
    // SAFETY: the man page's contract: `count` elements.
    let iov = unsafe { array(iov, count) };
    // SAFETY: the man page's contract.
    unsafe { post::<T>(ep, iov.and_then(|iov| request.with(&Local::operands(iov)))) }
}

unsafe extern "C" fn writemsg<T: AtomicOps + Object>(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_atomic,
    flags: u64,
) -> isize {
    let none = (std::ptr::null(), 0);
    // SAFETY: the man page's contract.
    let atomic = unsafe { message(AtomicForm::Base, (msg, OpFlags::Given(flags)), none, none) };
    // SAFETY: the man page's contract.
    unsafe { post::<T>(ep, atomic) }
}

unsafe extern "C" fn inject<T: AtomicOps + Object>(
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
    let request = Request { form, datatype, op, peer, remote, context, flags };
    // SAFETY: the man page's contract.
    unsafe { post::<T>(ep, request.with(&Local::operands(&elements(operands, count)))) }
}

unsafe extern "C" fn readwrite<T: AtomicOps + Object>(
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
    let request = Request { form, datatype, op, peer, remote, context, flags };
    let (operands, result) = (elements(operands, count), elements(result, count));
    let local = Local { operands: &operands, compare: &[], result: &result };
    // SAFETY: the man page's contract.
    unsafe { post::<T>(ep, request.with(&local)) }
}

unsafe extern "C" fn readwritev<T: AtomicOps + Object>(
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
    let remote = [abi::fi_rma_ioc { addr: address, count, key }];
    let msg = vectors((iov, count), &remote, (peer, datatype, op, context));
    let (none, result) = ((std::ptr::null(), 0), (result.cast_const(), result_count));
    let msg = (&raw const msg, OpFlags::Default);
    // SAFETY: the man page's contract; `msg` is here.
    let atomic = unsafe { message(AtomicForm::Fetch, msg, none, result) };
    // SAFETY: the man page's contract.
    unsafe { post::<T>(ep, atomic) }
}

unsafe extern "C" fn readwritemsg<T: AtomicOps + Object>(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_atomic,
    result: *mut abi::fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let result = (result.cast_const(), result_count);
    let none = (std::ptr::null(), 0);
    // SAFETY: the man page's contract.
    let atomic = unsafe { message(AtomicForm::Fetch, (msg, OpFlags::Given(flags)), none, result) };
    // SAFETY: the man page's contract.
    unsafe { post::<T>(ep, atomic) }
}

unsafe extern "C" fn compwrite<T: AtomicOps + Object>(
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
    let request = Request { form, datatype, op, peer, remote, context, flags };
    let (operands, result) = (elements(operands, count), elements(result, count));
    let compare = elements(compare, count);
    let local = Local { operands: &operands, compare: &compare, result: &result };
    // SAFETY: the man page's contract.
    unsafe { post::<T>(ep, request.with(&local)) }
}

unsafe extern "C" fn compwritev<T: AtomicOps + Object>(
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
    let remote = [abi::fi_rma_ioc { addr: address, count, key }];
    let msg = vectors((iov, count), &remote, (peer, datatype, op, context));
    let (compare, result) = ((compare, compare_count), (result.cast_const(), result_count));
    let msg = (&raw const msg, OpFlags::Default);
    // SAFETY: the man page's contract; `msg` is here.
    let atomic = unsafe { message(AtomicForm::Compare, msg, compare, result) };
    // SAFETY: the man page's contract.
    unsafe { post::<T>(ep, atomic) }
}

unsafe extern "C" fn compwritemsg<T: AtomicOps + Object>(
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
    let (compare, result) = ((compare, compare_count), (result.cast_const(), result_count));
    let msg = (msg, OpFlags::Given(flags));
    // SAFETY: the man page's contract.
    let atomic = unsafe { message(AtomicForm::Compare, msg, compare, result) };
    // SAFETY: the man page's contract.
    unsafe { post::<T>(ep, atomic) }
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
