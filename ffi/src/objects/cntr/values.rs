// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two values of a counter: operations that ended with success, and in error. Both are sums of
//! the engines' counts of the bound kinds, and wrap around.

use ofi_xdp_core::{OpCount, OpCounters, TargetCounters};

use crate::sys::abi::bits;

/// A counter's two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CounterValues {
    pub(super) done: u64,
    pub(super) failed: u64,
}

impl CounterValues {
    /// The sum.
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            done: self.done.wrapping_add(other.done),
            failed: self.failed.wrapping_add(other.failed),
        }
    }

    /// The difference.
    pub(super) const fn minus(self, other: Self) -> Self {
        Self {
            done: self.done.wrapping_sub(other.done),
            failed: self.failed.wrapping_sub(other.failed),
        }
    }

    /// The values of an endpoint that is bound with `flags`.
    pub(super) fn of_endpoint(op_counters: &OpCounters, flags: u64) -> Self {
        let own = [
            (bits::SEND, op_counters.sends),
            (bits::RECV, op_counters.receives),
            (bits::WRITE, op_counters.writes),
            (bits::READ, op_counters.reads),
        ];
        let chosen = own.into_iter().filter(|(flag, _)| flags & flag != 0);
        chosen.fold(
            Self::of_target(op_counters.target, flags),
            |sum, (_, OpCount { done, failed })| sum.plus(Self { done, failed }),
        )
    }

    /// The values of a region that is bound with `flags`. Every operation that changes the region
    /// is a write, a fetching atomic too (`fi_mr(3)`, `fi_mr_bind`). Each operation counts once.
    pub(super) const fn of_region(served: TargetCounters, flags: u64) -> Self {
        let changes = flags & (bits::REMOTE_WRITE | bits::REMOTE_READ) == bits::REMOTE_WRITE;
        let updates = if changes { served.updates } else { 0 };
        Self { done: updates, failed: 0 }.plus(Self::of_target(served, flags))
    }

    /// Operations of peers, as `fi_ep_bind` counts them: an atomic that fetches nothing is a write.
    const fn of_target(served: TargetCounters, flags: u64) -> Self {
        let writes = if flags & bits::REMOTE_WRITE != 0 { served.writes } else { 0 };
        let reads = if flags & bits::REMOTE_READ != 0 { served.reads } else { 0 };
        Self { done: writes + reads, failed: 0 }
    }
}
