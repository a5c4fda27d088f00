// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses of peers to memory here: writes, reads, atomics (`docs/PROTOCOL.md` §7, §8).
//!
//! In: records of packets that were admitted once, with a slot reserved for every response. Out:
//! bytes placed, atomics executed, responses queued; or the error of the access. A valid access is
//! executed when its packet is marked as received. Bound: the record.

use crate::api::counters::TargetCounters;
use crate::engine::ctx::Ctx;
use crate::engine::rma::RmaTarget;
use crate::engine::rma::region::Access;
use crate::engine::send::Sender;
use crate::peer::operation::ResponseData;
use crate::peer::slots::ConnSlot;
use crate::wire::{
    AtomicRequestRecord, HEADER_LEN, Header, ReadRequestRecord, Record, Records, TAG_RESERVE,
    WriteRecord, atomic_response_len,
};
use crate::{
    AtomicAccess, AtomicOp, Datatype, Memory, OpError, Placement, RegionId, Remote, Target,
};

/// An atomic operation after all checks: its type, its op, its bytes, its region and offset.
type ResolvedAtomic = Result<(Datatype, AtomicOp, usize, (RegionId, u64)), OpError>;

impl RmaTarget<'_> {
    /// Writes the bytes of a record to its region.
    ///
    /// # Errors
    /// Why the access is not valid.
    pub(crate) fn serve_write<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        header: &Header,
        write: &WriteRecord<'_>,
        memory: &mut M,
    ) -> Result<(), OpError> {
        let at = self.resolve_write(write)?;
        self.place_write(cx, at, (write.payload, !write.last), memory);
        if write.last && !cx.table[conn].is_of_failed(header, write.op) {
            cx.completions.target_counters().writes += 1;
            self.regions.counters_mut(at.0).writes += 1;
        }
        Ok(())
    }

    /// The memory of a write.
    ///
    /// # Errors
    /// Why the access is not valid.
    #[inline]
    pub(crate) fn resolve_write(
        &self,
        write: &WriteRecord<'_>,
    ) -> Result<(RegionId, u64), OpError> {
        self.resolve(&write.remote, write.payload.len(), Access::WRITE)
    }

    /// How many bytes of a region that [`Self::resolve_write`] has just found are from `end` on.
    #[inline]
    pub(crate) fn room_behind(&self, region: RegionId, end: u64) -> u64 {
        self.regions.room_behind(region, end)
    }

    /// Writes the bytes of a record to the memory that [`Self::resolve_write`] has found. `more`:
    /// it is not the last one of its operation.
    #[inline]
    pub(crate) fn place_write<M: Memory>(
        &self,
        cx: &mut Ctx<'_>,
        (region, offset): (RegionId, u64),
        (payload, more): (&[u8], bool),
        memory: &mut M,
    ) {
        let len = payload.len() as u64;
        if len > 0 {
            cx.stats.bytes_placed += len;
            let target = Target::Region(region);
            memory.place(Placement { target, offset, more }, payload);
        }
    }

    /// Queues a response with the bytes of a region, or of an announced message, or with an error.
    pub(crate) fn serve_read(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        conn: ConnSlot,
        request: &ReadRequestRecord,
    ) {
        let (len, remote) = (u64::from(request.len), request.remote);
        let data = if request.rendezvous {
            sender.announced_data(cx, conn, remote, len).ok_or(OpError::Key)
        } else {
            let found = self.regions.resolve(remote.key, remote.address, len, Access::READ);
            found.map(|(region, offset)| ResponseData::Region(region, offset, request.last))
        };
        let (data, len) = match data {
            Ok(data) => (data, len),
            Err(error) => (ResponseData::Error(error.into()), 0),
        };
        sender.respond(cx, conn, request.op, (data, request.offset), len);
    }

    /// Counts the reads that the acknowledgments of a packet have ended. Bound:
    /// [`ENDED_READS_MAX`](crate::engine::send::ENDED_READS_MAX).
    #[inline]
    pub(crate) fn count_reads(&mut self, cx: &mut Ctx<'_>, sender: &mut Sender<'_>) {
        while let Some(region) = sender.take_ended_read() {
            cx.completions.target_counters().reads += 1;
            if self.is_registered(region) {
                self.regions.counters_mut(region).reads += 1;
            }
        }
    }

    /// Executes an atomic operation: once, because its packet is admitted once.
    ///
    /// # Errors
    /// Why the access is not valid, if the operation has no response.
    pub(crate) fn serve_atomic<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        conn: ConnSlot,
        request: &AtomicRequestRecord<'_>,
        memory: &mut M,
    ) -> Result<(), OpError> {
        let id = request.op_id;
        let (datatype, op, len, (region, offset)) = match self.resolve_atomic(cx, conn, request) {
            Ok(resolved) => resolved,
            Err(error) if request.fetch => {
                sender.respond(cx, conn, id, (ResponseData::Error(error.into()), 0), 0);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let previous = if request.fetch {
            let data = (ResponseData::PreviousValue, 0);
            let Some(slot) = sender.new_response(cx, conn, id, data, len as u64) else {
                return Ok(());
            };
            Some(slot)
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
            previous: previous.map(|slot| sender.op_id(slot)),
        });
        cx.stats.atomics_executed += 1;
        let updates = request.fetch && op != AtomicOp::Read;
        count_atomic(cx.completions.target_counters(), request.fetch, updates);
        count_atomic(self.regions.counters_mut(region), request.fetch, updates);
        if let Some(slot) = previous {
            sender.queue_internal(cx, conn, slot);
        }
        Ok(())
    }

    /// Checks an atomic operation, and finds its memory.
    fn resolve_atomic(
        &self,
        cx: &Ctx<'_>,
        conn: ConnSlot,
        request: &AtomicRequestRecord<'_>,
    ) -> ResolvedAtomic {
        let (datatype, op, len) = request.checked().ok_or(OpError::Unsupported)?;
        let room = cx.payload_max(cx.table[conn].peer());
        if request.fetch && HEADER_LEN + atomic_response_len(len) + TAG_RESERVE > room {
            return Err(OpError::Unsupported);
        }
        let read = if request.fetch { Access::READ } else { Access::empty() };
        let write = if op == AtomicOp::Read { Access::empty() } else { Access::WRITE };
        let at = self.resolve(&request.remote, len, read | write)?;
        Ok((datatype, op, len, at))
    }

    /// The memory of `len` bytes of a write or an atomic operation.
    #[inline]
    fn resolve(
        &self,
        remote: &Remote,
        len: usize,
        access: Access,
    ) -> Result<(RegionId, u64), OpError> {
        self.regions.resolve(remote.key, remote.address, len as u64, access)
    }

    /// Whether processing these records would create an error record. Error records are created in
    /// the order of packets, which is that of operations. When an operation fails, all parts of
    /// those before it have arrived. One name is therefore enough to remember (`Errors::last`).
    pub(crate) fn finds_error(&self, cx: &Ctx<'_>, conn: ConnSlot, records: &Records<'_>) -> bool {
        // bound: records of the packet
        !records.messages
            && records.clone().any(|record| match record {
                Record::Write(write) => self.resolve_write(&write).is_err(),
                Record::AtomicRequest(request) => {
                    !request.fetch && self.resolve_atomic(cx, conn, &request).is_err()
                }
                _ => false,
            })
    }
}

/// Counts an atomic operation that was executed.
fn count_atomic(counters: &mut TargetCounters, fetch: bool, updates: bool) {
    counters.reads += u64::from(fetch);
    counters.writes += u64::from(!fetch);
    counters.updates += u64::from(updates);
}
