// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ports in all modes between two network namespaces, over a veth pair and the real kernel.

#[path = "hybrid/batches.rs"]
mod batches;
mod common;
#[path = "hybrid/order.rs"]
mod order;
#[path = "hybrid/queues.rs"]
mod queues;
#[path = "hybrid/quiet.rs"]
mod quiet;
#[path = "hybrid/self_test.rs"]
mod self_test;

use std::process::Stdio;
use std::thread;

use common::{
    Hosts, INTERFACE, V4, V6, config, echo, eventually, learn_hops, now, packet, run, send,
    skipped, to,
};
use ofi_xdp_core::{Port, Transmit, Transmitted};
use ofi_xdp_datapath::{HybridPort, Mode, PortStats, Tier, Verdict, XskMode};

/// Sizes of the packets in one echo: the smallest, odd ones, the largest at this MTU, and a burst.
fn sizes(port: &HybridPort) -> Vec<usize> {
    let largest = port.limits().payload_max;
    let mut sizes = vec![32, 33, 57, 64, 255, 1000, 1408, largest - 1, largest];
    sizes.extend([1408; 150]);
    sizes.extend([40; 50]);
    sizes
}

/// Packets that a port has sent since `before`: through `AF_XDP`, through the kernel socket, and
/// the system calls for the latter.
fn sent_since(port: &HybridPort, before: PortStats) -> [u64; 3] {
    let now = port.stats();
    [
        now.xsk_transmitted - before.xsk_transmitted,
        now.udp_transmitted - before.udp_transmitted,
        now.udp_sends - before.udp_sends,
    ]
}

fn tier(mode: Mode) -> Tier {
    match mode {
        Mode::Skb => Tier::Xdp(XskMode::Skb),
        Mode::Copy => Tier::Xdp(XskMode::Copy),
        _ => Tier::Udp,
    }
}

fn redirected(port: &HybridPort) -> u64 {
    port.xsk().map_or(0, |xsk| xsk.counters().unwrap().unwrap().count(Verdict::Redirected))
}

fn pair(left: Mode, right: Mode, ips: [&str; 2]) {
    pair_on(&Hosts::new(), left, right, ips);
}

fn pair_on(hosts: &Hosts, left: Mode, right: Mode, ips: [&str; 2]) {
    let mut client = hosts.open(0, ips[0], left);
    let mut server = hosts.open(1, ips[1], right);
    assert_eq!((client.status().tier, server.status().tier), (tier(left), tier(right)));
    learn_hops(&mut client, &mut server);
    let before = (*client.stats(), *server.stats(), redirected(&client), redirected(&server));
    let sizes = sizes(&client);
    let count = sizes.len() as u64;
    echo(&mut client, &mut server, &sizes);
    for (port, before, redirected_before) in
        [(&client, before.0, before.2), (&server, before.1, before.3)]
    {
        let now = port.stats();
        let context = format!("{left} and {right}, {ips:?}: {}", port.status());
        if port.status().tier == Tier::Udp {
            assert!(now.udp_transmitted - before.udp_transmitted >= count, "{context}");
        } else {
            assert!(now.xsk_transmitted - before.xsk_transmitted >= count, "{context}: {now:?}");
            // GSO batches from the kernel's UDP may arrive through the kernel.
            let received = now.xsk_received - before.xsk_received;
            let through_kernel = now.udp_received - before.udp_received;
            assert!(received + through_kernel >= count, "{context}: {now:?}");
            assert!(received > 0, "{context}: {now:?}");
            assert_eq!(redirected(port) - redirected_before, received, "{context}");
            let from_xdp = left != Mode::Udp && right != Mode::Udp;
            assert!(!from_xdp || through_kernel == 0, "{context}: {now:?}");
            assert_eq!(now.xsk_rejected, 0, "{context}");
        }
    }
}

#[test]
fn root_every_pair_of_modes_echoes_over_ipv4() {
    if skipped() {
        return;
    }
    for left in [Mode::Skb, Mode::Copy, Mode::Udp] {
        for right in [Mode::Skb, Mode::Copy, Mode::Udp] {
            pair(left, right, V4);
        }
    }
}

