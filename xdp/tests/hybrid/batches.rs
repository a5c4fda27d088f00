// SPDX-License-Identifier: MIT OR Apache-2.0
//! GSO batches beside an `AF_XDP` socket: which packets leave in them, and how a port receives
//! them.

use std::thread;
use std::time::Duration;

use ofi_xdp_core::wire::{Flags, RecordKind, cover_whole, seal};
use ofi_xdp_core::{ChecksumCoverage, Datagram, Destination, Port, Transmit, Transmitted};
use ofi_xdp_datapath::{HybridPort, Mode, PortConfig, Tier, XskMode};

use crate::common::{Hosts, V4, config, eventually, learn_hops, now, packet, send, skipped, to};
use crate::sent_since;

#[test]
fn root_in_auto_mode_long_batches_leave_by_the_kernel() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut client = hosts.open(0, V4[0], Mode::Auto);
    let mut server = hosts.open(1, V4[1], Mode::Auto);
    assert_eq!(client.status().tier, Tier::Xdp(XskMode::Skb));
    learn_hops(&mut client, &mut server);
    let server_address = to(0, server.local_addr());
    let mut expected = Vec::new();
    // Sizes and numbers of packets in one burst, and the expected counters.
    for (bursts, sent) in [
        (&[(64, 40)][..], [40, 0, 0]),
        (&[(1408, 3)], [3, 0, 0]),
        (&[(1408, 4)], [0, 4, 1]),
        (&[(1408, 40)], [0, 40, 1]),
        // A packet that ends a batch goes with it, and later packets follow it.
        (&[(1408, 40), (64, 3)], [0, 43, 3]),
        (&[(64, 2), (1408, 1), (64, 2)], [5, 0, 0]),
        (&[(1408, 90)], [0, 90, 2]),
        // Packets that one batch had no room for follow it, too.
        (&[(1408, 48)], [0, 48, 2]),
    ] {
        let before = *client.stats();
        for &(len, count) in bursts {
            for _ in 0..count {
                let bytes = packet(expected.len() as u16, len);
                send(&mut client, server_address, &bytes);
                expected.push(bytes);
            }
        }
        client.flush().unwrap();
        assert_eq!(sent_since(&client, before), sent, "{bursts:?}");
    }
    let mut missing: Vec<usize> = (0..expected.len()).collect();
    eventually("all of it arrives, unharmed", || {
        server
            .receive(now(), 64, &mut |datagram: Datagram<'_>| {
                let number = u16::from_be_bytes([datagram.bytes[1], datagram.bytes[2]]);
                assert!(datagram.bytes == expected[usize::from(number)], "packet {number}");
                missing.retain(|&missing| missing != usize::from(number));
            })
            .unwrap();
        missing.is_empty()
    });
    assert_eq!(server.stats().xsk_rejected, 0);
}

/// Packets to one peer leave in the order of their posts: those in the ring before the rest.
#[test]
fn root_packets_that_leave_the_batches_leave_before_the_rest() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut client = hosts.open(0, V4[0], Mode::Auto);
    let mut server = hosts.open(1, V4[1], Mode::Auto);
    learn_hops(&mut client, &mut server);
    let address = server.local_addr().ip();
    let mut send_to = |port| {
        let fill = |buffer: &mut [u8]| {
            buffer[..1408].copy_from_slice(&packet(port, 1408));
            Some(Transmit { len: 1408, to: to(0, (address, port).into()), receive_max: 1472 })
        };
        assert_eq!(client.transmit(fill), Ok(Transmitted::Sent));
        (client.stats().xsk_transmitted, client.stats().xsk_kicks)
    };
    // As many batches as there is room for, each of one packet.
    let before = send_to(9000);
    for port in 9001..9064 {
        assert_eq!(send_to(port), before);
    }
    let after = send_to(9064);
    assert_eq!(after.0 - before.0, 64);
    assert!(after.1 > before.1, "no kick");
}

