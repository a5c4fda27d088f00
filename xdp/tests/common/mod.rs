// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two hosts for the tests: network namespaces joined by a veth pair, with ports that exchange
//! packets.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{SockaddrStorage, getsockname};
use ofi_xdp_core::{Datagram, Destination, PeerId, Port, Transmit, Transmitted};
pub(crate) use ofi_xdp_datapath::now;
use ofi_xdp_datapath::{HybridPort, Mode, PortConfig};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Whether to skip a test that needs privilege: only on request, and never silently.
pub(crate) fn skipped() -> bool {
    let unprivileged = !nix::unistd::geteuid().is_root();
    let skip = unprivileged && std::env::var("OFI_XDP_UNPRIVILEGED").is_ok_and(|v| v == "skip");
    if skip {
        println!("SKIPPED: needs CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF");
    }
    skip
}

/// A duplicate of this process's descriptor `fd`.
pub(crate) fn duplicate(fd: RawFd) -> Option<OwnedFd> {
    let process = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).ok()
}

/// Duplicates of this process's sockets with a `wanted` address.
pub(crate) fn sockets(wanted: impl Fn(SockaddrStorage) -> bool) -> Vec<OwnedFd> {
    let names = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().file_name());
    let all: Vec<RawFd> = names.map(|name| name.to_str().unwrap().parse().unwrap()).collect();
    // The descriptor of the listing itself is closed.
    let copies = all.into_iter().filter_map(duplicate);
    copies.filter(|copy| getsockname(copy.as_raw_fd()).is_ok_and(&wanted)).collect()
}

/// Whether the port's descriptor is readable within `timeout`.
pub(crate) fn is_readable(port: &HybridPort, timeout: PollTimeout) -> bool {
    let descriptor = duplicate(port.poll_fds()[0]).unwrap();
    let mut fds = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, timeout).unwrap() > 0
}

/// Runs a command, which must succeed, and returns its output.
#[track_caller]
pub(crate) fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until `condition` holds, 5 seconds at most.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let held = (0..500).any(|_| {
        condition() || {
            thread::sleep(Duration::from_millis(10));
            false
        }
    });
    assert!(held, "not in time: {what}");
}

/// Two network namespaces, each with one end of a veth pair; removed on drop.
pub(crate) struct Hosts {
    pub(crate) names: [String; 2],
}

/// Addresses of the two hosts.
pub(crate) const V4: [&str; 2] = ["198.18.0.1", "198.18.0.2"];
pub(crate) const V6: [&str; 2] = ["fd00:18::1", "fd00:18::2"];
/// The name of each host's interface.
pub(crate) const INTERFACE: &str = "veth0";

impl Hosts {
    pub(crate) fn new() -> Self {
        Self::with_mtu(1500)
    }

