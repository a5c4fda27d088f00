// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many operations have ended, by kind: what libfabric's counters show (`fi_cntr(3)`).
//!
//! Counted when an operation ends, whether it makes a completion or not, and whether that has been
//! polled or not. The engine counts; whoever shows a counter adds engines up, so no operation needs
//! to know which counters there are.

use crate::OpKind;

/// Operations of one kind that have ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Count {
    /// With success.
    pub done: u64,
    /// In error.
    pub failed: u64,
}

impl Count {
    fn add(&mut self, success: bool) {
        self.done += u64::from(success);
        self.failed += u64::from(!success);
    }
}

/// Accesses of peers to memory here that were served.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Served {
    /// Writes of which every byte is in place, and atomics that bring nothing back.
    pub writes: u64,
    /// Reads, and atomics that bring something back.
    pub reads: u64,
    /// Those of [`Self::reads`] that also change the memory: atomics, but for the one that reads.
    pub updates: u64,
}

/// All operations of an engine that have ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tally {
    /// Messages sent (`FI_SEND`).
    pub sends: Count,
    /// Messages received (`FI_RECV`).
    pub receives: Count,
    /// Writes, and atomics that bring nothing back (`FI_WRITE`).
    pub writes: Count,
    /// Reads, and atomics that bring something back (`FI_READ`).
    pub reads: Count,
    /// What peers did (`FI_REMOTE_WRITE`, `FI_REMOTE_READ`).
    pub served: Served,
}

impl Tally {
    /// An operation of this `kind` has ended; `fetches`: it brings something back.
    pub(crate) fn count(&mut self, kind: OpKind, fetches: bool, success: bool) {
        if let Some(count) = self.of(kind, fetches) {
            count.add(success);
        }
    }

    /// Takes back what [`Self::count`] has counted.
    pub(crate) fn discount(&mut self, kind: OpKind, fetches: bool, success: bool) {
        if let Some(count) = self.of(kind, fetches) {
            count.done -= u64::from(success);
            count.failed -= u64::from(!success);
        }
    }

    #[inline]
    const fn of(&mut self, kind: OpKind, fetches: bool) -> Option<&mut Count> {
        Some(match kind {
            OpKind::Send { .. } => &mut self.sends,
            OpKind::Recv { .. } => &mut self.receives,
            OpKind::Read => &mut self.reads,
            OpKind::Atomic if fetches => &mut self.reads,
            OpKind::Write | OpKind::Atomic => &mut self.writes,
            // The peer's operation: counted where it is served.
            OpKind::RemoteWrite => return None,
        })
    }
}
