// SPDX-License-Identifier: MIT OR Apache-2.0
//! GSO batches: outgoing packets that the kernel takes in one piece and splits.
//!
//! In: packets, written one after another into one buffer. Out: batches of packets of one size to
//! one destination; a shorter packet ends its batch (udp(7), `UDP_SEGMENT`). Caller: the UDP port.
//! Bounds: [`BYTES`], [`BATCHES_MAX`], and [`BATCH_BYTES_MAX`] for one batch.
//!
//! A batch crosses a virtual link in one piece, and a peer with `AF_XDP` in generic mode receives
//! it so. Its XDP program recognises a batch by the length. A batch is longer than the peer's
//! socket takes, and goes to the peer's kernel socket. Therefore batches up to that length
//! ([`Transmit::receive_max`]) are sent packet by packet. A batch has one such length.

use std::io;

use ofi_xdp_core::{Destination, Transmit};

use super::memory::zeroed;

/// Bytes of all packets between two flushes: two batches of maximum length and one packet.
pub(super) const BYTES: usize = 2 * BATCH_BYTES_MAX + crate::config::PAYLOAD_MAX;
/// Maximum number of batches between two flushes.
pub(super) const BATCHES_MAX: usize = 64;
/// Maximum length of one batch: the payload that the 16-bit length of an IP packet leaves behind
/// the longest headers.
const BATCH_BYTES_MAX: usize = 65_535 - 48;
/// Maximum length of a short batch: three packets of Ethernet's MTU.
const SHORT_BYTES_MAX: usize = 4500;
/// Most packets of a short batch.
const SHORT_PACKETS_MAX: u16 = 4;
/// Packets that are sent one by one after the kernel refused a batch. If the next attempt fails
/// again, it costs a hundredth of these packets; if it succeeds, batches are back within
/// milliseconds.
const UNBATCHED_PACKETS: u16 = 1024;

/// Packets of one size to one destination; only the last may be shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GsoBatch {
    /// Destination of all packets.
    pub(super) to: Destination,
    /// Bytes of each packet but the last.
    pub(super) segment: usize,
    /// Number of packets.
    pub(super) count: u16,
    /// Longest datagram that the receiver takes for one packet, in bytes.
    receive_max: u16,
    start: usize,
    length: usize,
    /// Whether its packets leave by the kernel, whatever other path there is.
    stays: bool,
}

impl GsoBatch {
    /// Whether the batch may be sent in one piece.
    pub(super) fn uses_gso(&self) -> bool {
        self.count > 1 && self.length > usize::from(self.receive_max)
    }

    /// Whether the `AF_XDP` socket is the better path, if there is one. Where the kernel copies,
    /// frames are faster for up to three packets, and as fast for four short ones. Longer packets
    /// take several frames each, so there is a limit in bytes.
    fn is_short(&self) -> bool {
        let few = self.count <= SHORT_PACKETS_MAX && self.length <= SHORT_BYTES_MAX;
        few || !self.uses_gso()
    }

    /// The packets of `bytes`, which are the batch's. An empty packet is alone in its batch.
    pub(super) fn packets<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let empty: Option<&[u8]> = (self.segment == 0).then_some(&[]);
        bytes.chunks(self.segment.max(1)).chain(empty)
    }

    /// Removes the first packet, and returns its range of bytes.
    fn pop_front(&mut self) -> std::ops::Range<usize> {
        let first = self.start..self.start + self.segment.min(self.length);
        self.start = first.end;
        self.length -= first.len();
        self.count -= 1;
        first
    }
}

/// The batches between two flushes.
#[derive(Debug)]
pub(super) struct GsoBatches {
    bytes: Box<[u8]>,
    used: usize,
    batches: Vec<GsoBatch>,
    segments_max: u16,
    /// Packets to send one by one before the next batch.
    unbatched_left: u16,
}

