// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_rma`: the nine calls that read or write a peer's memory.
//!
//! In: the arguments of a call. Out: one [`Request`], to [`Endpoint::post`]. Called by libfabric.
//! Descriptors are ignored, as local memory needs no registration.

use std::ffi::c_void;

use ofi_xdp_core::{Context, Remote};

use super::args::{buffer, iov_buffer, op_context};
use super::object::object;
use super::{argument, array, done, trigger};
use crate::endpoint::Endpoint;
use crate::runtime::memory::Buffer;
use crate::runtime::{OpFlags, Request, RequestKind, Side};
use crate::sys::abi::{self, fi_addr_t};
use crate::sys::errno::Error;

pub(super) static OPS: abi::fi_ops_rma = abi::fi_ops_rma {
    size: size_of::<abi::fi_ops_rma>(),
    read: Some(read),
    readv: Some(readv),
    readmsg: Some(readmsg),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    writedata: Some(writedata),
    injectdata: Some(injectdata),
};

/// Posts a read or a write, or queues it if it is a triggered operation.
///
/// # Safety
/// `ep` is NULL or an open object; the context of a triggered operation is the structure that
/// `fi_trigger(3)` asks for.
#[inline]
unsafe fn post(ep: *mut abi::fid_ep, rma: Result<Request, Error>) -> isize {
    // SAFETY: promised by the caller.
    done(match (unsafe { object::<Endpoint>(ep.cast()) }, rma) {
        (Ok(endpoint), Ok(rma)) if endpoint.is_triggered(Side::Transmit, rma.flags) => {
            // SAFETY: promised by the caller.
            unsafe { trigger::queue_request(ep, rma) }
        }
        (Ok(endpoint), Ok(rma)) => endpoint.post(&rma).map(drop),
        (Err(error), _) | (_, Err(error)) => Err(error),
    })
}

#[inline]
fn request(
    buffer: Result<Buffer, Error>,
    peer: fi_addr_t,
    kind: RequestKind,
    context: Context,
    flags: OpFlags,
) -> Result<Request, Error> {
    Ok(Request { buffer: buffer?, peer, context, flags, kind })
}

/// A read, of the memory at `address` in the region `key`.
const fn reading(address: u64, key: u64) -> RequestKind {
    RequestKind::Read { remote: Remote { key, address } }
}

/// A write, to the memory at `address` in the region `key`.
const fn writing(address: u64, key: u64, data: Option<u64>) -> RequestKind {
    RequestKind::Write { remote: Remote { key, address }, data }
}

/// The read that a `fi_msg_rma` describes.
///
/// # Safety
/// `msg` is NULL or initialised, as the man page says.
pub(super) unsafe fn read_message(
    msg: *const abi::fi_msg_rma,
    flags: OpFlags,
) -> Result<Request, Error> {
    // SAFETY: promised by the caller.
    let msg = unsafe { argument(msg) }?;
    // SAFETY: promised by the caller.
    let (buffer, remote) = unsafe { memory(msg) }?;
    let kind = RequestKind::Read { remote };
    request(Ok(buffer), msg.addr, kind, op_context(msg.context), flags)
}

/// The write that a `fi_msg_rma` describes.
///
/// # Safety
/// As [`read_message`].
pub(super) unsafe fn write_message(
    msg: *const abi::fi_msg_rma,
    flags: OpFlags,
) -> Result<Request, Error> {
    // SAFETY: promised by the caller.
    let msg = unsafe { argument(msg) }?;
    // SAFETY: promised by the caller.
    let (buffer, remote) = unsafe { memory(msg) }?;
    let kind = RequestKind::Write { remote, data: flags.brings_data().then_some(msg.data) };
    request(Ok(buffer), msg.addr, kind, op_context(msg.context), flags)
}

