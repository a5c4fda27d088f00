// SPDX-License-Identifier: MIT OR Apache-2.0
//! State of a peer with traffic: both windows, the queue of sends, and what is due when.

use super::{Peer, Rtt, TICK_NANOS, ticks};
use crate::Instant;
use crate::in_flight::Directory;
use crate::serial::{Msn, Psn};
use crate::slab::{Link, Links, List, NIL};
use crate::window::ReceiveWindow;

/// An acknowledgment may wait this long for a packet to ride on.
const ACK_DELAY_NANOS: u64 = 10_000;
/// After so many packets without an acknowledgment, one goes out at once.
const ACK_EVERY_PACKETS: u8 = 16;
/// A peer without anything under way gives its active state back after this long.
const QUIET_NANOS: u64 = 20_000_000;

/// Whether a peer waits for its turn to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum AckDue {
    #[default]
    Not,
    /// At this time, unless a packet carries it before.
    At(Instant),
    Now,
}

/// State of a peer with traffic. Made from and written back to its [`Peer`].
#[derive(Clone, Debug, Default)]
pub struct Active {
    /// The slot in the peer table.
    pub(crate) peer: u32,

    // As a receiver.
    pub(crate) window: ReceiveWindow,
    pub(crate) ack_due: AckDue,
    /// Data packets since the last acknowledgment.
    unacknowledged: u8,
    /// A duplicate has arrived since the last acknowledgment.
    pub(crate) duplicates_seen: bool,
    /// Messages from `expected_msn` on are discarded until the sender starts over.
    pub(crate) not_ready: bool,
    pub(crate) rx_rnr_epoch: u8,
    /// The next message to be accepted.
    pub(crate) expected_msn: Msn,
    /// The `sent_at` of the newest packet, and when it arrived.
    pub(crate) newest_sent_at: u32,
    pub(crate) newest_arrived: Instant,
    pub(crate) received: u32,
    pub(crate) congestion_marks: u16,
    /// Messages of several packets that are arriving.
    pub(crate) assemblies: List,
    /// Stored messages that came before an earlier one, in message order.
    pub(crate) early: List,

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
    /// No packet before this one is taken for lost.
    pub(crate) lost_from: Psn,
    /// `sent_at` of the packet sent last among those acknowledged.
    pub(crate) newest_acked: u32,
    /// Posted sends in message order, and the first of them that is not all sent.
    pub(crate) sends: List,
    pub(crate) cursor: u32,
    pub(crate) next_msn: Msn,
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

    // Time.
    pub(crate) rtt: Rtt,
    /// Time-outs in a row; the first stands for the tail probe.
    pub(crate) backoff: u8,
    pub(crate) probe: bool,
    /// When the retransmission timer was last restarted.
    pub(crate) timer_from: Instant,
    /// A loss may be certain by then.
    pub(crate) loss_at: Option<Instant>,
    /// After receiver-not-ready, no message before this.
    pub(crate) hold_until: Option<Instant>,
    /// When the handshake is repeated.
    pub(crate) hello_at: Option<Instant>,
    pub(crate) hello_count: u8,
    /// The cookie that the peer asked to see in the next hello.
    pub(crate) cookie: u64,
    /// Since when nothing was heard while something was awaited.
    pub(crate) silent_since: Instant,
}

// 320 bytes are promised besides what the packets under way take; the rest is to be won back.
static_assertions::const_assert!(size_of::<crate::slab::Slot<Active>>() <= 400);

impl Link for Active {
    fn link(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Active {
    pub(crate) fn new(number: u32, peer: &Peer, now: Instant) -> Self {
        Self {
            peer: number,
            window: ReceiveWindow::new(peer.expected_psn),
            rx_rnr_epoch: peer.rx_rnr_epoch,
            expected_msn: peer.expected_msn,
            first_psn: peer.next_psn,
            next_psn: peer.next_psn,
            lost_from: peer.next_psn,
            newest_acked: ticks(now),
            cursor: NIL,
            next_msn: peer.next_msn,
            accepted_msn: peer.next_msn,
            tx_rnr_epoch: peer.tx_rnr_epoch,
            rtt: Rtt::new(u32::from(peer.srtt)),
            silent_since: now,
            timer_from: now,
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
        peer.srtt = self.rtt.smoothed().min(u32::from(u16::MAX)) as u16;
    }

    /// Whether a packet that is taken for lost may be sent again now.
    pub(crate) fn may_resend(&self) -> bool {
        self.lost > 0 && self.resend_credit > 0
    }

    /// Packets that are neither acknowledged nor taken for lost.
    pub(crate) fn in_flight(&self) -> u32 {
        self.next_psn.since(self.first_psn) - u32::from(self.sacked) - u32::from(self.lost)
    }

    /// Whether everything sent is acknowledged.
    pub(crate) fn all_acknowledged(&self) -> bool {
        self.first_psn == self.next_psn
    }

    /// Whether anything here would be lost, or anybody would wait in vain, if this state went.
    pub(crate) fn has_work(&self) -> bool {
        self.awaits_peer() || self.ack_due != AckDue::Not
    }

    /// Whether something is expected of the peer, so that its silence means something.
    pub(crate) fn awaits_peer(&self) -> bool {
        !self.all_acknowledged()
            || !self.sends.is_empty()
            || !self.assemblies.is_empty()
            || !self.early.is_empty()
            || self.window.has_holes()
            || self.not_ready
            || self.hello_at.is_some()
    }

    /// When a peer that has no work gives this state back.
    pub(crate) fn quiet_at(&self) -> Instant {
        self.newest_arrived.max(self.timer_from).after_nanos(QUIET_NANOS)
    }

    /// A data packet arrived and was taken in: it wants an acknowledgment.
    pub(crate) fn owe_ack(&mut self, now: Instant, at_once: bool) {
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        if at_once || self.unacknowledged >= ACK_EVERY_PACKETS || self.window.has_holes() {
            self.ack_due = AckDue::Now;
        } else if self.ack_due == AckDue::Not {
            self.ack_due = AckDue::At(now.after_nanos(ACK_DELAY_NANOS));
        }
    }

    /// A packet went out. It told the peer the cumulative number; a hole needs the bitmap of an
    /// acknowledgment of its own, which `whole` says this was.
    pub(crate) fn acknowledged(&mut self, whole: bool) {
        if whole || !self.window.has_holes() {
            self.ack_due = AckDue::Not;
            self.unacknowledged = 0;
            self.duplicates_seen &= !whole;
        }
    }

    /// When this peer next needs attention, whatever happens.
    pub(crate) fn deadline(&self, death: core::time::Duration) -> Instant {
        let ack = match self.ack_due {
            AckDue::At(at) => Some(at),
            AckDue::Not | AckDue::Now => None,
        };
        let death = self.awaits_peer().then(|| self.silent_since.after(death));
        [ack, self.retransmit_at(), self.loss_at, self.hold_until, self.hello_at, death]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or_else(|| self.quiet_at())
    }

    /// When the retransmission timer fires, if it runs.
    pub(crate) fn retransmit_at(&self) -> Option<Instant> {
        let after = match self.backoff {
            0 => self.rtt.probe_timeout(),
            n => self.rtt.timeout(u32::from(n - 1)),
        };
        let at = self.timer_from.after_nanos(u64::from(after) * TICK_NANOS);
        (!self.all_acknowledged()).then_some(at)
    }
}
