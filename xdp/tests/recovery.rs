// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `AF_XDP` half comes back: a sleeping thread is woken, the MTU may have changed, and the
//! kernel socket has its former options.

mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use common::{
    Hosts, INTERFACE, V4, V6, config, echo, eventually, is_readable, learn_hops, now, packet, run,
    send, skipped, sockets, to,
};
use nix::errno::Errno;
use nix::poll::PollTimeout;
use nix::sys::socket::{AddressFamily, SockaddrLike as _, SockaddrStorage, getsockopt, sockopt};
use ofi_xdp_core::Port as _;
use ofi_xdp_datapath::{AttachMode, HybridPort, Mode, PortConfig, Redirect, Tier, XskMode};
use socket2::SockRef;

/// Whether the port's kernel socket accepts joined packets.
fn takes_joined(port: &HybridPort) -> bool {
    let address = SockaddrStorage::from(port.local_addr());
    // The port may have two such sockets.
    let sockets = sockets(|its| its == address);
    getsockopt(&sockets[0], sockopt::UdpGroSegment).unwrap()
}

/// Waits at most five seconds for the port's descriptor; returns whether it is readable.
fn is_woken(port: &HybridPort) -> bool {
    is_readable(port, PollTimeout::from(5000_u16))
}

/// Receives available packets without arming the descriptor before.
fn receive_now(port: &mut HybridPort) -> u16 {
    port.receive(now(), 64, &mut |_| {}).unwrap()
}

fn has_xdp(port: &HybridPort) -> bool {
    port.status().tier == Tier::Xdp(XskMode::Skb)
}

/// Runs `ip link set` on host 1's interface.
fn set_link(hosts: &Hosts, what: &str) {
    run(&format!("ip -n {} link set dev {INTERFACE} {what}", hosts.names[1]));
}

/// A client on host 0 and a server on host 1, which know each other.
fn two_hosts() -> (Hosts, HybridPort, HybridPort) {
    let hosts = Hosts::new();
    let mut client = hosts.open(0, V4[0], Mode::Skb);
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    learn_hops(&mut client, &mut server);
    (hosts, client, server)
}

/// Removes the `AF_XDP` half of an armed server, which is notified in its sleep.
fn fall_back(hosts: &Hosts, server: &mut HybridPort) {
    set_link(hosts, "down");
    while has_xdp(server) {
        assert!(is_woken(server), "no wake-up when the interface goes down");
        receive_now(server);
    }
}

/// A sleeping thread receives before its sleep and when the descriptor is readable, and at no other
/// time.
#[test]
fn root_a_sleeping_thread_is_woken_when_it_is_back() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = two_hosts();
    server.arm();
    while receive_now(&mut server) > 0 {}
    fall_back(&hosts, &mut server);
    // The call before each sleep; the descriptor stays the same.
    server.arm();
    receive_now(&mut server);
    set_link(&hosts, "up");
    eventually("the program is back", || hosts.has_program(1));
    // A packet before the claim goes to the kernel socket.
    thread::sleep(Duration::from_millis(300));
    send(&mut client, to(0, server.local_addr()), &packet(0, 64));
    client.flush().unwrap();
    let mut came = 0;
    while came == 0 {
        assert!(is_woken(&server), "the packet lies in a socket without a reader");
        came = receive_now(&mut server);
    }
    assert!(has_xdp(&server), "{}", server.status());
    assert_eq!(server.stats().xsk_losses, 1);
}

/// Sets the MTU at both ends of the link.
fn set_mtu(hosts: &Hosts, mtu: u32) {
    for name in &hosts.names {
        run(&format!("ip -n {name} link set dev {INTERFACE} mtu {mtu}"));
    }
}

/// Packets of `len` bytes, of fifty, that `port` sends through its `AF_XDP` socket.
fn through_xdp(port: &mut HybridPort, peer: &mut HybridPort, len: usize) -> u64 {
    let before = port.stats().xsk_transmitted;
    echo(port, peer, &[len; 50]);
    port.stats().xsk_transmitted - before
}

/// A packet that does not fit goes in fragments, as after a change of the MTU under an open socket.
#[test]
fn root_it_comes_back_to_a_smaller_mtu_too() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = two_hosts();
    server.arm();
    fall_back(&hosts, &mut server);
    set_mtu(&hosts, 1400);
    set_link(&hosts, "up");
    eventually("it is back", || {
        receive_now(&mut server);
        has_xdp(&server)
    });
    learn_hops(&mut server, &mut client);
    assert_eq!((server.status().mtu, server.limits().payload_max), (1400, 1472));
    assert!(through_xdp(&mut server, &mut client, 1372) >= 50, "{:?}", server.stats());
    assert_eq!(through_xdp(&mut server, &mut client, 1472), 0, "{:?}", server.stats());
    set_mtu(&hosts, 1500);
    eventually("both know", || {
        [&mut client, &mut server].into_iter().all(|port| {
            port.poll_all_sources();
            receive_now(port);
            port.status().mtu == 1500
        })
    });
    assert!(through_xdp(&mut server, &mut client, 1472) >= 50, "{:?}", server.stats());
    assert_eq!(server.stats().xsk_losses, 1);
}

