// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric's objects as Rust types, one a file, with a method for each call.
//!
//! In: plain values. Out: what the call answered, an error code as [`Errno`]. Nothing is checked or
//! mended on the way, so that a test can ask for what is wrong. Two rules make the methods safe:
//! an object answers nothing after it was closed (it panics), and memory ([`Mem`]) is never freed,
//! because each test is a process of its own.

mod atomic;
mod av;
mod cntr;
mod cq;
mod domain;
mod ep;
mod eq;
mod info;
mod mem;
mod mr;
mod rma;
mod tagged;
mod work;

use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::sync::atomic::{AtomicPtr, Ordering};

pub(crate) use atomic::{Atomic, Value};
pub(crate) use av::Av;
pub(crate) use cntr::Cntr;
pub(crate) use cq::{Completion, Cq, CqError, Event};
pub(crate) use domain::{Domain, Fabric};
pub(crate) use ep::{Ep, Message};
pub(crate) use eq::Eq;
pub(crate) use info::{Info, getinfo};
pub(crate) use mem::{Context, Mem};
pub(crate) use mr::Mr;
pub(crate) use rma::{Remote, Rma};
pub(crate) use tagged::Tagged;
pub(crate) use work::{When, Work};

use crate::abi::{self, call};

/// A libfabric error code, positive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: no preconditions; the answer is a string that lives as long as the library.
        let text = unsafe { abi::fi_strerror(self.0) };
        // SAFETY: libfabric's strings are zero-terminated.
        let text = unsafe { CStr::from_ptr(text) };
        write!(f, "error {} ({})", self.0, text.to_string_lossy())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Errno {}

/// What a call answered: a count or zero, or an error code.
pub(crate) type Answer<T = ()> = Result<T, Errno>;

/// A call's integer as an [`Answer`] with its count.
pub(crate) fn counted(code: impl Into<i64>) -> Answer<usize> {
    let code = code.into();
    usize::try_from(code).map_err(|_| Errno(c_int::try_from(-code).unwrap_or(c_int::MAX)))
}

/// A call's `ssize_t`.
pub(crate) fn sized(code: isize) -> Answer<usize> {
    counted(code as i64)
}

/// A call's integer, of which only the sign says something.
pub(crate) fn done(code: impl Into<i64>) -> Answer {
    counted(code).map(|_| ())
}

/// A data call's answer: zero or an error.
pub(crate) fn posted(code: isize) -> Answer {
    sized(code).map(|_| ())
}

/// An object that a provider made, until it is closed.
#[derive(Debug)]
pub(crate) struct Object<T>(AtomicPtr<T>);

impl<T> Object<T> {
    pub(crate) fn new(made: *mut T) -> Self {
        assert!(!made.is_null(), "the call succeeded and made nothing");
        Self(AtomicPtr::new(made))
    }

    /// The open object.
    pub(crate) fn get(&self) -> *mut T {
        let object = self.0.load(Ordering::Acquire);
        assert!(!object.is_null(), "the test uses an object that it has closed");
        object
    }
}

/// Whatever has a `struct fid`, which is the first member of every object.
pub(crate) trait Fid {
    /// The object as a fid.
    fn fid(&self) -> *mut abi::fid;
    /// Forgets it: it is closed.
    fn forget(&self);

    /// `fi_close`.
    fn close(&self) -> Answer {
        let fid = self.fid();
        done(call!(fid, ops.close(fid)))?;
        self.forget();
        Ok(())
    }

    /// `fi_control` with an argument that the command defines.
    fn control(&self, command: c_int, argument: *mut c_void) -> Answer {
        let fid = self.fid();
        done(call!(fid, ops.control(fid, command, argument)))
    }

    /// `fi_ep_bind`, `fi_mr_bind`, `fi_av_bind`, …
    fn bind(&self, other: &dyn Fid, flags: u64) -> Answer {
        let fid = self.fid();
        done(call!(fid, ops.bind(fid, other.fid(), flags)))
    }

    /// `fi_open_ops` of a name that nobody knows.
    fn open_ops(&self, name: &CStr) -> Answer {
        let fid = self.fid();
        let mut ops = std::ptr::null_mut();
        let context = std::ptr::null_mut();
        done(call!(fid, ops.ops_open(fid, name.as_ptr(), 0, &raw mut ops, context)))
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

/// Implements [`Fid`] for a type whose field `object` is an [`Object`].
macro_rules! is_fid {
    ($($kind:ty),*) => { $(
        impl $crate::fi::Fid for $kind {
            fn fid(&self) -> *mut $crate::abi::fid {
                self.object.get().cast()
            }
            fn forget(&self) {
                self.object.clear();
            }
        }
    )* };
}
pub(crate) use is_fid;

impl<T> Object<T> {
    /// Forgets the object.
    pub(crate) fn clear(&self) {
        self.0.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// poll(2) for reading: whether the descriptor is ready.
pub(crate) fn poll_fd(fd: c_int, timeout_ms: c_int) -> anyhow::Result<bool> {
    let mut one = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, which outlives the call.
    let ready = unsafe { libc::poll(&raw mut one, 1, timeout_ms) };
    anyhow::ensure!(ready >= 0, "poll: {}", std::io::Error::last_os_error());
    Ok(ready > 0)
}

/// Forks a child that ends at once, by exit(3), which runs destructors, or by _exit(2).
pub(crate) fn fork_and_end(exit: bool) -> anyhow::Result<()> {
    // SAFETY: the child calls nothing but exit or _exit.
    let child = unsafe { libc::fork() };
    anyhow::ensure!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        if exit {
            // SAFETY: what the test is about: destructors run in a child.
            unsafe { libc::exit(0) };
        }
        // SAFETY: no preconditions.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: our child, and a local that outlives the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    anyhow::ensure!(waited == child && status == 0, "the child ended with {status:#x}");
    Ok(())
}

/// A process that does nothing, until it is dropped.
#[derive(Debug)]
pub(crate) struct Idler(libc::pid_t);

impl Drop for Idler {
    fn drop(&mut self) {
        // SAFETY: no preconditions; it is our child, which nobody has waited for.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        // SAFETY: our child; without a place for its status.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}

/// Forks a child that lives on, and has all that is open here open.
pub(crate) fn fork_and_stay() -> anyhow::Result<Idler> {
    // SAFETY: the child calls nothing but pause.
    let child = unsafe { libc::fork() };
    anyhow::ensure!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        // bound: the child's life
        loop {
            // SAFETY: no preconditions.
            unsafe { libc::pause() };
        }
    }
    Ok(Idler(child))
}

/// Processor time that this process has used.
pub(crate) fn processor_time() -> std::time::Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map_or_else(|_| std::time::Duration::ZERO, std::time::Duration::from)
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

/// The running library's version.
pub(crate) fn version() -> u32 {
    // SAFETY: no preconditions.
    unsafe { abi::fi_version() }
}
