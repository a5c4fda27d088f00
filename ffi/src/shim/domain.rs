// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_domain`.

use std::ffi::{c_int, c_void};

use super::fid::opened;
use super::info::request;
use super::{argument, unsupported::slot};
use crate::abi::{self, bits};
use crate::av::Av;
use crate::cq::{Cq, CqAttributes};
use crate::domain::Domain;
use crate::ep::Endpoint;
use crate::errno::Error;
use crate::fid::{self, Object};
use crate::ops::DomainOps;

static FID_OPS: abi::fi_ops = super::fid::table::<Domain>();

pub(super) static OPS: abi::fi_ops_domain = abi::fi_ops_domain {
    size: size_of::<abi::fi_ops_domain>(),
    av_open: Some(av_open::<Domain>),
    cq_open: Some(cq_open::<Domain>),
    endpoint: Some(endpoint::<Domain>),
    scalable_ep: slot(),
    cntr_open: slot(),
    poll_open: slot(),
    stx_ctx: slot(),
    srx_ctx: slot(),
    query_atomic: Some(query_atomic),
    query_collective: slot(),
    endpoint2: slot(),
};

// SAFETY: `fid_domain` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for Domain {
    type C = abi::fid_domain;
    const CLASS: u32 = abi::FI_CLASS_DOMAIN;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_domain {
        abi::fid_domain {
            fid,
            ops: std::ptr::from_ref(&OPS).cast_mut(),
            mr: std::ptr::from_ref(&super::mr::OPS).cast_mut(),
        }
    }
}

/// `fi_av_open`.
unsafe extern "C" fn av_open<T>(
    domain: *mut abi::fid_domain,
    attributes: *mut abi::fi_av_attr,
    vector: *mut *mut abi::fid_av,
    context: *mut c_void,
) -> c_int
where
    T: DomainOps + Object,
{
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { fid::object::<T>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised, or NULL.
        let attributes = unsafe { argument(attributes) }?;
        if attributes.type_ > abi::FI_AV_TABLE {
            return Err(Error::Invalid);
        }
        if !attributes.name.is_null() {
            // A name shares the vector between processes: FI_SHARED_AV, which is not offered.
            return Err(Error::NotSupported);
        }
        domain.address_vector(attributes.count, attributes.flags)
    };
    // SAFETY: the man page's contract: `vector` takes the result.
    unsafe { opened::<Av>(vector, context, open) }
}

/// `fi_cq_open`.
unsafe extern "C" fn cq_open<T>(
    domain: *mut abi::fid_domain,
    attributes: *mut abi::fi_cq_attr,
    queue: *mut *mut abi::fid_cq,
    context: *mut c_void,
) -> c_int
where
    T: DomainOps + Object,
{
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { fid::object::<T>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised, or NULL for the defaults.
        let attributes = match unsafe { attributes.as_ref() } {
            None => CqAttributes::default(),
            Some(attributes) => cq_attributes(attributes)?,
        };
        domain.completion_queue(attributes)
    };
    // SAFETY: the man page's contract: `queue` takes the result.
    unsafe { opened::<Cq>(queue, context, open) }
}

/// Only what changes how the queue works; its size does not: it holds as many completions as its
/// endpoints can have operations.
fn cq_attributes(attributes: &abi::fi_cq_attr) -> Result<CqAttributes, Error> {
    // Another provider's queue (fi_peer(3)) would expect its completions there, not here.
    if attributes.format > abi::FI_CQ_FORMAT_TAGGED || attributes.flags & bits::PEER != 0 {
        return Err(Error::NotSupported);
    }
    let wait = match attributes.wait_obj {
        abi::FI_WAIT_NONE => false,
        abi::FI_WAIT_UNSPEC | abi::FI_WAIT_FD | abi::FI_WAIT_YIELD => true,
        _ => return Err(Error::NotSupported),
    };
    Ok(CqAttributes { format: attributes.format, wait })
}

/// `fi_endpoint`.
unsafe extern "C" fn endpoint<T>(
    domain: *mut abi::fid_domain,
    info: *mut abi::fi_info,
    endpoint: *mut *mut abi::fid_ep,
    context: *mut c_void,
) -> c_int
where
    T: DomainOps + Object,
{
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { fid::object::<T>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: an initialised `fi_info`, or NULL.
        let info = unsafe { argument(info) }?;
        // SAFETY: as above: its pointers are NULL or what `fi_getinfo(3)` says.
        domain.endpoint(&unsafe { request(info) }?)
    };
    // SAFETY: the man page's contract: `endpoint` takes the result.
    unsafe { opened::<Endpoint>(endpoint, context, open) }
}

/// `fi_query_atomic`: no operation is supported.
unsafe extern "C" fn query_atomic(
    _: *mut abi::fid_domain,
    _: abi::fi_datatype,
    _: abi::fi_op,
    _: *mut abi::fi_atomic_attr,
    _: u64,
) -> c_int {
    -abi::FI_EOPNOTSUPP.cast_signed()
}
