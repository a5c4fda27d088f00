// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_msg`: the nine calls that send or receive an untagged message.
//!
//! In: the arguments of a call. Out: one [`Request`] or one [`Recv`], to the endpoint. Called by
//! libfabric; `tagged` shares [`request`], [`post`] and [`receive`]. Descriptors are ignored, as
//! local memory needs no registration.

use std::ffi::c_void;

use ofi_xdp_core::Context;

use super::args::{buffer, iov_buffer, op_context, receive_buffer};
use super::object::{Object, object};
use super::unsupported::{self, slot};
use super::{argument, done, trigger};
use crate::endpoint::{Endpoint, Receives};
use crate::runtime::memory::Buffer;
use crate::runtime::{OpFlags, Recv, Request, RequestKind, Side};
use crate::sys::abi::{self, fi_addr_t};
use crate::sys::errno::Error;

const TABLE: abi::fi_ops_msg = abi::fi_ops_msg {
    size: size_of::<abi::fi_ops_msg>(),
    recv: Some(recv::<Endpoint>),
    recvv: Some(recvv::<Endpoint>),
    recvmsg: Some(recvmsg::<Endpoint>),
    send: Some(send),
    sendv: Some(sendv),
    sendmsg: Some(sendmsg),
    inject: Some(inject),
    senddata: Some(senddata),
    injectdata: Some(injectdata),
};

/// The calls of an endpoint.
pub(super) static OPS: abi::fi_ops_msg = TABLE;

/// The calls of a transmit context.
pub(super) static TRANSMIT_OPS: abi::fi_ops_msg =
    abi::fi_ops_msg { recv: slot(), recvv: slot(), recvmsg: slot(), ..TABLE };

/// The calls of a receive context.
pub(super) static RECEIVE_OPS: abi::fi_ops_msg = abi::fi_ops_msg {
    recv: Some(recv::<Endpoint>),
    recvv: Some(recvv::<Endpoint>),
    recvmsg: Some(recvmsg::<Endpoint>),
    ..unsupported::MSG
};

/// Posts a send, or queues it if it is a triggered operation.
///
/// # Safety
/// `ep` is NULL or an open object; the context of a triggered operation is the structure that
/// `fi_trigger(3)` asks for.
#[inline]
pub(super) unsafe fn post(ep: *mut abi::fid_ep, send: Result<Request, Error>) -> isize {
    // A request is long: it stays where it is.
    // SAFETY: promised by the caller.
    done(match (unsafe { object::<Endpoint>(ep.cast()) }, &send) {
        (Ok(endpoint), Ok(send)) if endpoint.is_triggered(Side::Transmit, send.flags) => {
            // SAFETY: promised by the caller.
            unsafe { trigger::queue_request(ep, *send) }
        }
        (Ok(endpoint), Ok(send)) => endpoint.post(send).map(drop),
        (Err(error), _) | (_, &Err(error)) => Err(error),
    })
}

/// Posts a receive, or queues it if it is a triggered operation.
///
/// # Safety
/// As [`post`].
#[inline]
pub(super) unsafe fn receive<T: Receives + Object>(
    ep: *mut abi::fid_ep,
    recv: Result<Recv, Error>,
) -> isize {
    // SAFETY: promised by the caller.
    done(match (unsafe { object::<T>(ep.cast()) }, &recv) {
        (Ok(receiver), Ok(recv)) if receiver.triggers_recv(recv.flags) => {
            // SAFETY: promised by the caller.
            unsafe { trigger::queue_recv(ep, *recv) }
        }
        (Ok(receiver), Ok(recv)) => receiver.receive(recv).map(drop),
        (Err(error), _) | (_, &Err(error)) => Err(error),
    })
}

/// A send, tagged or not.
#[inline]
pub(super) fn request(
    buffer: Result<Buffer, Error>,
    peer: fi_addr_t,
    tag: Option<u64>,
    data: Option<u64>,
    context: Context,
    flags: OpFlags,
) -> Result<Request, Error> {
    let kind = RequestKind::Send { tag, data };
    Ok(Request { buffer: buffer?, peer, context, flags, kind })
}

