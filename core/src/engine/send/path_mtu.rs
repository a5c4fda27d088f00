// SPDX-License-Identifier: MIT OR Apache-2.0
//! Discovery of the path MTU (`docs/PROTOCOL.md` §11): when a search begins, its probes and their
//! answers, and the size that follows.
//!
//! In: losses, probes and answers of the peer, expired timers. Out: probes, answers, the size of
//! the packets from then on. Nothing here is on the path of data. Bound: one packet, or the
//! operations in one.

use crate::DropReason;
use crate::collections::serial::Psn;
use crate::collections::time::TICK_NANOS;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::engine::send::transmit::put_header;
use crate::peer::packet_record::{TxFlags, TxPacket};
use crate::peer::path_mtu::{RoundEnd, may_be_too_long};
use crate::peer::slots::{ConnSlot, PeerSlot};
use crate::peer::{Connection, Extra};
use crate::wire::{BEFORE_LEN, Flags, HEADER_LEN, PacketKind, ProbeBody, segment_overhead};
use zerocopy::IntoBytes;

/// A round without any answer ends after a time-out that has doubled so often. Probes are the
/// longest packets of a path, and take more time than others.
const ANSWER_DOUBLINGS: u32 = 3;
/// The least time by which longer probes may be later than a shorter one (100 µs).
const REORDER_TICKS_MIN: u32 = (100_000 / TICK_NANOS) as u32;
/// The most that a part of an operation has beside its payload: the header, remote CQ data, the
/// bytes before it, and padding to eight bytes.
const PART_OVERHEAD_MAX: usize = segment_overhead(true) + BEFORE_LEN + 8;

