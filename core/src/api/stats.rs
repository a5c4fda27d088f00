// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of an engine since it was made.

/// The reason for dropping a packet or, for records, a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[repr(u8)]
pub enum DropReason {
    /// Shorter than the header.
    #[error("shorter than the common header")]
    Truncated,
    /// An unknown version of the protocol.
    #[error("unknown protocol version")]
    Version,
    /// An authentication scheme that is not in use.
    #[error("unexpected authentication scheme")]
    Authentication,
    /// A kind of packet that is unknown in this version.
    #[error("unknown packet kind")]
    Kind,
    /// The checksum is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// Lengths, records or fields contradict each other.
    #[error("malformed body")]
    Malformed,
    /// The connection is unknown here.
    #[error("unknown connection")]
    UnknownConnection,
    /// The connection belongs to another address.
    #[error("wrong source address")]
    WrongSource,
    /// The token is from another epoch, or forged.
    #[error("wrong token")]
    WrongToken,
    /// A time stamp or a packet number that no packet in flight can have.
    #[error("stale time stamp or packet number")]
    Stale,
    /// The packet acknowledges a packet that was never sent.
    #[error("acknowledges packets that were never sent")]
    AckOfUnsent,
    /// The packet number arrived before.
    #[error("duplicate packet")]
    Duplicate,
    /// The packet number is beyond the window.
    #[error("packet number beyond the window")]
    BeyondWindow,
    /// Out of order, and not allowed to overtake earlier packets, because of a barrier or of an
    /// operation in error in it. The packet is not acknowledged, and will be retransmitted.
    #[error("out-of-order packet with a barrier or an error")]
    BehindBarrier,
    /// A request beyond the peer's credit, without a free slot. The packet will be retransmitted.
    #[error("request without credit")]
    NoResponder,
    /// Remote CQ data without room for its event. The packet will be retransmitted.
    #[error("no room for another remote write event")]
    NoEvent,
    /// A message out of order, without storage for it. The packet is not acknowledged, and will be
    /// retransmitted.
    #[error("out-of-order message without storage")]
    OutOfOrderWithoutStorage,
    /// A handshake that does not fit the state of the connection, or an old one.
    #[error("handshake that fits no state")]
    UnexpectedHandshake,
    /// No slot for a new peer.
    #[error("no room for another peer")]
    NoRoom,
    /// A reset without proof that it answers a packet of this side.
    #[error("reset without proof")]
    UnprovenReset,
    /// Parts of a message or of a response have its length in sum, but overlap. The connection is
    /// reset.
    #[error("parts that overlap")]
    Overlap,
    /// An answer to a probe of the path MTU that was not sent.
    #[error("answer to a probe that was not sent")]
    UnaskedProbeAck,
    /// A piece of a packet, without memory for it. The packet will be retransmitted.
    #[error("piece without room")]
    PieceWithoutRoom,
    /// The pieces of a packet do not make a sound packet.
    #[error("pieces of no sound packet")]
    MalformedPieces,
    /// A datagram that no posted receive takes, without storage for it.
    #[error("datagram without a receive and without storage")]
    NoReceive,
    /// The checksum covers the head of the packet alone, and the path does not protect the rest.
    #[error("checksum over the head on a path without UDP checksum")]
    Unprotected,
    /// The lowest packet that the peer misses is one that it has acknowledged. The connection is
    /// reset.
    #[error("acknowledged packet reported as missing")]
    ContradictoryAck,
}

impl DropReason {
    /// The number of reasons.
    pub const COUNT: usize = Self::ContradictoryAck as usize + 1;

