// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations under way, and messages between them: the values that live in the engine's slots.

use crate::atomic::{AtomicOp, Datatype};
use crate::serial::{Msn, Psn};
use crate::slab::{Link, Links};
use crate::wire::{Envelope, ErrorCode};
use crate::{
    AtomicForm, Common, Context, OpError, OpId, OpKind, PeerId, RecvId, RecvRequest, RegionId,
    Remote, UnexpectedId,
};

/// Pools of [`TxOp`]: what the application posted, answers to requests of peers, requests for the
/// bytes of long messages. Each has its own slots, so that none waits for another.
pub(crate) const POSTED: usize = 0;
pub(crate) const RESPONSES: usize = 1;
pub(crate) const PULLS: usize = 2;

/// Pools of [`RecvOp`]: posted receives, messages in buffers for many, and events of remote writes.
pub(crate) const RECVS: usize = 0;
pub(crate) const PARTS: usize = 1;
pub(crate) const EVENTS: usize = 2;

/// Where the bytes of a response come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Supply {
    /// Registered memory, from this offset on.
    Region(RegionId, u64),
    /// A message of ours that the peer pulls, from this offset on.
    Message(OpId, u64),
    /// What an atomic found, kept under this response's own name.
    Former,
    /// Nowhere: the request was in error.
    Nothing(ErrorCode),
}

/// Whether an operation was deferred (`fi_trigger(3)`): its end is told to whoever did that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum Deferred {
    #[default]
    No,
    /// And to nobody else, unless it is an error.
    Silent,
    /// And then as that of any other.
    Told,
}

/// What a [`TxOp`] sends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum TxKind {
    /// A message, pushed.
    Message(Envelope),
    /// A long message: announced, and pulled by the receiver.
    Rendezvous(Envelope),
    /// A write to the peer's memory.
    Write { remote: Remote, data: Option<u64> },
    /// A read of the peer's memory.
    Read { remote: Remote },
    /// An atomic operation on the peer's memory.
    Atomic { remote: Remote, form: AtomicForm, datatype: Datatype, op: AtomicOp, count: u16 },
    /// Bytes that the peer's operation `request` asked for; there they begin at `offset`.
    Response { request: OpId, supply: Supply, offset: u64 },
    /// An operation of the peer that has no response of its own was in error.
    Error { request: OpId, code: ErrorCode },
    /// A request for a part of the message `handle` of the peer, which receive `recv` has matched.
    Pull { recv: u32, handle: u64, offset: u64 },
    /// The message `handle` of the peer is pulled as far as this side wants it.
    Fin { handle: u64 },
}

/// An operation that sends packets: posted by the application, or made to answer a peer.
#[derive(Clone, Debug, Hash)]
pub struct TxOp {
    pub(crate) context: Context,
    pub(crate) peer: PeerId,
    pub(crate) kind: TxKind,
    /// Bytes of it altogether.
    pub(crate) total: u64,
    /// Bytes handed to packets in the current attempt (of a read: asked for).
    pub(crate) sent: u64,
    /// Bytes that have not come back (of a read or an atomic that fetches).
    pub(crate) missing: u64,
    /// Packets of the current attempt that are not acknowledged.
    pub(crate) in_flight: u32,
    /// Place in the order of its list.
    pub(crate) serial: u32,
    /// Where earlier writes end that it must not overtake.
    pub(crate) after: Option<Psn>,
    /// All of it has been handed to packets.
    pub(crate) all_sent: bool,
    /// The peer has sent all that was asked of it; of a rendezvous, it has said that it wants no
    /// more.
    pub(crate) answered: bool,
    /// It has ended, and waits for its completion to be polled.
    pub(crate) done: bool,
    pub(crate) signal: bool,
    /// If it was, it is not to be signalled.
    pub(crate) deferred: Deferred,
    pub(crate) fence: bool,
    /// It may have to wait for more than its turn: a fence, a request, or where orders were
    /// promised.
    pub(crate) gated: bool,
    /// The receiver-not-ready epoch of the current attempt.
    pub(crate) rnr_epoch: u8,
    pub(crate) outcome: Result<(), OpError>,
    pub(crate) links: Links,
}

