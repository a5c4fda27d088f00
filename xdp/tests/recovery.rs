// SPDX-License-Identifier: MIT OR Apache-2.0
//! An `AF_XDP` half that comes back: whoever sleeps meanwhile is woken, the MTU may be another, and
//! the kernel's socket is what it was before.

mod common;

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::thread;
use std::time::Duration;

use common::{Hosts, INTERFACE, V4, echo, eventually, meet, now, packet, run, send, skipped, to};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, SockaddrLike as _, SockaddrStorage, getsockname, getsockopt, sockopt,
};
use ofi_xdp_core::Port as _;
use ofi_xdp_datapath::{HybridPort, Mode, Tier, XskMode};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Another descriptor of what this process has as `fd`.
fn duplicate(fd: RawFd) -> Option<OwnedFd> {
    let process = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).ok()
}

/// Other descriptors of those sockets of this process whose address is `wanted`.
fn sockets(wanted: impl Fn(SockaddrStorage) -> bool) -> Vec<OwnedFd> {
    let names = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().file_name());
    let all: Vec<RawFd> = names.map(|name| name.to_str().unwrap().parse().unwrap()).collect();
    // The one that they were listed by is gone.
    let copies = all.into_iter().filter_map(duplicate);
    copies.filter(|copy| getsockname(copy.as_raw_fd()).is_ok_and(&wanted)).collect()
}

/// Whether the port's kernel socket takes packets joined.
fn takes_joined(port: &HybridPort) -> bool {
    let address = SockaddrStorage::from(port.local_addr());
    // The port may have it twice.
    let sockets = sockets(|its| its == address);
    getsockopt(&sockets[0], sockopt::UdpGroSegment).unwrap()
}

/// Waits until the port's descriptor is readable, five seconds at most; says whether it is.
fn is_woken(port: &HybridPort) -> bool {
    is_readable(port, PollTimeout::from(5000_u16))
}

fn is_readable(port: &HybridPort, timeout: PollTimeout) -> bool {
    let descriptor = duplicate(port.poll_fds()[0]).unwrap();
    let mut fds = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, timeout).unwrap() > 0
}

/// Takes what there is, without a word before.
fn look(port: &mut HybridPort) -> u16 {
    port.receive(now(), 64, &mut |_| {}).unwrap()
}

fn has_xdp(port: &HybridPort) -> bool {
    port.facts().tier == Tier::Xdp(XskMode::Skb)
}

/// Runs `ip link set` on host 1's interface.
fn set_link(hosts: &Hosts, what: &str) {
    run(&format!("ip -n {} link set dev {INTERFACE} {what}", hosts.names[1]));
}

/// A client on host 0 and a server on host 1, which know each other.
fn setting() -> (Hosts, HybridPort, HybridPort) {
    let hosts = Hosts::new();
    let mut client = hosts.open(0, V4[0], Mode::Skb);
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    meet(&mut client, &mut server);
    (hosts, client, server)
}

/// Takes the `AF_XDP` half of a watched server away, which hears of it asleep.
fn lose(hosts: &Hosts, server: &mut HybridPort) {
    set_link(hosts, "down");
    while has_xdp(server) {
        assert!(is_woken(server), "nobody hears that the interface is down");
        look(server);
    }
}

/// Who sleeps looks at the port before it sleeps and when its descriptor is readable, and never
/// else.
#[test]
fn root_who_sleeps_is_woken_when_it_is_back() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = setting();
    server.watch();
    while look(&mut server) > 0 {}
    lose(&hosts, &mut server);
    // As before every sleep; on the same descriptor as ever.
    server.watch();
    look(&mut server);
    set_link(&hosts, "up");
    eventually("the program is back", || hosts.has_program(1));
    // What comes before the port is claimed goes to the kernel's socket.
    thread::sleep(Duration::from_millis(300));
    send(&mut client, to(0, server.local_addr()), &packet(0, 64));
    client.flush().unwrap();
    let mut came = 0;
    while came == 0 {
        assert!(is_woken(&server), "the packet lies in a socket that nobody looks at");
        came = look(&mut server);
    }
    assert!(has_xdp(&server), "{}", server.facts());
    assert_eq!(server.stats().xsk_losses, 1);
}

/// Sets the MTU at both ends of the link.
fn set_mtu(hosts: &Hosts, mtu: u32) {
    for name in &hosts.names {
        run(&format!("ip -n {name} link set dev {INTERFACE} mtu {mtu}"));
    }
}

/// Packets of `len` bytes that `port` sends through its `AF_XDP` socket, of fifty.
fn through_xdp(port: &mut HybridPort, peer: &mut HybridPort, len: usize) -> u64 {
    let before = port.stats().xsk_transmitted;
    echo(port, peer, &[len; 50]);
    port.stats().xsk_transmitted - before
}

/// What does not fit goes in fragments, as where the MTU changes under an open socket.
#[test]
fn root_it_comes_back_to_a_smaller_mtu_too() {
    if skipped() {
        return;
    }
    let (hosts, mut client, mut server) = setting();
    server.watch();
    lose(&hosts, &mut server);
    set_mtu(&hosts, 1400);
    set_link(&hosts, "up");
    eventually("it is back", || {
        look(&mut server);
        has_xdp(&server)
    });
    meet(&mut server, &mut client);
    assert_eq!((server.facts().mtu, server.limits().payload_max), (1400, 1472));
    assert!(through_xdp(&mut server, &mut client, 1372) >= 50, "{:?}", server.stats());
    assert_eq!(through_xdp(&mut server, &mut client, 1472), 0, "{:?}", server.stats());
    set_mtu(&hosts, 1500);
    eventually("both know", || {
        [&mut client, &mut server].into_iter().all(|port| {
            port.look_everywhere();
            look(port);
            port.facts().mtu == 1500
        })
    });
    assert!(through_xdp(&mut server, &mut client, 1472) >= 50, "{:?}", server.stats());
    assert_eq!(server.stats().xsk_losses, 1);
}

/// An XDP program in generic mode must see each packet; without one, joined ones cost less.
#[test]
fn root_while_it_is_lost_the_kernel_joins_packets() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    run(&format!("ip netns exec {} ethtool -K {INTERFACE} gro on", hosts.names[1]));
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    assert!(has_xdp(&server) && !takes_joined(&server), "{}", server.facts());
    for _ in 0..2 {
        server.watch();
        lose(&hosts, &mut server);
        assert!(takes_joined(&server));
        set_link(&hosts, "up");
        eventually("it is back", || {
            look(&mut server);
            has_xdp(&server)
        });
        assert!(!takes_joined(&server));
    }
}

/// A fork keeps what its parent closes, and announcements go on coming there.
#[test]
fn root_what_a_fork_keeps_wakes_nobody() {
    if skipped() {
        return;
    }
    let (hosts, _client, mut server) = setting();
    server.watch();
    // As a forked child would have them.
    let _fork = sockets(|address| address.family() == Some(AddressFamily::Netlink));
    lose(&hosts, &mut server);
    set_link(&hosts, "up");
    while !has_xdp(&server) {
        assert!(is_woken(&server), "nobody hears that it is back");
        look(&mut server);
    }
    eventually("nothing is left to look at", || {
        server.look_everywhere();
        look(&mut server);
        !is_readable(&server, PollTimeout::ZERO)
    });
}
