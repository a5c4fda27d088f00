// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_poll`.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::control;
use crate::c_api::object::{self, Object};
use crate::objects::cntr::Cntr;
use crate::objects::cq::Cq;
use crate::objects::poll_set::{PollMember, PollSet};
use crate::sys::abi;
use crate::sys::errno::Error;

static FID_OPS: abi::fi_ops = super::fid::table::<PollSet>();

static OPS: abi::fi_ops_poll = abi::fi_ops_poll {
    size: size_of::<abi::fi_ops_poll>(),
    poll: Some(poll),
    poll_add: Some(add),
    poll_del: Some(remove),
};

// SAFETY: `fid_poll` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for PollSet {
    type C = abi::fid_poll;
    const CLASS: u32 = abi::FI_CLASS_POLL;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_poll {
        abi::fid_poll { fid, ops: std::ptr::from_ref(&OPS).cast_mut() }
    }
}

/// `fi_poll`: writes the contexts of members with something to read, as many as fit.
unsafe extern "C" fn poll(
    set: *mut abi::fid_poll,
    contexts: *mut *mut c_void,
    count: c_int,
) -> c_int {
    let mut filled = 0;
    let status = control(|| {
        // SAFETY: the man page's contract: open.
        let set = unsafe { object::object::<PollSet>(set.cast::<abi::fid>()) }?;
        let room = usize::try_from(count).map_err(|_| Error::Invalid)?;
        if contexts.is_null() && room > 0 {
            return Err(Error::Invalid);
        }
        set.poll(room, |fid| {
            let fid = std::ptr::with_exposed_provenance::<abi::fid>(fid);
            // SAFETY: the set calls this for open objects only, which stay open until it returns,
            // by the pointer that C has of them.
            let context = unsafe { (*fid).context };
            // SAFETY: the set calls this at most `count` times, for which there is room (the man
            // page's contract).
            let at = unsafe { contexts.add(filled) };
            // SAFETY: as above: writable.
            unsafe { at.write(context) };
            filled += 1;
        });
        Ok(())
    });
    if status == 0 { c_int::try_from(filled).unwrap_or(count) } else { status }
}

/// `fi_poll_add`.
unsafe extern "C" fn add(set: *mut abi::fid_poll, member: *mut abi::fid, flags: u64) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let set = unsafe { object::object::<PollSet>(set.cast::<abi::fid>()) }?;
        // SAFETY: as above.
        let object = unsafe { poll_member(member) }?;
        no_flags(flags)?;
        set.add(member.expose_provenance(), &object)
    })
}

/// `fi_poll_del`.
unsafe extern "C" fn remove(set: *mut abi::fid_poll, member: *mut abi::fid, flags: u64) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let set = unsafe { object::object::<PollSet>(set.cast::<abi::fid>()) }?;
        no_flags(flags)?;
        set.remove(member.addr())
    })
}

/// Flags are reserved (`fi_poll(3)`).
const fn no_flags(flags: u64) -> Result<(), Error> {
    if flags == 0 { Ok(()) } else { Err(Error::BadFlags) }
}

/// The object, if it can be a member and belongs to this provider.
///
/// # Safety
/// `fid` is NULL or an open libfabric object.
unsafe fn poll_member(fid: *mut abi::fid) -> Result<PollMember, Error> {
    // SAFETY: passed on from the caller.
    if let Ok(counter) = unsafe { object::object::<Cntr>(fid) } {
        return Ok(PollMember::Cntr(Arc::clone(counter)));
    }
    // SAFETY: passed on from the caller.
    unsafe { object::object::<Cq>(fid) }.map(|queue| PollMember::Cq(Arc::clone(queue)))
}
