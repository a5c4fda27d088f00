// SPDX-License-Identifier: MIT OR Apache-2.0
//! Application memory: the only reads and writes of the buffers of operations.
//!
//! In: at post, a [`Buffer`] of up to [`IOV_MAX`] segments for an operation's slot; later, the
//! copies that the engine describes. Out: bytes into packets, and packets' bytes into buffers. The
//! engine calls through [`Memory`], under the runtime's lock.
//!
//! All copies are raw. The application may read its memory at any time, so no reference to it is
//! ever formed. A copy is cut to the buffer's segments, whatever offset the engine gives.
//!
//! Bounds: one `Buffer` for each send slot, receive slot and slice of a multi-receive buffer;
//! [`INJECT_LEAST`] bytes for each send slot, and [`inject_max`] more for longer copies. Storage
//! for unexpected messages and for previous values of atomics comes on top. All of it is allocated
//! at enable, and its pages are touched when they are used. Each registered region has one
//! `Buffer`.
#![allow(unsafe_code)]

mod atomic;
pub(crate) mod buffer;
#[cfg(test)]
mod tests;

use ofi_xdp_core::{
    AtomicAccess, Config, Engine, Gather, Memory, OpId, Placement, RecvId, RecvRequest, RegionId,
    Source, Target, UnexpectedId, UnmatchedMessage,
};

use crate::sys::errno::Error;
use crate::sys::memory;

use super::receive_queue::SliceCompletion;
use super::receive_source::SharedSource;
pub(crate) use buffer::{Buffer, INJECT_LEAST, INJECT_MAX, IOV_MAX, inject_max};
use buffer::{BufferUse, STAGED_MAX};

/// The buffers of a runtime's operations.
pub(crate) struct AppMemory {
    /// By slot of [`OpId`].
    sends: Vec<Buffer>,
    /// By slot of [`RecvId`].
    recvs: Vec<Buffer>,
    /// [`INJECT_LEAST`] bytes for each send slot. Short copies lie close together, in few pages and
    /// in several sets of each cache.
    short_copies: Vec<u8>,
    /// [`Self::long_len`] bytes for each send slot.
    long_copies: Vec<u8>,
    /// Bytes for the long copy of a send slot; 0: there are short ones only.
    long_len: usize,
    /// The operands of the next atomic operation: at most [`STAGED_MAX`] bytes.
    staging: Vec<u8>,
    /// Storage for unexpected messages.
    unexpected: Vec<u8>,
    /// Previous values, for the responses to fetching atomics of peers.
    previous: Vec<u8>,
    /// By slot of [`RegionId`].
    regions: Vec<Buffer>,
    /// The layout of `unexpected` and `previous`.
    config: Config,
    /// The source of receives of a shared context.
    shared: Option<SharedSource>,
}

