// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection management (`docs/PROTOCOL.md` §12): both roles, over a link that fails as told.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]

use ofi_xdp_core::cm::{
    AnswerError, CONNECT_DATA_MAX, ConnectError, ConnectEvent, RejectReason, RequestId,
};
use ofi_xdp_core::wire::{CONNECT_LEN, CONNECT_PACKET_MAX, ConnectKind, ConnectPacket};
use ofi_xdp_core::{AgentConfig, DropReason, PeerAddress, PeerId};
use ofi_xdp_test_kit::agents::{Agents, Flight};
use std::time::Duration;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

const CONFIG: AgentConfig = AgentConfig {
    connect_timeout: Duration::from_secs(10),
    connects: 4,
    backlog: 3,
    checksum: crc32c::crc32c_append,
};

/// Two agents; number 1 listens.
fn pair() -> Agents {
    let mut agents = Agents::new(2, CONFIG, 1);
    agents.call(1, |agent, _| agent.set_listening(3));
    agents
}

fn connect(agents: &mut Agents, data: &[u8]) -> RequestId {
    let to = agents.address(1);
    agents.call(0, |agent, now| agent.connect(now, to, 4001, data)).unwrap()
}

/// The one event of an agent, and its data.
fn event(agents: &mut Agents, node: usize) -> (ConnectEvent, Vec<u8>) {
    let mut events = agents.take_events(node);
    assert_eq!(events.len(), 1, "{events:?}");
    events.remove(0)
}

/// The request that the listener has received.
fn requested(agents: &mut Agents) -> RequestId {
    agents.play(MS);
    let (ConnectEvent::Requested { id, .. }, _) = event(agents, 1) else { panic!("not a request") };
    id
}

fn kinds(agents: &Agents) -> Vec<ConnectKind> {
    agents.sent.iter().map(kind).collect()
}

fn kind(flight: &Flight) -> ConnectKind {
    ConnectPacket::parse(&flight.bytes, CONFIG.checksum).unwrap().kind
}

fn dropped(agents: &mut Agents, node: usize, reason: DropReason) -> u64 {
    agents.call(node, |agent, _| agent.stats().dropped(reason))
}

/// A packet with a checksum.
fn sealed(packet: ConnectPacket<'_>) -> Vec<u8> {
    let mut bytes = vec![0; CONNECT_PACKET_MAX];
    let len = packet.put(&mut bytes, CONFIG.checksum).unwrap();
    bytes.truncate(len);
    bytes
}

#[test]
fn a_request_is_accepted_with_data_both_ways() {
    let mut agents = pair();
    let id = connect(&mut agents, b"hello");
    let cids = [PeerId::from_bits(0x0700_0001), PeerId::from_bits(0x0900_0002)];
    agents.call(0, |agent, _| agent.set_local_cid(id, cids[0]));
    agents.play(MS);
    let (request, data) = event(&mut agents, 1);
    assert_eq!(agents.call(1, |agent, _| agent.remote_cid(request.id())), cids[0]);
    let from = agents.address(0);
    let data_address = PeerAddress::new(from.ip(), 4001);
    assert_eq!(request, ConnectEvent::Requested { id: request.id(), from, data_address });
    assert_eq!(data, b"hello");
    let local = PeerAddress::from_v4([198, 18, 9, 9], 5001);
    agents.call(1, |agent, now| agent.accept(now, request.id(), local, b"welcome")).unwrap();
    agents.call(1, |agent, _| agent.set_local_cid(request.id(), cids[1]));
    agents.play(MS);
    assert_eq!(agents.call(0, |agent, _| agent.remote_cid(id)), cids[1]);
    assert_eq!(
        event(&mut agents, 0),
        (ConnectEvent::Connected { id, peer: local }, b"welcome".to_vec())
    );
    let established = ConnectEvent::Established { id: request.id(), peer: data_address };
    assert_eq!(event(&mut agents, 1), (established, vec![]));
    use ConnectKind::{Accept, Confirm, Connect, Cookie};
    assert_eq!(kinds(&agents), [Connect, Cookie, Connect, Accept, Confirm]);
    assert_eq!(agents.sent[0].bytes.len(), agents.sent[1].bytes.len(), "no amplification");
    agents.sent.clear();
    agents.play(30 * SECOND);
    assert_eq!(agents.sent.len(), 0, "nothing more is sent");
    let both: Vec<_> = (0..2).map(|node| agents.take_events(node).len()).collect();
    assert_eq!(both, [0, 0]);
}

