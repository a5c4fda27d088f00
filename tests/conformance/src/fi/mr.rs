// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_mr(3)`.

use std::ffi::c_void;

use super::{Answer, Fid, Object, is_fid};
use crate::abi;

/// `struct fid_mr`.
#[derive(Debug)]
pub(crate) struct Mr {
    pub(super) object: Object<abi::fid_mr>,
}

is_fid!(Mr);

impl Mr {
    /// `fi_mr_key`.
    pub(crate) fn key(&self) -> u64 {
        // SAFETY: the region is open (`Object`).
        unsafe { (*self.object.get()).key }
    }

    /// `fi_mr_desc`.
    pub(crate) fn desc(&self) -> *mut c_void {
        // SAFETY: as above.
        unsafe { (*self.object.get()).mem_desc }
    }

    /// `fi_mr_enable`.
    pub(crate) fn enable(&self) -> Answer {
        self.control(abi::FI_ENABLE, std::ptr::null_mut())
    }
}
