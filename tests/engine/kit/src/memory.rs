// SPDX-License-Identifier: MIT OR Apache-2.0
//! Application memory that checks each copy.
//!
//! In: copies that the engine describes. Out: bytes in the buffers, and a [`Violation`] for each
//! wrong copy. Wrong are copies outside of a buffer, into the buffer of an ended operation, or
//! under an identifier of an earlier tenant of a slot. A simulation collects the first violation;
//! elsewhere each is a panic. A caller takes a buffer back when its operation completes: a later
//! copy is a violation. Bound: the posted operations.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use ofi_xdp_core::{
    AtomicAccess, Config, Gather, Memory, OpId, Placement, RecvId, RecvRequest, RegionId, Source,
    Target, UnexpectedId, UnmatchedMessage,
};

use crate::rng::fill_pattern;
use crate::slots::Slots;
use crate::violation::{Invariant, Violation};

/// The bytes of a buffer before a message is received.
pub const CANARY: u8 = 0xcc;

type Checked<T> = Result<T, Violation>;

/// The bytes that leave an operation's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// That many bytes of the contents that belong to the operation's number.
    Pattern(u64),
    /// These bytes.
    Bytes(Vec<u8>),
}

/// The application's description of the memory of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The application's number of the operation.
    pub number: u64,
    /// The bytes that it sends.
    pub outgoing: Outgoing,
    /// The place of the bytes that it receives.
    pub incoming: Vec<u8>,
    /// The application does not take the buffer back: the operation ends without a completion, or
    /// its bytes are read in place. The next operation of the slot replaces it.
    pub is_left: bool,
}

/// A buffer that sends these bytes, receives over them, and is read in place.
impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { is_left: true, ..Self::new(0, bytes.clone(), bytes) }
    }
}

impl Buffer {
    /// A buffer of `len` bytes to be sent, which follow from `number`.
    #[must_use]
    pub const fn outgoing(number: u64, len: u64) -> Self {
        Self { number, outgoing: Outgoing::Pattern(len), incoming: Vec::new(), is_left: false }
    }

    /// A buffer with room for `len` bytes.
    #[must_use]
    pub fn incoming(number: u64, len: u64) -> Self {
        Self::new(number, Vec::new(), vec![CANARY; len as usize])
    }

    /// A buffer that sends `outgoing`, and receives over `incoming`.
    #[must_use]
    pub const fn new(number: u64, outgoing: Vec<u8>, incoming: Vec<u8>) -> Self {
        Self { number, outgoing: Outgoing::Bytes(outgoing), incoming, is_left: false }
    }
}

/// The treatment of violations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Policy {
    Collect,
    Panic,
}

/// A piece of a multi-receive buffer.
#[derive(Clone, Copy, Debug)]
struct Slice {
    of: RecvId,
    start: u64,
}

/// The memory of one node.
#[derive(Debug)]
pub struct CheckedMemory {
    ops: Slots<OpId, Buffer>,
    recvs: Slots<RecvId, Buffer>,
    slices: Slots<RecvId, Slice>,
    /// Multi-receive buffers from their first message on. Their slots may have other tenants by
    /// the completion of the last slice.
    multi: HashMap<RecvId, Vec<u8>>,
    regions: Slots<RegionId, Vec<u8>>,
    store: Vec<u8>,
    previous: Slots<OpId, Vec<u8>>,
    config: Config,
    policy: Policy,
    /// The first violation.
    pub violation: Option<Violation>,
    /// Bytes placed.
    pub placed: u64,
    /// Receives of a queue that engines share.
    pub shared: VecDeque<(RecvRequest, Buffer)>,
    /// For each gathered and each placed piece, whether more bytes were to follow.
    pub pieces: Option<Pieces>,
}

/// A log of the pieces that were copied.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pieces {
    /// Pieces copied into packets.
    pub gathered: Vec<bool>,
    /// Pieces copied out of packets.
    pub placed: Vec<bool>,
}

fn part(bytes: &mut [u8], offset: u64, len: usize) -> Checked<&mut [u8]> {
    let room = bytes.len();
    let start = usize::try_from(offset).ok();
    let range = start.and_then(|start| Some(start..start.checked_add(len)?));
    range.and_then(|range| bytes.get_mut(range)).ok_or_else(|| {
        Violation::new(Invariant::Bounds, format!("{len} bytes at {offset} of {room}"))
    })
}

