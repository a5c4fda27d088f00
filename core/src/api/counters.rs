// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of finished operations by kind, for libfabric's counters (`fi_cntr(3)`).
//!
//! The engine counts an operation when it ends, whether it makes a completion or not, and whether
//! that was polled or not. A libfabric counter is the sum over engines, so no operation knows which
//! counters exist.

use crate::OpKind;

/// Finished operations of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct OpCount {
    /// Operations that succeeded.
    pub done: u64,
    /// Operations that failed.
    pub failed: u64,
}

impl OpCount {
    fn add(&mut self, success: bool) {
        let count = if success { &mut self.done } else { &mut self.failed };
        *count += 1;
    }
}

/// Accesses of peers to local memory that were served.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TargetCounters {
    /// Writes with all bytes in place, and atomics without a response value.
    pub writes: u64,
    /// Reads, once the peer has acknowledged their bytes, and atomics with a response value.
    pub reads: u64,
    /// The part of [`Self::reads`] that also changes memory: all atomics except the reading one.
    pub updates: u64,
}

/// All finished operations of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct OpCounters {
    /// Messages sent (`FI_SEND`).
    pub sends: OpCount,
    /// Messages received (`FI_RECV`).
    pub receives: OpCount,
    /// Writes, and atomics without a response value (`FI_WRITE`).
    pub writes: OpCount,
    /// Reads, and atomics with a response value (`FI_READ`).
    pub reads: OpCount,
    /// Operations of peers on local memory (`FI_REMOTE_WRITE`, `FI_REMOTE_READ`).
    pub target: TargetCounters,
}

impl OpCounters {
    /// Counts the end of an operation of this `kind`; `fetches`: an atomic with a response value.
    pub(crate) fn count(&mut self, kind: OpKind, fetches: bool, success: bool) {
        if let Some(count) = self.of(kind, fetches) {
            count.add(success);
        }
    }

    /// Takes one count of [`Self::count`] back.
    pub(crate) fn uncount(&mut self, kind: OpKind, fetches: bool, success: bool) {
        if let Some(count) = self.of(kind, fetches) {
            count.done -= u64::from(success);
            count.failed -= u64::from(!success);
        }
    }

    #[inline]
    const fn of(&mut self, kind: OpKind, fetches: bool) -> Option<&mut OpCount> {
        Some(match kind {
            OpKind::Send { .. } => &mut self.sends,
            OpKind::Recv { .. } => &mut self.receives,
            OpKind::Read => &mut self.reads,
            OpKind::Atomic if fetches => &mut self.reads,
            OpKind::Write | OpKind::Atomic => &mut self.writes,
            // A remote write is counted where it is served.
            OpKind::RemoteWrite => return None,
        })
    }
}
