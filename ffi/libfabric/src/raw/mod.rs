// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric's objects as Rust types, one a file, with a method for each call.
//!
//! In: plain values. Out: the answer of the call, an error code as [`Errno`]. Nothing is checked or
//! corrected, so that a test can pass wrong arguments. Two rules make the methods safe. A closed
//! object answers nothing: it panics. Memory ([`Mem`]) is never freed, because each test is a
//! process of its own.

pub use ofi_xdp_libfabric_sys::wide as abi;

/// Calls a function of libfabric: `call!(fi_send(arguments))`.
///
/// The methods around it are safe functions under two rules. An object's pointer comes from
/// [`Object`], which gives it out only until the object is closed. Memory comes from [`Mem`], and
/// is valid until the process ends. Tests of misuse pass wrong lengths and flags, and no wrong
/// pointers.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the object is open (`Object`). Pointers among the arguments are open objects,
        // memory that stays valid, or locals that outlive the call.
        unsafe { $crate::raw::abi::$function($($argument),*) }
    };
}

mod atomic;
mod av;
mod cntr;
mod cq;
mod domain;
mod ep;
mod eq;
mod info;
mod mc;
mod mem;
mod mr;
mod rma;
mod tagged;
mod work;

use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::sync::atomic::{AtomicPtr, Ordering};

pub use atomic::{Atomic, Value};
pub use av::{Av, rx_addr};
pub use cntr::Cntr;
pub use cq::{Completion, Cq, CqError, Event};
pub use domain::{Domain, Fabric, Pep, Poll, Stx, WaitSet};
pub use ep::{Ep, Message};
pub use eq::{CmEvent, Eq, EqError, EqEvent};
pub use info::{Info, getinfo};
pub use mc::Mc;
pub use mem::{Context, Mem};
pub use mr::Mr;
pub use rma::{Remote, Rma};
pub use tagged::Tagged;
pub use work::{When, Work};

/// A libfabric error code, positive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub c_int);

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {} ({})", self.0, abi::error_text(self.0).to_string_lossy())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Errno {}

/// The answer of a call: a count or zero, or an error code.
pub type Answer<T = ()> = Result<T, Errno>;

/// A call's integer as an [`Answer`] with its count.
#[inline]
pub fn counted(code: impl Into<i64>) -> Answer<usize> {
    let code = code.into();
    usize::try_from(code).map_err(|_| Errno(c_int::try_from(-code).unwrap_or(c_int::MAX)))
}

/// A call's `ssize_t`.
#[inline]
pub fn sized(code: isize) -> Answer<usize> {
    counted(code as i64)
}

/// The integer that a call returns, where only the sign has a meaning.
pub fn done(code: impl Into<i64>) -> Answer {
    counted(code).map(|_| ())
}

/// A data call's answer: zero or an error.
#[inline]
pub fn posted(code: isize) -> Answer {
    sized(code).map(|_| ())
}

/// An object that a provider made, until it is closed.
pub struct Object<T>(AtomicPtr<T>);

impl<T> fmt::Debug for Object<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Object").field(&self.0).finish()
    }
}

impl<T> Object<T> {
    /// The object that a call made.
    pub fn new(made: *mut T) -> Self {
        assert!(!made.is_null(), "the call succeeded and made nothing");
        Self(AtomicPtr::new(made))
    }

    /// The open object.
    #[inline]
    pub fn get(&self) -> *mut T {
        let object = self.0.load(Ordering::Acquire);
        assert!(!object.is_null(), "the test uses an object that it has closed");
        object
    }
}

/// An object of libfabric: its first member is a `struct fid`.
pub trait Fid {
    /// The object as a fid.
    fn fid(&self) -> *mut abi::fid;
    /// Forgets the object, which is closed.
    fn forget(&self);

    /// `fi_close`.
    fn close(&self) -> Answer {
        let fid = self.fid();
        done(call!(fi_close(fid)))?;
        self.forget();
        Ok(())
    }

    /// `fi_control` with an argument that the command defines.
    fn control(&self, command: c_int, argument: *mut c_void) -> Answer {
        let fid = self.fid();
        done(call!(fi_control(fid, command, argument)))
    }

    /// `fi_ep_bind`, `fi_mr_bind`, `fi_av_bind`, …
    fn bind(&self, other: &dyn Fid, flags: u64) -> Answer {
        let fid = self.fid();
        done(call!(fi_bind(fid, other.fid(), flags)))
    }

    /// `fi_open_ops` of an unknown name.
    fn open_ops(&self, name: &CStr) -> Answer {
        let fid = self.fid();
        let mut ops = std::ptr::null_mut();
        let context = std::ptr::null_mut();
        done(call!(fi_open_ops(fid, name.as_ptr(), 0, &raw mut ops, context)))
    }

    /// The class that the object says it has.
    fn class(&self) -> usize {
        // SAFETY: the object is open (`Object`).
        unsafe { (*self.fid()).fclass }
    }

    /// The context that the object was opened with.
    fn user_context(&self) -> *mut c_void {
        // SAFETY: as above.
        unsafe { (*self.fid()).context }
    }
}

/// Implements [`Fid`] for a type with an [`Object`] in its field `object`.
macro_rules! is_fid {
    ($($kind:ty),*) => { $(
        impl $crate::raw::Fid for $kind {
            fn fid(&self) -> *mut $crate::raw::abi::fid {
                self.object.get().cast()
            }
            fn forget(&self) {
                self.object.clear();
            }
        }
    )* };
}
use is_fid;

impl<T> Object<T> {
    /// Forgets the object.
    pub fn clear(&self) {
        self.0.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// How many slots of an operation table are NULL. Each table is its size and then pointers.
fn empty_slots<T>(table: *const T) -> usize {
    if table.is_null() {
        return 1;
    }
    let table = table.cast::<usize>();
    // SAFETY: every table begins with its size in bytes (fi_provider(7)).
    let size = unsafe { table.read() };
    let slots = (1..size / size_of::<usize>()).map(|at| {
        let slot = table.wrapping_add(at);
        // SAFETY: within the size that the table gives.
        unsafe { slot.read() }
    });
    slots.filter(|slot| *slot == 0).count()
}

pub use abi::version;
