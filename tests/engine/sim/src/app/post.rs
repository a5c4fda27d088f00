// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random posts: sends, receives, and operations on a peer's memory.
//!
//! In: the node of the present event. Out: a request to its engine, noted by the oracle if it was
//! accepted. A post that finds a pool empty is dropped: the application would try again.

use super::{Access, CELLS, Detail, Op, Recv, Remote, Send, State};
use crate::net::address;
use crate::world::World;
use ofi_xdp_core::{
    AtomicForm, AtomicOp, AtomicRequest, Common, Context, Datatype, OpError, Order, PeerId,
    ReadRequest, RecvRequest, SendRequest, TagMatch, WriteRequest,
};
use ofi_xdp_test_kit::memory::{Buffer, CANARY};

/// Tags differ in their low bits by class, and above them by message.
const CLASS_BITS: u32 = 4;
/// Classes of tags.
const CLASSES: u64 = 3;

impl World {
    /// The peer's name in a node's engine.
    fn peer(&mut self, node: u32, to: u32) -> Option<PeerId> {
        let engine = &mut self.nodes[node as usize].engine;
        engine.with_mut(|engine| engine.insert_peer(address(to))).ok()
    }

    fn common(&mut self, node: u32, to: u32) -> Option<Common> {
        let peer = self.peer(node, to)?;
        let rng = &mut self.app.rng;
        Some(Common {
            peer,
            context: Context(self.oracle.next_id()),
            signal: !rng.chance(0.1),
            more: rng.chance(0.1),
            fence: rng.chance(0.05),
        })
    }

    /// Posts a send of a node's choice.
    pub(super) fn send_something(&mut self, node: u32) {
        let to = self.partner(node);
        let len = self.some_len();
        let id = self.oracle.next_id();
        let rng = &mut self.app.rng;
        let tag = rng.chance(0.5).then(|| id << CLASS_BITS | rng.below(CLASSES));
        let data = rng.chance(0.3).then_some(id);
        if let Some(common) = self.common(node, to) {
            self.send_as(node, to, common, len, tag, data);
        }
    }

    /// Posts a plain send. Whether it was accepted.
    pub fn send(&mut self, node: u32, to: u32, len: u64) -> bool {
        let Some(peer) = self.peer(node, to) else { return false };
        let common = Common::new(peer, Context(self.oracle.next_id()));
        self.send_as(node, to, common, len, None, None)
    }

    fn send_as(
        &mut self,
        node: u32,
        to: u32,
        common: Common,
        len: u64,
        tag: Option<u64>,
        data: Option<u64>,
    ) -> bool {
        let request = SendRequest { common, len, tag, data };
        let (now, id) = (self.local(node), self.oracle.next_id());
        let state = &mut self.nodes[node as usize];
        let memory = &mut state.memory;
        let buffer = Buffer { is_left: !common.signal, ..Buffer::outgoing(id, len) };
        let posted = state.engine.with_mut(|engine| engine.post_send(now, request, buffer, memory));
        if posted.is_err() {
            return false;
        }
        let (life, to_life) = (state.life, self.nodes[to as usize].life);
        let detail = Detail::Send(Send { to, to_life, len, tag, data, deliveries: 0 });
        self.oracle.post(node, life, self.now, common.signal, detail);
        true
    }

    /// Posts a receive of a node's choice.
    pub(super) fn receive_something(&mut self, node: u32) {
        let from = self.app.rng.chance(0.25).then(|| self.partner(node));
        let max = self.scenario.app.len_max;
        let rng = &mut self.app.rng;
        let tag = rng.chance(0.5).then(|| {
            if rng.chance(0.5) {
                TagMatch { tag: 0, ignore: u64::MAX }
            } else {
                TagMatch { tag: rng.below(CLASSES), ignore: u64::MAX << CLASS_BITS }
            }
        });
        let len = if rng.chance(0.7) { max } else { rng.below(max + 1) };
        self.recv(node, from, len, tag);
    }