    /// All reasons.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Truncated,
        Self::Version,
        Self::Authentication,
        Self::Kind,
        Self::Checksum,
        Self::Malformed,
        Self::UnknownConnection,
        Self::WrongSource,
        Self::WrongToken,
        Self::Stale,
        Self::AckOfUnsent,
        Self::Duplicate,
        Self::BeyondWindow,
        Self::BehindBarrier,
        Self::NoResponder,
        Self::NoEvent,
        Self::OutOfOrderWithoutStorage,
        Self::UnexpectedHandshake,
        Self::NoRoom,
        Self::UnprovenReset,
        Self::Overlap,
        Self::UnaskedProbeAck,
        Self::PieceWithoutRoom,
        Self::MalformedPieces,
        Self::NoReceive,
        Self::Unprotected,
        Self::ContradictoryAck,
    ];
}

/// Statistics of one engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Packets ingested, of any kind and quality.
    pub packets_received: u64,
    /// Packets transmitted, of any kind.
    pub packets_sent: u64,
    /// Data packets transmitted for the first time.
    pub data_packets_sent: u64,
    /// Data packets transmitted again, for any cause.
    pub retransmissions: u64,
    /// Packets counted as lost from acknowledgments.
    pub losses_by_ack: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Tail loss probes.
    pub tail_probes: u64,
    /// Packets without payload that asked the peer for a sign of life.
    pub pings: u64,
    /// Probes of the path MTU that were sent.
    pub path_probes: u64,
    /// Requests to peers for other source ports.
    pub port_requests: u64,
    /// Times that packets to a peer got another source port.
    pub source_port_changes: u64,
    /// Times that the packets to a peer became shorter, and longer, for the path.
    pub path_shrinks: u64,
    /// See [`Self::path_shrinks`].
    pub path_raises: u64,
    /// Pieces of packets that were too long for the path.
    pub pieces_sent: u64,
    /// Acknowledgments sent as packets of their own.
    pub acks_sent: u64,
    /// Messages that were sent and ended successfully.
    pub messages_sent: u64,
    /// Messages accepted: matched or stored.
    pub messages_accepted: u64,
    /// Messages that arrived before a receive was posted.
    pub messages_unexpected: u64,
    /// Messages that arrived before a message that was sent earlier, and were kept.
    pub messages_out_of_order: u64,
    /// Stored messages that were put out to make room: their connection had ended, and the
    /// application had not named their sender.
    pub messages_put_out: u64,
    /// Times this side reported to a peer that it was not ready to receive.
    pub receiver_not_ready: u64,
    /// Times this side started over because a peer was not ready.
    pub restarts_after_rnr: u64,
    /// Long messages with a rendezvous read, finished or begun.
    pub rendezvous: u64,
    /// Times that a request waited for responder credit.
    pub credit_waits: u64,
    /// Acknowledgments that echo an impossible time: they give no measurement.
    pub echoes_ignored: u64,
    /// Times that remote CQ data waited for earlier packets.
    pub events_pending: u64,
    /// Atomic operations executed for peers.
    pub atomics_executed: u64,
    /// Data packets that were paced: the window was below one packet.
    pub paced: u64,
    /// Error records sent.
    pub errors_sent: u64,
    /// Error records received.
    pub errors_received: u64,
    /// Handshakes answered with a retry.
    pub retries_sent: u64,
    /// Connections that began with crossed handshakes.
    pub crossed_hellos: u64,
    /// Connections that were freed because their peer was idle.
    pub connections_idle: u64,
    /// New peers that were refused because all free slots were quarantined.
    pub quarantined: u64,
    /// Records discarded because of receiver-not-ready or as repetitions.
    pub records_discarded: u64,
    /// Handshakes completed.
    pub handshakes: u64,
    /// Connections, and attempts at one, that ended for any cause.
    pub connections_ended: u64,
    /// Connections that ended in failure.
    pub peers_failed: u64,
    /// Bytes of application data placed.
    pub bytes_placed: u64,
    dropped: [u64; DropReason::COUNT],
}

impl Stats {
    /// The number of packets dropped for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped.get(reason as usize).copied().unwrap_or(0)
    }

    /// The number of packets dropped for any reason.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        if let Some(count) = self.dropped.get_mut(reason as usize) {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_in_the_list_at_its_number() {
        for (number, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
        }
    }
}
