// SPDX-License-Identifier: MIT OR Apache-2.0
//! A completion in libfabric's terms (`fi_cq(3)`): the engine's completion, and the endpoint's
//! knowledge of the source of a message.

use std::ffi::c_int;

use ofi_xdp_core::{Completion, Context, OpKind};

use crate::runtime::Origin;
use crate::sys::abi::{self, bits, fi_addr_t};
use crate::sys::errno::completion_number;
use crate::sys::sockaddr::SocketAddress;

/// A completion of a successful operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The application's context of the operation.
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
    /// Address of the message in a multi-receive buffer; otherwise 0.
    pub(crate) buffer_address: usize,
}

/// A completion that is an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorEntry {
    /// The members of every completion.
    pub(crate) entry: Entry,
    /// Number of bytes that did not fit the buffer of a receive.
    pub(crate) overflow: usize,
    /// libfabric's error number.
    pub(crate) number: c_int,
    /// The source of a received message, if it is not in the address vector.
    pub(crate) unknown_source: Option<SocketAddress>,
}

/// An entry for a success, or an error entry for a failure. With `FI_SOURCE_ERR`, a message from a
/// source outside the address vector makes an error entry too.
#[inline]
pub(super) fn entry(completion: &Completion, origin: Origin) -> Result<Entry, ErrorEntry> {
    let entry = Entry {
        context: completion.context,
        flags: flags(completion) | if origin.multicast { bits::MULTICAST } else { 0 },
        len: usize::try_from(completion.len).unwrap_or(usize::MAX),
        data: completion.data.unwrap_or(0),
        tag: completion.tag,
        source: origin.source,
        buffer_address: origin.buffer_address,
    };
    let unknown_source = origin.unknown_source.map(|peer| SocketAddress::from(peer.socket_addr()));
    let number = match completion.outcome {
        Ok(()) if unknown_source.is_none() => return Ok(entry),
        Ok(()) => abi::FI_EADDRNOTAVAIL.cast_signed(),
        Err(error) => completion_number(error),
    };
    let overflow = usize::try_from(completion.overflow).unwrap_or(usize::MAX);
    Err(ErrorEntry { entry, overflow, number, unknown_source })
}

/// The kind of operation, in libfabric's bits.
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
    let kind = if completion.ends_buffer { kind | bits::MULTI_RECV } else { kind };
    match (completion.kind, completion.data) {
        (OpKind::Recv { .. } | OpKind::RemoteWrite, Some(_)) => kind | bits::REMOTE_CQ_DATA,
        _ => kind,
    }
}