    /// Posts a receive. Whether it was accepted.
    pub fn recv(&mut self, node: u32, from: Option<u32>, len: u64, tag: Option<TagMatch>) -> bool {
        let peer = match from {
            Some(from) => match self.peer(node, from) {
                Some(peer) => Some(peer),
                None => return false,
            },
            None => None,
        };
        let id = self.oracle.next_id();
        let request = RecvRequest { from: peer, len, context: Context(id), tag, signal: true };
        let state = &mut self.nodes[node as usize];
        let memory = &mut state.memory;
        let posted = state
            .engine
            .with_mut(|engine| engine.post_recv(request, Buffer::incoming(id, len), memory));
        let detail = Detail::Recv(Recv { from, len, tag, got: None, cancelled: false });
        let life = state.life;
        posted.map(|_| self.oracle.post(node, life, self.now, true, detail)).is_ok()
    }

    /// Posts a receive for anything, in the liveness phase.
    pub(super) fn post_drain(&mut self, node: u32, tagged: bool) -> bool {
        let tag = tagged.then_some(TagMatch { tag: 0, ignore: u64::MAX });
        self.recv(node, None, self.scenario.app.len_max, tag)
    }

    /// Posts an operation on a peer's memory; `kind` is the weight's place in the scenario.
    pub(super) fn reach_out(&mut self, node: u32, kind: usize) {
        let to = self.partner(node);
        let Some(number) = self.region_of(to) else { return };
        let old = self.app.rng.chance(0.05);
        let dead = |region: &super::Region| region.node == to && !region.alive;
        let region = match self.oracle.regions.iter().position(dead) {
            Some(gone) if old => gone,
            _ => number,
        };
        let access = match kind {
            4 => Some(Access::Write),
            5 => self.some_read(node, to, region),
            _ => Some(self.some_atomic()),
        };
        if let Some(access) = access {
            self.post_remote(node, to, region, access);
        }
    }

    /// The bytes to read: a part that is never written, or an earlier write.
    fn some_read(&mut self, node: u32, to: u32, region: usize) -> Option<Access> {
        let fixed = Access::Read(self.oracle.regions[region].id_of_contents(region));
        if self.app.rng.chance(0.5) {
            return Some(fixed);
        }
        let life = self.nodes[node as usize].life;
        let found = self.latest_write(node, life, to, region);
        Some(found.map_or(fixed, |op| Access::ReadBack(op.id)))
    }

    fn latest_write(&self, node: u32, life: u32, to: u32, region: usize) -> Option<&Op> {
        let mine = |op: &&Op| {
            (op.node, op.life) == (node, life)
                && self.oracle.remote(op.id).is_some_and(|(_, remote)| {
                    (remote.to, remote.region, remote.access) == (to, region, Access::Write)
                        && remote.wrong.is_none()
                        && !remote.superseded
                })
                && !matches!(op.state, State::Ended(Err(_)))
        };
        self.oracle.ops().iter().rev().find(mine)
    }

    fn some_atomic(&mut self) -> Access {
        match self.app.rng.below(3) {
            0 => Access::Add,
            1 => Access::FetchAdd,
            _ => Access::Swap(0),
        }
    }

    /// Where an operation goes, and how long it is.
    fn aim(&mut self, node: u32, to: u32, region: usize, access: &mut Access) -> (u64, u64) {
        let len = self.some_len().max(1);
        let life = self.nodes[node as usize].life;
        let rng = &mut self.app.rng;
        let cell = rng.below(CELLS / 2);
        let of = &self.oracle.regions[region];
        match access {
            Access::Write => (of.next, len),
            Access::Read(_) => {
                let len = len.min(of.fixed);
                (rng.below(of.fixed - len + 1), len)
            }
            Access::ReadBack(write) => {
                self.oracle.remote(*write).map_or((0, 1), |(_, w)| (w.offset, w.len))
            }
            Access::Add | Access::FetchAdd => (of.cell(cell), 8),
            Access::Swap(compare) => {
                let offset = of.cell(cell + CELLS / 2);
                let present = self.nodes[to as usize].memory.region(of.id).and_then(|bytes| {
                    bytes[offset as usize..].first_chunk().map(|b| u64::from_le_bytes(*b))
                });
                // Mostly the present value, so that it succeeds; else a value that never occurs.
                let miss = rng.chance(0.3);
                *compare = if miss { u64::from(life) << 60 | 7 } else { present.unwrap_or(0) };
                (offset, 8)
            }
        }
    }

