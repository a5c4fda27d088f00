// SPDX-License-Identifier: MIT OR Apache-2.0
//! State of a peer with traffic: both windows, the queues of operations; `due.rs` is what of it is
//! due when, `credit.rs` what may be asked for.

use super::credit::Credits;
use super::{Peer, Rtt, Window};
use crate::OpId;
use crate::in_flight::Directory;
use crate::operation::TxOp;
use crate::serial::{Msn, Psn};
use crate::slab::{Link, Links, List, NIL, Slab};
use crate::time::Tick;
use crate::window::ReceiveWindow;
use crate::wire::{Flags, Header};

/// A peer without anything under way gives its active state back after this long.
pub(crate) const QUIET_NANOS: u64 = 20_000_000;
/// Whether a peer waits for its turn to send.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum Schedule {
    /// Nothing to send, or nothing that may be sent.
    #[default]
    Idle,
    /// Records wait for company until the next progress call.
    Gathering,
    /// In the line of peers that send.
    Ready,
}

/// When an acknowledgment is owed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum AckDue {
    #[default]
    Not,
    /// At this time, unless a packet carries it before.
    At(Tick),
    Now,
}

/// Operations to one peer in the order in which they go out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Queue {
    pub(crate) list: List,
    /// The first that is not all sent, or [`NIL`].
    pub(crate) cursor: u32,
    /// The next one's place in the order.
    pub(crate) serial: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self { list: List::default(), cursor: NIL, serial: 0 }
    }
}

impl Queue {
    /// Puts operation `number` at the end.
    #[inline]
    pub(crate) fn push(&mut self, ops: &mut Slab<'_, TxOp, 3>, number: u32) {
        ops[number].serial = self.serial;
        self.serial = self.serial.wrapping_add(1);
        self.list.push_back(ops, number);
        if self.cursor == NIL {
            self.cursor = number;
        }
    }
}

/// What both sides have said of operations in error (`docs/PROTOCOL.md` §8.3). Counts are modulo
/// 256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Errors {
    /// Error records that the peer says it has issued, and those that have arrived.
    pub(crate) announced: u8,
    pub(crate) received: u8,
    /// Error records of ours, and how many of them are not acknowledged.
    pub(crate) issued: u8,
    pub(crate) open: u8,
    /// The operation that the last one was about, while parts of it may come: one is enough for
    /// all parts of a write. Errors are found in the order of packets, so of the operations before
    /// it no parts are missing.
    pub(crate) last: u32,
}

impl Errors {
    /// No operation has this name.
    pub(crate) const NONE: u32 = OpId::NONE.bits();
}

/// State of a peer with traffic. Made from and written back to its [`Peer`].
#[derive(Clone, Debug, Default, Hash)]
pub struct Active {
    /// The slot in the peer table.
    pub(crate) peer: u32,

    // As a receiver.
    pub(crate) window: ReceiveWindow,
    pub(crate) ack_due: AckDue,
    /// Data packets since the last acknowledgment.
    pub(super) unacknowledged: u8,
    /// A duplicate has arrived since the last acknowledgment.
    pub(crate) duplicates_seen: bool,
    /// The peer needs an acknowledgment of its own: it measures with it, or learns its credit.
    pub(crate) ack_whole: bool,
    /// Messages from `expected_msn` on are discarded until the sender starts over.
    pub(crate) not_ready: bool,
    pub(crate) rx_rnr_epoch: u8,
    /// The next message to be accepted.
    pub(crate) expected_msn: Msn,
    /// The `sent_at` of the newest packet, and when it arrived.
    pub(crate) newest_sent_at: Tick,
    pub(crate) newest_arrived: Tick,
    pub(crate) received: u32,
    pub(crate) congestion_marks: u16,
    /// Messages of several packets that are arriving.
    pub(crate) assemblies: List,
    /// Stored messages that came before an earlier one, in message order.
    pub(crate) early: List,
    /// Events of remote writes behind a missing packet, in the order of packets.
    pub(crate) held: List,

