// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network namespaces: the one that a port was opened in, for threads that open parts of it later.
//!
//! In: the calling thread's namespace ([`Namespace::current`]). Out: a thread in that namespace.
//! Caller: the port's recovery thread. Bound: one descriptor.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use nix::sched::{CloneFlags, setns};

const CURRENT: &str = "/proc/thread-self/ns/net";

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    /// The calling thread's namespace.
    pub(crate) fn current() -> io::Result<Self> {
        File::open(CURRENT).map(Self)
    }

    /// Moves the calling thread into this namespace. That needs `CAP_SYS_ADMIN`, unless the thread
    /// is there already.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let (this, there) = (File::open(CURRENT)?.metadata()?, self.0.metadata()?);
        if (this.dev(), this.ino()) == (there.dev(), there.ino()) {
            return Ok(());
        }
        Ok(setns(&self.0, CloneFlags::CLONE_NEWNET)?)
    }
}

/// Enters a network namespace of its own; `false`: the test is skipped.
#[cfg(test)]
pub(crate) fn enter_new() -> bool {
    let skip = std::env::var("OFI_XDP_UNPRIVILEGED").is_ok_and(|value| value == "skip");
    if skip && !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: needs CAP_SYS_ADMIN and CAP_NET_ADMIN");
        return false;
    }
    nix::sched::unshare(CloneFlags::CLONE_NEWNET).unwrap();
    true
}
