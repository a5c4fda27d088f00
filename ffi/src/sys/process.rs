// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process: the provider's version, the fork generation, and its threads.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Read as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::sys::abi::make_version;
use crate::sys::clock::cpu_time_of;

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
    let len = read_of(thread, "schedstat", &mut text)?;
    let text = std::str::from_utf8(text.get(..len)?).ok()?;
    text.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Whether `thread` of this process is ready to run and has no core now: it neither computes nor
/// sleeps. Five system calls, two for a thread that runs.
pub(crate) fn lacks_core(thread: u32) -> bool {
    // The processor time of a thread that runs grows.
    cpu_time_of(thread) == cpu_time_of(thread) && is_ready(thread).unwrap_or(false)
}

/// Whether `thread` is ready to run, or runs (`proc_pid_stat(5)`, field 3).
fn is_ready(thread: u32) -> Option<bool> {
    let mut text = [0; 64];
    let len = read_of(thread, "stat", &mut text)?;
    let text = text.get(..len)?;
    // The name of the thread may have parentheses.
    let name_end = text.iter().rposition(|&byte| byte == b')')?;
    Some(text.get(name_end + 2) == Some(&b'R'))
}

/// Reads the beginning of a file about `thread`.
fn read_of(thread: u32, file: &str, into: &mut [u8]) -> Option<usize> {
    File::open(format!("/proc/self/task/{thread}/{file}")).ok()?.read(into).ok()
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
pub(crate) mod tests {
    use std::sync::atomic::AtomicBool;

    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;

    use super::*;

    #[test]
    fn the_wait_of_a_thread_for_a_core_is_known() {
        assert!(core_wait(thread_id()).is_some());
        assert_eq!(core_wait(0), None);
    }

    /// A thread that sleeps, one that runs, and one that is gone.
    #[test]
    fn a_thread_that_sleeps_or_runs_lacks_no_core() {
        let own = thread_id();
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // The other thread may not sleep yet.
                while is_ready(own) == Some(true) {
                    std::thread::yield_now();
                }
                assert!(!lacks_core(own));
                let gone = std::thread::spawn(thread_id).join().unwrap();
                assert_eq!((is_ready(gone), lacks_core(gone)), (None, false));
                assert_eq!((is_ready(thread_id()), lacks_core(thread_id())), (Some(true), false));
                send.send(()).unwrap();
            });
            receive.recv().unwrap();
        });
    }

    /// Runs `test` on the core of a thread that computes, which lacks it meanwhile.
    pub(crate) fn beside_a_thread_that_computes(test: impl FnOnce(u32)) {
        let (stop, (send, receive)) = (AtomicBool::new(false), std::sync::mpsc::channel());
        let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let core = (0..CpuSet::count()).find(|&core| allowed.is_set(core).unwrap()).unwrap();
        let mut one = CpuSet::new();
        one.set(core).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sched_setaffinity(Pid::from_raw(0), &one).unwrap();
                send.send(thread_id()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let thread = receive.recv().unwrap();
            sched_setaffinity(Pid::from_raw(0), &one).unwrap();
            test(thread);
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_thread_that_waits_for_a_core_lacks_it() {
        beside_a_thread_that_computes(|thread| {
            // It may run between the reads of its time.
            assert!((0..100).any(|_| lacks_core(thread)));
        });
    }
}
