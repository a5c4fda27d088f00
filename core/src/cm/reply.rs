// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers to packets, for which nothing is kept.
//!
//! In: the packet's sender and numbers. Out: the answer, for `transmit`. Callers: `initiator` and
//! `listener`. Bound: [`REPLIES_MAX`] answers wait.

use crate::PeerAddress;
use crate::wire::{ConnectKind, RejectReason};

/// Answers that can wait to be sent: packets that an owner can ingest before it transmits.
pub const REPLIES_MAX: usize = 64;

/// An answer to a packet, for which nothing is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectReply {
    pub(super) to: PeerAddress,
    pub(super) kind: ConnectKind,
    pub(super) nonce: u128,
    pub(super) proof: u64,
    pub(super) reason: Option<RejectReason>,
}

impl ConnectReply {
    pub(super) const fn new(to: PeerAddress, kind: ConnectKind, nonce: u128, proof: u64) -> Self {
        Self { to, kind, nonce, proof, reason: None }
    }

    pub(super) const fn reject(to: PeerAddress, nonce: u128, reason: RejectReason) -> Self {
        Self { reason: Some(reason), ..Self::new(to, ConnectKind::Reject, nonce, 0) }
    }
}
