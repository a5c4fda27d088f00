// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scalable endpoint: an endpoint's structure that opens contexts, and moves no data.
//!
//! In: attributes of contexts, and the name. Out: calls of [`ScalableEndpoint`]. Called by
//! libfabric.

use std::ffi::{c_int, c_void};

use super::fid::opened;
use super::info::request;
use super::unsupported::{self, ExportXpu, WithXpu, slot};
use super::{argument, control, copy_out};
use crate::c_api::object::{self, Object};
use crate::endpoint::Endpoint;
use crate::endpoint::scalable::ScalableEndpoint;
use crate::objects::domain::Domain;
use crate::sys::abi;
use crate::sys::sockaddr::SocketAddress;

static FID_OPS: abi::fi_ops = super::fid::table::<ScalableEndpoint>();

type ScalableTable = WithXpu<abi::fi_ops_ep, ExportXpu<abi::fid_ep>>;

static OPS: ScalableTable = WithXpu {
    table: abi::fi_ops_ep {
        size: size_of::<ScalableTable>(),
        cancel: slot(),
        getopt: slot(),
        setopt: slot(),
        tx_ctx: Some(tx_ctx),
        rx_ctx: Some(rx_ctx),
        rx_size_left: slot(),
        tx_size_left: slot(),
    },
    xpu: slot(),
};

static CM: abi::fi_ops_cm = abi::fi_ops_cm { getname: Some(getname), ..unsupported::CM };

static MSG: abi::fi_ops_msg = unsupported::MSG;

static TAGGED: abi::fi_ops_tagged = unsupported::TAGGED;

// SAFETY: `fid_ep` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for ScalableEndpoint {
    type C = abi::fid_ep;
    const CLASS: u32 = abi::FI_CLASS_SEP;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_ep {
        abi::fid_ep {
            fid,
            ops: std::ptr::from_ref(&OPS).cast_mut().cast(),
            cm: std::ptr::from_ref(&CM).cast_mut(),
            msg: std::ptr::from_ref(&MSG).cast_mut(),
            rma: std::ptr::from_ref(&unsupported::RMA).cast_mut(),
            tagged: std::ptr::from_ref(&TAGGED).cast_mut(),
            atomic: std::ptr::from_ref(&unsupported::ATOMIC).cast_mut(),
            collective: std::ptr::from_ref(&unsupported::COLLECTIVE).cast_mut(),
        }
    }
}

/// `fi_scalable_ep`.
pub(super) unsafe extern "C" fn scalable_ep(
    domain: *mut abi::fid_domain,
    info: *mut abi::fi_info,
    scalable: *mut *mut abi::fid_ep,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { object::object::<Domain>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: an initialised `fi_info`, or NULL.
        let info = unsafe { argument(info) }?;
        // SAFETY: as above: its pointers are NULL or as `fi_getinfo(3)` requires.
        ScalableEndpoint::open(domain, &unsafe { request(info) }?)
    };
    // SAFETY: the man page's contract: `scalable` takes the result.
    unsafe { opened::<ScalableEndpoint>(scalable, context, open) }
}

/// `fi_tx_context`.
unsafe extern "C" fn tx_ctx(
    scalable: *mut abi::fid_ep,
    index: c_int,
    attributes: *mut abi::fi_tx_attr,
    endpoint: *mut *mut abi::fid_ep,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let scalable = unsafe { object::object::<ScalableEndpoint>(scalable.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised and writable, or NULL.
        scalable.tx_context(index, unsafe { attributes.as_mut() })
    };
    // SAFETY: the man page's contract: `endpoint` takes the result.
    unsafe { opened::<Endpoint>(endpoint, context, open) }
}

/// `fi_rx_context`.
unsafe extern "C" fn rx_ctx(
    scalable: *mut abi::fid_ep,
    index: c_int,
    attributes: *mut abi::fi_rx_attr,
    endpoint: *mut *mut abi::fid_ep,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let scalable = unsafe { object::object::<ScalableEndpoint>(scalable.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised and writable, or NULL.
        scalable.rx_context(index, unsafe { attributes.as_mut() })
    };
    // SAFETY: the man page's contract: `endpoint` takes the result.
    unsafe { opened::<Endpoint>(endpoint, context, open) }
}

/// `fi_getname`.
unsafe extern "C" fn getname(
    scalable: *mut abi::fid,
    address: *mut c_void,
    len: *mut usize,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let scalable = unsafe { object::object::<ScalableEndpoint>(scalable) }?;
        let name = SocketAddress::from(scalable.name());
        // SAFETY: the man page's contract: `*len` bytes of room.
        unsafe { copy_out(name.bytes(), address, len) }
    })
}