#[test]
fn root_every_pair_of_modes_echoes_over_ipv6() {
    if skipped() {
        return;
    }
    for left in [Mode::Skb, Mode::Udp] {
        for right in [Mode::Skb, Mode::Udp] {
            pair(left, right, V6);
        }
    }
}

/// Packets of 8972 bytes take three frames of a page each way (multi-buffer `AF_XDP`).
#[test]
fn root_every_pair_of_modes_echoes_multi_buffer_packets() {
    if skipped() {
        return;
    }
    let hosts = Hosts::with_mtu(9000);
    for left in [Mode::Skb, Mode::Copy, Mode::Udp] {
        for right in [Mode::Skb, Mode::Copy, Mode::Udp] {
            pair_on(&hosts, left, right, V4);
        }
    }
    pair_on(&hosts, Mode::Copy, Mode::Skb, V6);
}

/// One wake-up sends 32 frames where the kernel copies them, and a flush makes 8 of them.
#[test]
fn root_frames_that_a_flush_leaves_in_the_ring_leave_with_the_next_receive() {
    if skipped() {
        return;
    }
    for mode in [Mode::Skb, Mode::Copy] {
        let hosts = Hosts::new();
        let mut client = hosts.open(0, V4[0], mode);
        let mut server = hosts.open(1, V4[1], Mode::Skb);
        learn_hops(&mut client, &mut server);
        assert!(!client.has_untaken());
        let peer = to(0, server.local_addr());
        for number in 0..8 * 32 + 1 {
            send(&mut client, peer, &packet(number, 64));
        }
        client.flush().unwrap();
        assert!(client.has_untaken(), "{mode}: {:?}", client.stats());
        eventually("the ring is empty", || {
            client.receive(now(), 64, &mut |_| {}).unwrap();
            !client.has_untaken()
        });
    }
}

/// No descriptor tells when a device gives frames back.
#[test]
fn root_a_packet_without_a_frame_is_due_again() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut client = hosts.open(0, V4[0], Mode::Skb);
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    learn_hops(&mut client, &mut server);
    let bytes = packet(0, 64);
    let to = to(0, server.local_addr());
    let fill = |buffer: &mut [u8]| {
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Some(Transmit { len: bytes.len(), to, receive_max: 1472 })
    };
    let mut sent = 0;
    while client.transmit(fill).unwrap() == Transmitted::Sent {
        assert!(!client.has_untaken());
        sent += 1;
    }
    assert!(client.has_untaken(), "{sent} packets have all frames");
    client.flush().unwrap();
    eventually("the packet finds a frame", || {
        client.receive(now(), 64, &mut |_| {}).unwrap();
        let sent = client.transmit(fill).unwrap();
        client.flush().unwrap();
        sent == Transmitted::Sent && !client.has_untaken()
    });
}

/// All lengths around the limits where a packet takes one frame more.
#[test]
fn root_multi_buffer_packets_of_every_length_arrive() {
    if skipped() {
        return;
    }
    let hosts = Hosts::with_mtu(9000);
    let mut client = hosts.open(0, V4[0], Mode::Copy);
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    for port in [&client, &server] {
        assert_eq!(port.limits().payload_max, 8972, "{}", port.status());
        assert!(port.limits().port_packets >= 500, "{:?}", port.limits());
    }
    learn_hops(&mut client, &mut server);
    let room = 4096 - 256 - 86;
    let mut sizes: Vec<usize> = (room - 60..room + 20).collect();
    sizes.extend(2 * room - 60..2 * room + 20);
    sizes.extend([32, 1472, 8971, 8972]);
    echo(&mut client, &mut server, &sizes);
    for port in [&client, &server] {
        let (stats, kernel) = (port.stats(), port.kernel_stats().unwrap());
        assert!(stats.xsk_received >= sizes.len() as u64, "{stats:?}");
        assert_eq!((stats.xsk_rejected, kernel.dropped(), kernel.tx_invalid), (0, 0, 0));
    }
}

