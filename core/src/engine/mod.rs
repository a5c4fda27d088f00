// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine: one endpoint's protocol state, and the only façade to it.
//!
//! # Components
//!
//! | component | state | folder |
//! |---|---|---|
//! | `ConnectionTable` | peers, connections, their send order, packets without a connection | `connect/` |
//! | `Sender` | operations under way, records of packets | `send/` |
//! | `Matcher` | posted receives, stored messages, messages that are arriving | `matching/` |
//! | `RmaTarget` | memory regions | `rma/` |
//! | `Pieces` | packets that arrive in pieces | `receive/pieces.rs` |
//! | `Completions` | finished operations, counters; shares of connected endpoints | `completions.rs` |
//! | `Timers` | the clock, one timer for each connection | `timers.rs` |
//!
//! A component has private fields, and takes the siblings that it needs as `&mut` arguments. `Ctx`
//! is the bundle of those that every component needs. `receive/` checks a packet and passes it to
//! the components that it concerns.
//!
//! # Methods by class, and the order to call them in
//!
//! | class | methods | file |
//! |---|---|---|
//! | A. construct, query | `new`, `poll_at`, `stats`, `has_*`, `wants_transmit` | `mod.rs` |
//! | B. control | `insert_peer`, `take_newcomer`, `remove_peer`, `find`, `peer_address`, `peer_name`, `register_region`, `deregister_region`, `close` | `mod.rs` |
//! | connected endpoints | `insert_connected`, `open_connection`, `connect`, `end_connected`, `poll_link`, `link`, `cancel_on`, `cancel_from` | `operations.rs` |
//! | C. post | `post_send`, `post_matched_send`, `post_datagram`, `post_write`, `post_read`, `post_atomic`, `post_recv`, `cancel`; `post_multi_recv`, `resume_matching`; `peek`, `post_claimed`, `discard_claimed`; `post_shared`, `stored_len`, `post_cancelled` | `operations.rs` |
//! | D. packets in | `arrivals`, `Arrivals::ingest`, `ingest`, `ingest_datagram` | `receive/ingest.rs` |
//! | E. time | `awake`, `end_poll`, `advance`, `uncork` | `mod.rs` |
//! | F. packets out | `burst`, `Burst::transmit`, `Burst::transmit_datagram` | `mod.rs` |
//! | G. completions | `poll_send_completion`, `poll_recv_completion`; `defer`, `poll_deferred` | `operations.rs` |
//! | for tests | `audit`, `digest` | `audit.rs` |
//!
//! D, E and F are called by [`drive`](crate::drive::drive) alone, in that order, and
//! `resume_matching` after D; C and G by the application's calls; B rarely. No method blocks,
//! allocates or reads a clock. `now` never runs backwards.
//!
//! Bounds: C and G are O(1), but for matching, which has the bounds of `matching/`. D is
//! linear in the records of a packet and in the packets that it acknowledges, at most
//! [`WINDOW_PACKETS`](crate::WINDOW_PACKETS). E fires at most [`TIMERS_PER_ADVANCE`] timers a call.

mod advance;
mod audit;
mod completions;
mod connect;
mod ctx;
mod ending;
pub(crate) mod link_slots;
mod matching;
mod operations;
mod receive;
mod report;
mod rma;
mod send;
pub(crate) mod storage;
mod timers;
mod violation;

pub use advance::TIMERS_PER_ADVANCE;
pub use ctx::Identity;
pub use receive::ingest::Arrivals;
pub use report::PeerReport;
pub use rma::region::{Access, RegionRequest};
pub use violation::Violation;