impl CheckedMemory {
    /// Memory for an engine of this configuration. A violation is a panic.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self::with_policy(config, Policy::Panic)
    }

    /// Memory of the same size. The first violation is kept in [`Self::violation`].
    #[must_use]
    pub fn collecting(config: &Config) -> Self {
        Self::with_policy(config, Policy::Collect)
    }

    fn with_policy(config: &Config, policy: Policy) -> Self {
        Self {
            ops: Slots::new(),
            recvs: Slots::new(),
            slices: Slots::new(),
            multi: HashMap::new(),
            regions: Slots::new(),
            store: vec![0; config.unexpected_bytes() as usize],
            previous: Slots::new(),
            config: config.clone(),
            policy,
            violation: None,
            placed: 0,
            shared: VecDeque::new(),
            pieces: None,
        }
    }

    /// The posted operation with this number.
    #[must_use]
    pub fn op(&self, number: u64) -> Option<OpId> {
        self.ops.position(|buffer| buffer.number == number)
    }

    /// The posted receive with this number.
    #[must_use]
    pub fn recv(&self, number: u64) -> Option<RecvId> {
        self.recvs.position(|buffer| buffer.number == number)
    }

    /// The bytes that an operation has returned, read in place ([`Buffer::is_left`]).
    #[must_use]
    pub fn returned(&self, id: OpId) -> Option<&[u8]> {
        self.ops.find(id).ok().map(|buffer| buffer.incoming.as_slice())
    }

    /// Takes the bytes that an operation has returned, after its completion.
    pub fn take_op(&mut self, id: OpId) -> Option<Vec<u8>> {
        let buffer = self.ops.remove(id);
        self.noted(buffer, || format!("{id:?} is taken back")).map(|buffer| buffer.incoming)
    }

    /// Takes the buffer of a receive after its completion.
    pub fn take_recv(&mut self, id: RecvId) -> Option<Vec<u8>> {
        let buffer = self.recvs.remove(id);
        self.noted(buffer, || format!("{id:?} is taken back")).map(|buffer| buffer.incoming)
    }

    /// The offset in its multi-receive buffer, and the bytes, of a slice of `len` bytes. A receive
    /// with a buffer of its own is its first slice.
    pub fn slice(&mut self, id: RecvId, len: u64) -> Option<(u64, Vec<u8>)> {
        let start = self.slices.find(id).map_or(0, |slice| slice.start);
        let bytes = self.received(id, 0, len as usize).map(|bytes| (start, bytes.to_vec()));
        self.noted(bytes, || format!("{len} bytes of {id:?} are read"))
    }

    /// Memory that peers may reach from now on.
    pub fn add_region(&mut self, id: RegionId, bytes: Vec<u8>) {
        let before = self.regions.insert(id, bytes);
        self.vacant(id, before.map(|(before, _)| before));
    }

    /// Memory that peers may reach no longer.
    pub fn take_region(&mut self, id: RegionId) -> Option<Vec<u8>> {
        let bytes = self.regions.remove(id);
        self.noted(bytes, || format!("{id:?} is taken back"))
    }

    /// The bytes of registered memory.
    #[must_use]
    pub fn region(&self, id: RegionId) -> Option<&[u8]> {
        self.regions.find(id).ok().map(Vec::as_slice)
    }

    /// The bytes of registered memory, to be changed.
    #[must_use]
    pub fn region_mut(&mut self, id: RegionId) -> Option<&mut [u8]> {
        self.regions.find_mut(id).ok().map(Vec::as_mut_slice)
    }

    /// Treats a violation as the policy says.
    fn noted<T>(&mut self, checked: Checked<T>, access: impl FnOnce() -> String) -> Option<T> {
        let Violation { invariant, what } = match checked {
            Ok(value) => return Some(value),
            Err(violation) => violation,
        };
        let what = format!("{}: {what}", access());
        assert!(self.policy == Policy::Collect, "invariant {}: {what}", invariant as u8);
        self.violation.get_or_insert(Violation { invariant, what });
        None
    }

    /// The buffer of the slot's last tenant was taken back before the slot went to `id`.
    fn taken_back<I: std::fmt::Debug + PartialEq>(&mut self, id: I, before: Option<(I, Buffer)>) {
        let tenant = before.filter(|(before, buffer)| *before == id || !buffer.is_left);
        self.vacant(id, tenant.map(|(before, _)| before));
    }

    /// A slot had no tenant before `id`.
    fn vacant<I: std::fmt::Debug>(&mut self, id: I, before: Option<I>) {
        if let Some(before) = before {
            let violation = Violation::new(Invariant::Occupied, format!("{before:?} has the slot"));
            self.noted::<()>(Err(violation), || format!("{id:?} is attached"));
        }
    }

    fn stored(&self, id: UnexpectedId, offset: u64, len: usize) -> Checked<Range<usize>> {
        let (start, room) = self.config.unexpected_range(id);
        if offset + len as u64 > room || start + room > self.store.len() as u64 {
            let what = format!("{len} bytes at {offset} of {room} for {id:?}");
            return Err(Violation::new(Invariant::Bounds, what));
        }
        let start = (start + offset) as usize;
        Ok(start..start + len)
    }

    /// Bytes of a receive or of a slice.
    fn received(&mut self, id: RecvId, offset: u64, len: usize) -> Checked<&mut [u8]> {
        let Ok(&Slice { of, start }) = self.slices.find(id) else {
            return part(&mut self.recvs.find_mut(id)?.incoming, offset, len);
        };
        let bytes = self.multi.get_mut(&of).ok_or_else(|| {
            Violation::new(Invariant::Ended, format!("the buffer of {of:?} is gone"))
        })?;
        part(bytes, start.saturating_add(offset), len)
    }

    fn target(&mut self, at: Placement, len: usize) -> Checked<&mut [u8]> {
        match at.target {
            Target::Op(id) => part(&mut self.ops.find_mut(id)?.incoming, at.offset, len),
            Target::Recv(id) => self.received(id, at.offset, len),
            Target::Unexpected(id) => {
                let range = self.stored(id, at.offset, len)?;
                Ok(&mut self.store[range])
            }
            Target::Region(id) => part(self.regions.find_mut(id)?, at.offset, len),
        }
    }

    fn source(&mut self, from: Gather, into: &mut [u8]) -> Checked<()> {
        let bytes = match from.source {
            Source::Op(id) => {
                let Buffer { number, outgoing, .. } = self.ops.find_mut(id)?;
                match outgoing {
                    Outgoing::Pattern(len) if from.offset + into.len() as u64 <= *len => {
                        fill_pattern(*number, from.offset, into);
                        return Ok(());
                    }
                    Outgoing::Pattern(_) => &mut [],
                    Outgoing::Bytes(bytes) => bytes.as_mut_slice(),
                }
            }
            Source::Region(id) => self.regions.find_mut(id)?,
            Source::PreviousValue(id) => self.previous.find_mut(id)?,
        };
        into.copy_from_slice(part(bytes, from.offset, into.len())?);
        Ok(())
    }

    fn execute(&mut self, access: &AtomicAccess<'_>) -> Checked<()> {
        let bytes = part(self.regions.find_mut(access.region)?, access.offset, access.len)?;
        if let Some(id) = access.previous {
            let room = self.config.previous_range(id).map_or(0, |(_, len)| len);
            if access.len as u64 > room {
                let what = format!("{} bytes of {room} for {id:?}", access.len);
                return Err(Violation::new(Invariant::Bounds, what));
            }
            // A response ends without a completion: the next operation of its slot replaces it.
            self.previous.insert(id, bytes.to_vec());
        }
        access.op.apply(access.datatype, bytes, access.operands, access.compare);
        Ok(())
    }
}

