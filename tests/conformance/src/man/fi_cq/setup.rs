// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues with completions, and their descriptors.

use std::ffi::c_int;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Context, Mem};
use crate::group::Group;
use crate::world::{EVENT_TIMEOUT, Setup, World};

/// Whether `fd` is readable within some milliseconds.
pub(crate) fn readable(fd: c_int, timeout_ms: c_int) -> Result<bool> {
    crate::process::poll_fd(fd, timeout_ms)
}

/// Leaves `count` receives completed at the second node, unread.
pub(super) fn arrived(world: &World, setup: &Setup, count: usize) -> Result<Group> {
    let group = world.group(setup)?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    for _ in 0..count {
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    }
    let end = Instant::now() + EVENT_TIMEOUT;
    for _ in 0..count {
        while let Err(errno) = group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::new()) {
            ensure!(errno.0 == abi::FI_EAGAIN && Instant::now() < end, "{errno}");
            let _ = group.a().cq.progress();
        }
    }
    // The first node's queue shows that they have arrived, while the second node only makes
    // progress.
    let mut sent = 0;
    while sent < count {
        ensure!(Instant::now() < end, "{sent} of {count} sends are done");
        match group.a().cq.read(count) {
            Ok(done) => sent += done.len(),
            Err(errno) => ensure!(errno.0 == abi::FI_EAGAIN, "{errno}"),
        }
        let _ = group.b().cq.progress();
    }
    Ok(group)
}
