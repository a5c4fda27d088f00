// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection: the state of a peer with traffic. Its halves and counts have files of their own;
//! here are the queues of operations, and the facts that need several parts. `deadlines.rs` has its
//! deadlines.

mod parts;

use super::credit::{CREDIT_NANOS, Credits};
use super::errors::Errors;
use super::hello::Hello;
use super::queue::Queue;
use super::receive_state::ReceiveState;
use super::send_state::SendState;
use super::watch::mark;
use super::{Path, Peer};
use crate::collections::list::{Link, Links, List};
use crate::collections::serial::{Msn, Psn};
use crate::collections::slab::SlotIndex;
use crate::collections::time::{TICK_NANOS, Tick};
use crate::peer::slots::{AssemblySlot, ConnSlot, PeerSlot, RecvSlot, StoredSlot};
use crate::wire::{Flags, Header, PIECED_LEN_MAX, SEGMENT_QUANTUM};
use crate::{Instant, OpId};

/// A connection without anything under way is released after this long.
pub(crate) const IDLE_NANOS: u64 = 20_000_000;

/// The list of senders that a connection is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Hash, Debug, Default)]
pub(crate) enum Schedule {
    /// In no list: nothing may be sent.
    #[default]
    Idle,
    /// Records wait to be coalesced until the next progress call.
    Corked,
    /// In the list of connections that send.
    Ready,
    /// In that list, and pending records are not coalesced any more.
    Uncorked,
}

/// State of a peer with traffic, made from its [`Peer`] and saved there.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Connection {
    rx: ReceiveState,
    hello: Hello,
    tx: SendState,
    credits: Credits,
    errors: Errors,
    path: Path,
    /// Operations of the application.
    sends: Queue,
    /// Internal operations, which wait for the window only.
    responses: Queue,
    /// Messages of several packets that are arriving.
    assemblies: List<AssemblySlot>,
    /// Stored messages that arrived before an earlier one, in message order.
    out_of_order: List<StoredSlot>,
    /// Events of remote writes behind a missing packet, in the order of packets.
    pending_events: List<RecvSlot>,
    links: Links<ConnSlot>,
    /// The slot in the peer table.
    peer: PeerSlot,
    /// Bytes of records that wait to be sent for the first time.
    pending: u32,
    /// After receiver-not-ready, no message is sent before this.
    hold_until: Option<Tick>,
    /// The state of the storage when an out-of-order message found none, as the matcher counts it.
    out_of_order_refused_at: u8,
    /// The next piece of the packet that goes in pieces: low bits of the packet's number, and the
    /// offset in units of [`SEGMENT_QUANTUM`].
    piece: [u8; 2],
    schedule: Schedule,
}

// The peer keeps its connection at least this long after its last packet.
static_assertions::const_assert!(CREDIT_NANOS <= IDLE_NANOS / 2);
// The offset of each piece fits one byte.
static_assertions::const_assert!(PIECED_LEN_MAX / SEGMENT_QUANTUM < 1 << u8::BITS);
// A bound that is promised: with its slot's bookkeeping, without the records of packets under way.
static_assertions::const_assert!(size_of::<crate::collections::slab::Slot<Connection>>() <= 320);

impl Link<ConnSlot> for Connection {
    fn link(&mut self) -> &mut Links<ConnSlot> {
        &mut self.links
    }
}

impl Connection {
    pub(crate) fn new(slot: PeerSlot, peer: &Peer, now: Tick) -> Self {
        Self {
            peer: slot,
            rx: ReceiveState::new(peer.expected_psn, peer.expected_msn, peer.rx_rnr_epoch, now),
            tx: SendState::new(peer.next_psn, peer.next_msn, peer.tx_rnr_epoch),
            errors: Errors::resumed(peer.errors_issued, peer.errors_received),
            path: Path::resumed(peer.srtt, now),
            hello: Hello::none(),
            ..Self::default()
        }
    }

    /// Saves the state that outlives the connection in `peer`.
    pub(crate) fn save(&self, peer: &mut Peer) {
        peer.expected_psn = self.rx.receive_window().next();
        peer.rx_rnr_epoch = self.rx.rnr_epoch();
        peer.expected_msn = self.rx.expected_msn();
        peer.next_psn = self.tx.next_psn();
        peer.next_msn = self.tx.next_msn();
        peer.tx_rnr_epoch = self.tx.rnr_epoch();
        peer.errors_issued = self.errors.issued();
        peer.errors_received = self.errors.received();
        peer.srtt = self.path.rtt().kept();
    }

    /// The slot in the peer table.
    #[inline(always)]
    pub(crate) const fn peer(&self) -> PeerSlot {
        self.peer
    }

