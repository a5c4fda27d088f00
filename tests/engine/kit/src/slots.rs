// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables by slot number, in which an identifier that outlived its object resolves to nothing.

use ofi_xdp_core::{OpId, RecvId, RegionId};

use crate::violation::{Invariant, Violation};

/// An identifier of an object in a slot.
pub(crate) trait SlotId: Copy + PartialEq + std::fmt::Debug {
    /// Number of the slot.
    fn index(self) -> usize;
}

impl SlotId for OpId {
    fn index(self) -> usize {
        self.slot() as usize
    }
}

impl SlotId for RecvId {
    fn index(self) -> usize {
        self.slot() as usize
    }
}

impl SlotId for RegionId {
    fn index(self) -> usize {
        self.slot() as usize
    }
}

/// Objects by slot, each with its identifier.
#[derive(Debug)]
pub(crate) struct Slots<I, T>(Vec<Option<(I, T)>>);

impl<I: SlotId, T> Slots<I, T> {
    /// An empty table.
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Puts an object into its slot; returns the object that was there.
    pub(crate) fn insert(&mut self, id: I, object: T) -> Option<(I, T)> {
        if self.0.len() <= id.index() {
            self.0.resize_with(id.index() + 1, || None);
        }
        self.0[id.index()].replace((id, object))
    }

    /// The identifier of the object in the slot of `id`.
    fn tenant(&self, id: I) -> Option<I> {
        self.0.get(id.index())?.as_ref().map(|(known, _)| *known)
    }

    /// The object with this identifier.
    pub(crate) fn find(&self, id: I) -> Result<&T, Violation> {
        match self.0.get(id.index()) {
            Some(Some((known, object))) if *known == id => Ok(object),
            _ => Err(unknown(id, self.tenant(id))),
        }
    }

    /// The object with this identifier, to be changed.
    pub(crate) fn find_mut(&mut self, id: I) -> Result<&mut T, Violation> {
        let tenant = self.tenant(id);
        match self.0.get_mut(id.index()) {
            Some(Some((known, object))) if *known == id => Ok(object),
            _ => Err(unknown(id, tenant)),
        }
    }

    /// Takes the object with this identifier out of its slot.
    pub(crate) fn remove(&mut self, id: I) -> Result<T, Violation> {
        let tenant = self.tenant(id);
        let entry =
            self.0.get_mut(id.index()).and_then(|slot| slot.take_if(|(known, _)| *known == id));
        entry.map(|(_, object)| object).ok_or_else(|| unknown(id, tenant))
    }

    /// The identifier of the first object for which `is` holds.
    pub(crate) fn position(&self, is: impl Fn(&T) -> bool) -> Option<I> {
        self.0.iter().flatten().find(|(_, object)| is(object)).map(|(id, _)| *id)
    }
}

fn unknown<I: SlotId>(id: I, tenant: Option<I>) -> Violation {
    match tenant {
        None => Violation::new(Invariant::Ended, format!("{id:?} has no buffer")),
        Some(tenant) => {
            Violation::new(Invariant::Identifier, format!("{id:?}, but the slot is {tenant:?}'s"))
        }
    }
}
