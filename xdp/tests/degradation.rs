// SPDX-License-Identifier: MIT OR Apache-2.0
//! A port loses its device, its program or its MTU under traffic. All packets arrive in the end,
//! each is verified, and the lost half comes back.

mod common;

use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use common::{
    Hosts, INTERFACE, V4, V6, config, echo, eventually, learn_hops, now, packet, run, send,
    skipped, to,
};
use ofi_xdp_bpf::{AttachMode, EndpointAddress, Redirect};
use ofi_xdp_core::{Port, Transmit, Transmitted};
use ofi_xdp_datapath::{HybridPort, Mode, PortConfig, Tier, XskMode};
use socket2::{Domain, Socket, Type};

/// The address family (linux/socket.h).
const AF_XDP: i32 = 44;

/// Small and full packets, more than the run after which a port verifies its program.
fn sizes() -> Vec<usize> {
    let mut sizes = vec![64; 200];
    sizes.extend([1472; 20]);
    sizes
}

/// Echoes packets while `event` happens and until `done` holds for the client, at least once after
/// the event.
fn under_traffic(
    client: &mut HybridPort,
    server: &mut HybridPort,
    event: impl FnOnce() + Send,
    mut done: impl FnMut(&HybridPort) -> bool,
) {
    let sizes = sizes();
    let mut is_done = false;
    thread::scope(|scope| {
        let event = scope.spawn(event);
        while !event.is_finished() {
            echo(client, server, &sizes);
            is_done |= done(client);
        }
        event.join().unwrap();
    });
    for _ in 0..1000 {
        echo(client, server, &sizes);
        client.poll_all_sources();
        client.receive(now(), 1, &mut |_| {}).unwrap();
        if is_done || done(client) {
            return receive_late_packets(client, server);
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("not in time: {}", client.status());
}

/// Receives the packets in flight that were sent twice.
fn receive_late_packets(client: &mut HybridPort, server: &mut HybridPort) {
    let mut empty_polls = 0;
    while empty_polls < 50 {
        let mut count = 0;
        for port in [&mut *client, &mut *server] {
            port.poll_all_sources();
            count += port.receive(now(), 64, &mut |_| {}).unwrap();
        }
        empty_polls = if count == 0 { empty_polls + 1 } else { 0 };
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the `AF_XDP` half was lost and is back.
fn lost_and_back(port: &HybridPort) -> bool {
    port.stats().xsk_losses > 0 && has_xdp(port)
}

fn has_xdp(port: &HybridPort) -> bool {
    port.status().tier == Tier::Xdp(XskMode::Skb)
}

/// Two hosts with a port each; the ports know each other.
fn two_hosts() -> (Hosts, HybridPort, HybridPort) {
    let hosts = Hosts::new();
    let mut client = hosts.open(0, V4[0], Mode::Skb);
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    learn_hops(&mut client, &mut server);
    (hosts, client, server)
}

/// Sets the MTU at both ends of the link.
fn set_mtu(hosts: &Hosts, mtu: u32) {
    for name in &hosts.names {
        run(&format!("ip -n {name} link set dev {INTERFACE} mtu {mtu}"));
    }
}

#[test]
fn root_a_program_that_is_detached_comes_back() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = two_hosts();
    under_traffic(&mut client, &mut server, || hosts.detach_program(0), lost_and_back);
    assert!(hosts.has_program(0));
    learn_hops(&mut client, &mut server);
    let before = client.stats().xsk_received;
    echo(&mut client, &mut server, &sizes());
    assert!(client.stats().xsk_received > before, "{:?}", client.stats());
}

/// The claim disappears as if another endpoint of the same port deleted it as stale.
#[test]
fn root_a_claim_that_is_gone_comes_back() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = two_hosts();
    let address = client.local_addr();
    let take_away = || {
        hosts.on(0, || {
            let index = nix::net::if_::if_nametoindex(INTERFACE).unwrap();
            let redirect =
                Redirect::open(i32::try_from(index).unwrap(), AttachMode::Generic).unwrap();
            let socket = Socket::new(Domain::from(AF_XDP), Type::RAW, None).unwrap();
            // A second claim of the address replaces the first, and deletes the entry when dropped.
            let endpoint =
                EndpointAddress { address, broadcast: None, mac: [0; 6], any_payload: false };
            drop(redirect.claim(0, endpoint, 1500, socket.as_fd()).unwrap());
        });
    };
    under_traffic(&mut client, &mut server, take_away, lost_and_back);
    learn_hops(&mut client, &mut server);
    let before = client.stats().xsk_received;
    echo(&mut client, &mut server, &sizes());
    assert!(client.stats().xsk_received > before, "{:?}", client.stats());
}

/// Packets of an address that has left the interface are another host's. The second address with
/// the same prefix keeps the route.
#[test]
fn root_an_address_may_leave_the_interface_and_come_back() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = two_hosts();
    let left = &hosts.names[0];
    let change = |verb: &str, ip: &str| {
        run(&format!("ip -n {left} addr {verb} {ip}/24 dev {INTERFACE}"));
    };
    change("add", "198.18.0.77");
    change("del", "198.18.0.77");
    client.poll_all_sources();
    client.receive(now(), 64, &mut |_| {}).unwrap();
    assert!(has_xdp(&client), "another address: {}", client.status());
    change("del", V4[0]);
    eventually("the loss is noticed", || {
        client.poll_all_sources();
        client.receive(now(), 64, &mut |_| {}).unwrap();
        !has_xdp(&client)
    });
    let why = &client.status().why_not_better;
    assert!(why.contains("its address has left the interface"), "{why}");
    change("add", V4[0]);
    under_traffic(&mut client, &mut server, || {}, lost_and_back);
}

/// The host announces a route to the address, and has it on no link.
#[test]
fn root_an_address_may_leave_the_loopback_interface_and_come_back() {
    if skipped() {
        return;
    }
    let own = "198.18.5.1";
    let hosts = Hosts::new();
    let change = |verb: &str| {
        run(&format!("ip -n {} addr {verb} {own}/32 dev lo", hosts.names[0]));
    };
    change("add");
    run(&format!("ip -n {} route add {own}/32 via {}", hosts.names[1], V4[0]));
    let config = PortConfig { interface: Some(INTERFACE.to_owned()), ..config(own, Mode::Skb) };
    let mut client = hosts.on(0, || HybridPort::open(&config).unwrap());
    assert!(has_xdp(&client), "{}", client.status());
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    learn_hops(&mut client, &mut server);
    change("del");
    eventually("the loss is noticed", || {
        client.poll_all_sources();
        client.receive(now(), 64, &mut |_| {}).unwrap();
        !has_xdp(&client)
    });
    change("add");
    under_traffic(&mut client, &mut server, || {}, lost_and_back);
}

#[test]
fn root_an_interface_may_go_down_and_up() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = two_hosts();
    let down_and_up = || {
        run(&format!("ip -n {} link set dev {INTERFACE} down", hosts.names[0]));
        thread::sleep(Duration::from_millis(300));
        run(&format!("ip -n {} link set dev {INTERFACE} up", hosts.names[0]));
    };
    under_traffic(&mut client, &mut server, down_and_up, lost_and_back);
    assert!(hosts.has_program(0));
}

