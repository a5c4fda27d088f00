// SPDX-License-Identifier: MIT OR Apache-2.0
//! D. Any packet in (`docs/PROTOCOL.md` §4.2): structure, connection, token, age, plausibility;
//! then, and only then, state changes.
//!
//! In: bytes from anywhere. Out: effects of a sound packet, or a counted [`DropReason`]; never an
//! error upward. Bound: the records of the packet and the packets that it acknowledges.

use crate::engine::Engine;
use crate::engine::connect::evict::evict_connection;
use crate::engine::connect::handshake::process_handshake;
use crate::engine::connect::packet::StatelessPacket;
use crate::engine::connect::reset::process_reset;
use crate::engine::connect::teardown::end_connection;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::receive::admit::sack_of;
use crate::engine::receive::fast_path::{ingest_predicted, ingest_predicted_ack};
use crate::engine::receive::pieces::Arrived;
use crate::engine::receive::predicted_part::PartReceiver;
use crate::engine::receive::run::IncomingRun;
use crate::engine::send::Sender;
use crate::peer::slots::ConnSlot;
use crate::peer::window::Admission;
use crate::wire::{Body, Flags, Header, Packet, PieceBody, Record, Records, WRITES_WITH_DATA_MAX};
use crate::{Datagram, DropReason, Instant, Memory, OpError, OpId, PeerAddress};

/// Packets that an engine receives at one time. The engine is borrowed, and changes by these
/// packets only. Therefore a packet uses facts that the packet before it has found.
#[derive(Debug)]
pub struct Arrivals<'e, 's> {
    engine: &'e mut Engine<'s>,
    now: Instant,
    /// The run of the latest packet.
    run: Option<IncomingRun>,
}

impl Arrivals<'_, '_> {
    /// Processes one packet.
    // Not inlined: the loop of the caller stays small enough to be inlined itself.
    #[inline(never)]
    pub fn ingest<M: Memory>(&mut self, datagram: &Datagram<'_>, memory: &mut M) {
        let is_kept = datagram.wanted.is_keep();
        let Engine { cx, sender, matcher, target, .. } = &mut *self.engine;
        if let Some(run) = &mut self.run {
            let mut parts = PartReceiver { cx, sender, matcher, target };
            if is_kept && parts.ingest_next(datagram, run, memory) {
                return;
            }
            self.run = None;
        }
        self.engine.advance_clock(self.now);
        let Engine { cx, sender, matcher, target, .. } = &mut *self.engine;
        cx.stats.packets_received += 1;
        if is_kept
            && (ingest_predicted(cx, sender, matcher, datagram, memory)
                || ingest_predicted_ack(cx, sender, matcher, target, datagram)
                || PartReceiver { cx, sender, matcher, target }.ingest_predicted(
                    datagram,
                    &mut self.run,
                    memory,
                ))
        {
            return;
        }
        self.engine.ingest_any(datagram, memory);
    }
}

impl<'s> Engine<'s> {
    /// Begins to receive packets that were found at time `now`.
    #[inline]
    pub const fn arrivals(&mut self, now: Instant) -> Arrivals<'_, 's> {
        Arrivals { engine: self, now, run: None }
    }

    /// Processes one packet that was found at time `now`.
    #[inline]
    pub fn ingest<M: Memory>(&mut self, now: Instant, datagram: Datagram<'_>, memory: &mut M) {
        self.arrivals(now).ingest(&datagram, memory);
    }

    /// Processes one packet of an engine that [carries datagrams](Self::carries_datagrams).
    pub fn ingest_datagram<M: Memory>(&mut self, datagram: &Datagram<'_>, memory: &mut M) {
        self.matcher.receive_datagram(&mut self.cx, datagram, memory);
    }

    /// Processes one packet that may be of any kind.
    pub(crate) fn ingest_any<M: Memory>(&mut self, datagram: &Datagram<'_>, memory: &mut M) {
        let checksum = self.cx.config.checksum;
        let outcome = Packet::parse(datagram.bytes, datagram.coverage, checksum)
            .and_then(|packet| self.process(&packet, datagram, memory));
        if let Err(reason) = outcome {
            self.cx.stats.count_drop(reason);
            log::trace!("packet of {} dropped: {reason}", datagram.from);
        }
    }