impl Default for TxOp {
    fn default() -> Self {
        Self {
            context: Context::default(),
            peer: PeerId::NONE,
            kind: TxKind::Fin { handle: 0 },
            total: 0,
            sent: 0,
            missing: 0,
            in_flight: 0,
            serial: 0,
            after: None,
            all_sent: false,
            answered: false,
            done: false,
            signal: false,
            deferred: Deferred::No,
            fence: false,
            gated: false,
            rnr_epoch: 0,
            outcome: Ok(()),
            links: Links::default(),
        }
    }
}

impl TxOp {
    /// An operation that the application posts.
    #[inline]
    pub(crate) fn posted(common: &Common, kind: TxKind, total: u64) -> Self {
        let missing = match kind {
            TxKind::Read { .. } => total,
            TxKind::Atomic { form: AtomicForm::Fetch | AtomicForm::Compare, .. } => total,
            _ => 0,
        };
        Self {
            context: common.context,
            peer: common.peer,
            kind,
            total,
            missing,
            signal: common.signal,
            fence: common.fence,
            ..Self::default()
        }
    }

    /// The envelope, if it is a message of either kind: one that has a place in the order of
    /// messages, and that the receiver may not be ready for.
    #[inline]
    pub(crate) const fn envelope(&self) -> Option<&Envelope> {
        match &self.kind {
            TxKind::Message(envelope) | TxKind::Rendezvous(envelope) => Some(envelope),
            _ => None,
        }
    }

    /// Whether the peer answers it with bytes, for which it keeps a context.
    #[inline]
    pub(crate) const fn is_request(&self) -> bool {
        match self.kind {
            TxKind::Read { .. } | TxKind::Pull { .. } => true,
            TxKind::Atomic { form, .. } => !matches!(form, AtomicForm::Base),
            _ => false,
        }
    }

    /// Whether the peer's application is told of it.
    #[inline]
    pub(crate) const fn brings_data(&self) -> bool {
        matches!(self.kind, TxKind::Write { data: Some(_), .. })
    }

    /// Whether it changes the peer's memory.
    #[inline]
    pub(crate) const fn is_write(&self) -> bool {
        matches!(self.kind, TxKind::Write { .. } | TxKind::Atomic { .. })
    }

    /// What its completion calls it; nothing for what the application did not post.
    #[inline]
    pub(crate) const fn op_kind(&self) -> OpKind {
        match &self.kind {
            TxKind::Message(envelope) | TxKind::Rendezvous(envelope) => {
                OpKind::Send { tagged: envelope.tag.is_some() }
            }
            TxKind::Read { .. } => OpKind::Read,
            TxKind::Atomic { .. } => OpKind::Atomic,
            _ => OpKind::Write,
        }
    }
}

impl Link for TxOp {
    fn link(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// How far the pulling of a long message has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct PullState {
    /// The sender's name for the message.
    pub(crate) handle: u64,
    /// Bytes wanted, and of those the bytes asked for.
    pub(crate) wanted: u64,
    pub(crate) asked: u64,
    /// Requests that are not answered in full.
    pub(crate) open: u32,
    /// It waits for its turn to ask for more.
    pub(crate) queued: bool,
}

/// What a [`RecvOp`] is there for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum RecvKind {
    /// One message, into its buffer.
    One,
    /// The same, from a queue that engines share: its completion names its slot.
    Shared,
    /// To tell of a message that waits, or to drop it: it has no buffer.
    Probe,
    /// Many messages, one behind the other in its buffer.
    Many(Many),
    /// A message in the buffer of the receive in slot `of`.
    Part {
        /// That slot, or [`NIL`](crate::slab::NIL) when this message has ended.
        of: u32,
        /// With it, the buffer is the application's again.
        last: bool,
    },
    /// To tell of a remote write.
    Event,
}