/// The local and the remote memory of a `fi_msg_rma`.
///
/// # Errors
/// [`Error::Invalid`] unless there is one remote range, of the length of the local ones.
///
/// # Safety
/// The arrays have the lengths that `msg` says.
unsafe fn memory(msg: &abi::fi_msg_rma) -> Result<(Buffer, Remote), Error> {
    // SAFETY: promised by the caller: `iov_count` elements.
    let buffer = unsafe { iov_buffer(msg.msg_iov, msg.iov_count) }?;
    // SAFETY: promised by the caller: `rma_iov_count` elements.
    let [remote] = unsafe { array(msg.rma_iov, msg.rma_iov_count) }? else {
        // `rma_iov_limit` is 1.
        return Err(Error::Invalid);
    };
    if remote.len != buffer.len() {
        return Err(Error::Invalid);
    }
    Ok((buffer, Remote { key: remote.key, address: remote.addr }))
}

unsafe extern "C" fn read(
    ep: *mut abi::fid_ep,
    base: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let (kind, context) = (reading(address, key), op_context(context));
    let read = request(buffer(base, len), peer, kind, context, OpFlags::Default);
    // SAFETY: the man page's contract.
    unsafe { post(ep, read) }
}

unsafe extern "C" fn readv(
    ep: *mut abi::fid_ep,
    iov: *const abi::iovec,
    _desc: *mut *mut c_void,
    count: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the man page's contract: `count` elements.
    let buffer = unsafe { iov_buffer(iov, count) };
    let (kind, context) = (reading(address, key), op_context(context));
    let read = request(buffer, peer, kind, context, OpFlags::Default);
    // SAFETY: the man page's contract.
    unsafe { post(ep, read) }
}

unsafe extern "C" fn readmsg(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: an initialised `fi_msg_rma`.
    let read = unsafe { read_message(msg, OpFlags::Given(flags)) };
    // SAFETY: the man page's contract.
    unsafe { post(ep, read) }
}

unsafe extern "C" fn write(
    ep: *mut abi::fid_ep,
    base: *const c_void,
    len: usize,
    _desc: *mut c_void,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let (kind, context) = (writing(address, key, None), op_context(context));
    let write = request(buffer(base, len), peer, kind, context, OpFlags::Default);
    // SAFETY: the man page's contract.
    unsafe { post(ep, write) }
}

unsafe extern "C" fn writev(
    ep: *mut abi::fid_ep,
    iov: *const abi::iovec,
    _desc: *mut *mut c_void,
    count: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the man page's contract: `count` elements.
    let buffer = unsafe { iov_buffer(iov, count) };
    let (kind, context) = (writing(address, key, None), op_context(context));
    let write = request(buffer, peer, kind, context, OpFlags::Default);
    // SAFETY: the man page's contract.
    unsafe { post(ep, write) }
}

unsafe extern "C" fn writemsg(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: an initialised `fi_msg_rma`.
    let write = unsafe { write_message(msg, OpFlags::Given(flags)) };
    // SAFETY: the man page's contract.
    unsafe { post(ep, write) }
}

unsafe extern "C" fn inject(
    ep: *mut abi::fid_ep,
    base: *const c_void,
    len: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
) -> isize {
    let kind = writing(address, key, None);
    let write = request(buffer(base, len), peer, kind, Context(0), OpFlags::Inject);
    // SAFETY: the man page's contract.
    unsafe { post(ep, write) }
}

unsafe extern "C" fn writedata(
    ep: *mut abi::fid_ep,
    base: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let (kind, context) = (writing(address, key, Some(data)), op_context(context));
    let write = request(buffer(base, len), peer, kind, context, OpFlags::Default);
    // SAFETY: the man page's contract.
    unsafe { post(ep, write) }
}

unsafe extern "C" fn injectdata(
    ep: *mut abi::fid_ep,
    base: *const c_void,
    len: usize,
    data: u64,
    peer: fi_addr_t,
    address: u64,
    key: u64,
) -> isize {
    let kind = writing(address, key, Some(data));
    let write = request(buffer(base, len), peer, kind, Context(0), OpFlags::Inject);
    // SAFETY: the man page's contract.
    unsafe { post(ep, write) }
}