impl Memory for CheckedMemory {
    type Buffer = Buffer;

    fn attach_op(&mut self, op: OpId, buffer: Buffer) {
        let before = self.ops.insert(op, buffer);
        self.taken_back(op, before);
    }

    fn attach_recv(&mut self, recv: RecvId, buffer: Buffer) {
        let before = self.recvs.insert(recv, buffer);
        self.taken_back(recv, before);
    }

    fn attach_slice(&mut self, part: RecvId, of: RecvId, offset: u64) {
        // The first message moves the buffer from the table of receives.
        if let Ok(buffer) = self.recvs.remove(of) {
            self.multi.insert(of, buffer.incoming);
        }
        let room = self.multi.get(&of).map(|bytes| bytes.len() as u64);
        let checked = match room {
            Some(room) if offset <= room => Ok(()),
            Some(room) => Err(Violation::new(Invariant::Bounds, format!("{offset} of {room}"))),
            None => Err(Violation::new(Invariant::Ended, format!("{of:?} has no buffer"))),
        };
        self.noted(checked, || format!("{part:?} is attached"));
        // The location stays known until the next slice takes the slot.
        self.slices.insert(part, Slice { of, start: offset });
    }

    fn claim_shared_receive(
        &mut self,
        arrival: &UnmatchedMessage,
    ) -> Option<(RecvRequest, Buffer)> {
        if arrival.overtakes || !arrival.room { None } else { self.shared.pop_front() }
    }

    fn gather(&mut self, from: Gather, into: &mut [u8]) {
        if let Some(pieces) = &mut self.pieces {
            pieces.gathered.push(from.more);
        }
        let checked = self.source(from, into);
        self.noted(checked, || format!("{} bytes from {from:?}", into.len()));
    }

    fn place(&mut self, at: Placement, bytes: &[u8]) {
        self.placed += bytes.len() as u64;
        if let Some(pieces) = &mut self.pieces {
            pieces.placed.push(at.more);
        }
        let checked = self.target(at, bytes.len()).map(|room| room.copy_from_slice(bytes));
        self.noted(checked, || format!("{} bytes for {at:?}", bytes.len()));
    }

