// SPDX-License-Identifier: MIT OR Apache-2.0
//! How large an engine is and how it behaves, and the storage it therefore needs.

use crate::in_flight::Extent;
use crate::operation::{Assembly, RecvOp, TxOp, Unexpected};
use crate::peer::{Active, Peer};
use crate::region::Region;
use crate::slab::Slot;
use crate::time::DEATH_MAX;
use crate::unexpected::{CLASSES, UNEXPECTED_CLASS_LEN};
use crate::wheel::TimerSlot;
use crate::wire::{ATOMIC_LEN_MAX, Checksum};
use crate::{ConfigError, OpId, PeerId, RecvId, RegionId, UnexpectedId};
use core::time::Duration;

bitflags::bitflags! {
    /// Which operations to one peer keep their order (`fi_endpoint(3)`, "Message Ordering"); the
    /// letters are libfabric's: read, write (and atomic), send; the first comes *after* the second.
    /// Messages always match in order (SAS).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Order: u16 {
        /// A read waits until earlier reads have ended.
        const RAR = 1 << 0;
        /// A read sees earlier writes.
        const RAW = 1 << 1;
        /// A read waits until earlier messages are accepted.
        const RAS = 1 << 2;
        /// A write waits until earlier reads have ended.
        const WAR = 1 << 3;
        /// A write takes effect after earlier writes.
        const WAW = 1 << 4;
        /// A write waits until earlier messages are accepted.
        const WAS = 1 << 5;
        /// A message waits until earlier reads have ended.
        const SAR = 1 << 6;
        /// A message matches after earlier writes took effect.
        const SAW = 1 << 7;
    }
}

/// How much a sender has under way to one peer (`docs/PROTOCOL.md` §4.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Congestion {
    /// As much as keeps the delay of the path near what it is when idle.
    Delay,
    /// So many packets, whatever happens: for measurement.
    Fixed(u16),
    /// As much as the peer's window allows: for measurement.
    Off,
}

/// An engine's capacities and times.
#[derive(Clone, Debug)]
pub struct Config {
    /// Peers in the table, known by address.
    pub peers: u32,
    /// Peers that can have traffic under way at once.
    pub active_peers: u32,
    /// Sends, writes, reads and atomics that can be posted at once (their completions not polled
    /// yet).
    pub sends: u32,
    /// Receives that can be posted at once (their completions not polled yet).
    pub recvs: u32,
    /// Messages in buffers for many that can be there at once (their completions not polled yet).
    pub parts: u32,
    /// Messages of more than one packet that can be arriving at once.
    pub assemblies: u32,
    /// Unexpected messages that can be stored, by class ([`UNEXPECTED_CLASS_LEN`] bytes each).
    pub unexpected: [u32; CLASSES],
    /// Memory regions that can be registered at once.
    pub regions: u32,
    /// Requests of peers (reads, fetching atomics, pulls) that can be answered at once; at least
    /// one for each active peer, and what is beyond that speeds up peers that have several.
    pub responders: u32,
    /// Parts of long messages that can be on request at once, from all peers together: the
    /// receiver's budget, in units of [`PULL_LEN_MAX`](crate::PULL_LEN_MAX) bytes.
    pub pulls: u32,
    /// Completions of remote writes that can wait for their turn or to be polled; at least as many
    /// as one packet can bring, 8, which never wait for their turn.
    pub events: u32,
    /// Messages up to this many bytes are pushed, longer ones are pulled by their receiver; half of
    /// that for each eighth of the receiver's storage that is full. More than a slot of the largest
    /// class holds ([`UNEXPECTED_CLASS_LEN`]) would be refused wherever no receive is posted.
    pub eager_max: u32,
    /// Which orders the application was promised.
    pub order: Order,
    /// Whether the end of a peer's write is counted only when every byte of it is in place
    /// (`FI_RMA_EVENT`). Ends that come early are then not taken in, and come again.
    pub rma_events: bool,
    /// How much is under way to one peer.
    pub congestion: Congestion,
    /// Silence from a peer, with operations waiting for it, after which they end in error; at most
    /// 120 s. Of a time without calls no more than a quarter of that counts, or until the next
    /// timer.
    pub death: Duration,
    /// CRC-32C, as fast as the machine can.
    pub checksum: Checksum,
}

