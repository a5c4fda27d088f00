// SPDX-License-Identifier: MIT OR Apache-2.0
//! What peers do to this side's memory: writes, reads, atomics (`docs/PROTOCOL.md` §7, §8).
//!
//! In: records of packets that were admitted once, with a slot for every response. Out: bytes
//! placed, atomics executed, responses queued; and of what was in error, the error. Nothing here is
//! refused: what a packet asks for is done when the packet is marked as received. Bound: the
//! record.

use super::{Engine, answer::Answer};
use crate::operation::{EVENTS, RESPONSES, RecvKind, RecvOp, Supply, TxKind, TxOp};
use crate::peer::Errors;
use crate::region::Access;
use crate::serial::Psn;
use crate::slab::{List, NIL};
use crate::wire::{
    AtomicRequestRecord, Envelope, ErrorCode, HEADER_LEN, Header, ReadRequestRecord, Record,
    Records, TAG_RESERVE, WriteRecord, atomic_response_len,
};
use crate::{
    AtomicAccess, AtomicOp, Context, Datatype, Memory, OpError, OpId, Placement, RecvRequest,
    RegionId, Remote, Target,
};

/// The most requests that one peer is allowed at once.
const CREDIT_MAX: u8 = 16;
/// The most error records to one peer that are not acknowledged; far below what their 8-bit count
/// can tell apart.
const ERRORS_OPEN_MAX: u8 = 64;

/// What an atomic operation is to do, with how many bytes, and where: region and offset.
type ResolvedAtomic = Result<(Datatype, AtomicOp, usize, (RegionId, u64)), OpError>;

