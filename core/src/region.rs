// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that peers may reach: keys, rights and bounds (`docs/PROTOCOL.md` §7.4).
//!
//! In: registrations by the application, and accesses that packets ask for. Out: a region and an
//! offset that lie within what was registered, or the reason why not. A key is 32 bits of
//! identifier (slot and generation) and 32 random bits: whoever was not told it guesses it once in
//! 2^32 packets, and a key that was taken back never names the slot's next tenant. All operations
//! are O(1).

use crate::slab::{Slab, Slot};
use crate::{OpError, RegionId};

bitflags::bitflags! {
    /// What peers may do with a region (`fi_mr(3)`).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Access: u8 {
        /// Read it: `FI_REMOTE_READ`; also what atomics that fetch need.
        const READ = 1 << 0;
        /// Write it: `FI_REMOTE_WRITE`; also what atomics need.
        const WRITE = 1 << 1;
    }
}

/// A request to make memory reachable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionRequest {
    /// The address by which peers call its first byte: 0, or with `FI_MR_VIRT_ADDR` the real one.
    pub address: u64,
    /// Length in bytes; `address + len` does not wrap.
    pub len: u64,
    /// What peers may do.
    pub access: Access,
}

/// A region that is registered, as it lives in the engine's storage.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct Region {
    address: u64,
    len: u64,
    secret: u32,
    access: Access,
}

/// The regions of an engine.
#[derive(Debug)]
pub(crate) struct Regions<'s> {
    slots: Slab<'s, Region>,
}

impl<'s> Regions<'s> {
    pub(crate) fn new(slots: &'s mut [Slot<Region>]) -> Self {
        Self { slots: Slab::new(slots) }
    }

    /// Registers a region under a key that holds `secret`; `None` where there is no slot, or the
    /// range wraps.
    pub(crate) fn insert(
        &mut self,
        request: &RegionRequest,
        secret: u32,
    ) -> Option<(RegionId, u64)> {
        request.address.checked_add(request.len)?;
        let RegionRequest { address, len, access } = *request;
        let number = self.slots.alloc(Region { address, len, secret, access })?;
        let id = RegionId::new(number, self.slots.generation(number));
        Some((id, u64::from(secret) << 32 | u64::from(id.bits())))
    }

    /// Takes a region back: from now on its key opens nothing. Whether there was one.
    pub(crate) fn remove(&mut self, id: RegionId) -> bool {
        let known = self.is_known(id);
        if known {
            self.slots.release(id.slot());
        }
        known
    }

    /// Whether `id` names a region that is still registered.
    pub(crate) fn is_known(&self, id: RegionId) -> bool {
        let number = id.slot();
        self.slots.is_used(number) && RegionId::new(number, self.slots.generation(number)) == id
    }

    /// The region and the offset in it that `len` bytes at `address` under `key` stand for.
    ///
    /// # Errors
    /// [`OpError::Key`]: no such key, or not this right. [`OpError::Bounds`]: not all of it is
    /// inside.
    pub(crate) fn resolve(
        &self,
        key: u64,
        address: u64,
        len: u64,
        access: Access,
    ) -> Result<(RegionId, u64), OpError> {
        let id = RegionId::from_bits(key as u32);
        if !self.is_known(id) {
            return Err(OpError::Key);
        }
        let region = &self.slots[id.slot()];
        if region.secret != (key >> 32) as u32 || !region.access.contains(access) {
            return Err(OpError::Key);
        }
        let offset = address.checked_sub(region.address).ok_or(OpError::Bounds)?;
        match offset.checked_add(len) {
            Some(end) if end <= region.len => Ok((id, offset)),
            _ => Err(OpError::Bounds),
        }
    }

    pub(crate) fn slab(&self) -> &Slab<'s, Region> {
        &self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    proptest! {
        #[test]
        fn an_access_is_inside_or_refused(
            base: u64, len: u64, address: u64, wanted: u64, rights in 0u8..4, wants in 1u8..4,
        ) {
            let mut slots = vec![Slot::<Region>::default(); 2];
            let mut regions = Regions::new(&mut slots);
            let access = Access::from_bits_truncate(rights);
            let request = RegionRequest { address: base, len, access };
            let Some((id, key)) = regions.insert(&request, 7) else {
                prop_assert!(base.checked_add(len).is_none());
                return Ok(());
            };
            let wants = Access::from_bits_truncate(wants);
            let inside = address >= base
                && u128::from(address) + u128::from(wanted) <= u128::from(base) + u128::from(len);
            let found = regions.resolve(key, address, wanted, wants);
            match (access.contains(wants), inside) {
                (false, _) => prop_assert_eq!(found, Err(OpError::Key)),
                (true, false) => prop_assert_eq!(found, Err(OpError::Bounds)),
                (true, true) => prop_assert_eq!(found, Ok((id, address - base))),
            }
            prop_assert_eq!(regions.resolve(key ^ 1 << 40, base, 0, wants), Err(OpError::Key));
            prop_assert!(regions.remove(id) && !regions.remove(id));
            prop_assert_eq!(regions.resolve(key, base, 0, wants), Err(OpError::Key));
            let (_, next) = regions.insert(&request, 7).unwrap();
            prop_assert_ne!(next, key, "the generation tells them apart");
        }
    }
}
