// SPDX-License-Identifier: MIT OR Apache-2.0
//! The seam to the network: packets in, packets out.
//!
//! A *packet* is a UDP payload: the engine's own header and records. The port adds and removes the
//! headers of its medium, and does not read the payload. The headers are Ethernet, IP and UDP on
//! AF_XDP, and none on a socket. Caller: [`drive()`](crate::drive()). Bounds: the budget of
//! `receive`, and the free buffers of `transmit`.

use crate::{Instant, PathAdvice, PeerAddress, PeerId, WantedPort};

/// The bytes of a packet that its checksum covers (the term of RFC 3828).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChecksumCoverage {
    /// All of them. The path may damage any byte.
    Whole,
    /// The first 64. The UDP checksum protects the packet, and a kernel verifies it.
    Head,
}

/// A received packet, borrowed from the port until the sink returns.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The sender's address, from the IP and UDP headers.
    pub from: PeerAddress,
    /// The UDP payload.
    pub bytes: &'a [u8],
    /// Whether a router marked the IP header Congestion Experienced (RFC 3168 §5).
    pub congestion_experienced: bool,
    /// The source port that the port wants for packets of this sender; [`WantedPort::KEEP`] unless
    /// this one came by a slower way than the port has (`docs/PROTOCOL.md` §13).
    pub wanted: WantedPort,
    /// Whether it was sent to a multicast group of the receiver, not to the receiver's own address.
    pub to_group: bool,
    /// The least coverage of a checksum: the head where a kernel has verified the UDP checksum.
    pub coverage: ChecksumCoverage,
}

/// The destination of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// The engine's slot of this peer, or [`PeerId::NONE`] for a stateless packet. A port may keep
    /// facts by slot (route, link-layer address), and checks them against `address`, because slots
    /// are reused.
    pub peer: PeerId,
    /// The peer's address.
    pub address: PeerAddress,
}

/// A packet that the engine has written into the port's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Transmit {
    /// UDP payload length in bytes; at most [`PortLimits::payload_max`].
    pub len: usize,
    /// The destination.
    pub to: Destination,
    /// The largest UDP payload that the receiver takes, in bytes ([`PortLimits::receive_max`]
    /// there; `u16::MAX` while that is unknown). A GSO batch must be longer than this: a receiver
    /// that gets the batch in one piece recognises it by its length. Therefore `u16::MAX` also
    /// marks a packet that leaves in no batch: a virtual link passes a batch of packets that are
    /// too long for it one by one, so that a probe of the path MTU in a batch shows nothing.
    pub receive_max: u16,
}

/// The result of one call to [`Port::transmit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Transmitted {
    /// A packet was queued; it leaves at the next [`Port::flush`] at the latest.
    Sent,
    /// `fill` had nothing to send, and the buffer is free again.
    Nothing,
    /// No buffer was free, and `fill` was not called. This is no error: later calls find room.
    Full,
}

/// The limits of a port. They stay constant, except that a port may raise them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortLimits {
    /// The largest UDP payload that can be sent, in bytes.
    pub payload_max: usize,
    /// The largest UDP payload that can be received, in bytes.
    pub receive_max: usize,
    /// The number of packets that one peer may have in flight to this port without overrunning its
    /// receive ring or socket buffer.
    pub port_packets: u16,
    /// The least coverage of a packet's checksum on the path that long packets take. On its other
    /// paths the port completes the checksum ([`cover_whole`](crate::wire::cover_whole)).
    pub coverage: ChecksumCoverage,
}

/// The medium failed, and the port cannot recover.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the port failed with errno {errno}")]
pub struct PortError {
    /// The operating system's error number, or the simulator's stand-in.
    pub errno: i32,
}

/// A source and sink of packets.
pub trait Port {
    /// Hands at most `budget` received packets to `sink`, in the order of their arrival, and frees
    /// their buffers. Returns the number of packets handed over. `now` is the caller's one reading
    /// of its clock.
    ///
    /// # Errors
    /// [`PortError`] when the medium is gone; packets that were handed over before stay so.
    fn receive(
        &mut self,
        now: Instant,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> Result<u16, PortError>;

    /// Offers a free buffer of at least [`PortLimits::payload_max`] bytes to `fill`, and queues the
    /// packet that `fill` writes.
    ///
    /// # Errors
    /// [`PortError`] when the medium is gone. A single packet that cannot be sent (no route, a full
    /// socket buffer) is not an error: it counts as lost on the way.
    fn transmit(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Result<Transmitted, PortError>;

    /// Sends all queued packets, with at most one wake-up for the whole burst.
    ///
    /// # Errors
    /// [`PortError`] when the medium is gone.
    fn flush(&mut self) -> Result<(), PortError>;

    /// Advice about the source port of packets to a peer. Returns whether that port has changed:
    /// later packets may overtake earlier ones then. A port that has one source port ignores it.
    fn advise(&mut self, now: Instant, to: Destination, advice: PathAdvice) -> bool {
        let _ = (now, to, advice);
        false
    }

    /// The limits of this port.
    fn limits(&self) -> PortLimits;
}
