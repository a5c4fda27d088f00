// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops`, which every object has: close, bind, control.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::{answer, control, status, unsupported::slot};
use crate::c_api::object::{self, Object};
use crate::endpoint::Endpoint;
use crate::endpoint::shared_rx::SharedRx;
use crate::endpoint::shared_tx::SharedTx;
use crate::objects::av::Av;
use crate::objects::cntr::Cntr;
use crate::objects::cq::Cq;
use crate::objects::domain::Domain;
use crate::objects::eq::Eq;
use crate::objects::object_ops::BindTarget;
use crate::runtime::Side;
use crate::sys::abi;
use crate::sys::errno::Error;
use crate::sys::reserve;

/// The table for objects of type `T`.
pub(crate) const fn table<T: Object>() -> abi::fi_ops {
    abi::fi_ops {
        size: size_of::<abi::fi_ops>(),
        close: Some(close::<T>),
        bind: Some(bind::<T>),
        control: Some(command::<T>),
        ops_open: slot(),
        tostr: slot(),
        ops_set: slot(),
    }
}

/// `fi_close`.
unsafe extern "C" fn close<T: Object>(fid: *mut abi::fid) -> c_int {
    // SAFETY: the man page's contract: open, and no call under way.
    control(|| unsafe { object::close::<T>(fid) })
}

/// `fi_ep_bind` and its kin.
unsafe extern "C" fn bind<T: Object>(
    fid: *mut abi::fid,
    other: *mut abi::fid,
    flags: u64,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: both are open.
        let object = unsafe { object::object::<T>(fid) }?;
        // SAFETY: as above.
        let target = unsafe { target(other) }?;
        object.bind(&target, flags)
    })
}

/// The object that another one is bound to, if it belongs to this provider.
///
/// # Safety
/// `fid` is NULL or an open libfabric object.
unsafe fn target(fid: *mut abi::fid) -> Result<BindTarget, Error> {
    // SAFETY: passed on from the caller, here and below.
    if let Ok(av) = unsafe { object::object::<Av>(fid) } {
        return Ok(BindTarget::new(av));
    }
    // SAFETY: as above.
    if let Ok(cq) = unsafe { object::object::<Cq>(fid) } {
        return Ok(BindTarget::new(cq));
    }
    // SAFETY: as above.
    if let Ok(cntr) = unsafe { object::object::<Cntr>(fid) } {
        return Ok(BindTarget::new(cntr));
    }
    // SAFETY: as above.
    if let Ok(eq) = unsafe { object::object::<Eq>(fid) } {
        return Ok(BindTarget::new(eq));
    }
    // SAFETY: as above.
    if let Ok(shared) = unsafe { object::object::<SharedRx>(fid) } {
        return Ok(BindTarget::new(shared));
    }
    // SAFETY: as above.
    if let Ok(shared) = unsafe { object::object::<SharedTx>(fid) } {
        return Ok(BindTarget::new(shared));
    }
    // SAFETY: as above.
    unsafe { object::object::<Endpoint>(fid) }.map(BindTarget::endpoint)
}

