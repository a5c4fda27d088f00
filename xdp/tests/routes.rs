// SPDX-License-Identifier: MIT OR Apache-2.0
//! The route table follows the kernel's tables, with all kinds of routes. There are two links
//! between the hosts.

mod common;

use std::net::UdpSocket;

use common::{
    Hosts, INTERFACE, V4, V6, echo, eventually, learn_hops, now, packet, run, send, skipped,
    sockets, to,
};
use nix::sys::socket::SockaddrStorage;
use ofi_xdp_core::Port;
use ofi_xdp_datapath::{HybridPort, Mode};
use socket2::SockRef;

/// The other interface of each host, and its addresses.
const OTHER: &str = "veth9";
const OTHER_V4: [&str; 2] = ["198.19.9.1", "198.19.9.2"];
const OTHER_V6: [&str; 2] = ["fd00:19::1", "fd00:19::2"];

/// Two hosts with a port each at `ips`, the addresses of the first link; the ports know each other.
fn two_hosts(ips: [&str; 2]) -> (Hosts, HybridPort, HybridPort) {
    let hosts = Hosts::new();
    let [left, right] = &hosts.names;
    run(&format!("ip -n {left} link add {OTHER} type veth peer name {OTHER} netns {right}"));
    for (name, (v4, v6)) in hosts.names.iter().zip(OTHER_V4.iter().zip(OTHER_V6)) {
        run(&format!("ip -n {name} addr add {v4}/24 dev {OTHER}"));
        run(&format!("ip -n {name} addr add {v6}/64 dev {OTHER} nodad"));
        run(&format!("ip -n {name} link set {OTHER} up"));
    }
    let mut client = hosts.open(0, ips[0], Mode::Skb);
    let mut server = hosts.open(1, ips[1], Mode::Skb);
    learn_hops(&mut client, &mut server);
    (hosts, client, server)
}

/// The path of the packets of an echo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Path {
    Kernel,
    Xdp,
    Both,
}

/// The client's path after the notifications so far.
fn path(client: &mut HybridPort, server: &mut HybridPort) -> Path {
    for _ in 0..2 {
        client.poll_all_sources();
        client.receive(now(), 1, &mut |_| {}).unwrap();
    }
    let before = *client.stats();
    echo(client, server, &[64; 50]);
    let now = *client.stats();
    let [kernel, xdp] = [
        now.udp_transmitted - before.udp_transmitted,
        now.xsk_transmitted - before.xsk_transmitted,
    ];
    match (kernel, xdp) {
        (0, _) => Path::Xdp,
        (_, 0) => Path::Kernel,
        _ => Path::Both,
    }
}

#[test]
fn root_a_rule_may_come_and_go() {
    if skipped() {
        return;
    }
    for (ips, other) in [(V4, OTHER_V4), (V6, OTHER_V6)] {
        let (hosts, mut client, mut server) = two_hosts(ips);
        let family = if ips == V4 { "-4" } else { "-6" };
        let ip = |what: &str| drop(run(&format!("ip -n {} {family} {what}", hosts.names[0])));
        let [own, peer] = ips;
        ip(&format!("route add {peer} via {} dev {OTHER} src {own} table 100", other[1]));
        assert_eq!(path(&mut client, &mut server), Path::Xdp, "{ips:?}");
        ip(&format!("rule add to {peer} lookup 100"));
        assert_eq!(path(&mut client, &mut server), Path::Kernel, "{ips:?}");
        ip(&format!("rule del to {peer} lookup 100"));
        assert_eq!(path(&mut client, &mut server), Path::Xdp, "{ips:?}");
    }
}

/// The kernel checks a stale neighbour when it sends to it, and this is the only packet.
#[test]
fn root_a_stale_neighbour_gets_a_packet_from_the_kernel_beside_batches() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut client = hosts.open(0, V4[0], Mode::Auto);
    let mut server = hosts.open(1, V4[1], Mode::Auto);
    learn_hops(&mut client, &mut server);
    let [left, right] = &hosts.names;
    let address = run(&format!("ip netns exec {right} cat /sys/class/net/{INTERFACE}/address"));
    let stale = format!("{} lladdr {} dev {INTERFACE} nud stale", V4[1], address.trim());
    for by_kernel in [1, 0] {
        if by_kernel == 1 {
            run(&format!("ip -n {left} neigh replace {stale}"));
        }
        client.poll_all_sources();
        client.receive(now(), 1, &mut |_| {}).unwrap();
        let before = client.stats().udp_transmitted;
        send(&mut client, to(0, server.local_addr()), &packet(0, 64));
        client.flush().unwrap();
        assert_eq!(client.stats().udp_transmitted - before, by_kernel);
    }
}

