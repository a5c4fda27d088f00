// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_cm` of connected endpoints (`fi_cm(3)`).
//!
//! In: addresses, data for the other side. Out: calls of [`Endpoint`]. Called by libfabric. The
//! passive endpoint has its own file.

use std::ffi::{c_int, c_void};
use std::net::SocketAddr;

use super::{argument, array, control, copy_out};
use crate::c_api::object;
use crate::endpoint::Endpoint;
use crate::endpoint::connection::{CM_DATA_MAX, EventOrigin};
use crate::endpoint::passive::PassiveEndpoint;
use crate::objects::connection_manager::ConnectionRequest;
use crate::sys::abi;
use crate::sys::errno::Error;
use crate::sys::sockaddr::{self, SocketAddress};

/// The object of an event.
///
/// # Safety
/// `fid` is an open libfabric object.
pub(super) unsafe fn origin(fid: *mut abi::fid) -> EventOrigin {
    // SAFETY: open (promised): initialised.
    let context = unsafe { (*fid).context };
    EventOrigin { fid: fid.expose_provenance(), context: context.expose_provenance() }
}

/// The data for the other side, cut to [`CM_DATA_MAX`] bytes (`fi_cm(3)`, "NOTES").
///
/// # Safety
/// `param` is NULL or has `len` bytes, which do not change for `'a`.
pub(super) unsafe fn data<'a>(param: *const c_void, len: usize) -> Result<&'a [u8], Error> {
    // SAFETY: promised by the caller.
    unsafe { array(param.cast::<u8>(), len.min(CM_DATA_MAX)) }
}

/// An address without a length: its family tells how long it is.
///
/// # Safety
/// `address` is NULL or a `struct sockaddr_in` or `struct sockaddr_in6`.
pub(super) unsafe fn address(address: *const c_void) -> Result<SocketAddr, Error> {
    // SAFETY: promised by the caller: every socket address begins with its family.
    let family = unsafe { array(address.cast::<u8>(), size_of::<libc::sa_family_t>()) }?;
    let family = family.try_into().map_or(0, libc::sa_family_t::from_ne_bytes);
    let len = match i32::from(family) {
        libc::AF_INET => sockaddr::V4_LEN,
        libc::AF_INET6 => sockaddr::V6_LEN,
        _ => return Err(Error::Invalid),
    };
    // SAFETY: promised by the caller: the structure of that family.
    let bytes = unsafe { array(address.cast::<u8>(), len) }?;
    sockaddr::decode(bytes).ok_or(Error::Invalid)
}

/// `fi_connect`.
pub(super) unsafe extern "C" fn connect(
    ep: *mut abi::fid_ep,
    to: *const c_void,
    param: *const c_void,
    len: usize,
) -> c_int {
    control(|| {
        let fid = ep.cast::<abi::fid>();
        // SAFETY: the man page's contract: open.
        let endpoint = unsafe { object::object::<Endpoint>(fid) }?;
        endpoint.connection()?;
        // SAFETY: the man page's contract: an address of the endpoint's format.
        let to = unsafe { address(to) }?;
        // SAFETY: the man page's contract: `len` bytes.
        let data = unsafe { data(param, len) }?;
        // SAFETY: as above: open.
        endpoint.connect(unsafe { origin(fid) }, to, data)
    })
}

/// `fi_accept`. Success ends the handle of the request.
pub(super) unsafe extern "C" fn accept(
    ep: *mut abi::fid_ep,
    param: *const c_void,
    len: usize,
) -> c_int {
    control(|| {
        let fid = ep.cast::<abi::fid>();
        // SAFETY: the man page's contract: open.
        let endpoint = unsafe { object::object::<Endpoint>(fid) }?;
        // SAFETY: the man page's contract: `len` bytes.
        let data = unsafe { data(param, len) }?;
        let request = endpoint.connection()?.incoming();
        // SAFETY: as above: open.
        endpoint.accept(unsafe { origin(fid) }, data)?;
        request.map_or(Ok(()), |request| end_handle(&request))
    })
}

/// Ends the handle of a request, if there is one: the application has accepted or rejected the
/// request, or closes the passive endpoint.
pub(super) fn end_handle(request: &ConnectionRequest) -> Result<(), Error> {
    let handle = request.take_handle();
    if handle == 0 {
        return Ok(());
    }
    // SAFETY: the pointer was recorded when the object was opened, and is taken once. The man
    // page's contract: no other call uses it.
    unsafe { object::close::<ConnectionRequest>(std::ptr::with_exposed_provenance_mut(handle)) }
}

/// `fi_shutdown`.
pub(super) unsafe extern "C" fn shutdown(ep: *mut abi::fid_ep, flags: u64) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let endpoint = unsafe { object::object::<Endpoint>(ep.cast::<abi::fid>()) }?;
        if flags != 0 {
            return Err(Error::BadFlags);
        }
        endpoint.shutdown()
    })
}

/// `fi_getpeer`.
pub(super) unsafe extern "C" fn getpeer(
    ep: *mut abi::fid_ep,
    address: *mut c_void,
    len: *mut usize,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let endpoint = unsafe { object::object::<Endpoint>(ep.cast::<abi::fid>()) }?;
        let peer = SocketAddress::from(endpoint.connection()?.peer()?);
        // SAFETY: the man page's contract: `*len` bytes of room.
        unsafe { copy_out(peer.bytes(), address, len) }
    })
}

/// `fi_control(FI_BACKLOG)`.
///
/// # Safety
/// `fid` is an open libfabric object; `backlog` is NULL or may be read.
pub(super) unsafe fn set_backlog(fid: *mut abi::fid, backlog: *const c_int) -> Result<(), Error> {
    // SAFETY: promised by the caller.
    let passive = unsafe { object::object::<PassiveEndpoint>(fid) }?;
    // SAFETY: promised by the caller.
    let backlog = *unsafe { argument(backlog) }?;
    passive.set_backlog(u32::try_from(backlog).map_err(|_| Error::Invalid)?);
    Ok(())
}