    // As a sender.
    pub(crate) directory: Directory,
    /// Oldest packet not acknowledged, and next one to be sent.
    pub(crate) first_psn: Psn,
    pub(crate) next_psn: Psn,
    /// Packets up to `next_psn` that are selectively acknowledged, and that are taken for lost.
    pub(crate) sacked: u16,
    pub(crate) lost: u16,
    /// How many of those may be sent again now: all, or after a time-out a few more with each
    /// acknowledgment.
    pub(crate) resend_credit: u16,
    /// Packets that went out again.
    pub(crate) resent: u32,
    /// No packet before this one is taken for lost.
    pub(crate) lost_from: Psn,
    /// `sent_at` of the packet sent last among those acknowledged.
    pub(crate) newest_acked: Tick,
    /// What the application posted.
    pub(crate) sends: Queue,
    /// Answers and requests of the engine's own, which wait for nothing but the window.
    pub(crate) responses: Queue,
    /// Everything that changes the peer's memory was sent before this packet.
    pub(crate) writes_end: Psn,
    pub(crate) next_msn: Msn,
    /// The message after the last one that was sent in the current attempt.
    pub(crate) sent_msn: Msn,
    /// The next message that the peer will accept.
    pub(crate) accepted_msn: Msn,
    pub(crate) tx_rnr_epoch: u8,
    /// Times in a row that the peer was not ready.
    pub(crate) rnr_count: u8,
    /// Bytes of records that wait to be sent for the first time.
    pub(crate) pending: u32,
    /// Pending records need not wait for company any more.
    pub(crate) released: bool,
    pub(crate) schedule: Schedule,
    pub(crate) links: Links,
    pub(crate) credits: Credits,
    pub(crate) errors: Errors,

    // Time.
    pub(crate) rtt: Rtt,
    pub(crate) congestion: Window,
    /// How full the peer is as a receiver, in eighths.
    pub(crate) pressure: u8,
    /// Time-outs in a row; the first stands for the tail probe.
    pub(crate) backoff: u8,
    pub(crate) probe: bool,
    /// A packet without payload goes out to ask whether the peer is there.
    pub(crate) ping: bool,
    /// When the retransmission timer was last restarted.
    pub(crate) timer_from: Tick,
    /// A loss may be certain by then.
    pub(crate) loss_at: Option<Tick>,
    /// After receiver-not-ready, no message before this.
    pub(crate) hold_until: Option<Tick>,
    /// When the handshake is repeated.
    pub(crate) hello_at: Option<Tick>,
    /// How often that was; where this is 0, and only there, an answer tells the round trip. New
    /// state begins with 1: what was said before is not measured from then on.
    pub(crate) hello_count: u8,
    /// The number that the hello of this side proposes for the connection; 0: it has sent none.
    pub(crate) proposed: u16,
    /// The cookie that the peer asked to see in the next hello.
    pub(crate) cookie: u64,
    /// Since when nothing was heard while something was awaited.
    pub(crate) silent_since: Tick,
}

// A bound that is promised: with its slot's bookkeeping, besides the notes on packets under way.
static_assertions::const_assert!(size_of::<crate::slab::Slot<Active>>() <= 320);

impl Link for Active {
    fn link(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Active {
    pub(crate) fn new(number: u32, peer: &Peer, now: Tick) -> Self {
        Self {
            peer: number,
            window: ReceiveWindow::new(peer.expected_psn),
            rx_rnr_epoch: peer.rx_rnr_epoch,
            expected_msn: peer.expected_msn,
            first_psn: peer.next_psn,
            next_psn: peer.next_psn,
            lost_from: peer.next_psn,
            writes_end: peer.next_psn,
            newest_acked: now,
            next_msn: peer.next_msn,
            sent_msn: peer.next_msn,
            accepted_msn: peer.next_msn,
            tx_rnr_epoch: peer.tx_rnr_epoch,
            errors: Errors {
                announced: peer.errors_received,
                received: peer.errors_received,
                issued: peer.errors_issued,
                open: 0,
                last: Errors::NONE,
            },
            rtt: Rtt::resumed(peer.srtt),
            congestion: Window::new(now),
            silent_since: now,
            timer_from: now,
            // A handshake of before would not be measured from now on.
            hello_count: 1,
            newest_arrived: now,
            ..Self::default()
        }
    }

    /// Writes what outlives this state back to `peer`.
    pub(crate) fn save(&self, peer: &mut Peer) {
        peer.expected_psn = self.window.next();
        peer.rx_rnr_epoch = self.rx_rnr_epoch;
        peer.expected_msn = self.expected_msn;
        peer.next_psn = self.next_psn;
        peer.next_msn = self.next_msn;
        peer.tx_rnr_epoch = self.tx_rnr_epoch;
        peer.errors_issued = self.errors.issued;
        peer.errors_received = self.errors.received;
        peer.srtt = self.rtt.kept();
    }

    /// Whether a packet that is taken for lost may be sent again now.
    #[inline]
    pub(crate) fn may_resend(&self) -> bool {
        self.lost > 0 && self.resend_credit > 0
    }

    /// Packets that are neither acknowledged nor taken for lost.
    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        self.next_psn.since(self.first_psn) - u32::from(self.sacked) - u32::from(self.lost)
    }

    /// The queue of what the application `posted`, or that of the engine's own operations.
    pub(crate) fn queue(&mut self, posted: bool) -> &mut Queue {
        if posted { &mut self.sends } else { &mut self.responses }
    }

    /// Whether anything waits to be sent for the first time.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.sends.cursor != NIL || self.responses.cursor != NIL
    }

