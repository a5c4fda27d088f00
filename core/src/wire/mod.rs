// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire format, version 2 (`docs/PROTOCOL.md` §3): the layout of a packet inside its UDP
//! datagram.
//!
//! A packet is a 32-byte [`Header`] and, by [`PacketKind`], a body: a handshake, an acknowledgment,
//! or a sequence of *records*. A record is a small header and payload padded to 8 bytes. All
//! numbers are little-endian, all fields naturally aligned.
//!
//! In: any bytes. Out: typed references, or a [`DropReason`](crate::DropReason).
//! [`Packet::parse`] makes each check that needs no knowledge of the peer, once; its result needs
//! no further length check. The same structures write packets. Caller: `engine`. Bounds: one pass
//! over the packet for its checksum, one for its records.

mod body;
mod connect;
mod header;
mod integrity;
mod layout;
mod message;
mod packet;
mod part_head;
mod record;
mod remote;
mod token;

pub(crate) use body::Sack;
pub use body::{Ack, Handshake, PieceBody, PortRequestBody, ProbeBody, SACK_WORDS_MAX};
pub use connect::{
    CONNECT_LEN, CONNECT_PACKET_MAX, ConnectKind, ConnectPacket, NONCE_BITS, RejectReason,
};
pub use header::{Flags, HEADER_LEN, Header, PacketKind, ReceiverStatus, TAG_RESERVE, VERSION};
pub use integrity::{HEAD_CHECKSUM_FROM, cover_whole, seal};
pub(crate) use integrity::{seal_for, verify};
pub use layout::{ALIGN, RecordKind, SEGMENT_QUANTUM, full_segment, padded};
pub(crate) use message::put_message_before;
pub use message::{
    FIN_LEN, FinRecord, MessageRecord, RtsRecord, SegmentRecord, message_len, put_fin, put_message,
    put_rts, put_segment, rts_len, segment_overhead,
};
pub use packet::{Body, Packet};
pub(crate) use packet::{Part, plain, plain_ack, plain_part};
pub(crate) use part_head::{PART_HEAD_LEN, PartHead};
pub use record::{Record, Records};
pub use remote::{
    AtomicRequestRecord, BEFORE_LEN, ERROR_LEN, ErrorCode, ErrorRecord, READ_REQUEST_LEN,
    ReadRequestRecord, ResponseRecord, WriteRecord, atomic_request_len, atomic_response_len,
    operand_len, put_atomic_request, put_atomic_response, put_error, put_read_request,
    put_read_response, put_write, read_response_len, write_len,
};
pub use token::Token;

pub use crate::api::config::ChecksumFn;
pub use crate::api::limits::{
    ATOMIC_LEN_MAX, MESSAGE_LEN_MAX, MESSAGES_AHEAD_MAX, PACKET_LEN_MIN, PIECED_LEN_MAX,
    READ_LEN_MAX, RECORDS_MAX, RENDEZVOUS_READ_LEN_MAX, WRITES_WITH_DATA_MAX,
};
pub use crate::api::matching::Envelope;
pub use crate::api::port::ChecksumCoverage;

#[cfg(test)]
mod tests;
