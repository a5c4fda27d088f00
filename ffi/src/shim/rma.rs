// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_rma`: nine ways to say "read" or "write".
//!
//! Each ends in one [`Rma`]. Descriptors are ignored: local memory needs no registration.

use std::ffi::c_void;
use std::sync::Arc;

use ofi_xdp_core::Remote;

use super::msg::{scattered, source, word};
use super::work::post_or_trigger;
use super::{argument, array};
use crate::abi::{self, fi_addr_t};
use crate::ep::Endpoint;
use crate::errno::Error;
use crate::fid::Object;
use crate::memory::Buffer;
use crate::ops::{OpFlags, Rma, RmaOps, Side};
use crate::work::Op;

pub(super) static OPS: abi::fi_ops_rma = abi::fi_ops_rma {
    size: size_of::<abi::fi_ops_rma>(),
    read: Some(read::<Endpoint>),
    readv: Some(readv::<Endpoint>),
    readmsg: Some(readmsg::<Endpoint>),
    write: Some(write::<Endpoint>),
    writev: Some(writev::<Endpoint>),
    writemsg: Some(writemsg::<Endpoint>),
    inject: Some(inject::<Endpoint>),
    writedata: Some(writedata::<Endpoint>),
    injectdata: Some(injectdata::<Endpoint>),
};

/// # Safety
/// `ep` is NULL or an open object.
#[inline]
unsafe fn post<T: RmaOps + Object>(
    ep: *mut abi::fid_ep,
    rma: Result<Rma, Error>,
    how: impl FnOnce(&T, Rma) -> Result<(), Error>,
    work: impl FnOnce(Arc<Endpoint>, Rma) -> Op,
) -> isize {
    let work = |it, flags, rma| work(it, Rma { flags, ..rma });
    let given = |rma: &Rma| (rma.context, rma.flags);
    // SAFETY: promised by the caller.
    unsafe { post_or_trigger(ep, (Side::Transmit, rma), given, how, work) }
}

/// A request from the arguments that most calls have.
#[inline]
fn plain(
    buffer: Result<Buffer, Error>,
    peer: fi_addr_t,
    (address, key): (u64, u64),
    (data, context, flags): (Option<u64>, *mut c_void, OpFlags),
) -> Result<Rma, Error> {
    let remote = Remote { key, address };
    Ok(Rma { buffer: buffer?, peer, remote, data, context: word(context), flags })
}

/// # Safety
/// `msg` is NULL or an initialised `fi_msg_rma`.
pub(super) unsafe fn message(msg: *const abi::fi_msg_rma, flags: OpFlags) -> Result<Rma, Error> {
    // SAFETY: promised by the caller.
    let msg = unsafe { argument(msg) }?;
    // SAFETY: the man page's contract: `iov_count` elements.
    let buffer = unsafe { scattered(msg.msg_iov, msg.iov_count) }?;
    // SAFETY: the man page's contract: `rma_iov_count` elements.
    let [remote] = unsafe { array(msg.rma_iov, msg.rma_iov_count) }? else {
        // `rma_iov_limit` is 1.
        return Err(Error::Invalid);
    };
    if remote.len != buffer.len() {
        return Err(Error::Invalid);
    }
    Ok(Rma {
        buffer,
        peer: msg.addr,
        remote: Remote { key: remote.key, address: remote.addr },
        data: flags.brings_data().then_some(msg.data),
        context: word(msg.context),
        flags,
    })
}

unsafe extern "C" fn read<T: RmaOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let how = (None, context, OpFlags::Default);
    let rma = plain(Buffer::contiguous(buffer, len), peer, (address, key), how);
    // SAFETY: the man page's contract.
    unsafe { post(ep, rma, T::read, Op::Read) }
}

unsafe extern "C" fn readv<T: RmaOps + Object>(
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
    let buffer = unsafe { scattered(iov, count) };
    let rma = plain(buffer, peer, (address, key), (None, context, OpFlags::Default));
    // SAFETY: the man page's contract.
    unsafe { post(ep, rma, T::read, Op::Read) }
}

unsafe extern "C" fn readmsg<T: RmaOps + Object>(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: an initialised `fi_msg_rma`.
    let rma = unsafe { message(msg, OpFlags::Given(flags)) };
    // SAFETY: the man page's contract.
    unsafe { post(ep, rma, T::read, Op::Read) }
}

unsafe extern "C" fn write<T: RmaOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let how = (None, context, OpFlags::Default);
    let rma = plain(source(buffer, len), peer, (address, key), how);
    // SAFETY: the man page's contract.
    unsafe { post(ep, rma, T::write, Op::Write) }
}

unsafe extern "C" fn writev<T: RmaOps + Object>(
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
    let buffer = unsafe { scattered(iov, count) };
    let rma = plain(buffer, peer, (address, key), (None, context, OpFlags::Default));
    // SAFETY: the man page's contract.
    unsafe { post(ep, rma, T::write, Op::Write) }
}

unsafe extern "C" fn writemsg<T: RmaOps + Object>(
    ep: *mut abi::fid_ep,
    msg: *const abi::fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: an initialised `fi_msg_rma`.
    let rma = unsafe { message(msg, OpFlags::Given(flags)) };
    // SAFETY: the man page's contract.
    unsafe { post(ep, rma, T::write, Op::Write) }
}

unsafe extern "C" fn inject<T: RmaOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *const c_void,
    len: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
) -> isize {
    let how = (None, std::ptr::null_mut(), OpFlags::Inject);
    let rma = plain(source(buffer, len), peer, (address, key), how);
    // SAFETY: the man page's contract.
    unsafe { post(ep, rma, T::write, Op::Write) }
}

unsafe extern "C" fn writedata<T: RmaOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let how = (Some(data), context, OpFlags::Default);
    let rma = plain(source(buffer, len), peer, (address, key), how);
    // SAFETY: the man page's contract.
    unsafe { post(ep, rma, T::write, Op::Write) }
}

unsafe extern "C" fn injectdata<T: RmaOps + Object>(
    ep: *mut abi::fid_ep,
    buffer: *const c_void,
    len: usize,
    data: u64,
    peer: fi_addr_t,
    address: u64,
    key: u64,
) -> isize {
    let how = (Some(data), std::ptr::null_mut(), OpFlags::Inject);
    let rma = plain(source(buffer, len), peer, (address, key), how);
    // SAFETY: the man page's contract.
    unsafe { post(ep, rma, T::write, Op::Write) }
}