/// How far a buffer for many messages is used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Many {
    /// Bytes from its beginning on that belong to messages.
    pub(crate) used: u64,
    /// It takes no more messages when fewer bytes than this are left.
    pub(crate) least: u64,
    /// Messages in it that have not ended.
    pub(crate) open: u32,
    /// It takes no more messages: it is out of its queue, and ends with the last of them.
    pub(crate) closed: bool,
}

/// A posted receive, or a message in a buffer for many; or the event of a remote write.
#[derive(Clone, Debug, Hash)]
pub struct RecvOp {
    pub(crate) request: RecvRequest,
    pub(crate) kind: RecvKind,
    /// Who it matched, and what.
    pub(crate) peer: PeerId,
    pub(crate) envelope: Envelope,
    pub(crate) pull: PullState,
    /// Of an event: the number of its packet. It is told when everything before that has arrived.
    pub(crate) psn: Psn,
    /// If it was, it is not to be signalled.
    pub(crate) deferred: Deferred,
    pub(crate) outcome: Result<(), OpError>,
    pub(crate) links: Links,
}

impl Default for RecvOp {
    fn default() -> Self {
        let request =
            RecvRequest { from: None, len: 0, context: Context(0), tag: None, signal: false };
        Self {
            request,
            kind: RecvKind::One,
            peer: PeerId::NONE,
            envelope: Envelope::default(),
            pull: PullState::default(),
            psn: Psn(0),
            deferred: Deferred::No,
            outcome: Ok(()),
            links: Links::default(),
        }
    }
}

impl Link for RecvOp {
    fn link(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Where the parts of a message go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Landing {
    /// To the receive that it matched.
    Recv(RecvId),
    /// Into storage.
    Stored(UnexpectedId),
}

/// A message of several packets that is arriving.
#[derive(Clone, Debug, Hash)]
pub struct Assembly {
    pub(crate) msn: Msn,
    /// Only segments of this attempt count.
    pub(crate) rnr_epoch: u8,
    /// Length of the message; a segment that says otherwise is not of it.
    pub(crate) total: u64,
    /// Bytes that have not arrived.
    pub(crate) missing: u64,
    pub(crate) landing: Landing,
    pub(crate) links: Links,
}

impl Default for Assembly {
    fn default() -> Self {
        Self {
            msn: Msn(0),
            rnr_epoch: 0,
            total: 0,
            missing: 0,
            landing: Landing::Stored(UnexpectedId::NONE),
            links: Links::default(),
        }
    }
}

impl Link for Assembly {
    fn link(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// What a stored message waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Holder {
    /// A receive that fits, or an earlier message of its sender.
    Nobody,
    /// The receive in this slot has matched it: for the rest of its bytes.
    Recv(u32),
    /// The application has claimed it with this context: for the receive with the same.
    Claim(Context),
    /// It is not wanted: for the rest of its bytes.
    Discard,
}

/// A stored message: waiting for a receive, or for an earlier message of its sender.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Unexpected {
    pub(crate) peer: PeerId,
    pub(crate) envelope: Envelope,
    /// All of it has arrived.
    pub(crate) complete: bool,
    /// It was announced only: the sender's name for it.
    pub(crate) handle: Option<u64>,
    /// What it waits for.
    pub(crate) holder: Holder,
    /// It is claimed, and the rest of it will never come.
    pub(crate) failed: Option<OpError>,
    pub(crate) links: Links,
}

impl Default for Unexpected {
    fn default() -> Self {
        Self {
            peer: PeerId::NONE,
            envelope: Envelope::default(),
            complete: false,
            handle: None,
            holder: Holder::Nobody,
            failed: None,
            links: Links::default(),
        }
    }
}
