// SPDX-License-Identifier: MIT OR Apache-2.0
//! Application memory: the only reads and writes of the buffers that operations name.
//!
//! What comes in: at post, a [`Buffer`] (up to [`IOV_MAX`] segments) for an operation's slot;
//! later, the engine's word which bytes to copy. What goes out: bytes into packets, and packets'
//! bytes into buffers. The engine calls this through `core::Memory`, under the endpoint's lock.
//!
//! Never is a reference formed to application memory, which the application may read at any time:
//! all copies are raw. Whatever offset the engine gives, a copy is cut to the buffer's segments.
//!
//! Bounds: one `Buffer` for each send slot, receive slot and message in a buffer for many,
//! [`INJECT_MAX`] bytes for each send slot, the engine's arena for unexpected messages and one for
//! what atomics found, all allocated at enable and touched only when used; and one `Buffer` for
//! each region, when it is registered.
#![allow(unsafe_code)]

mod atomic;
mod buffer;
#[cfg(test)]
mod tests;

use ofi_xdp_core::{
    Arrival, AtomicAccess, Config, Engine, Gather, Memory, OpId, Placement, RecvId, RecvRequest,
    RegionId, Source, Target, UnexpectedId,
};

use crate::errno::Error;
use crate::srx::{PartEnd, SharedSource};

use buffer::Outgoing;
pub(crate) use buffer::{Buffer, INJECT_MAX, IOV_MAX};

/// The buffers of one endpoint's operations.
pub(crate) struct AppMemory {
    /// By slot of [`OpId`].
    sends: Vec<Buffer>,
    /// By slot of [`RecvId`].
    recvs: Vec<Buffer>,
    /// [`INJECT_MAX`] bytes for each send slot.
    injected: Vec<u8>,
    /// What the next atomic operation sends: at most [`INJECT_MAX`] bytes.
    staging: Vec<u8>,
    /// Messages that no receive has matched yet.
    unexpected: Vec<u8>,
    /// What fetching atomics of peers found.
    former: Vec<u8>,
    /// By slot of [`RegionId`].
    regions: Vec<Buffer>,
    /// Says where in `unexpected` a message lies.
    config: Config,
    /// Where receives come from that endpoints share.
    shared: Option<SharedSource>,
}

impl AppMemory {
    /// Room for an engine with this configuration.
    ///
    /// # Errors
    /// [`Error::NoMemory`] when the address space is out; pages are taken when they are touched.
    pub(crate) fn new(config: &Config, shared: Option<SharedSource>) -> Result<Self, Error> {
        let sends = usize::try_from(config.sends).map_err(|_| Error::NoMemory)?;
        let recvs = config.recvs.saturating_add(config.parts);
        let recvs = usize::try_from(recvs).map_err(|_| Error::NoMemory)?;
        let unexpected = usize::try_from(config.unexpected_bytes()).map_err(|_| Error::NoMemory)?;
        let former = usize::try_from(config.former_bytes()).map_err(|_| Error::NoMemory)?;
        let injected = sends.checked_mul(INJECT_MAX).ok_or(Error::NoMemory)?;
        Ok(Self {
            sends: vec![Buffer::EMPTY; sends],
            recvs: vec![Buffer::EMPTY; recvs],
            injected: vec![0; injected],
            staging: Vec::with_capacity(INJECT_MAX),
            unexpected: vec![0; unexpected],
            former: vec![0; former],
            regions: Vec::new(),
            config: config.clone(),
            shared,
        })
    }