/// Sends `count` datagrams of an application, as `core` does.
fn send_datagrams(port: &mut HybridPort, to: Destination, len: usize, count: u16) {
    for number in 0..count {
        let fill = |buffer: &mut [u8]| {
            buffer[..len].copy_from_slice(&packet(number, len));
            Some(Transmit { len, to, receive_max: 1472 })
        };
        assert_eq!(port.transmit(fill), Ok(Transmitted::Sent));
    }
    port.flush().unwrap();
}

/// A batch of short datagrams arrives in pieces, also where packets may be longer than the batch.
/// So does a datagram that is as long as a batch.
#[test]
fn root_datagrams_of_a_batch_arrive_one_by_one() {
    if skipped() {
        return;
    }
    for mtu in [1500, 9000] {
        let hosts = Hosts::with_mtu(mtu);
        let open = |host: usize, mode| {
            let config = PortConfig { any_payload: true, ..config(V4[host], mode) };
            hosts.on(host, || HybridPort::open(&config).unwrap())
        };
        let modes = [Mode::Auto, Mode::Udp];
        for (client_mode, server_mode) in modes.iter().flat_map(|a| modes.map(|b| (*a, b))) {
            let (mut client, mut server) = (open(0, client_mode), open(1, server_mode));
            learn_hops(&mut client, &mut server);
            let address = to(0, server.local_addr());
            let longest = client.limits().payload_max.min(4000);
            // The first ones of a round go by AF_XDP, unless the last round was a batch.
            for (len, count, sent, calls) in [
                (64, 32, [3, 29, 1], 1),
                (64, 32, [0, 32, 1], 1),
                (64, 2, [2, 0, 0], 2),
                (longest, 1, [1, 0, 0], 1),
            ] {
                let before = *client.stats();
                send_datagrams(&mut client, address, len, count);
                let by_kernel = [0, u64::from(count), calls];
                let by_tier = if client_mode == Mode::Udp { by_kernel } else { sent };
                let context = format!("{mtu}, {client_mode} to {server_mode}, {len} bytes");
                assert_eq!(sent_since(&client, before), by_tier, "{context}");
                let mut missing: Vec<_> = (0..count).map(|number| packet(number, len)).collect();
                eventually(&context, || {
                    let mut sink = |datagram: Datagram<'_>| {
                        let known = missing.iter().position(|bytes| *bytes == datagram.bytes);
                        missing.remove(known.expect("a datagram as it was sent"));
                    };
                    server.receive(now(), 64, &mut sink).unwrap();
                    missing.is_empty()
                });
            }
        }
    }
}

/// A packet with a segment, and with a checksum over its head alone.
fn head_checked(len: usize) -> Vec<u8> {
    let mut bytes = vec![7; len];
    bytes[..3].copy_from_slice(&[0x20, 0x10, Flags::HEAD_CHECKSUM.bits()]);
    let payload = u16::try_from(len - 56).unwrap().to_le_bytes();
    bytes[32..36].copy_from_slice(&[RecordKind::Segment as u8, 0, payload[0], payload[1]]);
    seal(&mut bytes, ofi_xdp_checksum::crc32c);
    bytes
}

