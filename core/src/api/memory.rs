// SPDX-License-Identifier: MIT OR Apache-2.0
//! The seam to application memory: the engine describes each copy, and a [`Memory`] performs it.
//!
//! The engine holds no pointer to application memory. It names a buffer by the operation or the
//! region that the buffer belongs to. In production `ffi` implements [`Memory`] with raw copies; in
//! the simulator it is a map of `Vec<u8>`. The engine has checked offsets and lengths against those
//! of the post or registration. An implementation checks them again before it touches memory.

use crate::api::atomic::{AtomicOp, Datatype};
use crate::{OpId, PeerAddress, RecvId, RecvRequest, RegionId, UnexpectedId};

/// The origin of a packet's payload bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The outgoing buffer of an operation that was posted here.
    Op(OpId),
    /// Registered memory that a peer reads.
    Region(RegionId),
    /// The previous value of an atomic, kept since [`Memory::atomic`] under the identifier of its
    /// response.
    PreviousValue(OpId),
}

/// A copy into a packet, behind its headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gather {
    /// The buffer.
    pub source: Source,
    /// Offset of the first byte in the (possibly scattered) buffer.
    pub offset: u64,
    /// Whether the next bytes of this buffer are gathered next, so that they can be prefetched.
    pub more: bool,
}

/// The destination of received bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// The incoming buffer of a read, or of an atomic with a response value.
    Op(OpId),
    /// The buffer of a posted receive.
    Recv(RecvId),
    /// The storage of a stored message.
    Unexpected(UnexpectedId),
    /// Registered memory that a peer writes.
    Region(RegionId),
}

/// A copy out of a packet: a target and an offset into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The buffer.
    pub target: Target,
    /// Offset of the first byte in that (possibly scattered) buffer.
    pub offset: u64,
    /// Whether the next placement is probably for as many bytes behind these, so that the memory
    /// there can be prefetched.
    pub more: bool,
}

/// An atomic operation on registered memory, at a peer's request. The engine has checked bounds and
/// rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicAccess<'a> {
    /// The memory.
    pub region: RegionId,
    /// Offset of the first element in it.
    pub offset: u64,
    /// Type of the elements.
    pub datatype: Datatype,
    /// The operation on each element.
    pub op: AtomicOp,
    /// One operand for each element; empty for [`AtomicOp::Read`].
    pub operands: &'a [u8],
    /// For a compare operation, one value for each element; else empty.
    pub compare: &'a [u8],
    /// Bytes of all elements.
    pub len: usize,
    /// The name under which the previous contents are kept ([`Source::PreviousValue`]); `None`:
    /// they are not kept.
    pub previous: Option<OpId>,
}

/// The next message in order, if no posted receive matches it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnmatchedMessage {
    /// The sender's address.
    pub source: PeerAddress,
    /// Its tag, if it has one.
    pub tag: Option<u64>,
    /// Its length in bytes.
    pub len: u64,
    /// Earlier messages are stored. This message must not get a receive that one of them would have
    /// matched.
    pub overtakes: bool,
    /// The engine has a slot for a receive. It asks for one even without a slot, to announce that
    /// this message will be stored.
    pub room: bool,
}

/// Copies between packets and application memory, as the engine describes them.
///
/// Each call is complete when it returns: when the engine acknowledges a packet, its bytes are
/// placed.
pub trait Memory {
    /// The caller's description of a buffer at a post: a list of addresses in production, an index
    /// in the simulator. For an operation with incoming bytes it describes both buffers.
    type Buffer;

    /// `buffer` belongs to operation `op` from now on, until the completion of `op` is polled.
    fn attach_op(&mut self, op: OpId, buffer: Self::Buffer);

    /// `buffer` belongs to receive `recv` from now on, until the completion of `recv` is polled.
    fn attach_recv(&mut self, recv: RecvId, buffer: Self::Buffer);

    /// The buffer of receive `of`, from `offset` on, also belongs to slice `part` from now on,
    /// until the completion of `part` is polled. The place stays known until the next `attach`,
    /// because the completion names it ([`Completion::slice`](crate::Completion::slice)).
    fn attach_slice(&mut self, part: RecvId, of: RecvId, offset: u64);

    /// Claims a receive for a message from a queue that engines share; [`Engine::post_shared`] is
    /// the other half. The receive matches the message, and belongs to the engine from now on.
    /// Without such a queue, or a receive that matches, the message is stored.
    ///
    /// [`Engine::post_shared`]: crate::Engine::post_shared
    #[inline]
    fn claim_shared_receive(
        &mut self,
        _arrival: &UnmatchedMessage,
    ) -> Option<(RecvRequest, Self::Buffer)> {
        None
    }

    /// Copies bytes into a packet, and fills `into` entirely.
    fn gather(&mut self, from: Gather, into: &mut [u8]);

    /// Copies received bytes to their destination.
    fn place(&mut self, at: Placement, bytes: &[u8]);

    /// Copies the first `len` bytes of a stored message into the receive that matched it.
    fn deliver(&mut self, from: UnexpectedId, to: RecvId, len: u64);

    /// Executes an atomic operation, element by element, as [`AtomicOp::apply`] defines it. Each
    /// step is indivisible for all other users of the memory.
    fn atomic(&mut self, access: AtomicAccess<'_>);
}
