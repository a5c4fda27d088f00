// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_domain`.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use ofi_xdp_core::{ATOMIC_LEN_MAX, AtomicForm};

use super::fid::opened;
use super::info::request;
use super::unsupported::{WithXpu, XpuContext, slot};
use super::{answer, argument, control};
use crate::c_api::object::{self, Object};
use crate::endpoint::passive::PassiveEndpoint;
use crate::endpoint::shared_rx::SharedRx;
use crate::endpoint::shared_tx::SharedTx;
use crate::endpoint::{Endpoint, Handle};
use crate::objects::av::{Av, AvAttributes};
use crate::objects::cntr::Cntr;
use crate::objects::connection_manager::ConnectionRequest;
use crate::objects::cq::{Cq, CqAttributes};
use crate::objects::domain::Domain;
use crate::objects::poll_set::PollSet;
use crate::objects::wait_set::WaitObject;
use crate::runtime::addresses::CONTEXT_BITS_MAX;
use crate::sys::abi::{self, bits};
use crate::sys::errno::Error;

static FID_OPS: abi::fi_ops = super::fid::table::<Domain>();

type DomainTable = WithXpu<abi::fi_ops_domain, XpuContext>;

static OPS: DomainTable = WithXpu {
    table: abi::fi_ops_domain {
        size: size_of::<DomainTable>(),
        av_open: Some(av_open),
        cq_open: Some(cq_open),
        endpoint: Some(endpoint),
        scalable_ep: Some(super::scalable::scalable_ep),
        cntr_open: Some(cntr_open),
        poll_open: Some(poll_open),
        stx_ctx: Some(stx_ctx),
        srx_ctx: Some(srx_ctx),
        query_atomic: Some(query_atomic),
        query_collective: slot(),
        endpoint2: slot(),
    },
    xpu: slot(),
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
            ops: std::ptr::from_ref(&OPS).cast_mut().cast(),
            mr: std::ptr::from_ref(&super::mr::OPS).cast_mut(),
        }
    }
}

/// `fi_av_open`.
unsafe extern "C" fn av_open(
    domain: *mut abi::fid_domain,
    attributes: *mut abi::fi_av_attr,
    vector: *mut *mut abi::fid_av,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { object::object::<Domain>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised and writable, or NULL.
        let attributes = unsafe { attributes.as_mut() }.ok_or(Error::Invalid)?;
        // SAFETY: as above: NULL or a string.
        let vector = Av::open(domain, &unsafe { av_attributes(attributes) }?)?;
        if attributes.type_ == abi::FI_AV_UNSPEC {
            attributes.type_ = abi::FI_AV_TABLE;
        }
        if !attributes.name.is_null() && attributes.map_addr.is_null() {
            attributes.map_addr = vector.first_addresses().as_ptr().cast_mut().cast();
        }
        Ok(vector)
    };
    // SAFETY: the man page's contract: `vector` takes the result.
    unsafe { opened::<Av>(vector, context, open) }
}

/// The attributes of a vector. `FI_SYMMETRIC` and `ep_per_node` have no effect.
///
/// # Safety
/// `name` is NULL or a string.
unsafe fn av_attributes(attributes: &abi::fi_av_attr) -> Result<AvAttributes, Error> {
    let flags = attributes.flags;
    let context_bits = u32::try_from(attributes.rx_ctx_bits).map_err(|_| Error::Invalid)?;
    if attributes.type_ > abi::FI_AV_TABLE || context_bits > CONTEXT_BITS_MAX {
        return Err(Error::Invalid);
    }
    if flags & !(bits::EVENT | bits::READ | bits::SYMMETRIC) != 0 {
        return Err(Error::BadFlags);
    }
    Ok(AvAttributes {
        expected: attributes.count,
        events: flags & bits::EVENT != 0,
        // SAFETY: promised by the caller.
        name: unsafe { super::text(attributes.name) }?,
        read_only: flags & bits::READ != 0,
        context_bits,
    })
}

/// `fi_cq_open`.
unsafe extern "C" fn cq_open(
    domain: *mut abi::fid_domain,
    attributes: *mut abi::fi_cq_attr,
    queue: *mut *mut abi::fid_cq,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { object::object::<Domain>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised, or NULL for the defaults.
        let attributes = match unsafe { attributes.as_ref() } {
            None => CqAttributes::default(),
            // SAFETY: as above: its pointers are NULL or open objects.
            Some(attributes) => unsafe { cq_attributes(attributes) }?,
        };
        Cq::open(domain, attributes)
    };
    // SAFETY: the man page's contract: `queue` takes the result.
    unsafe { opened::<Cq>(queue, context, open) }
}

/// The attributes of a queue. The size has no effect: a queue holds as many completions as its
/// endpoints can have operations. The wait condition is a hint, without effect.
///
/// # Safety
/// With `FI_WAIT_SET`, `wait_set` is NULL or an open wait set.
unsafe fn cq_attributes(attributes: &abi::fi_cq_attr) -> Result<CqAttributes, Error> {
    // With `FI_PEER`, completions would go to another provider's queue (fi_peer(3)).
    if attributes.format > abi::FI_CQ_FORMAT_TAGGED || attributes.flags & bits::PEER != 0 {
        return Err(Error::NotSupported);
    }
    if attributes.wait_cond > abi::FI_CQ_COND_THRESHOLD {
        return Err(Error::Invalid);
    }
    // SAFETY: promised by the caller.
    let wait = unsafe { super::wait_set::object(attributes.wait_obj, attributes.wait_set) }?;
    Ok(CqAttributes { format: attributes.format, wait })
}

