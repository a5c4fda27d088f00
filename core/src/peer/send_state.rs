// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sender's half of a connection: packet numbers with the records of packets under way, and
//! message numbers (`docs/PROTOCOL.md` §4.1, §4.5, §6.4).
//!
//! In: packets and messages as they are sent, and the peer's acknowledgments. Out: packets under
//! way and lost, messages accepted. The engine's sender calls. Bound: the window.

use crate::collections::serial::{Msn, Psn};
use crate::collections::time::Tick;
use crate::peer::in_flight::{CHUNK_PACKETS, Directory, InFlight, PacketSet};
use crate::peer::packet_record::TxPacket;

/// Numbers and counts of a sender. No packet outside of `first_psn..next_psn` has a record.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct SendState {
    directory: Directory,
    /// Oldest packet not acknowledged, and next one to be sent.
    first_psn: Psn,
    next_psn: Psn,
    /// No packet before this one is taken for lost.
    lost_from: Psn,
    /// No packet from this one on is overtaken by one that has arrived.
    overtaken_end: Psn,
    /// Every write to the peer's memory was sent before this packet.
    writes_end: Psn,
    next_msn: Msn,
    /// The message after the last one that was sent in the current attempt.
    sent_msn: Msn,
    /// The next message that the peer will accept.
    accepted_msn: Msn,
    /// Packets that were sent again.
    retransmitted: u32,
    /// Packets under way that are selectively acknowledged, and that are taken for lost.
    sacked: u16,
    lost: u16,
    rnr_epoch: u8,
    /// Times in a row that the peer was not ready.
    rnr_count: u8,
    /// A packet was lost since the peer last received one twice.
    loses: bool,
}

impl SendState {
    /// Nothing is under way; `psn` and `msn` are the next numbers.
    pub(super) fn new(psn: Psn, msn: Msn, rnr_epoch: u8) -> Self {
        let mut state = Self { rnr_epoch, ..Self::default() };
        state.restart_at(psn, msn);
        state
    }

    /// Sets the numbers for a new connection of the same peer. Nothing is under way.
    pub(crate) fn restart(&mut self, base: Psn) {
        self.restart_at(base, Msn(0));
        self.rnr_epoch = 0;
    }

    fn restart_at(&mut self, psn: Psn, msn: Msn) {
        (self.first_psn, self.next_psn) = (psn, psn);
        (self.lost_from, self.overtaken_end, self.writes_end) = (psn, psn, psn);
        (self.next_msn, self.sent_msn, self.accepted_msn) = (msn, msn, msn);
    }
}

// Packets under way.
impl SendState {
    /// The oldest packet that is not acknowledged.
    #[inline(always)]
    pub(crate) const fn first_psn(&self) -> Psn {
        self.first_psn
    }

    /// The next packet to be sent.
    #[inline(always)]
    pub(crate) const fn next_psn(&self) -> Psn {
        self.next_psn
    }

    /// The end of the writes to the peer's memory: all were sent before this packet.
    #[inline]
    pub(crate) const fn writes_end(&self) -> Psn {
        self.writes_end
    }

    /// How many packets the window holds: the oldest one that is not acknowledged, and all later
    /// ones.
    #[inline(always)]
    pub(crate) fn under_way(&self) -> u32 {
        self.next_psn.since(self.first_psn)
    }

    /// The numbers of the packets that the window holds.
    pub(crate) fn psns(&self) -> impl DoubleEndedIterator<Item = Psn> + use<> {
        let first = self.first_psn;
        (0..self.under_way()).map(move |n| first.plus(n))
    }

