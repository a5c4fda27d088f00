// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core and the priority of the relay's thread.
//!
//! Hosts spin on cores 0 and 1. With a third core the relay has that one, and may spin itself.
//! Otherwise it sleeps, and preempts the hosts when it is due (`SCHED_FIFO`): a fair share makes
//! it milliseconds late.
#![allow(unsafe_code)]

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// The first core that is not a host's.
const CORE: usize = 2;

/// The cores and the priority of the relay's thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Occupancy {
    /// On a core of its own.
    OwnCore,
    /// On the hosts' cores, before all other threads.
    SharedFirst,
    /// On the hosts' cores like any thread: the machine refused the priority.
    Shared,
}

/// Gives the calling thread its core or its priority.
pub(super) fn occupy_core() -> Occupancy {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut own = CpuSet::new();
    let thread = Pid::from_raw(0);
    if cores > CORE && own.set(CORE).is_ok() && sched_setaffinity(thread, &own).is_ok() {
        return Occupancy::OwnCore;
    }
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter is valid for the call, and 0 names the calling thread.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) };
    if Errno::result(set).is_ok() { Occupancy::SharedFirst } else { Occupancy::Shared }
}
