// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_tagged`: the nine calls that send or receive a tagged message.
//!
//! In: the arguments of a call. Out: one [`Request`] or one [`Recv`] with a tag, to the endpoint,
//! by the functions of `msg`. Called by libfabric.

use std::ffi::c_void;

use ofi_xdp_core::{Context, TagMatch};

use super::args::{buffer, iov_buffer, op_context, receive_buffer};
use super::argument;
use super::msg::{post, receive, request};
use super::object::Object;
use super::unsupported::{self, slot};
use crate::endpoint::{Endpoint, Receives};
use crate::runtime::{OpFlags, Recv, Request};
use crate::sys::abi::{self, fi_addr_t};
use crate::sys::errno::Error;

const TABLE: abi::fi_ops_tagged = abi::fi_ops_tagged {
    size: size_of::<abi::fi_ops_tagged>(),
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
pub(super) static OPS: abi::fi_ops_tagged = TABLE;

/// The calls of a transmit context.
pub(super) static TRANSMIT_OPS: abi::fi_ops_tagged =
    abi::fi_ops_tagged { recv: slot(), recvv: slot(), recvmsg: slot(), ..TABLE };

/// The calls of a receive context.
pub(super) static RECEIVE_OPS: abi::fi_ops_tagged = abi::fi_ops_tagged {
    recv: Some(recv::<Endpoint>),
    recvv: Some(recvv::<Endpoint>),
    recvmsg: Some(recvmsg::<Endpoint>),
    ..unsupported::TAGGED
};

/// The send that a `fi_msg_tagged` describes.
///
/// # Safety
/// `msg` is NULL or initialised, as the man page says.
pub(super) unsafe fn send_message(
    msg: *const abi::fi_msg_tagged,
    flags: OpFlags,
) -> Result<Request, Error> {
    // SAFETY: promised by the caller.
    let msg = unsafe { argument(msg) }?;
    // SAFETY: the man page's contract: `iov_count` elements.
    let buffer = unsafe { iov_buffer(msg.msg_iov, msg.iov_count) };
    let data = flags.brings_data().then_some(msg.data);
    request(buffer, msg.addr, Some(msg.tag), data, op_context(msg.context), flags)
}

/// The receive that a `fi_msg_tagged` describes.
///
/// # Safety
/// As [`send_message`].
pub(super) unsafe fn recv_message(
    msg: *const abi::fi_msg_tagged,
    flags: OpFlags,
) -> Result<Recv, Error> {
    // SAFETY: promised by the caller.
    let msg = unsafe { argument(msg) }?;
    // SAFETY: the man page's contract: `iov_count` elements.
    let buffer = unsafe { iov_buffer(msg.msg_iov, msg.iov_count) }?;
    let tag = Some(TagMatch { tag: msg.tag, ignore: msg.ignore });
    Ok(Recv { buffer, from: msg.addr, tag, context: op_context(msg.context), flags })
}

unsafe extern "C" fn send(
    ep: *mut abi::fid_ep,
    base: *const c_void,
    len: usize,
    _desc: *mut c_void,
    peer: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let send =
        request(buffer(base, len), peer, Some(tag), None, op_context(context), OpFlags::Default);
    // SAFETY: the man page's contract.
    unsafe { post(ep, send) }
}

unsafe extern "C" fn sendv(
    ep: *mut abi::fid_ep,
    iov: *const abi::iovec,
    _desc: *mut *mut c_void,
    count: usize,
    peer: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the man page's contract: `count` elements.
    let buffer = unsafe { iov_buffer(iov, count) };
    let send = request(buffer, peer, Some(tag), None, op_context(context), OpFlags::Default);
    // SAFETY: the man page's contract.
    unsafe { post(ep, send) }
}

unsafe extern "C" fn sendmsg(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: an initialised `fi_msg_tagged`.
    let send = unsafe { send_message(msg, OpFlags::Given(flags)) };
    // SAFETY: the man page's contract.
    unsafe { post(ep, send) }
}

unsafe extern "C" fn inject(
    ep: *mut abi::fid_ep,
    base: *const c_void,
    len: usize,
    peer: fi_addr_t,
    tag: u64,
) -> isize {
    let send = request(buffer(base, len), peer, Some(tag), None, Context(0), OpFlags::Inject);
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
    tag: u64,
    context: *mut c_void,
) -> isize {
    let context = op_context(context);
    let send = request(buffer(base, len), peer, Some(tag), Some(data), context, OpFlags::Default);
    // SAFETY: the man page's contract.
    unsafe { post(ep, send) }
}

unsafe extern "C" fn injectdata(
    ep: *mut abi::fid_ep,
    base: *const c_void,
    len: usize,
    data: u64,
    peer: fi_addr_t,
    tag: u64,
) -> isize {
    let send = request(buffer(base, len), peer, Some(tag), Some(data), Context(0), OpFlags::Inject);
    // SAFETY: the man page's contract.
    unsafe { post(ep, send) }
}

pub(super) unsafe extern "C" fn recv<T: Receives + Object>(
    ep: *mut abi::fid_ep,
    base: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let (context, flags) = (op_context(context), OpFlags::Default);
    let tag = Some(TagMatch { tag, ignore });
    let recv = receive_buffer(base, len).map(|buffer| Recv { buffer, from, tag, context, flags });
    // SAFETY: the man page's contract.
    unsafe { receive::<T>(ep, recv) }
}

pub(super) unsafe extern "C" fn recvv<T: Receives + Object>(
    ep: *mut abi::fid_ep,
    iov: *const abi::iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let (context, flags) = (op_context(context), OpFlags::Default);
    let tag = Some(TagMatch { tag, ignore });
    // SAFETY: the man page's contract: `count` elements.
    let buffer = unsafe { iov_buffer(iov, count) };
    let recv = buffer.map(|buffer| Recv { buffer, from, tag, context, flags });
    // SAFETY: the man page's contract.
    unsafe { receive::<T>(ep, recv) }
}

pub(super) unsafe extern "C" fn recvmsg<T: Receives + Object>(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: an initialised `fi_msg_tagged`.
    let recv = unsafe { recv_message(msg, OpFlags::Given(flags)) };
    // SAFETY: the man page's contract.
    unsafe { receive::<T>(ep, recv) }
}
