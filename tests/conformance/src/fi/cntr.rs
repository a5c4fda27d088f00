// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_cntr(3)`.

use std::ffi::c_int;

use super::{Answer, Object, done, is_fid};
use crate::abi::{self, call};

/// `struct fid_cntr`.
#[derive(Debug)]
pub(crate) struct Cntr {
    pub(super) object: Object<abi::fid_cntr>,
}

is_fid!(Cntr);

impl Cntr {
    /// `fi_cntr_read`.
    pub(crate) fn read(&self) -> u64 {
        let cntr = self.object.get();
        call!(cntr, ops.read(cntr), u64::MAX)
    }

    /// `fi_cntr_readerr`.
    pub(crate) fn readerr(&self) -> u64 {
        let cntr = self.object.get();
        call!(cntr, ops.readerr(cntr), u64::MAX)
    }

    /// `fi_cntr_add`.
    pub(crate) fn add(&self, value: u64) -> Answer {
        let cntr = self.object.get();
        done(call!(cntr, ops.add(cntr, value)))
    }

    /// `fi_cntr_adderr`.
    pub(crate) fn adderr(&self, value: u64) -> Answer {
        let cntr = self.object.get();
        done(call!(cntr, ops.adderr(cntr, value)))
    }

    /// `fi_cntr_set`.
    pub(crate) fn set(&self, value: u64) -> Answer {
        let cntr = self.object.get();
        done(call!(cntr, ops.set(cntr, value)))
    }

    /// `fi_cntr_seterr`.
    pub(crate) fn seterr(&self, value: u64) -> Answer {
        let cntr = self.object.get();
        done(call!(cntr, ops.seterr(cntr, value)))
    }

    /// `fi_cntr_wait`.
    pub(crate) fn wait(&self, threshold: u64, timeout_ms: c_int) -> Answer {
        let cntr = self.object.get();
        done(call!(cntr, ops.wait(cntr, threshold, timeout_ms)))
    }
}
