// SPDX-License-Identifier: MIT OR Apache-2.0
//! A port says until when it has nothing to do, and whether packets have arrived.

use std::net::UdpSocket;

use ofi_xdp_core::{Instant, Port};
use ofi_xdp_datapath::{HybridPort, Mode};

use crate::common::{Hosts, V4, echo, eventually, learn_hops, now, packet, send, skipped, to};

/// Receives until the port has nothing to do for a while; returns the number of packets.
fn quieten(port: &mut HybridPort) -> u64 {
    let mut count = 0;
    let is_over = (0..100_000).any(|_| {
        count += u64::from(port.receive(now(), 64, &mut |_| {}).unwrap());
        port.quiet_until() > now() && !port.has_arrivals()
    });
    assert!(is_over, "{}", port.status());
    count
}

#[test]
fn root_a_quiet_port_has_arrivals_by_either_path() {
    if skipped() {
        return;
    }
    for mode in [Mode::Skb, Mode::Copy] {
        let hosts = Hosts::new();
        let mut client = hosts.open(0, V4[0], mode);
        let mut server = hosts.open(1, V4[1], mode);
        learn_hops(&mut client, &mut server);
        echo(&mut client, &mut server, &[64]);
        quieten(&mut server);
        send(&mut client, to(0, server.local_addr()), &packet(1, 64));
        client.flush().unwrap();
        eventually("the packet is in the ring", || server.has_arrivals());
        assert_eq!(quieten(&mut server), 1);
        // The program leaves packets of other versions to the kernel.
        let sender = hosts.on(0, || UdpSocket::bind((V4[0], 0)).unwrap());
        sender.send_to(&[0; 64], server.local_addr()).unwrap();
        eventually("the program has counted it", || server.has_arrivals());
        assert_eq!(quieten(&mut server), 1);
    }
}

#[test]
fn a_port_without_af_xdp_is_never_quiet() {
    let mut port = HybridPort::open(&crate::config("127.0.0.1", Mode::Udp)).unwrap();
    assert_eq!(port.receive(now(), 64, &mut |_| {}), Ok(0));
    assert_eq!((port.quiet_until(), port.has_arrivals()), (Instant::ZERO, true));
}