use crate::api::posted::PostedQueue;
use crate::collections::coverage::Coverage;
use crate::collections::secret::{Secret, Use};
use crate::collections::slab::Slab;
use crate::collections::time::{AGING_NANOS, TICK_NANOS};
use crate::engine::advance::fire;
use crate::engine::completions::Completions;
use crate::engine::connect::ConnectionTable;
use crate::engine::connect::evict::{EVICT_STEPS, evict_peer};
use crate::engine::connect::teardown::{end_all, transmit_stateless};
use crate::engine::ctx::Ctx;
use crate::engine::ending::Ending;
use crate::engine::link_slots::LinkSlots;
use crate::engine::matching::Matcher;
use crate::engine::matching::stored::StoredQueue;
use crate::engine::matching::unexpected::UnexpectedPool;
use crate::engine::receive::pieces::Pieces;
use crate::engine::rma::RmaTarget;
use crate::engine::rma::region::Regions;
use crate::engine::send::Sender;
use crate::engine::send::transmit::NextPacket;
use crate::engine::timers::{ProposedLeast, Timers};
use crate::peer::in_flight::InFlight;
use crate::peer::port_requests::PortRequests;
use crate::peer::window::BitsPool;
use crate::peer::{Silence, Standing};
use crate::wire::{PACKET_LEN_MIN, PIECED_LEN_MAX};
use crate::{
    Config, ConfigError, Destination, Instant, Memory, OpCounters, PathAdvice, PeerAddress, PeerId,
    PeersFull, PortLimits, RegionError, RegionId, Stats, Storage, TargetCounters, Transmit,
    Unknown,
};

/// One endpoint's protocol state. See the module's documentation for the order of calls.
#[derive(Debug)]
pub struct Engine<'s> {
    cx: Ctx<'s>,
    sender: Sender<'s>,
    matcher: Matcher<'s>,
    target: RmaTarget<'s>,
    pieces: Pieces<'s>,
}

// A. Construction and getters.
impl<'s> Engine<'s> {
    /// An engine in `storage`, which sends and receives through a port with these `limits`.
    ///
    /// # Errors
    /// [`ConfigError`] when capacities, storage and limits do not go together.
    pub fn new(
        config: &Config,
        storage: Storage<'s>,
        identity: Identity,
        limits: PortLimits,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        storage.check(config)?;
        if limits.payload_max.min(limits.receive_max) < PACKET_LEN_MIN {
            return Err(ConfigError::PayloadTooSmall);
        }
        // A packet that is longer could not go in pieces.
        let payload_max = limits.payload_max.min(PIECED_LEN_MAX);
        let limits = PortLimits { payload_max, ..limits };
        let timeout = u32::try_from(config.peer_timeout.as_nanos() / u128::from(TICK_NANOS))
            .map_err(|_| ConfigError::Capacity("peer_timeout"))?;
        let silence = Silence { timeout, counts_when_idle: config.named_peers_only };
        let ops = Slab::with_classes(storage.ops, config.ops());
        let recvs = Slab::with_classes(storage.recvs, config.receives());
        let unexpected = UnexpectedPool::new(storage.unexpected, config.unexpected);
        let secret = Secret::new(identity.key);
        let table = ConnectionTable::new(
            storage.peers,
            (storage.index, storage.names),
            storage.connections,
            &secret,
            config.named_peers_only,
        );
        let regions = Regions::new(storage.regions, storage.region_index, &secret);
        let slices = (storage.recv_bins, storage.recv_entries);
        let posted = PostedQueue::new(slices, secret.subkey(Use::ReceiveTable));
        let stored = StoredQueue::new(storage.stored_bins, secret.subkey(Use::StoredTable));
        let coverage = Coverage::new(secret.subkey(Use::Coverage));
        Ok(Self {
            sender: Sender::new(
                ops.ok_or(ConfigError::Storage("ops"))?,
                InFlight::new(storage.chunks, storage.pages, config.connections),
                config.responders - config.connections,
                config.sends,
            ),
            matcher: Matcher::new(
                recvs.ok_or(ConfigError::Storage("recvs"))?,
                Slab::new(storage.assemblies),
                unexpected.ok_or(ConfigError::Storage("unexpected"))?,
                (posted, stored),
            ),
            target: RmaTarget::new(regions),
            pieces: Pieces::new(storage.pieced),
            cx: Ctx {
                table,
                bits: BitsPool::new(storage.bits),
                timers: Timers::new(storage.timers, storage.watches, silence),
                completions: Completions::new(LinkSlots::new(storage.link_slots, &config.links)),
                stats: Stats::default(),
                secret,
                coverage,
                #[cfg(feature = "test-util")]
                first_psn: None,
                config: config.clone(),
                limits,
                port_requests: PortRequests::default(),
                ending: Ending::default(),
                advice: heapless::Vec::new(),
            },
        })
    }

