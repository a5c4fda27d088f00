// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_msg`: nine ways to say "send" or "receive".
//!
//! Each ends in one [`Send`] or [`Recv`]. Descriptors are ignored: no memory needs to be registered
//! to be sent from or received into.

use std::ffi::c_void;

use ofi_xdp_core::Context;

use super::work::post_or_trigger;
use super::{argument, array};
use crate::abi::{self, fi_addr_t};
use crate::ep::Endpoint;
use crate::errno::Error;
use crate::fid::Object;
use crate::memory::Buffer;
use crate::ops::{MsgOps, OpFlags, Recv, Send, Side};
use crate::work::Op;

pub(super) static OPS: abi::fi_ops_msg = abi::fi_ops_msg {
    size: size_of::<abi::fi_ops_msg>(),
    recv: Some(recv::<Endpoint>),
    recvv: Some(recvv::<Endpoint>),
    recvmsg: Some(recvmsg::<Endpoint>),
    send: Some(send::<Endpoint>),
    sendv: Some(sendv::<Endpoint>),
    sendmsg: Some(sendmsg::<Endpoint>),
    inject: Some(inject::<Endpoint>),
    senddata: Some(senddata::<Endpoint>),
    injectdata: Some(injectdata::<Endpoint>),
};

/// The application's word for an operation.
pub(super) fn word(context: *mut c_void) -> Context {
    Context(context.expose_provenance() as u64)
}

/// A buffer that is only read.
#[inline]
pub(super) fn source(buffer: *const c_void, len: usize) -> Result<Buffer, Error> {
    Buffer::contiguous(buffer.cast_mut(), len)
}

/// A scattered buffer.
///
/// # Safety
/// `iov` is NULL or has `count` elements.
pub(super) unsafe fn scattered(iov: *const abi::iovec, count: usize) -> Result<Buffer, Error> {
    // SAFETY: promised by the caller.
    Buffer::scattered(unsafe { array(iov, count) }?)
}

/// # Safety
/// `ep` is NULL or an open object.
#[inline]
unsafe fn post_send<T: MsgOps + Object>(ep: *mut abi::fid_ep, send: Result<Send, Error>) -> isize {
    let work = |it, flags, send| Op::Send(it, Send { flags, ..send });
    let given = |send: &Send| (send.context, send.flags);
    // SAFETY: promised by the caller.
    unsafe { post_or_trigger(ep, (Side::Transmit, send), given, T::send, work) }
}

/// # Safety
/// `ep` is NULL or an open object.
#[inline]
unsafe fn post_recv<T: MsgOps + Object>(ep: *mut abi::fid_ep, recv: Result<Recv, Error>) -> isize {
    let work = |it, flags, recv| Op::Recv(it, Recv { flags, ..recv });
    let given = |recv: &Recv| (recv.context, recv.flags);
    // SAFETY: promised by the caller.
    unsafe { post_or_trigger(ep, (Side::Receive, recv), given, T::recv, work) }
}

unsafe extern "C" fn send<T: MsgOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let (context, flags) = (word(context), OpFlags::Default);
    let send = source(buffer, len).map(|buffer| Send {
        buffer,
        to,
        tag: None,
        data: None,
        context,
        flags,
    });
    // SAFETY: the man page's contract.
    unsafe { post_send::<T>(ep, send) }
}

unsafe extern "C" fn sendv<T: MsgOps + Object>(
    ep: *mut abi::fid_ep,
    iov: *const abi::iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let (context, flags) = (word(context), OpFlags::Default);
    // SAFETY: the man page's contract: `count` elements.
    let send = unsafe { scattered(iov, count) }.map(|buffer| Send {
        buffer,
        to,
        tag: None,
        data: None,
        context,
        flags,
    });
    // SAFETY: the man page's contract.
    unsafe { post_send::<T>(ep, send) }
}