/// An XDP program in generic mode must see each packet; without one, joined packets cost less.
#[test]
fn root_while_it_is_lost_the_kernel_joins_packets() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    run(&format!("ip netns exec {} ethtool -K {INTERFACE} gro on", hosts.names[1]));
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    assert!(has_xdp(&server) && !takes_joined(&server), "{}", server.status());
    for _ in 0..2 {
        server.arm();
        fall_back(&hosts, &mut server);
        assert!(takes_joined(&server));
        set_link(&hosts, "up");
        eventually("it is back", || {
            receive_now(&mut server);
            has_xdp(&server)
        });
        assert!(!takes_joined(&server));
    }
}

/// The mode of the attached program decides, not the one that was asked for.
#[test]
fn root_beside_a_program_in_generic_mode_no_packets_are_joined() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    run(&format!("ip netns exec {} ethtool -K {INTERFACE} gro on", hosts.names[1]));
    let _program = hosts.on(1, || {
        let interface = nix::net::if_::if_nametoindex(INTERFACE).unwrap();
        Redirect::open(interface.cast_signed(), AttachMode::Generic).unwrap()
    });
    let server = hosts.open(1, V4[1], Mode::Copy);
    assert_eq!(server.status().tier, Tier::Xdp(XskMode::Skb), "{}", server.status());
    assert!(!takes_joined(&server));
}

/// A fork keeps sockets that its parent closes, and notifications still arrive there.
#[test]
fn root_a_forks_sockets_wake_no_thread() {
    if skipped() {
        return;
    }
    let (hosts, _client, mut server) = two_hosts();
    server.arm();
    // The duplicates that a forked child would have.
    let _fork = sockets(|address| address.family() == Some(AddressFamily::Netlink));
    fall_back(&hosts, &mut server);
    set_link(&hosts, "up");
    while !has_xdp(&server) {
        assert!(is_woken(&server), "no wake-up when it is back");
        receive_now(&mut server);
    }
    eventually("nothing is left to look at", || {
        server.poll_all_sources();
        receive_now(&mut server);
        !is_readable(&server, PollTimeout::ZERO)
    });
}

/// The server only receives, and its neighbour keeps the former address for about ten seconds.
#[test]
fn root_a_receiver_with_another_link_layer_address_is_found() {
    if skipped() {
        return;
    }
    for ips in [V4, V6] {
        let hosts = Hosts::new();
        let mut client = hosts.open(0, ips[0], Mode::Skb);
        let mut server = hosts.open(1, ips[1], Mode::Skb);
        learn_hops(&mut client, &mut server);
        set_link(&hosts, "address 02:00:00:00:00:99");
        eventually("the loss is noticed", || {
            server.poll_all_sources();
            receive_now(&mut server);
            !has_xdp(&server)
        });
        eventually("it is back", || {
            receive_now(&mut server);
            has_xdp(&server)
        });
        let before = server.stats().xsk_received;
        eventually("packets reach the new address", || {
            client.poll_all_sources();
            receive_now(&mut client);
            send(&mut client, to(0, server.local_addr()), &packet(0, 64));
            client.flush().unwrap();
            receive_now(&mut server);
            server.stats().xsk_received > before
        });
    }
}

/// A port on host 1 whose interface is named, as the provider opens it.
fn open_named(hosts: &Hosts, mode: Mode) -> HybridPort {
    let config = PortConfig { interface: Some(INTERFACE.to_owned()), ..config(V4[1], mode) };
    hosts.on(1, || HybridPort::open(&config).unwrap())
}

/// Gives host 1's interface the name `other0` while it is down.
fn rename(hosts: &Hosts) {
    set_link(hosts, "down");
    set_link(hosts, "name other0");
    run(&format!("ip -n {} link set dev other0 up", hosts.names[1]));
}

#[test]
fn root_it_comes_back_to_an_interface_with_another_name() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut server = open_named(&hosts, Mode::Skb);
    server.arm();
    fall_back(&hosts, &mut server);
    rename(&hosts);
    eventually("it is back", || {
        receive_now(&mut server);
        has_xdp(&server)
    });
    assert_eq!(server.status().interface, "other0");
}

