// SPDX-License-Identifier: MIT OR Apache-2.0
//! How large an engine is and how it behaves, and the storage it therefore needs.

use crate::in_flight::Extent;
use crate::message::{Assembly, RecvOp, SendOp, Unexpected};
use crate::peer::{Active, Peer};
use crate::slab::Slot;
use crate::unexpected::{CLASSES, UNEXPECTED_CLASS_LEN, split};
use crate::wheel::TimerSlot;
use crate::wire::Checksum;
use crate::{ConfigError, OpId, PeerId, RecvId, UnexpectedId};
use core::time::Duration;

/// An engine's capacities and times.
#[derive(Clone, Debug)]
pub struct Config {
    /// Peers in the table, known by address.
    pub peers: u32,
    /// Peers that can have traffic under way at once.
    pub active_peers: u32,
    /// Sends that can be posted at once (their completions not polled yet).
    pub sends: u32,
    /// Receives that can be posted at once (their completions not polled yet).
    pub recvs: u32,
    /// Messages of more than one packet that can be arriving at once.
    pub assemblies: u32,
    /// Unexpected messages that can be stored, by class ([`UNEXPECTED_CLASS_LEN`] bytes each).
    pub unexpected: [u32; CLASSES],
    /// Silence from a peer, with operations waiting for it, after which they end in error.
    pub death: Duration,
    /// CRC-32C, as fast as the machine can.
    pub checksum: Checksum,
}

impl Config {
    /// The capacities that production uses: 16,384 peers, 1,024 of them active, 1,024 sends and
    /// receives, 29 MB of unexpected messages; death after 10 s.
    #[must_use]
    pub const fn new(checksum: Checksum) -> Self {
        Self {
            peers: 16 << 10,
            active_peers: 1 << 10,
            sends: 1 << 10,
            recvs: 1 << 10,
            assemblies: 1 << 10,
            unexpected: [4 << 10, 2 << 10, 512, 128],
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
            extents: count(self.active_peers) * 2 + EXTENTS_SHARED,
            sends: count(self.sends),
            recvs: count(self.recvs),
            assemblies: count(self.assemblies),
            unexpected: self.unexpected.iter().map(|&n| count(n)).sum(),
        }
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
        let (class, index) = split(id.slot());
        let classes = self.unexpected.iter().zip(UNEXPECTED_CLASS_LEN);
        let before: u64 = classes.take(class).map(|(&n, len)| u64::from(n) * len).sum();
        let len = UNEXPECTED_CLASS_LEN.get(class).copied().unwrap_or(0);
        (before + u64::from(index) * len, len)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let within = |name, value: u32, max: u32| match value {
            0 => Err(ConfigError::Capacity(name)),
            _ if value > max => Err(ConfigError::Capacity(name)),
            _ => Ok(()),
        };
        within("peers", self.peers, PeerId::SLOTS_MAX - 1)?;
        within("active_peers", self.active_peers, PeerId::SLOTS_MAX - 1)?;
        within("sends", self.sends, OpId::SLOTS_MAX - 1)?;
        within("recvs", self.recvs, RecvId::SLOTS_MAX - 1)?;
        within("assemblies", self.assemblies, OpId::SLOTS_MAX - 1)?;
        let class_max = (UnexpectedId::SLOTS_MAX >> 2) - 1;
        if self.unexpected.iter().any(|&count| count > class_max) {
            return Err(ConfigError::Capacity("unexpected"));
        }
        Ok(())
    }
}

/// Extents for large windows, beyond two for each active peer.
const EXTENTS_SHARED: usize = 64;

/// Lengths of the slices in [`Storage`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "one field for each of `Storage`")]
pub struct StorageSizes {
    pub peers: usize,
    pub index: usize,
    pub actives: usize,
    pub timers: usize,
    pub extents: usize,
    pub sends: usize,
    pub recvs: usize,
    pub assemblies: usize,
    pub unexpected: usize,
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
    /// Posted sends.
    pub sends: &'s mut [Slot<SendOp>],
    /// Posted receives.
    pub recvs: &'s mut [Slot<RecvOp>],
    /// Messages that are arriving in parts.
    pub assemblies: &'s mut [Slot<Assembly>],
    /// Messages without a receive.
    pub unexpected: &'s mut [Slot<Unexpected>],
}

impl Storage<'_> {
    pub(crate) fn check(&self, sizes: &StorageSizes) -> Result<(), ConfigError> {
        let lengths = [
            ("peers", self.peers.len(), sizes.peers),
            ("index", self.index.len(), sizes.index),
            ("actives", self.actives.len(), sizes.actives),
            ("timers", self.timers.len(), sizes.timers),
            ("extents", self.extents.len(), sizes.extents),
            ("sends", self.sends.len(), sizes.sends),
            ("recvs", self.recvs.len(), sizes.recvs),
            ("assemblies", self.assemblies.len(), sizes.assemblies),
            ("unexpected", self.unexpected.len(), sizes.unexpected),
        ];
        match lengths.iter().find(|(_, is, should)| is != should) {
            Some((name, ..)) => Err(ConfigError::Storage(name)),
            None => Ok(()),
        }
    }
}
