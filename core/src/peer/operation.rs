// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations under way, and messages between them: the values that live in the engine's slots.

use crate::api::atomic::{AtomicOp, Datatype};
use crate::api::hosts::Host;
use crate::api::matching::MultiRecv;
use crate::api::posted::Posted;
use crate::collections::coverage::Covered;
use crate::collections::list::{Link, Links};
use crate::collections::serial::{Msn, Psn};
use crate::collections::slab::Slab;
use crate::peer::slots::{AssemblySlot, OpSlot, RecvSlot, StoredSlot};
use crate::peer::watch::Strikes;
use crate::wire::{Envelope, ErrorCode, READ_LEN_MAX};
use crate::{
    AtomicForm, Common, Context, OpError, OpId, OpKind, PeerId, RecvId, RecvRequest, RegionId,
    Remote, TagMatch, UnexpectedId,
};

/// Pools of [`TxOp`]: operations that the application posted, responses to requests of peers,
/// requests for the bytes of long messages. Each has its own slots, so that none waits for another.
pub(crate) const POSTED: usize = 0;
pub(crate) const RESPONSES: usize = 1;
pub(crate) const RENDEZVOUS_READS: usize = 2;

/// Pools of [`RecvOp`]: posted receives, slices of multi-receive buffers, and events of remote
/// writes.
pub(crate) const RECVS: usize = 0;
pub(crate) const SLICES: usize = 1;
pub(crate) const EVENTS: usize = 2;

/// The pool of operations that send packets.
pub(crate) type OpPool<'s> = Slab<'s, TxOp, OpSlot, 3>;
/// The pool of receives, slices of multi-receive buffers, and events.
pub(crate) type RecvPool<'s> = Slab<'s, RecvOp, RecvSlot, 3>;

/// Where the bytes of a response come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ResponseData {
    /// Registered memory, from this offset on. The flag: the read counts when the response ends.
    Region(RegionId, u64, bool),
    /// A message of this side that the peer reads, from this offset on.
    Message(OpId, u64),
    /// The value before an atomic operation, kept under this response's own name.
    PreviousValue,
    /// None: the request was in error.
    Error(ErrorCode),
}

/// Whether an operation was deferred (`fi_trigger(3)`), and how its end is reported.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum Deferred {
    #[default]
    No,
    /// Its end is not signalled, unless it is an error.
    Suppressed,
    /// Its end is also signalled.
    Notified,
    /// Its end is not signalled: its endpoint is closed.
    Discarded,
}

impl Deferred {
    /// Whether an end of the operation is also signalled.
    pub(crate) const fn signals(self, success: bool) -> bool {
        match self {
            Self::No | Self::Suppressed => !success,
            Self::Notified => true,
            Self::Discarded => false,
        }
    }
}

/// The contents of a [`TxOp`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum TxKind {
    /// A message, pushed.
    Message(Envelope),
    /// A long message: announced, and read by the receiver.
    Rendezvous(Envelope),
    /// A write to the peer's memory.
    Write { remote: Remote, data: Option<u64> },
    /// A read of the peer's memory.
    Read { remote: Remote, covered: Covered },
    /// An atomic operation on the peer's memory.
    Atomic {
        remote: Remote,
        form: AtomicForm,
        datatype: Datatype,
        op: AtomicOp,
        count: u16,
        covered: Covered,
    },
    /// Bytes that the peer's operation `request` requested; there they begin at `offset`.
    Response { request: OpId, data: ResponseData, offset: u64 },
    /// An operation of the peer that has no response of its own was in error.
    Error { request: OpId, code: ErrorCode },
    /// A request for a part of the message `handle` of the peer, which receive `recv` has matched.
    RendezvousRead { recv: RecvSlot, handle: u64, offset: u64, covered: Covered },
    /// The message `handle` of the peer is read as far as this side wants it.
    Fin { handle: u64 },
}

impl TxKind {
    /// The requested bytes that have come back.
    pub(crate) const fn covered_mut(&mut self) -> Option<&mut Covered> {
        match self {
            Self::Read { covered, .. }
            | Self::Atomic { covered, .. }
            | Self::RendezvousRead { covered, .. } => Some(covered),
            _ => None,
        }
    }
}

