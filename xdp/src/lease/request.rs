// SPDX-License-Identifier: MIT OR Apache-2.0
//! The request for a lease: made by the provider, read by the broker.
//!
//! In: plain values. Out: the same values. Callers: `af_xdp/open.rs`, `broker/message.rs`. Bound:
//! one value a port.

use std::net::SocketAddr;

use crate::config::QueueRange;
use crate::tier::status::XskMode;
use crate::xsk::umem::Layout;

/// The socket and the redirection that an endpoint asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketRequest {
    /// Index of the interface.
    pub interface: u32,
    /// The allowed queues; the first free one is taken.
    pub queues: QueueRange,
    /// The endpoint's address. The broker compares it with that of the kernel socket.
    pub local: SocketAddr,
    /// The mode of the socket.
    pub mode: XskMode,
    /// The division of its memory.
    pub layout: Layout,
    /// Bytes of the longest packet with its headers. A packet that does not fit in a frame takes
    /// several frames, where kernel and driver support that.
    pub longest: u32,
    /// Whether a rule of the device steers the endpoint's packets to the queue.
    pub steer: bool,
    /// Whether its packets are datagrams of an application, without the header of the engine.
    pub any_payload: bool,
}
