// SPDX-License-Identifier: MIT OR Apache-2.0
//! An engine together with the memory that it lives in.
//!
//! The engine borrows its slices from the [`StorageBox`] beside it, so the two are one
//! self-referential value. The macro of `self_cell` contains the unsafe code that this takes; this
//! crate has none.

use crate::engine::storage::StorageBox;
use crate::{Config, ConfigError, Engine, Identity, PortLimits};
use self_cell::{MutBorrow, self_cell};

self_cell! {
    struct Cell {
        owner: MutBorrow<StorageBox>,
        #[not_covariant]
        dependent: Engine,
    }
}

/// An engine that owns its memory.
pub struct EngineBox(Cell);

impl EngineBox {
    /// An engine in memory of its own, which sends and receives through a port with these `limits`.
    ///
    /// # Errors
    /// [`ConfigError`] when capacities and limits do not go together.
    pub fn new(
        config: &Config,
        identity: Identity,
        limits: PortLimits,
    ) -> Result<Self, ConfigError> {
        let storage = MutBorrow::new(StorageBox::new(config));
        let cell = Cell::try_new(storage, |storage| {
            Engine::new(config, storage.borrow_mut().lend(), identity, limits)
        });
        cell.map(Self)
    }

    /// Calls `f` with the engine.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&Engine<'_>) -> R) -> R {
        self.0.with_dependent(|_, engine| f(engine))
    }

    /// Calls `f` with the engine, to change it.
    #[inline]
    pub fn with_mut<R>(&mut self, f: impl FnOnce(&mut Engine<'_>) -> R) -> R {
        self.0.with_dependent_mut(|_, engine| f(engine))
    }
}

impl core::fmt::Debug for EngineBox {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.with(|engine| engine.fmt(f))
    }
}
