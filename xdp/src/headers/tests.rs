// SPDX-License-Identifier: MIT OR Apache-2.0
//! The headers against an independent implementation (`etherparse`), and parsing of any bytes.

use super::*;
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;

fn headers(source: PeerAddress, destination: PeerAddress, checksum: UdpChecksum) -> Headers {
    Headers {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        source,
        destination,
        traffic_class: 0,
        checksum,
    }
}

/// A frame by `etherparse`, VLAN tag optional.
fn built(
    source: PeerAddress,
    destination: PeerAddress,
    vlan: Option<u16>,
    payload: &[u8],
) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let mut frame = Vec::new();
    macro_rules! finish {
        ($link:expr) => {
            match (source.ip(), destination.ip()) {
                (IpAddr::V4(s), IpAddr::V4(d)) => $link
                    .ipv4(s.octets(), d.octets(), 64)
                    .udp(source.port(), destination.port())
                    .write(&mut frame, payload),
                (IpAddr::V6(s), IpAddr::V6(d)) => $link
                    .ipv6(s.octets(), d.octets(), 64)
                    .udp(source.port(), destination.port())
                    .write(&mut frame, payload),
                _ => unreachable!("one family in these tests"),
            }
        };
    }
    match vlan {
        Some(id) => finish!(ethernet.single_vlan(id.try_into().unwrap())),
        None => finish!(ethernet),
    }
    .unwrap();
    frame
}

fn address_pair() -> impl Strategy<Value = (PeerAddress, PeerAddress)> {
    prop_oneof![
        any::<([u8; 4], u16, [u8; 4], u16)>()
            .prop_map(|(a, p, b, q)| (PeerAddress::from_v4(a, p), PeerAddress::from_v4(b, q))),
        any::<([u8; 16], u16, [u8; 16], u16)>()
            .prop_filter("an IPv4-mapped address is IPv4", |(a, _, b, _)| {
                PeerAddress::from_v6(*a, 0).ip().is_ipv6()
                    && PeerAddress::from_v6(*b, 0).ip().is_ipv6()
            })
            .prop_map(|(a, p, b, q)| (PeerAddress::from_v6(a, p), PeerAddress::from_v6(b, q))),
    ]
}

proptest! {
    /// `etherparse` reads the frames of `emit` with the same values and valid checksums.
    #[test]
    fn emit_satisfies_the_oracle(
        (source, destination) in address_pair(),
        payload in prop::collection::vec(any::<u8>(), 0..1600),
        start in HEADERS_V6..200_usize,
        omit: bool,
    ) {
        let mut frame = vec![0xaa; start];
        frame.extend_from_slice(&payload);
        let checksum = if omit { UdpChecksum::Omit } else { UdpChecksum::Compute };
        let headers = headers(source, destination, checksum);
        let at = emit(&headers, &mut frame, start..start + payload.len()).unwrap();
        prop_assert!(frame[..at.start].iter().all(|byte| *byte == 0xaa), "nothing before it");
        let sliced = SlicedPacket::from_ethernet(&frame[at.clone()]).unwrap();
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("not UDP") };
        prop_assert_eq!(udp.source_port(), source.port());
        prop_assert_eq!(udp.destination_port(), destination.port());
        prop_assert_eq!(udp.payload(), &payload[..]);
        let expected = match sliced.net {
            Some(NetSlice::Ipv4(ip)) => {
                let header = ip.header().to_header();
                prop_assert_eq!(header.calc_header_checksum(), header.header_checksum);
                prop_assert_eq!(IpAddr::from(header.source), source.ip());
                prop_assert_eq!(IpAddr::from(header.destination), destination.ip());
                prop_assert!(header.dont_fragment);
                let sum = udp.to_header().calc_checksum_ipv4(&header, &payload).unwrap();
                if omit { 0 } else { sum }
            }
            Some(NetSlice::Ipv6(ip)) => {
                let header = ip.header().to_header();
                prop_assert_eq!(IpAddr::from(header.source), source.ip());
                udp.to_header().calc_checksum_ipv6(&header, &payload).unwrap()
            }
            _ => panic!("not IP"),
        };
        prop_assert_eq!(udp.checksum(), expected);
        let parsed = parse(&frame[at]).unwrap();
        prop_assert_eq!((parsed.source, parsed.destination), (source, destination));
        prop_assert_eq!(parsed.payload, &payload[..]);
    }

    /// `parse` reads the frames of `etherparse` with the same values; padding changes nothing.
    #[test]
    fn parse_satisfies_the_oracle(
        (source, destination) in address_pair(),
        payload in prop::collection::vec(any::<u8>(), 0..200),
        vlan in prop::option::of(0..4096_u16),
        padding in 0..30_usize,
    ) {
        let mut frame = built(source, destination, vlan, &payload);
        frame.extend(core::iter::repeat_n(0, padding));
        let parsed = parse(&frame).unwrap();
        prop_assert_eq!((parsed.source, parsed.destination), (source, destination));
        prop_assert_eq!(parsed.payload, &payload[..]);
        prop_assert!(!parsed.congestion_experienced);
    }

    /// No bytes make `parse` panic, and each truncation of a good frame is refused.
    #[test]
    fn any_bytes_are_refused_or_consistent(bytes: Vec<u8>) {
        if let Ok(parsed) = parse(&bytes) {
            prop_assert!(parsed.payload.len() <= bytes.len());
        }
    }

    /// A frame with one changed byte is refused, or its payload does not grow.
    #[test]
    fn a_changed_byte_never_widens_the_payload(
        (source, destination) in address_pair(),
        at in 0..HEADERS_V6,
        value: u8,
    ) {
        let mut frame = built(source, destination, None, &[7; 64]);
        frame[at] = value;
        if let Ok(parsed) = parse(&frame) {
            prop_assert!(parsed.payload.len() <= 64 + HEADERS_V6 - HEADERS_V4);
        }
    }
}