#[test]
fn an_unspecified_address_is_that_of_the_agent() {
    let mut agents = pair();
    connect(&mut agents, b"");
    let id = requested(&mut agents);
    let local = PeerAddress::from_v6([0; 16], 5001);
    agents.call(1, |agent, now| agent.accept(now, id, local, b"")).unwrap();
    agents.play(MS);
    let peer = PeerAddress::new(agents.address(1).ip(), 5001);
    let (connected, _) = event(&mut agents, 0);
    assert_eq!(connected, ConnectEvent::Connected { id: connected.id(), peer });
}

#[test]
fn a_rejection_brings_its_data_and_is_acknowledged() {
    let mut agents = pair();
    let id = connect(&mut agents, b"");
    let request = requested(&mut agents);
    agents.call(1, |agent, now| agent.reject(now, request, b"no")).unwrap();
    let again = agents.call(1, |agent, now| agent.reject(now, request, b"no"));
    assert_eq!(again, Err(AnswerError::Gone));
    assert!(agents.call(1, |agent, _| agent.is_rejecting()));
    agents.sent.clear();
    agents.play(10 * SECOND);
    let rejected = ConnectEvent::Rejected { id, reason: RejectReason::Rejected };
    assert_eq!(event(&mut agents, 0), (rejected, b"no".to_vec()));
    assert_eq!(kinds(&agents), [ConnectKind::Reject, ConnectKind::RejectAck], "not repeated");
    assert!(!agents.call(1, |agent, _| agent.is_rejecting()));
}

#[test]
fn a_rejection_is_repeated_a_few_times() {
    let mut agents = pair();
    connect(&mut agents, b"");
    let request = requested(&mut agents);
    agents.call(1, |agent, now| agent.reject(now, request, b"no")).unwrap();
    agents.kill(0);
    agents.sent.clear();
    agents.play(30 * SECOND);
    assert_eq!(kinds(&agents), [ConnectKind::Reject; 6]);
    assert!(!agents.call(1, |agent, _| agent.is_rejecting()), "it is given up");
}

#[test]
fn an_agent_that_does_not_listen_refuses() {
    let mut agents = Agents::new(2, CONFIG, 1);
    let id = connect(&mut agents, b"data");
    agents.play(MS);
    let refused = ConnectEvent::Rejected { id, reason: RejectReason::Refused };
    assert_eq!(event(&mut agents, 0), (refused, vec![]));
    assert_eq!(agents.call(1, |agent, _| agent.requests()), (0, 0), "nothing is kept");
}

#[test]
fn requests_of_one_host_leave_half_of_the_backlog_to_others() {
    let config = AgentConfig { connects: 64, backlog: 64, ..CONFIG };
    let mut agents = Agents::new(3, config, 1);
    agents.call(1, |agent, _| agent.set_listening(64));
    let ids: Vec<_> = (0..64).map(|_| connect(&mut agents, b"")).collect();
    agents.play(SECOND);
    let waiting = agents.take_events(1);
    assert_eq!(waiting.len(), 33);
    let to = agents.address(1);
    agents.call(2, |agent, now| agent.connect(now, to, 4001, b"")).unwrap();
    agents.play(100 * MS);
    let (ConnectEvent::Requested { from, .. }, _) = event(&mut agents, 1) else { panic!() };
    assert_eq!(from, agents.address(2));
    // The others come again, and find room when requests of their host have been answered.
    for (request, _) in &waiting {
        agents.call(1, |agent, now| agent.reject(now, request.id(), b"")).unwrap();
    }
    agents.play(SECOND);
    assert_eq!(agents.take_events(1).len(), ids.len() - waiting.len());
}

#[test]
fn beyond_the_backlog_all_are_busy() {
    let mut agents = pair();
    let ids: Vec<_> = (0..4).map(|_| connect(&mut agents, b"")).collect();
    agents.play(MS);
    let busy = agents.take_events(0);
    assert_eq!(busy.len(), 1, "{busy:?}");
    assert!(matches!(busy[0].0, ConnectEvent::Rejected { reason: RejectReason::Busy, .. }));
    assert!(ids.contains(&busy[0].0.id()));
    assert_eq!(agents.call(1, |agent, _| agent.requests()), (3, 3), "no state beyond");
    // The released one makes room.
    let request = agents.take_events(1)[0].0.id();
    agents.call(1, |agent, now| agent.reject(now, request, b"")).unwrap();
    agents.call(0, |agent, now| agent.release(now, busy[0].0.id()));
    agents.play(MS);
    agents.take_events(0);
    connect(&mut agents, b"");
    agents.play(MS);
    assert_eq!(agents.take_events(1).len(), 1);
}