/// The protection of a packet follows its path: by the kernel, the UDP checksum; by `AF_XDP`, a
/// checksum over everything.
#[test]
fn root_a_packet_is_protected_on_either_path() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut client = hosts.open(0, V4[0], Mode::Auto);
    let mut server = hosts.open(1, V4[1], Mode::Auto);
    assert_eq!(client.limits().coverage, ChecksumCoverage::Head);
    assert_eq!(hosts.open(0, V4[0], Mode::Udp).limits().coverage, ChecksumCoverage::Head);
    learn_hops(&mut client, &mut server);
    let packet = head_checked(1400);
    // Of one packet, of a short batch, and of a long one.
    for (count, coverage) in
        [(1, ChecksumCoverage::Whole), (3, ChecksumCoverage::Whole), (30, ChecksumCoverage::Head)]
    {
        for _ in 0..count {
            send(&mut client, to(0, server.local_addr()), &packet);
        }
        client.flush().unwrap();
        let mut arrived = 0;
        eventually("all of it arrives", || {
            server
                .receive(now(), 64, &mut |datagram: Datagram<'_>| {
                    assert_eq!(datagram.coverage, coverage);
                    let mut expected = packet.clone();
                    if coverage == ChecksumCoverage::Whole {
                        cover_whole(&mut expected, ofi_xdp_checksum::crc32c);
                        assert_ne!(expected, packet);
                    }
                    assert!(datagram.bytes == expected);
                    arrived += 1;
                })
                .unwrap();
            arrived == count
        });
    }
    // The kernel takes one that claims this protection, however it left.
    let mut kernel_port = hosts.open(0, V4[0], Mode::Udp);
    send(&mut kernel_port, to(0, server.local_addr()), &packet);
    kernel_port.flush().unwrap();
    let mut arrived = None;
    eventually("it arrives", || {
        let mut sink = |datagram: Datagram<'_>| arrived = Some(datagram.coverage);
        server.receive(now(), 64, &mut sink).unwrap();
        arrived.is_some()
    });
    assert_eq!(arrived, Some(ChecksumCoverage::Head));
}

/// The XDP program reports a GSO batch, so no packet waits for the next poll of the kernel socket.
/// The receiver is the second of two endpoints on its interface, so the report must name it.
#[test]
fn root_a_gso_batch_is_not_waited_for() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    hosts.unlink();
    hosts.relink([[2, 2]; 2]);
    eventually("the link is up", || hosts.link(1).contains("LOWER_UP"));
    let mut client = hosts.open(0, V4[0], Mode::Auto);
    let _first = hosts.open(1, V4[1], Mode::Auto);
    let mut server = hosts.open(1, V4[1], Mode::Auto);
    assert_eq!(server.status().queues.as_slice(), [1], "{}", server.status());
    learn_hops(&mut client, &mut server);
    let moment = now();
    // The second call comes too early for another poll, and so do all calls at that moment.
    for _ in 0..2 {
        assert_eq!(server.receive(moment, 64, &mut |_| {}), Ok(0));
    }
    for number in 0..4 {
        send(&mut client, to(0, server.local_addr()), &packet(number, 1408));
    }
    let before = *client.stats();
    client.flush().unwrap();
    assert_eq!(sent_since(&client, before), [0, 4, 1]);
    thread::sleep(Duration::from_millis(100));
    assert_eq!(server.receive(moment, 64, &mut |_| {}), Ok(4));
    assert_eq!(server.receive(moment, 64, &mut |_| {}), Ok(0));
}

/// The kernel delivers a GSO batch in one piece, and a budget may be smaller. No descriptor reports
/// the rest.
#[test]
fn root_the_rest_of_a_gso_batch_is_reported() {
    if skipped() {
        return;
    }
    // Beside an `AF_XDP` socket the kernel socket gets half of the budget.
    for (mode, budget) in [(Mode::Auto, 64), (Mode::Udp, 32)] {
        let hosts = Hosts::new();
        let mut client = hosts.open(0, V4[0], mode);
        let mut server = hosts.open(1, V4[1], mode);
        learn_hops(&mut client, &mut server);
        server.arm();
        for number in 0..40 {
            send(&mut client, to(0, server.local_addr()), &packet(number, 1472));
        }
        client.flush().unwrap();
        assert!(!server.has_more());
        let mut received = 0;
        eventually("the batch is there", || {
            received = server.receive(now(), budget, &mut |_| {}).unwrap();
            received > 0
        });
        assert_eq!((received, server.has_more()), (32, true), "{mode}");
        assert_eq!(server.receive(now(), budget, &mut |_| {}), Ok(8), "{mode}");
        assert!(!server.has_more(), "{mode}");
    }
}
