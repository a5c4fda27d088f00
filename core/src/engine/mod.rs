// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine: one endpoint's protocol state, and the only façade to it.
//!
//! # Methods by class, and the order to call them in
//!
//! | class | methods | file |
//! |---|---|---|
//! | A. construct, look | `new`, `poll_at`, `stats`, `has_*`, `is_settled`, `wants_transmit` | `mod.rs`, `status.rs` |
//! | B. control | `insert_peer`, `remove_peer`, `find`, `peer_address`, `register_region`, `deregister_region`, `close` | `control.rs`, `ending.rs`, `reclaim.rs` |
//! | C. post | `post_send`, `post_matched_send`, `post_write`, `post_read`, `post_atomic`, `post_recv`, `cancel`; `post_multi_recv`, `feed`; `peek`, `post_claimed`, `discard_claimed`; `post_shared`, `stored_len`, `post_cancelled` | `post.rs`; `many.rs`; `probe.rs`; `shared.rs` |
//! | D. one packet in | `ingest` | `predict.rs`, `predict_ack.rs`, `ingest.rs`, `handshake.rs`, `cookie.rs`, `acknowledge.rs`, `loss.rs`; messages: `accept.rs`, `matching.rs`, `pull.rs`; remote memory: `serve.rs`, `response.rs` |
//! | E. time | `advance`, `release_gathered` | `advance.rs` |
//! | F. one packet out | `transmit` | `transmit.rs`, `gate.rs`, `compose.rs`, `put.rs`, `resend.rs`, `answer.rs` |
//! | G. what has ended | `poll_send_completion`, `poll_recv_completion`; `defer`, `poll_deferred` | `poll.rs`; `deferred.rs` |
//! | for tests | `audit`, `digest` | `audit.rs` |
//!
//! D, E and F are called by [`drive`](crate::progress::drive) alone, in that order, and `feed`
//! after D; C and G by the application's calls; B rarely. No method blocks, allocates or reads a
//! clock. `now` never runs backwards.
//!
//! Bounds: C and G are O(1) but for matching, which is linear in the queue it searches; D in the
//! records of a packet and the packets it acknowledges (at most 256); E fires at most
//! [`TIMERS_PER_ADVANCE`] timers a call.

mod accept;
mod acknowledge;
mod advance;
mod answer;
mod audit;
mod compose;
mod control;
mod cookie;
mod deferred;
mod ending;
mod gate;
mod handshake;
mod ingest;
mod loss;
mod many;
mod matching;
mod poll;
mod post;
mod predict;
mod predict_ack;
mod probe;
mod pull;
mod put;
mod reclaim;
mod report;
mod resend;
mod response;
mod schedule;
mod serve;
mod shared;
mod status;
mod transmit;

pub use advance::TIMERS_PER_ADVANCE;
pub use audit::Violation;
pub use report::PeerReport;

use crate::in_flight::InFlight;
use crate::index::Index;
use crate::operation::{Assembly, RecvOp, TxOp};
use crate::peer::{Active, Peer};
use crate::region::Regions;
use crate::rng::Rng;
use crate::slab::{List, NIL, Slab};
use crate::time::{TICK_NANOS, Tick};
use crate::unexpected::UnexpectedPool;
use crate::wheel::Wheel;
use crate::wire::PACKET_LEN_MIN;
use crate::{
    Config, ConfigError, Instant, OpId, PeerAddress, PeerId, PortLimits, RecvId, Stats, Storage,
    Tally,
};
use answer::{ANSWERS_MAX, Answer};

/// Who an engine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Random, not 0, never used before: tells this endpoint from an earlier one at the same
    /// address.
    pub incarnation: u64,
    /// Random: seeds sequence bases, jitter and cookies.
    pub seed: u64,
}

/// Tagged and untagged messages never meet.
#[derive(Clone, Copy, Debug, Default)]
struct Queues {
    untagged: List,
    tagged: List,
}

impl Queues {
    /// The first in one of them, or [`NIL`].
    fn first(&self, tagged: bool) -> u32 {
        if tagged { self.tagged.head() } else { self.untagged.head() }
    }

    fn of(&mut self, tagged: bool) -> &mut List {
        if tagged { &mut self.tagged } else { &mut self.untagged }
    }
}

