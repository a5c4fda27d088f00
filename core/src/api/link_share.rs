// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slots that each connected endpoint may have of the pools that all of an engine share.
//!
//! In: capacities of an endpoint. Out: how many more slots it may take. Bound: O(1).

/// The part of one pool for each connected endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkShare {
    /// So many slots are kept for it. The pool must have as many for all endpoints together.
    pub kept: u32,
    /// It has so many slots at most. Those beyond [`Self::kept`] are taken while more than half of
    /// the pool is free.
    pub most: u32,
}

impl LinkShare {
    /// No share: the pool is the only bound.
    pub const NONE: Self = Self { kept: u32::MAX, most: u32::MAX };

    /// How many more slots an endpoint with `used` slots may take, where `free` ones of `capacity`
    /// are left.
    pub(crate) fn left(self, used: u32, free: u32, capacity: u32) -> u32 {
        let kept = self.kept.saturating_sub(used);
        let common = free.saturating_sub(capacity / 2);
        kept.max(common).min(self.most.saturating_sub(used)).min(free)
    }
}

/// The share of each connected endpoint in each pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkShares {
    /// Sends, writes, reads and atomics ([`Config::sends`](crate::Config::sends)).
    pub sends: LinkShare,
    /// Receives ([`Config::recvs`](crate::Config::recvs)).
    pub recvs: LinkShare,
    /// Slices of multi-receive buffers ([`Config::slices`](crate::Config::slices)).
    pub slices: LinkShare,
    /// Completions of remote writes ([`Config::events`](crate::Config::events)): at least 8 are
    /// kept.
    pub events: LinkShare,
}

impl LinkShares {
    /// No shares.
    pub const NONE: Self = Self {
        sends: LinkShare::NONE,
        recvs: LinkShare::NONE,
        slices: LinkShare::NONE,
        events: LinkShare::NONE,
    };

    /// The least number of slots that are kept for an endpoint in any pool.
    pub(crate) fn least_kept(&self) -> u32 {
        let Self { sends, recvs, slices, events } = self;
        [sends, recvs, slices, events]
            .into_iter()
            .map(|it| it.kept.min(it.most))
            .fold(u32::MAX, u32::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_slots_are_there_for_each_endpoint_however_many_others_take() {
        const ENDPOINTS: usize = 8;
        let share = LinkShare { kept: 4, most: 20 };
        let (capacity, mut used) = (64, [0; ENDPOINTS]);
        for at in 0..ENDPOINTS {
            // bound: the slots
            while share.left(used[at], capacity - used.iter().sum::<u32>(), capacity) > 0 {
                used[at] += 1;
            }
        }
        assert_eq!(used, [20, 12, 4, 4, 4, 4, 4, 4]);
    }

    #[test]
    fn the_slots_that_are_left_can_be_taken() {
        let share = LinkShare { kept: 3, most: 20 };
        for (mut used, mut free) in [(0, 64), (2, 40), (2, 33), (2, 32), (1, 1), (19, 64), (20, 9)]
        {
            let left = share.left(used, free, 64);
            for more in (0..left).rev() {
                (used, free) = (used + 1, free - 1);
                assert_eq!(share.left(used, free, 64), more);
            }
        }
        assert_eq!(LinkShare::NONE.left(7, 5, 9), 5);
    }
}
