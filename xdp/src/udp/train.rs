// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets on their way out, joined into trains.
//!
//! Packets are written one after another into one buffer; those that the kernel may cut apart again
//! become one train. Equal sizes and one destination make a train, a shorter packet ends it
//! (udp(7), `UDP_SEGMENT`). Bounds: [`BYTES`], [`TRAINS_MAX`], and for one train
//! [`TRAIN_BYTES_MAX`].
//!
//! A train crosses a virtual link in one piece, and a peer with `AF_XDP` in generic mode gets to
//! see it so. Its XDP program tells a train from a packet by its length, larger than the MTU, and
//! leaves it to the peer's kernel socket; so trains of less than [`TRAIN_BYTES_MIN`] are sent
//! packet by packet.

use ofi_xdp_core::PeerAddress;

/// Bytes of all packets between two flushes: twice the longest train, and one packet more.
pub(super) const BYTES: usize = 2 * TRAIN_BYTES_MAX + crate::config::PAYLOAD_MAX;
/// Most trains between two flushes.
pub(super) const TRAINS_MAX: usize = 64;
/// Most bytes of one train: what an IP packet's 16-bit length leaves for the largest headers.
const TRAIN_BYTES_MAX: usize = 65_535 - 48;

/// Fewest bytes of one train: more than any usual MTU. A peer whose MTU is larger still, and who
/// receives in generic mode over a virtual link, would lose shorter trains.
const TRAIN_BYTES_MIN: usize = 9217;

/// Packets of one size to one destination; only the last may be shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Train {
    /// Where it goes.
    pub(super) to: PeerAddress,
    /// Bytes of each packet but the last.
    pub(super) segment: usize,
    /// Packets in it.
    pub(super) count: u16,
    start: usize,
    length: usize,
}

impl Train {
    /// Whether it may be sent in one piece.
    pub(super) const fn is_joined(&self) -> bool {
        self.count > 1 && self.length >= TRAIN_BYTES_MIN
    }
}

/// The trains between two flushes.
#[derive(Debug)]
pub(super) struct Trains {
    bytes: Box<[u8]>,
    used: usize,
    trains: Vec<Train>,
    segments_max: u16,
}

impl Trains {
    /// No trains yet; at most `segments_max` packets in each.
    pub(super) fn new(segments_max: usize) -> Self {
        Self {
            bytes: vec![0; BYTES].into_boxed_slice(),
            used: 0,
            trains: Vec::with_capacity(TRAINS_MAX),
            segments_max: u16::try_from(segments_max).unwrap_or(1),
        }
    }

    /// From now on at most `segments_max` packets in each train.
    pub(super) fn set_segments_max(&mut self, segments_max: u16) {
        self.segments_max = segments_max;
    }