    fn process<M: Memory>(
        &mut self,
        packet: &Packet<'_>,
        datagram: &Datagram<'_>,
        memory: &mut M,
    ) -> Result<(), DropReason> {
        let Self { cx, sender, matcher, target, .. } = self;
        let header = packet.header;
        match &packet.body {
            Body::Handshake(handshake) => {
                process_handshake(cx, sender, matcher, header, handshake, datagram.from)
            }
            Body::Reset => process_reset(cx, sender, matcher, header, datagram.from),
            body => {
                let conn = match cx.admit(header, body, datagram.from) {
                    Ok(conn) => conn,
                    Err(DropReason::NoRoom) => {
                        admit_again(cx, sender, matcher, packet, datagram.from)?
                    }
                    Err(reason) => return Err(reason),
                };
                if matches!(body, Body::Close) && !cx.has_exact_numbers(conn, header) {
                    return cx.challenge(conn);
                }
                let is_latest = cx.record_arrival(conn, header, datagram.congestion_experienced);
                if is_latest && !datagram.wanted.is_keep() {
                    // A request about a request would cause another one, without end.
                    let judged = matches!(body, Body::Data(_) | Body::Piece(..) | Body::Ack(..));
                    cx.arrived_by_other_queue(conn, header, datagram, judged);
                }
                if let Body::Ack(ack, _) = body
                    && let Some(echo) = cx.measure(conn, header, ack)
                    && cx.table[conn].path().timeouts() > 0
                {
                    sender.probe_arrived(cx, conn, echo);
                }
                let sack = sack_of(header, body);
                sender.acknowledge(cx, matcher, conn, header, is_latest, sack);
                target.count_reads(cx, sender);
                if sender.is_contradicted(cx, conn) {
                    self.reset(conn, header);
                    return Err(DropReason::ContradictoryAck);
                }
                let outcome = match body {
                    Body::Data(records) => self.process_data(conn, header, records, memory),
                    Body::Close => {
                        let peer = cx.table[conn].peer();
                        end_connection(cx, sender, matcher, peer, OpError::Closed);
                        return Ok(());
                    }
                    Body::Ping => {
                        cx.owe_ack_now(conn);
                        Ok(())
                    }
                    Body::Piece(piece, bytes) => {
                        self.process_piece(conn, header, (piece, bytes), memory)
                    }
                    Body::Probe(probe) => {
                        cx.acknowledge_probe(conn, probe);
                        Ok(())
                    }
                    Body::PortRequest(request) => {
                        cx.follow_port_request(conn, request);
                        Ok(())
                    }
                    Body::ProbeAck(ack) => sender.process_probe_ack(cx, conn, ack),
                    _ => Ok(()),
                };
                self.sender.after_packet(&mut self.cx, conn);
                outcome
            }
        }
    }

