// SPDX-License-Identifier: MIT OR Apache-2.0
//! The application-memory seam: the engine says which bytes go where, and somebody else moves them.
//!
//! The engine holds no pointer to application memory; it names a buffer by the operation or region
//! it belongs to. In production `ffi` implements [`Memory`] with raw copies into application
//! buffers, in the simulator it is a map of `Vec<u8>`. Offsets and lengths given here are already
//! checked against the lengths that were given at post or registration: an implementation may rely
//! on that, and must still not trust it with its life.

use crate::atomic::{AtomicOp, Datatype};
use crate::{OpId, PeerAddress, RecvId, RecvRequest, RegionId, UnexpectedId};

/// Where bytes for a packet come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The outgoing buffer of an operation that was posted here.
    Op(OpId),
    /// Registered memory that a peer reads.
    Region(RegionId),
    /// What an atomic found, kept since [`Memory::atomic`] under the name of its response.
    Former(OpId),
}

/// Bytes that are wanted behind a packet's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gather {
    /// Whose bytes.
    pub source: Source,
    /// Offset of the first byte in the (possibly scattered) buffer.
    pub offset: u64,
    /// Those behind them are wanted next: they can be made ready.
    pub more: bool,
}

/// Where received bytes belong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// The incoming buffer of a read or of an atomic that brings something back.
    Op(OpId),
    /// The buffer of a posted receive.
    Recv(RecvId),
    /// Storage for a message that no receive has matched yet.
    Unexpected(UnexpectedId),
    /// Registered memory that a peer writes.
    Region(RegionId),
}

/// A target and an offset into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Which buffer.
    pub target: Target,
    /// Offset of the first byte in that (possibly scattered) buffer.
    pub offset: u64,
    /// As many are to come behind them, most likely next: their place can be made ready.
    pub more: bool,
}

/// An atomic operation on registered memory, at a peer's request. Bounds and rights were checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicAccess<'a> {
    /// The memory.
    pub region: RegionId,
    /// Offset of the first element in it.
    pub offset: u64,
    /// Type of the elements.
    pub datatype: Datatype,
    /// What is done to each.
    pub op: AtomicOp,
    /// One operand for each element; empty for [`AtomicOp::Read`].
    pub operands: &'a [u8],
    /// Of a compare operation, one value for each element; else empty.
    pub compare: &'a [u8],
    /// Bytes of all elements.
    pub len: usize,
    /// Where to keep the former contents, as [`Source::Former`], if they are wanted.
    pub former: Option<OpId>,
}

/// A message whose turn it is, and that no posted receive fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Who sent it.
    pub source: PeerAddress,
    /// Its tag, if it has one.
    pub tag: Option<u64>,
    /// Its length in bytes.
    pub len: u64,
    /// Earlier messages are stored: it must not be given a receive that one of them would have
    /// got.
    pub overtakes: bool,
    /// The engine has a slot for a receive. It is asked for one all the same: who has them learns
    /// that this message will be stored.
    pub room: bool,
}

/// Moves bytes between packets and application memory, at the engine's word.
///
/// Each call is executed before it returns: when the engine acknowledges a packet, its bytes are
/// placed.
pub trait Memory {
    /// How the caller describes a buffer when it posts an operation: a list of addresses in
    /// production, an index in the simulator. Of an operation that also brings bytes back it
    /// describes both buffers.
    type Buffer;

    /// `buffer` belongs to operation `op` from now until the operation's completion is polled.
    fn attach_op(&mut self, op: OpId, buffer: Self::Buffer);

    /// `buffer` belongs to receive `recv` from now until the operation's completion is polled.
    fn attach_recv(&mut self, recv: RecvId, buffer: Self::Buffer);

    /// The buffer of receive `of`, from `offset` on, also belongs to receive `part` from now until
    /// the completion of `part` is polled, and beyond that until the next `attach`: the completion
    /// names it ([`Completion::part`](crate::Completion::part)) for who asks where the bytes are.
    fn attach_part(&mut self, part: RecvId, of: RecvId, offset: u64);

    /// A receive for a message, from a queue that engines share ([`Engine::post_shared`] is its
    /// other half): the message fits it, and the receive is the engine's from now on. Without such
    /// a queue, or a receive that fits: nothing, and the message is stored.
    ///
    /// [`Engine::post_shared`]: crate::Engine::post_shared
    #[inline]
    fn supply(&mut self, _arrival: &Arrival) -> Option<(RecvRequest, Self::Buffer)> {
        None
    }

    /// Copies bytes into a packet; fills `into` entirely.
    fn gather(&mut self, from: Gather, into: &mut [u8]);

    /// Copies received bytes to where they belong.
    fn place(&mut self, at: Placement, bytes: &[u8]);

    /// Copies the first `len` bytes of a buffered message into the receive that matched it.
    fn deliver(&mut self, from: UnexpectedId, to: RecvId, len: u64);

    /// Executes an atomic operation, element by element ([`AtomicOp::apply`] says what that is),
    /// each indivisible for whoever else uses the memory.
    fn atomic(&mut self, access: AtomicAccess<'_>);
}
