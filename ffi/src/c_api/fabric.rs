// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_fabric`.

use std::ffi::{c_int, c_void};

use super::fid::opened;
use super::info::request;
use super::{argument, control, unsupported::slot};
use crate::c_api::object::{self, Object};
use crate::objects::cntr::Cntr;
use crate::objects::cq::Cq;
use crate::objects::domain::Domain;
use crate::objects::eq::{Eq, EqAttributes};
use crate::objects::fabric::Fabric;
use crate::objects::wait_set::{WaitMember as _, WaitSet};
use crate::sys::abi::{self, bits};
use crate::sys::errno::Error;

static FID_OPS: abi::fi_ops = super::fid::table::<Fabric>();

static OPS: abi::fi_ops_fabric = abi::fi_ops_fabric {
    size: size_of::<abi::fi_ops_fabric>(),
    domain: Some(domain),
    passive_ep: Some(super::passive_ep::passive_ep),
    eq_open: Some(eq_open),
    wait_open: Some(wait_open),
    trywait: Some(trywait),
    domain2: slot(),
};

// SAFETY: `fid_fabric` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for Fabric {
    type C = abi::fid_fabric;
    const CLASS: u32 = abi::FI_CLASS_FABRIC;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_fabric {
        abi::fid_fabric {
            fid,
            ops: std::ptr::from_ref(&OPS).cast_mut(),
            api_version: self.api_version(),
        }
    }
}

/// `fi_domain`.
unsafe extern "C" fn domain(
    fabric: *mut abi::fid_fabric,
    info: *mut abi::fi_info,
    domain: *mut *mut abi::fid_domain,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let fabric = unsafe { object::object::<Fabric>(fabric.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: an initialised `fi_info`, or NULL.
        let info = unsafe { argument(info) }?;
        // SAFETY: as above: its pointers are NULL or as `fi_getinfo(3)` requires.
        Domain::open(fabric, &unsafe { request(info) }?)
    };
    // SAFETY: the man page's contract: `domain` takes the result.
    unsafe { opened::<Domain>(domain, context, open) }
}

/// `fi_eq_open`. The hint `FI_AFFINITY` has no effect.
unsafe extern "C" fn eq_open(
    fabric: *mut abi::fid_fabric,
    attributes: *mut abi::fi_eq_attr,
    queue: *mut *mut abi::fid_eq,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let fabric = unsafe { object::object::<Fabric>(fabric.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised, or NULL for the defaults.
        let Some(attributes) = (unsafe { attributes.as_ref() }) else {
            return Eq::open(fabric, EqAttributes::default());
        };
        if attributes.flags & !(bits::WRITE | bits::AFFINITY) != 0 {
            return Err(Error::BadFlags);
        }
        let attributes = EqAttributes {
            size: attributes.size,
            writable: attributes.flags & bits::WRITE != 0,
            // SAFETY: the man page's contract: with `FI_WAIT_SET`, an open wait set.
            wait: unsafe { super::wait_set::object(attributes.wait_obj, attributes.wait_set) }?,
        };
        Eq::open(fabric, attributes)
    };
    // SAFETY: the man page's contract: `queue` takes the result.
    unsafe { opened::<Eq>(queue, context, open) }
}

/// `fi_wait_open`.
unsafe extern "C" fn wait_open(
    fabric: *mut abi::fid_fabric,
    attributes: *mut abi::fi_wait_attr,
    set: *mut *mut abi::fid_wait,
) -> c_int {
    let open = || {
        // SAFETY: the man page's contract: open.
        let fabric = unsafe { object::object::<Fabric>(fabric.cast::<abi::fid>()) }?;
        // SAFETY: the man page's contract: initialised, or NULL.
        let attributes = unsafe { argument(attributes) }?;
        if attributes.flags != 0 {
            return Err(Error::BadFlags);
        }
        match attributes.wait_obj {
            kind @ (abi::FI_WAIT_UNSPEC | abi::FI_WAIT_FD | abi::FI_WAIT_YIELD) => {
                WaitSet::open(fabric, kind)
            }
            abi::FI_WAIT_MUTEX_COND | abi::FI_WAIT_POLLFD => Err(Error::NotSupported),
            _ => Err(Error::Invalid),
        }
    };
    // SAFETY: the man page's contract: `set` takes the result.
    unsafe { opened::<WaitSet>(set, std::ptr::null_mut(), open) }
}

/// `fi_trywait`.
unsafe extern "C" fn trywait(
    fabric: *mut abi::fid_fabric,
    fids: *mut *mut abi::fid,
    count: c_int,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        unsafe { object::object::<Fabric>(fabric.cast::<abi::fid>()) }?;
        let count = usize::try_from(count).map_err(|_| Error::Invalid)?;
        // SAFETY: the man page's contract: `count` pointers to open objects.
        for &object in unsafe { super::array(fids.cast_const(), count) }? {
            // SAFETY: as above.
            unsafe { try_wait(object) }?;
        }
        Ok(())
    })
}

/// `fi_trywait` of one object.
///
/// # Safety
/// `fid` is NULL or an open libfabric object.
unsafe fn try_wait(fid: *mut abi::fid) -> Result<(), Error> {
    // SAFETY: passed on from the caller.
    if let Ok(cq) = unsafe { object::object::<Cq>(fid) } {
        return cq.try_wait();
    }
    // SAFETY: passed on from the caller.
    if let Ok(counter) = unsafe { object::object::<Cntr>(fid) } {
        return counter.try_wait();
    }
    // SAFETY: passed on from the caller.
    if let Ok(eq) = unsafe { object::object::<Eq>(fid) } {
        return eq.try_wait();
    }
    // SAFETY: passed on from the caller.
    unsafe { object::object::<WaitSet>(fid) }?.try_wait()
}

/// `fi_fabric`.
///
/// # Safety
/// The contract of `fi_fabric(3)`.
pub(crate) unsafe fn open(
    attributes: *mut abi::fi_fabric_attr,
    fabric: *mut *mut abi::fid_fabric,
    context: *mut c_void,
) -> c_int {
    let mut passed_through = false;
    let status = control(|| {
        // SAFETY: the man page's contract: initialised, or NULL.
        let attributes = unsafe { argument(attributes) }?;
        // SAFETY: the man page's contract.
        passed_through =
            unsafe { super::passthrough::open(attributes, fabric, context) }?.is_some();
        Ok(())
    });
    if passed_through || status != 0 {
        return status;
    }
    let open = || {
        // SAFETY: the man page's contract: initialised, or NULL.
        let attributes = unsafe { argument(attributes) }?;
        // SAFETY: as above: NULL or a string.
        let name = unsafe { super::text(attributes.name) }?;
        Fabric::open(name, attributes.api_version)
    };
    // SAFETY: the man page's contract: `fabric` takes the result.
    unsafe { opened::<Fabric>(fabric, context, open) }
}
