// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network namespace that a port was opened in: what belongs to the port is opened there, too,
//! whichever thread does it.
//!
//! The calling thread's namespace comes in ([`Namespace::current`]); `port.rs` takes a thread of
//! its own back there. Bounds: one descriptor.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use nix::sched::{CloneFlags, setns};

const CURRENT: &str = "/proc/thread-self/ns/net";

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    /// The calling thread's.
    pub(crate) fn current() -> io::Result<Self> {
        File::open(CURRENT).map(Self)
    }

    /// Moves the calling thread here. That takes `CAP_SYS_ADMIN`, unless it is here already.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let (this, there) = (File::open(CURRENT)?.metadata()?, self.0.metadata()?);
        if (this.dev(), this.ino()) == (there.dev(), there.ino()) {
            return Ok(());
        }
        Ok(setns(&self.0, CloneFlags::CLONE_NEWNET)?)
    }
}
