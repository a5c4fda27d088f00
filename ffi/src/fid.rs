// SPDX-License-Identifier: MIT OR Apache-2.0
//! What C holds of us: a box whose first member is libfabric's object, and behind it a share of
//! ours.
//!
//! A pointer that comes back from C is looked at once, here: not NULL, and of the class that the
//! call is for. The class test compares the address of the object's `fi_ops` table, which each
//! [`Object`] type has for itself; so another provider's object of the same `fclass` is refused
//! too. Objects share one another by [`Arc`]: a domain's share in its fabric, an endpoint's in its
//! queues. That count is the busy rule: while anybody else has a share, `fi_close` says
//! `-FI_EBUSY`.
//!
//! Not caught: a call on an object that was closed, or a call concurrent with its close. libfabric
//! leaves both undefined, and its inline wrappers have read the object before this library is
//! called. Sets are no such callers: they look at their members with a lock that close takes.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

use crate::abi;
use crate::errno::Error;
use crate::instances;
use crate::ops::FidOps;
use crate::provider;

/// A libfabric object of ours.
///
/// # Safety
/// `C` is the `#[repr(C)]` libfabric structure whose first member is a `struct fid`, and
/// [`Self::fid_ops`] returns a table that no other type returns.
pub(crate) unsafe trait Object: FidOps + Send + Sync + Sized + 'static {
    /// libfabric's structure for this class.
    type C;
    /// `FI_CLASS_*`.
    const CLASS: u32;

    /// The `fi_ops` table of this class.
    fn fid_ops() -> &'static abi::fi_ops;

    /// libfabric's structure, filled, around the common part `fid`.
    fn c_object(&self, fid: abi::fid) -> Self::C;
}

/// See the module.
#[repr(C)]
pub(crate) struct FidBox<T: Object> {
    /// C's part. The application and libfabric may write to it (`context`, `api_version`), so
    /// nothing here ever forms a reference to it.
    c: UnsafeCell<T::C>,
    object: Arc<T>,
    /// Of the process that opened it.
    generation: u32,
}

/// Gives C an object. [`close`] takes it back.
pub(crate) fn open<T: Object>(object: Arc<T>, context: *mut c_void) -> *mut T::C {
    const { assert!(std::mem::offset_of!(FidBox<T>, c) == 0) };
    let ops = std::ptr::from_ref(T::fid_ops()).cast_mut();
    let fid = abi::fid { fclass: T::CLASS as usize, context, ops };
    let c = UnsafeCell::new(object.c_object(fid));
    let place = object.place();
    // The pointer is the box's own, not one made from a reference to its member: it may reach all
    // of it.
    let generation = provider::generation();
    let opened = Box::into_raw(Box::new(FidBox { c, object, generation }));
    if let Some(place) = place {
        instances::add(opened.expose_provenance(), place);
    }
    opened.cast::<T::C>()
}

/// The box behind a pointer from C.
///
/// # Safety
/// `fid` is NULL or points to a libfabric object (any provider's, any class) that is open.
unsafe fn boxed<T: Object>(fid: *mut abi::fid) -> Result<NonNull<FidBox<T>>, Error> {
    let fid = NonNull::new(fid).ok_or(Error::Invalid)?;
    // SAFETY: not NULL, and open (promised): every libfabric object begins with an initialised
    // `fid`.
    let ops = unsafe { (*fid.as_ptr()).ops };
    if !std::ptr::eq(ops, T::fid_ops()) {
        return Err(Error::Invalid);
    }
    let boxed = fid.cast::<FidBox<T>>();
    // SAFETY: only `FidBox<T>` carries that table, and it is open (promised).
    if unsafe { (*boxed.as_ptr()).generation } != provider::generation() {
        // The child of a fork shares rings and sockets with its parent: it must not move them
        // (fabric(7)).
        return Err(Error::BadState);
    }
    Ok(boxed)
}

/// Our object behind a pointer from C.
///
/// # Errors
/// [`Error::Invalid`] for NULL and for an object of another class or provider; [`Error::BadState`]
/// in the child of a fork.
///
/// # Safety
/// `fid` is NULL or points to an open libfabric object, which stays open for `'a`.
pub(crate) unsafe fn object<'a, T: Object>(fid: *mut abi::fid) -> Result<&'a Arc<T>, Error> {
    // SAFETY: passed on from the caller.
    let boxed = unsafe { boxed::<T>(fid) }?;
    // SAFETY: `boxed` has seen the table that only `FidBox<T>` carries, so this is one, made by
    // `open`; it is open for `'a` (promised), and `object` is never written after `open`.
    Ok(unsafe { &(*boxed.as_ptr()).object })
}

/// Ends an object: after success C's pointer is gone.
///
/// # Errors
/// [`Error::Busy`] while anything else has a share in the object; whatever its `close` says. The
/// object is then still open.
///
/// # Safety
/// `fid` is NULL or points to an open libfabric object, and no other call on it is under way.
pub(crate) unsafe fn close<T: Object>(fid: *mut abi::fid) -> Result<(), Error> {
    // SAFETY: passed on from the caller.
    let boxed = match unsafe { boxed::<T>(fid) } {
        // The parent's: what is there of it in this process goes with the process.
        Err(Error::BadState) => return Ok(()),
        boxed => boxed?,
    };
    // SAFETY: `boxed` has checked that this is a `FidBox<T>`, and it is open.
    let object = unsafe { &(*boxed.as_ptr()).object };
    // A set may look at the object from another thread, which has a share in it and C's pointer
    // meanwhile. Nobody looks from here on.
    let looks = object.looks();
    let _unseen = looks.as_ref().map(|looks| looks.write().unwrap_or_else(PoisonError::into_inner));
    if !object.is_alone() {
        return Err(Error::Busy);
    }
    object.close()?;
    if object.place().is_some() {
        instances::remove(boxed.addr().get());
    }
    // SAFETY: the pointer came from `Box::into_raw` in `open`, and no other call uses it
    // (promised).
    drop(unsafe { Box::from_raw(boxed.as_ptr()) });
    Ok(())
}
