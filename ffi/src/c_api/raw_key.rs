// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw keys (`fi_mr(3)`): `fi_mr_raw_attr`, `fi_mr_map_raw`, `fi_mr_unmap_key`.
//!
//! In: the control calls that libfabric's inline functions make. Out: the bytes of a key, and the
//! key of bytes. The provider does not require raw keys (`FI_MR_RAW`), but supports them for every
//! region, because some applications use them for all keys. Bound: constant.

use std::ffi::c_void;

use super::{answer, argument};
use crate::c_api::object;
use crate::objects::domain::Domain;
use crate::objects::mr::MemoryRegion;
use crate::sys::abi;
use crate::sys::errno::Error;

/// Length of a raw key, equal to `mr_key_size`.
const LEN: usize = size_of::<u64>();

/// `FI_GET_RAW_MR` on a region, `FI_MAP_RAW_MR` and `FI_UNMAP_KEY` on a domain.
///
/// # Safety
/// `fid` is NULL or an open object. `given` is NULL or the argument of the command, with pointers
/// that are NULL or as `fi_mr(3)` requires.
pub(super) unsafe fn control(
    fid: *mut abi::fid,
    command: u32,
    given: *mut c_void,
) -> Result<(), Error> {
    if command == abi::FI_GET_RAW_MR {
        // SAFETY: promised by the caller.
        let region = unsafe { object::object::<MemoryRegion>(fid) }?;
        // SAFETY: as above.
        return unsafe { write_key(region, given.cast()) };
    }
    // SAFETY: as above.
    unsafe { object::object::<Domain>(fid) }?;
    // SAFETY: as above. A key that is not used any more has nothing to give back.
    if command == abi::FI_MAP_RAW_MR { unsafe { map(given.cast()) } } else { Ok(()) }
}

/// Writes the key and the base address. The length of the key is written even without room for it.
///
/// # Safety
/// Those of [`control`].
unsafe fn write_key(region: &MemoryRegion, given: *const abi::fi_mr_raw_attr) -> Result<(), Error> {
    // SAFETY: promised by the caller, here and below.
    let wanted = unsafe { argument(given) }?;
    // SAFETY: as above.
    let room = *unsafe { argument(wanted.key_size) }?;
    // SAFETY: as above.
    unsafe { answer(wanted.key_size, LEN) }?;
    if room < LEN {
        return Err(Error::TooSmall);
    }
    if !wanted.base_addr.is_null() {
        // SAFETY: as above.
        unsafe { answer(wanted.base_addr, region.address()) }?;
    }
    // SAFETY: as above: there is room for `LEN` bytes, of any alignment.
    unsafe { answer(wanted.raw_key.cast::<[u8; LEN]>(), region.key().to_le_bytes()) }
}

/// Writes the key of these bytes.
///
/// # Safety
/// Those of [`control`].
unsafe fn map(given: *const abi::fi_mr_map_raw) -> Result<(), Error> {
    // SAFETY: promised by the caller.
    let wanted = unsafe { argument(given) }?;
    if wanted.key_size != LEN {
        return Err(Error::Invalid);
    }
    // SAFETY: as above: `LEN` bytes, of any alignment.
    let bytes = unsafe { argument(wanted.raw_key.cast::<[u8; LEN]>()) }?;
    // SAFETY: as above.
    unsafe { answer(wanted.key, u64::from_le_bytes(*bytes)) }
}