    /// Whether a packet of `len` bytes fits.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.used + len <= self.bytes.len() && self.trains.len() < TRAINS_MAX
    }

    /// Room for the next packet, `len` bytes of it.
    pub(super) fn buffer(&mut self, len: usize) -> Option<&mut [u8]> {
        if !self.has_room(len) {
            return None;
        }
        self.bytes.get_mut(self.used..self.used + len)
    }

    /// Queues the packet that was written into [`Self::buffer`].
    pub(super) fn push(&mut self, len: usize, to: PeerAddress) {
        if let Some(train) = self.trains.last_mut()
            && train.to == to
            && len <= train.segment
            && train.length == train.segment * usize::from(train.count)
            && train.count < self.segments_max
            && train.length + len <= TRAIN_BYTES_MAX
        {
            train.count += 1;
            train.length += len;
        } else {
            let train = Train { to, segment: len, count: 1, start: self.used, length: len };
            self.trains.push(train);
        }
        self.used += len;
    }

    /// Hands each train and its bytes to `send`, and starts afresh.
    pub(super) fn drain(&mut self, mut send: impl FnMut(Train, &[u8])) {
        for train in &self.trains {
            let bytes = self.bytes.get(train.start..train.start + train.length);
            send(*train, bytes.unwrap_or(&[]));
        }
        self.trains.clear();
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn peer(port: u16) -> PeerAddress {
        PeerAddress::from_v4([198, 18, 0, 1], port)
    }

    /// Packets' lengths and destinations, as trains of (destination, lengths).
    fn joined(packets: &[(usize, u16)], segments_max: usize) -> Vec<(u16, Vec<usize>)> {
        let mut trains = Trains::new(segments_max);
        for (len, port) in packets {
            trains.buffer(*len).unwrap();
            trains.push(*len, peer(*port));
        }
        let mut out = Vec::new();
        trains.drain(|train, bytes| {
            let packets: Vec<usize> = bytes.chunks(train.segment).map(<[u8]>::len).collect();
            assert_eq!(packets.len(), usize::from(train.count));
            out.push((train.to.port(), packets));
        });
        out
    }

    #[test]
    fn equal_packets_to_one_peer_make_one_train() {
        assert_eq!(joined(&[(100, 1); 3], 64), [(1, vec![100; 3])]);
    }

    #[test]
    fn a_shorter_packet_ends_a_train_and_a_longer_one_starts_one() {
        let packets = [(100, 1), (100, 1), (60, 1), (60, 1), (100, 1)];
        let trains = [(1, vec![100, 100, 60]), (1, vec![60]), (1, vec![100])];
        assert_eq!(joined(&packets, 64), trains);
    }

    #[test]
    fn another_destination_starts_a_train() {
        let trains = [(1, vec![100]), (2, vec![100]), (1, vec![100])];
        assert_eq!(joined(&[(100, 1), (100, 2), (100, 1)], 64), trains);
    }

    #[test]
    fn a_train_has_a_longest_length() {
        let trains = joined(&[(1472, 1); 80], 64);
        let lengths: Vec<usize> = trains.iter().map(|train| train.1.len()).collect();
        assert_eq!(lengths, [44, 36], "44 × 1472 = 64768");
        let trains = joined(&[(32, 1); 130], 64);
        let lengths: Vec<usize> = trains.iter().map(|train| train.1.len()).collect();
        assert_eq!(lengths, [64, 64, 2]);
        assert_eq!(joined(&[(32, 1); 3], 1).len(), 3, "without segmentation");
    }

    #[test]
    fn what_might_be_taken_for_one_packet_is_sent_packet_by_packet() {
        for (len, count, is_joined) in
            [(1472, 1, false), (1472, 6, false), (1472, 7, true), (32, 64, false), (8972, 2, true)]
        {
            let mut trains = Trains::new(64);
            for _ in 0..count {
                trains.buffer(len).unwrap();
                trains.push(len, peer(1));
            }
            trains.drain(|train, _| assert_eq!(train.is_joined(), is_joined, "{count} of {len}"));
        }
    }

    #[test]
    fn room_ends_and_comes_back() {
        let mut trains = Trains::new(64);
        let mut count = 0;
        while trains.buffer(1472).is_some() {
            trains.push(1472, peer(1));
            count += 1;
        }
        assert_eq!(count, BYTES / 1472);
        trains.drain(|_, _| {});
        for port in 0..64 {
            trains.buffer(32).unwrap();
            trains.push(32, peer(port));
        }
        assert!(trains.buffer(32).is_none(), "too many trains");
    }

    proptest! {
        /// Whatever is queued comes out in order, byte for byte.
        #[test]
        fn nothing_is_lost_or_reordered(
            packets in prop::collection::vec((1..200_usize, 1..4_u16), 0..64),
            segments_max in 1..64_usize,
        ) {
            let mut trains = Trains::new(segments_max);
            for (number, (len, port)) in (0_u8..).zip(&packets) {
                trains.buffer(*len).unwrap().fill(number);
                trains.push(*len, peer(*port));
            }
            let mut out = Vec::new();
            trains.drain(|train, bytes| {
                for packet in bytes.chunks(train.segment) {
                    out.push((packet.to_vec(), train.to.port()));
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
