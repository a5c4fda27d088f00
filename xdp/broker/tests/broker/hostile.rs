// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that break the protocol, and a broker without free descriptors: other clients are
//! served.

use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ofi_xdp_datapath::broker::REQUEST_BYTES;
use ofi_xdp_datapath::{Mode, Tier, XskMode};

use crate::common::{Hosts, V4, echo, eventually, run, skipped};
use crate::{
    Broker, NOBODY, descriptors, is_granted, open_bare, policy, receive_reply, request,
    send_message, udp,
};

#[test]
fn root_hostile_clients_get_nothing_and_disturb_no_other_client() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut broker = Broker::start(&hosts, &policy(&[0], ""));
    let udp_socket = udp(&hosts);
    let whole = request(&hosts, None).to_bytes();
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    // Random bytes in random pieces, with and without descriptors, over many connections.
    for round in 0..500 {
        let stream = broker.connect();
        let length = usize::try_from(next() % 100).unwrap();
        let mut bytes: Vec<u8> = (0..length).map(|_| next().to_le_bytes()[0]).collect();
        if round % 2 == 0 {
            // A prefix of a valid request, with one bit changed.
            bytes = whole[..length.min(REQUEST_BYTES)].to_vec();
            let bit = usize::try_from(next()).unwrap_or(0) % (8 * 8);
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
        let descriptors = [udp_socket.as_fd(); 8];
        let count = usize::try_from(next() % 9).unwrap();
        send_message(&stream, &bytes, &descriptors[..count]);
        if round % 3 == 0 {
            send_message(&stream, &bytes, &[]);
        }
        if round % 5 == 0 && length > 0 {
            let answer = receive_reply(&stream);
            assert!(answer.is_none_or(|answer| !is_granted(&answer) && answer.1.is_empty()));
        }
    }
    // Endless requests over one connection, with unread replies.
    let stream = broker.connect();
    let mut bad = request(&hosts, None);
    bad.interface = 4711;
    let flood = (0..10_000)
        .take_while(|_| send_message(&stream, &bad.to_bytes(), &[udp_socket.as_fd()]))
        .count();
    assert!(flood < 10_000, "hung up on");
    // More connections than allowed; most get a refusal.
    let idle: Vec<UnixStream> = (0..200).map(|_| broker.connect()).collect();
    let refused = idle.last().map(receive_reply).unwrap().expect("a reason");
    assert!(refused.0.reason.contains("too many connections"), "{}", refused.0.reason);
    drop(idle);
    // A well-behaved client is served in between.
    assert!(broker.is_alive());
    let mut port = None;
    eventually("a port is opened over the broker", || {
        let opened = open_bare(&hosts, &broker, Mode::Auto);
        let good = opened.status().tier == Tier::Xdp(XskMode::Skb);
        port = Some(opened);
        good
    });
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    echo(port.as_mut().unwrap(), &mut server, &[64; 100]);
    // A descriptor of another kind bans the user on all its connections.
    let other = broker.connect();
    let stream = broker.connect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(send_message(&stream, &whole, &[listener.as_fd()]));
    assert!(receive_reply(&stream).is_none());
    assert!(receive_reply(&broker.connect()).unwrap().0.reason.contains("no socket"));
    send_message(&other, &whole, &[udp_socket.as_fd()]);
    assert!(receive_reply(&other).is_none());
    echo(port.as_mut().unwrap(), &mut server, &[64; 100]);
    assert!(broker.is_alive());
    // The grant ends with its owner and leaves nothing behind.
    drop(port);
    eventually("the program is gone", || !hosts.has_program(0));
    let descriptors = descriptors(&broker);
    assert!(descriptors < 20, "{descriptors} descriptors");
    let lines = broker.log().lines().count();
    assert!(lines < 100, "{lines} lines in the log");
}

/// The broker logs a failure of its own at most once a second, however often it occurs.
#[test]
fn root_connections_that_cannot_be_taken_fill_no_log() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let broker = Broker::start(&hosts, &policy(&[NOBODY], ""));
    let limit = |most| run(&format!("prlimit --pid {} --nofile={most}:8192", broker.child.id()));
    limit(3);
    let stream = broker.connect();
    let lines = || broker.log().lines().filter(|line| line.contains("take a connection")).count();
    eventually("it is in the log", || lines() > 0);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(lines() <= 3, "{}", lines());
    limit(8192);
    assert!(receive_reply(&stream).is_some(), "served at last");
}
