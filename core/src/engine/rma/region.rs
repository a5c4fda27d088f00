// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that peers may reach: keys, rights and bounds (`docs/PROTOCOL.md` §7.4).
//!
//! In: registrations by the application, and accesses that packets request. Out: a region and an
//! offset inside of the registered range, or the reason of the refusal. A key has 64 bits: the
//! application's choice, or random, so that only peers that were given the key can use it. All
//! operations are O(1).

use crate::api::counters::TargetCounters;
use crate::collections::index::Index;
use crate::collections::secret::{Secret, Use};
use crate::collections::slab::{Slab, Slot};
use crate::collections::slots::Slots;
use crate::peer::slots::RegionSlot;
use crate::{OpError, RegionError, RegionId};

bitflags::bitflags! {
    /// Rights of peers to a region (`fi_mr(3)`).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Access: u8 {
        /// Read it: `FI_REMOTE_READ`; needed by atomics that fetch, too.
        const READ = 1 << 0;
        /// Write it: `FI_REMOTE_WRITE`; needed by atomics, too.
        const WRITE = 1 << 1;
    }
}

/// A request to make memory reachable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionRequest {
    /// The key by which peers call it; `None`: a random one.
    pub key: Option<u64>,
    /// The address by which peers call its first byte: 0, or with `FI_MR_VIRT_ADDR` the real one.
    pub address: u64,
    /// Length in bytes; `address + len` does not wrap.
    pub len: u64,
    /// Rights of peers.
    pub access: Access,
}

/// A registered region, as it lives in the engine's storage.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Region {
    key: u64,
    address: u64,
    len: u64,
    access: Access,
    counters: TargetCounters,
}

/// The regions of an engine.
#[derive(Debug)]
pub(crate) struct Regions<'s> {
    slots: Slab<'s, Region, RegionSlot>,
    index: Index<'s, u64, RegionSlot>,
}

impl<'s> Regions<'s> {
    pub(crate) fn new(
        slots: Slots<'s, Slot<Region>>,
        index: &'s mut [u32],
        secret: &Secret,
    ) -> Self {
        let index = Index::new(index, secret.subkey(Use::RegionTable));
        Self { slots: Slab::new(slots), index }
    }

    /// Registers a region; also gives its key.
    ///
    /// # Errors
    /// [`RegionError`].
    pub(crate) fn insert(
        &mut self,
        request: &RegionRequest,
        secret: &mut Secret,
    ) -> Result<(RegionId, u64), RegionError> {
        let RegionRequest { address, len, access, .. } = *request;
        address.checked_add(len).ok_or(RegionError::Wraps)?;
        let key = match request.key {
            Some(key) if self.find(key).is_some() => return Err(RegionError::KeyInUse),
            Some(key) => key,
            None => self.random_key(secret)?,
        };
        let region = Region { key, address, len, access, counters: TargetCounters::default() };
        let number = self.slots.alloc(region).ok_or(RegionError::Full)?;
        self.index.insert(&key, number);
        Ok((number.id(self.slots.generation(number)), key))
    }

    /// A random key that is free.
    fn random_key(&self, secret: &mut Secret) -> Result<u64, RegionError> {
        // A second try is needed once in 2^44 registrations.
        const TRIES: usize = 4;
        let mut keys = core::iter::repeat_with(|| secret.draw(Use::RegionKey)).take(TRIES);
        keys.find(|&key| self.find(key).is_none()).ok_or(RegionError::KeyInUse)
    }

    /// Takes a region back: its key is not valid from now on. Returns whether it was registered.
    pub(crate) fn remove(&mut self, id: RegionId) -> bool {
        let known = self.is_known(id);
        if known {
            let (slots, number) = (&self.slots, RegionSlot::of(id));
            self.index.remove(&slots[number].key, number, |slot| slots[slot].key);
            self.slots.release(number);
        }
        known
    }

    /// Whether `id` names a region that is still registered.
    pub(crate) fn is_known(&self, id: RegionId) -> bool {
        let number = RegionSlot::of(id);
        self.slots.is_used(number) && number.id(self.slots.generation(number)) == id
    }

    /// The access counters of a region that [`Self::resolve`] has just named.
    pub(crate) fn counters_mut(&mut self, id: RegionId) -> &mut TargetCounters {
        &mut self.slots[RegionSlot::of(id)].counters
    }

    /// The access counters of a region.
    pub(crate) fn get(&self, id: RegionId) -> &TargetCounters {
        &self.slots[RegionSlot::of(id)].counters
    }

    fn find(&self, key: u64) -> Option<RegionSlot> {
        self.index.find(&key, |slot| self.slots[slot].key)
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
        let number = self.find(key).ok_or(OpError::Key)?;
        let region = &self.slots[number];
        if !region.access.contains(access) {
            return Err(OpError::Key);
        }
        let id = number.id(self.slots.generation(number));
        let offset = address.checked_sub(region.address).ok_or(OpError::Bounds)?;
        match offset.checked_add(len) {
            Some(end) if end <= region.len => Ok((id, offset)),
            _ => Err(OpError::Bounds),
        }
    }

    /// How many bytes of a region that [`Self::resolve`] has just named are from `end` on.
    #[inline]
    pub(crate) fn room_behind(&self, id: RegionId, end: u64) -> u64 {
        self.slots[RegionSlot::of(id)].len.saturating_sub(end)
    }

    pub(crate) fn slab(&self) -> &Slab<'s, Region, RegionSlot> {
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
            let (slots, mut index) = (Slots::with_room(2).unwrap(), vec![0; 4]);
            let mut regions = Regions::new(slots, &mut index, &Secret::new(5));
            let mut secret = Secret::new(7);
            let access = Access::from_bits_truncate(rights);
            let request = RegionRequest { key: None, address: base, len, access };
            let Ok((id, key)) = regions.insert(&request, &mut secret) else {
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
            let taken = RegionRequest { key: Some(key), ..request };
            prop_assert_eq!(regions.insert(&taken, &mut secret), Err(RegionError::KeyInUse));
            prop_assert!(regions.remove(id) && !regions.remove(id));
            prop_assert_eq!(regions.resolve(key, base, 0, wants), Err(OpError::Key));
            let (next, _) = regions.insert(&taken, &mut secret).unwrap();
            prop_assert_ne!(next, id, "the generation tells them apart");
        }
    }

    #[test]
    fn keys_are_the_applications_choice() {
        let (slots, mut index) = (Slots::with_room(3).unwrap(), vec![0; 8]);
        let mut regions = Regions::new(slots, &mut index, &Secret::new(5));
        let mut secret = Secret::new(7);
        let request =
            |key| RegionRequest { key: Some(key), address: 0, len: 8, access: Access::all() };
        let keys = [0, u64::MAX, 8];
        let ids = keys.map(|key| regions.insert(&request(key), &mut secret).unwrap().0);
        assert_eq!(regions.insert(&request(9), &mut secret), Err(RegionError::Full));
        for (key, id) in keys.into_iter().zip(ids) {
            assert_eq!(regions.resolve(key, 1, 7, Access::READ), Ok((id, 1)));
            assert!(regions.remove(id));
            assert_eq!(regions.resolve(key, 1, 7, Access::READ), Err(OpError::Key));
        }
    }
}