    /// Whether anything waits to be sent, for the first time or again.
    pub(crate) fn wants_to_send(&self) -> bool {
        self.has_unsent() || self.lost > 0
    }

    /// Whether everything sent is acknowledged.
    #[inline]
    pub(crate) fn all_acknowledged(&self) -> bool {
        self.first_psn == self.next_psn
    }

    /// Whether nothing is out of the ordinary, either way: nothing lost, late, or not to be had.
    #[inline]
    pub(crate) fn is_in_order(&self) -> bool {
        self.received > 0 && !self.not_ready && self.sacked == 0 && self.lost == 0
    }

    /// Packets were acknowledged of which that is news.
    #[inline]
    pub(crate) fn news(&mut self, packets: u32, now: Tick) {
        let credit = u16::try_from(2 * packets).unwrap_or(u16::MAX);
        self.resend_credit = self.resend_credit.saturating_add(credit);
        self.backoff = 0;
        self.probe = false;
        self.timer_from = now;
        self.congestion.acknowledged(packets, self.in_flight(), &self.rtt, now);
    }

    /// Everything before `ack`, which was not acknowledged before, is.
    #[inline]
    pub(crate) fn retired_until(&mut self, ack: Psn) {
        self.first_psn = ack;
        if self.lost_from.is_before(ack) {
            self.lost_from = ack;
        }
        if self.writes_end.is_before(ack) {
            // So that it stays near enough to compare with.
            self.writes_end = ack;
        }
    }

    /// Whether operations may end: every error that the peer has announced has arrived
    /// (`docs/PROTOCOL.md` §8.3).
    #[inline]
    pub(crate) fn may_complete(&self) -> bool {
        self.errors.received == self.errors.announced
    }

    /// Whether every packet with a part of the operation that was in error last came before the
    /// one with `header`, a data packet that is being taken in. It is so if
    ///
    /// * all error records have arrived, and none of them beyond a missing packet;
    /// * the header acknowledges all that has: so the peer had the last record when it sent this;
    /// * it was not sent before, so that its number is above those of all that was: and who has an
    ///   error record begins no part of that operation any more (`docs/PROTOCOL.md` §8.3);
    /// * everything before it has been taken in; events that waited for that have been told.
    pub(crate) fn has_all_of_failed(&self, header: &Header) -> bool {
        (self.errors.open, self.sacked) == (0, 0)
            && header.ack_psn() == self.first_psn
            && !header.flags().contains(Flags::RETRANSMISSION)
            && header.psn() == self.window.next()
    }

    /// Whether anything here would be lost, or anybody would wait in vain, if this state went.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.awaits_peer() || self.ack_due != AckDue::Not || self.credits.serving > 0
    }

    /// Whether nothing is to be done but to give this state back in time.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.has_work() && self.loss_at.is_none() && self.hold_until.is_none()
    }

    /// Whether something is expected of the peer, so that its silence means something.
    #[inline]
    pub(crate) fn awaits_peer(&self) -> bool {
        !self.all_acknowledged()
            || !self.sends.list.is_empty()
            || !self.responses.list.is_empty()
            || !self.assemblies.is_empty()
            || !self.early.is_empty()
            || self.window.has_holes()
            || self.not_ready
            || self.hello_at.is_some()
    }
}
