// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_join`, and the object of a multicast group (`fi_cm(3)`).
//!
//! In: the address of a group. Out: a [`MulticastGroup`], and its event. `fi_mc_addr` reads the
//! structure. Called by libfabric.

use std::ffi::{c_int, c_void};

use super::{answer, cm, control};
use crate::c_api::object::{self, Object};
use crate::endpoint::Endpoint;
use crate::endpoint::multicast::MulticastGroup;
use crate::objects::eq::{ErrorEvent, Event};
use crate::sys::abi::{self, fi_addr_t};
use crate::sys::errno::Error;

static FID_OPS: abi::fi_ops = super::fid::table::<MulticastGroup>();

// SAFETY: `fid_mc` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for MulticastGroup {
    type C = abi::fid_mc;
    const CLASS: u32 = abi::FI_CLASS_MC;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_mc {
        let fi_addr: fi_addr_t = self.address();
        abi::fid_mc { fid, fi_addr }
    }
}

/// `fi_join`. The event queue has the result, which is known when the call returns.
pub(super) unsafe extern "C" fn join(
    ep: *mut abi::fid_ep,
    address: *const c_void,
    flags: u64,
    group: *mut *mut abi::fid_mc,
    context: *mut c_void,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let endpoint = unsafe { object::object::<Endpoint>(ep.cast::<abi::fid>()) }?;
        if group.is_null() {
            return Err(Error::Invalid);
        }
        let events = endpoint.join_events()?;
        // SAFETY: the man page's contract: an address of the endpoint's format.
        let address = unsafe { cm::address(address) }?;
        let joined = MulticastGroup::join(endpoint, address, flags)?;
        let failure = joined.failure();
        let opened = object::open(joined, context);
        // SAFETY: not NULL, hence writable (the man page's contract).
        unsafe { answer(group, opened) }?;
        let (fid, context) = (opened.expose_provenance(), context.expose_provenance());
        if let Some(error) = failure {
            let (number, bytes) = (error.number(), Vec::new());
            events.push_error(ErrorEvent { fid, context, data: 0, number, detail: number, bytes });
        } else {
            let bytes = [fid, context, 0].iter().flat_map(|field| field.to_ne_bytes()).collect();
            events.push(Event::new(abi::FI_JOIN_COMPLETE, bytes));
        }
        Ok(())
    })
}
