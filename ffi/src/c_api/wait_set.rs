// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_wait`, and the wait objects of attributes.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use super::control;
use crate::c_api::object::{self, Object};
use crate::objects::wait_set::{WaitObject, WaitSet};
use crate::sys::abi;
use crate::sys::errno::Error;

static FID_OPS: abi::fi_ops = super::fid::table::<WaitSet>();

static OPS: abi::fi_ops_wait =
    abi::fi_ops_wait { size: size_of::<abi::fi_ops_wait>(), wait: Some(wait) };

// SAFETY: `fid_wait` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for WaitSet {
    type C = abi::fid_wait;
    const CLASS: u32 = abi::FI_CLASS_WAIT;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_wait {
        abi::fid_wait { fid, ops: std::ptr::from_ref(&OPS).cast_mut() }
    }
}

/// The wait object of a queue's attributes. `FI_WAIT_YIELD` gets a descriptor too, as blocking
/// calls spin first in any case. A mutex with a condition variable is not supported (`fi_cq(3)`
/// leaves the kinds to the provider).
///
/// # Safety
/// With `FI_WAIT_SET`, `set` is NULL or an open wait set.
pub(super) unsafe fn object(
    kind: abi::fi_wait_obj,
    set: *mut abi::fid_wait,
) -> Result<WaitObject, Error> {
    match kind {
        abi::FI_WAIT_NONE => Ok(WaitObject::None),
        abi::FI_WAIT_UNSPEC | abi::FI_WAIT_FD | abi::FI_WAIT_YIELD => Ok(WaitObject::Own(kind)),
        abi::FI_WAIT_SET => {
            // SAFETY: promised by the caller.
            let set = unsafe { object::object::<WaitSet>(set.cast::<abi::fid>()) }?;
            Ok(WaitObject::Set(Arc::clone(set)))
        }
        abi::FI_WAIT_MUTEX_COND | abi::FI_WAIT_POLLFD => Err(Error::NotSupported),
        _ => Err(Error::Invalid),
    }
}

/// `fi_wait`: a negative timeout waits for ever.
unsafe extern "C" fn wait(set: *mut abi::fid_wait, timeout_ms: c_int) -> c_int {
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    // SAFETY: the man page's contract: open.
    control(|| unsafe { object::object::<WaitSet>(set.cast::<abi::fid>()) }?.wait(timeout))
}
