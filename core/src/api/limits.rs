// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of the protocol (`docs/PROTOCOL.md`): lengths and counts that both sides rely on.

/// The smallest packet buffer that an engine works with, in bytes: room for any handshake, and for
/// a segment of 64 bytes.
pub const PACKET_LEN_MIN: usize = 256;
/// The longest packet that can go in pieces, in bytes (`docs/PROTOCOL.md` §11.3): the payload of a
/// 9,000-byte MTU, rounded up.
pub const PIECED_LEN_MAX: usize = 9216;
/// The longest message, write or read, in bytes: 2^63 − 1. The sum of an offset and a length then
/// never wraps.
pub const MESSAGE_LEN_MAX: u64 = i64::MAX as u64;
/// The most bytes that one atomic operation changes: the size of a response context.
pub const ATOMIC_LEN_MAX: usize = 512;
/// The most records in one packet, so that the work for a packet does not grow with its length: as
/// many messages of 8 bytes as fit the payload of a 1,500-byte MTU.
pub const RECORDS_MAX: usize = 60;
/// The most writes with remote CQ data in one packet. A receiver needs room for this many
/// completions at once.
pub const WRITES_WITH_DATA_MAX: usize = 8;
/// The most bytes that one read request asks for.
pub const READ_LEN_MAX: u32 = 4 << 20;
/// The most bytes of a message that one rendezvous request asks for. The value is small, so that
/// many senders share a receiver's link fairly.
pub const RENDEZVOUS_READ_LEN_MAX: u32 = 64 << 10;
/// The largest distance of a message from the oldest one that its receiver has not accepted. The
/// header reports the oldest one in 16 bits; this is half of their range.
pub const MESSAGES_AHEAD_MAX: u32 = 1 << 15;

/// The longest data of the application in a packet of connection management
/// (`FI_OPT_CM_DATA_SIZE`), in bytes.
pub const CONNECT_DATA_MAX: usize = 256;