#[test]
fn requests_are_bounded_and_identifiers_are_not_used_again() {
    let mut agents = pair();
    let to = agents.address(1);
    let long = [0; CONNECT_DATA_MAX + 1];
    let result = agents.call(0, |agent, now| agent.connect(now, to, 4001, &long));
    assert_eq!(result, Err(ConnectError::TooLong));
    let ids: Vec<_> = (0..4).map(|_| connect(&mut agents, &long[1..])).collect();
    let result = agents.call(0, |agent, now| agent.connect(now, to, 4001, b""));
    assert_eq!(result, Err(ConnectError::Full));
    agents.call(0, |agent, now| ids.iter().for_each(|&id| agent.cancel(now, id)));
    for _ in 0..8 {
        let id = connect(&mut agents, b"");
        assert!(!ids.contains(&id), "{id:?}");
        assert_eq!(RequestId::from_bits(id.bits()), id);
        agents.call(0, |agent, now| agent.cancel(now, id));
    }
    agents.play(SECOND);
    assert_eq!(agents.take_events(0).len(), 0, "no event after a cancel");
}

#[test]
fn silence_is_a_time_out_and_pauses_double() {
    let mut agents = pair();
    agents.kill(1);
    let id = connect(&mut agents, b"");
    agents.play(10 * SECOND - MS);
    assert_eq!(agents.take_events(0), []);
    agents.play(2 * MS);
    assert_eq!(event(&mut agents, 0).0, ConnectEvent::TimedOut { id });
    let times: Vec<u64> =
        agents.sent.iter().map(|flight| flight.at.as_nanos() / MS - 3_000).collect();
    assert_eq!(times[..6], [0, 50, 150, 350, 550, 750]);
    assert!(times[6..].windows(2).all(|pair| pair[1] - pair[0] == 200), "{times:?}");
    assert_eq!(times.len(), 4 + 48);
}

#[test]
fn a_request_waits_for_its_application_and_ends_with_its_initiator() {
    let mut agents = pair();
    connect(&mut agents, b"");
    let request = requested(&mut agents);
    agents.sent.clear();
    agents.play(60 * SECOND);
    assert_eq!(agents.take_events(0).len() + agents.take_events(1).len(), 0);
    let signs = kinds(&agents).iter().filter(|&&kind| kind == ConnectKind::Connect).count();
    assert!((59..=61).contains(&signs), "one a second: {signs}");
    agents.kill(0);
    agents.play(9 * SECOND);
    assert_eq!(agents.take_events(1), []);
    agents.play(2 * SECOND);
    assert_eq!(event(&mut agents, 1).0, ConnectEvent::RequestGone { id: request });
    let local = agents.address(1);
    let late = agents.call(1, |agent, now| agent.accept(now, request, local, b""));
    assert_eq!(late, Err(AnswerError::Gone));
}

#[test]
fn a_cancelled_request_is_gone_at_once() {
    let mut agents = pair();
    let id = connect(&mut agents, b"");
    let request = requested(&mut agents);
    agents.call(0, |agent, now| agent.cancel(now, id));
    agents.play(MS);
    assert_eq!(event(&mut agents, 1).0, ConnectEvent::RequestGone { id: request });
    agents.call(1, |agent, now| agent.release(now, request));
    agents.play(30 * SECOND);
    assert_eq!(agents.take_events(0), []);
    assert_eq!(agents.call(1, |agent, _| agent.requests()), (0, 0), "forgotten in the end");
}

#[test]
fn an_unread_request_that_was_cancelled_is_never_seen() {
    let mut agents = pair();
    let from = agents.address(0);
    let cookie = cookie_of(&mut agents, 77);
    let address = PeerAddress::from_v6([0; 16], 4001);
    let new = |kind| ConnectPacket::new(kind, 77, cookie);
    let request = sealed(ConnectPacket { address, ..new(ConnectKind::Connect) });
    let cancel = sealed(new(ConnectKind::Cancel));
    agents.call(1, |agent, now| {
        assert_eq!(agent.ingest(now, from, &request), Ok(()));
        assert_eq!(agent.ingest(now, from, &cancel), Ok(()));
        assert_eq!(agent.poll_event(), None);
        assert_eq!(agent.requests(), (0, 1));
        // A late copy does not begin it again.
        assert_eq!(agent.ingest(now, from, &request), Ok(()));
        assert_eq!(agent.poll_event(), None);
    });
}

