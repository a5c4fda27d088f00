// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ports of every kind between two network namespaces, over a veth pair and the real kernel.

mod common;

use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{
    Hosts, INTERFACE, V4, V6, config, echo, eventually, meet, now, packet, run, send, skipped, to,
};
use ofi_xdp_core::{Datagram, Port};
use ofi_xdp_datapath::{HybridPort, Mode, PortStats, Tier, Verdict, XskMode};

/// Sizes of the packets in one echo: the smallest, odd ones, the largest at this MTU, and a burst.
fn sizes(port: &HybridPort) -> Vec<usize> {
    let largest = port.limits().payload_max;
    let mut sizes = vec![32, 33, 57, 64, 255, 1000, 1408, largest - 1, largest];
    sizes.extend([1408; 150]);
    sizes.extend([40; 50]);
    sizes
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
    assert_eq!((client.facts().tier, server.facts().tier), (tier(left), tier(right)));
    meet(&mut client, &mut server);
    let before = (*client.stats(), *server.stats(), redirected(&client), redirected(&server));
    let sizes = sizes(&client);
    let count = sizes.len() as u64;
    echo(&mut client, &mut server, &sizes);
    for (port, before, redirected_before) in
        [(&client, before.0, before.2), (&server, before.1, before.3)]
    {
        let now = port.stats();
        let context = format!("{left} and {right}, {ips:?}: {}", port.facts());
        if port.facts().tier == Tier::Udp {
            assert!(now.udp_transmitted - before.udp_transmitted >= count, "{context}");
        } else {
            assert!(now.xsk_transmitted - before.xsk_transmitted >= count, "{context}: {now:?}");
            // Trains from the kernel's UDP may come in through the kernel.
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

/// What a port has sent since `before`: packets through `AF_XDP`, packets through the kernel's
/// socket, and the calls for those.
fn sent_since(port: &HybridPort, before: PortStats) -> [u64; 3] {
    let now = port.stats();
    [
        now.xsk_transmitted - before.xsk_transmitted,
        now.udp_transmitted - before.udp_transmitted,
        now.udp_sends - before.udp_sends,
    ]
}

#[test]
fn root_in_auto_mode_long_trains_leave_by_the_kernel() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut client = hosts.open(0, V4[0], Mode::Auto);
    let mut server = hosts.open(1, V4[1], Mode::Auto);
    assert_eq!(client.facts().tier, Tier::Xdp(XskMode::Skb));
    meet(&mut client, &mut server);
    let server_address = to(0, server.local_addr());
    let mut expected = Vec::new();
    // Sizes and numbers of packets in one burst, and what each burst is to be sent as.
    for (bursts, sent) in [
        (&[(64, 40)][..], [40, 0, 0]),
        (&[(1408, 3)], [3, 0, 0]),
        (&[(1408, 4)], [0, 4, 1]),
        (&[(1408, 40)], [0, 40, 1]),
        // What ends a train goes with it, and what follows stays behind it.
        (&[(1408, 40), (64, 3)], [0, 43, 3]),
        (&[(64, 2), (1408, 1), (64, 2)], [5, 0, 0]),
        (&[(1408, 90)], [0, 90, 2]),
        // Nor does what one train had no room for.
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

/// The XDP program tells of a train, so nobody waits for the next look at the kernel's socket; and
/// whose it is: the receiver is the second one of two on its interface.
#[test]
fn root_a_train_is_not_waited_for() {
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
    assert_eq!(server.facts().queue, Some(1), "{}", server.facts());
    meet(&mut client, &mut server);
    let moment = now();
    // The second call is too early for another look, and so is every one at that moment.
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

/// A train is taken from the kernel in one piece, and a budget may be less: no descriptor tells of
/// what is left then.
#[test]
fn root_what_is_left_of_a_train_is_told() {
    if skipped() {
        return;
    }
    // Beside an `AF_XDP` socket the kernel's gets half of the budget.
    for (mode, budget) in [(Mode::Auto, 64), (Mode::Udp, 32)] {
        let hosts = Hosts::new();
        let mut client = hosts.open(0, V4[0], mode);
        let mut server = hosts.open(1, V4[1], mode);
        meet(&mut client, &mut server);
        server.watch();
        for number in 0..40 {
            send(&mut client, to(0, server.local_addr()), &packet(number, 1472));
        }
        client.flush().unwrap();
        assert!(!server.has_more());
        let mut received = 0;
        eventually("the train is there", || {
            received = server.receive(now(), budget, &mut |_| {}).unwrap();
            received > 0
        });
        assert_eq!((received, server.has_more()), (32, true), "{mode}");
        assert_eq!(server.receive(now(), budget, &mut |_| {}), Ok(8), "{mode}");
        assert!(!server.has_more(), "{mode}");
    }
}

/// Packets of 8972 bytes take three frames of a page each way (multi-buffer `AF_XDP`).
#[test]
fn root_every_pair_of_modes_echoes_jumbo_packets() {
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

/// Every length about which a packet takes one frame more.
#[test]
fn root_jumbo_packets_of_every_length_arrive() {
    if skipped() {
        return;
    }
    let hosts = Hosts::with_mtu(9000);
    let mut client = hosts.open(0, V4[0], Mode::Copy);
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    for port in [&client, &server] {
        assert_eq!(port.limits().payload_max, 8972, "{}", port.facts());
        assert!(port.limits().window_packets >= 500, "{:?}", port.limits());
    }
    meet(&mut client, &mut server);
    let room = 4096 - 256 - 22;
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
    assert_eq!(port.facts().tier, Tier::Xdp(XskMode::Copy));
    let why = &port.facts().why_not_better;
    // Who does not ask the driver first (Linux before 6.3) is refused.
    let refused = "zerocopy: bind the AF_XDP socket: Operation not supported";
    assert!(
        why.starts_with("zerocopy: driver veth offers none") || why.starts_with(refused),
        "{why}"
    );
    assert_eq!(
        (port.facts().driver.as_str(), port.facts().interface.as_str()),
        ("veth", INTERFACE)
    );
    drop(port);
    let port = hosts.open(0, V4[0], Mode::Auto);
    assert_eq!(port.facts().tier, Tier::Xdp(XskMode::Skb));
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
        assert_eq!(port.facts().tier, Tier::Xdp(XskMode::Skb), "{}", port.facts());
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
    assert_eq!(second.facts().tier, Tier::Udp);
    let why = &second.facts().why_not_better;
    assert!(why.contains("Device or resource busy"), "{why}");
    let mut server = hosts.open(1, V4[1], Mode::Auto);
    echo(&mut first, &mut server, &[64; 20]);
    echo(&mut second, &mut server, &[64; 20]);
    // Both on one host: through the kernel, whatever their tiers.
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
    meet(&mut client, &mut server);
    run(&format!("ip -n {} link set dev {INTERFACE} address 02:00:00:00:00:99", hosts.names[1]));
    run(&format!(
        "ip -n {} neigh replace {} lladdr 02:00:00:00:00:99 dev {INTERFACE}",
        hosts.names[0], V4[1]
    ));
    meet(&mut client, &mut server);
    let before = *client.stats();
    // On a busy machine an echo may take so long that it is asked for again.
    let resent = echo(&mut client, &mut server, &[64; 20]) as u64;
    let [xsk, udp, _] = sent_since(&client, before);
    assert_eq!((xsk, udp), (20 + resent, 0), "all of it goes to the new address, by AF_XDP");
    // And when the kernel forgets it, the kernel is asked again.
    run(&format!("ip -n {} neigh flush all dev {INTERFACE} nud permanent", hosts.names[0]));
    client.look_everywhere();
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
    meet(&mut client, &mut server);
    let before = client.stats().xsk_transmitted;
    // The receiving kernel verifies: a wrong checksum would be dropped.
    echo(&mut client, &mut server, &[64, 65, 1001, 1472]);
    assert!(client.stats().xsk_transmitted - before >= 4);
    let sent = run(&format!("ip netns exec {right} nstat -asz UdpInCsumErrors"));
    assert!(sent.lines().any(|l| l.starts_with("UdpInCsumErrors") && l.contains(" 0 ")), "{sent}");
}

#[test]
fn root_after_a_sleep_the_ring_goes_first_and_then_the_kernel_socket() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut client = hosts.open(0, V4[0], Mode::Skb);
    let mut server = hosts.open(1, V4[1], Mode::Udp);
    // Where a softirq waits for its thread, packets take a while.
    let arrive = || thread::sleep(Duration::from_millis(20));
    meet(&mut client, &mut server);
    arrive();
    while client.receive(now(), 64, &mut |_| {}).unwrap() > 0 {}
    let address = client.local_addr();
    // A train is longer than the client's AF_XDP socket takes, so it comes through the other one.
    (0..20).for_each(|number| send(&mut server, to(0, address), &packet(number, 1472)));
    server.flush().unwrap();
    let seen = [(); 2].map(|()| {
        send(&mut server, to(0, address), &packet(0, 64));
        server.flush().unwrap();
        arrive();
        let before = *client.stats();
        client.watch();
        client.receive(now(), 64, &mut |_| {}).unwrap();
        let after = client.stats();
        let joined = after.udp_received - before.udp_received;
        (after.xsk_received - before.xsk_received, joined)
    });
    assert_eq!(seen, [(1, 0), (1, 20)], "packets of the ring, of the socket");
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
    client.look_everywhere();
    client.receive(now(), 1, &mut |_| {}).unwrap();
    assert_eq!(client.facts().tier, Tier::Udp);
    assert_eq!(client.facts().why_not_better, "AF_XDP was lost: the XDP program was detached");
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
    client.look_everywhere();
    client.receive(now(), 1, &mut |_| {}).unwrap();
    assert_eq!(client.facts().why_not_better, "AF_XDP was lost: the interface is down");
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
    assert_eq!(port.facts().tier, Tier::Udp);
    let why = &port.facts().why_not_better;
    assert!(
        why.contains("AF_XDP needs CAP_NET_RAW, CAP_BPF; grant them with `sudo setcap")
            && why.contains("or run xdp-broker; xdp-broker at /nowhere/socket: No such file"),
        "{why}"
    );
}

/// To join the program of another process takes `CAP_SYS_ADMIN`, the process's own does not.
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
        assert_eq!(port.facts().tier, Tier::Xdp(XskMode::Skb), "{}", port.facts());
        assert_eq!(port.facts().queue, Some(queue));
    }
    drop(ports);
    eventually("the program is gone", || !hosts.has_program(0));
}

/// Not a test by itself: the process that the next one kills.
#[test]
#[ignore = "run by root_a_killed_process_leaves_nothing"]
fn victim() {
    common::enter_given();
    let port = HybridPort::open(&config(V4[0], Mode::Skb)).unwrap();
    println!("{}", port.facts());
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
    assert_eq!(port.facts().tier, Tier::Xdp(XskMode::Skb), "{}", port.facts());
}

/// A queue to receive from without one to send to: the kernel binds a socket to it, and wakes up to
/// send nothing, without an error (net/xdp/xsk.c, `xsk_generic_xmit`, `real_num_tx_queues`).
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
        assert_eq!(port.facts().tier, Tier::Udp, "{}", port.facts());
        let why = port.facts().why_not_better.clone();
        assert!(why.contains(&format!("skb: {still}")), "{why}");
        assert_eq!(why.contains(&format!("copy: {still}")), mode == Mode::Copy, "{why}");
        assert!(!hosts.has_program(0), "a program without a socket");
        let mut server = hosts.open(1, V4[1], Mode::Skb);
        echo(&mut port, &mut server, &[64; 20]);
        drop(server);
        eventually("the program is gone", || !hosts.has_program(1));
    }
    // The other queue is honest, and costs little.
    let port = hosts.open(0, V4[0], Mode::Copy);
    assert_eq!(port.facts().tier, Tier::Xdp(XskMode::Copy), "{}", port.facts());
    assert_eq!(port.facts().kernel_zerocopy, Some(false), "{}", port.facts());
    let stats = port.kernel_stats().unwrap();
    assert_eq!((stats.dropped(), stats.rx_invalid, stats.tx_invalid), (0, 0, 0), "{stats:?}");
}

/// As when a port that peers send to opens its `AF_XDP` half again.
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
    assert_eq!(port.facts().tier, Tier::Udp, "{}", port.facts());
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