    /// When [`Self::advance`] should be called next: not after the earliest timer, and after the
    /// last call's time. `None`: no timer runs.
    #[must_use]
    pub fn poll_at(&self) -> Option<Instant> {
        let Self { cx, matcher, .. } = self;
        let goes_on = matcher.has_unfinished() || matcher.has_freed_slices(cx);
        if goes_on || !cx.ending.is_empty() {
            return Some(cx.timers.now());
        }
        let timer = cx.timers.next_deadline();
        [timer, matcher.rendezvous_at()].into_iter().flatten().min()
    }

    /// The statistics since the engine was made.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.cx.stats
    }

    /// How many operations have ended since the engine was made.
    #[must_use]
    pub fn op_counters(&self) -> &OpCounters {
        self.cx.completions.counters()
    }

    /// Whether [`Burst::transmit`] may have a packet to give.
    #[must_use]
    #[inline]
    pub fn wants_transmit(&self) -> bool {
        self.has_packet() || self.datagrams_waiting() > 0
    }

    /// Whether records wait to be coalesced, until the next call of [`Self::uncork`].
    #[must_use]
    #[inline]
    pub fn has_corked(&self) -> bool {
        self.cx.table.has_corked()
    }

    /// Datagrams that wait for the next burst.
    #[must_use]
    #[inline]
    pub const fn datagrams_waiting(&self) -> u32 {
        self.sender.datagrams_waiting()
    }

    /// Whether a connection or a stateless answer may have a packet to give.
    #[inline]
    fn has_packet(&self) -> bool {
        self.cx.table.has_ready() || self.cx.table.has_stateless()
    }

    /// Whether packets are datagrams of the application
    /// ([`Config::datagrams`](crate::Config::datagrams)).
    #[must_use]
    #[inline]
    pub const fn carries_datagrams(&self) -> bool {
        self.cx.config.datagrams
    }

    /// Whether a posted message is not yet acknowledged or accepted, or a packet waits to be sent.
    /// An endpoint that closes without work leaves no peer waiting.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.cx.table.iter().any(|conn| self.cx.table[conn].has_work())
            || self.matcher.has_rendezvous()
            || self.wants_transmit()
    }

    /// How many peers have traffic, or had until a moment ago.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.cx.table.open_connections()
    }
}

