// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver seam: packets in, packets out.
//!
//! A *packet* here is a UDP payload: the engine's own header and records. The port adds and removes
//! whatever its medium needs around it (Ethernet, IP and UDP headers on AF_XDP; nothing on a
//! socket; a virtual link in the simulator), and knows nothing of what is inside.
//! [`drive`](crate::progress::drive) is the only caller. Bounds: `receive` by its budget,
//! `transmit` by the room the port has.

use crate::{Instant, PeerAddress, PeerId};

/// One received packet, borrowed from the port until the sink returns.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The sender's address, from the IP and UDP headers.
    pub from: PeerAddress,
    /// The UDP payload.
    pub bytes: &'a [u8],
    /// Whether a router marked the IP header Congestion Experienced (RFC 3168 §5).
    pub congestion_experienced: bool,
}

/// Where a packet goes: what the engine says of it when it has written one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// The engine's slot for this peer, or [`PeerId::NONE`] for an answer to somebody who has none.
    /// A port may keep per-slot facts (route, link-layer address), as long as it checks them
    /// against `address`: slots are reused.
    pub peer: PeerId,
    /// The peer's address.
    pub address: PeerAddress,
}

/// One packet that the engine has written into the port's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Transmit {
    /// UDP payload length in bytes; at most [`PortLimits::payload_max`].
    pub len: usize,
    /// Where it goes.
    pub to: Destination,
    /// The largest UDP payload that the receiver takes, in bytes ([`PortLimits::receive_max`]
    /// there; `u16::MAX` while that is unknown). What a port joins to be cut apart on the way must
    /// be longer: a receiver that gets to see it whole tells it from one packet by that.
    pub receive_max: u16,
}

/// What became of one call to [`Port::transmit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Transmitted {
    /// A packet was queued; it leaves at the next [`Port::flush`] at the latest.
    Sent,
    /// `fill` had nothing to send; the buffer went back.
    Nothing,
    /// No buffer was free and `fill` was not called. Not an error: later calls will find room.
    Full,
}

/// What a port can do. Constant for a port's life unless it says otherwise by growing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortLimits {
    /// The largest UDP payload that can be sent, in bytes.
    pub payload_max: usize,
    /// The largest UDP payload that can be received, in bytes.
    pub receive_max: usize,
    /// How many packets from one peer may be under way to this port at once without overrunning its
    /// receive ring or socket buffer.
    pub window_packets: u16,
}

/// The medium failed in a way that the port could not mend itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the port failed with errno {errno}")]
pub struct PortError {
    /// The operating system's error number, or the simulator's stand-in.
    pub errno: i32,
}

/// A place that packets come from and go to.
pub trait Port {
    /// Hands at most `budget` received packets to `sink`, in the order of their arrival, and gives
    /// their buffers back. Returns how many it handed on. `now` is the caller's one reading of its
    /// clock.
    ///
    /// # Errors
    /// [`PortError`] when the medium is gone; packets already handed on stay handed on.
    fn receive(
        &mut self,
        now: Instant,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> Result<u16, PortError>;

    /// Offers a free buffer of at least [`PortLimits::payload_max`] bytes to `fill`, and queues
    /// what `fill` wrote.
    ///
    /// # Errors
    /// [`PortError`] when the medium is gone. A single packet that cannot be sent (no route, a full
    /// socket buffer) is not an error: it counts as lost on the way.
    fn transmit(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Result<Transmitted, PortError>;

    /// Lets everything queued leave, with one wake-up for the whole burst at most.
    ///
    /// # Errors
    /// [`PortError`] when the medium is gone.
    fn flush(&mut self) -> Result<(), PortError>;

    /// What this port can do.
    fn limits(&self) -> PortLimits;
}