    fn process_data<M: Memory>(
        &mut self,
        conn: ConnSlot,
        header: &Header,
        records: &Records<'_>,
        memory: &mut M,
    ) -> Result<(), DropReason> {
        let Self { cx, target, .. } = self;
        let (psn, flags) = (header.psn(), header.flags());
        let is_next =
            flags.contains(Flags::BARRIER) || (cx.config.rma_events && records.endings > 0);
        let window = &cx.table[conn].rx().receive_window();
        let out_of_order = psn != window.next();
        let host = || cx.table.sharing_host(conn);
        let refusal = match window.admission(&cx.bits, psn, host) {
            Admission::Duplicate => Some(DropReason::Duplicate),
            Admission::Beyond => Some(DropReason::BeyondWindow),
            Admission::Fresh
                if out_of_order && (is_next || target.finds_error(cx, conn, records)) =>
            {
                Some(DropReason::BehindBarrier)
            }
            Admission::Fresh => self.lacks_room(conn, records, out_of_order),
        };
        if let Some(reason) = refusal {
            return Err(self.cx.drop_data(conn, psn, reason));
        }
        let mut records = records.clone();
        self.matcher.begin_searches();
        // bound: records of the packet
        loop {
            let Self { cx, matcher, .. } = self;
            if records.starts_with_message() && header.is_understood() {
                for tagged in [true, false] {
                    matcher.receive_run(cx, conn, (header.rnr_epoch, tagged), &mut records, memory);
                }
                if records.starts_with_message() {
                    matcher.accept_run(cx, conn, header.rnr_epoch, &mut records, memory);
                }
            }
            let Some(record) = records.next() else { break };
            if records.messages {
                if let Err(reason) =
                    matcher.accept_record(cx, conn, header.rnr_epoch, &record, memory)
                {
                    return Err(self.refuse_record(conn, header, reason));
                }
                continue;
            }
            self.process_record(conn, header, &record, memory)?;
            if !self.cx.table.is_open(conn) {
                // The record has ended the connection.
                return Ok(());
            }
        }
        let Self { cx, matcher, .. } = self;
        let now = cx.timers.tick();
        let host = if out_of_order { cx.table.sharing_host(conn) } else { None };
        let state = &mut cx.table[conn];
        state.rx_mut().packet_processed(&mut cx.bits, psn, host);
        let at_once = flags.contains(Flags::ACK_REQUEST) || state.rx().is_not_ready();
        state.rx_mut().owe_ack(now, at_once);
        state.return_credits();
        let ack_now = state.rx().ack_due_now();
        let has_events = !state.pending_events().is_empty();
        if ack_now {
            cx.table.make_ready(conn);
        }
        if has_events {
            matcher.deliver_events(cx, conn);
        }
        matcher.count_packet();
        Ok(())
    }

    /// Keeps a piece of a data packet; the last one to come brings the packet.
    #[cold]
    fn process_piece<M: Memory>(
        &mut self,
        conn: ConnSlot,
        header: &Header,
        (piece, bytes): (&PieceBody, &[u8]),
        memory: &mut M,
    ) -> Result<(), DropReason> {
        let Self { cx, .. } = self;
        let psn = header.psn();
        let peer = cx.table[conn].peer();
        let host = || cx.table.sharing_host(conn);
        match cx.table[conn].rx().receive_window().admission(&cx.bits, psn, host) {
            Admission::Duplicate => return Err(cx.drop_data(conn, psn, DropReason::Duplicate)),
            Admission::Beyond => return Err(cx.drop_data(conn, psn, DropReason::BeyondWindow)),
            Admission::Fresh => {}
        }
        let name = (cx.table.peer_id(peer), cx.table[peer].epoch(), psn);
        let (now, host) = (cx.timers.now(), cx.table.sharing_host(conn));
        // The body stays where it is while its records are processed.
        let mut pieces = core::mem::take(&mut self.pieces);
        let outcome = match pieces.arrive(now, (name, host), piece, bytes) {
            Arrived::Part => Ok(()),
            Arrived::NoRoom => {
                cx.excuse(conn, psn, DropReason::PieceWithoutRoom);
                Err(DropReason::PieceWithoutRoom)
            }
            Arrived::Late => Err(DropReason::PieceWithoutRoom),
            Arrived::Whole(body) => match Records::check(body) {
                Ok(records) => self.process_data(conn, header, &records, memory),
                Err(_) => Err(DropReason::MalformedPieces),
            },
        };
        self.pieces = pieces;
        outcome
    }

    /// The reason why the records of a packet cannot be processed all together now. Every request
    /// needs a slot for its response, and all CQ data of remote writes a slot for its event. An
    /// out-of-order packet leaves as many event slots as a packet in order can need. The events of
    /// a packet in order are delivered at once, those of the other one later.
    #[inline]
    fn lacks_room(
        &mut self,
        conn: ConnSlot,
        records: &Records<'_>,
        out_of_order: bool,
    ) -> Option<DropReason> {
        let events = u32::from(records.events);
        if events > 0 && self.lacks_event_slots(conn, events, out_of_order) {
            return Some(DropReason::NoEvent);
        }
        // The last test: slots are lent to packets that are processed.
        let Self { cx, sender, .. } = self;
        if records.requests > 0 && !sender.grant(cx, conn, records.requests.into()) {
            return Some(DropReason::NoResponder);
        }
        None
    }

