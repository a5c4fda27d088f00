// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configuration of an engine: its capacities, its times and its ordering guarantees.

use super::limits::{ATOMIC_LEN_MAX, WRITES_WITH_DATA_MAX};
use super::link_share::LinkShares;
use crate::collections::time::PEER_TIMEOUT_MAX;
use crate::{ConfigError, OpId, PeerId, RecvId, RegionId, UnexpectedId};
use core::time::Duration;

/// Payload bytes that one slot of each class of stored messages holds.
pub const UNEXPECTED_CLASS_LEN: [u64; UNEXPECTED_CLASSES] = [256, 2 << 10, 16 << 10, 128 << 10];
/// Number of classes of stored messages.
pub(crate) const UNEXPECTED_CLASSES: usize = 4;

bitflags::bitflags! {
    /// The orders that operations to one peer keep (`fi_endpoint(3)`, "Message Ordering"). The
    /// letters are libfabric's: read, write (and atomic), send; the first one comes *after* the
    /// second. Messages always match in order (SAS).
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

/// Continues a CRC-32C: its value for some bytes, from its value for the bytes before them
/// (the form of `crc32c::crc32c_append`).
pub type ChecksumFn = fn(u32, &[u8]) -> u32;

/// Congestion control: the data in flight to one peer (`docs/PROTOCOL.md` §4.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Congestion {
    /// Delay-based: as much as keeps the delay of the path near that of an idle one.
    Delay,
    /// A fixed number of packets: for the simulator.
    #[cfg(feature = "test-util")]
    Fixed(u16),
    /// The peer's whole window: for the simulator.
    #[cfg(feature = "test-util")]
    Off,
}

/// Capacities and times of an engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Peers in the table, known by address.
    pub peers: u32,
    /// Connections: peers that can have traffic at once.
    pub connections: u32,
    /// Packets in flight, to all peers together, beyond 32 for each connection: the pool that large
    /// send windows borrow from. One connection gets at most four fifths of it.
    pub port_packets: u32,
    /// Pages of 16,384 packets that receive windows borrow while packets are missing. A window
    /// spans 128 packets without a page.
    pub reorder_pages: u32,
    /// Sends, writes, reads and atomics that can be posted at once, those with an unpolled
    /// completion included.
    pub sends: u32,
    /// Receives that can be posted at once, those with an unpolled completion included.
    pub recvs: u32,
    /// Slices of multi-receive buffers that can exist at once, those with an unpolled completion
    /// included.
    pub slices: u32,
    /// Messages of more than one packet that can be arriving at once.
    pub assemblies: u32,
    /// Unexpected messages that can be stored, by class ([`UNEXPECTED_CLASS_LEN`] bytes each).
    pub unexpected: [u32; UNEXPECTED_CLASSES],
    /// Memory regions that can be registered at once.
    pub regions: u32,
    /// Requests of peers (reads, fetching atomics, rendezvous reads) that can be answered at once:
    /// at least one for each connection. More of them speed up peers that have several.
    pub responders: u32,
    /// Rendezvous reads under way at once, from all peers together: the receiver's budget, in units
    /// of [`RENDEZVOUS_READ_LEN_MAX`](crate::RENDEZVOUS_READ_LEN_MAX) bytes.
    pub rendezvous_reads: u32,
    /// Completions of remote writes that can be pending or unpolled: at least 8, as many as one
    /// packet can bring.
    pub events: u32,
    /// The eager limit: messages up to this many bytes are pushed, longer ones go by rendezvous.
    /// The limit halves for each eighth of the receiver's occupancy. A message longer than the
    /// largest class of stored messages ([`UNEXPECTED_CLASS_LEN`]) is refused wherever no receive
    /// is posted.
    pub eager_max: u32,
    /// The orders that the application was promised.
    pub order: Order,
    /// Whether the end of a peer's write is counted only when all its bytes are placed
    /// (`FI_RMA_EVENT`). An end that arrives out of order is then dropped, and the peer sends it
    /// again. The last request of a long read is such an end, too.
    pub rma_events: bool,
    /// Whether only peers that the application has named may open a connection: the engine of a
    /// connected endpoint (`FI_EP_MSG`).
    pub named_peers_only: bool,
    /// The slots of each connected endpoint, where an engine has several of them.
    pub links: LinkShares,
    /// Whether the engine carries datagrams (`FI_EP_DGRAM`): packets are the application's bytes,
    /// and there are no connections.
    pub datagrams: bool,
    /// The port of the address that peers know this engine by, if it is not that of its own port;
    /// else 0 (`docs/PROTOCOL.md` §2.1).
    pub name_port: u16,
    /// Congestion control.
    pub congestion: Congestion,
    /// The peer time-out: silence of a peer, with operations waiting for it, after which these end
    /// in error; at most 120 s. Of a time without calls to the engine, at most a quarter of it
    /// counts, or the time to the next timer.
    pub peer_timeout: Duration,
    /// Packets of peers that can be arriving in pieces at once (`docs/PROTOCOL.md` §11.3).
    pub pieced: u32,
    /// After this time larger packets are tried again on a path that did not pass them: 1 s to 8
    /// hours.
    pub path_retry: Duration,
    /// CRC-32C, in the machine's fastest form.
    pub checksum: ChecksumFn,
}

