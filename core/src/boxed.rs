// SPDX-License-Identifier: MIT OR Apache-2.0
//! An engine, a queue of shared receives, and an agent, together with the memory that each lives
//! in.
//!
//! Each borrows its slices from the owner beside it, so the two are one self-referential value. The
//! macro of `self_cell` contains the unsafe code that this takes; this crate has none.

use crate::cm::{Agent, AgentConfig, AgentStorageBox};
use crate::engine::storage::StorageBox;
use crate::shared_queue::SharedStorageBox;
use crate::{Config, ConfigError, Engine, Identity, PortLimits, SharedQueue};
use self_cell::{MutBorrow, self_cell};

self_cell! {
    struct Cell {
        owner: MutBorrow<StorageBox>,
        #[not_covariant]
        dependent: Engine,
    }
}

self_cell! {
    struct QueueCell {
        owner: MutBorrow<SharedStorageBox>,
        #[not_covariant]
        dependent: SharedQueue,
    }
}

self_cell! {
    struct AgentCell {
        owner: MutBorrow<AgentStorageBox>,
        #[not_covariant]
        dependent: Agent,
    }
}

/// An engine that owns its memory.
pub struct EngineBox(Cell);

impl EngineBox {
    /// An engine in memory of its own, which sends and receives through a port with these `limits`.
    ///
    /// # Errors
    /// [`ConfigError`] when capacities and limits do not go together, or without memory for them.
    pub fn new(
        config: &Config,
        identity: Identity,
        limits: PortLimits,
    ) -> Result<Self, ConfigError> {
        let storage = MutBorrow::new(StorageBox::new(config)?);
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

/// A queue of shared receives that owns its slots.
pub struct SharedQueueBox(QueueCell);

impl SharedQueueBox {
    /// A queue for `size` receives, at most [`SharedRecvId::SLOTS_MAX`]; `secret` as in
    /// [`SharedQueue::new`].
    ///
    /// # Errors
    /// [`ConfigError::NoMemory`] without memory for them.
    ///
    /// [`SharedRecvId::SLOTS_MAX`]: crate::SharedRecvId::SLOTS_MAX
    pub fn new(size: u32, secret: [u64; 2]) -> Result<Self, ConfigError> {
        let storage =
            SharedStorageBox::new(size).ok_or(ConfigError::NoMemory("shared receives"))?;
        Ok(Self(QueueCell::new(MutBorrow::new(storage), |storage| {
            SharedQueue::new(storage.borrow_mut().lend(), secret)
        })))
    }

    /// Calls `f` with the queue.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&SharedQueue<'_>) -> R) -> R {
        self.0.with_dependent(|_, queue| f(queue))
    }

    /// Calls `f` with the queue, to change it.
    #[inline]
    pub fn with_mut<R>(&mut self, f: impl FnOnce(&mut SharedQueue<'_>) -> R) -> R {
        self.0.with_dependent_mut(|_, queue| f(queue))
    }
}

impl core::fmt::Debug for SharedQueueBox {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.with(|queue| queue.fmt(f))
    }
}

/// A connection manager that owns its memory.
pub struct AgentBox(AgentCell);

impl AgentBox {
    /// An agent in memory of its own; `key` as in [`Agent::new`].
    ///
    /// # Errors
    /// [`ConfigError`] when a capacity is too large, or without memory.
    pub fn new(config: &AgentConfig, key: u128) -> Result<Self, ConfigError> {
        let storage = MutBorrow::new(AgentStorageBox::new(config)?);
        let cell = AgentCell::try_new(storage, |storage| {
            Agent::new(config, storage.borrow_mut().lend(), key)
        });
        cell.map(Self)
    }

    /// Calls `f` with the agent.
    pub fn with<R>(&self, f: impl FnOnce(&Agent<'_>) -> R) -> R {
        self.0.with_dependent(|_, agent| f(agent))
    }

    /// Calls `f` with the agent, to change it.
    pub fn with_mut<R>(&mut self, f: impl FnOnce(&mut Agent<'_>) -> R) -> R {
        self.0.with_dependent_mut(|_, agent| f(agent))
    }
}

impl core::fmt::Debug for AgentBox {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.with(|agent| agent.fmt(f))
    }
}