impl AppMemory {
    /// Room for an engine with this configuration.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn new(config: &Config, shared: Option<SharedSource>) -> Result<Self, Error> {
        let sends = usize::try_from(config.sends).map_err(|_| Error::NoMemory)?;
        let recvs = config.recvs.saturating_add(config.slices);
        let recvs = usize::try_from(recvs).map_err(|_| Error::NoMemory)?;
        let unexpected = usize::try_from(config.unexpected_bytes()).map_err(|_| Error::NoMemory)?;
        let previous = usize::try_from(config.previous_bytes()).map_err(|_| Error::NoMemory)?;
        let most = if config.named_peers_only { INJECT_LEAST } else { inject_max(sends) };
        let long_len = if most > INJECT_LEAST { most } else { 0 };
        let copies = |len| {
            let bytes = sends.checked_mul(len).ok_or(Error::NoMemory)?;
            memory::zeroed(bytes)
        };
        Ok(Self {
            sends: memory::filled(Buffer::EMPTY, sends)?,
            recvs: memory::filled(Buffer::EMPTY, recvs)?,
            short_copies: copies(INJECT_LEAST)?,
            long_copies: copies(long_len)?,
            long_len,
            staging: Vec::with_capacity(STAGED_MAX),
            unexpected: memory::zeroed(unexpected)?,
            previous: memory::zeroed(previous)?,
            regions: Vec::new(),
            config: config.clone(),
            shared,
        })
    }

    /// Copies the operands and comparands of an atomic operation for the post that follows. `back`
    /// is for the previous values.
    ///
    /// # Errors
    /// [`Error::TooLong`] beyond [`STAGED_MAX`] bytes in all.
    pub(crate) fn stage(&mut self, parts: [&Buffer; 2], back: Buffer) -> Result<Buffer, Error> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        if total > STAGED_MAX {
            return Err(Error::TooLong);
        }
        // Within the capacity: no allocation.
        self.staging.resize(total, 0);
        let mut done = 0;
        for part in parts {
            let Some(to) = self.staging.get_mut(done..) else { break };
            // SAFETY: the application's memory may be read until the posting call returns
            // (fi_atomic(3)), and that call is under way; `to` is the runtime's memory.
            done += unsafe { part.read(0, to) };
        }
        let total = u16::try_from(total).map_err(|_| Error::TooLong)?;
        let mut staged = back;
        staged.usage = BufferUse::Staged(total);
        Ok(staged)
    }

    /// Makes room for the memory of a region.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn reserve_region(&mut self, region: RegionId) -> Result<(), Error> {
        memory::grow(&mut self.regions, Buffer::EMPTY, region.slot() as usize + 1)
    }

    /// Sets the memory of a region, for which there is room.
    pub(crate) fn attach_region(&mut self, region: RegionId, buffer: Buffer) {
        if let Some(entry) = self.regions.get_mut(region.slot() as usize) {
            *entry = buffer;
        }
    }

    /// Removes the memory of a region.
    pub(crate) fn detach_region(&mut self, region: RegionId) {
        if let Some(entry) = self.regions.get_mut(region.slot() as usize) {
            *entry = Buffer::EMPTY;
        }
    }

    /// The place of a copy of `len` bytes for an operation's slot.
    #[inline]
    fn copy_of(&mut self, op: OpId, len: usize) -> Option<&mut [u8]> {
        let (copies, room) = if len <= INJECT_LEAST {
            (&mut self.short_copies, INJECT_LEAST)
        } else {
            (&mut self.long_copies, self.long_len)
        };
        let start = op.slot() as usize * room;
        copies.get_mut(start..start + room)?.get_mut(..len)
    }

    /// The previous values of a fetching atomic.
    fn previous(&mut self, id: OpId) -> Option<&mut [u8]> {
        let (offset, len) = self.config.previous_range(id)?;
        let (start, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        self.previous.get_mut(start..start.checked_add(len)?)
    }

    /// Whether receives come from a shared context.
    #[inline]
    pub(crate) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Offers new receives of the shared context to the stored messages; whether any matched.
    pub(crate) fn offer_shared(&mut self, engine: &mut Engine<'_>) -> bool {
        let Some(mut source) = self.shared.take() else { return false };
        let matched = source.offer(engine, self);
        self.shared = Some(source);
        matched
    }

    /// Whether the next call moves receives of the shared context, or reports ends of its buffers.
    pub(crate) fn is_shared_due(&self, engine: &Engine<'_>) -> bool {
        self.shared.as_ref().is_some_and(|source| source.is_due(engine))
    }

    /// Reports ends of buffers of the shared context that no queue has reported yet.
    pub(crate) fn report_shared(&self, engine: &mut Engine<'_>) {
        if let Some(source) = &self.shared {
            source.report(engine);
        }
    }

    /// Ends a slice of a shared multi-receive buffer at a read of its completion; `None` for other
    /// receives.
    pub(crate) fn finish_shared(&mut self, slice: RecvId) -> Option<SliceCompletion> {
        let source = self.shared.as_ref()?;
        let id = self.recvs.get_mut(slice.slot() as usize)?.end_slice()?;
        Some(source.finish(id))
    }

    /// Ends a slice of a shared multi-receive buffer without a read of its completion.
    pub(crate) fn abandon_shared(&mut self, slice: RecvId) {
        let Some(source) = &self.shared else { return };
        let buffer = self.recvs.get_mut(slice.slot() as usize);
        if let Some(id) = buffer.and_then(Buffer::end_slice) {
            source.abandon(id);
        }
    }

    /// Takes no more receives from the shared context. Slices of its multi-receive buffers stay in
    /// use until [`Self::end_shared`], which takes the returned source.
    pub(crate) const fn leave_shared(&mut self) -> Option<SharedSource> {
        self.shared.take()
    }

    /// Ends all slices of shared multi-receive buffers: no more bytes are written there.
    pub(crate) fn end_shared(&mut self, source: &SharedSource) {
        self.recvs.iter_mut().filter_map(Buffer::end_slice).for_each(|id| source.abandon(id));
    }

    /// The address of the first byte of a receive.
    pub(crate) fn address_of(&self, recv: RecvId) -> usize {
        let buffer = self.recvs.get(recv.slot() as usize);
        buffer.map_or(0, |buffer| buffer.base().expose_provenance())
    }

    /// The application's buffer with the bytes of `source`, if they are there.
    #[inline]
    fn app_buffer(&self, source: Source) -> Option<&Buffer> {
        match source {
            Source::Op(op) => self
                .sends
                .get(op.slot() as usize)
                .filter(|buffer| !matches!(buffer.usage, BufferUse::Staged(_))),
            Source::Region(region) => self.regions.get(region.slot() as usize),
            Source::PreviousValue(_) => None,
        }
    }

    /// The runtime's own copy of the bytes of `source`, if there is one.
    fn kept_bytes(&mut self, source: Source) -> Option<&[u8]> {
        match source {
            Source::Op(op) => {
                let BufferUse::Staged(len) = self.sends.get(op.slot() as usize)?.usage else {
                    return None;
                };
                self.copy_of(op, usize::from(len)).map(|copy| &*copy)
            }
            Source::Region(_) => None,
            Source::PreviousValue(op) => self.previous(op).map(|bytes| &*bytes),
        }
    }

    /// Stores bytes of an unexpected message.
    fn store(&mut self, id: UnexpectedId, offset: u64, bytes: &[u8]) {
        let range = self.stored(id);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let stored = self.unexpected.get_mut(range).and_then(|it| it.get_mut(offset..));
        for (to, &from) in stored.unwrap_or_default().iter_mut().zip(bytes) {
            *to = from;
        }
    }

    /// The storage of an unexpected message.
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
        let attached = match buffer.usage {
            BufferUse::InPlace | BufferUse::SharedSlice(_) => buffer,
            BufferUse::Injected => {
                let Some(copy) = self.copy_of(op, buffer.len()) else {
                    debug_assert!(false, "longer than the endpoint's `inject_size`");
                    return;
                };
                // SAFETY: the application's memory may be read until the posting call returns
                // (fi_msg(3), `fi_inject`), and that call is under way. The copy is the runtime's
                // memory.
                let len = unsafe { buffer.read(0, copy) };
                Buffer::one(copy.as_mut_ptr(), len)
            }
            BufferUse::Staged(_) => {
                let staged = std::mem::take(&mut self.staging);
                if let Some(copy) = self.copy_of(op, staged.len()) {
                    copy.iter_mut().zip(&staged).for_each(|(to, &from)| *to = from);
                }
                self.staging = staged;
                buffer
            }
        };
        if let Some(entry) = self.sends.get_mut(op.slot() as usize) {
            *entry = attached;
        }
    }

    fn attach_recv(&mut self, recv: RecvId, buffer: Buffer) {
        if let Some(entry) = self.recvs.get_mut(recv.slot() as usize) {
            *entry = buffer;
        }
    }

    fn attach_slice(&mut self, part: RecvId, of: RecvId, offset: u64) {
        if let Some(whole) = self.recvs.get(of.slot() as usize) {
            let rest = whole.from(offset);
            self.attach_recv(part, rest);
        }
    }

    #[inline]
    fn claim_shared_receive(
        &mut self,
        arrival: &UnmatchedMessage,
    ) -> Option<(RecvRequest, Buffer)> {
        self.shared.as_mut()?.claim_shared_receive(arrival)
    }

    fn gather(&mut self, from: Gather, into: &mut [u8]) {
        let done = if let Some(buffer) = self.app_buffer(from.source) {
            // SAFETY: the application's memory may be read until the operation's completion is read
            // (fi_msg(3)), and registered memory until the region is closed (fi_mr(3)). The engine
            // asks only for operations that have not completed, and for regions that are
            // registered. The copies live as long as `self` and never move. `into` is a buffer of
            // the port.
            let done = unsafe { buffer.read(from.offset, into) };
            if from.more {
                buffer.fetch(from.offset.saturating_add(done as u64), done);
            }
            done
        } else {
            copy_from(self.kept_bytes(from.source), from.offset, into)
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
        // SAFETY: the buffer of a receive (fi_msg(3)), of a read and of a fetching atomic
        // (fi_rma(3)) may be written until the completion is read. Registered memory may be written
        // until the region is closed (fi_mr(3)). The engine places only into operations that have
        // not completed, and into regions that are registered for that. `bytes` is a packet in the
        // port's memory.
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
        // SAFETY: the memory may be written, as for a placement into a receive; `bytes` is the
        // runtime's memory.
        unsafe { buffer.write(0, bytes) };
    }

    fn atomic(&mut self, access: AtomicAccess<'_>) {
        let region = self.regions.get(access.region.slot() as usize).copied();
        let Some(buffer) = region else { return };
        let previous = access.previous.and_then(|id| self.previous(id)).unwrap_or_default();
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
            let old = buffer.element(offset, size, &step);
            if let Some(kept) = previous.get_mut(at..at + size) {
                kept.copy_from_slice(&old[..size]);
            }
            offset += size as u64;
        }
    }
}

/// Copies from `bytes` at `offset`; returns the number of bytes copied.
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