impl Config {
    /// The capacities of production: 16,384 peers, 1,024 connections, 1,024 sends, receives and
    /// slices each. Unexpected messages have 29 MB, windows 64 Ki packets, and the peer time-out is
    /// 10 s.
    #[must_use]
    pub const fn new(checksum: ChecksumFn) -> Self {
        Self {
            peers: 16 << 10,
            connections: 1 << 10,
            port_packets: 64 << 10,
            reorder_pages: 32,
            sends: 1 << 10,
            recvs: 1 << 10,
            slices: 1 << 10,
            assemblies: 1 << 10,
            unexpected: [4 << 10, 2 << 10, 512, 128],
            regions: 4 << 10,
            responders: 4 << 10,
            rendezvous_reads: 32,
            events: 1 << 10,
            eager_max: 128 << 10,
            order: Order::empty(),
            rma_events: false,
            named_peers_only: false,
            links: LinkShares::NONE,
            datagrams: false,
            name_port: 0,
            congestion: Congestion::Delay,
            peer_timeout: Duration::from_secs(10),
            pieced: 16,
            path_retry: Duration::from_secs(600),
            checksum,
        }
    }

    /// Slots for operations, by pool.
    pub(crate) const fn ops(&self) -> [u32; 3] {
        [self.sends, self.responders, self.rendezvous_reads]
    }

    /// Slots for receives, slices of multi-receive buffers, and events.
    pub(crate) const fn receives(&self) -> [u32; 3] {
        [self.recvs, self.slices, self.events]
    }

    /// Bytes that [`Memory`](crate::Memory) must keep for previous values of fetching atomics.
    #[must_use]
    pub fn previous_bytes(&self) -> u64 {
        u64::from(self.responders) * ATOMIC_LEN_MAX as u64
    }

    /// Offset and length of one operation's previous value in those bytes. `None` for an operation
    /// that has none; the engine does not ask for those.
    #[must_use]
    pub fn previous_range(&self, id: OpId) -> Option<(u64, u64)> {
        let index = id.slot().checked_sub(self.sends)?;
        let len = ATOMIC_LEN_MAX as u64;
        (index < self.responders).then(|| (u64::from(index) * len, len))
    }

    /// Bytes that [`Memory`](crate::Memory) must keep for unexpected messages.
    #[must_use]
    pub fn unexpected_bytes(&self) -> u64 {
        self.unexpected.iter().zip(UNEXPECTED_CLASS_LEN).map(|(&n, len)| u64::from(n) * len).sum()
    }

    /// Offset and length of one message's storage in those bytes. The range lies within
    /// [`Self::unexpected_bytes`] for each identifier that an engine of this configuration makes.
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
        within("connections", self.connections, PeerId::SLOTS_MAX - 1)?;
        within("port_packets", self.port_packets, WINDOW_PACKETS_MAX)?;
        if self.reorder_pages > WINDOW_PACKETS_MAX {
            return Err(ConfigError::Capacity("reorder_pages"));
        }
        within("sends", self.sends, OpId::SLOTS_MAX)?;
        within("recvs", self.recvs, RecvId::SLOTS_MAX)?;
        within("slices", self.slices, RecvId::SLOTS_MAX)?;
        within("rendezvous_reads", self.rendezvous_reads, OpId::SLOTS_MAX)?;
        within("assemblies", self.assemblies, OpId::SLOTS_MAX - 1)?;
        let sum = |counts: &[u32]| counts.iter().map(|&n| u64::from(n)).sum::<u64>();
        if sum(&self.ops()) >= u64::from(OpId::SLOTS_MAX) {
            return Err(ConfigError::Capacity("responders"));
        }
        if self.events < EVENTS_MIN || sum(&self.receives()) >= u64::from(RecvId::SLOTS_MAX) {
            return Err(ConfigError::Capacity("events"));
        }
        if self.links.least_kept() == 0 || self.links.events.kept < EVENTS_MIN {
            return Err(ConfigError::Capacity("links"));
        }
        if self.responders < self.connections {
            return Err(ConfigError::Capacity("responders"));
        }
        if self.regions > RegionId::SLOTS_MAX - 1 {
            return Err(ConfigError::Capacity("regions"));
        }
        if sum(&self.unexpected) >= u64::from(UnexpectedId::SLOTS_MAX) {
            return Err(ConfigError::Capacity("unexpected"));
        }
        if self.peer_timeout > PEER_TIMEOUT_MAX {
            return Err(ConfigError::Capacity("peer_timeout"));
        }
        if self.pieced > PIECED_MAX {
            return Err(ConfigError::Capacity("pieced"));
        }
        if !(PATH_RETRY_MIN..=PATH_RETRY_MAX).contains(&self.path_retry) {
            return Err(ConfigError::Capacity("path_retry"));
        }
        Ok(())
    }
}

/// The most packets in flight of an engine: their chunks must have slot numbers.
const WINDOW_PACKETS_MAX: u32 = 1 << 24;
/// The most packets that arrive in pieces: they are searched one by one.
const PIECED_MAX: u32 = 256;
/// The bounds of the time after which larger packets are tried again.
const PATH_RETRY_MIN: Duration = Duration::from_secs(1);
const PATH_RETRY_MAX: Duration = Duration::from_secs(8 * 3600);
/// Events of one packet always find room.
const EVENTS_MIN: u32 = WRITES_WITH_DATA_MAX as u32;
