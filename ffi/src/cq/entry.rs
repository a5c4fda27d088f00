// SPDX-License-Identifier: MIT OR Apache-2.0
//! A completion as libfabric tells it (`fi_cq(3)`): made of what the engine says and what the
//! endpoint knows of a message's source.

use std::ffi::c_int;

use ofi_xdp_core::{Completion, Context, OpKind};

use crate::abi::{self, bits, fi_addr_t};
use crate::errno::completion_number;
use crate::progress::Origin;
use crate::sockaddr::SocketAddress;

/// A completion, as libfabric tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The application's word for the operation.
    pub(crate) context: Context,
    /// `FI_SEND | FI_MSG` and so on.
    pub(crate) flags: u64,
    /// Bytes sent or received.
    pub(crate) len: usize,
    /// Remote completion data.
    pub(crate) data: u64,
    /// The message's tag.
    pub(crate) tag: u64,
    /// The source of a receive.
    pub(crate) source: fi_addr_t,
    /// Where a message is in a buffer for many; else 0.
    pub(crate) place: usize,
}

/// A completion that is an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorEntry {
    /// What it has in common with the others.
    pub(crate) entry: Entry,
    /// Bytes that did not fit a receive's buffer.
    pub(crate) overflow: usize,
    /// libfabric's error number.
    pub(crate) number: c_int,
    /// The source of a message that was received, but is not from the address vector.
    pub(crate) stranger: Option<SocketAddress>,
}

/// An entry for an operation that ended well, or an error entry for one that did not; also for a
/// message that was received from who is not in the vector, where that is to be told
/// (`FI_SOURCE_ERR`).
#[inline]
pub(super) fn entry(completion: &Completion, origin: Origin) -> Result<Entry, ErrorEntry> {
    let entry = Entry {
        context: completion.context,
        flags: flags(completion),
        len: usize::try_from(completion.len).unwrap_or(usize::MAX),
        data: completion.data.unwrap_or(0),
        tag: completion.tag,
        source: origin.source,
        place: origin.place,
    };
    let stranger = origin.stranger.map(|peer| SocketAddress::from(peer.socket_addr()));
    let number = match completion.outcome {
        Ok(()) if stranger.is_none() => return Ok(entry),
        Ok(()) => abi::FI_EADDRNOTAVAIL.cast_signed(),
        Err(error) => completion_number(error),
    };
    let overflow = usize::try_from(completion.overflow).unwrap_or(usize::MAX);
    Err(ErrorEntry { entry, overflow, number, stranger })
}

/// What happened, in libfabric's bits.
const fn flags(completion: &Completion) -> u64 {
    let kind = match completion.kind {
        OpKind::Send { tagged: false } => bits::SEND | bits::MSG,
        OpKind::Send { tagged: true } => bits::SEND | bits::TAGGED,
        OpKind::Recv { tagged: false } => bits::RECV | bits::MSG,
        OpKind::Recv { tagged: true } => bits::RECV | bits::TAGGED,
        OpKind::Write => bits::RMA | bits::WRITE,
        OpKind::Read => bits::RMA | bits::READ,
        OpKind::Atomic => bits::ATOMIC,
        OpKind::RemoteWrite => bits::RMA | bits::REMOTE_WRITE,
    };
    let kind = if completion.released { kind | bits::MULTI_RECV } else { kind };
    match (completion.kind, completion.data) {
        (OpKind::Recv { .. } | OpKind::RemoteWrite, Some(_)) => kind | bits::REMOTE_CQ_DATA,
        _ => kind,
    }
}
