// SPDX-License-Identifier: MIT OR Apache-2.0
//! The doors of the hosts, as the run sees them: when a door has closed everything, it has no more
//! descriptors, threads and memory than before the first connection.
//!
//! In: started programs. Out: the violated rules. Caller: the run. Bound: [`CLOSED`].

use std::time::Duration;

use anyhow::ensure;
use nix::sys::signal::Signal;
use ofi_xdp_harness::process::RunningProgram;

use crate::sample::{Usage, usage};

/// Time from the last visitor to the end of the last connection. A connection whose other side was
/// killed ends after the peer time-out.
const CLOSED: Duration = Duration::from_secs(60);
/// glibc returns the memory of large objects to the system at once if their limit is fixed; else it
/// keeps that of the most connections at a time (mallopt(3), `M_MMAP_THRESHOLD`).
pub(crate) const ALLOCATOR: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "131072");
/// Growth of memory that is none.
const MEMORY_KIB: u64 = 4 << 10;

/// A door.
#[derive(Debug)]
pub(crate) struct Door {
    program: RunningProgram,
    /// Its usage before the first connection.
    first: Usage,
}

impl Door {
    /// The door that `program` is. It has printed its first line.
    ///
    /// # Errors
    /// When the process is gone.
    pub(crate) fn new(program: RunningProgram) -> anyhow::Result<Self> {
        let first = usage(program.pid().as_raw().cast_unsigned())?;
        Ok(Self { program, first })
    }

    /// Fails if the program has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let runs = self.program.is_running()?;
        ensure!(runs, "a door has ended: {}", self.program.stderr());
        Ok(())
    }

    /// Waits for the end of the last connection. Returns the program's line.
    ///
    /// # Errors
    /// When it does not come, or when the door keeps something.
    pub(crate) fn finish(mut self) -> anyhow::Result<String> {
        self.program.signal(Signal::SIGTERM)?;
        let line = self.program.wait_for("closed ", CLOSED)?;
        judge(self.first, usage(self.program.pid().as_raw().cast_unsigned())?)?;
        Ok(line)
    }
}

/// Fails if a door keeps something at its end.
fn judge(first: Usage, last: Usage) -> anyhow::Result<()> {
    ensure!(
        last.descriptors <= first.descriptors && last.threads <= first.threads,
        "a door keeps {} descriptors and {} threads, {} and {} before",
        last.descriptors,
        last.threads,
        first.descriptors,
        first.threads
    );
    let limit = first.memory + MEMORY_KIB;
    ensure!(last.memory <= limit, "a door keeps {} KiB, {limit} at most", last.memory);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaks_of_a_door_are_found() {
        let first = Usage { memory: 10_000, descriptors: 9, threads: 2 };
        assert!(judge(first, Usage { memory: 14_000, ..first }).is_ok());
        assert!(judge(first, Usage { memory: 15_000, ..first }).is_err());
        assert!(judge(first, Usage { descriptors: 10, ..first }).is_err());
        assert!(judge(first, Usage { descriptors: 8, threads: 3, ..first }).is_err());
    }
}