/// What a `fi_msg` sends.
///
/// # Safety
/// `msg` is NULL or initialised, as the man page says.
pub(super) unsafe fn sending(msg: *const abi::fi_msg, flags: OpFlags) -> Result<Send, Error> {
    // SAFETY: promised by the caller.
    let msg = unsafe { argument(msg) }?;
    Ok(Send {
        // SAFETY: the man page's contract: `iov_count` elements.
        buffer: unsafe { scattered(msg.msg_iov, msg.iov_count) }?,
        to: msg.addr,
        tag: None,
        data: flags.brings_data().then_some(msg.data),
        context: word(msg.context),
        flags,
    })
}

/// Where a `fi_msg` receives.
///
/// # Safety
/// As [`sending`].
pub(super) unsafe fn receiving(msg: *const abi::fi_msg, flags: OpFlags) -> Result<Recv, Error> {
    // SAFETY: promised by the caller.
    let msg = unsafe { argument(msg) }?;
    Ok(Recv {
        // SAFETY: the man page's contract: `iov_count` elements.
        buffer: unsafe { scattered(msg.msg_iov, msg.iov_count) }?,
        from: msg.addr,
        tag: None,
        context: word(msg.context),
        flags,
    })
}

unsafe extern "C" fn sendmsg<T: MsgOps + Object>(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: an initialised `fi_msg`.
    let send = unsafe { sending(msg, OpFlags::Given(flags)) };
    // SAFETY: the man page's contract.
    unsafe { post_send::<T>(ep, send) }
}

unsafe extern "C" fn inject<T: MsgOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *const c_void,
    len: usize,
    to: fi_addr_t,
) -> isize {
    let (context, flags) = (Context(0), OpFlags::Inject);
    let send = source(buffer, len).map(|buffer| Send {
        buffer,
        to,
        tag: None,
        data: None,
        context,
        flags,
    });
    // SAFETY: the man page's contract.
    unsafe { post_send::<T>(ep, send) }
}

unsafe extern "C" fn senddata<T: MsgOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let (context, flags, data) = (word(context), OpFlags::Default, Some(data));
    let send =
        source(buffer, len).map(|buffer| Send { buffer, to, tag: None, data, context, flags });
    // SAFETY: the man page's contract.
    unsafe { post_send::<T>(ep, send) }
}

unsafe extern "C" fn injectdata<T: MsgOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *const c_void,
    len: usize,
    data: u64,
    to: fi_addr_t,
) -> isize {
    let (context, flags, data) = (Context(0), OpFlags::Inject, Some(data));
    let send =
        source(buffer, len).map(|buffer| Send { buffer, to, tag: None, data, context, flags });
    // SAFETY: the man page's contract.
    unsafe { post_send::<T>(ep, send) }
}

pub(super) unsafe extern "C" fn recv<T: MsgOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let (context, flags) = (word(context), OpFlags::Default);
    let recv = Buffer::contiguous(buffer, len).map(|buffer| Recv {
        buffer,
        from,
        tag: None,
        context,
        flags,
    });
    // SAFETY: the man page's contract.
    unsafe { post_recv::<T>(ep, recv) }
}

pub(super) unsafe extern "C" fn recvv<T: MsgOps + Object>(
    ep: *mut abi::fid_ep,
    iov: *const abi::iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let (context, flags) = (word(context), OpFlags::Default);
    // SAFETY: the man page's contract: `count` elements.
    let recv = unsafe { scattered(iov, count) }.map(|buffer| Recv {
        buffer,
        from,
        tag: None,
        context,
        flags,
    });
    // SAFETY: the man page's contract.
    unsafe { post_recv::<T>(ep, recv) }
}

pub(super) unsafe extern "C" fn recvmsg<T: MsgOps + Object>(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: an initialised `fi_msg`.
    let recv = unsafe { receiving(msg, OpFlags::Given(flags)) };
    // SAFETY: the man page's contract.
    unsafe { post_recv::<T>(ep, recv) }
}
