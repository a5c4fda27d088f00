// SPDX-License-Identifier: MIT OR Apache-2.0
//! The relay between two hosts: frames of both kinds pass, with the properties asked for.
//!
//! Delays have a lower bound only: on a busy machine anything may take longer.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use ofi_xdp_core::rss::HashFields;
use ofi_xdp_harness::netns::Namespace;
use ofi_xdp_harness::process::Program;
use ofi_xdp_harness::relay::{CardRule, PathOptions, Relay, Spread};
use ofi_xdp_harness::topology::{LinkOptions, Side, TwoHosts};

const DELAY: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_secs(5);

fn hosts(path: PathOptions) -> Option<TwoHosts> {
    hosts_with(LinkOptions::default(), path)
}

fn hosts_with(link: LinkOptions, path: PathOptions) -> Option<TwoHosts> {
    if !nix::unistd::geteuid().is_root() {
        assert!(
            std::env::var_os("OFI_XDP_UNPRIVILEGED").is_some_and(|value| value == "skip"),
            "needs CAP_SYS_ADMIN and CAP_NET_ADMIN: run it as root"
        );
        eprintln!("SKIPPED: needs CAP_SYS_ADMIN and CAP_NET_ADMIN: run it as root");
        return None;
    }
    let options = LinkOptions { relay: Some(path), ..link };
    Some(TwoHosts::new(&[options]).unwrap())
}

fn relay(hosts: &TwoHosts) -> &Relay {
    hosts.relay_of(0).unwrap()
}

/// A UDP socket on a host.
fn socket(host: &Namespace, address: IpAddr) -> UdpSocket {
    let namespace = host.open().unwrap();
    let made = std::thread::spawn(move || {
        setns(&namespace, CloneFlags::CLONE_NEWNET).unwrap();
        UdpSocket::bind((address, 0)).unwrap()
    });
    let socket = made.join().unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// A socket on each host, and the address of that on host A.
fn sockets(hosts: &TwoHosts, v6: bool) -> (UdpSocket, UdpSocket, SocketAddr) {
    let link = hosts.link(0);
    let address = |side| if v6 { link.v6(side) } else { link.v4(side) };
    let [a, b] = [Side::A, Side::B].map(|side| socket(hosts.host(side), address(side)));
    let to = a.local_addr().unwrap();
    (a, b, to)
}

#[test]
fn root_udp_takes_the_delay_that_was_asked_for() {
    let Some(hosts) = hosts(PathOptions { delay: DELAY, ..PathOptions::default() }) else { return };
    for v6 in [false, true] {
        let (a, b, to) = sockets(&hosts, v6);
        let mut bytes = [0; 2000];
        // The first packet waits for the address resolution too, and the answer does not.
        for len in [1, 8, 1400] {
            let start = Instant::now();
            b.send_to(&vec![7; len], to).unwrap();
            let (got, from) = a.recv_from(&mut bytes).unwrap();
            assert!(start.elapsed() >= DELAY, "{:?}", start.elapsed());
            assert_eq!(bytes[..got], vec![7; len]);
            a.send_to(&bytes[..got], from).unwrap();
            assert_eq!(b.recv(&mut bytes).unwrap(), len);
            assert!(start.elapsed() >= 2 * DELAY, "{:?}", start.elapsed());
        }
    }
    let report = relay(&hosts).report().unwrap();
    assert!(report.counts.forwarded >= 12, "{report}");
    assert_eq!((report.counts.lost, report.counts.no_room), (0, 0), "{report}");
}

#[test]
fn root_a_path_that_changes_loses_limits_and_stops_long_packets() {
    let Some(hosts) = hosts(PathOptions::default()) else { return };
    let (a, b, to) = sockets(&hosts, false);
    b.send_to(&[1], to).unwrap();
    a.recv(&mut [0; 8]).unwrap();
    let counts = |path: PathOptions, packets: usize, len: usize| {
        relay(&hosts).report().unwrap();
        relay(&hosts).set(path).unwrap();
        // The answer to this question comes after the change.
        relay(&hosts).report().unwrap();
        for _ in 0..packets {
            // A hop's report is an error of the socket.
            let _ = b.send_to(&vec![0; len], to);
        }
        std::thread::sleep(Duration::from_millis(100));
        relay(&hosts).report().unwrap().counts
    };
    let path = PathOptions::default();
    let lost = counts(PathOptions { loss_ppm: 500_000, ..path }, 1000, 100);
    assert!((400..600).contains(&lost.lost), "{lost:?}");
    // A megabit per second and 10 ms of queue: one full packet under way, one that waits.
    let full = counts(PathOptions { rate: Some(1_000_000), ..path }, 50, 1400);
    assert!(full.queue_full >= 40, "{full:?}");
    let silent = PathOptions { hop_mtu: Some(1280), ..path };
    let long = counts(silent, 3, 1400);
    assert!(long.too_long == 3, "{long:?}");
    counts(PathOptions { hop_reports: true, ..silent }, 2, 1400);
    // The kernel has learnt the path's MTU from the report, and fragments.
    let split = counts(silent, 1, 1400);
    assert_eq!((split.forwarded >= 2, split.too_long), (true, 0), "{split:?}");
}

#[test]
fn root_a_card_of_many_queues_passes_every_flow_and_changes_its_table() {
    for (queues, spread) in [
        (4, Spread::Hash(HashFields::Ports)),
        (16, Spread::Hash(HashFields::Addresses)),
        (64, Spread::LastSent),
    ] {
        let options = LinkOptions { queues, spread, ..LinkOptions::default() };
        let Some(hosts) = hosts_with(options, PathOptions::default()) else { return };
        let host = hosts.host(Side::A);
        let shown = Program::new("ip").args(["-d", "link", "show", "link0"]).inside(host).unwrap();
        let shown = shown.run(TIMEOUT).unwrap().success().unwrap().stdout;
        assert!(shown.contains(&format!("numqueues {queues} ")), "{shown}");
        let rule = CardRule::new(spread, queues);
        for (number, rule) in [rule.clone(), rule.turned(queues)].into_iter().enumerate() {
            relay(&hosts).set_card(number, rule).unwrap();
            for v6 in [false, true] {
                // Each pair of sockets is a flow of its own.
                for byte in 0..8 {
                    let (a, b, to) = sockets(&hosts, v6);
                    let mut got = [0; 8];
                    b.send_to(&[byte; 8], to).unwrap();
                    let (len, from) = a.recv_from(&mut got).unwrap();
                    a.send_to(&got[..len], from).unwrap();
                    assert_eq!((b.recv(&mut got).unwrap(), got), (8, [byte; 8]));
                }
            }
        }
    }
}
