// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_mr(3)`.

use std::ffi::c_void;

use super::abi;
use super::{Answer, Fid, Object, is_fid};

/// `struct fid_mr`.
#[derive(Debug)]
pub struct Mr {
    pub(super) object: Object<abi::fid_mr>,
}

is_fid!(Mr);

impl Mr {
    /// `fi_mr_key`.
    pub fn key(&self) -> u64 {
        // SAFETY: the region is open (`Object`).
        unsafe { (*self.object.get()).key }
    }

    /// `fi_mr_desc`.
    pub fn desc(&self) -> *mut c_void {
        // SAFETY: as above.
        unsafe { (*self.object.get()).mem_desc }
    }

    /// `fi_mr_raw_attr` with room for `room` bytes: the raw key and the base address.
    pub fn raw_attr(&self, room: usize) -> Answer<(Vec<u8>, u64)> {
        let (mut key, mut base, mut size) = (vec![0; room], 0, room);
        self.ask_raw(&raw mut base, key.as_mut_ptr(), &raw mut size)?;
        key.truncate(size);
        Ok((key, base))
    }

    /// `fi_mr_raw_attr` into `room` bytes: its answer, and the size that it reports.
    pub fn raw_attr_size(&self, room: usize) -> (Answer, usize) {
        let (mut key, mut base, mut size) = (vec![0; room], 0, room);
        let answer = self.ask_raw(&raw mut base, key.as_mut_ptr(), &raw mut size);
        (answer, size)
    }

    fn ask_raw(&self, base_addr: *mut u64, raw_key: *mut u8, key_size: *mut usize) -> Answer {
        let mut attr = abi::fi_mr_raw_attr { flags: 0, base_addr, raw_key, key_size };
        self.control(abi::FI_GET_RAW_MR, (&raw mut attr).cast())
    }

    /// `fi_mr_enable`.
    pub fn enable(&self) -> Answer {
        self.control(abi::FI_ENABLE, std::ptr::null_mut())
    }
}