/// One endpoint's protocol state. See the module's documentation for the order of calls.
#[derive(Debug)]
pub struct Engine<'s> {
    config: Config,
    identity: Identity,
    limits: PortLimits,
    peers: Slab<'s, Peer>,
    index: Index<'s, PeerAddress>,
    actives: Slab<'s, Active>,
    wheel: Wheel<'s>,
    in_flight: InFlight<'s>,
    ops: Slab<'s, TxOp, 3>,
    recvs: Slab<'s, RecvOp, 3>,
    assemblies: Slab<'s, Assembly>,
    unexpected: UnexpectedPool<'s>,
    regions: Regions<'s>,
    /// Slots for responses that are kept for no peer.
    responders_spare: u32,
    /// Posted receives in posting order.
    posted: Queues,
    /// Stored messages in order of acceptance.
    stored: Queues,
    /// Stored messages that the application has claimed.
    claimed: List,
    /// Stored messages may fit posted buffers for many: there was no slot for another part.
    starved: bool,
    /// Receives of long messages that wait for their turn to ask for a part.
    pulling: List,
    /// Finished operations whose completions were not polled.
    sends_done: List,
    recvs_done: List,
    /// The same of operations that were deferred, for who counts them.
    deferred_sends: List,
    deferred_recvs: List,
    /// Peers that may send, in turn, and peers that gather.
    ready: List,
    gathering: List,
    /// Packets that the peer whose turn it is may still send before the next one.
    turn: u32,
    answers: heapless::Deque<Answer, ANSWERS_MAX>,
    /// The highest epoch of any connection so far: a peer that is removed and comes back has a
    /// newer one.
    epochs: u16,
    /// The slot that is looked at next for a peer that is gone.
    reclaim_hand: u32,
    /// While closing: the next peer to be told.
    closing: Option<u32>,
    /// Everybody was told, or is being told, that this endpoint closes.
    closed: bool,
    /// The death time in ticks.
    death: u32,
    rng: Rng,
    stats: Stats,
    tally: Tally,
    /// The latest time that any call brought.
    now: Instant,
    /// The same, as it stands in packets and in the state of peers.
    tick: Tick,
    /// When the times that are kept in four bytes are looked at next.
    age_at: Instant,
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
        storage.check(&config.sizes())?;
        if limits.payload_max.min(limits.receive_max) < PACKET_LEN_MIN {
            return Err(ConfigError::PayloadTooSmall);
        }
        if identity.incarnation == 0 {
            return Err(ConfigError::Capacity("incarnation"));
        }
        let mut rng = Rng::new(identity.seed);
        Ok(Self {
            identity,
            limits,
            peers: Slab::new(storage.peers),
            index: Index::new(storage.index, rng.next()),
            actives: Slab::new(storage.actives),
            wheel: Wheel::new(storage.timers),
            in_flight: InFlight::new(storage.extents, config.active_peers),
            ops: Slab::with_classes(storage.ops, config.ops())
                .ok_or(ConfigError::Storage("ops"))?,
            recvs: Slab::with_classes(storage.recvs, config.receives())
                .ok_or(ConfigError::Storage("recvs"))?,
            assemblies: Slab::new(storage.assemblies),
            unexpected: UnexpectedPool::new(storage.unexpected, config)
                .ok_or(ConfigError::Storage("unexpected"))?,
            regions: Regions::new(storage.regions, storage.region_index, rng.next()),
            responders_spare: config.responders - config.active_peers,
            posted: Queues::default(),
            stored: Queues::default(),
            claimed: List::default(),
            starved: false,
            pulling: List::default(),
            sends_done: List::default(),
            recvs_done: List::default(),
            deferred_sends: List::default(),
            deferred_recvs: List::default(),
            ready: List::default(),
            gathering: List::default(),
            turn: 0,
            answers: heapless::Deque::new(),
            epochs: 0,
            reclaim_hand: 0,
            closing: None,
            closed: false,
            death: u32::try_from(config.death.as_nanos() / u128::from(TICK_NANOS))
                .map_err(|_| ConfigError::Capacity("death"))?,
            rng,
            stats: Stats::default(),
            tally: Tally::default(),
            now: Instant::ZERO,
            tick: Tick::of(Instant::ZERO),
            age_at: Instant::ZERO,
            config: config.clone(),
        })
    }
}

// Shared by the other files.
impl Engine<'_> {
    /// The time of a call; never earlier than that of the call before.
    #[inline]
    fn time(&mut self, now: Instant) -> Instant {
        if now > self.now {
            if now >= self.age_at {
                self.age(now);
            }
            self.now = now;
            self.tick = Tick::of(now);
        }
        self.now
    }

    /// The same, as it stands in packets.
    #[inline]
    fn tick(&self) -> Tick {
        self.tick
    }

    /// The identifier of a peer in the table.
    #[inline]
    fn peer_id(&self, number: u32) -> PeerId {
        PeerId::new(number, self.peers.generation(number))
    }

    #[inline]
    fn op_id(&self, number: u32) -> OpId {
        OpId::new(number, self.ops.generation(number))
    }

    /// The largest packet for peer `number`, in bytes.
    #[inline]
    fn payload_max(&self, number: u32) -> usize {
        self.peers[number].payload_max(self.limits.payload_max)
    }

    #[inline]
    fn recv_id(&self, number: u32) -> RecvId {
        RecvId::new(number, self.recvs.generation(number))
    }

    /// Whether the application has posted operation `number`.
    #[inline]
    fn is_posted(&self, number: u32) -> bool {
        // [`POSTED`] is the first class.
        number < self.config.sends
    }

    /// Puts an operation at the end of its peer's queue.
    #[inline(always)]
    fn queue_op(&mut self, active: u32, number: u32) {
        let posted = self.is_posted(number);
        let now = self.tick();
        let state = &mut self.actives[active];
        if !state.awaits_peer() {
            state.silent_since = now;
        }
        state.queue(posted).push(&mut self.ops, number);
    }

    /// The slot of a peer, if `id` names one that is in the table.
    #[inline]
    fn peer_number(&self, id: PeerId) -> Option<u32> {
        let number = id.slot();
        (self.peers.is_used(number) && self.peer_id(number) == id).then_some(number)
    }

    /// The active state of a peer, made if need be. `None` if the pool has none left; the last
    /// quarter is kept for peers that come to us, because theirs always ends.
    #[inline]
    fn activate(&mut self, peer: u32, now: Instant, ours: bool) -> Option<u32> {
        let known = self.peers[peer].active;
        if known != NIL {
            return Some(known);
        }
        let capacity = self.actives.capacity();
        if ours && self.actives.used() >= capacity - capacity / 4 {
            return None;
        }
        let active = self.actives.alloc(Active::new(peer, &self.peers[peer], Tick::of(now)))?;
        self.peers[peer].active = active;
        Some(active)
    }
}