/// The send that a `fi_msg` describes.
///
/// # Safety
/// `msg` is NULL or initialised, as the man page says.
pub(super) unsafe fn send_message(
    msg: *const abi::fi_msg,
    flags: OpFlags,
) -> Result<Request, Error> {
    // SAFETY: promised by the caller.
    let msg = unsafe { argument(msg) }?;
    // SAFETY: the man page's contract: `iov_count` elements.
    let buffer = unsafe { iov_buffer(msg.msg_iov, msg.iov_count) };
    let data = flags.brings_data().then_some(msg.data);
    request(buffer, msg.addr, None, data, op_context(msg.context), flags)
}

/// The receive that a `fi_msg` describes.
///
/// # Safety
/// As [`send_message`].
pub(super) unsafe fn recv_message(msg: *const abi::fi_msg, flags: OpFlags) -> Result<Recv, Error> {
    // SAFETY: promised by the caller.
    let msg = unsafe { argument(msg) }?;
    // SAFETY: the man page's contract: `iov_count` elements.
    let buffer = unsafe { iov_buffer(msg.msg_iov, msg.iov_count) }?;
    Ok(Recv { buffer, from: msg.addr, tag: None, context: op_context(msg.context), flags })
}

unsafe extern "C" fn send(
    ep: *mut abi::fid_ep,
    base: *const c_void,
    len: usize,
    _desc: *mut c_void,
    peer: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let send = request(buffer(base, len), peer, None, None, op_context(context), OpFlags::Default);
    // SAFETY: the man page's contract.
    unsafe { post(ep, send) }
}

unsafe extern "C" fn sendv(
    ep: *mut abi::fid_ep,
    iov: *const abi::iovec,
    _desc: *mut *mut c_void,
    count: usize,
    peer: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: the man page's contract: `count` elements.
    let buffer = unsafe { iov_buffer(iov, count) };
    let send = request(buffer, peer, None, None, op_context(context), OpFlags::Default);
    // SAFETY: the man page's contract.
    unsafe { post(ep, send) }
}

unsafe extern "C" fn sendmsg(ep: *mut abi::fid_ep, msg: *const abi::fi_msg, flags: u64) -> isize {
    // SAFETY: the man page's contract: an initialised `fi_msg`.
    let send = unsafe { send_message(msg, OpFlags::Given(flags)) };
    // SAFETY: the man page's contract.
    unsafe { post(ep, send) }
}

unsafe extern "C" fn inject(
    ep: *mut abi::fid_ep,
    base: *const c_void,
    len: usize,
    peer: fi_addr_t,
) -> isize {
    let send = request(buffer(base, len), peer, None, None, Context(0), OpFlags::Inject);
    // SAFETY: the man page's contract.
    unsafe { post(ep, send) }
}

unsafe extern "C" fn senddata(
    ep: *mut abi::fid_ep,
    base: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    peer: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let context = op_context(context);
    let send = request(buffer(base, len), peer, None, Some(data), context, OpFlags::Default);
    // SAFETY: the man page's contract.
    unsafe { post(ep, send) }
}

unsafe extern "C" fn injectdata(
    ep: *mut abi::fid_ep,
    base: *const c_void,
    len: usize,
    data: u64,
    peer: fi_addr_t,
) -> isize {
    let send = request(buffer(base, len), peer, None, Some(data), Context(0), OpFlags::Inject);
    // SAFETY: the man page's contract.
    unsafe { post(ep, send) }
}

pub(super) unsafe extern "C" fn recv<T: Receives + Object>(
    ep: *mut abi::fid_ep,
    base: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let (context, flags) = (op_context(context), OpFlags::Default);
    let recv =
        receive_buffer(base, len).map(|buffer| Recv { buffer, from, tag: None, context, flags });
    // SAFETY: the man page's contract.
    unsafe { receive::<T>(ep, recv) }
}

pub(super) unsafe extern "C" fn recvv<T: Receives + Object>(
    ep: *mut abi::fid_ep,
    iov: *const abi::iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: fi_addr_t,
    context: *mut c_void,
) -> isize {
    let (context, flags) = (op_context(context), OpFlags::Default);
    // SAFETY: the man page's contract: `count` elements.
    let buffer = unsafe { iov_buffer(iov, count) };
    let recv = buffer.map(|buffer| Recv { buffer, from, tag: None, context, flags });
    // SAFETY: the man page's contract.
    unsafe { receive::<T>(ep, recv) }
}

pub(super) unsafe extern "C" fn recvmsg<T: Receives + Object>(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: an initialised `fi_msg`.
    let recv = unsafe { recv_message(msg, OpFlags::Given(flags)) };
    // SAFETY: the man page's contract.
    unsafe { receive::<T>(ep, recv) }
}