// B. Control.
impl Engine<'_> {
    /// Adds a peer. An address that is in the table already keeps its identifier. One that was
    /// inserted keeps it until it is removed. One that only spoke first keeps it until its
    /// connection has ended, all that it sent was polled, and others need the slot.
    ///
    /// # Errors
    /// [`PeersFull`].
    pub fn insert_peer(&mut self, address: PeerAddress) -> Result<PeerId, PeersFull> {
        let Self { cx, sender, matcher, .. } = self;
        let slot = match cx.table.find_peer(address, PeerId::NONE) {
            Some(slot) => slot,
            None => {
                // While a slot is in quarantine the caller may have more to insert.
                let (capacity, used) = cx.table.peer_slots();
                if capacity == used {
                    // Operations that have not ended name their peers, which are not evicted.
                    end_all(cx, sender, matcher);
                }
                if capacity == used {
                    evict_peer(cx, sender, matcher, None, capacity);
                } else if cx.table.is_quarantined(cx.timers.tick()) {
                    evict_peer(cx, sender, matcher, None, EVICT_STEPS);
                }
                cx.add_peer(address)?
            }
        };
        cx.table.set_standing(slot, Standing::Named);
        Ok(cx.table.peer_id(slot))
    }

    /// Whether [`Self::take_newcomer`] has something to give.
    #[must_use]
    #[inline(always)]
    pub fn has_newcomers(&self) -> bool {
        self.cx.table.has_newcomers()
    }

    /// The address of a peer that spoke first and was not in the table, once for each. The caller
    /// takes it after every progress call, and [inserts](Self::insert_peer) those peers that its
    /// application knows: they are taken in when they say hello again, where the share of their
    /// host did not permit it at first.
    pub fn take_newcomer(&mut self) -> Option<PeerAddress> {
        self.cx.table.take_newcomer()
    }

    /// Removes a peer, and notifies it. Operations under way end with [`crate::OpError::Closed`];
    /// messages of it that are stored can be received, without a source, until others need their
    /// storage. Should it speak again it is a new peer.
    ///
    /// # Errors
    /// [`Unknown`] when there is no such peer.
    pub fn remove_peer(&mut self, peer: PeerId) -> Result<(), Unknown> {
        let slot = self.end_peer(peer)?;
        self.cx.table.forget(slot, self.cx.timers.tick());
        self.matcher.disown_stored(&self.cx, peer);
        Ok(())
    }

    /// Makes memory accessible to peers that know the key.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn register_region(
        &mut self,
        request: &RegionRequest,
    ) -> Result<(RegionId, u64), RegionError> {
        self.target.register(request, &mut self.cx.secret)
    }

    /// Takes a region back: from the moment this returns nothing reads or writes it, and reads that
    /// peers have under way end in error.
    ///
    /// # Errors
    /// [`Unknown`] when there is no such region.
    pub fn deregister_region(&mut self, region: RegionId) -> Result<(), Unknown> {
        let was_known = self.target.deregister(region);
        self.sender.fail_reads_of(region);
        if was_known { Ok(()) } else { Err(Unknown) }
    }

    /// The accesses of peers to a region; `None` when there is no such region.
    #[must_use]
    pub fn region_counters(&self, region: RegionId) -> Option<TargetCounters> {
        self.target.counters(region)
    }

    /// Whether nothing is known to be under way with a peer, in either direction.
    #[must_use]
    pub fn is_idle(&self, peer: PeerId) -> bool {
        let table = &self.cx.table;
        let conn = table.peer_slot(peer).and_then(|slot| table.connection_of(slot));
        conn.is_none_or(|conn| !table[conn].has_work())
    }

    /// A value that changes with each connection of a peer, and with each data packet that arrives
    /// from it in order (modulo 2^32 packets). `None` for an unknown peer.
    #[must_use]
    pub fn arrivals_from(&self, peer: PeerId) -> Option<(u64, u32)> {
        let table = &self.cx.table;
        let slot = table.peer_slot(peer)?;
        let peer = &table[slot];
        let conn = table.connection_of(slot);
        // An idle peer has no connection part; its numbers are kept.
        let next = conn
            .map_or_else(|| peer.expected_psn(), |conn| table[conn].rx().receive_window().next());
        Some((peer.token().0, next.0))
    }

    /// The address of a peer in the table.
    #[must_use]
    pub fn peer_address(&self, peer: PeerId) -> Option<PeerAddress> {
        self.cx.table.peer_slot(peer).map(|slot| self.cx.table[slot].address())
    }

    /// The address that a peer in the table is known by: its own, or that of the scalable endpoint
    /// that it is a context of (`docs/PROTOCOL.md` §2.1).
    #[must_use]
    pub fn peer_name(&self, peer: PeerId) -> Option<PeerAddress> {
        self.cx.table.peer_slot(peer).map(|slot| self.cx.table.name_of(slot))
    }

    /// The peer that has this address, if it is in the table.
    #[must_use]
    pub fn find(&self, address: &PeerAddress) -> Option<PeerId> {
        let slot = self.cx.table.find_peer(*address, PeerId::NONE)?;
        Some(self.cx.table.peer_id(slot))
    }

    /// Ends every connection. Each peer is notified, by packets that the next calls of
    /// [`Burst::transmit`] give; operations under way are discarded. Call it when
    /// the engine no longer [has work](Self::has_work), or when the time for that is over.
    /// While it is called after that, the engine lingers: a peer that missed the notification is
    /// notified again.
    pub fn close(&mut self, now: Instant) {
        self.advance_clock(now);
        if !self.carries_datagrams() {
            self.cx.table.start_closing();
        }
    }

    /// A report for each peer with traffic.
    pub fn peer_reports(&self) -> impl Iterator<Item = PeerReport> + '_ {
        // bound: the connections that there can be
        let (table, most) = (&self.cx.table, self.cx.limits.payload_max);
        let now = self.cx.timers.tick();
        table
            .iter()
            .map(move |conn| PeerReport::new(&table[table[conn].peer()], &table[conn], most, now))
    }
}