    /// When messages may be sent again, after receiver-not-ready.
    #[inline(always)]
    pub(crate) const fn hold_until(&self) -> Option<Tick> {
        self.hold_until
    }

    /// Sends no message before `until`.
    pub(crate) fn hold_messages(&mut self, until: Tick) {
        self.hold_until = Some(until);
    }

    /// Lets messages go again.
    pub(crate) fn release_messages(&mut self) {
        self.hold_until = None;
    }

    /// When an out-of-order message found no storage, as [`Self::refuse_out_of_order`] has recorded
    /// it.
    pub(crate) const fn out_of_order_refused_at(&self) -> u8 {
        self.out_of_order_refused_at
    }

    /// Records that an out-of-order message found no storage, at the count `at`.
    pub(crate) const fn refuse_out_of_order(&mut self, at: u8) {
        self.out_of_order_refused_at = at;
    }

    /// Records that messages are not refused any more. The count comes round, so an old one would
    /// refuse others later.
    #[inline(always)]
    pub(crate) const fn forget_refusal(&mut self) {
        self.out_of_order_refused_at = 0;
    }

    /// Records that the peer's messages before `end` were accepted, at least one.
    #[inline(always)]
    pub(crate) fn messages_accepted(&mut self, end: Msn) {
        self.forget_refusal();
        self.rx.messages_accepted(end);
    }

    /// Records that the peer's next message was accepted.
    #[inline(always)]
    pub(crate) fn message_accepted(&mut self) {
        self.forget_refusal();
        self.rx.message_accepted();
    }

    /// Where the next piece of packet `psn` begins. A packet that is taken for another one, 256
    /// numbers away, loses pieces and goes again.
    pub(crate) const fn next_piece(&self, psn: Psn) -> usize {
        let [low, unit] = self.piece;
        if low == psn.0 as u8 { unit as usize * SEGMENT_QUANTUM } else { 0 }
    }

    /// Records that the next piece of packet `psn` begins at `offset`, in whole units; 0 after the
    /// last one.
    pub(crate) const fn piece_sent(&mut self, psn: Psn, offset: usize) {
        self.piece = [psn.0 as u8, (offset / SEGMENT_QUANTUM) as u8];
    }

    /// Records newly acknowledged packets.
    #[inline]
    pub(crate) fn on_newly_acked(&mut self, packets: u32, now: Tick) {
        self.path.on_newly_acked(packets, self.tx.in_flight(), now);
    }

    /// Whether nothing is lost, out of order or refused in either direction, and no packet may be
    /// taken for lost when the next one arrives.
    #[inline]
    pub(crate) fn is_in_order(&self) -> bool {
        self.rx.received() > 0
            && !self.rx.is_not_ready()
            && self.tx.sacked() == 0
            && self.tx.lost() == 0
            && !self.tx.may_be_overtaken()
    }

    /// Whether operations may end: every error that the peer has announced has arrived
    /// (`docs/PROTOCOL.md` §8.3).
    #[inline]
    pub(crate) fn may_complete(&self) -> bool {
        self.errors.all_arrived()
    }

    /// Whether every packet with a part of the operation that failed last arrived before the one
    /// with `header`, a data packet that is being processed. It is so if
    ///
    /// * all error records have arrived, and none of them beyond a missing packet;
    /// * the header acknowledges all sent packets, so that the peer had the last record when it
    ///   sent the header;
    /// * it is new: its number is above those of all packets sent earlier. A peer that has an error
    ///   record sends no new part of that operation (`docs/PROTOCOL.md` §8.3);
    /// * everything before it has been processed, and the events that waited for that are
    ///   delivered.
    pub(crate) fn has_all_of_failed(&self, header: &Header) -> bool {
        (self.errors.open(), self.tx.sacked()) == (0, 0)
            && header.ack_psn() == self.tx.first_psn()
            && !header.flags().contains(Flags::RETRANSMISSION)
            && header.psn() == self.rx.receive_window().next()
    }

    /// Whether a part of `op`, in a packet that is being processed, belongs to the operation that
    /// failed last. The name of that operation is forgotten when all of its parts have arrived:
    /// names are used again after some thousand operations.
    #[inline]
    pub(crate) fn is_of_failed(&mut self, header: &Header, op: OpId) -> bool {
        if !self.errors.has_failed() {
            return false;
        }
        if self.has_all_of_failed(header) {
            self.errors.forget_failed();
        }
        self.errors.last() == op.bits()
    }