#[test]
fn root_zerocopy_on_veth_falls_back_and_says_why() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let port = hosts.open(0, V4[0], Mode::Zerocopy);
    assert_eq!(port.status().tier, Tier::Xdp(XskMode::Copy));
    let why = &port.status().why_not_better;
    // Without the driver's features (Linux before 6.3) the kernel refuses the mode.
    let refused = "zerocopy: bind the AF_XDP socket: Operation not supported";
    assert!(
        why.starts_with("zerocopy: driver veth offers none") || why.starts_with(refused),
        "{why}"
    );
    assert_eq!(
        (port.status().driver.as_str(), port.status().interface.as_str()),
        ("veth", INTERFACE)
    );
    drop(port);
    let port = hosts.open(0, V4[0], Mode::Auto);
    assert_eq!(port.status().tier, Tier::Xdp(XskMode::Skb));
    assert_eq!(port.poll_fds().len(), 1);
}

#[test]
fn root_a_port_can_be_opened_again_at_once() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let first = hosts.open(0, V4[0], Mode::Skb);
    let mut config = config(V4[0], Mode::Skb);
    config.bind.set_port(first.local_addr().port());
    drop(first);
    for _ in 0..5 {
        let port = hosts.on(0, || HybridPort::open(&config).unwrap());
        assert_eq!(port.status().tier, Tier::Xdp(XskMode::Skb), "{}", port.status());
    }
    eventually("the program is gone", || !hosts.has_program(0));
}

#[test]
fn root_a_second_endpoint_on_the_queue_gets_udp() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut first = hosts.open(0, V4[0], Mode::Auto);
    let mut second = hosts.open(0, V4[0], Mode::Auto);
    assert_eq!(second.status().tier, Tier::Udp);
    let why = &second.status().why_not_better;
    assert!(why.contains("Device or resource busy"), "{why}");
    let mut server = hosts.open(1, V4[1], Mode::Auto);
    echo(&mut first, &mut server, &[64; 20]);
    echo(&mut second, &mut server, &[64; 20]);
    // Both ports are on one host, so packets go through the kernel in any tier.
    echo(&mut first, &mut second, &[64; 20]);
}

#[test]
fn root_a_neighbours_new_address_is_noticed() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut client = hosts.open(0, V4[0], Mode::Skb);
    let mut server = hosts.open(1, V4[1], Mode::Udp);
    learn_hops(&mut client, &mut server);
    run(&format!("ip -n {} link set dev {INTERFACE} address 02:00:00:00:00:99", hosts.names[1]));
    run(&format!(
        "ip -n {} neigh replace {} lladdr 02:00:00:00:00:99 dev {INTERFACE}",
        hosts.names[0], V4[1]
    ));
    learn_hops(&mut client, &mut server);
    let before = *client.stats();
    // On a busy machine an echo may take so long that it is retransmitted.
    let retransmitted = echo(&mut client, &mut server, &[64; 20]) as u64;
    let [xsk, udp, _] = sent_since(&client, before);
    assert_eq!((xsk, udp), (20 + retransmitted, 0), "all of it goes to the new address, by AF_XDP");
    // After the kernel has removed the neighbour, the port asks it again.
    run(&format!("ip -n {} neigh flush all dev {INTERFACE} nud permanent", hosts.names[0]));
    client.poll_all_sources();
    client.receive(now(), 1, &mut |_| {}).unwrap();
    let before = client.stats().udp_transmitted;
    send(&mut client, to(0, server.local_addr()), &packet(0, 64));
    client.flush().unwrap();
    assert_eq!(client.stats().udp_transmitted - before, 1);
}

#[test]
fn root_through_a_gateway_the_checksum_is_right() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let [left, right] = &hosts.names;
    run(&format!("ip -n {right} addr add 198.19.0.1/32 dev lo"));
    run(&format!("ip -n {left} route add 198.19.0.0/24 via {} dev {INTERFACE}", V4[1]));
    let mut client = hosts.open(0, V4[0], Mode::Skb);
    let mut server = hosts.open(1, "198.19.0.1", Mode::Udp);
    learn_hops(&mut client, &mut server);
    let before = client.stats().xsk_transmitted;
    // The receiving kernel verifies the checksum, and drops packets with a wrong one.
    echo(&mut client, &mut server, &[64, 65, 1001, 1472]);
    assert!(client.stats().xsk_transmitted - before >= 4);
    let sent = run(&format!("ip netns exec {right} nstat -asz UdpInCsumErrors"));
    assert!(sent.lines().any(|l| l.starts_with("UdpInCsumErrors") && l.contains(" 0 ")), "{sent}");
}

