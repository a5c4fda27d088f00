// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_cntr(3)`.

use std::ffi::c_int;

use super::abi;
use super::{Answer, Object, done, is_fid};

/// `struct fid_cntr`.
#[derive(Debug)]
pub struct Cntr {
    pub(super) object: Object<abi::fid_cntr>,
}

is_fid!(Cntr);

impl Cntr {
    /// `fi_cntr_read`.
    pub fn read(&self) -> u64 {
        let cntr = self.object.get();
        call!(fi_cntr_read(cntr))
    }

    /// `fi_cntr_readerr`.
    pub fn readerr(&self) -> u64 {
        let cntr = self.object.get();
        call!(fi_cntr_readerr(cntr))
    }

    /// `fi_cntr_add`.
    pub fn add(&self, value: u64) -> Answer {
        let cntr = self.object.get();
        done(call!(fi_cntr_add(cntr, value)))
    }

    /// `fi_cntr_adderr`.
    pub fn adderr(&self, value: u64) -> Answer {
        let cntr = self.object.get();
        done(call!(fi_cntr_adderr(cntr, value)))
    }

    /// `fi_cntr_set`.
    pub fn set(&self, value: u64) -> Answer {
        let cntr = self.object.get();
        done(call!(fi_cntr_set(cntr, value)))
    }

    /// `fi_cntr_seterr`.
    pub fn seterr(&self, value: u64) -> Answer {
        let cntr = self.object.get();
        done(call!(fi_cntr_seterr(cntr, value)))
    }

    /// `fi_cntr_wait`.
    pub fn wait(&self, threshold: u64, timeout_ms: c_int) -> Answer {
        let cntr = self.object.get();
        done(call!(fi_cntr_wait(cntr, threshold, timeout_ms)))
    }
}