#[test]
fn root_it_comes_back_on_the_interface_that_has_the_address_now() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let [left, right] = &hosts.names;
    run(&format!("ip -n {left} link add other0 type veth peer name other0 netns {right}"));
    run(&format!("ip -n {left} link set other0 up"));
    run(&format!("ip -n {right} link set other0 up"));
    let mut server = open_named(&hosts, Mode::Skb);
    run(&format!("ip -n {right} addr del {}/24 dev {INTERFACE}", V4[1]));
    run(&format!("ip -n {right} addr add {}/24 dev other0", V4[1]));
    eventually("it is back", || {
        server.poll_all_sources();
        receive_now(&mut server);
        server.stats().xsk_losses == 1 && has_xdp(&server)
    });
    assert_eq!(server.status().interface, "other0");
}

/// Joins a group on host 1, with the server's port.
fn join(hosts: &Hosts, server: &mut HybridPort) -> SocketAddr {
    join_port(hosts, server, server.local_addr().port())
}

/// Joins a group on host 1 with this port.
fn join_port(hosts: &Hosts, server: &mut HybridPort, port: u16) -> SocketAddr {
    let group = if server.local_addr().is_ipv4() { "239.1.2.3" } else { "ff02::7" };
    let group = SocketAddr::new(group.parse().unwrap(), port);
    hosts.on(1, || server.join(group, true).unwrap());
    group
}

/// Waits for a packet to the group.
fn receive_from(hosts: &Hosts, server: &mut HybridPort, group: SocketAddr) {
    let sender = hosts.on(0, || {
        let own = if group.is_ipv4() { V4[0] } else { V6[0] };
        let sender = UdpSocket::bind((own, 0)).unwrap();
        let socket = SockRef::from(&sender);
        match own.parse().unwrap() {
            IpAddr::V4(own) => socket.set_multicast_if_v4(&own).unwrap(),
            IpAddr::V6(_) => {
                let interface = nix::net::if_::if_nametoindex(INTERFACE).unwrap();
                socket.set_multicast_if_v6(interface).unwrap();
            }
        }
        sender
    });
    eventually("a packet to the group arrives", || {
        // Without a carrier yet, it does not leave.
        let _ = sender.send_to(b"packet", group);
        server.poll_all_sources();
        receive_now(server) > 0
    });
}

/// Sends to the group until a packet has come to host 0.
fn send_to(hosts: &Hosts, server: &mut HybridPort, group: SocketAddr) {
    let member = hosts.on(0, || match group.ip() {
        IpAddr::V4(ip) => {
            let member = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, group.port())).unwrap();
            member.join_multicast_v4(&ip, &V4[0].parse().unwrap()).unwrap();
            member
        }
        IpAddr::V6(ip) => {
            let interface = nix::net::if_::if_nametoindex(INTERFACE).unwrap();
            let member = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, group.port())).unwrap();
            member.join_multicast_v6(&ip, interface).unwrap();
            member
        }
    });
    member.set_nonblocking(true).unwrap();
    eventually("a packet to the group leaves", || {
        send(server, to(0, group), &packet(0, 64));
        server.flush().unwrap();
        member.recv(&mut [0; 64]).is_ok()
    });
}

#[test]
fn root_a_group_is_joined_on_an_interface_with_another_name() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut server = open_named(&hosts, Mode::Udp);
    rename(&hosts);
    let group = join(&hosts, &mut server);
    receive_from(&hosts, &mut server, group);
}

#[test]
fn root_a_group_is_joined_on_an_interface_that_was_made_anew() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut server = open_named(&hosts, Mode::Udp);
    hosts.unlink();
    hosts.relink([[1, 1]; 2]);
    let group = join(&hosts, &mut server);
    receive_from(&hosts, &mut server, group);
}

/// As on routed hosts.
#[test]
fn root_a_group_of_an_address_on_the_loopback_interface_is_joined_on_the_uplink() {
    if skipped() {
        return;
    }
    let own = "198.51.100.7";
    let hosts = Hosts::new();
    let [left, right] = &hosts.names;
    run(&format!("ip -n {right} addr add {own}/32 dev lo"));
    let mut server = hosts.open(1, own, Mode::Udp);
    for is_new in [false, true] {
        if is_new {
            hosts.unlink();
            let group = SocketAddr::from(([239, 3, 2, 1], 7));
            let error = hosts.on(1, || server.join(group, true).unwrap_err());
            assert_eq!(error.raw_os_error(), Some(Errno::ENODEV as i32), "{error}");
            hosts.relink([[1, 1]; 2]);
            eventually("the link is up", || hosts.link(1).contains("LOWER_UP"));
        }
        // Host 0 may ask for a route back.
        run(&format!("ip -n {left} route replace {own}/32 via {}", V4[1]));
        let group = join(&hosts, &mut server);
        receive_from(&hosts, &mut server, group);
        send_to(&hosts, &mut server, group);
        server.leave(group);
    }
}

