// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets on their way out, joined into trains.
//!
//! Packets are written one after another into one buffer; those that the kernel may cut apart again
//! become one train. Equal sizes and one destination make a train, a shorter packet ends it
//! (udp(7), `UDP_SEGMENT`). Bounds: [`BYTES`], [`TRAINS_MAX`], and for one train
//! [`TRAIN_BYTES_MAX`].
//!
//! A train crosses a virtual link in one piece, and a peer with `AF_XDP` in generic mode gets to
//! see it so. Its XDP program tells a train from a packet by its length, more than the peer's
//! socket takes, and leaves it to the peer's kernel socket; so trains that are no longer than that
//! ([`Transmit::receive_max`]) are sent packet by packet.

use ofi_xdp_core::{Destination, Transmit};

/// Bytes of all packets between two flushes: twice the longest train, and one packet more.
pub(super) const BYTES: usize = 2 * TRAIN_BYTES_MAX + crate::config::PAYLOAD_MAX;
/// Most trains between two flushes.
pub(super) const TRAINS_MAX: usize = 64;
/// Most bytes of one train: what an IP packet's 16-bit length leaves for the largest headers.
const TRAIN_BYTES_MAX: usize = 65_535 - 48;
/// Most bytes of a short one: three packets of Ethernet's MTU.
const SHORT_BYTES_MAX: usize = 4500;
/// Packets that go one by one after a train was refused: the next attempt costs a hundredth of what
/// they do, if it is refused, too; if not, trains are back within milliseconds.
const SINGLES: u16 = 1024;

/// Packets of one size to one destination; only the last may be shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Train {
    /// Where it goes.
    pub(super) to: Destination,
    /// Bytes of each packet but the last.
    pub(super) segment: usize,
    /// Packets in it.
    pub(super) count: u16,
    /// Bytes that the receiver would take for one packet.
    receive_max: u16,
    start: usize,
    length: usize,
}

impl Train {
    /// Whether it may be sent in one piece.
    pub(super) fn is_joined(&self) -> bool {
        self.count > 1 && self.length > usize::from(self.receive_max)
    }

    /// Whether its packets had better go another way, if there is one: two take 3.8 µs as frames of
    /// an `AF_XDP` socket, where the kernel copies, and 5.4 as a train; three 5.2 and 5.8; four
    /// 6.8 and 6.0 (half round trips in one run). Longer ones take several frames each, so of them
    /// it is told by the bytes.
    fn is_short(&self) -> bool {
        !self.is_joined() || self.length <= SHORT_BYTES_MAX
    }

    /// Cuts the first packet off; where it begins and ends.
    fn behead(&mut self) -> std::ops::Range<usize> {
        let first = self.start..self.start + self.segment.min(self.length);
        self.start = first.end;
        self.length -= first.len();
        self.count -= 1;
        first
    }
}

/// The trains between two flushes.
#[derive(Debug)]
pub(super) struct Trains {
    bytes: Box<[u8]>,
    used: usize,
    trains: Vec<Train>,
    segments_max: u16,
    /// Packets that are still to go one by one.
    singles: u16,
}

impl Trains {
    /// No trains yet; at most `segments_max` packets in each.
    pub(super) fn new(segments_max: usize) -> Self {
        Self {
            bytes: vec![0; BYTES].into_boxed_slice(),
            used: 0,
            trains: Vec::with_capacity(TRAINS_MAX),
            segments_max: u16::try_from(segments_max).unwrap_or(1),
            singles: 0,
        }
    }

    /// The kernel refused a train: the next [`SINGLES`] packets go one by one. It may be for good
    /// (the device cannot cut it apart) or as long as the MTU or the route is what it is; neither
    /// the error nor the socket tells which.
    #[cold]
    pub(super) const fn pause(&mut self) {
        self.singles = SINGLES;
    }