    /// Copies what an atomic operation sends, and with it what it compares, for the post that
    /// follows. The buffer is for what comes back.
    ///
    /// # Errors
    /// [`Error::TooLong`] beyond [`INJECT_MAX`] bytes in all.
    pub(crate) fn stage(&mut self, parts: [&Buffer; 2], back: Buffer) -> Result<Buffer, Error> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        if total > INJECT_MAX {
            return Err(Error::TooLong);
        }
        // Within the capacity.
        self.staging.resize(total, 0);
        let mut done = 0;
        for part in parts {
            let Some(to) = self.staging.get_mut(done..) else { break };
            // SAFETY: the application's memory may be read until the posting call returns
            // (fi_atomic(3)), and that call is under way; `to` is memory of ours.
            done += unsafe { part.read(0, to) };
        }
        let total = u16::try_from(total).map_err(|_| Error::TooLong)?;
        let mut staged = back;
        staged.outgoing = Outgoing::Staged(total);
        Ok(staged)
    }

    /// From now on `region` is this memory.
    pub(crate) fn attach_region(&mut self, region: RegionId, buffer: Buffer) {
        let slot = region.slot() as usize;
        if self.regions.len() <= slot {
            self.regions.resize(slot + 1, Buffer::EMPTY);
        }
        if let Some(place) = self.regions.get_mut(slot) {
            *place = buffer;
        }
    }

    /// `region` is no memory any more.
    pub(crate) fn detach_region(&mut self, region: RegionId) {
        if let Some(place) = self.regions.get_mut(region.slot() as usize) {
            *place = Buffer::EMPTY;
        }
    }

    /// The copy that belongs to an operation's slot.
    fn copy_of(&mut self, op: OpId) -> Option<&mut [u8]> {
        let start = op.slot() as usize * INJECT_MAX;
        self.injected.get_mut(start..start + INJECT_MAX)
    }

    /// The kept bytes of what a fetching atomic found.
    fn former(&mut self, id: OpId) -> Option<&mut [u8]> {
        let (offset, len) = self.config.former_range(id)?;
        let (start, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        self.former.get_mut(start..start.checked_add(len)?)
    }

    /// Whether receives come from a shared context.
    #[inline]
    pub(crate) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Gives stored messages the receives of the shared context that are new to them; whether any
    /// fitted.
    pub(crate) fn offer_shared(&mut self, engine: &mut Engine<'_>) -> bool {
        let Some(mut source) = self.shared.take() else { return false };
        let fitted = source.offer(engine, self);
        self.shared = Some(source);
        fitted
    }

    /// Tells of buffers of the shared context that have ended where nobody could tell.
    pub(crate) fn tell_shared(&self, engine: &mut Engine<'_>) {
        if let Some(source) = &self.shared {
            source.tell(engine);
        }
    }

    /// The message in `part` has ended: what that means for the buffer that it shares with others,
    /// if there is one.
    pub(crate) fn finish_shared(&mut self, part: RecvId) -> Option<PartEnd> {
        let source = self.shared.as_ref()?;
        let buffer = self.recvs.get_mut(part.slot() as usize)?;
        let Outgoing::Part(slot) = buffer.outgoing else { return None };
        buffer.outgoing = Outgoing::Lent;
        Some(source.finish(slot))
    }

    /// Takes no more receives from the shared context. What it has of buffers for many messages
    /// goes on, until [`Self::end_shared`] is told so with what this returns.
    pub(crate) const fn leave_shared(&mut self) -> Option<SharedSource> {
        self.shared.take()
    }

    /// What it has of buffers for many messages has ended: nothing is written there any more.
    pub(crate) fn end_shared(&mut self, source: &SharedSource) {
        for buffer in &mut self.recvs {
            if let Outgoing::Part(slot) = buffer.outgoing {
                buffer.outgoing = Outgoing::Lent;
                source.abandon(slot);
            }
        }
    }

    /// Where the bytes of a receive begin.
    pub(crate) fn place_of(&self, recv: RecvId) -> usize {
        let buffer = self.recvs.get(recv.slot() as usize);
        buffer.map_or(0, |buffer| buffer.base().expose_provenance())
    }

    /// The application's memory that packets are filled from, if it is in there.
    #[inline]
    fn lent(&self, source: Source) -> Option<&Buffer> {
        match source {
            Source::Op(op) => self
                .sends
                .get(op.slot() as usize)
                .filter(|buffer| !matches!(buffer.outgoing, Outgoing::Staged(_))),
            Source::Region(region) => self.regions.get(region.slot() as usize),
            Source::Former(_) => None,
        }
    }

    /// Bytes of ours that packets are filled from.
    fn kept(&mut self, source: Source) -> Option<&[u8]> {
        match source {
            Source::Op(op) => {
                let Outgoing::Staged(len) = self.sends.get(op.slot() as usize)?.outgoing else {
                    return None;
                };
                self.copy_of(op)?.get(..usize::from(len))
            }
            Source::Region(_) => None,
            Source::Former(op) => self.former(op).map(|bytes| &*bytes),
        }
    }

    /// Keeps bytes of a message that no receive has matched.
    fn store(&mut self, id: UnexpectedId, offset: u64, bytes: &[u8]) {
        let range = self.stored(id);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let stored = self.unexpected.get_mut(range).and_then(|it| it.get_mut(offset..));
        for (to, &from) in stored.unwrap_or_default().iter_mut().zip(bytes) {
            *to = from;
        }
    }

    /// The stored bytes of an unexpected message.
    fn stored(&self, id: UnexpectedId) -> std::ops::Range<usize> {
        let (offset, capacity) = self.config.unexpected_range(id);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.unexpected.len());
        let end = usize::try_from(offset.saturating_add(capacity)).unwrap_or(usize::MAX);
        start..end.min(self.unexpected.len())
    }
}

impl Memory for AppMemory {
    type Buffer = Buffer;