    /// Whether the connection must be kept: it expects or owes something.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.awaits_peer() || self.rx.is_ack_due() || self.credits.serving() > 0
    }

    /// Whether an operation of the peer failed, and parts of it may arrive. Its name is known as
    /// long as the connection lasts.
    #[inline]
    pub(crate) const fn knows_failed(&self) -> bool {
        self.errors.has_failed()
    }

    /// Whether nothing is left to do but to release the connection in time.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        !self.has_work()
            && self.path.loss_at().is_none()
            && self.hold_until.is_none()
            && !self.path.is_searching()
    }

    /// Whether a packet of the peer is expected, so that its silence matters.
    #[inline]
    pub(crate) fn awaits_peer(&self) -> bool {
        !self.tx.all_acknowledged()
            || !self.sends.list().is_empty()
            || !self.responses.list().is_empty()
            || !self.assemblies.is_empty()
            || !self.out_of_order.is_empty()
            || self.rx.receive_window().has_holes()
            || self.rx.is_not_ready()
            || self.hello.repeat_at().is_some()
    }

    /// A mark for what the peer owes in order, 0 if nothing. If later messages have arrived, it
    /// owes the next message. If later packets have arrived, or messages are refused until the peer
    /// starts over, it owes the next packet.
    pub(crate) fn owed_in_order(&self) -> u16 {
        if !self.out_of_order.is_empty() {
            mark(self.rx.expected_msn().0)
        } else if self.rx.receive_window().has_holes() || self.rx.is_not_ready() {
            mark(self.rx.receive_window().next().0)
        } else {
            0
        }
    }

    /// Moves all times here forward where a comparison with `now` would wrap. They are valid at
    /// `before`. Of the time between, `unheard` nanoseconds do not count as silence.
    pub(crate) fn age(&mut self, before: Instant, now: Instant, unheard: u64) {
        self.hold_until = self.hold_until.map(|at| at.aged(before, now));
        self.rx.age(before, now, unheard);
        self.hello.age(before, now);
        self.path.age(before, now);
    }
}

// Credit for requests.
impl Connection {
    /// How many more requests may be sent (`docs/PROTOCOL.md` §8.2).
    #[inline]
    pub(crate) fn free_credits(&self, now: Tick) -> u16 {
        self.credits.free(self.rx.heard_recently(now))
    }

    /// Whether the peer should say with an acknowledgment how much credit it grants, when a request
    /// is sent now. Its last grant is the least, or may lapse before the response. Otherwise one
    /// request at a time would be sent, because the peer has no reason to repeat an old grant.
    #[inline]
    pub(crate) fn credit_may_lapse(&self, now: Tick) -> bool {
        let lapses = self.path.rtt().smoothed() >= (CREDIT_NANOS / TICK_NANOS) as u32 / 2;
        lapses || self.credits.is_least() || !self.rx.heard_recently(now)
    }

    /// Returns credits: packets have arrived in order, and the next packet tells the peer so.
    #[inline]
    pub(crate) fn return_credits(&mut self) {
        self.credits.return_before(self.rx.receive_window().next());
    }
}

// Queues, and the position among the senders.
impl Connection {
    /// The queue of operations that the application `posted`, or that of internal ones.
    pub(crate) fn queue(&mut self, posted: bool) -> &mut Queue {
        if posted { &mut self.sends } else { &mut self.responses }
    }

    /// Forgets the internal operations and the requests of the peer: all of them have ended.
    pub(crate) fn end_internal(&mut self) {
        self.responses = Queue::default();
        self.credits.all_served();
        self.errors.all_ended();
    }

    /// Whether anything waits to be sent for the first time.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.sends.cursor().is_some() || self.responses.cursor().is_some()
    }

    /// Whether anything waits to be sent, for the first time or again.
    pub(crate) fn wants_to_send(&self) -> bool {
        self.has_unsent() || self.tx.lost() > 0
    }

    /// Bytes of records that wait to be sent for the first time.
    #[inline(always)]
    pub(crate) const fn pending(&self) -> u32 {
        self.pending
    }

    /// Counts `bytes` of records that wait to be sent.
    #[inline(always)]
    pub(crate) fn records_wait(&mut self, bytes: u32) {
        self.pending = self.pending.saturating_add(bytes);
    }

    /// Counts `bytes` of records that were sent, or never will be.
    #[inline(always)]
    pub(crate) fn records_left(&mut self, bytes: u32) {
        self.pending = self.pending.saturating_sub(bytes);
    }

    /// The list of senders that the connection is in.
    #[inline(always)]
    pub(crate) const fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// Records that the connection moves to another list of senders.
    #[inline(always)]
    pub(crate) fn scheduled(&mut self, schedule: Schedule) {
        self.schedule = schedule;
    }

    /// Records that the connection had its turn, and is in no list of senders.
    #[inline(always)]
    pub(crate) fn left_ready_queue(&mut self) {
        self.schedule = Schedule::Idle;
    }
}
