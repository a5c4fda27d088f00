// SPDX-License-Identifier: MIT OR Apache-2.0
//! A flood of packets of connection management from forged addresses (`docs/PROTOCOL.md` §12.3).
//!
//! In: a listener. Out: [`RATE`] packets a second, most of them requests. Caller: `attacks`. Bound:
//! [`STEP_MAX`] packets a step.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Instant;

use ofi_xdp_core::cm::RejectReason;
use ofi_xdp_core::wire::{CONNECT_PACKET_MAX, ConnectKind, ConnectPacket};
use ofi_xdp_core::{PeerAddress, PeerId};
use ofi_xdp_test_kit::rng::Rng;

use crate::attacks::{Counts, Step};
use crate::forged::Forger;

/// Packets a second.
const RATE: f64 = 100_000.0;
/// Most packets of a step: a process that got no processor does not catch up at once.
const STEP_MAX: u64 = 1_000;
/// Different packets; each goes out from many addresses.
const PACKETS: usize = 256;
/// The network of the forged addresses (RFC 2544), without that of the hosts.
const SOURCES: u32 = u32::from_be_bytes([198, 19, 0, 0]);

/// A packet of any kind, with numbers that the listener never gave out. Three of four are requests,
/// with and without a cookie.
fn guess(rng: &mut Rng) -> Vec<u8> {
    let kind = match rng.below(16) {
        0 => ConnectKind::Accept,
        1 => ConnectKind::Reject,
        2 => ConnectKind::Confirm,
        3 => ConnectKind::Cancel,
        _ => ConnectKind::Connect,
    };
    let nonce = u128::from(rng.next()) << 32 | u128::from(rng.next() as u32);
    let mut packet =
        ConnectPacket::new(kind, nonce, if rng.percent(50.0) { 0 } else { rng.next() });
    if matches!(kind, ConnectKind::Connect | ConnectKind::Accept) {
        packet.address = PeerAddress::NONE.with_port(4_000);
        packet.cid = PeerId::from_bits(rng.next() as u32);
    }
    packet.reason = (kind == ConnectKind::Reject).then_some(RejectReason::Rejected);
    let mut bytes = vec![0; CONNECT_PACKET_MAX];
    let len = packet.put(&mut bytes, crc32c::crc32c_append).unwrap_or(0);
    bytes.truncate(len);
    bytes
}

/// See the module.
pub(crate) fn requests(target: SocketAddrV4) -> anyhow::Result<Step> {
    let (forger, mut rng) = (Forger::new()?, Rng::new(4, "attack"));
    let packets: Vec<Vec<u8>> = (0..PACKETS).map(|_| guess(&mut rng)).collect();
    let (start, mut made) = (Instant::now(), 0);
    Ok(Box::new(move |counts: &mut Counts| {
        let due = (start.elapsed().as_secs_f64() * RATE) as u64;
        made = made.max(due.saturating_sub(STEP_MAX));
        for number in made..due {
            let word = rng.next();
            let ip = Ipv4Addr::from(SOURCES | word as u32 & 0xffff);
            let port = (word >> 32) as u16 | 1_024;
            let packet = &packets[number as usize % PACKETS];
            forger.send(SocketAddrV4::new(ip, port), target, packet, counts);
        }
        made = due;
        Ok(true)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_sound_packets_and_mostly_requests() {
        let mut rng = Rng::new(9, "attack");
        let kinds = (0..1000).map(|_| {
            let bytes = guess(&mut rng);
            ConnectPacket::parse(&bytes, crc32c::crc32c_append).map(|packet| packet.kind)
        });
        let requests = kinds.map(Result::unwrap).filter(|kind| *kind == ConnectKind::Connect);
        assert!(requests.count() > 600);
    }
}
