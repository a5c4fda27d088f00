// SPDX-License-Identifier: MIT OR Apache-2.0
//! An engine together with the memory that it lives in.
//!
//! The engine borrows slices; here they are allocated once, at enable, and kept beside it.

use ofi_xdp_core::{
    Active, Assembly, Config, ConfigError, Engine, Extent, Identity, Peer, PortLimits, RecvOp,
    Region, Slot, Storage, TimerSlot, TxOp, Unexpected,
};
use self_cell::{MutBorrow, self_cell};

/// One vector for each slice of [`Storage`].
pub(crate) struct Slices {
    peers: Vec<Slot<Peer>>,
    index: Vec<u32>,
    actives: Vec<Slot<Active>>,
    timers: Vec<TimerSlot>,
    extents: Vec<Slot<Extent>>,
    ops: Vec<Slot<TxOp>>,
    recvs: Vec<Slot<RecvOp>>,
    assemblies: Vec<Slot<Assembly>>,
    unexpected: Vec<Slot<Unexpected>>,
    regions: Vec<Slot<Region>>,
    region_index: Vec<u32>,
}

impl Slices {
    fn new(config: &Config) -> Self {
        fn filled<T: Default>(len: usize) -> Vec<T> {
            std::iter::repeat_with(T::default).take(len).collect()
        }
        let sizes = config.sizes();
        Self {
            peers: filled(sizes.peers),
            index: filled(sizes.index),
            actives: filled(sizes.actives),
            timers: filled(sizes.timers),
            extents: filled(sizes.extents),
            ops: filled(sizes.ops),
            recvs: filled(sizes.recvs),
            assemblies: filled(sizes.assemblies),
            unexpected: filled(sizes.unexpected),
            regions: filled(sizes.regions),
            region_index: filled(sizes.region_index),
        }
    }

    fn lend(&mut self) -> Storage<'_> {
        Storage {
            peers: &mut self.peers,
            index: &mut self.index,
            actives: &mut self.actives,
            timers: &mut self.timers,
            extents: &mut self.extents,
            ops: &mut self.ops,
            recvs: &mut self.recvs,
            assemblies: &mut self.assemblies,
            unexpected: &mut self.unexpected,
            regions: &mut self.regions,
            region_index: &mut self.region_index,
        }
    }
}

self_cell! {
    /// An engine and its memory; [`EngineCell::with_dependent_mut`] gives the engine.
    pub(crate) struct EngineCell {
        owner: MutBorrow<Slices>,
        #[not_covariant]
        dependent: Engine,
    }
}

impl EngineCell {
    /// A new engine, in memory of its own.
    ///
    /// # Errors
    /// [`ConfigError`] when capacities and port do not go together.
    pub(crate) fn open(
        config: &Config,
        identity: Identity,
        limits: PortLimits,
    ) -> Result<Self, ConfigError> {
        Self::try_new(MutBorrow::new(Slices::new(config)), |slices| {
            Engine::new(config, slices.borrow_mut().lend(), identity, limits)
        })
    }
}
