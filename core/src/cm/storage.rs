// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of an agent, and its capacities.
//!
//! In: an [`AgentConfig`]. Out: [`AgentStorage`], the memory that an agent borrows; with the
//! feature `alloc` also [`AgentStorageBox`], the slices on the heap. Caller: the owner of
//! an agent. Bound: the capacities of the configuration.

use super::exchange::{Exchange, ROLES};
use crate::ConfigError;
use crate::api::config::ChecksumFn;
#[cfg(feature = "alloc")]
use crate::collections::filled::{filled, zeroed};
use crate::collections::slab::Slot;
use crate::collections::slots::Slots;
use crate::collections::wheel::TimerSlot;
#[cfg(feature = "alloc")]
use alloc::boxed::Box;
use core::time::Duration;

/// The most slots: numbers of the slab have 24 bits.
const SLOTS_MAX: u64 = (1 << 24) - 1;

/// The capacities and times of an agent.
#[derive(Clone, Copy, Debug)]
pub struct AgentConfig {
    /// Silence after which the other side counts as gone.
    pub connect_timeout: Duration,
    /// Requests of this side that were not released.
    pub connects: u32,
    /// The largest backlog: requests of other sides that were not released. As many that were
    /// released are remembered, so that late packets do not begin them again.
    pub backlog: u32,
    /// CRC-32C, as in [`Config::checksum`](crate::Config::checksum).
    pub checksum: ChecksumFn,
}

impl AgentConfig {
    /// Slots of each role.
    pub(super) fn slots(&self) -> Result<[u32; ROLES], ConfigError> {
        let total = u64::from(self.connects) + 2 * u64::from(self.backlog);
        if total == 0 || total > SLOTS_MAX {
            return Err(ConfigError::Capacity("connects and backlog"));
        }
        Ok([self.connects, 2 * self.backlog])
    }

    /// All slots, and the length of the hash table for them.
    fn lens(&self) -> Result<[usize; 2], ConfigError> {
        let [connects, requests] = self.slots()?;
        let slots = (connects + requests) as usize;
        Ok([slots, (2 * slots).next_power_of_two()])
    }
}

/// The memory that an agent lives in.
#[derive(Debug)]
pub struct AgentStorage<'s> {
    pub(super) exchanges: Slots<'s, Slot<Exchange>>,
    pub(super) index: &'s mut [u32],
    pub(super) timers: &'s mut [TimerSlot],
}

impl AgentStorage<'_> {
    /// Checks that each slice has the length that `config` asks for.
    pub(super) fn check(&self, config: &AgentConfig) -> Result<(), ConfigError> {
        let [slots, index] = config.lens()?;
        let are_right = [
            ("exchanges", self.exchanges.room() == slots),
            ("index", self.index.len() == index),
            ("timers", self.timers.len() == slots),
        ];
        match are_right.into_iter().find(|(_, is_right)| !is_right) {
            Some((name, _)) => Err(ConfigError::Storage(name)),
            None => Ok(()),
        }
    }
}

/// The memory that an agent lives in, on the heap.
#[cfg(feature = "alloc")]
#[derive(Debug)]
pub struct AgentStorageBox {
    exchanges: Slots<'static, Slot<Exchange>>,
    index: Box<[u32]>,
    timers: Box<[TimerSlot]>,
}

#[cfg(feature = "alloc")]
impl AgentStorageBox {
    /// Allocates the memory that `config` asks for.
    ///
    /// # Errors
    /// [`ConfigError`] when a capacity is too large, or without memory.
    pub fn new(config: &AgentConfig) -> Result<Self, ConfigError> {
        let [slots, index] = config.lens()?;
        Ok(Self {
            exchanges: Slots::with_room(slots).ok_or(ConfigError::NoMemory("exchanges"))?,
            index: zeroed(index).ok_or(ConfigError::NoMemory("index"))?,
            timers: filled(slots).ok_or(ConfigError::NoMemory("timers"))?,
        })
    }

    /// Lends the memory to an agent, once: a second agent would find no slots.
    pub fn lend(&mut self) -> AgentStorage<'_> {
        let Self { exchanges, index, timers } = self;
        AgentStorage { exchanges: exchanges.take(), index, timers }
    }
}