/// An operation that sends packets: posted by the application, or internal.
#[derive(Clone, Debug, Hash)]
pub(crate) struct TxOp {
    pub(crate) context: Context,
    pub(crate) peer: PeerId,
    pub(crate) kind: TxKind,
    /// Bytes of it altogether.
    pub(crate) total: u64,
    /// Bytes handed to packets in the current attempt; of a read, the requested bytes.
    pub(crate) sent: u64,
    /// Bytes that have not come back (of a read or an atomic that fetches).
    pub(crate) missing: u64,
    /// Packets of the current attempt that are not acknowledged.
    pub(crate) in_flight: u32,
    /// Position in the order of its list.
    pub(crate) serial: u32,
    /// The end of earlier writes that it must not overtake.
    pub(crate) after: Option<Psn>,
    /// All of it has been handed to packets.
    pub(crate) all_sent: bool,
    /// The peer has sent all requested bytes; of a rendezvous, it wants no more.
    pub(crate) answered: bool,
    /// It has ended, and waits for its completion to be polled.
    pub(crate) done: bool,
    pub(crate) signal: bool,
    /// Whether it is deferred: then it is not signalled.
    pub(crate) deferred: Deferred,
    pub(crate) fence: bool,
    /// It may have to wait for other operations or for credit: it has a fence, is a request, or
    /// orders were promised.
    pub(crate) has_ordering_deps: bool,
    /// The receiver-not-ready epoch of the current attempt.
    pub(crate) rnr_epoch: u8,
    pub(crate) outcome: Result<(), OpError>,
    pub(crate) links: Links<OpSlot>,
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
            has_ordering_deps: false,
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

    /// The envelope of a message of either kind: it has a position in the order of messages, and
    /// the receiver may not be ready for it.
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
            TxKind::Read { .. } | TxKind::RendezvousRead { .. } => true,
            TxKind::Atomic { form, .. } => !matches!(form, AtomicForm::Base),
            _ => false,
        }
    }

    /// Bytes of a request that have come back.
    #[inline]
    pub(crate) const fn arrived(&self) -> u64 {
        self.total - self.missing
    }

    /// Requests that are not answered in full: those sent, without one for each full length that
    /// has come back. A responder answers one request after the other, so that as many answers are
    /// complete when every packet so far has arrived.
    #[inline]
    pub(crate) fn open_requests(&self) -> u64 {
        let most = u64::from(READ_LEN_MAX);
        if self.answered { 0 } else { self.sent.div_ceil(most).max(1) - self.arrived() / most }
    }

    /// Whether the peer's application gets an event of it.
    #[inline]
    pub(crate) const fn brings_data(&self) -> bool {
        matches!(self.kind, TxKind::Write { data: Some(_), .. })
    }

    /// Whether it changes the peer's memory.
    #[inline]
    pub(crate) const fn is_write(&self) -> bool {
        matches!(self.kind, TxKind::Write { .. } | TxKind::Atomic { .. })
    }

    /// The kind in its completion; meaningless for internal operations.
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

impl Link<OpSlot> for TxOp {
    fn link(&mut self) -> &mut Links<OpSlot> {
        &mut self.links
    }
}

/// Progress of a rendezvous.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct RendezvousState {
    /// The sender's name for the message.
    pub(crate) handle: u64,
    /// Wanted bytes, and requested ones among them.
    pub(crate) wanted: u64,
    pub(crate) asked: u64,
    /// Requests that are not answered in full.
    pub(crate) open: u32,
    /// The number of the connection that announced it.
    pub(crate) epoch: u16,
    /// It is in the rendezvous queue.
    pub(crate) queued: bool,
}

/// The purpose of a [`RecvOp`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum RecvKind {
    /// One message, into its buffer.
    One,
    /// One message, for a receive from a shared queue: its completion names its slot.
    Shared,
    /// A peek: it reports a stored message, or drops it, and has no buffer.
    Peek,
    /// A multi-receive buffer.
    MultiRecv(MultiRecv),
    /// A slice: a message in the buffer of the receive in slot `of`.
    Slice {
        /// That slot, or none when this message has ended.
        of: RecvSlot,
        /// Its end releases the buffer to the application.
        last: bool,
    },
    /// The event of a remote write, and the host, where its peers have a share together.
    Event(Option<Host>),
}

/// A posted receive, a slice of a multi-receive buffer, or the event of a remote write.
#[derive(Clone, Debug, Hash)]
pub(crate) struct RecvOp {
    pub(crate) request: RecvRequest,
    pub(crate) kind: RecvKind,
    /// The peer and the envelope of the matched message.
    pub(crate) peer: PeerId,
    pub(crate) envelope: Envelope,
    pub(crate) rendezvous: RendezvousState,
    /// The packet number of an event. It is delivered when everything before that has arrived.
    pub(crate) psn: Psn,
    /// Whether it is deferred: then it is not signalled.
    pub(crate) deferred: Deferred,
    pub(crate) outcome: Result<(), OpError>,
    pub(crate) links: Links<RecvSlot>,
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
            rendezvous: RendezvousState::default(),
            psn: Psn(0),
            deferred: Deferred::No,
            outcome: Ok(()),
            links: Links::default(),
        }
    }
}

