// SPDX-License-Identifier: MIT OR Apache-2.0
//! Application memory that believes nothing: a byte outside a buffer, in the buffer of an operation
//! that has ended, or in a region that was taken back, is a panic.

use std::collections::HashMap;
use std::ops::Range;

use ofi_xdp_core::{
    AtomicAccess, Config, Gather, Memory, OpId, Placement, RecvId, RegionId, Source, Target,
    UnexpectedId,
};

/// The memory of an operation: bytes to send, and room for returned bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Buffer {
    /// Bytes for a peer.
    pub outgoing: Vec<u8>,
    /// Bytes from a peer.
    pub incoming: Vec<u8>,
}

/// Buffers by operation, regions, and the engine's stored bytes.
#[derive(Debug)]
pub struct Strict {
    ops: HashMap<u32, (OpId, Buffer)>,
    recvs: HashMap<u32, (RecvId, Vec<u8>)>,
    regions: HashMap<u32, (RegionId, Vec<u8>)>,
    store: Vec<u8>,
    former: Vec<u8>,
    config: Config,
}

fn owned<I: Copy + PartialEq + std::fmt::Debug, B>(
    map: &mut HashMap<u32, (I, B)>,
    slot: u32,
    id: I,
) -> &mut B {
    let Some((owner, buffer)) = map.get_mut(&slot) else { panic!("{id:?} has no buffer") };
    assert_eq!(*owner, id, "another one's buffer");
    buffer
}

fn size(number: u64) -> usize {
    usize::try_from(number).expect("a number within a buffer")
}

impl Strict {
    /// Memory for an engine of this configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            ops: HashMap::new(),
            recvs: HashMap::new(),
            regions: HashMap::new(),
            store: vec![0; size(config.unexpected_bytes())],
            former: vec![0; size(config.previous_bytes())],
            config: config.clone(),
        }
    }

    /// The buffer of a receive that has ended: from now on the engine may not touch it.
    ///
    /// # Panics
    /// When there is no such receive.
    pub fn take_recv(&mut self, id: RecvId) -> Vec<u8> {
        let bytes = std::mem::take(owned(&mut self.recvs, id.slot(), id));
        self.recvs.remove(&id.slot());
        bytes
    }

    /// The buffers of an operation that has ended.
    ///
    /// # Panics
    /// When there is no such operation.
    pub fn take_op(&mut self, id: OpId) -> Buffer {
        let buffer = std::mem::take(owned(&mut self.ops, id.slot(), id));
        self.ops.remove(&id.slot());
        buffer
    }

    /// Memory that peers may reach from now on.
    pub fn add_region(&mut self, id: RegionId, bytes: Vec<u8>) {
        self.regions.insert(id.slot(), (id, bytes));
    }

    /// The bytes of a region.
    ///
    /// # Panics
    /// When there is no such region.
    pub fn region(&mut self, id: RegionId) -> &mut Vec<u8> {
        owned(&mut self.regions, id.slot(), id)
    }

    /// Takes the memory of a region that no peer may reach any more.
    ///
    /// # Panics
    /// When there is no such region.
    pub fn take_region(&mut self, id: RegionId) -> Vec<u8> {
        let bytes = std::mem::take(self.region(id));
        self.regions.remove(&id.slot());
        bytes
    }

    fn stored(&self, id: UnexpectedId, offset: u64, len: usize) -> Range<usize> {
        let (start, room) = self.config.unexpected_range(id);
        assert!(offset + len as u64 <= room, "outside the storage of a message");
        let start = size(start + offset);
        start..start + len
    }

    fn former(&self, id: OpId, offset: u64, len: usize) -> Range<usize> {
        let (start, room) = self.config.previous_range(id).expect("a response has a place");
        assert!(offset + len as u64 <= room, "outside the place of former contents");
        let start = size(start + offset);
        start..start + len
    }
}

impl Memory for Strict {
    type Buffer = Buffer;

    fn attach_op(&mut self, op: OpId, buffer: Buffer) {
        let before = self.ops.insert(op.slot(), (op, buffer));
        assert!(before.is_none(), "{op:?} takes the slot of an operation that has not ended");
    }

    fn attach_recv(&mut self, recv: RecvId, buffer: Buffer) {
        let before = self.recvs.insert(recv.slot(), (recv, buffer.incoming));
        assert!(before.is_none(), "{recv:?} takes the slot of a receive that has not ended");
    }

    /// A slice is a buffer of its own here: the bytes of one message belong to no other.
    fn attach_slice(&mut self, part: RecvId, of: RecvId, offset: u64) {
        let len = owned(&mut self.recvs, of.slot(), of).len();
        let incoming = vec![0; len - size(offset)];
        self.attach_recv(part, Buffer { outgoing: Vec::new(), incoming });
    }

    fn gather(&mut self, from: Gather, into: &mut [u8]) {
        let start = size(from.offset);
        let range = start..start + into.len();
        let bytes = match from.source {
            Source::Op(id) => &owned(&mut self.ops, id.slot(), id).outgoing[range],
            Source::Region(id) => &self.region(id)[range],
            Source::PreviousValue(id) => &self.former[self.former(id, from.offset, into.len())],
        };
        into.copy_from_slice(bytes);
    }

    fn place(&mut self, at: Placement, bytes: &[u8]) {
        let start = size(at.offset);
        let range = start..start + bytes.len();
        let room = match at.target {
            Target::Op(id) => &mut owned(&mut self.ops, id.slot(), id).incoming[range],
            Target::Recv(id) => &mut owned(&mut self.recvs, id.slot(), id)[range],
            Target::Region(id) => &mut self.region(id)[range],
            Target::Unexpected(id) => {
                let range = self.stored(id, at.offset, bytes.len());
                &mut self.store[range]
            }
        };
        room.copy_from_slice(bytes);
    }

    fn deliver(&mut self, from: UnexpectedId, to: RecvId, len: u64) {
        let range = self.stored(from, 0, size(len));
        let bytes = self.store[range].to_vec();
        owned(&mut self.recvs, to.slot(), to)[..bytes.len()].copy_from_slice(&bytes);
    }

    fn atomic(&mut self, access: AtomicAccess<'_>) {
        let start = size(access.offset);
        let range = start..start + access.len;
        if let Some(id) = access.previous {
            let kept = self.former(id, 0, access.len);
            let found = self.region(access.region)[range.clone()].to_vec();
            self.former[kept].copy_from_slice(&found);
        }
        let elements = &mut self.region(access.region)[range];
        access.op.apply(access.datatype, elements, access.operands, access.compare);
    }
}
