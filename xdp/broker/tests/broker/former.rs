// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets of clients that have gone: their memory, and their place in the quota.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};

use ofi_xdp_datapath::broker::Status;

use crate::common::{Hosts, INTERFACE, eventually, run, skipped};
use crate::{Broker, ask, is_granted, policy, request, udp};

/// Number of descriptors of sockets' memory that the broker has open.
fn memories(broker: &Broker) -> usize {
    let folder = fs::read_dir(format!("/proc/{}/fd", broker.child.id())).unwrap();
    // A descriptor may be closed meanwhile.
    let targets = folder.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("ofi-xdp-umem")).count()
}

#[test]
fn root_memory_of_a_former_socket_is_given_back() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let broker = Broker::start(&hosts, &policy(&[0], ""));
    let udp_socket = udp(&hosts);
    let stream = broker.connect();
    let answer = ask(&stream, request(&hosts, None), udp_socket.as_fd());
    assert!(is_granted(&answer), "{}", answer.0.reason);
    let [socket, memory, ..] = <[OwnedFd; 4]>::try_from(answer.1).unwrap();
    eventually("the broker asks by one descriptor who has it", || memories(&broker) == 1);
    drop((stream, memory, socket));
    eventually("no process has the memory", || memories(&broker) == 0);
}

/// A removed interface takes no memory from the sockets of its queues.
#[test]
fn root_a_former_socket_on_an_interface_that_is_gone_counts_until_it_is_closed() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let broker = Broker::start(&hosts, &policy(&[0], "sockets = 1"));
    let stream = broker.connect();
    let answer = ask(&stream, request(&hosts, None), udp(&hosts).as_fd());
    assert!(is_granted(&answer), "{}", answer.0.reason);
    let [socket, memory, ..] = <[OwnedFd; 4]>::try_from(answer.1).unwrap();
    drop((stream, memory));
    hosts.unlink();
    hosts.relink([[1, 1]; 2]);
    let udp_socket = udp(&hosts);
    let ask_anew = || {
        let stream = broker.connect();
        let answer = ask(&stream, request(&hosts, None), udp_socket.as_fd());
        (stream, answer)
    };
    eventually("the log has it", || broker.log().contains("the former socket counts until"));
    let (_, (reply, _)) = ask_anew();
    assert_eq!(reply.status, Status::Busy, "{}", reply.reason);
    assert!(reply.reason.contains("user 0 has 1 sockets"), "{}", reply.reason);
    drop(socket);
    eventually("the socket counts no more", || is_granted(&ask_anew().1));
}

#[test]
fn root_a_former_socket_on_a_queue_that_is_gone_counts_no_more() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    hosts.unlink();
    hosts.relink([[2, 2]; 2]);
    let broker = Broker::start(&hosts, &policy(&[0], "sockets = 1"));
    let udp_socket = udp(&hosts);
    let stream = broker.connect();
    let answer = ask(&stream, request(&hosts, Some(1)), udp_socket.as_fd());
    assert!(is_granted(&answer), "{}", answer.0.reason);
    drop((stream, answer));
    eventually("the program is gone", || !hosts.has_program(0));
    for name in &hosts.names {
        run(&format!("ip netns exec {name} ethtool --set-channels {INTERFACE} rx 1 tx 1"));
    }
    let mut streams = Vec::new();
    eventually("the other queue is granted", || {
        streams.push(broker.connect());
        is_granted(&ask(streams.last().unwrap(), request(&hosts, None), udp_socket.as_fd()))
    });
}
