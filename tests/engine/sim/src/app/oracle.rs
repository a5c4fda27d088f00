// SPDX-License-Identifier: MIT OR Apache-2.0
//! The oracle: the required and the actual result of each operation.
//!
//! In: posts, completions, and excuses for failures (a restart, a partition, ...). Out: facts
//! for the checkers in [`delivery`](crate::invariants::delivery). Operations are numbered from 1
//! over the whole run; the number is the context, and the first bytes of the message.

use super::state::Region;
use ofi_xdp_core::{Context, OpError, TagMatch};
use std::collections::BTreeMap;

/// Where an operation stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Posted.
    Pending,
    /// Its completion was polled.
    Ended(Result<(), OpError>),
    /// Its node was killed.
    Vanished,
}

/// A send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Send {
    /// Destination.
    pub to: u32,
    /// The destination's life when it was posted.
    pub to_life: u32,
    /// Bytes.
    pub len: u64,
    /// Tag.
    pub tag: Option<u64>,
    /// Remote CQ data.
    pub data: Option<u64>,
    /// How often it was received.
    pub deliveries: u32,
}

/// A receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recv {
    /// Wanted source.
    pub from: Option<u32>,
    /// Room in bytes.
    pub len: u64,
    /// Wanted tags.
    pub tag: Option<TagMatch>,
    /// The send that it received.
    pub got: Option<u64>,
    /// The application tried to cancel it while others were being matched.
    pub cancelled: bool,
}

impl Recv {
    /// Whether it takes `send`, which came from `source`.
    #[must_use]
    pub fn takes(&self, source: u32, send: &Send) -> bool {
        self.from.is_none_or(|from| from == source)
            && match (self.tag, send.tag) {
                (Some(want), Some(tag)) => (want.tag ^ tag) & !want.ignore == 0,
                (None, None) => true,
                _ => false,
            }
    }
}

/// An access to a peer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// A write.
    Write,
    /// A read of bytes that belong to this number.
    Read(u64),
    /// A read of the bytes of this earlier write.
    ReadBack(u64),
    /// Adds 1.
    Add,
    /// Adds 1, and brings the former number.
    FetchAdd,
    /// Swaps the operation's number for this one.
    Swap(u64),
}

/// An operation on a peer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// The access.
    pub access: Access,
    /// The node with the memory.
    pub to: u32,
    /// The target's life when it was posted.
    pub to_life: u32,
    /// Which region, by the oracle's number.
    pub region: usize,
    /// Where in it.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Remote CQ data.
    pub data: Option<u64>,
    /// The error that it must end with.
    pub wrong: Option<OpError>,
    /// A later write goes to the same place.
    pub superseded: bool,
    /// Remote CQ events that were seen.
    pub events: u32,
    /// The previous value that an atomic returned.
    pub former: Option<u64>,
}

/// The kind of an operation, with its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// An operation on a peer's memory.
    Remote(Remote),
    /// A send.
    Send(Send),
    /// A receive.
    Recv(Recv),
}

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// Its number.
    pub id: u64,
    /// The node that posted it.
    pub node: u32,
    /// In which of the node's lives.
    pub life: u32,
    /// World time of the post.
    pub posted: u64,
    /// Whether success makes a completion.
    pub signal: bool,
    /// Its kind.
    pub detail: Detail,
    /// Where it stands.
    pub state: State,
}

impl Op {
    /// The other node of the operation; `None` for receives.
    #[must_use]
    pub const fn to(&self) -> Option<u32> {
        match &self.detail {
            Detail::Send(send) => Some(send.to),
            Detail::Remote(remote) => Some(remote.to),
            Detail::Recv(_) => None,
        }
    }

    /// Whether its completion reported success.
    #[must_use]
    pub const fn succeeded(&self) -> bool {
        match self.state {
            State::Ended(outcome) => outcome.is_ok(),
            State::Pending => !self.signal,
            State::Vanished => false,
        }
    }
}

/// Since when failures between two nodes are excused.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    last: u64,
    /// When the first operation was posted that succeeded after the trouble.
    cleared: Option<u64>,
}

/// All operations of a run.
#[derive(Debug, Default)]
pub struct Oracle {
    ops: Vec<Op>,
    /// Regions, by the order of their registration.
    pub regions: Vec<Region>,
    /// Messages that each life of each node has received, in order: receive and send.
    received: BTreeMap<(u32, u32), Vec<(u64, u64)>>,
    /// Receives of each life of each node, in posting order.
    posted: BTreeMap<(u32, u32), Vec<u64>>,
    trouble: BTreeMap<(u32, u32), Trouble>,
    /// Nodes that have removed a peer: their directed receives may name a removed peer.
    pub removed_peers: BTreeMap<u32, u32>,
    /// Operations without a completion so far, receives left out.
    pub open: u64,
    /// Failures need an excuse. Off where the network is bad enough to kill connections.
    pub strict: bool,
    /// Received messages may be anything: packets are forged.
    pub anything_goes: bool,
}

