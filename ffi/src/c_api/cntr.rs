// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_cntr`.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use super::control;
use super::unsupported::{ExportXpu, WithXpu, slot};
use crate::c_api::object::{self, Object};
use crate::objects::cntr::Cntr;
use crate::sys::abi;
use crate::sys::errno::Error;

static FID_OPS: abi::fi_ops = super::fid::table::<Cntr>();

type CntrTable = WithXpu<abi::fi_ops_cntr, ExportXpu<abi::fid_cntr>>;

static OPS: CntrTable = WithXpu {
    table: abi::fi_ops_cntr {
        size: size_of::<CntrTable>(),
        read: Some(read),
        readerr: Some(readerr),
        add: Some(add),
        set: Some(set),
        wait: Some(wait),
        adderr: Some(adderr),
        seterr: Some(seterr),
    },
    xpu: slot(),
};

// SAFETY: `fid_cntr` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for Cntr {
    type C = abi::fid_cntr;
    const CLASS: u32 = abi::FI_CLASS_CNTR;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_cntr {
        abi::fid_cntr { fid, ops: std::ptr::from_ref(&OPS).cast_mut().cast() }
    }
}

/// The object behind the pointer of a counter.
///
/// # Safety
/// Those of [`object::object`].
unsafe fn counter<'a>(cntr: *mut abi::fid_cntr) -> Result<&'a Arc<Cntr>, Error> {
    // SAFETY: passed on from the caller.
    unsafe { object::object(cntr.cast::<abi::fid>()) }
}

/// `fi_cntr_read`; 0 for an invalid pointer, as the call returns no error.
unsafe extern "C" fn read(cntr: *mut abi::fid_cntr) -> u64 {
    // SAFETY: the man page's contract: open.
    unsafe { counter(cntr) }.map_or(0, |it| it.value())
}

/// `fi_cntr_readerr`.
unsafe extern "C" fn readerr(cntr: *mut abi::fid_cntr) -> u64 {
    // SAFETY: the man page's contract: open.
    unsafe { counter(cntr) }.map_or(0, |it| it.errors())
}

/// `fi_cntr_add`.
unsafe extern "C" fn add(cntr: *mut abi::fid_cntr, value: u64) -> c_int {
    // SAFETY: the man page's contract: open.
    control(|| unsafe { counter(cntr) }.map(|it| it.add(value, 0)))
}

/// `fi_cntr_adderr`.
unsafe extern "C" fn adderr(cntr: *mut abi::fid_cntr, value: u64) -> c_int {
    // SAFETY: the man page's contract: open.
    control(|| unsafe { counter(cntr) }.map(|it| it.add(0, value)))
}

/// `fi_cntr_set`.
unsafe extern "C" fn set(cntr: *mut abi::fid_cntr, value: u64) -> c_int {
    // SAFETY: the man page's contract: open.
    control(|| unsafe { counter(cntr) }.map(|it| it.set(Some(value), None)))
}

/// `fi_cntr_seterr`.
unsafe extern "C" fn seterr(cntr: *mut abi::fid_cntr, value: u64) -> c_int {
    // SAFETY: the man page's contract: open.
    control(|| unsafe { counter(cntr) }.map(|it| it.set(None, Some(value))))
}

/// `fi_cntr_wait`; a negative time waits for ever.
unsafe extern "C" fn wait(cntr: *mut abi::fid_cntr, threshold: u64, timeout_ms: c_int) -> c_int {
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    // SAFETY: the man page's contract: open.
    control(|| unsafe { counter(cntr) }?.wait(threshold, timeout))
}