    /// The most packets in each train.
    pub(super) const fn segments_max(&self) -> u16 {
        self.segments_max
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
    pub(super) fn push(&mut self, transmit: Transmit) {
        let Transmit { len, to, receive_max } = transmit;
        if self.continues(transmit)
            && let Some(train) = self.trains.last_mut()
        {
            train.count += 1;
            train.length += len;
        } else {
            let start = self.used;
            let train = Train { to, segment: len, count: 1, receive_max, start, length: len };
            self.trains.push(train);
        }
        self.singles = self.singles.saturating_sub(1);
        self.used += len;
    }

    /// Whether the packet belongs to the train that was begun last.
    pub(super) fn continues(&self, transmit: Transmit) -> bool {
        let Transmit { len, to, .. } = transmit;
        self.singles == 0
            && self.trains.last().is_some_and(|train| {
                train.to == to
                    && len <= train.segment
                    && train.length == train.segment * usize::from(train.count)
                    && train.count < self.segments_max
                    && train.length + len <= TRAIN_BYTES_MAX
            })
    }

    /// Offers the packets of short trains to `take`, until it takes one no more; what it took is
    /// not in the trains any more. What is left of a long train stays behind it: on the other way
    /// it would arrive before, and be a hole to the receiver.
    pub(super) fn divert(&mut self, mut take: impl FnMut(Transmit, &[u8]) -> bool) {
        let (mut takes, mut behind) = (true, None);
        for train in &mut self.trains {
            if !train.is_short() || behind == Some(train.to) {
                behind = Some(train.to);
                continue;
            }
            // bound: its packets
            while takes && train.count > 0 {
                takes = Self::offer(&self.bytes, train, &mut take);
            }
        }
    }

    /// Offers the first packet of `train`, and takes it out if it was taken.
    fn offer(
        bytes: &[u8],
        train: &mut Train,
        take: &mut impl FnMut(Transmit, &[u8]) -> bool,
    ) -> bool {
        let whole = *train;
        let first = bytes.get(train.behead()).unwrap_or(&[]);
        let Train { to, receive_max, .. } = whole;
        let taken = take(Transmit { len: first.len(), to, receive_max }, first);
        if !taken {
            *train = whole;
        }
        taken
    }

    /// Hands each train and its bytes to `send`, and starts afresh.
    pub(super) fn drain(&mut self, mut send: impl FnMut(Train, &[u8])) {
        for train in self.trains.iter().filter(|train| train.count > 0) {
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
    use ofi_xdp_core::{PeerAddress, PeerId};
    use proptest::prelude::*;

    fn peer(port: u16) -> Destination {
        let address = PeerAddress::from_v4([198, 18, 0, 1], port);
        Destination { peer: PeerId::new(port.into(), 1), address }
    }

    /// A packet for somebody who takes 1472 bytes.
    fn packet(len: usize, port: u16) -> Transmit {
        Transmit { len, to: peer(port), receive_max: 1472 }
    }

    /// Packets' lengths and destinations, as trains of (destination, lengths).
    fn joined(packets: &[(usize, u16)], segments_max: usize) -> Vec<(u16, Vec<usize>)> {
        let mut trains = Trains::new(segments_max);
        for (len, port) in packets {
            trains.buffer(*len).unwrap();
            trains.push(packet(*len, *port));
        }
        let mut out = Vec::new();
        trains.drain(|train, bytes| {
            let packets: Vec<usize> = bytes.chunks(train.segment).map(<[u8]>::len).collect();
            assert_eq!(packets.len(), usize::from(train.count));
            out.push((train.to.address.port(), packets));
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
    fn after_a_refusal_packets_go_one_by_one_for_a_while() {
        let mut trains = Trains::new(64);
        trains.pause();
        let mut sent = Vec::new();
        for _ in 0..2 * SINGLES / 16 {
            for _ in 0..16 {
                trains.buffer(32).unwrap();
                trains.push(packet(32, 1));
            }
            trains.drain(|train, _| sent.push(train.count));
        }
        let (alone, joined) = sent.split_at(usize::from(SINGLES));
        assert!(alone.iter().all(|count| *count == 1));
        assert_eq!(joined, [16; SINGLES as usize / 16]);
    }

    #[test]
    fn what_might_be_taken_for_one_packet_is_sent_packet_by_packet() {
        for (len, count, receive_max, is_joined) in [
            (1472, 1, 1472, false),
            (1472, 2, 1472, true),
            (1472, 6, 8972, false),
            (1472, 7, 8972, true),
            (32, 46, 1472, false),
            (32, 47, 1472, true),
            (8972, 2, 8972, true),
            (1408, 46, u16::MAX, false),
        ] {
            let mut trains = Trains::new(64);
            for _ in 0..count {
                trains.buffer(len).unwrap();
                trains.push(Transmit { receive_max, ..packet(len, 1) });
            }
            trains.drain(|train, _| assert_eq!(train.is_joined(), is_joined, "{count} of {len}"));
        }
    }

    /// Packets of 1472 bytes to each of some peers; how many another way takes that takes `most`,
    /// and what is left of each train.
    fn diverted(counts: &[u16], most: usize) -> (Vec<u16>, Vec<u16>) {
        let mut trains = Trains::new(64);
        for (port, count) in (1_u16..).zip(counts) {
            for number in 0..*count {
                trains.buffer(1472).unwrap().fill(number as u8);
                trains.push(Transmit { receive_max: 8972, ..packet(1472, port) });
            }
        }
        let mut taken = vec![0; counts.len()];
        trains.divert(|transmit, packet| {
            let port = usize::from(transmit.to.address.port());
            let takes = taken.iter().map(|&count| usize::from(count)).sum::<usize>() < most;
            if takes {
                assert_eq!(packet, vec![taken[port - 1] as u8; 1472], "in order");
                taken[port - 1] += 1;
            }
            takes
        });
        let mut left = vec![0; counts.len()];
        trains.drain(|train, bytes| {
            let at = usize::from(train.to.address.port()) - 1;
            assert_eq!(bytes[0], taken[at] as u8, "what was taken is gone");
            assert_eq!(bytes.len(), usize::from(train.count) * 1472);
            left[at] = train.count;
        });
        (taken, left)
    }

    #[test]
    fn short_trains_take_another_way() {
        assert_eq!(diverted(&[6], 99), (vec![6], vec![0]), "no longer than one packet may be");
        assert_eq!(diverted(&[7], 99), (vec![0], vec![7]));
        assert_eq!(diverted(&[3, 20], 99), (vec![3, 0], vec![0, 20]));
        let [three, four, long] = [(3, 1472, 1472), (4, 1472, 1472), (3, 4140, 8972)].map(
            |(count, segment, receive_max)| {
                let (to, start, length) = (peer(1), 0, segment * usize::from(count));
                Train { to, segment, count, receive_max, start, length }
            },
        );
        assert!(three.is_joined() && three.is_short());
        assert!(!four.is_short() && !long.is_short());
    }

    #[test]
    fn what_a_long_train_has_no_room_for_stays_behind_it() {
        let mut trains = Trains::new(64);
        for port in [[1; 46].as_slice(), &[2; 2]].concat() {
            trains.buffer(1472).unwrap();
            trains.push(packet(1472, port));
        }
        let mut taken = Vec::new();
        trains.divert(|transmit, _| {
            taken.push(transmit.to.address.port());
            true
        });
        assert_eq!(taken, [2, 2]);
        let mut left = Vec::new();
        trains.drain(|train, _| left.push((train.to.address.port(), train.count)));
        assert_eq!(left, [(1, 44), (1, 2)]);
    }

    #[test]
    fn what_the_other_way_has_no_room_for_stays() {
        assert_eq!(diverted(&[6], 2), (vec![2], vec![4]));
        assert_eq!(diverted(&[3, 20], 0), (vec![0, 0], vec![3, 20]));
    }

    #[test]
    fn room_ends_and_comes_back() {
        let mut trains = Trains::new(64);
        let mut count = 0;
        while trains.buffer(1472).is_some() {
            trains.push(packet(1472, 1));
            count += 1;
        }
        assert_eq!(count, BYTES / 1472);
        trains.drain(|_, _| {});
        for port in 0..64 {
            trains.buffer(32).unwrap();
            trains.push(packet(32, port));
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
                trains.push(packet(*len, *port));
            }
            let mut out = Vec::new();
            trains.drain(|train, bytes| {
                for packet in bytes.chunks(train.segment) {
                    out.push((packet.to_vec(), train.to.address.port()));
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
