// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a counter says: operations that ended well and that did not, as sums over what engines have
//! counted of the kinds that the counter is bound for. Sums wrap around.

use ofi_xdp_core::{Count, Served, Tally};

use crate::abi::bits;

/// A counter's two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Values {
    pub(super) done: u64,
    pub(super) failed: u64,
}

impl Values {
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

    /// Of an endpoint that is bound with `flags`.
    pub(super) fn of_endpoint(tally: &Tally, flags: u64) -> Self {
        let own = [
            (bits::SEND, tally.sends),
            (bits::RECV, tally.receives),
            (bits::WRITE, tally.writes),
            (bits::READ, tally.reads),
        ];
        let chosen = own.into_iter().filter(|(flag, _)| flags & flag != 0);
        chosen.fold(Self::of_served(tally.served, flags), |sum, (_, Count { done, failed })| {
            sum.plus(Self { done, failed })
        })
    }

    /// Of a region that is bound with `flags`. Whatever changes it is a write there, also what
    /// brings something back (`fi_mr(3)`, `fi_mr_bind`); each operation counts once.
    pub(super) const fn of_region(served: Served, flags: u64) -> Self {
        let changes = flags & (bits::REMOTE_WRITE | bits::REMOTE_READ) == bits::REMOTE_WRITE;
        let updates = if changes { served.updates } else { 0 };
        Self { done: updates, failed: 0 }.plus(Self::of_served(served, flags))
    }

    /// What peers did, as `fi_ep_bind` has it: an atomic is a write if it brings nothing back.
    const fn of_served(served: Served, flags: u64) -> Self {
        let writes = if flags & bits::REMOTE_WRITE != 0 { served.writes } else { 0 };
        let reads = if flags & bits::REMOTE_READ != 0 { served.reads } else { 0 };
        Self { done: writes + reads, failed: 0 }
    }
}
