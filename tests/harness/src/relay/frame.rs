// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of frames that a relay reads, and the ICMP message of a hop about a packet beyond
//! its MTU.

use std::net::IpAddr;

use ofi_xdp_core::PeerAddress;

use super::line::ETHERNET_LEN;

const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const ICMP_LEN: usize = 8;
const ICMPV6: u8 = 58;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Bytes of the packet that an `ICMPv4` message quotes: header and 8 bytes (RFC 792).
const QUOTE_V4: usize = IPV4_LEN + 8;
/// Bytes of the packet that an `ICMPv6` message quotes: it fits the smallest MTU (RFC 4443 §3.2).
const QUOTE_V6: usize = 1280 - IPV6_LEN - ICMP_LEN;

/// Whether a frame resolves addresses: ARP, or `ICMPv6` neighbour discovery (RFC 4861). A host that
/// loses one waits for a second.
pub(super) fn is_address_resolution(frame: &[u8]) -> bool {
    match ethertype(frame) {
        Some(ETHERTYPE_ARP) => true,
        Some(ETHERTYPE_IPV6) => {
            frame.get(ETHERNET_LEN + 6) == Some(&ICMPV6)
                && matches!(frame.get(ETHERNET_LEN + IPV6_LEN), Some(133..=137))
        }
        _ => false,
    }
}

fn ethertype(frame: &[u8]) -> Option<[u8; 2]> {
    frame.get(12..ETHERNET_LEN)?.try_into().ok()
}

/// Source and destination of an IP packet; the ports are 0 unless it is a whole UDP or TCP packet.
pub(super) fn flow(frame: &[u8]) -> Option<(PeerAddress, PeerAddress)> {
    let packet = frame.get(ETHERNET_LEN..)?;
    let v4 = |at: usize| -> Option<IpAddr> {
        let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(octets.into())
    };
    let v6 = |at: usize| -> Option<IpAddr> {
        let octets: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
        Some(octets.into())
    };
    let (from, to, protocol, header) = match ethertype(frame)? {
        ETHERTYPE_IPV4 => {
            // More fragments, or an offset.
            let is_fragment = packet.get(6)? & 0x3f != 0 || *packet.get(7)? != 0;
            let protocol = if is_fragment { 0 } else { *packet.get(9)? };
            (v4(12)?, v4(16)?, protocol, usize::from(packet.first()? & 0x0f) * 4)
        }
        ETHERTYPE_IPV6 => (v6(8)?, v6(24)?, *packet.get(6)?, IPV6_LEN),
        _ => return None,
    };
    let port = |at: usize| -> Option<u16> {
        Some(u16::from_be_bytes(packet.get(header + at..header + at + 2)?.try_into().ok()?))
    };
    let (source, destination) =
        if matches!(protocol, TCP | UDP) { (port(0)?, port(2)?) } else { (0, 0) };
    Some((PeerAddress::new(from, source), PeerAddress::new(to, destination)))
}

/// The answer of a hop of this MTU to a frame that is too long. It is "fragmentation needed" (RFC
/// 1191) or "packet too big" (RFC 4443 §3.2). `None` for a frame that is not IP.
///
/// The message comes from the packet's destination: the hop has no address of its own.
pub(super) fn too_long_report(frame: &[u8], mtu: u16) -> Option<Vec<u8>> {
    let packet = frame.get(ETHERNET_LEN..)?;
    let mut report = Vec::with_capacity(ETHERNET_LEN + 1280);
    report.extend_from_slice(&frame[6..12]);
    report.extend_from_slice(&frame[..6]);
    report.extend_from_slice(&frame[12..ETHERNET_LEN]);
    match ethertype(frame)? {
        ETHERTYPE_IPV4 => report_v4(&mut report, packet, mtu)?,
        ETHERTYPE_IPV6 => report_v6(&mut report, packet, mtu)?,
        _ => return None,
    }
    Some(report)
}

