// SPDX-License-Identifier: MIT OR Apache-2.0
//! Application memory of one node, and the checks that only it can make.
//!
//! In: copies that the engine describes. Out: bytes in buffers that were filled with [`CANARY`],
//! so that a byte in the wrong place is seen; and the first wrong access, kept as text. A
//! message to send needs no memory: its contents follow from the operation's number. Bound: the
//! posted operations.

use crate::rng::fill_pattern;
use ofi_xdp_core::{
    AtomicAccess, Config, Gather, Memory, OpId, Placement, RecvId, RegionId, Source, Target,
    UnexpectedId,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// The bytes of a buffer before a message is received.
pub const CANARY: u8 = 0xcc;

/// The bytes that leave an operation's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// That many bytes of the contents that belong to the operation.
    Pattern(u64),
    /// These bytes.
    Bytes(Vec<u8>),
}

/// How the application describes a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The operation.
    pub id: u64,
    /// The bytes that it sends.
    pub outgoing: Outgoing,
    /// Where it receives.
    pub incoming: Vec<u8>,
}

impl Buffer {
    /// A buffer of `len` bytes to be sent.
    #[must_use]
    pub const fn outgoing(id: u64, len: u64) -> Self {
        Self { id, outgoing: Outgoing::Pattern(len), incoming: Vec::new() }
    }

    /// A buffer with room for `len` bytes.
    #[must_use]
    pub fn incoming(id: u64, len: u64) -> Self {
        Self { id, outgoing: Outgoing::Pattern(0), incoming: vec![CANARY; len as usize] }
    }
}

/// Buffers of one kind, by slot.
type Attached<I> = Vec<Option<(I, Buffer)>>;

/// A node's memory.
#[derive(Debug)]
pub struct SimMemory {
    ops: Attached<OpId>,
    recvs: Attached<RecvId>,
    /// Of messages in multi-receive buffers: the buffer's receive and the place in it, by slot.
    parts: Vec<Option<(RecvId, u64, u64)>>,
    /// Multi-receive buffers that have a message, by receive.
    shared: BTreeMap<u64, Vec<u8>>,
    regions: Vec<(RegionId, Vec<u8>)>,
    store: Vec<u8>,
    former: Vec<u8>,
    config: Config,
    /// The first access that was wrong, and the invariant that it breaks.
    pub violation: Option<(u8, String)>,
    /// Bytes placed.
    pub placed: u64,
}

/// Puts `value` at `slot`, growing the list if need be.
fn put<T>(list: &mut Vec<Option<T>>, slot: u32, value: T) {
    let slot = slot as usize;
    if list.len() <= slot {
        list.resize_with(slot + 1, || None);
    }
    list[slot] = Some(value);
}

fn take<I>(list: &mut Attached<I>, id: u64) -> Option<Vec<u8>> {
    let slot = list.iter_mut().find(|slot| slot.as_ref().is_some_and(|b| b.1.id == id))?;
    slot.take().map(|(_, buffer)| buffer.incoming)
}

fn attached<'l, I: PartialEq>(
    list: &'l mut Attached<I>,
    slot: u32,
    id: &I,
) -> Option<&'l mut Buffer> {
    let (known, buffer) = list.get_mut(slot as usize)?.as_mut()?;
    (known == id).then_some(buffer)
}

fn part(bytes: &mut [u8], offset: u64, len: usize) -> Option<&mut [u8]> {
    bytes.get_mut(usize::try_from(offset).ok()?..)?.get_mut(..len)
}