/// `fi_control`: enable, wait objects, default flags.
unsafe extern "C" fn command<T: Object>(
    fid: *mut abi::fid,
    command: c_int,
    argument: *mut c_void,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let object = unsafe { object::object::<T>(fid) }?;
        match command.cast_unsigned() {
            abi::FI_ENABLE => object.enable(),
            abi::FI_GETWAIT => {
                let descriptor = object.wait_fd()?;
                // SAFETY: `FI_GETWAIT` of a descriptor passes an `int *` (fi_cq(3)).
                unsafe { answer(argument.cast::<c_int>(), descriptor) }
            }
            abi::FI_GETWAITOBJ => {
                let kind = object.wait_object()?;
                // SAFETY: `FI_GETWAITOBJ` passes an `enum fi_wait_obj *` (fi_cq(3)).
                unsafe { answer(argument.cast::<abi::fi_wait_obj>(), kind) }
            }
            // SAFETY: `FI_BACKLOG` passes an `int *` (fi_cm(3)).
            abi::FI_BACKLOG => unsafe { super::cm::set_backlog(fid, argument.cast()) },
            // SAFETY: `FI_ALIAS` passes a `struct fi_alias *` (fi_ep_alias); `fid` is open.
            abi::FI_ALIAS => unsafe { alias(object, fid, argument.cast::<abi::fi_alias>()) },
            // SAFETY: `FI_GETOPSFLAG` passes a `uint64_t *` (fi_endpoint(3)).
            abi::FI_GETOPSFLAG => unsafe { op_flags(object, argument.cast::<u64>()) },
            // SAFETY: `FI_SETOPSFLAG` passes a `uint64_t *` (fi_endpoint(3)).
            abi::FI_SETOPSFLAG => unsafe { set_op_flags(object, argument.cast::<u64>()) },
            command @ (abi::FI_GET_RAW_MR | abi::FI_MAP_RAW_MR | abi::FI_UNMAP_KEY) => {
                // SAFETY: they pass a `struct fi_mr_raw_attr *`, a `struct fi_mr_map_raw *` and a
                // `uint64_t *` (fi_mr(3)); `fid` is open.
                unsafe { super::raw_key::control(fid, command, argument) }
            }
            command @ (abi::FI_QUEUE_WORK | abi::FI_CANCEL_WORK | abi::FI_FLUSH_WORK) => {
                // SAFETY: as above.
                let domain = unsafe { object::object::<Domain>(fid) }?;
                // SAFETY: they pass a `struct fi_deferred_work *` (fi_trigger(3)).
                unsafe { super::deferred_work::control(domain, command, argument.cast()) }
            }
            _ => Err(Error::NotSupported),
        }
    })
}

/// Passes C another object of the same class, with the same context.
///
/// # Safety
/// `fid` is open; `to` is NULL or may be read, and where it points may be written.
unsafe fn alias<T: Object>(
    object: &Arc<T>,
    fid: *mut abi::fid,
    to: *const abi::fi_alias,
) -> Result<(), Error> {
    // SAFETY: promised by the caller.
    let wanted = unsafe { super::argument(to) }?;
    if wanted.fid.is_null() {
        return Err(Error::Invalid);
    }
    let side = side(wanted.flags)?;
    let new = object.alias(side, wanted.flags & !(abi::bits::SEND | abi::bits::RECV))?;
    // SAFETY: open (promised): initialised.
    let context = unsafe { (*fid).context };
    // SAFETY: not NULL, hence writable (promised).
    unsafe { answer(wanted.fid, object::open(new, context).cast::<abi::fid>()) }
}

/// Reads the side from `*flags`, and writes the flags of that side there.
///
/// # Safety
/// `flags` is NULL or may be read and written.
unsafe fn op_flags<T: Object>(object: &Arc<T>, flags: *mut u64) -> Result<(), Error> {
    // SAFETY: promised by the caller.
    let wanted = *unsafe { super::argument(flags) }?;
    let found = object.op_flags(side(wanted)?)?;
    // SAFETY: promised by the caller.
    unsafe { answer(flags, found) }
}

/// Sets one side's flags.
///
/// # Safety
/// `flags` is NULL or may be read.
unsafe fn set_op_flags<T: Object>(object: &Arc<T>, flags: *mut u64) -> Result<(), Error> {
    // SAFETY: promised by the caller.
    let wanted = *unsafe { super::argument(flags) }?;
    object.set_op_flags(side(wanted)?, wanted & !(abi::bits::SEND | abi::bits::RECV))
}

/// Exactly one of `FI_TRANSMIT` and `FI_RECV` names a side.
fn side(flags: u64) -> Result<Side, Error> {
    match (flags & abi::bits::SEND != 0, flags & abi::bits::RECV != 0) {
        (true, false) => Ok(Side::Transmit),
        (false, true) => Ok(Side::Receive),
        _ => Err(Error::Invalid),
    }
}

/// Opens an object, and passes it to C. If memory was refused meanwhile, closes it again.
///
/// # Safety
/// `to` is NULL or may be written.
pub(crate) unsafe fn opened<T: Object>(
    to: *mut *mut T::C,
    context: *mut c_void,
    open: impl FnOnce() -> Result<Arc<T>, Error>,
) -> c_int {
    if to.is_null() {
        return status(Err(Error::Invalid));
    }
    control(|| {
        let before = reserve::refusals();
        let opened = open();
        if reserve::refused_since(before) {
            // An object that is closed at once has nothing to wait for.
            return opened.and_then(|object| object.close()).and(Err(Error::NoMemory));
        }
        // SAFETY: not NULL, hence writable (promised).
        unsafe { answer(to, object::open(opened?, context)) }
    })
}
