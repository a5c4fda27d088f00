// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cookies of connection management (`docs/PROTOCOL.md` §12.2): what they are good for, and how
//! long an initiator shows them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]

use ofi_xdp_core::cm::{ConnectEvent, RequestId};
use ofi_xdp_core::wire::ConnectKind::{Accept, Confirm, Connect, Cookie};
use ofi_xdp_core::wire::{CONNECT_LEN, CONNECT_PACKET_MAX, ConnectKind, ConnectPacket};
use ofi_xdp_core::{AgentConfig, DropReason, PeerAddress};
use ofi_xdp_test_kit::agents::{Agents, Flight};
use std::time::Duration;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// The initiator; all others listen.
const ASKING: usize = 0;
/// Listeners whose cookies an initiator keeps.
const KEPT: usize = 16;

const CONFIG: AgentConfig = AgentConfig {
    connect_timeout: Duration::from_secs(10),
    connects: 64,
    backlog: 8,
    checksum: crc32c::crc32c_append,
};

fn agents(count: usize) -> Agents {
    let mut agents = Agents::new(count, CONFIG, 1);
    (1..count).for_each(|node| agents.call(node, |agent, _| agent.set_listening(8)));
    agents
}

fn connect(agents: &mut Agents, node: usize, data: &[u8]) -> RequestId {
    let to = agents.address(node);
    agents.call(ASKING, |agent, now| agent.connect(now, to, 4001, data)).unwrap()
}

fn parsed(flight: &Flight) -> ConnectPacket<'_> {
    ConnectPacket::parse(&flight.bytes, CONFIG.checksum).unwrap()
}

fn kinds(agents: &Agents) -> Vec<ConnectKind> {
    agents.sent.iter().map(|flight| parsed(flight).kind).collect()
}

fn sealed(packet: ConnectPacket<'_>) -> Vec<u8> {
    let mut bytes = vec![0; CONNECT_PACKET_MAX];
    let len = packet.put(&mut bytes, CONFIG.checksum).unwrap();
    bytes.truncate(len);
    bytes
}

