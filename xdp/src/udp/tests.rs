// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two sockets on the loopback interface.

use super::*;
use crate::clock::now;
use nix::errno::Errno;
use ofi_xdp_core::{Destination, PeerAddress, PeerId};
use socket2::SockRef;
use std::time::Duration;

const LOOPBACK_MTU: u32 = 65_536;

fn port(ip: &str) -> UdpPort {
    UdpPort::bind(SocketAddr::new(ip.parse().unwrap(), 0), LOOPBACK_MTU, 256).unwrap()
}

fn send_all(from: &mut UdpPort, to: SocketAddr, sizes: &[usize]) -> PortStats {
    let mut stats = PortStats::default();
    let to = Destination { peer: PeerId::new(0, 0), address: to.into() };
    for (number, size) in (0_u8..).zip(sizes) {
        let result = from.transmit(|buffer| {
            buffer[..*size].fill(number);
            Some(Transmit { len: *size, to, receive_max: 9216 })
        });
        assert_eq!(result, Transmitted::Sent);
    }
    from.flush(&mut stats, |_| {});
    stats
}

/// Receives until `count` packets came, or none comes for a while.
fn receive_all(port: &mut UdpPort, count: usize, budget: u16) -> Vec<(Vec<u8>, PeerAddress)> {
    let (mut packets, mut stats) = (Vec::new(), PortStats::default());
    for _ in 0..200 {
        port.receive(now(), budget, &mut stats, &mut |datagram: Datagram<'_>| {
            packets.push((datagram.bytes.to_vec(), datagram.from));
        });
        if packets.len() >= count {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(stats.udp_received, packets.len() as u64);
    packets
}

fn echo(ip: &str) {
    let (mut left, mut right) = (port(ip), port(ip));
    let sizes: Vec<usize> = [vec![1408; 70], vec![8, 8, 8, 5], vec![32], vec![1400; 3]].concat();
    let stats = send_all(&mut left, right.local_addr(), &sizes);
    assert_eq!((stats.udp_lost, stats.udp_transmitted), (0, 78));
    // Two batches: 46 packets, and 24 with a shorter one. The other packets are too few for a
    // batch.
    assert_eq!(stats.udp_sends, 2 + 7);
    // The budget divides no batch evenly, so each receive leaves packets.
    let packets = receive_all(&mut right, sizes.len(), 7);
    let expected: Vec<_> = (0_u8..)
        .zip(&sizes)
        .map(|(number, size)| (vec![number; *size], PeerAddress::from(left.local_addr())))
        .collect();
    assert_eq!(packets, expected);
}

#[test]
fn gso_batches_arrive_as_packets_over_ipv4() {
    echo("127.0.0.1");
}

#[test]
fn gso_batches_arrive_as_packets_over_ipv6() {
    echo("::1");
}

#[test]
fn gso_batches_arrive_as_packets_without_gro() {
    let (mut left, mut right) = (port("127.0.0.1"), port("127.0.0.1"));
    receive_joined(right.socket(), false).unwrap();
    send_all(&mut left, right.local_addr(), &[1408; 40]);
    let packets = receive_all(&mut right, 40, 64);
    assert!(packets.iter().all(|packet| packet.0.len() == 1408));
    assert_eq!(packets.len(), 40);
}

#[test]
fn empty_packets_arrive_each() {
    for sizes in [[100, 0].as_slice(), &[0, 0, 0], &[1408, 1408, 0, 1408, 0]] {
        let (mut left, mut right) = (port("127.0.0.1"), port("127.0.0.1"));
        right.deliver_empty();
        send_all(&mut left, right.local_addr(), sizes);
        let packets = receive_all(&mut right, sizes.len(), 64);
        let arrived: Vec<_> = packets.iter().map(|packet| packet.0.len()).collect();
        assert_eq!(arrived, sizes);
    }
}

#[test]
fn nothing_to_send_gives_the_buffer_back() {
    let mut port = port("127.0.0.1");
    assert_eq!(port.transmit(|_| None), Transmitted::Nothing);
    let mut stats = PortStats::default();
    port.flush(&mut stats, |_| {});
    assert_eq!(stats.udp_sends, 0);
}

#[test]
fn packets_that_the_kernel_refuses_are_lost_not_errors() {
    let mut port = port("127.0.0.1");
    // 127.0.0.1 may not send to another network: EINVAL or ENETUNREACH.
    let stats = send_all(&mut port, "203.0.113.1:9".parse().unwrap(), &[64, 64]);
    assert_eq!(stats.udp_lost, 2);
    let mut other = self::port("127.0.0.1");
    assert_eq!(send_all(&mut port, other.local_addr(), &[64]).udp_lost, 0);
    assert_eq!(receive_all(&mut other, 1, 9).len(), 1);
}

#[test]
fn congestion_experienced_is_seen() {
    for ip in ["127.0.0.1", "::1"] {
        let (sender, mut receiver) = (port(ip), port(ip));
        let (socket, to) = (SockRef::from(&sender.main.socket), receiver.local_addr());
        for (class, expected) in [(0, false), (2, false), (3, true)] {
            if to.is_ipv4() {
                socket.set_tos_v4(class).unwrap();
            } else {
                socket.set_tclass_v6(class).unwrap();
            }
            // The first packet comes alone, the others in one system call.
            for count in [1, 3] {
                for _ in 0..count {
                    sender.main.socket.send_to(&[1; 32], to).unwrap();
                }
                let (mut seen, mut stats) = (Vec::new(), PortStats::default());
                for _ in 0..200 {
                    let mut sink = |packet: Datagram<'_>| seen.push(packet.congestion_experienced);
                    receiver.receive(now(), 64, &mut stats, &mut sink);
                    if seen.len() >= count {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                assert_eq!(seen, vec![expected; count], "{ip}, class {class}");
            }
        }
    }
}

#[test]
fn after_a_sleep_the_primary_socket_is_read_first() {
    let (mut port, mut connected, mut other) =
        (port("127.0.0.1"), port("127.0.0.1"), port("127.0.0.1"));
    for _ in 0..4 {
        send_all(&mut port, connected.local_addr(), &[32; 64]);
    }
    assert!(port.reconnect_if_due());
    let address = port.local_addr();
    send_all(&mut connected, address, &[32]);
    assert_eq!(receive_all(&mut port, 1, 9).len(), 1, "from now on packets come from there");
    for _ in 0..3 {
        send_all(&mut other, address, &[32]);
        let sources = [1, 1, 0].map(|more| {
            send_all(&mut connected, address, &[32][..more]);
            port.poll_all_sources(true);
            let (mut source, mut stats) = (None, PortStats::default());
            let count = port.receive(now(), 9, &mut stats, &mut |packet: Datagram<'_>| {
                source = Some(packet.from);
            });
            assert_eq!(count, 1, "over the loopback interface a packet is there at once");
            source
        });
        let [connected, other] = [&connected, &other].map(|peer| Some(peer.local_addr().into()));
        assert_eq!(sources, [connected, other, connected], "the secondary socket gets its turn");
    }
}

#[test]
fn the_buffer_holds_a_packet_at_least() {
    assert!(port("127.0.0.1").port_packets() >= 1);
}

#[test]
fn the_promised_window_fits_in_the_buffer() {
    let (mut left, mut right) =
        (port("127.0.0.1"), UdpPort::bind("127.0.0.1:0".parse().unwrap(), 1500, 64).unwrap());
    let window = usize::from(right.port_packets());
    let sizes = vec![1472; window.min(100)];
    // One system call a packet costs the most buffer memory.
    left.batches.pause();
    for size in sizes.chunks(1) {
        send_all(&mut left, right.local_addr(), size);
    }
    assert_eq!(receive_all(&mut right, sizes.len(), 64).len(), sizes.len());
}

/// Sends `count` packets from `from` to `to` one at a time, as a port without `AF_XDP` does; each
/// must arrive.
fn stream(from: &mut UdpPort, to: &mut UdpPort, count: usize) {
    for _ in 0..count {
        assert_eq!(send_all(from, to.local_addr(), &[64]).udp_lost, 0);
        from.reconnect_if_due();
        let packets = receive_all(to, 1, 64);
        assert_eq!(packets, [(vec![0; 64], PeerAddress::from(from.local_addr()))]);
    }
}

#[test]
fn a_peer_that_is_sent_much_has_a_socket_of_its_own() {
    for ip in ["127.0.0.1", "::1"] {
        let (mut port, mut left, mut right) = (port(ip), port(ip), port(ip));
        stream(&mut port, &mut left, 255);
        assert_eq!(port.sockets().count(), 1);
        for _ in 0..2 {
            // Both peers can send and receive, whichever is connected. Packets sent before a change
            // arrive.
            stream(&mut port, &mut left, 300);
            assert_eq!(port.sockets().count(), 2);
            stream(&mut left, &mut port, 20);
            stream(&mut right, &mut port, 20);
            stream(&mut port, &mut right, 20);
            send_all(&mut left, port.local_addr(), &[10; 3]);
            stream(&mut port, &mut right, 300);
            assert_eq!(port.sockets().count(), 2);
            assert_eq!(receive_all(&mut port, 3, 64).len(), 3);
            stream(&mut left, &mut port, 20);
            stream(&mut right, &mut port, 20);
        }
        // GSO batches in both directions.
        send_all(&mut port, right.local_addr(), &[1400; 40]);
        assert_eq!(receive_all(&mut right, 40, 64).len(), 40);
        send_all(&mut right, port.local_addr(), &[1400; 40]);
        assert_eq!(receive_all(&mut port, 40, 64).len(), 40);
        // The address remains in use.
        let again = UdpPort::bind(port.local_addr(), LOOPBACK_MTU, 256).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        port.forget_peers();
        assert_eq!(port.sockets().count(), 1);
        stream(&mut right, &mut port, 20);
    }
}

#[test]
fn a_connected_peer_that_is_gone_is_no_error() {
    let (mut port, mut left, mut right) = (port("127.0.0.1"), port("127.0.0.1"), port("127.0.0.1"));
    stream(&mut port, &mut left, 300);
    let gone = left.local_addr();
    drop(left);
    // The kernel reports ECONNREFUSED at every other call, and the main socket takes over.
    for _ in 0..10 {
        assert_eq!(send_all(&mut port, gone, &[64]).udp_lost, 0);
    }
    stream(&mut right, &mut port, 20);
    stream(&mut port, &mut right, 300);
}

/// The packets to groups and to the port itself, each with its mark.
fn marked(port: &mut UdpPort, count: usize) -> Vec<(Vec<u8>, bool)> {
    let (mut packets, mut stats) = (Vec::new(), PortStats::default());
    for _ in 0..200 {
        port.receive(now(), 1, &mut stats, &mut |datagram: Datagram<'_>| {
            packets.push((datagram.bytes.to_vec(), datagram.to_group));
        });
        if packets.len() >= count {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    packets.sort_unstable();
    packets
}

#[test]
fn packets_to_a_group_reach_each_member_until_it_leaves() {
    let lo = nix::net::if_::if_nametoindex("lo").unwrap();
    let (mut left, mut right, mut other) =
        (port("127.0.0.1"), port("127.0.0.1"), port("127.0.0.1"));
    let group = SocketAddr::new([239, 255, 72, 1].into(), left.local_addr().port());
    left.join(group, lo, false).unwrap();
    for member in [&mut right, &mut other] {
        member.join(group, lo, true).unwrap();
        let again = member.join(group, lo, true).unwrap_err();
        assert_eq!(again.raw_os_error(), Some(Errno::EADDRINUSE as i32));
    }
    assert_eq!(send_all(&mut left, group, &[5, 900]).udp_lost, 0);
    send_all(&mut left, right.local_addr(), &[3]);
    let to_group = [(vec![0; 5], true), (vec![1; 900], true)];
    assert_eq!(marked(&mut right, 3), [&[(vec![0; 3], false)], &to_group[..]].concat());
    assert_eq!(marked(&mut other, 2), to_group);
    right.leave(group);
    send_all(&mut left, group, &[7]);
    assert_eq!(marked(&mut other, 1), [(vec![0; 7], true)]);
    assert_eq!(marked(&mut right, 1), []);
    assert_eq!(marked(&mut left, 1), [], "it only sends");
}

#[test]
fn a_group_is_no_connected_peer() {
    let lo = nix::net::if_::if_nametoindex("lo").unwrap();
    let (mut left, mut right) = (port("127.0.0.1"), port("127.0.0.1"));
    let group = SocketAddr::new([239, 255, 72, 2].into(), left.local_addr().port());
    left.join(group, lo, false).unwrap();
    right.join(group, lo, true).unwrap();
    for _ in 0..300 {
        send_all(&mut left, group, &[8]);
        assert!(!left.reconnect_if_due(), "packets to groups need the main socket");
    }
    assert!(!marked(&mut right, 10).is_empty());
}

/// Polls `port` until its sockets are silent.
fn fall_silent(port: &mut UdpPort) {
    for _ in 0..1_000 {
        assert_eq!(poll(port), []);
        if port.silence.has_begun() {
            return;
        }
    }
    panic!("no silence");
}

/// The senders of the packets that one poll finds, at most eight.
fn poll(port: &mut UdpPort) -> Vec<PeerAddress> {
    let (mut senders, mut stats) = (Vec::new(), PortStats::default());
    port.receive_or_stay_silent(now(), 8, &mut stats, &mut |packet: Datagram<'_>| {
        senders.push(packet.from);
    });
    senders
}

#[test]
fn the_first_poll_after_a_silence_finds_the_packet_on_each_socket() {
    let lo = nix::net::if_::if_nametoindex("lo").unwrap();
    let (mut port, mut connected, mut other) =
        (port("127.0.0.1"), port("127.0.0.1"), port("127.0.0.1"));
    let address = port.local_addr();
    let group = SocketAddr::new([239, 255, 72, 3].into(), address.port());
    other.join(group, lo, false).unwrap();
    fall_silent(&mut port);
    // Each change of the sockets is made in a silence.
    stream(&mut port, &mut connected, 300);
    fall_silent(&mut port);
    port.join(group, lo, true).unwrap();
    for _ in 0..3 {
        for (is_connected, to) in [(true, address), (false, address), (false, group)] {
            let sender = if is_connected { &mut connected } else { &mut other };
            fall_silent(&mut port);
            assert!(port.silence.lasts(now()));
            send_all(sender, to, &[16]);
            port.poll_all_sources(false);
            assert_eq!(poll(&mut port), [PeerAddress::from(sender.local_addr())]);
            assert!(!port.silence.has_begun(), "the sockets have left the set");
        }
    }
    fall_silent(&mut port);
    port.leave(group);
    port.forget_peers();
    fall_silent(&mut port);
    send_all(&mut connected, address, &[16; 20]);
    let pause = now().after_nanos(silent_poll::PAUSE_MAX_NANOS);
    // bound: the pause
    while now() <= pause {}
    assert_eq!(poll(&mut port).len(), 1, "a pause later it is found in any case");
    assert_eq!(receive_all(&mut port, 19, 8).len(), 19);
}