    /// Packets that are neither acknowledged nor taken for lost.
    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        self.under_way() - u32::from(self.sacked) - u32::from(self.lost)
    }

    /// Whether everything sent is acknowledged.
    #[inline]
    pub(crate) fn all_acknowledged(&self) -> bool {
        self.first_psn == self.next_psn
    }

    /// Whether `pool` has room for the record of the next packet.
    #[inline]
    pub(crate) fn has_room(&self, pool: &InFlight<'_>) -> bool {
        pool.has_room(&self.directory, self.first_psn, self.next_psn)
    }

    /// How many packets, one after the other, `pool` surely has room for: those in the chunk of the
    /// last one, and in the next chunk if that can be taken.
    pub(crate) fn room(&self, pool: &InFlight<'_>) -> u32 {
        let in_chunk = (CHUNK_PACKETS - self.next_psn.0 % CHUNK_PACKETS) % CHUNK_PACKETS;
        let end = self.next_psn.plus(in_chunk);
        let more = pool.has_room(&self.directory, self.first_psn, end);
        in_chunk + if more { CHUNK_PACKETS } else { 0 }
    }

    /// Records the next packet and takes its number. Returns false, and changes nothing, if
    /// [`Self::has_room`] is false.
    #[inline]
    pub(crate) fn packet_sent(&mut self, pool: &mut InFlight<'_>, packet: TxPacket) -> bool {
        let recorded = pool.push(&mut self.directory, self.first_psn, self.next_psn, packet);
        if recorded {
            self.next_psn = self.next_psn.plus(1);
        }
        recorded
    }

    /// Records that the last packet writes to the peer's memory.
    #[inline]
    pub(crate) fn writes_sent(&mut self) {
        self.writes_end = self.next_psn;
    }

    /// The record of a packet under way; to be read.
    #[inline]
    pub(crate) fn record<'p>(&self, pool: &'p InFlight<'_>, psn: Psn) -> Option<&'p TxPacket> {
        pool.record(&self.directory, psn)
    }

    /// The records of packets under way from `psn` on, as far as the chunk goes.
    #[inline]
    pub(crate) fn records_from<'p>(&self, pool: &'p InFlight<'_>, psn: Psn) -> &'p [TxPacket] {
        pool.records_from(&self.directory, psn)
    }

    /// Changes the record of a packet under way, and returns it as it was.
    #[inline]
    pub(crate) fn change_record(
        &self,
        pool: &mut InFlight<'_>,
        psn: Psn,
        change: impl FnOnce(&mut TxPacket),
    ) -> Option<TxPacket> {
        pool.change(&self.directory, psn, change)
    }

    /// The first packet of `set` from `psn` on and before `end`. Bound: the chunks of the window.
    #[inline]
    pub(crate) fn find(
        &self,
        pool: &InFlight<'_>,
        set: PacketSet,
        psn: Psn,
        end: Psn,
    ) -> Option<Psn> {
        pool.find(&self.directory, set, (psn, end))
    }

    /// The first packet under way that is not acknowledged, and the last one. Bound: the chunks of
    /// the window.
    pub(crate) fn ends_of_open(&self, pool: &InFlight<'_>) -> Option<(Psn, Psn)> {
        let (window, set) = ((self.first_psn, self.next_psn), PacketSet::Open);
        let first = pool.find(&self.directory, set, window)?;
        Some((first, pool.find_last(&self.directory, set, window)?))
    }

    /// The time before which no outstanding packet in the stretch of `psn` counts from, if it is
    /// known: see [`InFlight::set_checked`].
    #[inline]
    pub(crate) fn checked(&self, pool: &InFlight<'_>, psn: Psn) -> Option<Tick> {
        pool.checked(&self.directory, psn)
    }

    /// Records that time, or that it is not known.
    pub(crate) fn set_checked(&self, pool: &mut InFlight<'_>, psn: Psn, oldest: Option<Tick>) {
        pool.set_checked(&self.directory, psn, oldest);
    }

    /// Which of the 64 packets from `psn` on are not acknowledged. Bits of packets that are not
    /// under way mean nothing.
    #[inline]
    pub(crate) fn open_from(&self, pool: &InFlight<'_>, psn: Psn) -> u64 {
        pool.open_from(&self.directory, psn)
    }

    /// Retires everything before `ack`, which is newly acknowledged.
    #[inline]
    pub(crate) fn retire_until(&mut self, pool: &mut InFlight<'_>, ack: Psn) {
        pool.retire(&mut self.directory, self.first_psn, ack);
        self.first_psn = ack;
        if ack == self.next_psn {
            pool.shrink(&mut self.directory, ack);
        }
        if self.lost_from.is_before(ack) {
            self.lost_from = ack;
        }
        if self.overtaken_end.is_before(ack) {
            self.overtaken_end = ack;
        }
        if self.writes_end.is_before(ack) {
            // It must stay near enough to compare with.
            self.writes_end = ack;
        }
    }

    /// Gives back every packet record.
    pub(crate) fn release(&mut self, pool: &mut InFlight<'_>) {
        pool.clear(&mut self.directory, self.first_psn, self.next_psn);
    }
}

// Acknowledgment out of order, loss, and retransmission.
impl SendState {
    /// Packets under way that are selectively acknowledged.
    #[inline(always)]
    pub(crate) const fn sacked(&self) -> u16 {
        self.sacked
    }

    /// Packets under way that are taken for lost.
    #[inline(always)]
    pub(crate) const fn lost(&self) -> u16 {
        self.lost
    }

