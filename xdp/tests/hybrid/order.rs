// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that wait on both paths are received in the order in which they were sent, as far as the
//! port can know it: those of the kernel socket first.

use std::net::UdpSocket;

use ofi_xdp_core::Port;
use ofi_xdp_datapath::{HybridPort, Mode};

use crate::common::{Hosts, V4, eventually, now, packet, skipped};
use crate::redirected;

/// Packets for the kernel socket: less than half of the budget of a call, and more than one system
/// call returns.
const KERNEL_PACKETS: u16 = 25;

/// The numbers of the packets that one call returns, after the last one has arrived by `AF_XDP` and
/// the others by the kernel.
fn received(sender: &UdpSocket, server: &mut HybridPort, sleeps: bool) -> Vec<u16> {
    // Silence: all sources are polled.
    server.poll_all_sources();
    assert_eq!(server.receive(now(), 64, &mut |_| {}), Ok(0));
    if sleeps {
        server.arm();
    }
    let before = redirected(server);
    for number in 0..=KERNEL_PACKETS {
        let mut bytes = packet(number, 64);
        if number < KERNEL_PACKETS {
            // The program leaves packets of other versions to the kernel.
            bytes[0] = 0;
        }
        sender.send_to(&bytes, server.local_addr()).unwrap();
    }
    eventually("the last packet is in the ring", || redirected(server) > before);
    let mut numbers = Vec::new();
    let taken = server.receive(now(), 64, &mut |datagram| {
        numbers.push(u16::from_be_bytes([datagram.bytes[1], datagram.bytes[2]]));
    });
    assert_eq!(taken, Ok(numbers.len() as u16));
    numbers
}

#[test]
fn root_packets_in_a_ring_do_not_overtake_those_of_the_kernel_socket() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    let sender = hosts.on(0, || UdpSocket::bind((V4[0], 0)).unwrap());
    let all: Vec<u16> = (0..=KERNEL_PACKETS).collect();
    for round in 0..3 {
        for sleeps in [false, true] {
            let numbers = received(&sender, &mut server, sleeps);
            assert_eq!(numbers, all, "round {round}, after a sleep: {sleeps}");
        }
    }
}