impl Config {
    /// The capacities that production uses: 16,384 peers, 1,024 of them active, 1,024 sends and
    /// receives, as many messages in buffers for many, 29 MB of unexpected messages; death after
    /// 10 s.
    #[must_use]
    pub const fn new(checksum: Checksum) -> Self {
        Self {
            peers: 16 << 10,
            active_peers: 1 << 10,
            sends: 1 << 10,
            recvs: 1 << 10,
            parts: 1 << 10,
            assemblies: 1 << 10,
            unexpected: [4 << 10, 2 << 10, 512, 128],
            regions: 4 << 10,
            responders: 4 << 10,
            pulls: 32,
            events: 1 << 10,
            eager_max: 128 << 10,
            order: Order::empty(),
            rma_events: false,
            congestion: Congestion::Delay,
            death: Duration::from_secs(10),
            checksum,
        }
    }

    /// How many elements each slice of the storage must have.
    #[must_use]
    pub fn sizes(&self) -> StorageSizes {
        let count = |n: u32| n as usize;
        StorageSizes {
            peers: count(self.peers),
            index: (count(self.peers) * 2).next_power_of_two(),
            actives: count(self.active_peers),
            timers: count(self.active_peers),
            extents: count(self.active_peers + (self.active_peers / 8).max(EXTENTS_SHARED)),
            ops: self.ops().map(count).iter().sum(),
            recvs: self.receives().map(count).iter().sum(),
            assemblies: count(self.assemblies),
            unexpected: self.unexpected.map(count).iter().sum(),
            regions: count(self.regions),
            region_index: (count(self.regions) * 2).next_power_of_two(),
        }
    }

    /// Slots for operations, by pool.
    pub(crate) const fn ops(&self) -> [u32; 3] {
        [self.sends, self.responders, self.pulls]
    }

    /// Slots for receives, messages in buffers for many, and events.
    pub(crate) const fn receives(&self) -> [u32; 3] {
        [self.recvs, self.parts, self.events]
    }

    /// Bytes that [`Memory`](crate::Memory) must keep for what fetching atomics found.
    #[must_use]
    pub fn former_bytes(&self) -> u64 {
        u64::from(self.responders) * ATOMIC_LEN_MAX as u64
    }

    /// Where in those bytes the find of one operation lies: offset and length. `None` for an
    /// operation that keeps none; the engine does not ask for those.
    #[must_use]
    pub fn former_range(&self, id: OpId) -> Option<(u64, u64)> {
        let index = id.slot().checked_sub(self.sends)?;
        let len = ATOMIC_LEN_MAX as u64;
        (index < self.responders).then(|| (u64::from(index) * len, len))
    }

    /// Bytes that [`Memory`](crate::Memory) must keep for unexpected messages.
    #[must_use]
    pub fn unexpected_bytes(&self) -> u64 {
        self.unexpected.iter().zip(UNEXPECTED_CLASS_LEN).map(|(&n, len)| u64::from(n) * len).sum()
    }