/// The cookie of agent 1 for a request of agent 0.
fn cookie_of(agents: &mut Agents, nonce: u128) -> u64 {
    let (from, to) = (agents.address(0), agents.address(1));
    let address = PeerAddress::from_v6([0; 16], 4001);
    let ask = ConnectPacket { address, ..ConnectPacket::new(ConnectKind::Connect, nonce, 0) };
    agents.sent.clear();
    agents.send(from, to, &sealed(ask));
    agents.play(MS);
    let answer = agents.sent.pop().unwrap();
    ConnectPacket::parse(&answer.bytes, CONFIG.checksum).unwrap().proof
}

#[test]
fn an_acceptance_is_repeated_until_it_fails() {
    let mut agents = pair();
    connect(&mut agents, b"");
    let request = requested(&mut agents);
    agents.kill(0);
    let local = agents.address(1);
    agents.call(1, |agent, now| agent.accept(now, request, local, b"")).unwrap();
    agents.play(10 * SECOND - MS);
    assert_eq!(agents.take_events(1), []);
    agents.play(2 * MS);
    assert_eq!(event(&mut agents, 1).0, ConnectEvent::AcceptFailed { id: request });
    let accepts = kinds(&agents).iter().filter(|&&kind| kind == ConnectKind::Accept).count();
    assert_eq!(accepts, 14);
}

#[test]
fn a_repeated_acceptance_is_confirmed_again_and_another_one_is_cancelled() {
    let mut agents = pair();
    let id = connect(&mut agents, b"");
    let request = requested(&mut agents);
    let local = agents.address(1);
    agents.call(1, |agent, now| agent.accept(now, request, local, b"x")).unwrap();
    agents.play(MS);
    let accept = agents.sent.iter().find(|flight| kind(flight) == ConnectKind::Accept).unwrap();
    let accept = accept.clone();
    agents.take_events(0);
    agents.call(0, |agent, now| agent.release(now, id));
    agents.sent.clear();
    agents.send(accept.from, accept.to, &accept.bytes);
    agents.play(MS);
    assert_eq!(kinds(&agents), [ConnectKind::Accept, ConnectKind::Confirm]);
    let packet = ConnectPacket::parse(&accept.bytes, CONFIG.checksum).unwrap();
    let other = ConnectPacket { proof: packet.proof ^ 1, ..packet };
    agents.sent.clear();
    agents.send(accept.from, accept.to, &sealed(other));
    agents.play(MS);
    assert_eq!(kinds(&agents), [ConnectKind::Accept, ConnectKind::Cancel]);
    assert_eq!(agents.take_events(0), []);
    assert_eq!(agents.take_events(1).len(), 1, "established, and that stays");
}

#[test]
fn an_acceptance_that_meets_a_cancel_fails_at_once() {
    let mut agents = pair();
    let id = connect(&mut agents, b"");
    let request = requested(&mut agents);
    let local = agents.address(1);
    agents.call(1, |agent, now| agent.accept(now, request, local, b"")).unwrap();
    agents.call(0, |agent, now| agent.cancel(now, id));
    agents.play(MS);
    assert_eq!(event(&mut agents, 1).0, ConnectEvent::AcceptFailed { id: request });
    assert_eq!(agents.take_events(0), []);
}

#[test]
fn a_restarted_initiator_lets_the_acceptance_fail() {
    let mut agents = pair();
    connect(&mut agents, b"");
    let request = requested(&mut agents);
    agents.restart(0);
    let local = agents.address(1);
    agents.call(1, |agent, now| agent.accept(now, request, local, b"")).unwrap();
    agents.play(MS);
    assert_eq!(event(&mut agents, 1).0, ConnectEvent::AcceptFailed { id: request });
}

#[test]
fn a_restarted_listener_is_asked_anew() {
    let mut agents = pair();
    let id = connect(&mut agents, b"again");
    requested(&mut agents);
    agents.restart(1);
    agents.call(1, |agent, _| agent.set_listening(3));
    agents.play(2 * SECOND);
    let (request, data) = event(&mut agents, 1);
    assert_eq!(data, b"again");
    let local = agents.address(1);
    agents.call(1, |agent, now| agent.accept(now, request.id(), local, b"")).unwrap();
    agents.play(MS);
    assert_eq!(event(&mut agents, 0).0, ConnectEvent::Connected { id, peer: local });
}

