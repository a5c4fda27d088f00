// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel's tables say of a peer is followed, whatever they are made of; there are two
//! links between the hosts.

mod common;

use common::{Hosts, INTERFACE, V4, V6, echo, meet, now, run, skipped};
use ofi_xdp_core::Port;
use ofi_xdp_datapath::{HybridPort, Mode};

/// The other interface of each host, and its addresses.
const OTHER: &str = "veth9";
const OTHER_V4: [&str; 2] = ["198.19.9.1", "198.19.9.2"];
const OTHER_V6: [&str; 2] = ["fd00:19::1", "fd00:19::2"];

/// Two hosts, and a port of each at `ips`, which are the first link's, that know each other.
fn setting(ips: [&str; 2]) -> (Hosts, HybridPort, HybridPort) {
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
    meet(&mut client, &mut server);
    (hosts, client, server)
}

/// The way that the packets of an echo take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Kernel,
    Xdp,
    Both,
}

/// What the client makes of what was announced until now.
fn way(client: &mut HybridPort, server: &mut HybridPort) -> Way {
    for _ in 0..2 {
        client.look_everywhere();
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
        (0, _) => Way::Xdp,
        (_, 0) => Way::Kernel,
        _ => Way::Both,
    }
}

#[test]
fn root_a_rule_may_come_and_go() {
    if skipped() {
        return;
    }
    for (ips, other) in [(V4, OTHER_V4), (V6, OTHER_V6)] {
        let (hosts, mut client, mut server) = setting(ips);
        let family = if ips == V4 { "-4" } else { "-6" };
        let ip = |what: &str| drop(run(&format!("ip -n {} {family} {what}", hosts.names[0])));
        let [own, peer] = ips;
        ip(&format!("route add {peer} via {} dev {OTHER} src {own} table 100", other[1]));
        assert_eq!(way(&mut client, &mut server), Way::Xdp, "{ips:?}");
        ip(&format!("rule add to {peer} lookup 100"));
        assert_eq!(way(&mut client, &mut server), Way::Kernel, "{ips:?}");
        ip(&format!("rule del to {peer} lookup 100"));
        assert_eq!(way(&mut client, &mut server), Way::Xdp, "{ips:?}");
    }
}

/// What takes the route to the peer away without a word of it.
fn a_route_goes_in_silence(route: &str, silence: &str) {
    let (hosts, mut client, mut server) = setting(V4);
    let left = &hosts.names[0];
    // Of IPv6 routes that go, there is word.
    run(&format!("ip netns exec {left} sysctl -qw net.ipv6.conf.{OTHER}.disable_ipv6=1"));
    run(&format!("ip -n {left} nexthop add id 9 via {} dev {OTHER}", OTHER_V4[1]));
    run(&format!("ip -n {left} route add {} {route} src {}", V4[1], V4[0]));
    assert_eq!(way(&mut client, &mut server), Way::Kernel, "{route}");
    run(&format!("ip -n {left} {silence}"));
    assert_eq!(way(&mut client, &mut server), Way::Xdp, "{silence}");
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

/// By the same interface and to a neighbour that is known; but the kernel has something to add.
#[test]
fn root_a_route_with_an_encapsulation_is_the_kernels() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = setting(V6);
    let [left, right] = &hosts.names;
    assert_eq!(way(&mut client, &mut server), Way::Xdp);
    // The last segment takes out what is inside.
    let segment = "fd00:18::3";
    run(&format!("ip -n {right} addr add {segment}/64 dev {INTERFACE} nodad"));
    for interface in ["all", INTERFACE] {
        let key = format!("net.ipv6.conf.{interface}.seg6_enabled");
        run(&format!("ip netns exec {right} sysctl -qw {key}=1"));
    }
    let route = format!("{} encap seg6 mode encap segs {segment} dev {INTERFACE}", V6[1]);
    run(&format!("ip -n {left} -6 route add {route}"));
    assert_eq!(way(&mut client, &mut server), Way::Kernel);
    run(&format!("ip -n {left} -6 route del {route}"));
    assert_eq!(way(&mut client, &mut server), Way::Xdp);
}