    pub(crate) fn with_mtu(mtu: u32) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let id = std::process::id();
        // The prefix that `cargo xtask clean-lab` removes.
        let names = ["a", "b"].map(|end| format!("oxl-{id}-{number}-{end}"));
        let hosts = Self { names };
        let [left, right] = &hosts.names;
        run(&format!("ip netns add {left}"));
        run(&format!("ip netns add {right}"));
        run(&format!(
            "ip -n {left} link add {INTERFACE} type veth peer name {INTERFACE} netns {right}"
        ));
        for (name, (v4, v6)) in hosts.names.iter().zip(V4.iter().zip(V6)) {
            run(&format!("ip -n {name} addr add {v4}/24 dev {INTERFACE}"));
            run(&format!("ip -n {name} addr add {v6}/64 dev {INTERFACE} nodad"));
            run(&format!("ip -n {name} link set {INTERFACE} mtu {mtu} up"));
            run(&format!("ip -n {name} link set lo up"));
        }
        let is_up = |name: &String| {
            run(&format!("ip -n {name} link show dev {INTERFACE}")).contains("LOWER_UP")
        };
        eventually("both ends of the link are up", || hosts.names.iter().all(is_up));
        hosts
    }

    /// Runs `work` on host `host` (0 or 1), in a thread of its own.
    pub(crate) fn on<R: Send>(&self, host: usize, work: impl FnOnce() -> R + Send) -> R {
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    enter(&self.names[host]);
                    work()
                })
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Opens a port on host `host`. Its sockets stay in that host's namespace on any thread.
    pub(crate) fn open(&self, host: usize, ip: &str, mode: Mode) -> HybridPort {
        let config = config(ip, mode);
        self.on(host, || HybridPort::open(&config).unwrap())
    }

    /// The output of `ip link` for host `host`'s interface.
    pub(crate) fn link(&self, host: usize) -> String {
        run(&format!("ip -n {} -details link show dev {INTERFACE}", self.names[host]))
    }

    /// Removes the link between the hosts.
    pub(crate) fn unlink(&self) {
        run(&format!("ip -n {} link del {INTERFACE}", self.names[0]));
    }

    /// Makes a new link of the same name, with IPv4 addresses; `queues` are the rx and tx queues of
    /// each end.
    pub(crate) fn relink(&self, queues: [[u32; 2]; 2]) {
        let [left, right] = &self.names;
        let [near, far] =
            queues.map(|[rx, tx]| format!("{INTERFACE} numrxqueues {rx} numtxqueues {tx}"));
        run(&format!("ip link add {near} netns {left} type veth peer {far} netns {right}"));
        for (name, ip) in self.names.iter().zip(V4) {
            run(&format!("ip -n {name} addr add {ip}/24 dev {INTERFACE}"));
            run(&format!("ip -n {name} link set {INTERFACE} up"));
        }
    }

    /// Detaches the XDP program from host `host`'s interface, like an administrator.
    pub(crate) fn detach_program(&self, host: usize) {
        let link = self.link(host);
        let (_, after) = link.split_once("prog/xdp id ").unwrap();
        let program = after.split_whitespace().next().unwrap();
        let links = run("bpftool link show");
        let link = links
            .lines()
            .find(|line| line.contains(&format!("prog {program} ")))
            .and_then(|line| line.split(':').next())
            .unwrap();
        run(&format!("bpftool link detach id {link}"));
    }

    /// Whether an XDP program is attached to host `host`'s interface.
    pub(crate) fn has_program(&self, host: usize) -> bool {
        self.link(host).contains("prog/xdp")
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// Name of the variable with the namespace for a process of [`ignored_test`].
const NAMESPACE: &str = "OFI_XDP_TEST_NAMESPACE";

/// A process that runs the ignored test `test` of the calling program. The test must begin with
/// [`enter_given`].
pub(crate) fn ignored_test(test: &str, namespace: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]).env(NAMESPACE, namespace);
    command
}

/// Moves the calling thread into the network namespace that the process was started with.
pub(crate) fn enter_given() {
    enter(&std::env::var(NAMESPACE).unwrap());
}

/// Moves the calling thread into network namespace `name`.
pub(crate) fn enter(name: &str) {
    let namespace = File::open(format!("/run/netns/{name}")).unwrap();
    setns(&namespace, CloneFlags::CLONE_NEWNET).unwrap();
}

pub(crate) fn config(ip: &str, mode: Mode) -> PortConfig {
    let ip: IpAddr = ip.parse().unwrap();
    let mut config = PortConfig::new(SocketAddr::new(ip, 0), 16);
    config.mode = mode;
    config
}

/// The destination of the peer in `slot` at `address`.
pub(crate) fn to(slot: u32, address: SocketAddr) -> Destination {
    Destination { peer: PeerId::new(slot, 0), address: address.into() }
}

/// A packet that the XDP program accepts: version nibble 2, then `number`.
pub(crate) fn packet(number: u16, len: usize) -> Vec<u8> {
    let mut packet = vec![0x5a; len];
    packet[0] = 0x20;
    packet[1..3].copy_from_slice(&number.to_be_bytes());
    packet
}

/// Queues one packet, flushing if there is no room.
pub(crate) fn send(port: &mut impl Port, to: Destination, bytes: &[u8]) {
    // Both ends of a test have the same MTU.
    let receive_max = u16::try_from(port.limits().receive_max).unwrap();
    for _ in 0..1000 {
        let sent = port
            .transmit(|buffer| {
                buffer[..bytes.len()].copy_from_slice(bytes);
                Some(Transmit { len: bytes.len(), to, receive_max })
            })
            .unwrap();
        match sent {
            Transmitted::Sent => return,
            _ => port.flush().unwrap(),
        }
    }
    panic!("no room to send in a thousand tries");
}