    #[inline]
    fn attach_op(&mut self, op: OpId, buffer: Buffer) {
        let attached = match buffer.outgoing {
            Outgoing::Lent | Outgoing::Part(_) => buffer,
            Outgoing::Inject => {
                let copy = self.copy_of(op).and_then(|copy| copy.get_mut(..buffer.len()));
                let Some(copy) = copy else { return };
                // SAFETY: the application's memory may be read until the posting call returns
                // (fi_msg(3), `fi_inject`), and that call is under way; the copy is memory of ours.
                let len = unsafe { buffer.read(0, copy) };
                Buffer::one(copy.as_mut_ptr(), len)
            }
            Outgoing::Staged(_) => {
                let staged = std::mem::take(&mut self.staging);
                if let Some(copy) = self.copy_of(op) {
                    copy.iter_mut().zip(&staged).for_each(|(to, &from)| *to = from);
                }
                self.staging = staged;
                buffer
            }
        };
        if let Some(place) = self.sends.get_mut(op.slot() as usize) {
            *place = attached;
        }
    }

    fn attach_recv(&mut self, recv: RecvId, buffer: Buffer) {
        if let Some(place) = self.recvs.get_mut(recv.slot() as usize) {
            *place = buffer;
        }
    }

    fn attach_part(&mut self, part: RecvId, of: RecvId, offset: u64) {
        if let Some(whole) = self.recvs.get(of.slot() as usize) {
            let rest = whole.from(offset);
            self.attach_recv(part, rest);
        }
    }

    #[inline]
    fn supply(&mut self, arrival: &Arrival) -> Option<(RecvRequest, Buffer)> {
        self.shared.as_mut()?.supply(arrival)
    }

    fn gather(&mut self, from: Gather, into: &mut [u8]) {
        let done = if let Some(buffer) = self.lent(from.source) {
            // SAFETY: the application's memory may be read until the operation's completion is read
            // (fi_msg(3)), and registered memory until the region is closed (fi_mr(3)); the engine
            // asks only for operations that have not completed, and for regions that are
            // registered. `injected` lives as long as `self` and never moves. `into` is a packet of
            // the port's.
            let done = unsafe { buffer.read(from.offset, into) };
            if from.more {
                buffer.fetch(from.offset.saturating_add(done as u64), done);
            }
            done
        } else {
            copy_from(self.kept(from.source), from.offset, into)
        };
        if done < into.len()
            && let Some(missing) = into.get_mut(done..)
        {
            missing.fill(0);
        }
    }

    fn place(&mut self, at: Placement, bytes: &[u8]) {
        let buffer = match at.target {
            Target::Recv(recv) => self.recvs.get(recv.slot() as usize),
            Target::Op(op) => self.sends.get(op.slot() as usize),
            Target::Region(region) => self.regions.get(region.slot() as usize),
            Target::Unexpected(id) => return self.store(id, at.offset, bytes),
        };
        let Some(buffer) = buffer else { return };
        // SAFETY: the application's memory may be written until the completion is read of the
        // receive (fi_msg(3)), or of the read or fetching atomic (fi_rma(3)), and registered memory
        // until the region is closed (fi_mr(3)); the engine places only into operations that have
        // not completed, and into regions that are registered for that. `bytes` is a packet of the
        // port's.
        unsafe { buffer.write(at.offset, bytes) };
        if at.more {
            buffer.fetch(at.offset.saturating_add(bytes.len() as u64), bytes.len());
        }
    }

    fn deliver(&mut self, from: UnexpectedId, to: RecvId, len: u64) {
        let Some(stored) = self.unexpected.get(self.stored(from)) else { return };
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(stored.len());
        let (Some(bytes), Some(buffer)) = (stored.get(..len), self.recvs.get(to.slot() as usize))
        else {
            return;
        };
        // SAFETY: as for a placement into a receive; `bytes` is memory of ours.
        unsafe { buffer.write(0, bytes) };
    }

    fn atomic(&mut self, access: AtomicAccess<'_>) {
        let region = self.regions.get(access.region.slot() as usize).copied();
        let Some(buffer) = region else { return };
        let former = access.former.and_then(|id| self.former(id)).unwrap_or_default();
        let size = access.datatype.size();
        let mut offset = access.offset;
        for index in 0..access.len / size {
            let at = index * size;
            let step = atomic::Step {
                datatype: access.datatype,
                op: access.op,
                operand: access.operands.get(at..at + size).unwrap_or_default(),
                compare: access.compare.get(at..at + size).unwrap_or_default(),
            };
            let found = buffer.element(offset, size, &step);
            if let Some(kept) = former.get_mut(at..at + size) {
                kept.copy_from_slice(&found[..size]);
            }
            offset += size as u64;
        }
    }
}

/// Copies from `bytes` at `offset`; returns how many there were.
fn copy_from(bytes: Option<&[u8]>, offset: u64, into: &mut [u8]) -> usize {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let from = bytes.and_then(|bytes| bytes.get(start..)).unwrap_or_default();
    into.iter_mut().zip(from).for_each(|(to, &from)| *to = from);
    into.len().min(from.len())
}

impl std::fmt::Debug for AppMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppMemory").field("sends", &self.sends.len()).finish_non_exhaustive()
    }
}
