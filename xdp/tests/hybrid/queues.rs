// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ports with a socket on each of several queues. In native mode a veth pair delivers a frame on
//! the queue that it was sent by: a peer's own queue decides to which one of the port it comes.

use nix::poll::PollTimeout;
use ofi_xdp_core::Port;
use ofi_xdp_datapath::{HybridPort, Mode, QUEUES_MAX};

use crate::common::{
    Hosts, V4, config, echo, eventually, is_readable, learn_hops, now, packet, send, to,
};

/// Queues of each end of the link.
const QUEUES: u32 = 4;

fn hosts() -> Hosts {
    let hosts = Hosts::new();
    hosts.unlink();
    hosts.relink([[QUEUES, QUEUES]; 2]);
    eventually("the link is up", || hosts.link(1).contains("LOWER_UP"));
    hosts
}

/// A port on `host` with sockets on at most `queues` queues from `queue` on.
fn open(hosts: &Hosts, host: usize, queue: Option<u32>, queues: u32) -> HybridPort {
    let mut config = config(V4[host], Mode::Copy);
    (config.queue, config.queues) = (queue, queues);
    hosts.on(host, || HybridPort::open(&config).unwrap())
}

/// A port with `queues` queues, and a peer on each queue of the link.
fn with_peers(hosts: &Hosts, queues: u32) -> (HybridPort, Vec<HybridPort>) {
    let server = open(hosts, 1, None, queues);
    (server, (0..QUEUES).map(|queue| open(hosts, 0, Some(queue), 1)).collect())
}

/// Receives the packets of former exchanges.
fn drain(port: &mut HybridPort) {
    port.poll_all_sources();
    // bound: those packets
    while port.receive(now(), 64, &mut |_| {}).unwrap() > 0 {}
}

#[test]
fn root_packets_come_and_go_by_the_queue_of_their_peer() {
    if crate::skipped() {
        return;
    }
    let hosts = hosts();
    let (mut server, mut peers) = with_peers(&hosts, 3);
    assert_eq!(server.status().queues.as_slice(), [0, 1, 2], "{}", server.status());
    for (queue, peer) in (0..).zip(&mut peers) {
        learn_hops(peer, &mut server);
        let before = (*server.stats(), *peer.stats());
        echo(peer, &mut server, &[64, 1000, 1472, 65]);
        let (after, peer_after) = (server.stats(), peer.stats());
        let by_xdp = after.xsk_received - before.0.xsk_received;
        let answers = peer_after.xsk_received - before.1.xsk_received;
        let others = after.other_queue - before.0.other_queue;
        let context = format!("queue {queue}: {after:?}");
        if queue < 3 {
            assert!(by_xdp >= 4 && others == 0, "{context}");
            assert!(answers >= 4, "{context}: the answers leave by another queue");
        } else {
            assert!(by_xdp == 0 && others >= 4, "{context}");
        }
    }
}

#[test]
fn root_the_queues_are_all_or_those_that_are_free() {
    if crate::skipped() {
        return;
    }
    let hosts = hosts();
    let all = open(&hosts, 1, None, QUEUES_MAX);
    assert_eq!(all.status().queues.to_string(), "0-3", "{}", all.status());
    assert!(!all.status().why_not_better.contains("queues"), "{}", all.status());
    drop(all);
    let more = open(&hosts, 1, Some(1), 8);
    assert_eq!(more.status().queues.to_string(), "1-3", "{}", more.status());
    let why = &more.status().why_not_better;
    assert!(why.ends_with("not on more queues: 4 is the number of its queues"), "{why}");
    drop(more);
    let other = open(&hosts, 1, Some(1), 1);
    let three = open(&hosts, 1, None, QUEUES_MAX);
    assert_eq!(three.status().queues.to_string(), "0,2-3", "{}", three.status());
    let why = &three.status().why_not_better;
    assert!(why.contains("queue 1: ") && why.contains("has this queue"), "{why}");
    drop((other, three));
}

/// Every socket is in the wakeup set.
#[test]
fn root_a_packet_on_any_queue_wakes() {
    if crate::skipped() {
        return;
    }
    let hosts = hosts();
    let (mut server, mut peers) = with_peers(&hosts, QUEUES_MAX);
    for peer in &mut peers {
        learn_hops(peer, &mut server);
        server.arm();
        drain(&mut server);
        assert!(!is_readable(&server, PollTimeout::ZERO));
        send(peer, to(0, server.local_addr()), &packet(1, 64));
        peer.flush().unwrap();
        assert!(is_readable(&server, PollTimeout::from(1000_u16)), "a packet on its queue");
        server.disarm();
        drain(&mut server);
    }
}

/// A queue with more packets than a call takes leaves the others their turn.
#[test]
fn root_no_queue_starves_another() {
    if crate::skipped() {
        return;
    }
    let hosts = hosts();
    let (mut server, mut peers) = with_peers(&hosts, QUEUES_MAX);
    for peer in &mut peers {
        learn_hops(peer, &mut server);
    }
    drain(&mut server);
    for peer in &mut peers {
        for number in 0..100 {
            send(peer, to(0, server.local_addr()), &packet(number, 64));
        }
        peer.flush().unwrap();
    }
    let mut seen = Vec::new();
    for _ in 0..QUEUES {
        server.receive(now(), 8, &mut |datagram| seen.push(datagram.from.port())).unwrap();
    }
    seen.dedup();
    assert_eq!(seen.len(), QUEUES as usize, "{seen:?}");
}