    /// Whether the events of a packet find too few slots.
    fn lacks_event_slots(&mut self, conn: ConnSlot, events: u32, out_of_order: bool) -> bool {
        let Self { cx, matcher, .. } = self;
        let reserve = if out_of_order { WRITES_WITH_DATA_MAX as u32 } else { 0 };
        let (peer, links) = (cx.table.peer_of(conn), cx.completions.link_slots());
        let (left, free) = (matcher.events_left(&cx.completions, peer), matcher.free_events());
        let is_kept = !out_of_order || links.may_keep_back(peer, events + reserve);
        // The share of a host holds for packets out of order: the others are read in the end.
        let host = if out_of_order { cx.table.sharing_host(conn) } else { None };
        events + reserve > left || !is_kept || !cx.completions.has_event_share(host, free)
    }

    /// Refuses a record of a message: its packet comes again, or the connection ends.
    #[cold]
    fn refuse_record(&mut self, conn: ConnSlot, header: &Header, reason: DropReason) -> DropReason {
        if reason == DropReason::Overlap {
            self.reset(conn, header);
        } else {
            self.cx.drop_data(conn, header.psn(), reason);
        }
        reason
    }

    /// Processes a record that is not part of a message.
    fn process_record<M: Memory>(
        &mut self,
        conn: ConnSlot,
        header: &Header,
        record: &Record<'_>,
        memory: &mut M,
    ) -> Result<(), DropReason> {
        let Self { cx, sender, matcher, target, .. } = self;
        match record {
            Record::Write(write) => match target.serve_write(cx, conn, header, write, memory) {
                Ok(()) if write.data.is_some() => {
                    matcher.queue_event(cx, conn, header.psn(), write);
                }
                Ok(()) => {}
                Err(error) => self.report_error(conn, header, (write.op, error)),
            },
            Record::ReadRequest(request) => target.serve_read(cx, sender, conn, request),
            Record::AtomicRequest(request) => {
                if let Err(error) = target.serve_atomic(cx, sender, conn, request, memory) {
                    self.report_error(conn, header, (request.op_id, error));
                }
            }
            Record::Response(response) => {
                let psn = header.psn();
                if let Err(reason) =
                    sender.process_response(cx, matcher, conn, psn, response, memory)
                {
                    self.reset(conn, header);
                    return Err(reason);
                }
            }
            Record::Fin(fin) => sender.process_fin(cx, matcher, conn, fin),
            Record::Error(error) => sender.process_error(cx, matcher, conn, error),
            Record::Message(_) | Record::Segment(_) | Record::Rts(_) => {}
        }
        Ok(())
    }

    /// Reports to a peer that its operation failed; resets the connection if there is no slot for
    /// the report.
    fn report_error(&mut self, conn: ConnSlot, header: &Header, failure: (OpId, OpError)) {
        if !self.sender.report_error(&mut self.cx, conn, header, failure) {
            self.reset(conn, header);
        }
    }

    /// Resets a connection, as the answer to a packet with `header`.
    fn reset(&mut self, conn: ConnSlot, header: &Header) {
        let Self { cx, sender, matcher, .. } = self;
        let peer = cx.table[conn].peer();
        let to = cx.table[peer].address();
        cx.table.queue_stateless(StatelessPacket::reset(header, to));
        end_connection(cx, sender, matcher, peer, OpError::Reset);
    }
}

/// Admits a packet of a connection that rested, after its host had no room for it.
#[cold]
fn admit_again(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    packet: &Packet<'_>,
    from: PeerAddress,
) -> Result<ConnSlot, DropReason> {
    let peer = cx.table.peer_slot(packet.header.dst_cid()).ok_or(DropReason::NoRoom)?;
    evict_connection(cx, sender, matcher, peer);
    cx.admit(packet.header, &packet.body, from)
}