#[test]
fn root_losing_the_program_loses_only_the_tier() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut client = hosts.open(0, V4[0], Mode::Skb);
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    echo(&mut client, &mut server, &[64; 20]);
    hosts.detach_program(0);
    echo(&mut client, &mut server, &[64; 300]);
    client.poll_all_sources();
    client.receive(now(), 1, &mut |_| {}).unwrap();
    assert_eq!(client.status().tier, Tier::Udp);
    assert_eq!(client.status().why_not_better, "AF_XDP was lost: the XDP program was detached");
    assert_eq!(client.poll_fds().len(), 1);
    let sizes = sizes(&client);
    echo(&mut client, &mut server, &sizes);
}

#[test]
fn root_losing_the_interface_loses_only_the_tier() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut client = hosts.open(0, V4[0], Mode::Copy);
    let mut server = hosts.open(1, V4[1], Mode::Udp);
    echo(&mut client, &mut server, &[64; 20]);
    run(&format!("ip -n {} link set dev {INTERFACE} down", hosts.names[0]));
    client.poll_all_sources();
    client.receive(now(), 1, &mut |_| {}).unwrap();
    assert_eq!(client.status().why_not_better, "AF_XDP was lost: the interface is down");
    send(&mut client, to(0, server.local_addr()), &packet(0, 64));
    client.flush().unwrap();
    run(&format!("ip -n {} link set dev {INTERFACE} up", hosts.names[0]));
    let sizes = sizes(&client);
    echo(&mut client, &mut server, &sizes);
}

#[test]
fn root_missing_privilege_is_named() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let port = hosts.on(0, || {
        caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_NET_RAW).unwrap();
        caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_BPF).unwrap();
        caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_SYS_ADMIN).unwrap();
        let mut config = config(V4[0], Mode::Auto);
        config.broker = Some("/nowhere/socket".into());
        HybridPort::open(&config).unwrap()
    });
    assert_eq!(port.status().tier, Tier::Udp);
    let why = &port.status().why_not_better;
    assert!(
        why.contains("AF_XDP needs CAP_NET_RAW, CAP_BPF; grant them with `sudo setcap")
            && why.contains("or run xdp-broker; xdp-broker at /nowhere/socket: No such file"),
        "{why}"
    );
}

/// Joining the program of another process needs `CAP_SYS_ADMIN`; joining one of the same process
/// does not.
#[test]
fn root_a_second_endpoint_of_a_process_needs_no_more_capabilities() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    hosts.unlink();
    hosts.relink([[2, 2]; 2]);
    eventually("the link is up", || hosts.link(0).contains("LOWER_UP"));
    let ports = hosts.on(0, || {
        caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_SYS_ADMIN).unwrap();
        [0, 1].map(|_| HybridPort::open(&config(V4[0], Mode::Auto)).unwrap())
    });
    for (queue, port) in (0..).zip(&ports) {
        assert_eq!(port.status().tier, Tier::Xdp(XskMode::Skb), "{}", port.status());
        assert_eq!(port.status().queues.as_slice(), [queue]);
    }
    drop(ports);
    eventually("the program is gone", || !hosts.has_program(0));
}

/// The process that the next test kills; not a test by itself.
#[test]
#[ignore = "run by root_a_killed_process_leaves_nothing"]
fn victim() {
    common::enter_given();
    let port = HybridPort::open(&config(V4[0], Mode::Skb)).unwrap();
    println!("{}", port.status());
    loop {
        thread::park();
    }
}

#[test]
fn root_a_killed_process_leaves_nothing() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut process = common::ignored_test("victim", &hosts.names[0]);
    let mut child = process.stdout(Stdio::null()).spawn().unwrap();
    eventually("the program is attached", || hosts.has_program(0));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the program is gone", || !hosts.has_program(0));
    let port = hosts.open(0, V4[0], Mode::Skb);
    assert_eq!(port.status().tier, Tier::Xdp(XskMode::Skb), "{}", port.status());
}