    fn deliver(&mut self, from: UnexpectedId, to: RecvId, len: u64) {
        let range = self.stored(from, 0, len as usize);
        let store = std::mem::take(&mut self.store);
        let checked = range.and_then(|range| {
            self.received(to, 0, len as usize).map(|room| room.copy_from_slice(&store[range]))
        });
        self.store = store;
        self.noted(checked, || format!("{len} bytes from {from:?} to {to:?}"));
    }

    fn atomic(&mut self, access: AtomicAccess<'_>) {
        let checked = self.execute(&access);
        self.noted(checked, || format!("an atomic on {:?} at {}", access.region, access.offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(memory: &mut CheckedMemory, target: Target, offset: u64) -> Option<Invariant> {
        memory.place(Placement { target, offset, more: false }, &[1; 8]);
        memory.violation.take().map(|violation| violation.invariant)
    }

    fn memory() -> CheckedMemory {
        CheckedMemory::collecting(&Config::new(|crc, _| crc))
    }

    #[test]
    fn each_wrong_access_is_reported_by_its_kind() {
        let mut memory = memory();
        let (id, next) = (RecvId::new(2, 1), RecvId::new(2, 2));
        memory.attach_recv(id, Buffer::incoming(7, 8));
        assert_eq!(place(&mut memory, Target::Recv(id), 0), None);
        for offset in [1, u64::MAX] {
            assert_eq!(place(&mut memory, Target::Recv(id), offset), Some(Invariant::Bounds));
        }
        assert_eq!(place(&mut memory, Target::Recv(next), 0), Some(Invariant::Identifier));
        memory.attach_recv(next, Buffer::incoming(8, 8));
        assert_eq!(memory.violation.take().map(|v| v.invariant), Some(Invariant::Occupied));
        assert_eq!(memory.recv(8), Some(next));
        assert_eq!(memory.take_recv(next), Some(vec![CANARY; 8]));
        assert_eq!(place(&mut memory, Target::Recv(next), 0), Some(Invariant::Ended));
        let region = RegionId::new(0, 1);
        assert_eq!(place(&mut memory, Target::Region(region), 0), Some(Invariant::Ended));
    }

    #[test]
    fn slices_outlive_the_slot_of_their_buffer() {
        let mut memory = memory();
        let (buffer, one, two) = (RecvId::new(0, 1), RecvId::new(4, 1), RecvId::new(5, 1));
        memory.attach_recv(buffer, Buffer::incoming(7, 20));
        memory.attach_slice(one, buffer, 0);
        memory.attach_slice(two, buffer, 8);
        memory.attach_recv(RecvId::new(0, 2), Buffer::incoming(8, 8));
        assert_eq!(place(&mut memory, Target::Recv(two), 4), None);
        assert_eq!(place(&mut memory, Target::Recv(two), 5), Some(Invariant::Bounds));
        assert_eq!(place(&mut memory, Target::Recv(buffer), 0), Some(Invariant::Identifier));
        let expected = [[CANARY; 4].as_slice(), &[1; 8]].concat();
        assert_eq!(memory.slice(two, 12), Some((8, expected)));
    }

    #[test]
    fn a_previous_value_belongs_to_its_own_response_only() {
        let config = Config::new(|crc, _| crc);
        let mut memory = CheckedMemory::collecting(&config);
        let (region, response) = (RegionId::new(0, 1), OpId::new(config.sends, 1));
        memory.add_region(region, vec![3; 8]);
        memory.atomic(AtomicAccess {
            region,
            offset: 0,
            datatype: ofi_xdp_core::Datatype::Uint64,
            op: ofi_xdp_core::AtomicOp::Write,
            operands: &[4; 8],
            compare: &[],
            len: 8,
            previous: Some(response),
        });
        let mut gather = |id| {
            let mut bytes = [0; 8];
            let source = Source::PreviousValue(id);
            memory.gather(Gather { source, offset: 0, more: false }, &mut bytes);
            (bytes, memory.violation.take().map(|violation| violation.invariant))
        };
        assert_eq!(gather(response), ([3; 8], None));
        assert_eq!(gather(OpId::new(config.sends, 2)).1, Some(Invariant::Identifier));
        assert_eq!(memory.region(region), Some([4; 8].as_slice()));
    }

    #[test]
    #[should_panic(expected = "invariant 4")]
    fn without_a_collector_a_violation_is_a_panic() {
        let mut memory = CheckedMemory::new(&Config::new(|crc, _| crc));
        place(&mut memory, Target::Op(OpId::new(0, 1)), 0);
    }
}
