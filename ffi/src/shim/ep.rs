// SPDX-License-Identifier: MIT OR Apache-2.0
//! The endpoint object: `struct fi_ops_ep` and `struct fi_ops_cm`.

use std::ffi::{c_int, c_void};

use super::msg::word;
use super::unsupported::{self, slot};
use super::{control, copy_out, done};
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
    getopt: Some(getopt),
    setopt: Some(setopt),
    tx_ctx: slot(),
    rx_ctx: slot(),
    rx_size_left: slot(),
    tx_size_left: slot(),
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
unsafe extern "C" fn cancel<T: EndpointOps + Object>(
    ep: *mut abi::fid,
    context: *mut c_void,
) -> isize {
    // SAFETY: the man page's contract: open.
    let endpoint = unsafe { fid::object::<T>(ep) };
    done(endpoint.and_then(|endpoint| endpoint.cancel(word(context))))
}

/// `fi_getopt`: no option is known yet.
unsafe extern "C" fn getopt(
    _ep: *mut abi::fid,
    _level: c_int,
    _name: c_int,
    _value: *mut c_void,
    _len: *mut usize,
) -> c_int {
    -Error::NoOption.number()
}

/// `fi_setopt`: no option is known yet.
unsafe extern "C" fn setopt(
    _ep: *mut abi::fid,
    _level: c_int,
    _name: c_int,
    _value: *const c_void,
    _len: usize,
) -> c_int {
    -Error::NoOption.number()
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