/// A device in zero-copy mode takes no frames without a carrier. The neighbour is permanent: the
/// kernel forgets others with the carrier.
#[test]
fn root_a_full_ring_of_an_interface_without_a_carrier_stops_no_packet() {
    if skipped() {
        return;
    }
    let (hosts, mut client, server) = two_hosts();
    let neighbour = format!("{} lladdr 02:00:00:00:00:09 dev {INTERFACE} nud permanent", V4[1]);
    run(&format!("ip -n {} neigh replace {neighbour}", hosts.names[0]));
    let carrier = |client: &mut HybridPort, state: &str, flag: &str| {
        run(&format!("ip -n {} link set dev {INTERFACE} {state}", hosts.names[1]));
        eventually(state, || hosts.link(0).contains(flag));
        client.poll_all_sources();
        client.receive(now(), 64, &mut |_| {}).unwrap();
    };
    let to = to(0, server.local_addr());
    let transmit = |client: &mut HybridPort| {
        let before = *client.stats();
        let transmit = Transmit { len: 64, to, receive_max: 1472 };
        let sent = client.transmit(|buffer| {
            buffer[..64].copy_from_slice(&packet(0, 64));
            Some(transmit)
        });
        let after = client.stats();
        (sent.unwrap(), after.xsk_transmitted - before.xsk_transmitted)
    };
    carrier(&mut client, "up", "LOWER_UP");
    assert!((0..10_000).any(|_| transmit(&mut client).0 == Transmitted::Full));
    carrier(&mut client, "down", "NO-CARRIER");
    for _ in 0..10 {
        assert_eq!(transmit(&mut client), (Transmitted::Sent, 0), "by the kernel");
    }
    client.flush().unwrap();
    carrier(&mut client, "up", "LOWER_UP");
    client.flush().unwrap();
    assert_eq!(transmit(&mut client), (Transmitted::Sent, 1));
    assert!(has_xdp(&client) && client.stats().xsk_losses == 0, "{}", client.status());
}