/// Connects, and accepts at the listener `node` at once. Returns the kinds of all packets.
fn connect_and_accept(agents: &mut Agents, node: usize, data: &[u8]) -> Vec<ConnectKind> {
    agents.sent.clear();
    let id = connect(agents, node, data);
    agents.play(MS);
    let events = agents.take_events(node);
    let [(ConnectEvent::Requested { id: request, .. }, received)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(received, data);
    let (request, local) = (*request, agents.address(node));
    agents.call(node, |agent, now| agent.accept(now, request, local, b"")).unwrap();
    agents.play(MS);
    let connected = ConnectEvent::Connected { id, peer: local };
    assert_eq!(agents.take_events(ASKING), [(connected, vec![])]);
    assert_eq!(agents.take_events(node).len(), 1, "established");
    agents.call(node, |agent, now| agent.release(now, request));
    agents.call(ASKING, |agent, now| agent.release(now, id));
    kinds(agents)
}

/// The cookie in the first packet of a new request to `node`, which is cancelled.
fn first_shown(agents: &mut Agents, node: usize) -> u64 {
    let id = connect(agents, node, b"data");
    let mut packet = [0; CONNECT_PACKET_MAX];
    let sent = agents.call(ASKING, |agent, now| agent.poll_transmit(now, &mut packet));
    let (_, len) = sent.unwrap();
    let packet = ConnectPacket::parse(&packet[..len], CONFIG.checksum).unwrap();
    let (proof, data) = (packet.proof, packet.data.to_vec());
    assert_eq!(data, if proof == 0 { &b""[..] } else { b"data" });
    agents.call(ASKING, |agent, now| agent.cancel(now, id));
    // The notice of the cancellation, which the listener drops.
    agents.play(10 * MS);
    assert_eq!(agents.take_events(node), []);
    proof
}

/// A CONNECT as agent 0 sends it.
fn request(nonce: u128, cookie: u64) -> Vec<u8> {
    let address = PeerAddress::from_v6([0; 16], 4001);
    sealed(ConnectPacket { address, ..ConnectPacket::new(Connect, nonce, cookie) })
}

/// The cookie of agent 1 for agent 0.
fn cookie_of(agents: &mut Agents) -> u64 {
    let (from, to) = (agents.address(0), agents.address(1));
    agents.sent.clear();
    agents.send(from, to, &request(1, 0));
    agents.play(MS);
    parsed(&agents.sent[1]).proof
}

/// Requests that agent 1 has after this packet.
fn requests(agents: &mut Agents, from: PeerAddress, packet: &[u8]) -> u32 {
    agents.call(1, |agent, now| agent.ingest(now, from, packet)).unwrap();
    agents.call(1, |agent, _| agent.requests().0)
}

#[test]
fn a_later_request_to_a_listener_takes_three_packets() {
    let mut agents = agents(2);
    let first = connect_and_accept(&mut agents, 1, b"first");
    assert_eq!(first, [Connect, Cookie, Connect, Accept, Confirm]);
    for number in 0..20u8 {
        let kinds = connect_and_accept(&mut agents, 1, &[number]);
        assert_eq!(kinds, [Connect, Accept, Confirm]);
    }
    let stats = agents.call(1, |agent, _| *agent.stats());
    assert_eq!((stats.requested, stats.cookies_sent), (21, 1));
}

#[test]
fn a_cookie_is_shown_for_ten_seconds() {
    let mut agents = agents(2);
    connect_and_accept(&mut agents, 1, b"");
    let cookie = first_shown(&mut agents, 1);
    assert_ne!(cookie, 0);
    agents.play(9 * SECOND + 900 * MS);
    assert_eq!(first_shown(&mut agents, 1), cookie);
    agents.play(100 * MS);
    assert_eq!(first_shown(&mut agents, 1), 0);
    let kinds = connect_and_accept(&mut agents, 1, b"later");
    assert_eq!(kinds, [Connect, Cookie, Connect, Accept, Confirm], "and a new one is kept");
    assert_eq!(connect_and_accept(&mut agents, 1, b"later"), [Connect, Accept, Confirm]);
}

#[test]
fn a_cookie_is_shown_to_its_listener_alone() {
    let mut agents = agents(3);
    connect_and_accept(&mut agents, 1, b"");
    assert_eq!(first_shown(&mut agents, 2), 0);
    connect_and_accept(&mut agents, 2, b"");
    let shown = [1, 2].map(|node| first_shown(&mut agents, node));
    assert!(shown[0] != shown[1] && !shown.contains(&0), "{shown:?}");
}

#[test]
fn the_cookies_of_sixteen_listeners_are_kept() {
    let mut agents = agents(KEPT + 3);
    for node in 1..=KEPT {
        connect_and_accept(&mut agents, node, b"");
    }
    assert!((1..=KEPT).all(|node| first_shown(&mut agents, node) != 0));
    // The oldest ones make room.
    for node in [KEPT + 1, KEPT + 2] {
        connect_and_accept(&mut agents, node, b"");
    }
    let kept: Vec<usize> =
        (1..=KEPT + 2).filter(|&node| first_shown(&mut agents, node) != 0).collect();
    assert_eq!(kept, Vec::from_iter(3..=KEPT + 2));
}

#[test]
fn a_cookie_of_a_former_listener_brings_a_new_one() {
    let mut agents = agents(2);
    connect_and_accept(&mut agents, 1, b"");
    agents.restart(1);
    agents.call(1, |agent, _| agent.set_listening(8));
    let kinds = connect_and_accept(&mut agents, 1, b"again");
    assert_eq!(kinds, [Connect, Cookie, Connect, Accept, Confirm]);
    let answer = (agents.sent[0].bytes.len(), agents.sent[1].bytes.len());
    assert_eq!(answer, (CONNECT_LEN + 5, CONNECT_LEN));
    assert_eq!(connect_and_accept(&mut agents, 1, b""), [Connect, Accept, Confirm]);
}

#[test]
fn a_request_with_a_known_cookie_is_cancelled_and_gone() {
    let mut agents = agents(2);
    connect_and_accept(&mut agents, 1, b"");
    let id = connect(&mut agents, 1, b"");
    agents.play(MS);
    let events = agents.take_events(1);
    let [(ConnectEvent::Requested { id: request, .. }, _)] = events[..] else { panic!() };
    agents.call(ASKING, |agent, now| agent.cancel(now, id));
    agents.play(MS);
    assert_eq!(agents.take_events(1)[0].0, ConnectEvent::RequestGone { id: request });
    assert_eq!(agents.take_events(ASKING), []);
}

#[test]
fn a_request_that_waits_outlives_a_short_time_out() {
    let config = AgentConfig { connect_timeout: Duration::from_millis(40), ..CONFIG };
    let mut agents = Agents::new(2, config, 1);
    agents.call(1, |agent, _| agent.set_listening(8));
    for _ in 0..2 {
        // The listener does not answer the one that begins the request, and answers the next.
        let id = connect(&mut agents, 1, b"");
        agents.play(SECOND);
        assert_eq!(agents.take_events(ASKING), []);
        let events = agents.take_events(1);
        let [(ConnectEvent::Requested { id: request, .. }, _)] = events[..] else { panic!() };
        let local = agents.address(1);
        agents.call(1, |agent, now| agent.accept(now, request, local, b"")).unwrap();
        agents.play(MS);
        let connected = ConnectEvent::Connected { id, peer: local };
        assert_eq!(agents.take_events(ASKING), [(connected, vec![])]);
        assert_eq!(agents.take_events(1).len(), 1);
    }
}

#[test]
fn a_cookie_is_good_for_its_address_and_a_time() {
    let mut agents = agents(2);
    let cookie = cookie_of(&mut agents);
    let (from, other) = (agents.address(0), PeerAddress::from_v4([198, 18, 7, 7], 7000));
    let port = PeerAddress::new(from.ip(), from.port() + 1);
    let host = PeerAddress::new(other.ip(), from.port());
    for other in [other, port, host] {
        assert_eq!(requests(&mut agents, other, &request(7, cookie)), 0, "another address");
    }
    assert_eq!(requests(&mut agents, from, &request(7, cookie ^ 1)), 0, "another cookie");
    agents.play(9 * SECOND);
    assert_eq!(requests(&mut agents, from, &request(7, cookie)), 1);
    assert_eq!(requests(&mut agents, from, &request(8, cookie)), 2, "another number");
    agents.play(MS);
    let again = cookie_of(&mut agents);
    agents.play(21 * SECOND);
    assert_eq!(requests(&mut agents, from, &request(9, again)), 2, "too old");
    let stats = agents.call(1, |agent, _| *agent.stats());
    assert_eq!((stats.requested, stats.cookies_sent), (2, 7));
}

#[test]
fn a_copy_of_a_request_does_not_begin_it_again_while_its_cookie_is_good() {
    let mut agents = agents(2);
    connect_and_accept(&mut agents, 1, b"");
    connect_and_accept(&mut agents, 1, b"x");
    let copy = agents.sent[0].clone();
    assert_ne!(parsed(&copy).proof, 0);
    for _ in 0..30 {
        agents.send(copy.from, copy.to, &copy.bytes);
        agents.play(SECOND);
        assert_eq!(agents.take_events(1), []);
    }
    let stats = agents.call(1, |agent, _| *agent.stats());
    assert_eq!(stats.requested, 2);
    assert!(stats.cookies_sent > 1, "the end of the memory: a cookie is the answer");
}

/// A request without a cookie from this port to agent 1. Whether it is answered with one.
fn is_answered(agents: &mut Agents, port: u16) -> bool {
    let from = agents.address(ASKING).with_port(port);
    let bytes = request(u128::from(port), 0);
    let taken = agents.call(1, |agent, now| agent.ingest(now, from, &bytes));
    let mut packet = [0; CONNECT_PACKET_MAX];
    let sent = agents.call(1, |agent, now| agent.poll_transmit(now, &mut packet));
    assert_eq!(sent.is_some(), taken.is_ok());
    assert!(matches!(taken, Ok(()) | Err(DropReason::NoRoom)));
    taken.is_ok()
}

#[test]
fn a_listener_sends_20_000_cookies_a_second_in_a_flood() {
    let mut agents = agents(2);
    let cookie = cookie_of(&mut agents);
    agents.now = agents.now.after_nanos(SECOND);
    let flood = |agents: &mut Agents| {
        (1..=50_000u16)
            .filter(|&port| {
                agents.now = agents.now.after_nanos(MS / 100);
                is_answered(agents, port)
            })
            .count()
    };
    let first = flood(&mut agents);
    assert!((11_999..=12_000).contains(&first), "{first}: in half a second, after a pause");
    assert_eq!(flood(&mut agents), 10_000);
    let (from, shown) = (agents.address(ASKING), request(2, cookie));
    assert_eq!(requests(&mut agents, from, &shown), 1, "one with a cookie is taken");
    agents.now = agents.now.after_nanos(MS / 20);
    assert!(is_answered(&mut agents, 1), "the next one");
}
