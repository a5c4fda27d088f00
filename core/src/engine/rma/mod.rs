// SPDX-License-Identifier: MIT OR Apache-2.0
//! The target side of remote memory access: regions, and the accesses of peers to them
//! (`docs/PROTOCOL.md` §7, §8).
//!
//! In: registrations of the application, records of requests. Out: bytes placed, atomics executed,
//! responses and events queued. Bound: the record.

pub(super) mod region;
pub(super) mod target;

use crate::collections::secret::Secret;
use crate::engine::rma::region::{RegionRequest, Regions};
use crate::engine::violation::{Violation, sound};
use crate::{RegionError, RegionId, TargetCounters};
use core::hash::{Hash, Hasher};

/// Memory regions that peers may access.
#[derive(Debug)]
pub(super) struct RmaTarget<'s> {
    regions: Regions<'s>,
}

impl<'s> RmaTarget<'s> {
    /// A target with these regions.
    pub(super) const fn new(regions: Regions<'s>) -> Self {
        Self { regions }
    }
}

impl RmaTarget<'_> {
    /// Registers a region; also gives its key.
    ///
    /// # Errors
    /// [`RegionError`].
    pub(super) fn register(
        &mut self,
        request: &RegionRequest,
        secret: &mut Secret,
    ) -> Result<(RegionId, u64), RegionError> {
        self.regions.insert(request, secret)
    }

    /// Takes a region back; returns whether it was registered.
    pub(super) fn deregister(&mut self, region: RegionId) -> bool {
        self.regions.remove(region)
    }

    /// The accesses of peers to a region; `None` if it is not registered.
    pub(super) fn counters(&self, region: RegionId) -> Option<TargetCounters> {
        self.is_registered(region).then(|| *self.regions.get(region))
    }

    /// Checks that free and used slots of the regions add up.
    pub(super) fn audit_pools(&self) -> Result<(), Violation> {
        sound("regions", self.regions.slab())
    }

    /// Hashes the state, for tests.
    pub(super) fn digest(&self, hasher: &mut impl Hasher) {
        self.regions.slab().hash(hasher);
    }

    /// Whether a region is registered.
    pub(super) fn is_registered(&self, region: RegionId) -> bool {
        self.regions.is_known(region)
    }
}
