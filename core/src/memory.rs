// SPDX-License-Identifier: MIT OR Apache-2.0
//! The application-memory seam: the engine says which bytes go where, and somebody else moves them.
//!
//! The engine holds no pointer to application memory; it names a buffer by the operation it belongs
//! to. In production `ffi` implements [`Memory`] with raw copies into application buffers, in the
//! simulator it is a map of `Vec<u8>`. Offsets and lengths given here are already checked against
//! the lengths that were given at post: an implementation may rely on that, and must still not
//! trust it with its life.

use crate::{OpId, RecvId, UnexpectedId};

/// Bytes of a posted send that are wanted behind a packet's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gather {
    /// Whose bytes.
    pub op: OpId,
    /// Offset of the first byte in the operation's (possibly scattered) buffer.
    pub offset: u64,
}

/// Where received bytes belong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The buffer of a posted receive.
    Recv(RecvId),
    /// Storage for a message that no receive has matched yet.
    Unexpected(UnexpectedId),
}

/// A target and an offset into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Which buffer.
    pub target: Target,
    /// Offset of the first byte in that (possibly scattered) buffer.
    pub offset: u64,
}

/// Moves bytes between packets and application memory, at the engine's word.
///
/// Each call is executed before it returns: when the engine acknowledges a packet, its bytes are
/// placed.
pub trait Memory {
    /// How the caller describes a buffer when it posts an operation: a list of addresses in
    /// production, an index in the simulator.
    type Buffer;

    /// `buffer` belongs to send `op` from now until the operation's completion is polled.
    fn attach_send(&mut self, op: OpId, buffer: Self::Buffer);

    /// `buffer` belongs to receive `recv` from now until the operation's completion is polled.
    fn attach_recv(&mut self, recv: RecvId, buffer: Self::Buffer);

    /// Copies bytes of a send's buffer into a packet; fills `into` entirely.
    fn gather(&mut self, from: Gather, into: &mut [u8]);

    /// Copies received bytes to where they belong.
    fn place(&mut self, at: Placement, bytes: &[u8]);

    /// Copies the first `len` bytes of a buffered message into the receive that matched it.
    fn deliver(&mut self, from: UnexpectedId, to: RecvId, len: u64);
}
