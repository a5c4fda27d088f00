// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters: what the engine has seen and done since it was made.

/// Why a received packet had no effect (or, for records, why a part of it had none).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[repr(u8)]
pub enum DropReason {
    /// Shorter than the header.
    #[error("shorter than the common header")]
    Truncated,
    /// Another version of the protocol.
    #[error("unknown protocol version")]
    Version,
    /// An authentication scheme that is not in use.
    #[error("unexpected authentication scheme")]
    Authentication,
    /// A kind of packet that this version does not know.
    #[error("unknown packet kind")]
    Kind,
    /// The checksum is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// Lengths, records or fields contradict each other.
    #[error("malformed body")]
    Malformed,
    /// No such connection here.
    #[error("unknown connection")]
    UnknownConnection,
    /// The connection is another address's.
    #[error("wrong source address")]
    WrongSource,
    /// The token is of another epoch, or forged.
    #[error("wrong token")]
    WrongToken,
    /// Older than anything that can still be under way.
    #[error("stale time stamp")]
    Stale,
    /// It acknowledges what was never sent.
    #[error("acknowledges packets that were never sent")]
    AckOfUnsent,
    /// Its number was seen before.
    #[error("duplicate packet")]
    Duplicate,
    /// Its number is beyond the window.
    #[error("packet number beyond the window")]
    BeyondWindow,
    /// It came before packets that it must not overtake, because of a barrier or of an operation in
    /// error in it; it is not acknowledged and will come again.
    #[error("early packet with a barrier or an error")]
    BehindBarrier,
    /// A request beyond what the peer was allowed, and no slot for it; likewise.
    #[error("request without credit")]
    NoResponder,
    /// Remote CQ data while the application does not poll; likewise.
    #[error("no room for another remote write event")]
    NoEvent,
    /// It came too early and there was no storage to keep it; it is not acknowledged and will come
    /// again.
    #[error("early message without storage")]
    EarlyWithoutStorage,
    /// A handshake that does not fit the state of things, or an old one.
    #[error("handshake that fits no state")]
    UnexpectedHandshake,
    /// No slot for a new peer.
    #[error("no room for another peer")]
    NoRoom,
    /// A reset that does not prove that it answers a packet of ours.
    #[error("reset without proof")]
    UnprovenReset,
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = Self::UnprovenReset as usize + 1;

    /// All of them.
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
        Self::EarlyWithoutStorage,
        Self::UnexpectedHandshake,
        Self::NoRoom,
        Self::UnprovenReset,
    ];
}

/// Counters of one engine.
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
    /// Packets taken for lost on the evidence of acknowledgments.
    pub losses_by_ack: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Tail probes.
    pub tail_probes: u64,
    /// Packets without payload that asked whether the peer is there.
    pub pings: u64,
    /// Acknowledgments sent as packets of their own.
    pub acks_sent: u64,
    /// Messages whose completion said success, as their sender.
    pub messages_sent: u64,
    /// Messages accepted: matched or stored.
    pub messages_accepted: u64,
    /// Messages that arrived before a receive was posted.
    pub messages_unexpected: u64,
    /// Messages that arrived before an earlier message and were kept.
    pub messages_early: u64,
    /// Times this side told a peer that it was not ready to receive.
    pub receiver_not_ready: u64,
    /// Times this side started over because a peer was not ready.
    pub restarts_after_rnr: u64,
    /// Long messages that this side pulled, or began to.
    pub rendezvous: u64,
    /// Times that a request waited for the peer to have a slot for it.
    pub credit_waits: u64,
    /// Times that remote CQ data waited for earlier packets.
    pub events_held: u64,
    /// Atomic operations executed for peers.
    pub atomics_executed: u64,
    /// Data packets that waited for their pace: the window was below one packet.
    pub paced: u64,
    /// Error records sent.
    pub errors_sent: u64,
    /// Error records received.
    pub errors_received: u64,
    /// Handshakes answered with a cookie.
    pub retries_sent: u64,
    /// Connections that began as crossed hellos.
    pub crossed_hellos: u64,
    /// Peers that gave their active state back.
    pub peers_quiet: u64,
    /// Peers that a new slot was refused to, because all free ones were in use a moment ago.
    pub quarantined: u64,
    /// Records discarded because of receiver-not-ready or as repetitions.
    pub records_discarded: u64,
    /// Handshakes completed.
    pub handshakes: u64,
    /// Connections that ended in failure.
    pub peers_failed: u64,
    /// Bytes of application data placed.
    pub bytes_placed: u64,
    dropped: [u64; DropReason::COUNT],
}

impl Stats {
    /// How many packets were dropped for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped.get(reason as usize).copied().unwrap_or(0)
    }

    /// How many packets were dropped for any reason.
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
