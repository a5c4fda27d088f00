// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_domain`.

use std::ffi::{c_int, c_void};

use ofi_xdp_core::{ATOMIC_LEN_MAX, AtomicForm};

use super::fid::opened;
use super::info::request;
use super::unsupported::{WithXpu, XpuContext, slot};
use super::{answer, argument, control};
use crate::abi::{self, bits};
use crate::av::{Av, AvAttributes};
use crate::cntr::Cntr;
use crate::cq::{Cq, CqAttributes};
use crate::domain::Domain;
use crate::ep::Endpoint;
use crate::errno::Error;
use crate::fid::{self, Object};
use crate::ops::DomainOps;
use crate::poll_set::PollSet;
use crate::srx::SharedRx;
use crate::stx::SharedTx;
use crate::wait_set::WaitObject;

static FID_OPS: abi::fi_ops = super::fid::table::<Domain>();

type Ops = WithXpu<abi::fi_ops_domain, XpuContext>;

static OPS: Ops = WithXpu {
    table: abi::fi_ops_domain {
        size: size_of::<Ops>(),
        av_open: Some(av_open::<Domain>),
        cq_open: Some(cq_open::<Domain>),
        endpoint: Some(endpoint::<Domain>),
        scalable_ep: slot(),
        cntr_open: Some(cntr_open::<Domain>),
        poll_open: Some(poll_open::<Domain>),
        stx_ctx: Some(stx_ctx::<Domain>),
        srx_ctx: Some(srx_ctx::<Domain>),
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
        // SAFETY: the man page's contract: initialised and writable, or NULL.
        let attributes = unsafe { attributes.as_mut() }.ok_or(Error::Invalid)?;
        // SAFETY: as above: NULL or a string.
        let vector = domain.address_vector(&unsafe { av_attributes(attributes) }?)?;
        if attributes.type_ == abi::FI_AV_UNSPEC {
            attributes.type_ = abi::FI_AV_TABLE;
        }
        if !attributes.name.is_null() && attributes.map_addr.is_null() {
            attributes.map_addr = vector.addresses().as_ptr().cast_mut().cast();
        }
        Ok(vector)
    };
    // SAFETY: the man page's contract: `vector` takes the result.
    unsafe { opened::<Av>(vector, context, open) }
}

/// `FI_SYMMETRIC`, `ep_per_node` and the bits of receive contexts change nothing here.
///
/// # Safety
/// `name` is NULL or a string.
unsafe fn av_attributes(attributes: &abi::fi_av_attr) -> Result<AvAttributes, Error> {
    let flags = attributes.flags;
    if attributes.type_ > abi::FI_AV_TABLE || attributes.rx_ctx_bits != 0 {
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
    })
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
            // SAFETY: as above: its pointers are NULL or open objects.
            Some(attributes) => unsafe { cq_attributes(attributes) }?,
        };
        domain.completion_queue(attributes)
    };
    // SAFETY: the man page's contract: `queue` takes the result.
    unsafe { opened::<Cq>(queue, context, open) }
}

/// Only what changes how the queue works; its size does not: it holds as many completions as its
/// endpoints can have operations. Nor does the wait condition, which is a hint.
///
/// # Safety
/// With `FI_WAIT_SET`, `wait_set` is NULL or an open wait set.
unsafe fn cq_attributes(attributes: &abi::fi_cq_attr) -> Result<CqAttributes, Error> {
    // Another provider's queue (fi_peer(3)) would expect its completions there, not here.
    if attributes.format > abi::FI_CQ_FORMAT_TAGGED || attributes.flags & bits::PEER != 0 {
        return Err(Error::NotSupported);
    }
    if attributes.wait_cond > abi::FI_CQ_COND_THRESHOLD {
        return Err(Error::Invalid);
    }
    // SAFETY: promised by the caller.
    let wait = unsafe { super::wait::object(attributes.wait_obj, attributes.wait_set) }?;
    Ok(CqAttributes { format: attributes.format, wait })
}

/// `fi_cntr_open`.
unsafe extern "C" fn cntr_open<T>(
    domain: *mut abi::fid_domain,
    attributes: *mut abi::fi_cntr_attr,
    counter: *mut *mut abi::fid_cntr,
    context: *mut c_void,
) -> c_int
where
    T: DomainOps + Object,
{
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { fid::object::<T>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised, or NULL for the defaults.
        let Some(attributes) = (unsafe { attributes.as_ref() }) else {
            return domain.counter(WaitObject::None);
        };
        if attributes.events != abi::FI_CNTR_EVENTS_COMP {
            return Err(Error::NotSupported);
        }
        // SAFETY: as above: with `FI_WAIT_SET`, an open wait set.
        let wait = unsafe { super::wait::object(attributes.wait_obj, attributes.wait_set) }?;
        domain.counter(wait)
    };
    // SAFETY: the man page's contract: `counter` takes the result.
    unsafe { opened::<Cntr>(counter, context, open) }
}

/// `fi_poll_open`.
unsafe extern "C" fn poll_open<T>(
    domain: *mut abi::fid_domain,
    attributes: *mut abi::fi_poll_attr,
    set: *mut *mut abi::fid_poll,
) -> c_int
where
    T: DomainOps + Object,
{
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { fid::object::<T>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised, or NULL for the defaults.
        match unsafe { attributes.as_ref() } {
            Some(attributes) if attributes.flags != 0 => Err(Error::BadFlags),
            _ => domain.poll_set(),
        }
    };
    // SAFETY: the man page's contract: `set` takes the result.
    unsafe { opened::<PollSet>(set, std::ptr::null_mut(), open) }
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

/// `fi_stx_context`.
unsafe extern "C" fn stx_ctx<T>(
    domain: *mut abi::fid_domain,
    attributes: *mut abi::fi_tx_attr,
    shared: *mut *mut abi::fid_stx,
    context: *mut c_void,
) -> c_int
where
    T: DomainOps + Object,
{
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { fid::object::<T>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised, or NULL for the defaults.
        domain.shared_transmits(unsafe { attributes.as_ref() })
    };
    // SAFETY: the man page's contract: `shared` takes the result.
    unsafe { opened::<SharedTx>(shared, context, open) }
}

/// `fi_srx_context`.
unsafe extern "C" fn srx_ctx<T>(
    domain: *mut abi::fid_domain,
    attributes: *mut abi::fi_rx_attr,
    shared: *mut *mut abi::fid_ep,
    context: *mut c_void,
) -> c_int
where
    T: DomainOps + Object,
{
    let open = || {
        // SAFETY: the man page's contract: open.
        let domain = unsafe { fid::object::<T>(domain.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised, or NULL for the defaults.
        domain.shared_receives(unsafe { attributes.as_ref() })
    };
    // SAFETY: the man page's contract: `shared` takes the result.
    unsafe { opened::<SharedRx>(shared, context, open) }
}

/// `fi_query_atomic`: which form, by flags, and how many elements at most.
unsafe extern "C" fn query_atomic(
    _domain: *mut abi::fid_domain,
    datatype: abi::fi_datatype,
    op: abi::fi_op,
    attributes: *mut abi::fi_atomic_attr,
    flags: u64,
) -> c_int {
    control(|| {
        if flags & bits::TAGGED != 0 {
            // Tagged receive buffers are no targets here.
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