#[test]
fn closing_a_request_or_an_acceptance_rejects_it() {
    let mut agents = pair();
    for accepts in [false, true] {
        let id = connect(&mut agents, b"");
        let request = requested(&mut agents);
        agents.call(1, |agent, now| {
            if accepts {
                agent.accept(now, request, PeerAddress::from_v4([198, 18, 0, 2], 9), b"x").unwrap();
            }
            agent.cancel(now, request);
        });
        agents.play(MS);
        let rejected = ConnectEvent::Rejected { id, reason: RejectReason::Rejected };
        assert_eq!(event(&mut agents, 0), (rejected, vec![]));
        assert_eq!(agents.take_events(1), []);
    }
}

#[test]
fn a_listener_that_gave_up_says_so() {
    let mut agents = pair();
    let cookie = cookie_of(&mut agents, 77);
    let address = PeerAddress::from_v6([0; 16], 4001);
    let request = ConnectPacket { address, ..ConnectPacket::new(ConnectKind::Connect, 77, cookie) };
    let (from, to, request) = (agents.address(0), agents.address(1), sealed(request));
    agents.send(from, to, &request);
    agents.play(11 * SECOND);
    let events: Vec<_> = agents.take_events(1).into_iter().map(|(event, _)| event).collect();
    let [ConnectEvent::Requested { id, .. }, gone] = events[..] else { panic!("{events:?}") };
    assert_eq!(gone, ConnectEvent::RequestGone { id });
    agents.sent.clear();
    agents.send(from, to, &request);
    agents.play(MS);
    let answer = ConnectPacket::parse(&agents.sent[1].bytes, CONFIG.checksum).unwrap();
    assert_eq!((answer.kind, answer.reason), (ConnectKind::Reject, Some(RejectReason::Gone)));
    assert_eq!(agents.take_events(1), []);
}

#[test]
fn an_unreachable_listener_ends_requests_without_an_answer() {
    let mut agents = pair();
    let answered = connect(&mut agents, b"");
    agents.play(MS);
    let fresh = connect(&mut agents, b"");
    let (to, other) = (agents.address(1), agents.address(0));
    agents.call(0, |agent, now| agent.unreachable(now, other, 111));
    agents.call(0, |agent, now| agent.unreachable(now, to, 111));
    agents.call(0, |agent, _| {
        assert_eq!(agent.poll_event(), Some(ConnectEvent::Unreachable { id: fresh, code: 111 }));
        assert_eq!(agent.poll_event(), None, "{answered:?} goes on");
    });
}

#[test]
fn a_message_of_icmp_ends_the_request_that_it_quotes() {
    let mut agents = pair();
    let id = connect(&mut agents, b"");
    let (to, other) = (agents.address(1), agents.address(0));
    let mut packet = [0; CONNECT_PACKET_MAX];
    let (_, len) = agents.call(0, |agent, now| agent.poll_transmit(now, &mut packet)).unwrap();
    let forged = {
        let mut forged = packet;
        forged[8] ^= 1;
        forged
    };
    agents.call(0, |agent, now| {
        let unknown = Err(DropReason::UnknownConnection);
        assert_eq!(agent.report_unreachable(now, to, &forged[..len], 111), unknown);
        assert_eq!(agent.report_unreachable(now, to, &packet[..20], 111), unknown, "cut");
        assert_eq!(agent.report_unreachable(now, other, &packet[..len], 111), unknown);
        assert_eq!(agent.stats().dropped(DropReason::UnknownConnection), 3);
        assert_eq!(agent.poll_event(), None);
        assert_eq!(agent.report_unreachable(now, to, &packet[..len], 111), Ok(()));
        assert_eq!(agent.poll_event(), Some(ConnectEvent::Unreachable { id, code: 111 }));
        assert_eq!(agent.report_unreachable(now, to, &packet[..len], 111), unknown, "ended");
    });
}