#[test]
fn root_packets_go_in_fragments_while_the_mtu_is_too_small() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = two_hosts();
    under_traffic(
        &mut client,
        &mut server,
        || set_mtu(&hosts, 800),
        |port| port.status().mtu == 800,
    );
    assert!(has_xdp(&client), "short packets go on as before");
    let before = *client.stats();
    echo(&mut client, &mut server, &[1472; 50]);
    let now = *client.stats();
    assert!(now.udp_transmitted - before.udp_transmitted >= 50, "{now:?}");
    assert_eq!(now.xsk_transmitted, before.xsk_transmitted, "{now:?}");
    // Late packets that were sent twice must not count in the next echo.
    receive_late_packets(&mut client, &mut server);
    echo(&mut client, &mut server, &[64; 50]);
    assert!(client.stats().xsk_transmitted - now.xsk_transmitted >= 50);
    under_traffic(
        &mut client,
        &mut server,
        || set_mtu(&hosts, 1500),
        |port| port.status().mtu == 1500,
    );
    let before = client.stats().xsk_transmitted;
    echo(&mut client, &mut server, &[1472; 50]);
    assert!(client.stats().xsk_transmitted - before >= 50, "{:?}", client.stats());
}

/// More notifications than the kernel keeps for the port. After the first one without room the
/// kernel sends none until the port has read all kept ones.
#[test]
fn root_an_mtu_that_falls_in_a_storm_of_routes_is_seen() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = two_hosts();
    let routes = std::env::temp_dir().join(&hosts.names[0]);
    let lines = (0..8192).map(|number| {
        format!("route add 198.51.{}.{}/32 dev {INTERFACE}\n", number / 256, number % 256)
    });
    std::fs::write(&routes, lines.collect::<String>()).unwrap();
    run(&format!("ip -n {} -batch {}", hosts.names[0], routes.display()));
    std::fs::remove_file(routes).unwrap();
    // One receive, which does not read all notifications.
    client.poll_all_sources();
    client.receive(now(), 1, &mut |_| {}).unwrap();
    set_mtu(&hosts, 800);
    under_traffic(&mut client, &mut server, || (), |port| port.status().mtu == 800);
    assert!(has_xdp(&client), "{}", client.status());
    echo(&mut client, &mut server, &[1472; 50]);
}

/// Packets that the client sent through its kernel socket for an echo of `sizes`, and the system
/// calls for them.
fn sent(client: &mut HybridPort, server: &mut HybridPort, sizes: &[usize]) -> [u64; 2] {
    let before = *client.stats();
    echo(client, server, sizes);
    let now = *client.stats();
    [now.udp_transmitted - before.udp_transmitted, now.udp_sends - before.udp_sends]
}