// E. Time, and F. Packets out.
impl<'s> Engine<'s> {
    /// Moves time to `now`.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        self.advance_clock(now);
        if self.cx.timers.may_expire() {
            self.fire_timers();
        }
    }

    #[inline(never)]
    fn fire_timers(&mut self) {
        let Self { cx, sender, matcher, .. } = self;
        for _ in 0..TIMERS_PER_ADVANCE {
            let Some(conn) = cx.timers.expire() else { return };
            fire(cx, sender, matcher, conn);
        }
    }

    /// Records at time `now` that the caller has slept until a packet woke it. The packets that it
    /// finds now arrived at most the time of a wake-up ago, regardless of its previous poll.
    pub fn awake(&mut self, now: Instant) {
        self.advance_clock(now);
        self.cx.timers.record_wake_up();
    }

    /// Ends a poll for packets at time `now`: packets of the next poll arrived after it.
    #[inline]
    pub fn end_poll(&mut self, now: Instant) {
        self.advance_clock(now);
        self.cx.timers.record_poll();
    }

    /// Uncorks the records that wait to be coalesced, and requests parts of long messages that
    /// arrived. The caller calls it once in every progress call, after the received packets.
    pub fn uncork(&mut self) {
        let Self { cx, sender, matcher, .. } = self;
        if matcher.has_rendezvous() {
            matcher.schedule_rendezvous(cx, sender);
        }
        cx.table.uncork();
    }

    /// Whether [`Self::take_advice`] has something to give.
    #[must_use]
    #[inline(always)]
    pub fn has_advice(&self) -> bool {
        !self.cx.advice.is_empty()
    }

    /// Advice for the port about the path to a peer; `None` when there is no more. The caller takes
    /// it in every progress call.
    pub fn take_advice(&mut self) -> Option<(Destination, PathAdvice)> {
        self.cx.advice.pop()
    }

    /// Records that packets to `peer` have another source port from now on. They may overtake
    /// earlier ones by as much as a round trip, which is no sign of a loss.
    #[cold]
    pub fn source_port_changed(&mut self, peer: PeerId) {
        let Ctx { table, stats, .. } = &mut self.cx;
        stats.source_port_changes += 1;
        if let Some(conn) = table.peer_slot(peer).and_then(|slot| table.connection_of(slot)) {
            table[conn].path_mut().expect_reordering();
        }
    }

    /// Begins to send, at time `now`.
    #[inline]
    pub const fn burst(&mut self, now: Instant) -> Burst<'_, 's> {
        Burst { engine: self, now, next: NextPacket::unknown() }
    }

    /// Moves the clock to the time of a call, unless an earlier call was later.
    #[inline]
    fn advance_clock(&mut self, now: Instant) {
        if now > self.cx.timers.now() {
            if self.cx.timers.has_proposed() {
                self.record_least(now);
            }
            if self.cx.timers.must_age(now) {
                self.age(now);
            }
            self.cx.timers.set_now(now);
        }
    }

    /// Records the least round trips that were measured at the time of the clock, which moves to
    /// `now` next.
    #[cold]
    fn record_least(&mut self, now: Instant) {
        let Ctx { table, timers, .. } = &mut self.cx;
        // bound: the proposals of one call
        while let Some(ProposedLeast { conn, peer, round_trip }) = timers.take_proposed(now) {
            if table.is_open(conn) && table[conn].peer() == peer {
                table[conn].path_mut().lower_least(round_trip);
            }
        }
    }

    /// Keeps the times that are stored in four bytes near enough to `now` to compare with it. This
    /// holds also if the process, or its clock, stood still for long. An engine has not listened if
    /// no call came within its listening time or when its next timer fired. It has sent no ping
    /// either: that time is no silence of peers. Therefore a few calls bring no answer before a
    /// peer counts as dead. Bound: connections, and the packets under way to them; once in
    /// [`AGING_NANOS`] or the listening time.
    #[cold]
    fn age(&mut self, now: Instant) {
        let Self { cx, sender, .. } = self;
        let (before, listening) = (cx.timers.now(), cx.timers.listening_nanos());
        let listened = before.after_nanos(listening).max(cx.timers.next_deadline().unwrap_or(now));
        let unheard = now.as_nanos().saturating_sub(listened.as_nanos());
        cx.timers.age(before, now);
        cx.timers.set_next_aging(now.after_nanos(listening.min(AGING_NANOS)));
        for conn in cx.table.connection_slots() {
            if !cx.table.is_open(conn) {
                continue;
            }
            let state = &mut cx.table[conn];
            state.age(before, now, unheard);
            sender.age_records(state, before, now);
        }
    }
}

