// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests for source ports that no honest peer sends, and packets from any source port
//! (`docs/PROTOCOL.md` §13).

use crate::puppet::*;
use crate::world::*;
use ofi_xdp_core::ChecksumCoverage;
use ofi_xdp_core::rss::{HashFields, KEY, Rss};
use ofi_xdp_core::wire::{PacketKind, PortRequestBody, Token};
use ofi_xdp_core::*;
use zerocopy::IntoBytes;

const OWN: u16 = 7000;
/// Two queues: that of the port and another one.
static TABLE: [u32; 2] = [0, 1];

/// A connection of an engine with a card of two queues.
fn connected() -> Puppet {
    let mut puppet = Puppet::connected(&small());
    let rss = Rss { key: &KEY, table: &TABLE, fields: HashFields::Ports };
    let queue = 1 - rss.queue(address(PUPPET), address(0));
    puppet.world.nodes[0].card = Some(HostCard::new(rss, queue, 2));
    puppet
}

fn request(puppet: &Puppet, source: u16, wanted: u16) -> Vec<u8> {
    let body = PortRequestBody::new(source, WantedPort::from_bits(wanted));
    puppet.now(PacketKind::PortRequest).packet(body.as_bytes())
}

/// The source port of packets to the puppet.
fn source(puppet: &Puppet) -> u16 {
    puppet.world.nodes[0].card.as_ref().unwrap().source(PUPPET as u32, OWN)
}

#[test]
fn a_forged_request_is_ignored_without_the_token() {
    let mut puppet = connected();
    let body = PortRequestBody::new(OWN, WantedPort::named(50_000).unwrap());
    let good = puppet.now(PacketKind::PortRequest);
    for token in [0, 1, good.token.0 ^ 1, good.token.0 ^ 1 << 63] {
        let forged = Head { token: Token(token), ..good };
        puppet.refused(&forged.packet(body.as_bytes()), DropReason::WrongToken);
    }
    puppet.drive();
    assert_eq!(source(&puppet), OWN);
    puppet.deliver(good.packet(body.as_bytes()));
    assert_eq!(source(&puppet), 50_000, "with the token it counts");
}

#[test]
fn a_request_of_another_length_is_malformed() {
    let mut puppet = connected();
    for len in [0, 7, 9, 16] {
        let packet = puppet.now(PacketKind::PortRequest).packet(&vec![1; len]);
        puppet.refused(&packet, DropReason::Malformed);
    }
}

#[test]
fn requests_name_no_privileged_port_and_no_old_one_counts() {
    let mut puppet = connected();
    for wanted in [0, 1, 80, 1023] {
        let before = source(&puppet);
        puppet.deliver(request(&puppet, before.wrapping_add(1), wanted));
        assert_eq!(source(&puppet), before, "about another port");
        puppet.deliver(request(&puppet, before, wanted));
        assert!(source(&puppet) == OWN || source(&puppet) >= 0xc000, "{wanted}");
    }
}

#[test]
fn a_flood_of_requests_is_followed_a_bounded_number_of_times() {
    let mut puppet = connected();
    let mut changes = 0;
    for number in 0..2000 {
        let before = source(&puppet);
        // The puppet names another one each time.
        puppet.deliver(request(&puppet, before, 20_000 + number));
        changes += usize::from(source(&puppet) != before);
    }
    assert!(changes <= 9, "{changes}");
    assert_eq!(source(&puppet), OWN);
}

#[test]
fn packets_of_a_hostile_spread_of_source_ports_cost_at_most_one_request_each() {
    let mut puppet = connected();
    let before = *puppet.engine().stats();
    for number in 0..500 {
        puppet.world.now += 10 * MICRO;
        let from = PeerAddress::new(address(PUPPET).ip(), 1024 + number);
        let packet = puppet.now(PacketKind::Ack).packet(&[0; 24]);
        let now = puppet.world.time();
        let Node { engine, memory, .. } = &mut puppet.world.nodes[0];
        let wanted = WantedPort::other(2);
        let datagram = Datagram {
            coverage: ChecksumCoverage::Whole,
            from,
            bytes: &packet,
            congestion_experienced: false,
            wanted,
            to_group: false,
        };
        engine.ingest(now, datagram, memory);
        puppet.drive();
    }
    let stats = *puppet.engine().stats();
    let requests = stats.port_requests - before.port_requests;
    assert!((1..=500).contains(&requests), "{requests}");
    assert!(stats.packets_sent - before.packets_sent <= 500 + requests);
}

#[test]
fn a_request_causes_no_request() {
    let mut puppet = connected();
    let before = puppet.engine().stats().port_requests;
    for number in 0..20 {
        puppet.world.now += MILLI;
        let packet = request(&puppet, 1, number);
        let now = puppet.world.time();
        let Node { engine, memory, .. } = &mut puppet.world.nodes[0];
        let wanted = WantedPort::other(2);
        let from = address(PUPPET);
        let datagram = Datagram {
            coverage: ChecksumCoverage::Whole,
            from,
            bytes: &packet,
            congestion_experienced: false,
            wanted,
            to_group: false,
        };
        engine.ingest(now, datagram, memory);
        puppet.drive();
    }
    assert_eq!(puppet.engine().stats().port_requests, before);
}
