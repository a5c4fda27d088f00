// SPDX-License-Identifier: MIT OR Apache-2.0
//! Posted sends and receives, and messages between them: the values that live in the engine's
//! slots.

use crate::serial::Msn;
use crate::slab::{Link, Links, NIL};
use crate::wire::Envelope;
use crate::{Context, OpError, PeerId, Target, UnexpectedId};

/// A request to send a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendRequest {
    /// The destination.
    pub peer: PeerId,
    /// Length of the message in bytes; at most [`MESSAGE_LEN_MAX`](crate::MESSAGE_LEN_MAX).
    pub len: u64,
    /// The application's word for it.
    pub context: Context,
    /// The tag of a tagged message.
    pub tag: Option<u64>,
    /// Remote CQ data.
    pub data: Option<u64>,
    /// Whether success makes a completion; failure always does.
    pub signal: bool,
    /// Whether more requests follow at once (`FI_MORE`), so that this one may wait for them.
    pub more: bool,
}

/// Which tags a receive takes: those that agree with `tag` in every bit not set in `ignore`
/// (`fi_tagged(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagMatch {
    /// The wanted tag.
    pub tag: u64,
    /// Bits that do not matter.
    pub ignore: u64,
}

/// A request to receive a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvRequest {
    /// Only from this peer, or from any.
    pub from: Option<PeerId>,
    /// Length of the buffer in bytes.
    pub len: u64,
    /// The application's word for it.
    pub context: Context,
    /// Which tags it takes; `None`: untagged messages only.
    pub tag: Option<TagMatch>,
    /// Whether success makes a completion; failure always does.
    pub signal: bool,
}

impl RecvRequest {
    /// Whether a message from `peer` fits this request.
    pub(crate) fn takes(&self, peer: PeerId, envelope: &Envelope) -> bool {
        self.from.is_none_or(|from| from == peer)
            && match (self.tag, envelope.tag) {
                (Some(want), Some(tag)) => (want.tag ^ tag) & !want.ignore == 0,
                (None, None) => true,
                _ => false,
            }
    }
}

/// A posted send.
#[derive(Clone, Debug)]
pub struct SendOp {
    pub(crate) context: Context,
    pub(crate) peer: PeerId,
    pub(crate) envelope: Envelope,
    /// Bytes handed to packets in the current attempt.
    pub(crate) sent: u32,
    /// Packets of the current attempt that are not acknowledged.
    pub(crate) in_flight: u32,
    /// All of it has been handed to packets.
    pub(crate) all_sent: bool,
    pub(crate) signal: bool,
    /// The receiver-not-ready epoch of the current attempt.
    pub(crate) rnr_epoch: u8,
    pub(crate) outcome: Result<(), OpError>,
    pub(crate) links: Links,
}

impl Default for SendOp {
    fn default() -> Self {
        Self {
            context: Context::default(),
            peer: PeerId::NONE,
            envelope: Envelope::default(),
            sent: 0,
            in_flight: 0,
            all_sent: false,
            signal: false,
            rnr_epoch: 0,
            outcome: Ok(()),
            links: Links::default(),
        }
    }
}

impl Link for SendOp {
    fn link(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// A posted receive.
#[derive(Clone, Debug)]
pub struct RecvOp {
    pub(crate) request: RecvRequest,
    /// Who it matched, and what.
    pub(crate) peer: PeerId,
    pub(crate) envelope: Envelope,
    pub(crate) outcome: Result<(), OpError>,
    pub(crate) links: Links,
}

impl Default for RecvOp {
    fn default() -> Self {
        let request =
            RecvRequest { from: None, len: 0, context: Context(0), tag: None, signal: false };
        Self {
            request,
            peer: PeerId::NONE,
            envelope: Envelope::default(),
            outcome: Ok(()),
            links: Links::default(),
        }
    }
}

impl Link for RecvOp {
    fn link(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// A message of several packets that is arriving.
#[derive(Clone, Debug)]
pub struct Assembly {
    pub(crate) msn: Msn,
    /// Only segments of this attempt count.
    pub(crate) rnr_epoch: u8,
    /// Length of the message; a segment that says otherwise is not of it.
    pub(crate) total: u32,
    /// Bytes that have not arrived.
    pub(crate) missing: u32,
    pub(crate) target: Target,
    pub(crate) links: Links,
}

impl Default for Assembly {
    fn default() -> Self {
        Self {
            msn: Msn(0),
            rnr_epoch: 0,
            total: 0,
            missing: 0,
            target: Target::Unexpected(UnexpectedId::NONE),
            links: Links::default(),
        }
    }
}

impl Link for Assembly {
    fn link(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// A stored message: waiting for a receive, or for an earlier message of its sender.
#[derive(Clone, Copy, Debug)]
pub struct Unexpected {
    pub(crate) peer: PeerId,
    pub(crate) envelope: Envelope,
    /// All of it has arrived.
    pub(crate) complete: bool,
    /// The receive that matched it before all of it had arrived, or [`NIL`].
    pub(crate) recv: u32,
    pub(crate) links: Links,
}

impl Default for Unexpected {
    fn default() -> Self {
        Self {
            peer: PeerId::NONE,
            envelope: Envelope::default(),
            complete: false,
            recv: NIL,
            links: Links::default(),
        }
    }
}