#[test]
fn root_kernel_sockets_send_fragments_too() {
    if skipped() {
        return;
    }
    for (ips, payload) in [(V4, 8972), (V6, 8952)] {
        let hosts = Hosts::with_mtu(9000);
        let mut client = hosts.open(0, ips[0], Mode::Udp);
        let mut server = hosts.open(1, ips[1], Mode::Udp);
        for mtu in [9000, 1500, 9000] {
            set_mtu(&hosts, mtu);
            let sizes = vec![payload; 100];
            if mtu == 9000 {
                eventually("packets leave in batches", || {
                    let [packets, calls] = sent(&mut client, &mut server, &sizes);
                    packets > 2 * calls
                });
                continue;
            }
            let mut refused = 0;
            for _ in 0..15 {
                let [packets, calls] = sent(&mut client, &mut server, &sizes);
                assert!(calls >= packets, "{packets} packets in {calls} calls");
                refused += calls - packets;
            }
            assert!((1..10).contains(&refused), "{refused} refused batches");
        }
    }
}

/// Packets to one peer exceed the MTU of the interface by which its route leads. Those to others
/// keep Don't Fragment, so that path searches see what is lost.
#[test]
fn root_packets_too_long_for_the_route_of_a_peer_are_lost_and_no_other_is_fragmented() {
    if skipped() {
        return;
    }
    for (ips, (far, network), payload) in [
        (V4, ("198.51.100.9", "198.51.100.1/24"), 1472),
        (V6, ("fd00:51::9", "fd00:51::1/64"), 1452),
    ] {
        let hosts = Hosts::new();
        let left = &hosts.names[0];
        run(&format!("ip -n {left} link add narrow0 type veth peer name narrow1"));
        run(&format!("ip -n {left} addr add {network} dev narrow0"));
        for name in ["narrow0", "narrow1"] {
            run(&format!("ip -n {left} link set {name} mtu 1300 up"));
        }
        let mut client = hosts.open(0, ips[0], Mode::Udp);
        let near = to(0, (ips[1].parse::<IpAddr>().unwrap(), 9).into());
        let far = to(1, (far.parse::<IpAddr>().unwrap(), 9).into());
        let mut lost = |to, payload| {
            let before = client.stats().udp_lost;
            send(&mut client, to, &packet(0, payload));
            client.flush().unwrap();
            client.stats().udp_lost - before
        };
        for mtu in [1500, 1400, 1500] {
            set_mtu(&hosts, mtu);
            assert_eq!([lost(near, payload), lost(near, 64)], [0, 0], "MTU {mtu}");
            // Only what exceeds the own interface's MTU goes in fragments.
            assert_eq!([lost(far, 1320), lost(far, 64)], [1, 0], "MTU {mtu}");
        }
    }
}

#[test]
fn root_a_neighbours_new_address_loses_nothing() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = two_hosts();
    let [left, right] = &hosts.names;
    let new = "02:00:00:00:00:99";
    let change = || {
        run(&format!("ip -n {right} link set dev {INTERFACE} address {new}"));
        run(&format!("ip -n {left} neigh replace {} lladdr {new} dev {INTERFACE}", V4[1]));
    };
    under_traffic(&mut client, &mut server, change, |_| true);
    learn_hops(&mut client, &mut server);
    let before = client.stats().xsk_transmitted;
    echo(&mut client, &mut server, &[64; 50]);
    assert!(client.stats().xsk_transmitted - before >= 50);
    // The server's frames carry its new address, because its socket is new.
    eventually("the server has its half back", || {
        echo(&mut client, &mut server, &[64; 20]);
        has_xdp(&server)
    });
}

#[test]
fn root_a_route_may_move_and_come_back() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = two_hosts();
    let [left, right] = &hosts.names;
    run(&format!("ip -n {left} link add veth9 type veth peer name veth9 netns {right}"));
    for (name, ip) in [(left, "198.19.9.1"), (right, "198.19.9.2")] {
        run(&format!("ip -n {name} addr add {ip}/24 dev veth9"));
        run(&format!("ip -n {name} link set veth9 up"));
    }
    let route = format!("{}/32 via 198.19.9.2 dev veth9 src {}", V4[1], V4[0]);
    let through_kernel = |client: &mut HybridPort, server: &mut HybridPort| {
        let before = *client.stats();
        echo(client, server, &[64; 50]);
        let now = *client.stats();
        (now.udp_transmitted - before.udp_transmitted, now.xsk_transmitted - before.xsk_transmitted)
    };
    let event = || drop(run(&format!("ip -n {left} route add {route}")));
    under_traffic(&mut client, &mut server, event, |_| true);
    let (kernel, xdp) = through_kernel(&mut client, &mut server);
    assert!(kernel >= 50 && xdp == 0, "{kernel} {xdp}");
    let event = || drop(run(&format!("ip -n {left} route del {route}")));
    under_traffic(&mut client, &mut server, event, |_| true);
    let (kernel, xdp) = through_kernel(&mut client, &mut server);
    assert!(kernel == 0 && xdp >= 50, "{kernel} {xdp}");
    assert!(has_xdp(&client));
}