    /// Posts an operation on memory. Whether it was accepted.
    pub fn post_remote(&mut self, node: u32, to: u32, region: usize, access: Access) -> bool {
        let mut access = access;
        let (mut offset, len) = self.aim(node, to, region, &mut access);
        let Some(mut common) = self.common(node, to) else { return false };
        let order = Order::from_bits_truncate(self.scenario.order);
        let life = self.nodes[node as usize].life;
        let mut overwrites = None;
        if access == Access::Write && order.contains(Order::WAW) && self.app.rng.chance(0.3) {
            overwrites = self.latest_write(node, life, to, region).map(|op| op.id);
        }
        let mut len = len;
        if let Some((_, earlier)) = overwrites.and_then(|id| self.oracle.remote(id)) {
            (offset, len) = (earlier.offset, earlier.len);
        }
        if matches!(access, Access::ReadBack(_)) && !order.contains(Order::RAW) {
            common.fence = true;
        }
        let of = self.oracle.regions[region].clone();
        if access == Access::Write && offset + len > of.len {
            return false;
        }
        let mut wrong = (!of.alive).then_some(OpError::Key);
        let outside = wrong.is_none() && overwrites.is_none() && self.app.rng.chance(0.03);
        if outside {
            wrong = Some(OpError::Bounds);
            offset = of.len + 8;
        }
        let wants_data = access == Access::Write && self.app.rng.chance(0.4);
        let data = wants_data.then(|| self.oracle.next_id());
        let remote = Remote {
            access,
            to,
            to_life: self.nodes[to as usize].life,
            region,
            offset,
            len,
            data,
            wrong,
            superseded: false,
            events: 0,
            former: None,
        };
        if !self.request(node, common, &remote, of.key, of.address + offset) {
            return false;
        }
        self.oracle.post(node, life, self.now, common.signal, Detail::Remote(remote));
        if access == Access::Write && wrong.is_none() {
            let next = &mut self.oracle.regions[region].next;
            *next = (*next).max(offset + len);
        }
        if let Some(earlier) = overwrites.and_then(|id| self.oracle.remote_mut(id)) {
            earlier.superseded = true;
        }
        true
    }

    fn request(&mut self, node: u32, common: Common, op: &Remote, key: u64, address: u64) -> bool {
        let (now, id, len) = (self.local(node), common.context.0, op.len);
        let remote = ofi_xdp_core::Remote { key, address };
        let state = &mut self.nodes[node as usize];
        let memory = &mut state.memory;
        let atomic = |form, op| {
            let datatype = Datatype::Uint64;
            AtomicRequest { common, remote, form, datatype, op, count: 1 }
        };
        let left = |buffer| Buffer { is_left: !common.signal, ..buffer };
        let operands = |words: &[u64], room: usize| {
            let outgoing = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            left(Buffer::new(id, outgoing, vec![CANARY; room]))
        };
        let posted = state.engine.with_mut(|engine| match op.access {
            Access::Write => {
                let request = WriteRequest { common, len, remote, data: op.data };
                engine.post_write(now, request, left(Buffer::outgoing(id, len)), memory)
            }
            Access::Read(_) | Access::ReadBack(_) => {
                let request = ReadRequest { common, len, remote };
                engine.post_read(now, request, left(Buffer::incoming(id, len)), memory)
            }
            Access::Add => {
                let request = atomic(AtomicForm::Base, AtomicOp::Sum);
                engine.post_atomic(now, request, operands(&[1], 0), memory)
            }
            Access::FetchAdd => {
                let request = atomic(AtomicForm::Fetch, AtomicOp::Sum);
                engine.post_atomic(now, request, operands(&[1], 8), memory)
            }
            Access::Swap(compare) => {
                let request = atomic(AtomicForm::Compare, AtomicOp::Cswap);
                engine.post_atomic(now, request, operands(&[id, compare], 8), memory)
            }
        });
        posted.is_ok()
    }
}
