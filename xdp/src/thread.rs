// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread of the C library. The standard library's own takes memory past the allocator of this
//! library, and ends the process where that is refused.
//!
//! In: a name and a body. Out: a [`Thread`]. Callers: `port/recovery.rs`, `host/question.rs`, the
//! provider.
//! Bound: one `pthread`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow};

/// A running thread. Dropping it lets the thread run to its end by itself.
#[derive(Debug)]
pub struct Thread {
    id: libc::pthread_t,
    ended: Arc<AtomicBool>,
}

/// The start values of a thread.
struct Start {
    body: Box<dyn FnOnce() + Send>,
    ended: Arc<AtomicBool>,
}

impl Thread {
    /// Starts a thread that runs `body`. It has the signal mask of the calling thread.
    ///
    /// # Errors
    /// Those of `pthread_create(3)`; `ENOMEM` in place of `EAGAIN`, when threads are out.
    pub fn spawn(name: &CStr, body: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let start = Box::new(Start { body: Box::new(body), ended: Arc::clone(&ended) });
        let start = Box::into_raw(start);
        let mut id = MaybeUninit::uninit();
        // SAFETY: `id` may be written, there are no attributes, and `run` takes this argument.
        let error =
            unsafe { libc::pthread_create(id.as_mut_ptr(), ptr::null(), run, start.cast()) };
        if error != 0 {
            // SAFETY: from `into_raw` above, and no thread has it.
            drop(unsafe { Box::from_raw(start) });
            // A caller of libfabric would take `EAGAIN` for a call to repeat after some progress.
            let error = Errno::from_raw(error);
            return Err(if error == Errno::EAGAIN { Errno::ENOMEM } else { error }.into());
        }
        // SAFETY: the call has succeeded, so it has written the id.
        let id = unsafe { id.assume_init() };
        // SAFETY: the thread is not joined yet; the name ends with a zero. A name that is too long
        // is refused, which does no harm.
        unsafe { libc::pthread_setname_np(id, name.as_ptr()) };
        Ok(Self { id, ended })
    }

    /// As [`Self::spawn`], with all signals blocked: they are for the application's own threads.
    ///
    /// # Errors
    /// Those of [`Self::spawn`] and of `pthread_sigmask(3)`.
    pub fn without_signals(name: &CStr, body: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let thread = Self::spawn(name, body);
        mask.thread_set_mask()?;
        thread
    }

    /// Whether the body has returned.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Waits for the end of the thread.
    pub fn join(self) {
        let thread = ManuallyDrop::new(self);
        // SAFETY: joined once: neither joined nor detached before, as this consumes the value.
        unsafe { libc::pthread_join(thread.id, ptr::null_mut()) };
        // SAFETY: not dropped otherwise, and not used afterwards.
        drop(unsafe { ptr::read(&raw const thread.ended) });
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: neither joined nor detached before: both consume the value.
        unsafe { libc::pthread_detach(self.id) };
    }
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: from `into_raw` in `spawn`, for this thread alone.
    let Start { body, ended } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    // The body's panic is reported already.
    let _ = catch_unwind(AssertUnwindSafe(body));
    ended.store(true, Ordering::Release);
    ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_thread_runs_once_and_is_waited_for() {
        let (sender, receiver) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let thread = Thread::spawn(c"a name", move || {
            wait.recv().unwrap();
            sender.send(7).unwrap();
        })
        .unwrap();
        assert!(!thread.is_finished());
        go.send(()).unwrap();
        thread.join();
        assert_eq!(receiver.recv(), Ok(7));
        assert!(receiver.recv().is_err(), "its values are dropped");
    }

    #[test]
    fn a_thread_that_panics_ends_alone() {
        let thread = Thread::spawn(c"panics", || panic!("as it should")).unwrap();
        let ended = Arc::clone(&thread.ended);
        thread.join();
        assert!(ended.load(Ordering::Acquire));
    }
}