/// The socket is unusable for good, because its device is gone. A new device of that name follows.
#[test]
fn root_a_dead_socket_is_replaced() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = two_hosts();
    let replace = || {
        hosts.unlink();
        thread::sleep(Duration::from_millis(100));
        hosts.relink([[1, 1]; 2]);
    };
    under_traffic(&mut client, &mut server, replace, lost_and_back);
    assert!(has_xdp(&client));
}

#[test]
fn root_a_taken_queue_is_waited_for() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = two_hosts();
    under_traffic(&mut client, &mut server, || hosts.detach_program(0), |port| !has_xdp(port));
    let other = hosts.open(0, V4[0], Mode::Skb);
    if !has_xdp(&other) {
        // The client was faster, which is valid and not the subject of this test.
        println!("the queue was not taken: {}", other.status());
    }
    for _ in 0..20 {
        echo(&mut client, &mut server, &sizes());
        assert!(has_xdp(&client) != has_xdp(&other), "a queue has one owner");
        thread::sleep(Duration::from_millis(50));
    }
    drop(other);
    under_traffic(&mut client, &mut server, || (), has_xdp);
}

/// One of the six processes of the next test; not a test by itself.
#[test]
#[ignore = "run by root_processes_take_queues_while_there_are_any"]
fn process() {
    common::enter_given();
    // Generic mode on a veth has one queue only.
    let mut port = HybridPort::open(&config(V4[0], Mode::Copy)).unwrap();
    println!("\nopened {} {}", port.local_addr(), port.status());
    // Returns all packets until the parent ends it.
    loop {
        let mut packets = Vec::new();
        port.receive(now(), 64, &mut |got| packets.push((got.from, got.bytes.to_vec()))).unwrap();
        for (from, bytes) in &packets {
            send(&mut port, to(0, from.socket_addr()), bytes);
        }
        port.flush().unwrap();
        thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn root_processes_take_queues_while_there_are_any() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let left = &hosts.names[0];
    hosts.unlink();
    hosts.relink([[4, 4]; 2]);
    let children: Vec<Child> = (0..6).map(|_| Child::start(left)).collect();
    let mut queues: Vec<&str> = children
        .iter()
        .filter_map(|child| child.status.split_once("queue ")?.1.split(',').next())
        .collect();
    queues.sort_unstable();
    assert_eq!(queues, ["0", "1", "2", "3"], "each takes one");
    let without = children.iter().filter(|child| child.status.starts_with("kernel UDP")).count();
    assert_eq!(without, 2, "later ones go without");
    // A packet finds its process on any queue.
    let mut client = hosts.open(1, V4[1], Mode::Copy);
    assert_eq!(client.status().tier, Tier::Xdp(XskMode::Copy));
    for child in &children {
        common::exchange_packets(&mut client, child.address, 100);
    }
    let channels = run(&format!("ip netns exec {left} ethtool -l {INTERFACE}"));
    let current = channels.split_once("Current").unwrap().1;
    assert!(current.lines().any(|line| line.starts_with("RX:") && line.ends_with('4')));
    drop(children);
    eventually("the program is gone", || !hosts.has_program(0));
}

/// Another process with a port on host 0; killed on drop.
struct Child {
    child: std::process::Child,
    address: std::net::SocketAddr,
    status: String,
}

impl Child {
    fn start(namespace: &str) -> Self {
        use std::io::{BufRead as _, BufReader};
        let mut process = common::ignored_test("process", namespace);
        let mut child = process.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("opened ").map(str::to_owned))
            .expect("the process opens a port");
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let (address, status) = line.split_once(' ').unwrap();
        Self { child, address: address.parse().unwrap(), status: status.to_owned() }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
