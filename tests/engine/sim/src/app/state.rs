// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the random application, and the regions that it has registered.

use crate::scenario::Scenario;
use ofi_xdp_core::RegionId;
use ofi_xdp_test_kit::rng::Rng;

/// Cells of a region for atomics: the first half is added to, the second swapped.
pub const CELLS: u64 = 16;
/// A region that was registered at some time.
#[derive(Clone, Debug)]
pub struct Region {
    /// The node that registered it.
    pub node: u32,
    /// The life of the node.
    pub life: u32,
    /// The engine's identifier of it.
    pub id: RegionId,
    /// The key for peers.
    pub key: u64,
    /// The address of its first byte for peers.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// Bytes at its beginning that no operation writes.
    pub fixed: u64,
    /// Whether it is registered.
    pub alive: bool,
    /// The offset of the next write.
    pub(super) next: u64,
}

impl Region {
    /// The number that the fixed bytes of region `number` belong to.
    #[must_use]
    pub const fn id_of_contents(&self, number: usize) -> u64 {
        1 << 48 | number as u64
    }

    /// Offset of a cell.
    #[must_use]
    pub const fn cell(&self, cell: u64) -> u64 {
        self.fixed + cell * 8
    }

    /// Whether a cell is added to.
    #[must_use]
    pub const fn is_counter(&self, cell: u64) -> bool {
        cell < CELLS / 2
    }

    /// Where writes may go.
    #[must_use]
    pub const fn writable(&self) -> u64 {
        self.cell(CELLS)
    }
}

/// The application of all nodes.
#[derive(Debug)]
pub struct App {
    pub(super) rng: Rng,
    /// Operations still to be posted.
    pub left: u32,
    /// The region that each node has registered at present.
    pub(super) regions: Vec<Option<usize>>,
    /// Only messages in flight are still received.
    pub draining: bool,
    /// No message is received any more.
    pub finished: bool,
    pub(super) pause: u64,
}

impl App {
    /// The application of a run.
    #[must_use]
    pub fn new(seed: u64, scenario: &Scenario) -> Self {
        let nodes = scenario.nodes as usize;
        Self {
            rng: Rng::new(seed, "app"),
            left: scenario.ops,
            regions: vec![None; nodes],
            draining: false,
            finished: false,
            pause: 100_000,
        }
    }

    /// A node begins a new life.
    pub fn reborn(&mut self, node: u32) {
        self.regions[node as usize] = None;
    }
}
