// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process: the provider's version, the fork generation, and its threads.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Read as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::sys::abi::make_version;

/// This provider's version; libfabric prefers the higher of two providers with one name.
pub(crate) const VERSION: u32 = make_version(0, 1);

/// Number of forks between the process that loaded the library and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The fork generation of this process. An object that was opened before a fork is inert in the
/// child, because rings and sockets are shared with the parent (fabric(7)). Objects that the child
/// opens are its own.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// The calling thread's id. A system call.
pub(crate) fn thread_id() -> u32 {
    nix::unistd::gettid().as_raw().cast_unsigned()
}

/// How long `thread` of this process has been ready to run without a core; `None` if the kernel
/// does not tell (Documentation/scheduler/sched-stats.rst, `/proc/PID/schedstat`). The present wait
/// counts when it ends. Three system calls.
pub(crate) fn core_wait(thread: u32) -> Option<Duration> {
    let mut text = [0; 64];
    let mut file = File::open(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let len = file.read(&mut text).ok()?;
    let text = std::str::from_utf8(text.get(..len)?).ok()?;
    text.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Calls `in_child` in the child of each fork from now on. Called once, at load.
pub(crate) fn handle_forks(in_child: unsafe extern "C" fn()) {
    // SAFETY: the handler takes no lock that a thread of the parent may hold, and stays mapped (see
    // `build.rs`).
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Counts a fork, and closes sockets of the parent. Called in the child.
pub(crate) fn note_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    ofi_xdp_datapath::fork::close_in_child();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_of_a_thread_for_a_core_is_known() {
        assert!(core_wait(thread_id()).is_some());
        assert_eq!(core_wait(0), None);
    }
}
