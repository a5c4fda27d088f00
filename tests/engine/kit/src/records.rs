// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records and handshakes of a peer made by hand (`docs/PROTOCOL.md` §5.1, §6 to §8).
//!
//! In: the fields of one record. Out: its bytes, as they stand in a packet. Callers: core's tests
//! against a hostile peer, and the hostile peer of the end-to-end tests.
//!
//! # Panics
//! A record that does not fit a packet is a mistake in the test.
#![allow(clippy::expect_used, reason = "see above")]

use ofi_xdp_core::wire::{
    Envelope, HEADER_LEN, Handshake, ReadRequestRecord, put_fin, put_message, put_read_request,
    put_read_response, put_rts, put_segment, put_write,
};
use ofi_xdp_core::{Msn, OpId, PeerId, Psn, Remote};

/// The largest packet of a peer made by hand, in bytes.
pub const PACKET_MAX: u16 = 1472;

/// The handshake body of a peer that proposes connection `epoch`, in which it is called `cid` and
/// its first packet has number `base`.
#[must_use]
pub fn handshake(incarnation: u64, epoch: u16, cid: PeerId, base: Psn) -> Handshake {
    Handshake {
        src_incarnation: incarnation.into(),
        dst_incarnation: 0.into(),
        src_cid: cid.bits().into(),
        psn_base: base.0.into(),
        receive_max: PACKET_MAX.into(),
        port_packets: 256.into(),
        name_port: 0.into(),
        epoch: epoch.into(),
        cookie: 0.into(),
    }
}

/// A message record.
#[must_use]
pub fn message(msn: u32, payload: &[u8]) -> Vec<u8> {
    let envelope = Envelope { msn: Msn(msn), total: payload.len() as u64, ..Default::default() };
    record(|into| put_message(into, &envelope, |room| room.copy_from_slice(payload)))
}

/// An empty message with a tag.
#[must_use]
pub fn tagged(msn: u32, tag: u64) -> Vec<u8> {
    let envelope = Envelope { msn: Msn(msn), tag: Some(tag), ..Default::default() };
    record(|into| put_message(into, &envelope, |_| ()))
}

/// A segment record: `payload` at `offset` of a message of `total` bytes.
#[must_use]
pub fn segment(msn: u32, total: u64, offset: u64, payload: &[u8]) -> Vec<u8> {
    let envelope = Envelope { msn: Msn(msn), total, ..Default::default() };
    let len = payload.len() as u16;
    record(|into| put_segment(into, &envelope, offset, len, |room| room.copy_from_slice(payload)))
}

/// A segment record as [`segment`], of a message with a tag.
#[must_use]
pub fn tagged_segment(msn: u32, tag: u64, total: u64, offset: u64, payload: &[u8]) -> Vec<u8> {
    let envelope = Envelope { msn: Msn(msn), total, tag: Some(tag), ..Default::default() };
    let len = payload.len() as u16;
    record(|into| put_segment(into, &envelope, offset, len, |room| room.copy_from_slice(payload)))
}

/// A write record.
#[must_use]
pub fn write(op: u32, remote: Remote, data: Option<u64>, payload: &[u8]) -> Vec<u8> {
    let (op, len) = (OpId::from_bits(op), payload.len() as u16);
    record(|into| {
        put_write(into, op, remote, (data, true, 0), len, |room| {
            room.copy_from_slice(payload);
        })
    })
}

/// The announcement of a message of `total` bytes.
#[must_use]
pub fn announcement(msn: u32, total: u64, handle: u64) -> Vec<u8> {
    let envelope = Envelope { msn: Msn(msn), total, ..Default::default() };
    record(|into| put_rts(into, &envelope, handle))
}

/// The announcement of a message of `total` bytes with a tag.
#[must_use]
pub fn tagged_announcement(msn: u32, tag: u64, total: u64, handle: u64) -> Vec<u8> {
    let envelope = Envelope { msn: Msn(msn), total, tag: Some(tag), ..Default::default() };
    record(|into| put_rts(into, &envelope, handle))
}

/// A request for `len` bytes.
#[must_use]
pub fn read_request(op: u32, remote: Remote, len: u32) -> Vec<u8> {
    let op = OpId::from_bits(op);
    let request = ReadRequestRecord { op, remote, rendezvous: false, offset: 0, len, last: true };
    record(|into| put_read_request(into, &request))
}

/// A request of a long read for `len` bytes from `offset` on, or for its last bytes.
#[must_use]
pub fn part_request(op: u32, remote: Remote, (offset, last): (u64, bool), len: u32) -> Vec<u8> {
    let (op, rendezvous) = (OpId::from_bits(op), false);
    let remote = Remote { address: remote.address + offset, ..remote };
    let request = ReadRequestRecord { op, remote, rendezvous, offset, len, last };
    record(|into| put_read_request(into, &request))
}

/// A request for `len` bytes of an announced message, from `offset` on.
#[must_use]
pub fn rendezvous_request(op: u32, handle: u64, offset: u64, len: u32) -> Vec<u8> {
    let remote = Remote { key: handle, address: offset };
    let op = OpId::from_bits(op);
    let request = ReadRequestRecord { op, remote, rendezvous: true, offset, len, last: true };
    record(|into| put_read_request(into, &request))
}

/// The end of an announced message of which `bytes` have arrived.
#[must_use]
pub fn fin(handle: u64, bytes: u64) -> Vec<u8> {
    record(|into| put_fin(into, handle, bytes))
}

/// A successful response.
#[must_use]
pub fn answer(op: OpId, offset: u64, payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u16;
    record(|into| {
        put_read_response(into, op, offset, Ok(()), len, |room| room.copy_from_slice(payload))
    })
}

/// The bytes of the record that `put` writes.
#[must_use]
pub fn record(put: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut bytes = vec![0; usize::from(PACKET_MAX) - HEADER_LEN];
    let len = put(&mut bytes).expect("a record fits a packet");
    bytes.truncate(len);
    bytes
}