fn report_v4(report: &mut Vec<u8>, packet: &[u8], mtu: u16) -> Option<()> {
    let (source, destination) = (packet.get(12..16)?, packet.get(16..20)?);
    let quote = &packet[..packet.len().min(QUOTE_V4)];
    let total = u16::try_from(IPV4_LEN + ICMP_LEN + quote.len()).ok()?;
    let mut header = [0; IPV4_LEN];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    // TTL 64, protocol ICMP.
    header[8..10].copy_from_slice(&[64, 1]);
    header[12..16].copy_from_slice(destination);
    header[16..20].copy_from_slice(source);
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    // Type 3, code 4.
    let mut icmp = [3, 4, 0, 0, 0, 0, 0, 0];
    icmp[6..8].copy_from_slice(&mtu.to_be_bytes());
    let sum = checksum(&[&icmp, quote]);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    for part in [&header[..], &icmp, quote] {
        report.extend_from_slice(part);
    }
    Some(())
}

fn report_v6(report: &mut Vec<u8>, packet: &[u8], mtu: u16) -> Option<()> {
    let (source, destination) = (packet.get(8..24)?, packet.get(24..40)?);
    let quote = &packet[..packet.len().min(QUOTE_V6)];
    let len = u16::try_from(ICMP_LEN + quote.len()).ok()?;
    let mut header = [0; IPV6_LEN];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&len.to_be_bytes());
    // ICMPv6, hop limit 64.
    header[6..8].copy_from_slice(&[ICMPV6, 64]);
    header[8..24].copy_from_slice(destination);
    header[24..40].copy_from_slice(source);
    // Type 2, code 0.
    let mut icmp = [2, 0, 0, 0, 0, 0, 0, 0];
    icmp[6..8].copy_from_slice(&mtu.to_be_bytes());
    // The pseudo-header of RFC 8200 §8.1.
    let pseudo = [0, 0, 0, ICMPV6];
    let sum = checksum(&[&header[8..40], &len.to_be_bytes(), &pseudo, &icmp, quote]);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    for part in [&header[..], &icmp, quote] {
        report.extend_from_slice(part);
    }
    Some(())
}

/// The Internet checksum of parts (RFC 1071); all but the last have an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = words.map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ethertype: [u8; 2], packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2];
        frame.extend(ethertype);
        frame.extend(packet);
        frame
    }

    #[test]
    fn address_resolution_is_recognized() {
        assert!(is_address_resolution(&frame(ETHERTYPE_ARP, &[0; 28])));
        let mut packet = [0; 64];
        packet[6] = ICMPV6;
        packet[40] = 135;
        assert!(is_address_resolution(&frame(ETHERTYPE_IPV6, &packet)));
        packet[40] = 128;
        assert!(!is_address_resolution(&frame(ETHERTYPE_IPV6, &packet)), "an echo request");
        assert!(!is_address_resolution(&frame(ETHERTYPE_IPV4, &packet)));
        assert!(!is_address_resolution(&[0; 5]));
    }

    #[test]
    fn a_report_goes_back_to_the_sender_with_the_mtu_and_the_packet() {
        let mut packet = [7; 1400];
        packet[12..20].copy_from_slice(&[198, 18, 0, 1, 198, 18, 0, 2]);
        let report = too_long_report(&frame(ETHERTYPE_IPV4, &packet), 1280).unwrap();
        assert_eq!(report[..6], [2; 6]);
        assert_eq!(report[26..34], [198, 18, 0, 2, 198, 18, 0, 1]);
        assert_eq!(checksum(&[&report[14..34]]), 0);
        assert_eq!(checksum(&[&report[34..]]), 0);
        assert_eq!(report[34..42], [3, 4, report[36], report[37], 0, 0, 5, 0]);
        assert_eq!(report[42..], packet[..28]);
    }

    #[test]
    fn a_report_over_ipv6_fits_the_smallest_mtu() {
        let mut packet = [9; 1400];
        packet[24..40].fill(3);
        let report = too_long_report(&frame(ETHERTYPE_IPV6, &packet), 1300).unwrap();
        assert_eq!(report.len(), ETHERNET_LEN + 1280);
        assert_eq!((&report[22..38], &report[38..54]), (&[3; 16][..], &[9; 16][..]));
        let sum = checksum(&[&report[22..54], &[4, 216], &[0, 0, 0, ICMPV6], &report[54..]]);
        assert_eq!(sum, 0);
        assert_eq!(report[58..62], [0, 0, 5, 20]);
    }

    #[test]
    fn a_report_answers_ip_alone() {
        assert_eq!(too_long_report(&frame(ETHERTYPE_ARP, &[0; 1400]), 1280), None);
        assert_eq!(too_long_report(&frame(ETHERTYPE_IPV4, &[0; 8]), 1280), None);
    }
}