impl GsoBatches {
    /// No batches yet; each takes at most `segments_max` packets.
    ///
    /// # Errors
    /// Without memory for them.
    pub(super) fn new(segments_max: usize) -> io::Result<Self> {
        Ok(Self {
            bytes: zeroed(BYTES)?,
            used: 0,
            batches: Vec::with_capacity(BATCHES_MAX),
            segments_max: u16::try_from(segments_max).unwrap_or(1),
            unbatched_left: 0,
        })
    }

    /// Sends the next [`UNBATCHED_PACKETS`] packets one by one, because the kernel refused a batch.
    /// The reason may be permanent (the device cannot split it) or last as long as the MTU or the
    /// route. Neither the error nor the socket tells which.
    #[cold]
    pub(super) const fn pause(&mut self) {
        self.unbatched_left = UNBATCHED_PACKETS;
    }

    /// Maximum number of packets of each batch.
    pub(super) const fn segments_max(&self) -> u16 {
        self.segments_max
    }

    /// Whether a packet of `len` bytes fits.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.used + len <= self.bytes.len() && self.batches.len() < BATCHES_MAX
    }

    /// Room for the next packet of `len` bytes.
    pub(super) fn buffer(&mut self, len: usize) -> Option<&mut [u8]> {
        if !self.has_room(len) {
            return None;
        }
        self.bytes.get_mut(self.used..self.used + len)
    }

    /// Queues the packet that was written into [`Self::buffer`].
    pub(super) fn push(&mut self, transmit: Transmit) {
        let Transmit { len, to, receive_max } = transmit;
        if self.continues(transmit)
            && let Some(batch) = self.batches.last_mut()
        {
            batch.count += 1;
            batch.length += len;
        } else {
            let start = self.used;
            let batch = GsoBatch {
                to,
                segment: len,
                count: 1,
                receive_max,
                start,
                length: len,
                stays: false,
            };
            self.batches.push(batch);
        }
        self.unbatched_left = self.unbatched_left.saturating_sub(1);
        self.used += len;
    }

    /// Whether the packet belongs to the last batch. An empty one does not, as the bytes of a batch
    /// would not show it.
    pub(super) fn continues(&self, transmit: Transmit) -> bool {
        let Transmit { len, to, receive_max } = transmit;
        self.unbatched_left == 0
            && self.batches.last().is_some_and(|batch| {
                (batch.to, batch.receive_max) == (to, receive_max)
                    && (1..=batch.segment).contains(&len)
                    && batch.length == batch.segment * usize::from(batch.count)
                    && batch.count < self.segments_max
                    && batch.length + len <= BATCH_BYTES_MAX
            })
    }

    /// Makes the packet that was queued last leave by the kernel, and its batch with it.
    pub(super) fn keep_last(&mut self) {
        if let Some(batch) = self.batches.last_mut() {
            batch.stays = true;
        }
    }

    /// Offers the packets of short batches to `take`, until it refuses one; taken packets leave
    /// their batch. Later packets to the destination of a batch that stays remain behind it. On the
    /// other path they would overtake it, and the receiver would see a gap.
    pub(super) fn reroute_short_batches(&mut self, mut take: impl FnMut(Transmit, &[u8]) -> bool) {
        let Self { batches, bytes, .. } = self;
        let (mut takes, mut some_stay) = (true, false);
        // bound: the batches, each compared with those before it if one of them stays
        for at in 0..batches.len() {
            let (earlier, rest) = batches.split_at_mut(at);
            let Some(batch) = rest.first_mut() else { break };
            batch.stays |= !batch.is_short();
            let follows = |other: &GsoBatch| other.stays && other.to == batch.to;
            batch.stays |= some_stay && earlier.iter().any(follows);
            some_stay |= batch.stays;
            // bound: its packets
            while takes && !batch.stays && batch.count > 0 {
                takes = Self::offer(bytes, batch, &mut take);
            }
        }
    }

    /// Offers the first packet of `batch`, and removes it if it was taken.
    fn offer(
        bytes: &[u8],
        batch: &mut GsoBatch,
        take: &mut impl FnMut(Transmit, &[u8]) -> bool,
    ) -> bool {
        let whole = *batch;
        let first = bytes.get(batch.pop_front()).unwrap_or(&[]);
        let GsoBatch { to, receive_max, .. } = whole;
        let taken = take(Transmit { len: first.len(), to, receive_max }, first);
        if !taken {
            *batch = whole;
        }
        taken
    }

    /// Whether no batch waits.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Hands each batch and its bytes to `send`, and empties the buffer.
    pub(super) fn drain(&mut self, mut send: impl FnMut(GsoBatch, &[u8])) {
        for batch in self.batches.iter().filter(|batch| batch.count > 0) {
            let bytes = self.bytes.get(batch.start..batch.start + batch.length);
            send(*batch, bytes.unwrap_or(&[]));
        }
        self.batches.clear();
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_core::{PeerAddress, PeerId};
    use proptest::prelude::*;

    fn peer(port: u16) -> Destination {
        let address = PeerAddress::from_v4([198, 18, 0, 1], port);
        Destination { peer: PeerId::new(port.into(), 1), address }
    }

    /// A packet for a receiver with a limit of 1472 bytes.
    fn packet(len: usize, port: u16) -> Transmit {
        Transmit { len, to: peer(port), receive_max: 1472 }
    }

    /// Lengths and destinations of packets, as batches of (destination, lengths).
    fn joined(packets: &[(usize, u16)], segments_max: usize) -> Vec<(u16, Vec<usize>)> {
        let mut batches = GsoBatches::new(segments_max).unwrap();
        for (len, port) in packets {
            batches.buffer(*len).unwrap();
            batches.push(packet(*len, *port));
        }
        let mut out = Vec::new();
        batches.drain(|batch, bytes| {
            let packets: Vec<usize> = batch.packets(bytes).map(<[u8]>::len).collect();
            assert_eq!(packets.len(), usize::from(batch.count));
            out.push((batch.to.address.port(), packets));
        });
        out
    }

    #[test]
    fn equal_packets_to_one_peer_make_one_batch() {
        assert_eq!(joined(&[(100, 1); 3], 64), [(1, vec![100; 3])]);
    }

    #[test]
    fn a_shorter_packet_ends_a_batch_and_a_longer_one_starts_one() {
        let packets = [(100, 1), (100, 1), (60, 1), (60, 1), (100, 1)];
        let batches = [(1, vec![100, 100, 60]), (1, vec![60]), (1, vec![100])];
        assert_eq!(joined(&packets, 64), batches);
    }

    #[test]
    fn an_empty_packet_has_a_batch_of_its_own() {
        let packets = [(100, 1), (0, 1), (100, 1), (0, 1), (0, 1), (0, 1), (100, 1)];
        let batches = packets.map(|(len, port)| (port, vec![len]));
        assert_eq!(joined(&packets, 64), batches);
    }

    #[test]
    fn another_destination_starts_a_batch() {
        let batches = [(1, vec![100]), (2, vec![100]), (1, vec![100])];
        assert_eq!(joined(&[(100, 1), (100, 2), (100, 1)], 64), batches);
    }

    #[test]
    fn a_batch_has_a_longest_length() {
        let batches = joined(&[(1472, 1); 80], 64);
        let lengths: Vec<usize> = batches.iter().map(|batch| batch.1.len()).collect();
        assert_eq!(lengths, [44, 36], "44 × 1472 = 64768");
        let batches = joined(&[(32, 1); 130], 64);
        let lengths: Vec<usize> = batches.iter().map(|batch| batch.1.len()).collect();
        assert_eq!(lengths, [64, 64, 2]);
        assert_eq!(joined(&[(32, 1); 3], 1).len(), 3, "without segmentation");
    }

    #[test]
    fn after_a_refusal_packets_go_one_by_one_for_a_while() {
        let mut batches = GsoBatches::new(64).unwrap();
        batches.pause();
        let mut sent = Vec::new();
        for _ in 0..2 * UNBATCHED_PACKETS / 16 {
            for _ in 0..16 {
                batches.buffer(32).unwrap();
                batches.push(packet(32, 1));
            }
            batches.drain(|batch, _| sent.push(batch.count));
        }
        let (alone, joined) = sent.split_at(usize::from(UNBATCHED_PACKETS));
        assert!(alone.iter().all(|count| *count == 1));
        assert_eq!(joined, [16; UNBATCHED_PACKETS as usize / 16]);
    }

    #[test]
    fn a_batch_no_longer_than_one_packet_is_sent_packet_by_packet() {
        for (len, count, receive_max, uses_gso) in [
            (1472, 1, 1472, false),
            (1472, 2, 1472, true),
            (1472, 6, 8972, false),
            (1472, 7, 8972, true),
            (32, 46, 1472, false),
            (32, 47, 1472, true),
            (8972, 2, 8972, true),
            (1408, 46, u16::MAX, false),
        ] {
            let mut batches = GsoBatches::new(64).unwrap();
            for _ in 0..count {
                batches.buffer(len).unwrap();
                batches.push(Transmit { receive_max, ..packet(len, 1) });
            }
            batches.drain(|batch, _| assert_eq!(batch.uses_gso(), uses_gso, "{count} of {len}"));
        }
    }

    #[test]
    fn a_packet_that_leaves_alone_joins_no_batch() {
        let mut batches = GsoBatches::new(64).unwrap();
        for receive_max in [1472, 1472, u16::MAX, u16::MAX, 1472] {
            batches.buffer(1472).unwrap();
            batches.push(Transmit { receive_max, ..packet(1472, 1) });
        }
        let mut sent = Vec::new();
        batches.drain(|batch, _| sent.push((batch.count, batch.uses_gso())));
        assert_eq!(sent, [(2, true), (2, false), (1, false)]);
    }

    /// Queues packets of 1472 bytes to several peers, and reroutes at most `most` of them. Returns
    /// the rerouted packets and the rest of each batch.
    fn rerouted(counts: &[u16], most: usize) -> (Vec<u16>, Vec<u16>) {
        let mut batches = GsoBatches::new(64).unwrap();
        for (port, count) in (1_u16..).zip(counts) {
            for number in 0..*count {
                batches.buffer(1472).unwrap().fill(number as u8);
                batches.push(Transmit { receive_max: 8972, ..packet(1472, port) });
            }
        }
        let mut taken = vec![0; counts.len()];
        batches.reroute_short_batches(|transmit, packet| {
            let port = usize::from(transmit.to.address.port());
            let takes = taken.iter().map(|&count| usize::from(count)).sum::<usize>() < most;
            if takes {
                assert_eq!(packet, vec![taken[port - 1] as u8; 1472], "in order");
                taken[port - 1] += 1;
            }
            takes
        });
        let mut left = vec![0; counts.len()];
        batches.drain(|batch, bytes| {
            let at = usize::from(batch.to.address.port()) - 1;
            assert_eq!(bytes[0], taken[at] as u8, "taken packets are gone");
            assert_eq!(bytes.len(), usize::from(batch.count) * 1472);
            left[at] = batch.count;
        });
        (taken, left)
    }

    #[test]
    fn short_batches_are_rerouted() {
        assert_eq!(rerouted(&[6], 99), (vec![6], vec![0]), "no longer than one packet may be");
        assert_eq!(rerouted(&[7], 99), (vec![0], vec![7]));
        assert_eq!(rerouted(&[3, 20], 99), (vec![3, 0], vec![0, 20]));
        let [three, four, long] = [(3, 1472, 1472), (4, 1472, 1472), (3, 4140, 8972)].map(
            |(count, segment, receive_max)| {
                let (to, start, length) = (peer(1), 0, segment * usize::from(count));
                GsoBatch { to, segment, count, receive_max, start, length, stays: false }
            },
        );
        assert!(three.uses_gso() && three.is_short());
        assert!(!four.is_short() && !long.is_short());
    }

    #[test]
    fn packets_that_a_long_batch_has_no_room_for_follow_it() {
        let mut batches = GsoBatches::new(64).unwrap();
        for port in [[1; 46].as_slice(), &[2; 2]].concat() {
            batches.buffer(1472).unwrap();
            batches.push(packet(1472, port));
        }
        let mut taken = Vec::new();
        batches.reroute_short_batches(|transmit, _| {
            taken.push(transmit.to.address.port());
            true
        });
        assert_eq!(taken, [2, 2]);
        let mut left = Vec::new();
        batches.drain(|batch, _| left.push((batch.to.address.port(), batch.count)));
        assert_eq!(left, [(1, 44), (1, 2)]);
    }

    /// The destinations of packets that are rerouted, and of those that stay.
    fn divided(packets: &[(usize, u16)], staying: &[usize]) -> (Vec<u16>, Vec<u16>) {
        let mut batches = GsoBatches::new(64).unwrap();
        for (number, &(len, port)) in packets.iter().enumerate() {
            batches.buffer(len).unwrap();
            batches.push(packet(len, port));
            if staying.contains(&number) {
                batches.keep_last();
            }
        }
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        batches.reroute_short_batches(|transmit, _| {
            taken.push(transmit.to.address.port());
            true
        });
        batches.drain(|batch, _| left.extend(vec![batch.to.address.port(); batch.count.into()]));
        (taken, left)
    }

    #[test]
    fn short_tails_of_several_long_batches_follow_them() {
        let long = |port| vec![(1472, port); 10];
        let packets = [long(1), long(2), vec![(100, 1), (100, 2), (100, 3)]].concat();
        let (taken, left) = divided(&packets, &[]);
        assert_eq!((taken, left[20..].to_vec()), (vec![3], vec![1, 2]));
    }

    #[test]
    fn a_packet_that_is_the_kernels_stays_and_those_behind_it() {
        let packets = [(100, 1), (100, 2), (200, 1), (100, 3)];
        assert_eq!(divided(&packets, &[]), (vec![1, 2, 1, 3], vec![]));
        assert_eq!(divided(&packets, &[0]), (vec![2, 3], vec![1, 1]));
        assert_eq!(divided(&packets, &[2]), (vec![1, 2, 3], vec![1]));
    }

    #[test]
    fn packets_without_room_on_the_other_path_stay() {
        assert_eq!(rerouted(&[6], 2), (vec![2], vec![4]));
        assert_eq!(rerouted(&[3, 20], 0), (vec![0, 0], vec![3, 20]));
    }

    #[test]
    fn room_ends_and_comes_back() {
        let mut batches = GsoBatches::new(64).unwrap();
        let mut count = 0;
        while batches.buffer(1472).is_some() {
            batches.push(packet(1472, 1));
            count += 1;
        }
        assert_eq!(count, BYTES / 1472);
        batches.drain(|_, _| {});
        for port in 0..64 {
            batches.buffer(32).unwrap();
            batches.push(packet(32, port));
        }
        assert!(batches.buffer(32).is_none(), "too many batches");
    }

    proptest! {
        /// All queued packets come out in order, byte for byte.
        #[test]
        fn nothing_is_lost_or_reordered(
            packets in prop::collection::vec((0..200_usize, 1..4_u16), 0..64),
            segments_max in 1..64_usize,
        ) {
            let mut batches = GsoBatches::new(segments_max).unwrap();
            for (number, (len, port)) in (0_u8..).zip(&packets) {
                batches.buffer(*len).unwrap().fill(number);
                batches.push(packet(*len, *port));
            }
            let mut out = Vec::new();
            batches.drain(|batch, bytes| {
                for packet in batch.packets(bytes) {
                    out.push((packet.to_vec(), batch.to.address.port()));
                }
            });
            let expected: Vec<_> = (0_u8..)
                .zip(&packets)
                .map(|(number, (len, port))| (vec![number; *len], *port))
                .collect();
            prop_assert_eq!(out, expected);
        }
    }
}
