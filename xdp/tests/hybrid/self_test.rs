// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transmit test: a socket that cannot send is given up.

use std::net::UdpSocket;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ofi_xdp_core::{Datagram, Port};
use ofi_xdp_datapath::{HybridPort, Mode, Tier, XskMode};

use crate::common::{Hosts, V4, config, echo, eventually, now, packet, skipped};

/// A queue for receiving without one for sending. The kernel binds a socket to it, and a wake-up
/// sends nothing without an error (net/xdp/xsk.c, `xsk_generic_xmit`, `real_num_tx_queues`).
#[test]
fn root_a_socket_that_cannot_send_is_given_up_at_open() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    hosts.unlink();
    hosts.relink([[2, 1], [1, 2]]);
    eventually("the link is up", || hosts.link(0).contains("LOWER_UP"));
    let still = "self-test: the driver bound the socket and sent nothing";
    for mode in [Mode::Copy, Mode::Skb] {
        let mut lying = config(V4[0], mode);
        lying.queue = Some(1);
        let mut port = hosts.on(0, || HybridPort::open(&lying).unwrap());
        assert_eq!(port.status().tier, Tier::Udp, "{}", port.status());
        let why = port.status().why_not_better.clone();
        assert!(why.contains(&format!("skb: {still}")), "{why}");
        assert_eq!(why.contains(&format!("copy: {still}")), mode == Mode::Copy, "{why}");
        assert!(!hosts.has_program(0), "a program without a socket");
        let mut server = hosts.open(1, V4[1], Mode::Skb);
        echo(&mut port, &mut server, &[64; 20]);
        drop(server);
        eventually("the program is gone", || !hosts.has_program(1));
    }
    // The other queue works, and its test costs little.
    let port = hosts.open(0, V4[0], Mode::Copy);
    assert_eq!(port.status().tier, Tier::Xdp(XskMode::Copy), "{}", port.status());
    assert_eq!(port.status().kernel_zerocopy, Some(false), "{}", port.status());
    let stats = port.kernel_stats().unwrap();
    assert_eq!((stats.dropped(), stats.rx_invalid, stats.tx_invalid), (0, 0, 0), "{stats:?}");
}

/// The case of a port with peers that opens its `AF_XDP` half again.
#[test]
fn root_a_socket_that_cannot_send_gets_no_packets() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    hosts.unlink();
    // In generic mode a packet that left by queue n arrives on queue n - 1 of a veth.
    hosts.relink([[2, 1], [1, 3]]);
    eventually("the link is up", || hosts.link(0).contains("LOWER_UP"));
    let mut lying = config(V4[0], Mode::Skb);
    lying.queue = Some(1);
    lying.bind.set_port(7471);
    let (begun, opened) = (Barrier::new(2), AtomicBool::new(false));
    let stream = || {
        // Some of these flows arrive on the queue.
        let flows = [(); 16].map(|()| UdpSocket::bind((V4[1], 0)).unwrap());
        begun.wait();
        let (mut number, mut last) = (0, false);
        while !last {
            last = opened.load(Ordering::Relaxed);
            for flow in &flows {
                flow.send_to(&packet(number, 64), lying.bind).unwrap();
                number += 1;
            }
            thread::sleep(Duration::from_millis(5));
        }
        number
    };
    let (mut port, sent) = thread::scope(|scope| {
        let stream = scope.spawn(|| hosts.on(1, stream));
        begun.wait();
        let port = hosts.on(0, || HybridPort::open(&lying).unwrap());
        opened.store(true, Ordering::Relaxed);
        (port, stream.join().unwrap())
    });
    assert_eq!(port.status().tier, Tier::Udp, "{}", port.status());
    let mut came = Vec::new();
    eventually("all came since there was a kernel socket", || {
        let mut sink = |got: Datagram<'_>| {
            came.push(u16::from_be_bytes([got.bytes[1], got.bytes[2]]));
        };
        while port.receive(now(), 64, &mut sink).unwrap() > 0 {}
        came.sort_unstable();
        came.first().is_some_and(|&first| came.iter().copied().eq(first..sent))
    });
}