/// Packets that an engine sends at one time. The engine is borrowed, and changes by sending only.
/// Therefore a packet uses facts that the packet before it has found.
#[derive(Debug)]
pub struct Burst<'e, 's> {
    engine: &'e mut Engine<'s>,
    now: Instant,
    next: NextPacket,
}

impl Burst<'_, '_> {
    /// Whether [`Self::transmit`] may have a packet to give.
    #[must_use]
    #[inline]
    pub fn wants_transmit(&self) -> bool {
        self.engine.has_packet()
    }

    /// Whether [`Self::transmit_datagram`] has a datagram to give.
    #[must_use]
    #[inline]
    pub const fn has_datagram(&self) -> bool {
        self.engine.datagrams_waiting() > 0
    }

    /// Writes the next datagram into `packet`; `None` when there is none. `packet` has at least the
    /// port's `payload_max` bytes.
    pub fn transmit_datagram<M: Memory>(
        &mut self,
        packet: &mut [u8],
        memory: &mut M,
    ) -> Option<Transmit> {
        let Engine { cx, sender, .. } = &mut *self.engine;
        sender.transmit_datagram(cx, packet, memory)
    }

    /// Writes the next packet into `packet`; `None` when there is nothing to send. `packet` has at
    /// least the port's `payload_max` bytes.
    pub fn transmit<M: Memory>(&mut self, packet: &mut [u8], memory: &mut M) -> Option<Transmit> {
        self.engine.advance_clock(self.now);
        let Engine { cx, sender, matcher, target, .. } = &mut *self.engine;
        let mut sent = None;
        if cx.table.has_stateless() {
            self.next = NextPacket::unknown();
            sent = transmit_stateless(cx, sender, matcher, packet);
        }
        if sent.is_none() {
            sent = sender.transmit(cx, matcher, target, &mut self.next, packet, memory);
        }
        cx.stats.packets_sent += u64::from(sent.is_some());
        sent
    }
}
