// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast groups of `fi_cm(3)`.

use super::abi;
use super::{Answer, Context, Ep, Object, done, is_fid};

/// `struct fid_mc`: a group that an endpoint has joined.
#[derive(Debug)]
pub struct Mc {
    object: Object<abi::fid_mc>,
}

is_fid!(Mc);

impl Mc {
    /// `fi_mc_addr`.
    pub fn address(&self) -> u64 {
        // SAFETY: the group is open (`Object`).
        unsafe { (*self.object.get()).fi_addr }
    }
}

impl Ep {
    /// `fi_join`.
    pub fn join(&self, group: &[u8], flags: u64, context: Context) -> Answer<Mc> {
        let ep = self.object.get();
        let (address, mut mc) = (group.as_ptr().cast(), std::ptr::null_mut());
        done(call!(fi_join(ep, address, flags, &raw mut mc, context.ptr())))?;
        Ok(Mc { object: Object::new(mc) })
    }
}