/// `fi_cntr_open`.
unsafe extern "C" fn cntr_open(
    domain: *mut abi::fid_domain,
    attributes: *mut abi::fi_cntr_attr,
    counter: *mut *mut abi::fid_cntr,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { object::object::<Domain>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised, or NULL for the defaults.
        let Some(attributes) = (unsafe { attributes.as_ref() }) else {
            return Cntr::open(domain, WaitObject::None);
        };
        if attributes.events != abi::FI_CNTR_EVENTS_COMP {
            return Err(Error::NotSupported);
        }
        // SAFETY: as above: with `FI_WAIT_SET`, an open wait set.
        let wait = unsafe { super::wait_set::object(attributes.wait_obj, attributes.wait_set) }?;
        Cntr::open(domain, wait)
    };
    // SAFETY: the man page's contract: `counter` takes the result.
    unsafe { opened::<Cntr>(counter, context, open) }
}

/// `fi_poll_open`.
unsafe extern "C" fn poll_open(
    domain: *mut abi::fid_domain,
    attributes: *mut abi::fi_poll_attr,
    set: *mut *mut abi::fid_poll,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { object::object::<Domain>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised, or NULL for the defaults.
        match unsafe { attributes.as_ref() } {
            Some(attributes) if attributes.flags != 0 => Err(Error::BadFlags),
            _ => Ok(PollSet::open(domain)),
        }
    };
    // SAFETY: the man page's contract: `set` takes the result.
    unsafe { opened::<PollSet>(set, std::ptr::null_mut(), open) }
}

/// `fi_endpoint`.
unsafe extern "C" fn endpoint(
    domain: *mut abi::fid_domain,
    info: *mut abi::fi_info,
    endpoint: *mut *mut abi::fid_ep,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { object::object::<Domain>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: an initialised `fi_info`, or NULL.
        let info = unsafe { argument(info) }?;
        // SAFETY: as above: its pointers are NULL or as `fi_getinfo(3)` requires.
        let wanted = unsafe { request(info) }?;
        // SAFETY: as above: NULL or an open object.
        Endpoint::open(domain, &wanted, unsafe { handle(info.handle) }?)
    };
    // SAFETY: the man page's contract: `endpoint` takes the result.
    unsafe { opened::<Endpoint>(endpoint, context, open) }
}

/// The object that an endpoint is opened from.
///
/// # Safety
/// `fid` is NULL or an open libfabric object.
unsafe fn handle(fid: *mut abi::fid) -> Result<Handle, Error> {
    if fid.is_null() {
        return Ok(Handle::None);
    }
    // SAFETY: promised by the caller.
    if let Ok(passive) = unsafe { object::object::<PassiveEndpoint>(fid) } {
        return Ok(Handle::Passive(Arc::clone(passive)));
    }
    // SAFETY: promised by the caller.
    let request = unsafe { object::object::<ConnectionRequest>(fid) }?;
    Ok(Handle::Request(Arc::clone(request)))
}

/// `fi_stx_context`.
unsafe extern "C" fn stx_ctx(
    domain: *mut abi::fid_domain,
    attributes: *mut abi::fi_tx_attr,
    shared: *mut *mut abi::fid_stx,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { object::object::<Domain>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised, or NULL for the defaults.
        SharedTx::open(domain, unsafe { attributes.as_ref() })
    };
    // SAFETY: the man page's contract: `shared` takes the result.
    unsafe { opened::<SharedTx>(shared, context, open) }
}

/// `fi_srx_context`.
unsafe extern "C" fn srx_ctx(
    domain: *mut abi::fid_domain,
    attributes: *mut abi::fi_rx_attr,
    shared: *mut *mut abi::fid_ep,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { object::object::<Domain>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised, or NULL for the defaults.
        SharedRx::open(domain, unsafe { attributes.as_ref() })
    };
    // SAFETY: the man page's contract: `shared` takes the result.
    unsafe { opened::<SharedRx>(shared, context, open) }
}

/// `fi_query_atomic`: the form is given by flags; the answer is the greatest number of elements.
unsafe extern "C" fn query_atomic(
    _domain: *mut abi::fid_domain,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
    attributes: *mut abi::fi_atomic_attr,
    flags: u64,
) -> c_int {
    control(|| {
        if flags & bits::TAGGED != 0 {
            // Tagged receive buffers cannot be targets.
            return Err(Error::NotOffered);
        }
        let form = match flags & (bits::FETCH_ATOMIC | bits::COMPARE_ATOMIC) {
            0 => AtomicForm::Base,
            bits::FETCH_ATOMIC => AtomicForm::Fetch,
            bits::COMPARE_ATOMIC => AtomicForm::Compare,
            _ => return Err(Error::BadFlags),
        };
        let (datatype, _) = super::atomic::known(form, datatype, op)?;
        let size = datatype.size();
        let count = ATOMIC_LEN_MAX / size;
        // SAFETY: the man page's contract: writable.
        unsafe { answer(attributes, abi::fi_atomic_attr { count, size }) }
    })
}