fn v4_frame() -> Vec<u8> {
    let source = PeerAddress::from_v4([198, 18, 0, 1], 7000);
    built(source, PeerAddress::from_v4([198, 18, 0, 2], 7001), None, &[1; 32])
}

/// Writes the right IPv4 header checksum into a changed frame.
fn resum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = checksum::InternetChecksum::default().add(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&sum);
}

#[test]
fn every_cut_of_a_good_frame_is_refused() {
    let frame = v4_frame();
    assert!(parse(&frame).is_ok());
    for length in 0..frame.len() {
        let refused = parse(&frame[..length]).unwrap_err();
        let expected = if length < 14 + 20 { Reject::Truncated } else { Reject::Length };
        assert_eq!(refused, expected, "cut to {length}");
    }
}

#[test]
fn each_reason_has_its_name() {
    let mut cases: Vec<(Reject, Vec<u8>)> = Vec::new();
    let mut case = |reject, change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = v4_frame();
        change(&mut frame);
        if reject != Reject::Checksum {
            resum(&mut frame);
        }
        cases.push((reject, frame));
    };
    case(Reject::NotIp, &|frame| frame[12..14].copy_from_slice(&[0x08, 0x06]));
    case(Reject::NotIp, &|frame| frame[14] = 0x65);
    case(Reject::Options, &|frame| frame[14] = 0x46);
    case(Reject::Fragment, &|frame| frame[20] = 0x20);
    case(Reject::Fragment, &|frame| frame[21] = 0x01);
    case(Reject::NotUdp, &|frame| frame[23] = 6);
    case(Reject::Checksum, &|frame| frame[26] ^= 1);
    case(Reject::Length, &|frame| frame[16..18].copy_from_slice(&2000_u16.to_be_bytes()));
    case(Reject::Length, &|frame| frame[16..18].copy_from_slice(&19_u16.to_be_bytes()));
    case(Reject::Length, &|frame| frame[38..40].copy_from_slice(&7_u16.to_be_bytes()));
    case(Reject::Length, &|frame| frame[38..40].copy_from_slice(&41_u16.to_be_bytes()));
    for (reject, frame) in &cases {
        assert_eq!(parse(frame), Err(*reject));
    }
}

#[test]
fn congestion_experienced_is_seen_in_both_versions() {
    for (source, destination) in [
        (PeerAddress::from_v4([1; 4], 1), PeerAddress::from_v4([2; 4], 2)),
        (PeerAddress::from_v6([1; 16], 1), PeerAddress::from_v6([2; 16], 2)),
    ] {
        for (ecn, seen) in [(0b00, false), (0b01, false), (0b10, false), (0b11, true)] {
            let mut frame = [0_u8; 200];
            let mut headers = headers(source, destination, UdpChecksum::Omit);
            headers.traffic_class = 0xb8 | ecn;
            let at = emit(&headers, &mut frame, 100..132).unwrap();
            assert_eq!(parse(&frame[at]).unwrap().congestion_experienced, seen);
        }
    }
}

#[test]
fn sizes_that_do_not_fit_are_an_error() {
    let v4 = PeerAddress::from_v4([1; 4], 1);
    let v6 = PeerAddress::from_v6([1; 16], 1);
    let mut frame = vec![0; 70_000];
    let mixed = headers(v4, v6, UdpChecksum::Omit);
    assert_eq!(emit(&mixed, &mut frame, 100..132), Err(EmitError::MixedFamilies));
    let good = headers(v4, v4, UdpChecksum::Omit);
    assert_eq!(emit(&good, &mut frame, 41..73), Err(EmitError::NoRoom));
    assert_eq!(emit(&good, &mut frame, 100..70_001), Err(EmitError::NoRoom));
    assert_eq!(emit(&good, &mut frame, 100..66_000), Err(EmitError::NoRoom));
    assert_eq!(emit(&good, &mut frame, 42..74), Ok(0..74));
}

#[test]
fn an_ethernet_address_prints_as_usual() {
    assert_eq!(std::format!("{}", MacAddress([2, 0, 0, 0xab, 0, 1])), "02:00:00:ab:00:01");
}
