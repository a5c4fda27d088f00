// SPDX-License-Identifier: MIT OR Apache-2.0
//! Application memory of a measured engine: one arena, and tables from operation to its offset in
//! it.
//!
//! In: copies that the engine describes. Out: copies within fixed memory. The benches count
//! instructions and allow no allocation, so this memory checks nothing but the bounds of the arena;
//! [`memory`](crate::memory) has the checks.

use ofi_xdp_core::{
    AtomicAccess, Config, Gather, Memory, OpId, Placement, RecvId, Source, Target, UnexpectedId,
};

/// A buffer: its offset in the arena. The engine knows its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer(pub usize);

/// The arena. All of it is one registered region.
#[derive(Debug)]
pub struct Arena {
    bytes: Box<[u8]>,
    /// Where the buffer of the operation in each slot begins.
    ops: Box<[usize]>,
    recvs: Box<[usize]>,
    store: Box<[u8]>,
    former: Box<[u8]>,
    config: Config,
    /// Bytes copied so far, out to packets and in from them.
    copied: Copied,
}

/// Bytes copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    /// Into packets.
    pub gathered: u64,
    /// Out of packets, and out of storage.
    pub placed: u64,
}

impl Arena {
    /// An arena of `len` bytes.
    #[must_use]
    pub fn new(len: usize, config: &Config) -> Self {
        // Pages that are never touched cost nothing, so the tables span all slots there can be.
        let table = |slots: u32| vec![0; slots as usize + 1].into_boxed_slice();
        Self {
            bytes: vec![0; len].into(),
            ops: table(OpId::SLOTS_MAX),
            recvs: table(RecvId::SLOTS_MAX),
            store: vec![0; at(config.unexpected_bytes())].into(),
            former: vec![0; at(config.previous_bytes())].into(),
            config: config.clone(),
            copied: Copied::default(),
        }
    }

    /// The bytes copied so far.
    #[must_use]
    pub fn copied(&self) -> Copied {
        self.copied
    }

    #[inline]
    fn stored(&self, id: UnexpectedId, offset: u64) -> usize {
        at(self.config.unexpected_range(id).0 + offset)
    }

    #[inline]
    fn former(&self, id: OpId) -> usize {
        at(self.config.previous_range(id).unwrap_or_default().0)
    }
}

#[inline]
fn index(slot: u32) -> usize {
    slot as usize
}

#[inline]
fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Memory without bytes, where copies are not measured.
#[derive(Debug)]
pub struct Nowhere;

impl Memory for Nowhere {
    type Buffer = ();

    #[inline]
    fn attach_op(&mut self, _: OpId, (): ()) {}
    #[inline]
    fn attach_recv(&mut self, _: RecvId, (): ()) {}
    #[inline]
    fn attach_slice(&mut self, _: RecvId, _: RecvId, _: u64) {}

    #[inline]
    fn gather(&mut self, _: Gather, into: &mut [u8]) {
        into.fill(7);
    }

    #[inline]
    fn place(&mut self, _: Placement, _: &[u8]) {}
    #[inline]
    fn deliver(&mut self, _: UnexpectedId, _: RecvId, _: u64) {}
    #[inline]
    fn atomic(&mut self, _: AtomicAccess<'_>) {}
}

impl Memory for Arena {
    type Buffer = Buffer;

    #[inline]
    fn attach_op(&mut self, op: OpId, buffer: Buffer) {
        self.ops[index(op.slot())] = buffer.0;
    }

    #[inline]
    fn attach_recv(&mut self, recv: RecvId, buffer: Buffer) {
        self.recvs[index(recv.slot())] = buffer.0;
    }

    #[inline]
    fn attach_slice(&mut self, part: RecvId, of: RecvId, offset: u64) {
        self.recvs[index(part.slot())] = self.recvs[index(of.slot())] + at(offset);
    }

    #[inline]
    fn gather(&mut self, from: Gather, into: &mut [u8]) {
        self.copied.gathered += into.len() as u64;
        let offset = at(from.offset);
        let (bytes, start) = match from.source {
            Source::Op(id) => (&self.bytes, self.ops[index(id.slot())] + offset),
            Source::Region(_) => (&self.bytes, offset),
            Source::PreviousValue(id) => (&self.former, self.former(id) + offset),
        };
        into.copy_from_slice(&bytes[start..start + into.len()]);
    }

    #[inline]
    fn place(&mut self, to: Placement, bytes: &[u8]) {
        self.copied.placed += bytes.len() as u64;
        let start = match to.target {
            Target::Op(id) => self.ops[index(id.slot())] + at(to.offset),
            Target::Recv(id) => self.recvs[index(id.slot())] + at(to.offset),
            Target::Region(_) => at(to.offset),
            Target::Unexpected(id) => {
                let start = self.stored(id, to.offset);
                return self.store[start..start + bytes.len()].copy_from_slice(bytes);
            }
        };
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    #[inline]
    fn deliver(&mut self, from: UnexpectedId, to: RecvId, len: u64) {
        self.copied.placed += len;
        let source = self.stored(from, 0);
        let start = self.recvs[index(to.slot())];
        let len = at(len);
        self.bytes[start..start + len].copy_from_slice(&self.store[source..source + len]);
    }

    #[inline]
    fn atomic(&mut self, access: AtomicAccess<'_>) {
        let start = at(access.offset);
        let range = start..start + access.len;
        if let Some(id) = access.previous {
            let kept = self.former(id);
            self.former[kept..kept + access.len].copy_from_slice(&self.bytes[range.clone()]);
        }
        let elements = &mut self.bytes[range];
        access.op.apply(access.datatype, elements, access.operands, access.compare);
    }
}