/// The kernel's socket has no room, so the kernel does not check the neighbour with this packet.
#[test]
fn root_a_stale_neighbour_gets_another_packet_from_the_kernel_that_refused_one() {
    if skipped() {
        return;
    }
    // In the mode `auto` a long packet is in a batch before its path is known.
    for (mode, len) in [(Mode::Skb, 64), (Mode::Skb, 1000), (Mode::Auto, 64), (Mode::Auto, 1000)] {
        let hosts = Hosts::new();
        let mut client = hosts.open(0, V4[0], mode);
        let mut server = hosts.open(1, V4[1], mode);
        learn_hops(&mut client, &mut server);
        let [left, right] = &hosts.names;
        let address = run(&format!("ip netns exec {right} cat /sys/class/net/{INTERFACE}/address"));
        let address = address.trim();
        // Packets to a neighbour that does not answer wait in the kernel.
        let silent = "198.18.0.99";
        let own = SockaddrStorage::from(client.local_addr());
        let socket = UdpSocket::from(sockets(|its| its == own).remove(0));
        SockRef::from(&socket).set_send_buffer_size(0).unwrap();
        while socket.send_to(&[0; 1400], (silent, 9)).is_ok() {}
        let stale = format!("{} lladdr {address} dev {INTERFACE} nud stale", V4[1]);
        run(&format!("ip -n {left} neigh replace {stale}"));
        let is_stale = || run(&format!("ip -n {left} neigh show {}", V4[1])).contains("STALE");
        client.poll_all_sources();
        client.receive(now(), 1, &mut |_| {}).unwrap();
        let mut send_one = |lost, stays_stale| {
            let before = client.stats().udp_lost;
            send(&mut client, to(0, server.local_addr()), &packet(0, len));
            client.flush().unwrap();
            assert_eq!(client.stats().udp_lost - before, lost, "{mode:?}, {len} bytes");
            assert_eq!(is_stale(), stays_stale, "{mode:?}, {len} bytes");
        };
        // The kernel has no room for the first one; the second one leaves by the other socket.
        send_one(1, true);
        send_one(0, true);
        let known = format!("{silent} lladdr {address} dev {INTERFACE} nud permanent");
        run(&format!("ip -n {left} neigh replace {known}"));
        send_one(0, false);
        send_one(0, false);
    }
}

/// The route to the peer disappears without a notification.
fn a_route_goes_in_silence(route: &str, silence: &str) {
    let (hosts, mut client, mut server) = two_hosts(V4);
    let left = &hosts.names[0];
    // The kernel sends notifications for removed IPv6 routes.
    run(&format!("ip netns exec {left} sysctl -qw net.ipv6.conf.{OTHER}.disable_ipv6=1"));
    run(&format!("ip -n {left} nexthop add id 9 via {} dev {OTHER}", OTHER_V4[1]));
    run(&format!("ip -n {left} route add {} {route} src {}", V4[1], V4[0]));
    assert_eq!(path(&mut client, &mut server), Path::Kernel, "{route}");
    run(&format!("ip -n {left} {silence}"));
    eventually(silence, || path(&mut client, &mut server) == Path::Xdp);
}

#[test]
fn root_a_route_may_go_with_its_link() {
    if skipped() {
        return;
    }
    let route = format!("via {} dev {OTHER}", OTHER_V4[1]);
    a_route_goes_in_silence(&route, &format!("link set {OTHER} down"));
}

#[test]
fn root_a_route_may_go_with_its_nexthop() {
    if skipped() {
        return;
    }
    a_route_goes_in_silence("nhid 9", "nexthop del id 9");
}

/// The route has the same interface and a known neighbour, and the kernel must add an
/// encapsulation.
#[test]
fn root_a_route_with_an_encapsulation_is_the_kernels() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = two_hosts(V6);
    let [left, right] = &hosts.names;
    assert_eq!(path(&mut client, &mut server), Path::Xdp);
    // The last segment decapsulates.
    let segment = "fd00:18::3";
    run(&format!("ip -n {right} addr add {segment}/64 dev {INTERFACE} nodad"));
    for interface in ["all", INTERFACE] {
        let key = format!("net.ipv6.conf.{interface}.seg6_enabled");
        run(&format!("ip netns exec {right} sysctl -qw {key}=1"));
    }
    let route = format!("{} encap seg6 mode encap segs {segment} dev {INTERFACE}", V6[1]);
    run(&format!("ip -n {left} -6 route add {route}"));
    assert_eq!(path(&mut client, &mut server), Path::Kernel);
    run(&format!("ip -n {left} -6 route del {route}"));
    assert_eq!(path(&mut client, &mut server), Path::Xdp);
}

/// The peer's address is on no network of the client, and the gateway is the peer by its
/// link-local address.
#[test]
fn root_an_ipv4_route_may_have_an_ipv6_gateway() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let [left, right] = &hosts.names;
    let peer = "198.19.8.2";
    run(&format!("ip -n {right} addr add {peer}/32 dev {INTERFACE}"));
    // Its queries for other addresses do not make it a neighbour by this one.
    let announce = format!("net.ipv4.conf.{INTERFACE}.arp_announce=2");
    run(&format!("ip netns exec {right} sysctl -qw {announce}"));
    // The link-local address is usable once no other host has answered for it.
    let gateway = || {
        let output = run(&format!("ip -n {right} -6 addr show dev {INTERFACE} scope link"));
        let is_ready = !output.contains("tentative");
        let address = output.split_whitespace().find(|word| word.starts_with("fe80:"))?;
        Some(address.split_once('/')?.0.to_owned()).filter(|_| is_ready)
    };
    eventually("the peer has a link-local address", || gateway().is_some());
    let gateway = gateway().unwrap();
    run(&format!("ip -n {left} route add {peer}/32 via inet6 {gateway} dev {INTERFACE}"));
    let mut client = hosts.open(0, V4[0], Mode::Skb);
    let mut server = hosts.open(1, peer, Mode::Skb);
    learn_hops(&mut client, &mut server);
    assert_eq!(path(&mut client, &mut server), Path::Xdp);
    let neighbours = run(&format!("ip -n {left} neigh show dev {INTERFACE}"));
    assert!(!neighbours.contains(peer), "it is no neighbour: {neighbours}");
}