impl Link<RecvSlot> for RecvOp {
    fn link(&mut self) -> &mut Links<RecvSlot> {
        &mut self.links
    }
}

impl Posted<RecvSlot> for RecvOp {
    type Source = PeerId;

    #[inline]
    fn wanted(&self) -> (Option<PeerId>, Option<TagMatch>) {
        (self.request.from, self.request.tag)
    }
}

/// The destination of the segments of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum MessageDestination {
    /// The receive that it matched.
    Recv(RecvId),
    /// Storage.
    Stored(UnexpectedId),
}

/// A message of several packets that is arriving.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Assembly {
    pub(crate) msn: Msn,
    /// Only segments of this attempt count.
    pub(crate) rnr_epoch: u8,
    /// Length of the message; a segment with another length belongs to another one.
    pub(crate) total: u64,
    /// Bytes that have not arrived.
    pub(crate) missing: u64,
    /// The bytes that have.
    pub(crate) covered: Covered,
    pub(crate) destination: MessageDestination,
    /// Whether it grows.
    pub(crate) growth: Strikes,
    /// The host that has a share of the slots.
    pub(crate) host: Host,
    /// The reason of the end of its connection, in the first of those that end with it.
    pub(crate) ended: Option<OpError>,
    pub(crate) links: Links<AssemblySlot>,
}

impl Default for Assembly {
    fn default() -> Self {
        Self {
            msn: Msn(0),
            rnr_epoch: 0,
            total: 0,
            missing: 0,
            covered: Covered::default(),
            destination: MessageDestination::Stored(UnexpectedId::NONE),
            growth: Strikes::default(),
            host: Host::default(),
            ended: None,
            links: Links::default(),
        }
    }
}

impl Link<AssemblySlot> for Assembly {
    fn link(&mut self) -> &mut Links<AssemblySlot> {
        &mut self.links
    }
}

/// The state of a stored message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum StoredState {
    /// Neither matched nor claimed.
    Unmatched,
    /// Matched by the receive in this slot, while bytes are missing.
    Matched(RecvSlot),
    /// Claimed by the application with this context.
    Claimed(Context),
    /// Dropped, while bytes are missing.
    Discarded,
}

/// A stored message: waiting for a receive, or for an earlier message of its sender.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Unexpected {
    pub(crate) peer: PeerId,
    /// The number of the connection that brought it.
    pub(crate) epoch: u16,
    /// The host, where its peers have a share together.
    pub(crate) host: Option<Host>,
    pub(crate) envelope: Envelope,
    /// All of it has arrived.
    pub(crate) complete: bool,
    /// It was announced only: the sender's name for it.
    pub(crate) handle: Option<u64>,
    /// Its state.
    pub(crate) state: StoredState,
    /// It is claimed, and its rest will not arrive.
    pub(crate) failed: Option<OpError>,
    /// It is put out when the storage is full.
    pub(crate) orphaned: bool,
    /// Messages of its sender before it are accepted; it is still among those out of order.
    pub(crate) is_next: bool,
    /// The batch of a message out of order, 0 of any other: messages out of order of one connection
    /// are discarded together.
    pub(crate) batch: u32,
    /// The neighbours among orphans, or among next messages.
    pub(crate) aside: Links<StoredSlot>,
    pub(crate) chains: Chains,
    pub(crate) links: Links<StoredSlot>,
}

impl Default for Unexpected {
    fn default() -> Self {
        Self {
            peer: PeerId::NONE,
            epoch: 0,
            host: None,
            envelope: Envelope::default(),
            complete: false,
            handle: None,
            state: StoredState::Unmatched,
            failed: None,
            orphaned: false,
            is_next: false,
            batch: 0,
            aside: Links::default(),
            chains: Chains::default(),
            links: Links::default(),
        }
    }
}

/// The links of a stored message in the chains of its bins: one for each view of the messages
/// ([`crate::engine`]'s `StoredQueue`).
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Chains {
    pub(crate) links: [Links<StoredSlot>; VIEWS],
    /// It is in them.
    pub(crate) binned: bool,
    /// The number of the view that was last being made when this message came into it.
    pub(crate) made: u32,
}

/// Views of the stored messages.
pub(crate) const VIEWS: usize = 5;