    /// Where in those bytes the storage of one message lies: offset and length. Within
    /// [`Self::unexpected_bytes`] for every identifier that an engine of this configuration hands
    /// out.
    #[must_use]
    pub fn unexpected_range(&self, id: UnexpectedId) -> (u64, u64) {
        let (mut index, mut offset) = (id.slot(), 0);
        for (&count, len) in self.unexpected.iter().zip(UNEXPECTED_CLASS_LEN) {
            if index < count {
                return (offset + u64::from(index) * len, len);
            }
            index -= count;
            offset += u64::from(count) * len;
        }
        (offset, 0)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let within = |name, value: u32, max: u32| match value {
            0 => Err(ConfigError::Capacity(name)),
            _ if value > max => Err(ConfigError::Capacity(name)),
            _ => Ok(()),
        };
        within("peers", self.peers, PeerId::SLOTS_MAX - 1)?;
        within("active_peers", self.active_peers, PeerId::SLOTS_MAX - 1)?;
        within("sends", self.sends, OpId::SLOTS_MAX)?;
        within("recvs", self.recvs, RecvId::SLOTS_MAX)?;
        within("parts", self.parts, RecvId::SLOTS_MAX)?;
        within("pulls", self.pulls, OpId::SLOTS_MAX)?;
        within("assemblies", self.assemblies, OpId::SLOTS_MAX - 1)?;
        let sum = |counts: &[u32]| counts.iter().map(|&n| u64::from(n)).sum::<u64>();
        if sum(&self.ops()) >= u64::from(OpId::SLOTS_MAX) {
            return Err(ConfigError::Capacity("responders"));
        }
        if self.events < EVENTS_MIN || sum(&self.receives()) >= u64::from(RecvId::SLOTS_MAX) {
            return Err(ConfigError::Capacity("events"));
        }
        if self.responders < self.active_peers {
            return Err(ConfigError::Capacity("responders"));
        }
        if self.regions > RegionId::SLOTS_MAX - 1 {
            return Err(ConfigError::Capacity("regions"));
        }
        if sum(&self.unexpected) >= u64::from(UnexpectedId::SLOTS_MAX) {
            return Err(ConfigError::Capacity("unexpected"));
        }
        if self.death > DEATH_MAX {
            return Err(ConfigError::Capacity("death"));
        }
        Ok(())
    }
}

/// What one packet can bring must find room.
const EVENTS_MIN: u32 = crate::wire::WRITES_WITH_DATA_MAX as u32;
/// Extents for windows that touch more than one, beyond one for each active peer: an eighth of
/// them, and at least so many. All that wait for one go on when their own is acknowledged.
const EXTENTS_SHARED: u32 = 64;

/// Lengths of the slices in [`Storage`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "one field for each of `Storage`")]
pub struct StorageSizes {
    pub peers: usize,
    pub index: usize,
    pub actives: usize,
    pub timers: usize,
    pub extents: usize,
    pub ops: usize,
    pub recvs: usize,
    pub assemblies: usize,
    pub unexpected: usize,
    pub regions: usize,
    pub region_index: usize,
}

/// The memory an engine lives in, lent by the caller. Contents do not matter; lengths are those of
/// [`Config::sizes`]. Every element type is `Default`.
#[derive(Debug)]
pub struct Storage<'s> {
    /// Peers known by address.
    pub peers: &'s mut [Slot<Peer>],
    /// Hash table from address to peer.
    pub index: &'s mut [u32],
    /// State of peers with traffic.
    pub actives: &'s mut [Slot<Active>],
    /// Their timers.
    pub timers: &'s mut [TimerSlot],
    /// Notes on packets under way.
    pub extents: &'s mut [Slot<Extent>],
    /// Operations that send.
    pub ops: &'s mut [Slot<TxOp>],
    /// Posted receives, and events.
    pub recvs: &'s mut [Slot<RecvOp>],
    /// Messages that are arriving in parts.
    pub assemblies: &'s mut [Slot<Assembly>],
    /// Messages without a receive.
    pub unexpected: &'s mut [Slot<Unexpected>],
    /// Registered memory.
    pub regions: &'s mut [Slot<Region>],
    /// Hash table from key to region.
    pub region_index: &'s mut [u32],
}

impl Storage<'_> {
    pub(crate) fn check(&self, sizes: &StorageSizes) -> Result<(), ConfigError> {
        let lengths = [
            ("peers", self.peers.len(), sizes.peers),
            ("index", self.index.len(), sizes.index),
            ("actives", self.actives.len(), sizes.actives),
            ("timers", self.timers.len(), sizes.timers),
            ("extents", self.extents.len(), sizes.extents),
            ("ops", self.ops.len(), sizes.ops),
            ("recvs", self.recvs.len(), sizes.recvs),
            ("assemblies", self.assemblies.len(), sizes.assemblies),
            ("unexpected", self.unexpected.len(), sizes.unexpected),
            ("regions", self.regions.len(), sizes.regions),
            ("region_index", self.region_index.len(), sizes.region_index),
        ];
        match lengths.iter().find(|(_, is, should)| is != should) {
            Some((name, ..)) => Err(ConfigError::Storage(name)),
            None => Ok(()),
        }
    }
}
