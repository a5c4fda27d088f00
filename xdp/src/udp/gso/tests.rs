// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets join batches, leave them for the other path, and go by the kernel in order.

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
    let [three, four, long] =
        [(3, 1472, 1472), (4, 1472, 1472), (3, 4140, 8972)].map(|(count, segment, receive_max)| {
            let (to, start, length) = (peer(1), 0, segment * usize::from(count));
            GsoBatch {
                to,
                segment,
                count,
                receive_max,
                start,
                length,
                stays: false,
                lacks_path: false,
            }
        });
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
