// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data transfers as the provider knows them: one type for sends, one for receives, one for writes
//! and reads, one for atomics, whichever of libfabric's calls asks for them.
//!
//! Made by `shim` from the arguments of a call, or of deferred work; taken by the traits of `ops`,
//! where the endpoint's defaults settle what [`OpFlags`] leave open.

use ofi_xdp_core::{AtomicForm, AtomicOp, Context, Datatype, Remote, TagMatch};

use crate::abi::{bits, fi_addr_t};
use crate::memory::Buffer;

/// Where an operation's flags come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpFlags {
    /// From the endpoint: the plain calls.
    Default,
    /// From the call: `sendmsg`, `recvmsg`.
    Given(u64),
    /// From deferred work: its end is the work queue's to know, and a completion is made only if
    /// the flags ask for it.
    Deferred(u64),
    /// `inject` calls: the buffer is copied, success makes no completion.
    Inject,
}

impl OpFlags {
    /// Whether the call gives remote completion data (`FI_REMOTE_CQ_DATA`).
    pub(crate) const fn brings_data(self) -> bool {
        matches!(self, Self::Given(flags) | Self::Deferred(flags)
            if flags & bits::REMOTE_CQ_DATA != 0)
    }
}

/// A send, whatever the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    /// Where the message lies.
    pub(crate) buffer: Buffer,
    /// The destination.
    pub(crate) to: fi_addr_t,
    /// The tag of a tagged message.
    pub(crate) tag: Option<u64>,
    /// Remote completion data.
    pub(crate) data: Option<u64>,
    /// The application's word for it.
    pub(crate) context: Context,
    /// How.
    pub(crate) flags: OpFlags,
}

/// A receive, whatever the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recv {
    /// Where the message goes.
    pub(crate) buffer: Buffer,
    /// The source, with `FI_DIRECTED_RECV`, or nobody in particular.
    pub(crate) from: fi_addr_t,
    /// The tag rule of a tagged receive.
    pub(crate) tag: Option<TagMatch>,
    /// The application's word for it.
    pub(crate) context: Context,
    /// How.
    pub(crate) flags: OpFlags,
}

/// A write or a read of a peer's memory, whatever the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rma {
    /// Where the bytes lie, or go.
    pub(crate) buffer: Buffer,
    /// The peer.
    pub(crate) peer: fi_addr_t,
    /// Its memory.
    pub(crate) remote: Remote,
    /// Remote completion data of a write.
    pub(crate) data: Option<u64>,
    /// The application's word for it.
    pub(crate) context: Context,
    /// How.
    pub(crate) flags: OpFlags,
}

/// An atomic operation on a peer's memory, whatever the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    /// One operand for each element; empty if there is nothing but to read.
    pub(crate) operands: Buffer,
    /// What to compare with; else empty.
    pub(crate) compare: Buffer,
    /// Where what was there goes; else empty.
    pub(crate) result: Buffer,
    /// Which of the three calls.
    pub(crate) form: AtomicForm,
    /// Type of the elements.
    pub(crate) datatype: Datatype,
    /// What is done to each.
    pub(crate) op: AtomicOp,
    /// How many elements.
    pub(crate) count: usize,
    /// The peer.
    pub(crate) peer: fi_addr_t,
    /// Its memory.
    pub(crate) remote: Remote,
    /// The application's word for it.
    pub(crate) context: Context,
    /// How.
    pub(crate) flags: OpFlags,
}