#[test]
fn forged_packets_change_nothing() {
    let mut agents = pair();
    let id = connect(&mut agents, b"");
    let request = requested(&mut agents);
    let local = agents.address(1);
    agents.call(1, |agent, now| agent.accept(now, request, local, b"")).unwrap();
    agents.kill(0);
    agents.play(MS);
    let accept = agents.sent.iter().find(|flight| kind(flight) == ConnectKind::Accept).unwrap();
    let packet = ConnectPacket::parse(&accept.bytes, CONFIG.checksum).unwrap();
    let (nonce, from) = (packet.nonce, agents.address(0));
    let other = PeerAddress::from_v4([198, 18, 7, 7], 7000);
    let forged = [
        (from, ConnectPacket::new(ConnectKind::Confirm, nonce, packet.proof ^ 1)),
        (from, ConnectPacket::new(ConnectKind::Confirm, nonce ^ 1, packet.proof)),
        (from, ConnectPacket::new(ConnectKind::Confirm, nonce ^ 1 << 95, packet.proof)),
        (other, ConnectPacket::new(ConnectKind::Confirm, nonce, packet.proof)),
        (from, ConnectPacket::new(ConnectKind::Cancel, nonce, packet.proof ^ 1)),
        (from, ConnectPacket::new(ConnectKind::Cancel, nonce, 0)),
        (other, ConnectPacket::new(ConnectKind::Cancel, nonce, packet.proof)),
    ];
    for (from, packet) in forged {
        let bytes = sealed(packet);
        let result = agents.call(1, |agent, now| agent.ingest(now, from, &bytes));
        assert!(result.is_err(), "{packet:?}");
        assert_eq!(agents.call(1, |agent, _| agent.poll_event()), None, "{packet:?}");
    }
    assert_eq!(dropped(&mut agents, 1, DropReason::WrongToken), 3);
    assert_eq!(dropped(&mut agents, 1, DropReason::UnknownConnection), 4);
    // Of the initiator's: without its number nothing counts.
    let address = PeerAddress::from_v4([198, 18, 7, 7], 1);
    let new = ConnectPacket::new;
    let reason = Some(RejectReason::Refused);
    let forged = [nonce ^ 1, nonce ^ 1 << 64, nonce ^ 1 << 95].map(|nonce| {
        let accept = ConnectPacket { address, ..new(ConnectKind::Accept, nonce, 5) };
        let reject = ConnectPacket { reason, ..new(ConnectKind::Reject, nonce, 0) };
        [accept, reject, new(ConnectKind::Cookie, nonce, 5), new(ConnectKind::Pending, nonce, 0)]
    });
    assert!(nonce >> 64 != 0, "the number has more than 64 bits");
    for packet in forged.into_iter().flatten() {
        let (bytes, from) = (sealed(packet), agents.address(1));
        let result = agents.call(0, |agent, now| agent.ingest(now, from, &bytes));
        assert_eq!(result, Err(DropReason::UnknownConnection));
        assert_eq!(agents.call(0, |agent, _| agent.poll_event()), None, "{id:?} {packet:?}");
    }
}

#[test]
fn a_flood_of_forged_requests_leaves_no_state() {
    let mut agents = pair();
    let request = {
        connect(&mut agents, b"");
        requested(&mut agents)
    };
    let before = agents.call(1, |agent, _| agent.requests());
    let address = PeerAddress::from_v6([0; 16], 9);
    let mut packet = [0; CONNECT_PACKET_MAX];
    let mut answers = 0;
    for number in 0..100_000u32 {
        let from = PeerAddress::from_v4(number.to_be_bytes(), 7);
        let nonce = u128::from(number) << 8;
        // Half of them guess a cookie.
        let proof = u64::from(number & 1) * (nonce as u64 | 1);
        let forged =
            ConnectPacket { address, ..ConnectPacket::new(ConnectKind::Connect, nonce, proof) };
        let forged = sealed(forged);
        // One in 50 us is answered.
        agents.now = agents.now.after_nanos(25_000);
        answers += agents.call(1, |agent, now| {
            let taken = agent.ingest(now, from, &forged);
            let answer = agent.poll_transmit(now, &mut packet);
            let (len, dropped) = (CONNECT_LEN, DropReason::NoRoom);
            assert_eq!(answer, taken.is_ok().then_some((from, len)), "as long as the request");
            assert_eq!(taken.err(), answer.is_none().then_some(dropped));
            assert_eq!(agent.poll_transmit(now, &mut packet), None);
            u32::from(answer.is_some())
        });
    }
    assert!((51_999..=52_000).contains(&answers), "{answers}: 2,000 at once");
    assert_eq!(agents.call(1, |agent, _| agent.requests()), before);
    let local = agents.address(1);
    agents.call(1, |agent, now| agent.accept(now, request, local, b"")).unwrap();
    agents.play(MS);
    assert!(matches!(event(&mut agents, 0).0, ConnectEvent::Connected { .. }));
    assert!(matches!(event(&mut agents, 1).0, ConnectEvent::Established { .. }));
}