impl Oracle {
    /// Notes a post; returns its number.
    pub fn post(&mut self, node: u32, life: u32, posted: u64, signal: bool, detail: Detail) -> u64 {
        let id = self.ops.len() as u64 + 1;
        match detail {
            Detail::Recv(_) => self.posted.entry((node, life)).or_default().push(id),
            _ => self.open += u64::from(signal),
        }
        self.ops.push(Op { id, node, life, posted, signal, detail, state: State::Pending });
        id
    }

    /// The number that the next post gets.
    #[must_use]
    pub fn next_id(&self) -> u64 {
        self.ops.len() as u64 + 1
    }

    /// An operation.
    #[must_use]
    pub fn op(&self, id: u64) -> Option<&Op> {
        self.ops.get(usize::try_from(id.checked_sub(1)?).ok()?)
    }

    /// An operation that is known.
    pub fn op_mut(&mut self, context: Context) -> Option<&mut Op> {
        self.ops.get_mut(usize::try_from(context.0.checked_sub(1)?).ok()?)
    }

    /// All operations.
    #[must_use]
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// A send, by number.
    #[must_use]
    pub fn send(&self, id: u64) -> Option<(&Op, &Send)> {
        let op = self.op(id)?;
        match &op.detail {
            Detail::Send(send) => Some((op, send)),
            _ => None,
        }
    }

    /// An operation on a peer's memory, by number.
    #[must_use]
    pub fn remote(&self, id: u64) -> Option<(&Op, &Remote)> {
        let op = self.op(id)?;
        match &op.detail {
            Detail::Remote(remote) => Some((op, remote)),
            _ => None,
        }
    }

    /// A mutable reference to the operation `id`, if it is one on remote memory.
    pub fn remote_mut(&mut self, id: u64) -> Option<&mut Remote> {
        match &mut self.op_mut(Context(id))?.detail {
            Detail::Remote(remote) => Some(remote),
            _ => None,
        }
    }

    /// A receive, by number.
    #[must_use]
    pub fn recv(&self, id: u64) -> Option<(&Op, &Recv)> {
        let op = self.op(id)?;
        match &op.detail {
            Detail::Recv(recv) => Some((op, recv)),
            _ => None,
        }
    }

    /// Notes an end.
    pub fn end(&mut self, id: u64, outcome: Result<(), OpError>) {
        let Some(op) = self.op_mut(Context(id)) else { return };
        op.state = State::Ended(outcome);
        let op = *op;
        let Some(to) = op.to() else { return };
        self.open -= u64::from(op.signal);
        if outcome.is_ok() {
            let trouble = self.trouble.entry((op.node, to)).or_default();
            if op.posted > trouble.last {
                trouble.cleared = Some(trouble.cleared.map_or(op.posted, |c| c.min(op.posted)));
            }
        }
    }

    /// Notes that receive `recv` of a life of a node got `send`; for the order of messages, if that
    /// `is_certain`.
    pub fn deliver(&mut self, of: (u32, u32), (recv, send): (u64, u64), is_certain: bool) {
        if is_certain {
            self.received.entry(of).or_default().push((recv, send));
        }
        if let Some(Op { detail: Detail::Recv(recv), .. }) = self.op_mut(Context(recv)) {
            recv.got = Some(send);
        }
        if let Some(Op { detail: Detail::Send(send), .. }) = self.op_mut(Context(send)) {
            send.deliveries += 1;
        }
    }

    /// The messages that a life of a node has received for certain.
    #[must_use]
    pub fn received(&self, node: u32, life: u32) -> &[(u64, u64)] {
        self.received.get(&(node, life)).map_or(&[], Vec::as_slice)
    }

    /// The receives of a life of a node, in posting order.
    #[must_use]
    pub fn posted(&self, node: u32, life: u32) -> &[u64] {
        self.posted.get(&(node, life)).map_or(&[], Vec::as_slice)
    }

    /// A node was killed: its operations end unseen.
    pub fn vanish(&mut self, node: u32) {
        let mut closed = 0;
        for op in self.ops.iter_mut().filter(|op| op.node == node && op.state == State::Pending) {
            op.state = State::Vanished;
            closed += u64::from(op.signal && op.to().is_some());
        }
        self.open -= closed;
    }

    /// Records an event at `now` that may end the connection of two nodes.
    pub fn excuse(&mut self, one: u32, other: u32, now: u64) {
        for pair in [(one, other), (other, one)] {
            self.trouble.insert(pair, Trouble { last: now, cleared: None });
        }
    }

    /// Something happened at `now` that may end everything that a node has.
    pub fn excuse_node(&mut self, node: u32, nodes: u32, now: u64) {
        for other in 0..nodes {
            self.excuse(node, other, now);
        }
    }

    /// Whether an operation from `from` with `to` that was posted at `posted` may fail.
    #[must_use]
    pub fn is_excused(&self, from: u32, to: u32, posted: u64) -> bool {
        !self.strict
            || self
                .trouble
                .get(&(from, to))
                .is_some_and(|t| t.cleared.is_none_or(|cleared| posted < cleared))
    }
}