impl SimMemory {
    /// Memory for an engine of this configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            ops: Vec::new(),
            recvs: Vec::new(),
            parts: Vec::new(),
            shared: BTreeMap::new(),
            regions: Vec::new(),
            store: vec![0; config.unexpected_bytes() as usize],
            former: vec![0; config.previous_bytes() as usize],
            config: config.clone(),
            violation: None,
            placed: 0,
        }
    }

    /// Takes the buffer of receive `id` after its completion: from now on it is the
    /// application's.
    pub fn take_recv(&mut self, id: u64) -> Option<Vec<u8>> {
        take(&mut self.recvs, id)
    }

    /// A message in the multi-receive buffer of receive `id`, and where it begins.
    #[must_use]
    pub fn part(&self, id: u64, part: RecvId, len: u64) -> Option<(u64, &[u8])> {
        let &(known, recv, offset) = self.parts.get(part.slot() as usize)?.as_ref()?;
        let bytes = self.shared.get(&id).filter(|_| (known, recv) == (part, id))?;
        Some((offset, bytes.get(offset as usize..(offset + len) as usize)?))
    }

    /// The multi-receive buffer of receive `id`, which is the application's again.
    pub fn take_shared(&mut self, id: u64) -> Option<Vec<u8>> {
        self.shared.remove(&id).or_else(|| self.take_recv(id))
    }

    /// Takes the bytes that operation `id` has returned, after its completion.
    pub fn take_op(&mut self, id: u64) -> Option<Vec<u8>> {
        take(&mut self.ops, id)
    }

    /// Memory that peers may reach from now on.
    pub fn add_region(&mut self, id: RegionId, bytes: Vec<u8>) {
        self.regions.push((id, bytes));
    }

    /// Peers may reach it no longer.
    pub fn remove_region(&mut self, id: RegionId) -> Option<Vec<u8>> {
        let index = self.regions.iter().position(|(known, _)| *known == id)?;
        Some(self.regions.swap_remove(index).1)
    }

    /// The bytes of registered memory.
    #[must_use]
    pub fn region(&self, id: RegionId) -> Option<&[u8]> {
        self.regions.iter().find(|(known, _)| *known == id).map(|(_, bytes)| bytes.as_slice())
    }

    fn wrong(&mut self, invariant: u8, what: String) {
        self.violation.get_or_insert((invariant, what));
    }

    fn stored(&self, id: UnexpectedId, offset: u64, len: usize) -> Option<Range<usize>> {
        let (start, room) = self.config.unexpected_range(id);
        let fits = offset + len as u64 <= room && start + room <= self.store.len() as u64;
        let start = (start + offset) as usize;
        fits.then_some(start..start + len)
    }

    /// The bytes that a placement is about.
    fn target(&mut self, at: Placement, len: usize) -> Option<&mut [u8]> {
        match at.target {
            Target::Op(id) => {
                let buffer = attached(&mut self.ops, id.slot(), &id)?;
                part(&mut buffer.incoming, at.offset, len)
            }
            Target::Recv(id) => match attached(&mut self.recvs, id.slot(), &id) {
                Some(buffer) => part(&mut buffer.incoming, at.offset, len),
                None => {
                    let &(_, recv, start) =
                        self.parts.get(id.slot() as usize)?.as_ref().filter(|p| p.0 == id)?;
                    part(self.shared.get_mut(&recv)?, start + at.offset, len)
                }
            },
            Target::Unexpected(id) => {
                let range = self.stored(id, at.offset, len)?;
                Some(&mut self.store[range])
            }
            Target::Region(id) => {
                let region = self.regions.iter_mut().find(|(known, _)| *known == id)?;
                part(&mut region.1, at.offset, len)
            }
        }
    }

    fn source(&mut self, from: Gather, into: &mut [u8]) -> Option<()> {
        let bytes = match from.source {
            Source::Op(id) => {
                let buffer = attached(&mut self.ops, id.slot(), &id)?;
                match &mut buffer.outgoing {
                    &mut Outgoing::Pattern(len) => {
                        (from.offset + into.len() as u64 <= len).then_some(())?;
                        fill_pattern(buffer.id, from.offset, into);
                        return Some(());
                    }
                    Outgoing::Bytes(bytes) => bytes.as_mut_slice(),
                }
            }
            Source::Region(id) => &mut self.regions.iter_mut().find(|(known, _)| *known == id)?.1,
            Source::PreviousValue(id) => {
                let (start, len) = self.config.previous_range(id)?;
                part(&mut self.former, start, len as usize)?
            }
        };
        into.copy_from_slice(part(bytes, from.offset, into.len())?);
        Some(())
    }

    fn execute(&mut self, access: &AtomicAccess<'_>) -> Option<()> {
        let region = self.regions.iter_mut().find(|(known, _)| *known == access.region)?;
        let bytes = part(&mut region.1, access.offset, access.len)?;
        if let Some(id) = access.previous {
            let (start, _) = self.config.previous_range(id)?;
            part(&mut self.former, start, access.len)?.copy_from_slice(bytes);
        }
        access.op.apply(access.datatype, bytes, access.operands, access.compare);
        Some(())
    }
}

impl Memory for SimMemory {
    type Buffer = Buffer;

    fn attach_op(&mut self, op: OpId, buffer: Buffer) {
        put(&mut self.ops, op.slot(), (op, buffer));
    }

    fn attach_recv(&mut self, recv: RecvId, buffer: Buffer) {
        put(&mut self.recvs, recv.slot(), (recv, buffer));
    }

    fn attach_slice(&mut self, part: RecvId, of: RecvId, offset: u64) {
        let Some(buffer) = attached(&mut self.recvs, of.slot(), &of) else {
            return self.wrong(3, format!("a part of {of:?}, which has no buffer"));
        };
        let incoming = std::mem::take(&mut buffer.incoming);
        self.shared.entry(buffer.id).or_insert(incoming);
        put(&mut self.parts, part.slot(), (part, buffer.id, offset));
    }

    fn gather(&mut self, from: Gather, into: &mut [u8]) {
        if self.source(from, into).is_none() {
            self.wrong(19, format!("{} bytes wanted by {from:?}", into.len()));
        }
    }

    fn place(&mut self, at: Placement, bytes: &[u8]) {
        self.placed += bytes.len() as u64;
        match self.target(at, bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => self.wrong(3, format!("{} bytes for {at:?}", bytes.len())),
        }
    }

    fn deliver(&mut self, from: UnexpectedId, to: RecvId, len: u64) {
        let range = self.stored(from, 0, len as usize);
        let store = std::mem::take(&mut self.store);
        let at = Placement { target: Target::Recv(to), offset: 0, more: false };
        let room = self.target(at, len as usize);
        match range.and_then(|range| store.get(range)).zip(room) {
            Some((bytes, room)) => room.copy_from_slice(bytes),
            None => self.wrong(3, format!("{len} bytes delivered from {from:?} to {to:?}")),
        }
        self.store = store;
    }

    fn atomic(&mut self, access: AtomicAccess<'_>) {
        if self.execute(&access).is_none() {
            self.wrong(19, format!("an atomic on {:?} at {}", access.region, access.offset));
        }
    }
}