impl Engine<'_> {
    /// Bytes for a region.
    pub(super) fn serve_write<M: Memory>(
        &mut self,
        active: u32,
        header: &Header,
        write: &WriteRecord<'_>,
        memory: &mut M,
    ) {
        let len = write.payload.len() as u64;
        match self.resolve(&write.remote, write.payload.len(), Access::WRITE) {
            Ok((region, offset)) => {
                if len > 0 {
                    self.stats.bytes_placed += len;
                    let target = Target::Region(region);
                    let at = Placement { target, offset, more: !write.last };
                    memory.place(at, write.payload);
                }
                if write.last && !self.is_of_failed(active, header, write.op) {
                    self.tally.served.writes += 1;
                    self.regions.served(region).writes += 1;
                }
                if let Some(data) = write.data {
                    self.hold_event(active, header.psn(), write.op, data, write.before + len);
                }
            }
            Err(error) => self.serve_error(active, header, write.op, error),
        }
    }

    /// Remote CQ data has come: it is told when everything before its packet has arrived.
    fn hold_event(&mut self, active: u32, psn: Psn, op: OpId, data: u64, len: u64) {
        let peer = self.peer_id(self.actives[active].peer);
        let request = RecvRequest {
            from: None,
            len: 0,
            context: Context(u64::from(op.bits())),
            tag: None,
            signal: true,
        };
        let envelope = Envelope { data: Some(data), total: len, ..Envelope::default() };
        let kind = RecvKind::Event;
        let event = RecvOp { request, kind, peer, envelope, psn, ..RecvOp::default() };
        // There is room: `lacks_room` has looked.
        let Some(number) = self.recvs.alloc_in(EVENTS, event) else { return };
        // From the last one on: packets mostly come in order.
        let (mut before, mut last) = (NIL, self.actives[active].held.tail());
        // bound: events of one window
        while last != NIL && psn.is_before(self.recvs[last].psn) {
            (before, last) = (last, List::prev(&mut self.recvs, last));
        }
        self.actives[active].held.insert_before(&mut self.recvs, number, before);
    }

    /// Tells the remote CQ data that waited for packets before its own. Bound: events of one
    /// window.
    pub(super) fn tell_held(&mut self, active: u32) {
        loop {
            let state = &mut self.actives[active];
            let number = state.held.head();
            if number == NIL {
                return;
            }
            if !self.recvs[number].psn.is_before(state.window.next()) {
                self.stats.events_held += 1;
                return;
            }
            state.held.remove(&mut self.recvs, number);
            let op = &mut self.recvs[number];
            let of_failed = op.request.context.0 == u64::from(state.errors.last);
            op.request.context = Context(0);
            if of_failed {
                // Another part of the same write was refused.
                self.recvs.release(number);
            } else {
                self.finish_recv(number);
            }
        }
    }

    /// A request for bytes of a region, or of a message that was announced.
    pub(super) fn serve_read(&mut self, active: u32, request: &ReadRequestRecord) {
        let (len, remote) = (u64::from(request.len), request.remote);
        let supply = if request.pull {
            self.announced(active, remote.key)
                .filter(|&number| {
                    let end = remote.address.checked_add(len);
                    end.is_some_and(|end| end <= self.ops[number].total)
                })
                .map(|number| Supply::Message(self.op_id(number), remote.address))
                .ok_or(OpError::Key)
        } else {
            let found = self.regions.resolve(remote.key, remote.address, len, Access::READ);
            found.map(|(region, offset)| {
                self.tally.served.reads += u64::from(request.last);
                self.regions.served(region).reads += u64::from(request.last);
                Supply::Region(region, offset)
            })
        };
        match supply {
            Ok(supply) => self.respond(active, request.op, supply, request.offset, len),
            Err(error) => {
                self.respond(active, request.op, Supply::Nothing(error.into()), request.offset, 0);
            }
        }
    }

    /// An atomic operation: executed now, once, because its packet is marked once.
    pub(super) fn serve_atomic<M: Memory>(
        &mut self,
        active: u32,
        header: &Header,
        request: &AtomicRequestRecord<'_>,
        memory: &mut M,
    ) {
        let id = request.op_id;
        let (datatype, op, len, (region, offset)) = match self.resolve_atomic(active, request) {
            Ok(resolved) => resolved,
            Err(error) if request.fetch => {
                return self.respond(active, id, Supply::Nothing(error.into()), 0, 0);
            }
            Err(error) => return self.serve_error(active, header, id, error),
        };
        let former = if request.fetch {
            let Some(number) = self.new_response(active, id, Supply::Former, 0, len as u64) else {
                return;
            };
            Some(number)
        } else {
            None
        };
        let compares = op.compares();
        let operands = if compares { request.payload.get(..len) } else { Some(request.payload) };
        let compare = if compares { request.payload.get(len..) } else { Some(&[][..]) };
        memory.atomic(AtomicAccess {
            region,
            offset,
            datatype,
            op,
            operands: operands.unwrap_or_default(),
            compare: compare.unwrap_or_default(),
            len,
            former: former.map(|number| self.op_id(number)),
        });
        self.stats.atomics_executed += 1;
        let (fetches, changes) = (u64::from(request.fetch), u64::from(!request.fetch));
        let updates = u64::from(request.fetch && op != AtomicOp::Read);
        for served in [&mut self.tally.served, self.regions.served(region)] {
            served.reads += fetches;
            served.writes += changes;
            served.updates += updates;
        }
        if let Some(number) = former {
            self.queue_own(active, number);
        }
    }

    /// What an atomic operation is to do, and where.
    fn resolve_atomic(&self, active: u32, request: &AtomicRequestRecord<'_>) -> ResolvedAtomic {
        let (datatype, op, len) = request.checked().ok_or(OpError::Unsupported)?;
        let room = self.payload_max(self.actives[active].peer);
        if request.fetch && HEADER_LEN + atomic_response_len(len) + TAG_RESERVE > room {
            return Err(OpError::Unsupported);
        }
        let read = if request.fetch { Access::READ } else { Access::empty() };
        let write = if op == AtomicOp::Read { Access::empty() } else { Access::WRITE };
        let at = self.resolve(&request.remote, len, read | write)?;
        Ok((datatype, op, len, at))
    }

    /// Where `len` bytes of a peer's write or atomic operation go.
    #[inline]
    fn resolve(
        &self,
        remote: &Remote,
        len: usize,
        access: Access,
    ) -> Result<(RegionId, u64), OpError> {
        self.regions.resolve(remote.key, remote.address, len as u64, access)
    }

    /// Whether taking in these records would make an error record. Those are made in the order of
    /// packets, which is that of operations: when one is in error, all parts of those before it
    /// have come, and one name is all that is to be remembered ([`Errors::last`]).
    pub(super) fn finds_error(&self, active: u32, records: &Records<'_>) -> bool {
        // bound: records of the packet
        !records.messages
            && records.clone().any(|record| match record {
                Record::Write(write) => {
                    self.resolve(&write.remote, write.payload.len(), Access::WRITE).is_err()
                }
                Record::AtomicRequest(request) => {
                    !request.fetch && self.resolve_atomic(active, &request).is_err()
                }
                _ => false,
            })
    }

    /// Queues a response; there is a slot for it.
    fn respond(&mut self, active: u32, request: OpId, supply: Supply, offset: u64, len: u64) {
        if let Some(number) = self.new_response(active, request, supply, offset, len) {
            self.queue_own(active, number);
        }
    }

    fn new_response(
        &mut self,
        active: u32,
        request: OpId,
        supply: Supply,
        offset: u64,
        len: u64,
    ) -> Option<u32> {
        let peer = self.peer_id(self.actives[active].peer);
        let kind = TxKind::Response { request, supply, offset };
        let op = TxOp { peer, kind, total: len, ..TxOp::default() };
        let number = self.ops.alloc_in(RESPONSES, op);
        debug_assert!(number.is_some(), "slots are kept for every request that is granted");
        self.actives[active].credits.serving += 1;
        number
    }

    /// Whether `requests` more of this peer can be served, and a larger allowance from now on where
    /// slots are free.
    pub(super) fn grant(&mut self, active: u32, requests: u32) -> bool {
        // Some are for errors, which must not be refused for the sake of speed.
        let free = self.responders_spare.saturating_sub(self.errors_reserve());
        let credits = &mut self.actives[active].credits;
        let more = u32::from(CREDIT_MAX.saturating_sub(credits.granted)).min(free);
        if more > 0 {
            credits.granted += more as u8;
            self.responders_spare -= more;
            self.owe_ack_now(active);
        }
        let credits = &self.actives[active].credits;
        requests + u32::from(credits.serving) <= u32::from(credits.granted)
    }

    /// Slots that are not granted to requests: a quarter of those beyond one for each active peer.
    fn errors_reserve(&self) -> u32 {
        (self.config.responders - self.config.active_peers) / 4
    }

    /// Whether a part of `op`, in a packet that is being taken in, is one of the operation that was
    /// in error last. Its name is another's after some thousand operations, so it is forgotten when
    /// all of it has come.
    #[inline]
    fn is_of_failed(&mut self, active: u32, header: &Header, op: OpId) -> bool {
        let state = &mut self.actives[active];
        if state.errors.last == Errors::NONE {
            return false;
        }
        if state.has_all_of_failed(header) {
            state.errors.last = Errors::NONE;
        }
        state.errors.last == op.bits()
    }

    /// Tells the peer that its operation `op` was in error; once for all parts of it. Where there
    /// is no slot for that, the connection fails: too many errors at once are a program gone wrong.
    fn serve_error(&mut self, active: u32, header: &Header, op: OpId, error: OpError) {
        if self.is_of_failed(active, header, op) {
            return;
        }
        let errors = self.actives[active].errors;
        let number = self.actives[active].peer;
        let peer = self.peer_id(number);
        let kind = TxKind::Error { request: op, code: ErrorCode::from(error) };
        let record = TxOp { peer, kind, ..TxOp::default() };
        let room = self.responders_spare > 0 && errors.open < ERRORS_OPEN_MAX;
        let slot = room.then(|| self.ops.alloc_in(RESPONSES, record)).flatten();
        let Some(slot) = slot else {
            let to = self.peers[number].address;
            self.answer(Answer::Reset { to, token: header.token(), psn: header.psn() });
            return self.end_connection(number, OpError::Reset);
        };
        self.responders_spare -= 1;
        let errors = &mut self.actives[active].errors;
        errors.last = op.bits();
        errors.open += 1;
        errors.issued = errors.issued.wrapping_add(1);
        self.stats.errors_sent += 1;
        self.queue_own(active, slot);
    }
}
