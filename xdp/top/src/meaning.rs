// SPDX-License-Identifier: MIT OR Apache-2.0
//! The meaning of each metric, in a sentence.
//!
//! In: the name of a metric, without the prefix. Out: its help text. Caller: `prometheus.rs`.
//! Bound: the table. Pages may have counters of other versions, which are not in it.

/// The sentence for a counter that is not in the table.
const OTHER: &str = "Counter of an endpoint's statistics page.";

/// Names and sentences, sorted by name.
const MEANINGS: &[(&str, &str)] = &[
    ("acks_sent_total", "Acknowledgements sent as packets of their own."),
    ("atomics_executed_total", "Atomic operations on memory of the endpoint."),
    ("bytes_placed_total", "Bytes placed into memory of the application."),
    ("connections", "Peers with traffic."),
    ("connections_ended_total", "Connections that ended."),
    ("data_packets_sent_total", "Data packets sent for the first time."),
    ("dropped_packets_total", "Received packets that were dropped, by reason."),
    ("handshakes_total", "Connections that were made."),
    ("info", "Properties of an endpoint; always 1."),
    ("losses_by_ack_total", "Packets taken for lost because later ones were acknowledged."),
    ("messages_accepted_total", "Messages accepted from peers."),
    ("messages_put_out_total", "Stored messages that were put out to make room."),
    ("messages_sent_total", "Messages that were sent and ended successfully."),
    ("messages_unexpected_total", "Messages that arrived before their receive was posted."),
    ("other_queue_total", "Packets that came by a queue without an AF_XDP socket."),
    ("packets_received_total", "Packets received."),
    ("packets_sent_total", "Packets sent."),
    ("pages_cut", "Statistics pages of which samples are left out, as they have too many."),
    ("path_probes_total", "Packets that tried the path for its MTU."),
    ("path_raises_total", "Longer packets after a path probe."),
    ("path_shrinks_total", "Shorter packets after a sign of a smaller path MTU."),
    ("peer_packets_in_flight", "Data packets in flight to a peer."),
    ("peer_packets_retransmitted", "Packets retransmitted to a peer in its period of traffic."),
    ("peer_round_trip_seconds", "Smoothed round-trip time of a peer."),
    ("peer_window_packets", "Congestion window of a peer."),
    ("peers_failed_total", "Peers that no longer answered."),
    ("pieces_sent_total", "Pieces of packets that were too long for the path."),
    ("program_frames_total", "Frames by verdict of the XDP program of the interface."),
    ("receiver_not_ready_total", "Times that a peer was told that the receiver is not ready."),
    ("rendezvous_total", "Long messages with a rendezvous read."),
    ("retransmissions_total", "Data packets sent again, for any cause."),
    ("tail_probes_total", "Packets sent to learn whether the last ones were lost."),
    ("timeouts_total", "Retransmission time-outs."),
    ("udp_lost_total", "Packets that the kernel's socket refused."),
    ("udp_received_total", "Packets received from the kernel's socket."),
    ("udp_sends_total", "System calls that sent packets by the kernel's socket."),
    ("udp_transmitted_total", "Packets given to the kernel's socket."),
    ("xsk_kicks_total", "System calls that woke the kernel's transmit side."),
    ("xsk_losses_total", "Losses of the AF_XDP socket."),
    ("xsk_received_total", "Packets received from the AF_XDP socket."),
    ("xsk_rejected_total", "Frames of the AF_XDP socket that are no packets of the endpoint."),
    ("xsk_transmitted_total", "Packets given to the AF_XDP socket."),
];

/// The sentence for the metric `name`.
pub(crate) fn meaning(name: &str) -> &'static str {
    let found = MEANINGS.binary_search_by(|(one, _)| (*one).cmp(name));
    found.ok().and_then(|index| MEANINGS.get(index)).map_or(OTHER, |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code that fills the pages.
    const PROVIDER: &str = include_str!("../../../ffi/src/runtime/statistics.rs");

    #[test]
    fn the_table_is_sorted_and_has_each_counter_of_the_provider() {
        assert!(MEANINGS.is_sorted_by(|one, other| one.0 < other.0));
        let counters = PROVIDER.lines().filter_map(|line| {
            line.trim().strip_prefix("(\"")?.split_once("\", |s|").map(|(name, _)| name)
        });
        let counters: Vec<&str> = counters.collect();
        assert!(counters.len() > 30, "{counters:?}");
        for name in counters {
            assert_ne!(meaning(&format!("{name}_total")), OTHER, "{name}");
        }
        assert_eq!(meaning("of_the_future_total"), OTHER);
    }
}
