// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routed hosts, which have their address on the loopback interface.

use std::net::UdpSocket;
use std::os::fd::AsFd as _;

use crate::common::{Hosts, run, skipped};
use crate::{Broker, ask, is_granted, policy, receive_reply, request};

/// Packets for an address of the loopback interface, as routed hosts have it, may come by any
/// other interface. The grant lasts as long as the host has the address.
#[test]
fn root_an_address_of_the_loopback_interface_is_granted_on_others() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let [left, _] = &hosts.names;
    run(&format!("ip -n {left} addr add 198.18.0.3/32 dev lo"));
    let broker = Broker::start(&hosts, &policy(&[0], ""));
    let udp_socket = hosts.on(0, || UdpSocket::bind("198.18.0.3:7000").unwrap());
    let stream = broker.connect();
    assert!(is_granted(&ask(&stream, request(&hosts, None), udp_socket.as_fd())));
    assert!(hosts.has_program(0));
    run(&format!("ip -n {left} addr del 198.18.0.3/32 dev lo"));
    assert!(receive_reply(&stream).is_none(), "hung up on");
}