impl Sender<'_> {
    /// Begins a search, unless one is under way, if packet `psn`, which was lost again, may be too
    /// long for the path.
    #[cold]
    pub(super) fn suspect_path(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, psn: Psn) {
        let state = &cx.table[conn];
        let Some(record) = state.tx().record(&self.in_flight, psn).copied() else { return };
        if self.is_too_long(&record, state.peer()) {
            self.start_search(cx, conn);
        }
    }

    /// Whether a packet may be too long for the path. Bound: the operations in it.
    #[cold]
    pub(super) fn is_too_long(&mut self, record: &TxPacket, peer: PeerSlot) -> bool {
        may_be_too_long(self.packet_len(record, peer))
    }

    /// Tries longer packets on a path that did not pass them some time ago.
    #[inline]
    pub(crate) fn try_longer(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        let peer = &cx.table[cx.table[conn].peer()];
        if peer.has_short_path() && peer.is_established() && peer.may_try_longer(cx.era()) {
            self.start_search(cx, conn);
        }
    }

    /// Begins a search from the present size, unless one is under way.
    pub(super) fn start_search(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        let slot = cx.table[conn].peer();
        let full = cx.full_size(slot);
        // It is not above the full size, which fits.
        let size = u16::try_from(cx.payload_max(slot)).unwrap_or(full);
        if !cx.table[conn].path().is_searching() && self.searches.start(conn, size, full) {
            cx.table[conn].path_mut().set_extra(Extra::PROBES, true);
            cx.table.make_ready(conn);
        }
    }

    /// Ends the search of a connection that ends.
    pub(crate) fn abort_search(&mut self, state: &Connection, conn: ConnSlot) {
        if state.path().is_searching() {
            self.searches.end(conn);
        }
    }

    /// The length of a packet, or up to 24 bytes more if it has a part of an operation. Never less:
    /// a packet that counts as short goes again for ever on a path that does not pass it.
    fn packet_len(&mut self, record: &TxPacket, peer: PeerSlot) -> usize {
        if record.flags.contains(TxFlags::PART) {
            return HEADER_LEN + PART_OVERHEAD_MAX + usize::from(record.len);
        }
        let mut len = HEADER_LEN;
        self.each_whole(record, peer, |sender, slot| {
            len += sender.len_as_a_whole(slot).unwrap_or_default();
        });
        len
    }

    /// Takes an answer to a probe.
    pub(crate) fn process_probe_ack(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        ack: &ProbeBody,
    ) -> Result<(), DropReason> {
        let (round, size) = (ack.round.get(), ack.size.get());
        let search = self.searches.of(conn);
        let over = search.and_then(|search| search.acknowledged(round, size));
        let path = cx.table[conn].path_mut();
        if over.ok_or(DropReason::UnaskedProbeAck)? {
            self.end_round(cx, conn);
        } else if let Some(end) = path.round_ends() {
            // Longer probes were sent before, and are late at most.
            let late = cx.timers.tick().plus(path.rtt().reorder_window().max(REORDER_TICKS_MIN));
            path.set_round_end(Some(if end.has_come(late) { end } else { late }));
            cx.arm(conn);
        }
        Ok(())
    }

    /// Ends a round of probes, and takes the size that it has shown.
    pub(crate) fn end_round(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        let slot = cx.table[conn].peer();
        let full = cx.full_size(slot);
        cx.table[conn].path_mut().set_round_end(None);
        let Some(search) = self.searches.of(conn) else { return };
        let RoundEnd { size, is_last } = search.end_round(full);
        cx.table[conn].path_mut().set_extra(Extra::PROBES, !is_last);
        if is_last {
            self.searches.end(conn);
        } else {
            cx.table.make_ready(conn);
        }
        match size {
            Some(size) => resize(cx, conn, size),
            // The path is down: the same size counts as found now.
            None => {
                let (size, era) = (cx.payload_max(slot) as u16, cx.era());
                cx.table[slot].set_path(size, full, era);
            }
        }
    }

    /// Writes a packet without payload that is to be sent.
    #[cold]
    pub(super) fn emit_extra(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        packet: &mut [u8],
    ) -> Option<usize> {
        let path = cx.table[conn].path_mut();
        if path.extra().contains(Extra::PING) {
            path.set_extra(Extra::PING, false);
            return self.emit_ping(cx, matcher, conn, packet);
        }
        if path.extra().contains(Extra::PORT_REQUEST) {
            path.set_extra(Extra::PORT_REQUEST, false);
            let request = cx.port_request(conn)?;
            return self.emit_port_request(cx, matcher, conn, request, packet);
        }
        let search = self.searches.of(conn);
        let (probe, all_sent) =
            search.map_or((None, true), |search| (search.next_probe(), search.all_sent()));
        let path = cx.table[conn].path_mut();
        if all_sent {
            path.set_extra(Extra::PROBES, false);
            let due = cx.timers.tick().plus(path.rtt().timeout(ANSWER_DOUBLINGS));
            path.set_round_end(probe.map(|_| due));
            cx.arm(conn);
        }
        let (round, size) = probe?;
        cx.stats.path_probes += 1;
        let header = self.header(cx, matcher, &cx.table[conn], PacketKind::Probe, Flags::empty());
        put_header(&header, packet)?;
        let body = ProbeBody { round: round.into(), size: size.into(), reserved: 0.into() };
        let body = body.as_bytes();
        let (into, padding) =
            packet.get_mut(HEADER_LEN..usize::from(size))?.split_at_mut_checked(body.len())?;
        into.copy_from_slice(body);
        padding.fill(0);
        Some(size.into())
    }
}

/// Records that packets of `size` bytes pass; larger ones are not known to pass.
fn resize(cx: &mut Ctx<'_>, conn: ConnSlot, size: u16) {
    let (now, era, slot) = (cx.timers.tick(), cx.era(), cx.table[conn].peer());
    let (before, full) = (cx.payload_max(slot), cx.full_size(slot));
    let peer = &mut cx.table[slot];
    peer.set_path(size, full, era);
    if usize::from(size) == before {
        return;
    }
    log::info!("peer {}: packets of {size} bytes pass, after {before}", peer.address());
    if usize::from(size) > before {
        cx.stats.path_raises += 1;
        return;
    }
    cx.stats.path_shrinks += 1;
    cx.table[conn].path_mut().resized(now);
    cx.table.make_ready(conn);
}