/// Sends packets of `sizes` from `client` to `server`, which echoes them, until each has come back.
/// Lost packets are sent again; returns their number.
pub(crate) fn echo(client: &mut HybridPort, server: &mut HybridPort, sizes: &[usize]) -> usize {
    const ROUNDS_MAX: usize = 200;
    let stop = AtomicBool::new(false);
    let server_address = server.local_addr();
    let client_address = client.local_addr();
    thread::scope(|scope| {
        scope.spawn(|| serve(server, client_address, &stop));
        let _stop = StopOnDrop(&stop);
        let mut missing: Vec<u16> = (0..).take(sizes.len()).collect();
        let mut retransmitted = 0;
        for round in 0..ROUNDS_MAX {
            if round > 0 {
                retransmitted += missing.len();
            }
            for number in &missing {
                let bytes = packet(*number, sizes[usize::from(*number)]);
                send(client, to(0, server_address), &bytes);
            }
            client.flush().unwrap();
            // Until all packets have come back, or none came for about 20 ms.
            let mut idle = 0;
            while !missing.is_empty() && idle < 200 {
                let mut sink = |datagram: Datagram<'_>| {
                    assert_eq!(datagram.from, server_address.into());
                    let number = u16::from_be_bytes([datagram.bytes[1], datagram.bytes[2]]);
                    let expected = packet(number, sizes[usize::from(number)]);
                    assert_eq!(datagram.bytes.len(), expected.len(), "packet {number}");
                    assert!(datagram.bytes == expected, "packet {number}");
                    missing.retain(|missing| *missing != number);
                };
                if client.receive(now(), 64, &mut sink).unwrap() == 0 {
                    idle += 1;
                    thread::sleep(Duration::from_micros(100));
                } else {
                    idle = 0;
                }
            }
            if missing.is_empty() {
                break;
            }
        }
        assert!(missing.is_empty(), "{} packets never came back", missing.len());
        retransmitted
    })
}

/// Exchanges packets until both ports have a hop to each other. A port without `AF_XDP`, or with
/// batches beside it, may not tell.
pub(crate) fn learn_hops(client: &mut HybridPort, server: &mut HybridPort) {
    for _ in 0..50 {
        let before = [client.stats().xsk_transmitted, server.stats().xsk_transmitted];
        echo(client, server, &[64]);
        for port in [&mut *client, &mut *server] {
            port.poll_all_sources();
            port.receive(now(), 1, &mut |_| {}).unwrap();
        }
        let after = [client.stats().xsk_transmitted, server.stats().xsk_transmitted];
        if before.iter().zip(after).all(|(before, after)| *before < after) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sends `count` packets one at a time to an echo server, and waits for each.
pub(crate) fn exchange_packets(port: &mut HybridPort, server: SocketAddr, count: u16) {
    for number in 0..count {
        let bytes = packet(number, 64 + usize::from(number));
        let mut came_back = false;
        for _ in 0..200 {
            send(port, to(0, server), &bytes);
            port.flush().unwrap();
            for _ in 0..200 {
                port.receive(now(), 64, &mut |got| came_back |= got.bytes == bytes).unwrap();
                if came_back {
                    break;
                }
                thread::sleep(Duration::from_micros(50));
            }
            if came_back {
                break;
            }
        }
        assert!(came_back, "packet {number}");
    }
}

/// Stops the echo also when an assertion fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns all packets from `client`.
fn serve(server: &mut HybridPort, client: SocketAddr, stop: &AtomicBool) {
    let mut packets: Vec<Vec<u8>> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let count = server
            .receive(now(), 64, &mut |datagram: Datagram<'_>| {
                assert_eq!(datagram.from, client.into());
                packets.push(datagram.bytes.to_vec());
            })
            .unwrap();
        for bytes in packets.drain(..) {
            send(server, to(3, client), &bytes);
        }
        if count > 0 {
            server.flush().unwrap();
        } else {
            thread::sleep(Duration::from_micros(50));
        }
    }
}
