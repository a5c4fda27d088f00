// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_cntr`.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use super::control;
use super::unsupported::{ExportXpu, WithXpu, slot};
use crate::abi;
use crate::cntr::Cntr;
use crate::errno::Error;
use crate::fid::{self, Object};
use crate::ops::CntrOps;

static FID_OPS: abi::fi_ops = super::fid::table::<Cntr>();

type Ops = WithXpu<abi::fi_ops_cntr, ExportXpu<abi::fid_cntr>>;

static OPS: Ops = WithXpu {
    table: abi::fi_ops_cntr {
        size: size_of::<Ops>(),
        read: Some(read::<Cntr>),
        readerr: Some(readerr::<Cntr>),
        add: Some(add::<Cntr>),
        set: Some(set::<Cntr>),
        wait: Some(wait::<Cntr>),
        adderr: Some(adderr::<Cntr>),
        seterr: Some(seterr::<Cntr>),
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

/// Our object behind the pointer of a counter.
///
/// # Safety
/// As [`fid::object`].
unsafe fn counter<'a, T: Object>(cntr: *mut abi::fid_cntr) -> Result<&'a Arc<T>, Error> {
    // SAFETY: passed on from the caller.
    unsafe { fid::object(cntr.cast::<abi::fid>()) }
}

/// `fi_cntr_read`; 0 for what is no counter, as the call has no error.
unsafe extern "C" fn read<T: CntrOps + Object>(cntr: *mut abi::fid_cntr) -> u64 {
    // SAFETY: the man page's contract: open.
    unsafe { counter::<T>(cntr) }.map_or(0, |it| it.value())
}

/// `fi_cntr_readerr`.
unsafe extern "C" fn readerr<T: CntrOps + Object>(cntr: *mut abi::fid_cntr) -> u64 {
    // SAFETY: the man page's contract: open.
    unsafe { counter::<T>(cntr) }.map_or(0, |it| it.errors())
}

/// `fi_cntr_add`.
unsafe extern "C" fn add<T: CntrOps + Object>(cntr: *mut abi::fid_cntr, value: u64) -> c_int {
    // SAFETY: the man page's contract: open.
    control(|| unsafe { counter::<T>(cntr) }.map(|it| it.add(value, 0)))
}

/// `fi_cntr_adderr`.
unsafe extern "C" fn adderr<T: CntrOps + Object>(cntr: *mut abi::fid_cntr, value: u64) -> c_int {
    // SAFETY: the man page's contract: open.
    control(|| unsafe { counter::<T>(cntr) }.map(|it| it.add(0, value)))
}

/// `fi_cntr_set`.
unsafe extern "C" fn set<T: CntrOps + Object>(cntr: *mut abi::fid_cntr, value: u64) -> c_int {
    // SAFETY: the man page's contract: open.
    control(|| unsafe { counter::<T>(cntr) }.map(|it| it.set(Some(value), None)))
}

/// `fi_cntr_seterr`.
unsafe extern "C" fn seterr<T: CntrOps + Object>(cntr: *mut abi::fid_cntr, value: u64) -> c_int {
    // SAFETY: the man page's contract: open.
    control(|| unsafe { counter::<T>(cntr) }.map(|it| it.set(None, Some(value))))
}

/// `fi_cntr_wait`; a negative time waits for ever.
unsafe extern "C" fn wait<T: CntrOps + Object>(
    cntr: *mut abi::fid_cntr,
    threshold: u64,
    timeout_ms: c_int,
) -> c_int {
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    // SAFETY: the man page's contract: open.
    control(|| unsafe { counter::<T>(cntr) }?.wait(threshold, timeout))
}
