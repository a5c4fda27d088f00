// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an engine under test lives in: storage of the size that its configuration asks for.

use ofi_xdp_core::{
    Active, Assembly, Config, Extent, Peer, RecvOp, Region, Slot, Storage, TimerSlot, TxOp,
    Unexpected,
};

/// What an engine lives in.
#[derive(Debug)]
pub struct Store {
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

impl Store {
    /// Storage of the right size.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        fn room<T: Clone + Default>(count: usize) -> Vec<T> {
            vec![T::default(); count]
        }
        let sizes = config.sizes();
        Self {
            peers: room(sizes.peers),
            index: room(sizes.index),
            actives: room(sizes.actives),
            timers: room(sizes.timers),
            extents: room(sizes.extents),
            ops: room(sizes.ops),
            recvs: room(sizes.recvs),
            assemblies: room(sizes.assemblies),
            unexpected: room(sizes.unexpected),
            regions: room(sizes.regions),
            region_index: room(sizes.region_index),
        }
    }

    /// The engine's for as long as it lives.
    pub fn lend(&mut self) -> Storage<'_> {
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
