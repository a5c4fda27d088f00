// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of a data call of libfabric: a [`Request`] for sends, writes, reads and atomic
//! operations, a [`Recv`] for receives.
//!
//! In: made by `c_api` from the arguments of a call, of deferred work or of a triggered operation.
//! Out: taken by [`Runtime::post`](super::Runtime::post) and
//! [`Runtime::receive`](super::Runtime::receive), after the endpoint has resolved the flags.

use ofi_xdp_core::{
    ATOMIC_LEN_MAX, AtomicForm, AtomicOp, Context, Datatype, Peek, PeerId, Remote, TagMatch,
};

use crate::runtime::memory::Buffer;
use crate::sys::abi::{bits, fi_addr_t};
use crate::sys::errno::Error;

/// The origin of an operation's flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpFlags {
    /// The endpoint's default flags: calls without a flags argument.
    Default,
    /// The flags argument: `sendmsg`, `recvmsg` and their kin.
    Given(u64),
    /// The flags of deferred work: the work queue is notified of the end, and a completion is
    /// written only if the flags ask for one.
    Deferred(u64),
    /// `inject` calls: the buffer is copied, success writes no completion.
    Inject,
}

impl OpFlags {
    /// Whether the call has remote CQ data (`FI_REMOTE_CQ_DATA`).
    pub(crate) const fn brings_data(self) -> bool {
        matches!(self, Self::Given(flags) | Self::Deferred(flags)
            if flags & bits::REMOTE_CQ_DATA != 0)
    }
}

/// An operation of an initiator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The local memory: read by sends and writes, written by reads and fetching atomics.
    pub(crate) buffer: Buffer,
    /// The destination or target.
    pub(crate) peer: fi_addr_t,
    /// The application's context of the operation.
    pub(crate) context: Context,
    /// Its flags, not yet resolved.
    pub(crate) flags: OpFlags,
    /// The operation.
    pub(crate) kind: RequestKind,
}

/// The kinds of operations, with the arguments that only they have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestKind {
    /// A message, tagged or not.
    Send {
        /// The tag of a tagged message.
        tag: Option<u64>,
        /// Remote CQ data.
        data: Option<u64>,
    },
    /// A write to a peer's memory.
    Write {
        /// The peer's memory.
        remote: Remote,
        /// Remote CQ data.
        data: Option<u64>,
    },
    /// A read of a peer's memory.
    Read {
        /// The peer's memory.
        remote: Remote,
    },
    /// An atomic operation on a peer's memory.
    Atomic(Atomic),
}

impl RequestKind {
    /// Whether the request's buffer is the source of its data.
    #[inline]
    pub(crate) const fn sends_buffer(&self) -> bool {
        matches!(self, Self::Send { .. } | Self::Write { .. })
    }
}

/// The arguments that only an atomic operation has. The request's buffer is for the previous
/// values; it is empty if they are not asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    /// One operand for each element; empty for a plain read.
    pub(crate) operands: Buffer,
    /// The values to compare with; empty if the operation compares nothing.
    pub(crate) compare: Buffer,
    /// Which of the three calls.
    pub(crate) form: AtomicForm,
    /// Type of the elements.
    pub(crate) datatype: Datatype,
    /// The arithmetic.
    pub(crate) op: AtomicOp,
    /// Number of elements.
    pub(crate) count: usize,
    /// The peer's memory.
    pub(crate) remote: Remote,
}

impl Atomic {
    /// The number of elements, for the wire.
    ///
    /// # Errors
    /// [`Error::TooLong`] beyond the capacity of one operation.
    pub(super) fn count(&self) -> Result<u16, Error> {
        if self.count > ATOMIC_LEN_MAX / self.datatype.size() {
            return Err(Error::TooLong);
        }
        u16::try_from(self.count).map_err(|_| Error::TooLong)
    }
}

/// A receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recv {
    /// Where the message goes.
    pub(crate) buffer: Buffer,
    /// With `FI_DIRECTED_RECV`, the source; `FI_ADDR_UNSPEC` for any.
    pub(crate) from: fi_addr_t,
    /// The tag rule of a tagged receive.
    pub(crate) tag: Option<TagMatch>,
    /// The application's context of the operation.
    pub(crate) context: Context,
    /// Its flags, not yet resolved.
    pub(crate) flags: OpFlags,
}

/// The resolved flags of a [`Request`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpOptions {
    /// Whether the buffer is copied by the call (`FI_INJECT`).
    pub(crate) inject: bool,
    /// Whether success writes a completion.
    pub(crate) signal: bool,
    /// Whether more requests follow at once (`FI_MORE`).
    pub(crate) more: bool,
    /// Whether it waits for all earlier operations (`FI_FENCE`).
    pub(crate) fence: bool,
    /// Whether the work queue is notified of the end.
    pub(crate) deferred: bool,
    /// The form of a send.
    pub(crate) form: SendForm,
    /// The peer of a connected endpoint; other operations name theirs.
    pub(crate) connected: Option<PeerId>,
}

/// The form in which a send leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendForm {
    /// A message, complete when the peer has it.
    Message,
    /// A message, complete when it was matched (`FI_MATCH_COMPLETE`).
    Matched,
    /// A datagram (`FI_EP_DGRAM`), complete when it has left.
    Datagram,
}

/// The resolved flags of a [`Recv`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecvOptions {
    /// How messages are taken.
    pub(crate) mode: RecvMode,
    /// Whether success writes a completion.
    pub(crate) signal: bool,
    /// Whether the source that the receive names counts (`FI_DIRECTED_RECV`).
    pub(crate) directed: bool,
    /// The peer of a connected endpoint: the receive takes its messages.
    pub(crate) connected: Option<PeerId>,
}

/// The mode that the flags of a [`Recv`] select.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecvMode {
    /// One message.
    Single,
    /// Messages, one behind the other (`FI_MULTI_RECV`).
    Multi {
        /// The buffer is released when fewer bytes than this are free.
        min_free: u64,
    },
    /// A query for a stored message (`FI_PEEK`).
    Peek(Peek),
    /// The message that was claimed with this context (`FI_CLAIM`).
    Claimed(ClaimAction),
    /// One message, for deferred work.
    Deferred,
}

/// The end of a claimed message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClaimAction {
    /// It is received.
    Receive,
    /// It is discarded.
    Discard,
}

/// The operations that write a completion at success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CompletionPolicy {
    /// None: the side has no queue.
    None,
    /// Those that ask for one (`FI_SELECTIVE_COMPLETION`).
    Selective,
    /// All.
    All,
}

impl CompletionPolicy {
    /// Whether an operation writes one; `requested`: it has `FI_COMPLETION`.
    #[inline]
    pub(crate) fn admits(self, requested: bool) -> bool {
        self == Self::All || (self == Self::Selective && requested)
    }

    /// Whether an operation with these flags writes one.
    #[inline]
    pub(crate) fn signals(self, flags: u64) -> bool {
        self.admits(flags & bits::COMPLETION != 0)
    }
}
