// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of the operating system that tests need: poll(2), fork(2), the processor time of this
//! process.

use std::ffi::c_int;

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
            // SAFETY: the subject of the test: destructors run in a child.
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
        // SAFETY: no preconditions; it is our child, and no thread has waited for it.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        // SAFETY: our child; the pointer for its status is NULL.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}

/// Forks a child that lives on, with all descriptors of this process.
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