    /// Packets that were sent again, modulo 2^32.
    pub(crate) const fn retransmitted(&self) -> u32 {
        self.retransmitted
    }

    /// No packet from this one on is overtaken by one that has arrived.
    #[inline(always)]
    pub(crate) const fn overtaken_end(&self) -> Psn {
        self.overtaken_end
    }

    /// Whether packets may be overtaken by one that has arrived.
    #[inline(always)]
    pub(crate) fn may_be_overtaken(&self) -> bool {
        self.overtaken_end != self.first_psn
    }

    /// Any packet under way may be overtaken.
    pub(crate) fn all_may_be_overtaken(&mut self) {
        self.overtaken_end = self.next_psn;
    }

    /// Counts packet `psn`, which arrived behind a missing one.
    #[inline]
    pub(crate) fn packet_sacked(&mut self, psn: Psn) {
        self.sacked += 1;
        if !psn.is_before(self.overtaken_end) {
            self.overtaken_end = psn.plus(1);
        }
    }

    /// A selectively acknowledged packet is about to be retired.
    #[inline]
    pub(crate) fn sacked_packet_retires(&mut self) {
        self.sacked -= 1;
    }

    /// A packet that was taken for lost has arrived.
    #[inline]
    pub(crate) fn lost_packet_arrived(&mut self) {
        self.lost -= 1;
    }

    /// Counts packet `psn`, which is to be sent again, as lost.
    pub(crate) fn packet_lost(&mut self, psn: Psn) {
        self.loses = true;
        self.lost += 1;
        if psn.is_before(self.lost_from) || self.lost == 1 {
            self.lost_from = psn;
        }
    }

    /// Whether silence is more likely a loss than a peer that is late.
    pub(crate) const fn loses(&self) -> bool {
        self.loses
    }

    /// Records that the peer received a packet twice: it was late.
    pub(crate) const fn saw_duplicate(&mut self) {
        self.loses = false;
    }

    /// The lowest packet that is taken for lost, of at least one. Bound: the window.
    pub(crate) fn next_lost(&mut self, pool: &InFlight<'_>) -> Option<Psn> {
        if let Some(psn) = self.find(pool, PacketSet::Lost, self.lost_from, self.next_psn) {
            self.lost_from = psn;
            return Some(psn);
        }
        // Not reached while the count is right; a wrong count must not stop the peer for good.
        debug_assert!(false, "lost packets are at or after `lost_from`");
        self.lost_from = self.first_psn;
        self.lost = 0;
        None
    }

    /// A lost packet goes out again.
    pub(crate) fn lost_packet_retransmitted(&mut self) {
        self.lost -= 1;
    }

    /// Counts a packet that goes out again.
    pub(crate) fn packet_retransmitted(&mut self) {
        self.retransmitted = self.retransmitted.wrapping_add(1);
    }
}

// Messages.
impl SendState {
    /// The number of the next message that is posted.
    #[inline(always)]
    pub(crate) const fn next_msn(&self) -> Msn {
        self.next_msn
    }

    /// The next message that the peer will accept.
    #[inline(always)]
    pub(crate) const fn accepted_msn(&self) -> Msn {
        self.accepted_msn
    }

    /// The message after the last one that was sent in the current attempt.
    #[inline(always)]
    pub(crate) const fn sent_msn(&self) -> Msn {
        self.sent_msn
    }

    /// The current attempt after receiver-not-ready.
    #[inline(always)]
    pub(crate) const fn rnr_epoch(&self) -> u8 {
        self.rnr_epoch
    }

    /// Takes the number of the next message.
    #[inline]
    pub(crate) fn message_posted(&mut self) {
        self.next_msn = self.next_msn.plus(1);
    }

    /// Records that messages before `end` were sent in the current attempt.
    #[inline]
    pub(crate) fn messages_sent(&mut self, end: Msn) {
        self.sent_msn = end;
    }

    /// Records that the peer has accepted the messages before `end`.
    #[inline]
    pub(crate) fn messages_accepted(&mut self, end: Msn) {
        self.accepted_msn = end;
        self.rnr_count = 0;
    }

    /// Begins a new attempt with the message that the peer did not accept. Returns how many times
    /// in a row the peer was not ready before.
    pub(crate) fn on_rnr(&mut self) -> u8 {
        let before = self.rnr_count;
        self.rnr_epoch = self.rnr_epoch.wrapping_add(1);
        self.rnr_count = before.saturating_add(1);
        self.sent_msn = self.accepted_msn;
        before
    }
}
