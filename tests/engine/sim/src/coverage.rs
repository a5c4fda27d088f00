// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which transitions of the protocol a run has taken.
//!
//! In: packets that were sent, and the counters of engines. Out: how often each of
//! [`Transition::ALL`] was seen. A swarm that never takes one of them has not tested it, and fails.

use crate::wire::{self, RETRANSMISSION, View};
use ofi_xdp_core::{DropReason, OpError, Stats};

macro_rules! transitions {
    ($($name:ident = $text:literal,)*) => {
        /// Something that the protocol does in some runs only.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[expect(missing_docs, reason = "each has its text")]
        pub enum Transition { $($name,)* }

        impl Transition {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// In words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

transitions! {
    Handshake = "handshake completed",
    CrossedHello = "hellos crossed",
    RetryCookie = "retry with a cookie",
    EpochChange = "connection of a later epoch",
    Reset = "reset sent",
    ResetTaken = "operations ended by a reset",
    Closed = "close sent",
    PeerTimeout = "operations ended by peer_timeout",
    Unreachable = "handshake without an answer",
    NotReady = "receiver not ready",
    StartedOver = "started over after receiver-not-ready",
    NotReadyTwice = "two attempts in a row refused",
    Unexpected = "message stored before its receive",
    OutOfOrder = "message stored out of order",
    OutOfOrderRefused = "out-of-order message without storage",
    Discarded = "records discarded",
    Truncated = "message longer than its receive",
    Cancelled = "receive cancelled",
    LossFound = "loss found by acknowledgments",
    TailProbe = "tail probe",
    Timeout = "time-out",
    Ping = "ping",
    Partial = "retransmission without superseded records",
    Coalesced = "several messages in a packet",
    SelectiveAck = "selective acknowledgment",
    PiggybackAck = "acknowledgment by data",
    Duplicate = "duplicate dropped",
    BeyondWindow = "packet beyond the window dropped",
    WrongToken = "packet of another connection dropped",
    UnknownConnection = "packet of no connection dropped",
    Stale = "packet with an old time stamp dropped",
    BadChecksum = "damaged packet dropped",
    Unprotected = "packet without protection dropped",
    OldHandshake = "old handshake dropped",
    UnprovenReset = "reset without proof dropped",
    AckOfUnsent = "impossible acknowledgment dropped",
    Released = "idle connection released",
    Quarantined = "packet for a removed peer's slot",
    NoRoom = "no connection for a new peer",
    Rendezvous = "message read by its receiver",
    ErrorRecord = "error record sent",
    ErrorTaken = "error record received",
    EventPending = "remote CQ data kept pending",
    EventRefused = "remote CQ data without room",
    CreditWait = "read or atomic waited for a responder",
    Atomic = "atomic executed",
    Paced = "congestion window below one packet",
    BehindBarrier = "out-of-order packet with a barrier dropped",
    NoResponder = "request without credit dropped",
    RightsRefused = "access refused for its key",
    BoundsRefused = "access refused for its range",
    PathProbe = "probe of the path MTU",
    PathShrunk = "packets shortened for the path",
    PathRaised = "packets lengthened again",
    Piece = "packet sent in pieces",
    PieceRefused = "piece without room",
    UnaskedProbeAck = "answer to no probe dropped",
}

/// Counts of transitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    counts: Vec<u64>,
}

impl Default for Coverage {
    fn default() -> Self {
        Self { counts: vec![0; Transition::ALL.len()] }
    }
}

impl Coverage {
    /// Counts a transition.
    pub fn hit(&mut self, transition: Transition) {
        self.add_count(transition, 1);
    }

    /// Counts a transition that was taken `count` times.
    pub fn add_count(&mut self, transition: Transition, count: u64) {
        self.counts[transition as usize] += count;
    }

    /// How often a transition was taken.
    #[must_use]
    pub fn count(&self, transition: Transition) -> u64 {
        self.counts[transition as usize]
    }

    /// Adds the transitions of another run.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    /// Transitions that were never taken. One is not asked for: only a peer that breaks the rules
    /// sends a request without credit, and few forged packets happen to be one.
    pub fn missing(&self) -> impl Iterator<Item = Transition> + '_ {
        let wanted = |transition: Transition| transition != Transition::NoResponder;
        let never =
            move |&transition: &Transition| wanted(transition) && self.count(transition) == 0;
        Transition::ALL.iter().copied().filter(never)
    }

    /// A packet leaves its sender.
    pub fn packet(&mut self, view: &View<'_>) {
        match view.kind {
            wire::RETRY => self.hit(Transition::RetryCookie),
            wire::RESET => self.hit(Transition::Reset),
            wire::CLOSE => self.hit(Transition::Closed),
            wire::PING => self.hit(Transition::Ping),
            wire::ACK if view.body.len() > 16 => self.hit(Transition::SelectiveAck),
            wire::DATA => self.data(view),
            wire::HELLO => {
                let epoch = view.body.get(30..32).map_or(0, |e| u16::from_le_bytes([e[0], e[1]]));
                self.add_count(Transition::EpochChange, u64::from(epoch > 1));
            }
            _ => {}
        }
    }

    fn data(&mut self, view: &View<'_>) {
        self.hit(Transition::PiggybackAck);
        let records = view.records().count();
        self.add_count(Transition::Coalesced, u64::from(records > 1));
        let partial = view.flags & RETRANSMISSION != 0 && records == 0;
        self.add_count(Transition::Partial, u64::from(partial));
        self.add_count(Transition::NotReadyTwice, u64::from(view.rnr_epoch > 1));
    }

    /// An operation ended.
    pub fn outcome(&mut self, outcome: Result<(), OpError>) {
        match outcome {
            Err(OpError::Reset) => self.hit(Transition::ResetTaken),
            Err(OpError::TimedOut) => self.hit(Transition::PeerTimeout),
            Err(OpError::Unreachable) => self.hit(Transition::Unreachable),
            Err(OpError::Truncated) => self.hit(Transition::Truncated),
            Err(OpError::Cancelled) => self.hit(Transition::Cancelled),
            Err(OpError::Key) => self.hit(Transition::RightsRefused),
            Err(OpError::Bounds) => self.hit(Transition::BoundsRefused),
            _ => {}
        }
    }

    /// An engine is done: its counters.
    pub fn stats(&mut self, stats: &Stats) {
        let dropped = |reason| stats.dropped(reason);
        for (transition, count) in [
            (Transition::Handshake, stats.handshakes),
            (Transition::NotReady, stats.receiver_not_ready),
            (Transition::StartedOver, stats.restarts_after_rnr),
            (Transition::Unexpected, stats.messages_unexpected),
            (Transition::OutOfOrder, stats.messages_out_of_order),
            (Transition::OutOfOrderRefused, dropped(DropReason::OutOfOrderWithoutStorage)),
            (Transition::Discarded, stats.records_discarded),
            (Transition::LossFound, stats.losses_by_ack),
            (Transition::TailProbe, stats.tail_probes),
            (Transition::Timeout, stats.timeouts),
            (Transition::Duplicate, dropped(DropReason::Duplicate)),
            (Transition::BeyondWindow, dropped(DropReason::BeyondWindow)),
            (Transition::WrongToken, dropped(DropReason::WrongToken)),
            (Transition::UnknownConnection, dropped(DropReason::UnknownConnection)),
            (Transition::Stale, dropped(DropReason::Stale)),
            (Transition::BadChecksum, dropped(DropReason::Checksum)),
            (Transition::Unprotected, dropped(DropReason::Unprotected)),
            (Transition::OldHandshake, dropped(DropReason::UnexpectedHandshake)),
            (Transition::UnprovenReset, dropped(DropReason::UnprovenReset)),
            (Transition::AckOfUnsent, dropped(DropReason::AckOfUnsent)),
            (Transition::NoRoom, dropped(DropReason::NoRoom)),
            (Transition::BehindBarrier, dropped(DropReason::BehindBarrier)),
            (Transition::NoResponder, dropped(DropReason::NoResponder)),
            (Transition::EventRefused, dropped(DropReason::NoEvent)),
            (Transition::Rendezvous, stats.rendezvous),
            (Transition::CreditWait, stats.credit_waits),
            (Transition::EventPending, stats.events_pending),
            (Transition::Atomic, stats.atomics_executed),
            (Transition::Paced, stats.paced),
            (Transition::ErrorRecord, stats.errors_sent),
            (Transition::ErrorTaken, stats.errors_received),
            (Transition::Released, stats.connections_idle),
            (Transition::Quarantined, stats.quarantined),
            (Transition::PathProbe, stats.path_probes),
            (Transition::PathShrunk, stats.path_shrinks),
            (Transition::PathRaised, stats.path_raises),
            (Transition::Piece, stats.pieces_sent),
            (Transition::PieceRefused, dropped(DropReason::PieceWithoutRoom)),
            (Transition::UnaskedProbeAck, dropped(DropReason::UnaskedProbeAck)),
        ] {
            self.add_count(transition, count);
        }
    }
}