/// Moves host 1's interface to host 0.
fn take_link(hosts: &Hosts) {
    set_link(hosts, &format!("netns {} name away0", hosts.names[0]));
}

/// Moves it back, where it keeps its index if that is free.
fn give_link_back(hosts: &Hosts) {
    let [left, right] = &hosts.names;
    run(&format!("ip -n {left} link set dev away0 netns {right} name {INTERFACE}"));
    run(&format!("ip -n {right} addr add {}/24 dev {INTERFACE}", V4[1]));
    run(&format!("ip -n {right} addr add {}/64 dev {INTERFACE} nodad", V6[1]));
    set_link(hosts, "up");
}

/// Makes a new link with all addresses.
fn relink(hosts: &Hosts) {
    hosts.relink([[1, 1]; 2]);
    for (name, ip) in hosts.names.iter().zip(V6) {
        run(&format!("ip -n {name} addr add {ip}/64 dev {INTERFACE} nodad"));
    }
}

type Change = fn(&Hosts);

/// The interface goes, and another one comes, or the same.
const CHANGES: [(Change, Change); 2] = [(Hosts::unlink, relink), (take_link, give_link_back)];

/// A server on host 1, whose interface has an index that is free on host 0, too.
fn movable(ip: &str) -> (Hosts, HybridPort) {
    let hosts = Hosts::new();
    take_link(&hosts);
    give_link_back(&hosts);
    let server = hosts.open(1, ip, Mode::Skb);
    (hosts, server)
}

/// Receives until the `AF_XDP` half is lost, or back.
#[track_caller]
fn until(server: &mut HybridPort, there: bool) {
    eventually(if there { "it is back" } else { "it is lost" }, || {
        server.poll_all_sources();
        receive_now(server);
        has_xdp(server) == there
    });
}

#[test]
fn root_groups_that_were_joined_before_come_back_too() {
    if skipped() {
        return;
    }
    for ((lose, restore), ip) in
        CHANGES.into_iter().flat_map(|both| [V4[1], V6[1]].map(|ip| (both, ip)))
    {
        let (hosts, mut server) = movable(ip);
        let group = join(&hosts, &mut server);
        receive_from(&hosts, &mut server, group);
        lose(&hosts);
        until(&mut server, false);
        restore(&hosts);
        until(&mut server, true);
        receive_from(&hosts, &mut server, group);
        send_to(&hosts, &mut server, group);
    }
}

/// A group can be joined on an interface that is down, and may then go with it.
#[test]
fn root_groups_that_are_joined_while_it_is_lost_come_back_too() {
    if skipped() {
        return;
    }
    for ((lose, restore), ip) in
        CHANGES.into_iter().flat_map(|both| [V4[1], V6[1]].map(|ip| (both, ip)))
    {
        let (hosts, mut server) = movable(ip);
        set_link(&hosts, "down");
        until(&mut server, false);
        let group = join(&hosts, &mut server);
        lose(&hosts);
        restore(&hosts);
        until(&mut server, true);
        receive_from(&hosts, &mut server, group);
    }
}

/// The loss has another reason, and the interface is there, with its index, at each attempt.
#[test]
fn root_groups_come_back_though_no_attempt_misses_the_interface() {
    if skipped() {
        return;
    }
    for ip in [V4[1], V6[1]] {
        let (hosts, mut server) = movable(ip);
        let group = join(&hosts, &mut server);
        receive_from(&hosts, &mut server, group);
        set_link(&hosts, "address 02:00:00:00:00:99");
        until(&mut server, false);
        take_link(&hosts);
        give_link_back(&hosts);
        until(&mut server, true);
        receive_from(&hosts, &mut server, group);
    }
}

/// The kernel counts the members of a group on an interface together.
#[test]
fn root_one_of_two_members_of_a_group_leaves_after_both_came_back() {
    if skipped() {
        return;
    }
    for ip in [V4[1], V6[1]] {
        let (hosts, mut server) = movable(ip);
        let first = join(&hosts, &mut server);
        let second = join_port(&hosts, &mut server, 5001);
        take_link(&hosts);
        until(&mut server, false);
        give_link_back(&hosts);
        until(&mut server, true);
        receive_from(&hosts, &mut server, first);
        server.leave(first);
        receive_from(&hosts, &mut server, second);
    }
}
