// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_atomic`: ten ways to ask for an atomic operation, and three to ask whether it is
//! one.
//!
//! Each ends in one [`Atomic`]. Descriptors are ignored: local memory needs no registration.

use std::ffi::{c_int, c_void};

use ofi_xdp_core::{ATOMIC_LEN_MAX, AtomicForm, AtomicOp, Datatype, Remote};

use super::msg::word;
use super::work::{is_triggered, post_or_trigger, trigger};
use super::{answer, argument, array, control, done};
use crate::abi::{self, fi_addr_t};
use crate::ep::Endpoint;
use crate::errno::Error;
use crate::fid::{self, Object};
use crate::memory::{Buffer, IOV_MAX};
use crate::ops::{Atomic, AtomicOps, OpFlags, Side};
use crate::work::Op;

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

/// What libfabric's numbers mean, if this form of it is offered.
///
/// # Errors
/// [`Error::NotOffered`].
pub(super) fn known(
    form: AtomicForm,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
) -> Result<(Datatype, AtomicOp), Error> {
    let datatype = u8::try_from(datatype).ok().and_then(Datatype::from_number);
    let op = u8::try_from(op).ok().and_then(AtomicOp::from_number);
    let (Some(datatype), Some(op)) = (datatype, op) else { return Err(Error::NotOffered) };
    if op.is_valid(form, datatype) { Ok((datatype, op)) } else { Err(Error::NotOffered) }
}

/// One place for elements.
fn elements(base: *const c_void, count: usize) -> [abi::fi_ioc; 1] {
    [abi::fi_ioc { addr: base.cast_mut(), count }]
}

/// Where elements lie, or go.
fn buffer(iov: &[abi::fi_ioc], size: usize) -> Result<Buffer, Error> {
    let mut bytes = [abi::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; IOV_MAX];
    let bytes = bytes.get_mut(..iov.len()).ok_or(Error::Invalid)?;
    for (to, from) in bytes.iter_mut().zip(iov) {
        let iov_len = from.count.checked_mul(size).ok_or(Error::Invalid)?;
        *to = abi::iovec { iov_base: from.addr, iov_len };
    }
    Buffer::scattered(bytes)
}

/// The local side of an operation.
struct Local<'a> {
    operands: &'a [abi::fi_ioc],
    compare: &'a [abi::fi_ioc],
    result: &'a [abi::fi_ioc],
}

impl<'a> Local<'a> {
    const fn operands(operands: &'a [abi::fi_ioc]) -> Self {
        Self { operands, compare: &[], result: &[] }
    }
}

/// The remote side of an operation, and what it is.
struct Request {
    form: AtomicForm,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
    peer: fi_addr_t,
    remote: Remote,
    context: *mut c_void,
    flags: OpFlags,
}

impl Request {
    fn with(&self, local: &Local<'_>) -> Result<Atomic, Error> {
        let (datatype, op) = known(self.form, self.datatype, self.op)?;
        let size = datatype.size();
        let result = buffer(local.result, size)?;
        let reads = op == AtomicOp::Read;
        // Of a read the operands are not looked at, and may be anything (fi_atomic(3)).
        let operands = if reads { Buffer::EMPTY } else { buffer(local.operands, size)? };
        let compare = if op.compares() { buffer(local.compare, size)? } else { Buffer::EMPTY };
        let len = if reads { result.len() } else { operands.len() };
        let fits = (!op.compares() || compare.len() == len)
            && (self.form == AtomicForm::Base || result.len() == len);
        if !fits || len == 0 {
            return Err(Error::Invalid);
        }
        Ok(Atomic {
            operands,
            compare,
            result,
            form: self.form,
            datatype,
            op,
            count: len / size,
            peer: self.peer,
            remote: self.remote,
            context: word(self.context),
            flags: self.flags,
        })
    }
}

/// # Safety
/// `ep` is NULL or an open object.
unsafe fn post<T: AtomicOps + Object>(
    ep: *mut abi::fid_ep,
    request: &Request,
    local: &Local<'_>,
) -> isize {
    let work = |it, flags, atomic| Op::Atomic(it, Atomic { flags, ..atomic });
    let given = |atomic: &Atomic| (atomic.context, atomic.flags);
    // SAFETY: promised by the caller.
    unsafe { post_or_trigger(ep, (Side::Transmit, request.with(local)), given, T::atomic, work) }
}

