// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_tagged`: the nine slots of `shim::msg` again, with a tag.

use std::ffi::c_void;

use ofi_xdp_core::{Context, TagMatch};

use super::argument;
use super::msg::{scattered, source, word};
use super::work::post_or_trigger;
use crate::abi::{self, fi_addr_t};
use crate::ep::Endpoint;
use crate::errno::Error;
use crate::fid::Object;
use crate::memory::Buffer;
use crate::ops::{OpFlags, Recv, Send, Side, TaggedOps};
use crate::work::Op;

pub(super) static OPS: abi::fi_ops_tagged = abi::fi_ops_tagged {
    size: size_of::<abi::fi_ops_tagged>(),
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

/// # Safety
/// `ep` is NULL or an open object.
#[inline]
unsafe fn post_send<T: TaggedOps + Object>(
    ep: *mut abi::fid_ep,
    send: Result<Send, Error>,
) -> isize {
    let work = |it, flags, send| Op::Send(it, Send { flags, ..send });
    let given = |send: &Send| (send.context, send.flags);
    // SAFETY: promised by the caller.
    unsafe { post_or_trigger(ep, (Side::Transmit, send), given, T::tagged_send, work) }
}

/// # Safety
/// `ep` is NULL or an open object.
#[inline]
unsafe fn post_recv<T: TaggedOps + Object>(
    ep: *mut abi::fid_ep,
    recv: Result<Recv, Error>,
) -> isize {
    let work = |it, flags, recv| Op::Recv(it, Recv { flags, ..recv });
    let given = |recv: &Recv| (recv.context, recv.flags);
    // SAFETY: promised by the caller.
    unsafe { post_or_trigger(ep, (Side::Receive, recv), given, T::tagged_recv, work) }
}

unsafe extern "C" fn send<T: TaggedOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let (context, flags, tag) = (word(context), OpFlags::Default, Some(tag));
    let send =
        source(buffer, len).map(|buffer| Send { buffer, to, tag, data: None, context, flags });
    // SAFETY: the man page's contract.
    unsafe { post_send::<T>(ep, send) }
}

unsafe extern "C" fn sendv<T: TaggedOps + Object>(
    ep: *mut abi::fid_ep,
    iov: *const abi::iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let (context, flags, tag) = (word(context), OpFlags::Default, Some(tag));
    // SAFETY: the man page's contract: `count` elements.
    let send = unsafe { scattered(iov, count) }.map(|buffer| Send {
        buffer,
        to,
        tag,
        data: None,
        context,
        flags,
    });
    // SAFETY: the man page's contract.
    unsafe { post_send::<T>(ep, send) }
}

/// What a `fi_msg_tagged` sends.
///
/// # Safety
/// `msg` is NULL or initialised, as the man page says.
pub(super) unsafe fn sending(
    msg: *const abi::fi_msg_tagged,
    flags: OpFlags,
) -> Result<Send, Error> {
    // SAFETY: promised by the caller.
    let msg = unsafe { argument(msg) }?;
    Ok(Send {
        // SAFETY: the man page's contract: `iov_count` elements.
        buffer: unsafe { scattered(msg.msg_iov, msg.iov_count) }?,
        to: msg.addr,
        tag: Some(msg.tag),
        data: flags.brings_data().then_some(msg.data),
        context: word(msg.context),
        flags,
    })
}

/// Where a `fi_msg_tagged` receives.
///
/// # Safety
/// As [`sending`].
pub(super) unsafe fn receiving(
    msg: *const abi::fi_msg_tagged,
    flags: OpFlags,
) -> Result<Recv, Error> {
    // SAFETY: promised by the caller.
    let msg = unsafe { argument(msg) }?;
    Ok(Recv {
        // SAFETY: the man page's contract: `iov_count` elements.
        buffer: unsafe { scattered(msg.msg_iov, msg.iov_count) }?,
        from: msg.addr,
        tag: Some(TagMatch { tag: msg.tag, ignore: msg.ignore }),
        context: word(msg.context),
        flags,
    })
}

unsafe extern "C" fn sendmsg<T: TaggedOps + Object>(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: an initialised `fi_msg_tagged`.
    let send = unsafe { sending(msg, OpFlags::Given(flags)) };
    // SAFETY: the man page's contract.
    unsafe { post_send::<T>(ep, send) }
}

unsafe extern "C" fn inject<T: TaggedOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *const c_void,
    len: usize,
    to: fi_addr_t,
    tag: u64,
) -> isize {
    let (context, flags, tag) = (Context(0), OpFlags::Inject, Some(tag));
    let send =
        source(buffer, len).map(|buffer| Send { buffer, to, tag, data: None, context, flags });
    // SAFETY: the man page's contract.
    unsafe { post_send::<T>(ep, send) }
}

unsafe extern "C" fn senddata<T: TaggedOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let (context, flags, data, tag) = (word(context), OpFlags::Default, Some(data), Some(tag));
    let send = source(buffer, len).map(|buffer| Send { buffer, to, tag, data, context, flags });
    // SAFETY: the man page's contract.
    unsafe { post_send::<T>(ep, send) }
}

unsafe extern "C" fn injectdata<T: TaggedOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *const c_void,
    len: usize,
    data: u64,
    to: fi_addr_t,
    tag: u64,
) -> isize {
    let (context, flags, data, tag) = (Context(0), OpFlags::Inject, Some(data), Some(tag));
    let send = source(buffer, len).map(|buffer| Send { buffer, to, tag, data, context, flags });
    // SAFETY: the man page's contract.
    unsafe { post_send::<T>(ep, send) }
}

pub(super) unsafe extern "C" fn recv<T: TaggedOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let (context, flags) = (word(context), OpFlags::Default);
    let tag = Some(TagMatch { tag, ignore });
    let recv =
        Buffer::contiguous(buffer, len).map(|buffer| Recv { buffer, from, tag, context, flags });
    // SAFETY: the man page's contract.
    unsafe { post_recv::<T>(ep, recv) }
}

pub(super) unsafe extern "C" fn recvv<T: TaggedOps + Object>(
    ep: *mut abi::fid_ep,
    iov: *const abi::iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let (context, flags) = (word(context), OpFlags::Default);
    let tag = Some(TagMatch { tag, ignore });
    // SAFETY: the man page's contract: `count` elements.
    let recv =
        unsafe { scattered(iov, count) }.map(|buffer| Recv { buffer, from, tag, context, flags });
    // SAFETY: the man page's contract.
    unsafe { post_recv::<T>(ep, recv) }
}

pub(super) unsafe extern "C" fn recvmsg<T: TaggedOps + Object>(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: an initialised `fi_msg_tagged`.
    let recv = unsafe { receiving(msg, OpFlags::Given(flags)) };
    // SAFETY: the man page's contract.
    unsafe { post_recv::<T>(ep, recv) }
}
