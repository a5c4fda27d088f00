// SPDX-License-Identifier: MIT OR Apache-2.0
//! The endpoint object: `struct fi_ops_ep` and `struct fi_ops_cm`.

use std::ffi::{c_int, c_void};

use super::msg::word;
use super::unsupported::{self, slot};
use super::{array, control, copy_out, counted, done};
use crate::abi;
use crate::ep::Endpoint;
use crate::errno::Error;
use crate::fid::{self, Object};
use crate::ops::EndpointOps;
use crate::sockaddr::SocketAddress;

static FID_OPS: abi::fi_ops = super::fid::table::<Endpoint>();

static OPS: abi::fi_ops_ep = abi::fi_ops_ep {
    size: size_of::<abi::fi_ops_ep>(),
    cancel: Some(cancel::<Endpoint>),
    getopt: Some(getopt::<Endpoint>),
    setopt: Some(setopt::<Endpoint>),
    tx_ctx: slot(),
    rx_ctx: slot(),
    rx_size_left: Some(rx_size_left::<Endpoint>),
    tx_size_left: Some(tx_size_left::<Endpoint>),
};

static CM: abi::fi_ops_cm = abi::fi_ops_cm {
    size: size_of::<abi::fi_ops_cm>(),
    setname: slot(),
    getname: Some(getname::<Endpoint>),
    getpeer: slot(),
    connect: slot(),
    listen: slot(),
    accept: slot(),
    reject: slot(),
    shutdown: slot(),
    join: slot(),
};

// SAFETY: `fid_ep` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for Endpoint {
    type C = abi::fid_ep;
    const CLASS: u32 = abi::FI_CLASS_EP;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_ep {
        abi::fid_ep {
            fid,
            ops: std::ptr::from_ref(&OPS).cast_mut(),
            cm: std::ptr::from_ref(&CM).cast_mut(),
            msg: std::ptr::from_ref(&super::msg::OPS).cast_mut(),
            rma: std::ptr::from_ref(&super::rma::OPS).cast_mut(),
            tagged: std::ptr::from_ref(&super::tagged::OPS).cast_mut(),
            atomic: std::ptr::from_ref(&super::atomic::OPS).cast_mut(),
            collective: std::ptr::from_ref(&unsupported::COLLECTIVE).cast_mut(),
        }
    }
}

/// `fi_cancel`.
pub(super) unsafe extern "C" fn cancel<T: EndpointOps + Object>(
    ep: *mut abi::fid,
    context: *mut c_void,
) -> isize {
    // SAFETY: the man page's contract: open.
    let endpoint = unsafe { fid::object::<T>(ep) };
    done(endpoint.and_then(|endpoint| endpoint.cancel(word(context))))
}

/// The one option that is known.
fn is_known(level: c_int, name: c_int) -> Result<(), Error> {
    let known = (abi::FI_OPT_ENDPOINT, abi::FI_OPT_MIN_MULTI_RECV);
    let asked = (level.cast_unsigned(), name.cast_unsigned());
    if asked == known { Ok(()) } else { Err(Error::NoOption) }
}

/// `fi_getopt`.
pub(super) unsafe extern "C" fn getopt<T: EndpointOps + Object>(
    ep: *mut abi::fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let endpoint = unsafe { fid::object::<T>(ep) }?;
        is_known(level, name)?;
        // SAFETY: the man page's contract: `*len` bytes of room.
        unsafe { copy_out(&endpoint.min_multi_recv()?.to_ne_bytes(), value, len) }
    })
}

/// `fi_setopt`.
pub(super) unsafe extern "C" fn setopt<T: EndpointOps + Object>(
    ep: *mut abi::fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let endpoint = unsafe { fid::object::<T>(ep) }?;
        is_known(level, name)?;
        // SAFETY: the man page's contract: `len` bytes.
        let bytes = unsafe { array(value.cast::<u8>(), len) }?;
        let bytes = <[u8; size_of::<usize>()]>::try_from(bytes).map_err(|_| Error::Invalid)?;
        endpoint.set_min_multi_recv(usize::from_ne_bytes(bytes))
    })
}

/// `fi_rx_size_left`.
pub(super) unsafe extern "C" fn rx_size_left<T: EndpointOps + Object>(
    ep: *mut abi::fid_ep,
) -> isize {
    // SAFETY: the man page's contract: open.
    let endpoint = unsafe { fid::object::<T>(ep.cast::<abi::fid>()) };
    counted(endpoint.and_then(|endpoint| endpoint.receives_left()))
}

/// `fi_tx_size_left`.
unsafe extern "C" fn tx_size_left<T: EndpointOps + Object>(ep: *mut abi::fid_ep) -> isize {
    // SAFETY: the man page's contract: open.
    let endpoint = unsafe { fid::object::<T>(ep.cast::<abi::fid>()) };
    counted(endpoint.and_then(|endpoint| endpoint.sends_left()))
}

/// `fi_getname`.
unsafe extern "C" fn getname<T: EndpointOps + Object>(
    ep: *mut abi::fid,
    address: *mut c_void,
    len: *mut usize,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let endpoint = unsafe { fid::object::<T>(ep) }?;
        let name = SocketAddress::from(endpoint.name()?);
        // SAFETY: the man page's contract: `*len` bytes of room.
        unsafe { copy_out(name.bytes(), address, len) }
    })
}