/// What the vector forms of the calls say, as a message. `remote` outlives it.
fn vectors(
    (msg_iov, iov_count): (*const abi::fi_ioc, usize),
    remote: &[abi::fi_rma_ioc; 1],
    (addr, datatype, op, context): (fi_addr_t, abi::fi_datatype, abi::fi_op, *mut c_void),
) -> abi::fi_msg_atomic {
    abi::fi_msg_atomic {
        msg_iov,
        desc: std::ptr::null_mut(),
        iov_count,
        addr,
        rma_iov: remote.as_ptr(),
        rma_iov_count: remote.len(),
        datatype,
        op,
        context,
        data: 0,
    }
}

/// The operation that a `fi_msg_atomic` asks for.
///
/// # Safety
/// `msg` is NULL or initialised, `result` and `compare` have as many elements as they say.
pub(super) unsafe fn message(
    form: AtomicForm,
    (msg, flags): (*const abi::fi_msg_atomic, OpFlags),
    (compare, compare_count): (*const abi::fi_ioc, usize),
    (result, result_count): (*const abi::fi_ioc, usize),
) -> Result<Atomic, Error> {
    // SAFETY: promised by the caller, here and below.
    let msg = unsafe { argument(msg) }?;
    // SAFETY: as above.
    let [remote] = unsafe { array(msg.rma_iov, msg.rma_iov_count) }? else {
        // One place at the peer.
        return Err(Error::Invalid);
    };
    let local = Local {
        // SAFETY: as above.
        operands: unsafe { array(msg.msg_iov, msg.iov_count) }?,
        // SAFETY: as above.
        compare: unsafe { array(compare, compare_count) }?,
        // SAFETY: as above.
        result: unsafe { array(result, result_count) }?,
    };
    let request = Request {
        form,
        datatype: msg.datatype,
        op: msg.op,
        peer: msg.addr,
        remote: Remote { key: remote.key, address: remote.addr },
        context: msg.context,
        flags,
    };
    request.with(&local)
}

/// # Safety
/// `ep` is NULL or an open object; the rest as in [`message`].
unsafe fn post_message<T: AtomicOps + Object>(
    ep: *mut abi::fid_ep,
    form: AtomicForm,
    (msg, flags): (*const abi::fi_msg_atomic, OpFlags),
    compare: (*const abi::fi_ioc, usize),
    result: (*const abi::fi_ioc, usize),
) -> isize {
    if let OpFlags::Given(given) = flags
        && is_triggered(given)
    {
        // SAFETY: promised by the caller.
        let context = unsafe { msg.as_ref() }.map_or(std::ptr::null_mut(), |msg| msg.context);
        let op = |endpoint, flags| {
            // SAFETY: promised by the caller.
            Ok(Op::Atomic(endpoint, unsafe { message(form, (msg, flags), compare, result) }?))
        };
        // SAFETY: the man page's contract: a `fi_triggered_context`.
        return unsafe { trigger(ep, context, given, op) };
    }
    // SAFETY: promised by the caller.
    let endpoint = unsafe { fid::object::<T>(ep.cast::<abi::fid>()) };
    // SAFETY: promised by the caller.
    let atomic = unsafe { message(form, (msg, flags), compare, result) };
    done(endpoint.and_then(|endpoint| endpoint.atomic(atomic?)))
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
    unsafe { post::<T>(ep, &request, &Local::operands(&elements(operands, count))) }
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
    match unsafe { array(iov, count) } {
        // SAFETY: the man page's contract.
        Ok(iov) => unsafe { post::<T>(ep, &request, &Local::operands(iov)) },
        Err(error) => done(Err(error)),
    }
}

unsafe extern "C" fn writemsg<T: AtomicOps + Object>(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_atomic,
    flags: u64,
) -> isize {
    let none = (std::ptr::null(), 0);
    // SAFETY: the man page's contract.
    unsafe { post_message::<T>(ep, AtomicForm::Base, (msg, OpFlags::Given(flags)), none, none) }
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
    unsafe { post::<T>(ep, &request, &Local::operands(&elements(operands, count))) }
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
    unsafe { post::<T>(ep, &request, &local) }
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
    // SAFETY: the man page's contract.
    unsafe {
        post_message::<T>(ep, AtomicForm::Fetch, (&raw const msg, OpFlags::Default), none, result)
    }
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
    unsafe { post_message::<T>(ep, AtomicForm::Fetch, (msg, OpFlags::Given(flags)), none, result) }
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
    unsafe { post::<T>(ep, &request, &local) }
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
    // SAFETY: the man page's contract.
    unsafe {
        post_message::<T>(
            ep,
            AtomicForm::Compare,
            (&raw const msg, OpFlags::Default),
            compare,
            result,
        )
    }
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
    // SAFETY: the man page's contract.
    unsafe {
        post_message::<T>(ep, AtomicForm::Compare, (msg, OpFlags::Given(flags)), compare, result)
    }
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
