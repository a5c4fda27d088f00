// SPDX-License-Identifier: MIT OR Apache-2.0
//! C's objects: a box with libfabric's structure as its first member, and a reference to the object
//! of this provider behind it.
//!
//! In: objects that a slot has opened, and pointers that C passes back. Out: C's pointers, and
//! references to objects. A pointer is checked here, once: it is not NULL, and has the class of the
//! call. The class test compares the address of the object's `fi_ops` table, of which each
//! [`Object`] type has its own. So another provider's object of the same `fclass` is refused too.
//!
//! The busy rule is the reference count of an object. Objects hold each other by [`Arc`]: a domain
//! its fabric, an endpoint its queues. While another reference exists, `fi_close` returns
//! `-FI_EBUSY`.
//!
//! Two errors are not caught: a call on a closed object, and a call concurrent with the close.
//! libfabric leaves both undefined, and its inline wrappers read the object before this library is
//! called. Sets are safe: they inspect their members under a lock that close takes.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

use crate::getinfo::open_objects;
use crate::objects::object_ops::ObjectOps;
use crate::sys::abi;
use crate::sys::errno::Error;
use crate::sys::process;

/// A libfabric object of this provider.
///
/// # Safety
/// `C` is the `#[repr(C)]` libfabric structure, with a `struct fid` as its first member, and
/// [`Self::fid_ops`] returns a table that no other type returns.
pub(crate) unsafe trait Object: ObjectOps + Send + Sync + Sized + 'static {
    /// libfabric's structure for this class.
    type C;
    /// `FI_CLASS_*`.
    const CLASS: u32;

    /// The `fi_ops` table of this class.
    fn fid_ops() -> &'static abi::fi_ops;

    /// libfabric's structure, with the common part `fid`.
    fn c_object(&self, fid: abi::fid) -> Self::C;
}

/// See the module.
#[repr(C)]
pub(crate) struct FidBox<T: Object> {
    /// C's part. The application and libfabric may write to it (`context`, `api_version`), so no
    /// reference to it is formed.
    c: UnsafeCell<T::C>,
    object: Arc<T>,
    /// Fork generation of the process that opened it.
    generation: u32,
}

/// Passes an object to C. [`close`] takes it back.
pub(crate) fn open<T: Object>(object: Arc<T>, context: *mut c_void) -> *mut T::C {
    const { assert!(std::mem::offset_of!(FidBox<T>, c) == 0) };
    let ops = std::ptr::from_ref(T::fid_ops()).cast_mut();
    let fid = abi::fid { fclass: T::CLASS as usize, context, ops };
    let c = UnsafeCell::new(object.c_object(fid));
    let listed = object.open_object();
    // The pointer comes from the box, not from a reference to its member, so it may access all of
    // the box.
    let generation = process::generation();
    let opened = Box::into_raw(Box::new(FidBox { c, object, generation }));
    if let Some(listed) = listed {
        open_objects::add(opened.expose_provenance(), listed);
    }
    if T::CLASS == abi::FI_CLASS_PEP {
        open_objects::add_passive(opened.expose_provenance());
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
    if unsafe { (*boxed.as_ptr()).generation } != process::generation() {
        // The child of a fork shares rings and sockets with its parent, and must not use them
        // (fabric(7)).
        return Err(Error::BadState);
    }
    Ok(boxed)
}

/// The object behind a pointer from C.
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
    // `open`. It is open for `'a` (promised). `object` is never written after `open`.
    Ok(unsafe { &(*boxed.as_ptr()).object })
}

/// Closes an object; after success C's pointer is invalid.
///
/// # Errors
/// [`Error::Busy`] while another reference to the object exists; the errors of its `close`. The
/// object stays open after an error.
///
/// # Safety
/// `fid` is NULL or points to an open libfabric object, and no other call on it is under way.
pub(crate) unsafe fn close<T: Object>(fid: *mut abi::fid) -> Result<(), Error> {
    // SAFETY: passed on from the caller.
    let boxed = match unsafe { boxed::<T>(fid) } {
        // An object of the parent process: its copy ends with this process.
        Err(Error::BadState) => return Ok(()),
        boxed => boxed?,
    };
    // SAFETY: `boxed` has checked that this is a `FidBox<T>`, and it is open.
    let object = unsafe { &(*boxed.as_ptr()).object };
    // A set may inspect the object from another thread, with a reference and C's pointer. The
    // lock ends that, and prevents it from here on.
    let members = object.member_lock();
    let _unseen = members.as_ref().map(|lock| lock.write().unwrap_or_else(PoisonError::into_inner));
    if !object.is_unreferenced() {
        return Err(Error::Busy);
    }
    object.close()?;
    if object.open_object().is_some() {
        open_objects::remove(boxed.addr().get());
    }
    if T::CLASS == abi::FI_CLASS_PEP {
        open_objects::remove_passive(boxed.addr().get());
    }
    // SAFETY: the pointer came from `Box::into_raw` in `open`, and no other call uses it
    // (promised).
    drop(unsafe { Box::from_raw(boxed.as_ptr()) });
    Ok(())
}
