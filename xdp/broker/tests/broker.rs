// SPDX-License-Identifier: MIT OR Apache-2.0
//! The broker and its clients in a network namespace: the provider, and clients made for the test.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "broker/activated.rs"]
mod activated;
#[path = "broker/admission.rs"]
mod admission;
#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "broker/former.rs"]
mod former;
#[path = "broker/hostile.rs"]
mod hostile;
#[path = "broker/joined.rs"]
mod joined;
#[path = "broker/modes.rs"]
mod modes;
#[path = "broker/moved.rs"]
mod moved;
#[path = "broker/queues.rs"]
mod queues;
#[path = "broker/routed.rs"]
mod routed;
#[path = "broker/rules.rs"]
mod rules;
#[path = "broker/waiting.rs"]
mod waiting;

use std::fs;
use std::io::{IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{
    Hosts, INTERFACE, V4, config, echo, eventually, exchange_packets, learn_hops, now, run, send,
    skipped, to,
};
use nix::sys::signal::Signal;
use ofi_xdp_core::Port;
use ofi_xdp_datapath::broker::{REPLY_BYTES, Reply, Status};
use ofi_xdp_datapath::{
    AttachMode, ExpectedTier, HybridPort, Layout, Mode, QueueRange, Redirect, RingSize, RingSizes,
    SocketRequest, Tier, Verdict, XskMode,
};
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, bind, recvmsg, sendmsg,
};

/// The account without rights.
const NOBODY: u32 = 65_534;

/// A broker on host 0, with the capabilities of its systemd unit.
struct Broker {
    child: Child,
    folder: PathBuf,
}

impl Broker {
    fn start(hosts: &Hosts, policy: &str) -> Self {
        Self::start_by(&[], hosts, policy)
    }

    /// As [`Self::start`], by `wrapper`, a program that starts another one.
    fn start_by(wrapper: &[&str], hosts: &Hosts, policy: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("ofi-broker-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("policy.toml"), policy).unwrap();
        let broker = Self { child: Self::spawn(wrapper, hosts, &folder), folder };
        eventually("the broker listens", || UnixStream::connect(broker.socket()).is_ok());
        broker
    }

    fn spawn(wrapper: &[&str], hosts: &Hosts, folder: &Path) -> Child {
        Command::new("ip")
            .args(["netns", "exec", &hosts.names[0]])
            .args(wrapper)
            .args(["setpriv", "--inh-caps=-all"])
            .arg("--bounding-set=-all,+net_raw,+ipc_lock,+bpf,+net_admin")
            .arg(env!("CARGO_BIN_EXE_xdp-broker"))
            .arg("--policy")
            .arg(folder.join("policy.toml"))
            .arg("--socket")
            .arg(folder.join("socket"))
            .stderr(fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), signal).unwrap();
    }

    fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("broker: {}", self.log());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn policy(users: &[u32], more: &str) -> String {
    format!("[[allow]]\nusers = {users:?}\ninterfaces = [\"{INTERFACE}\"]\n{more}\n")
}

/// Opens a port on host 0 in a thread without capabilities.
fn open_bare(hosts: &Hosts, broker: &Broker, mode: Mode) -> HybridPort {
    let mut config = config(V4[0], mode);
    config.broker = Some(broker.socket());
    hosts.on(0, || {
        caps::clear(None, caps::CapSet::Effective).unwrap();
        HybridPort::open(&config).unwrap()
    })
}

#[test]
fn root_without_capabilities_the_broker_makes_the_socket() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let broker = Broker::start(&hosts, &policy(&[0], ""));
    for (mode, tier) in [(Mode::Auto, XskMode::Skb), (Mode::Copy, XskMode::Copy)] {
        let mut client = open_bare(&hosts, &broker, mode);
        assert_eq!(client.status().tier, Tier::Xdp(tier), "{}", client.status());
        assert_eq!(client.status().queues.as_slice(), [0]);
        let mut server = hosts.open(1, V4[1], Mode::Skb);
        let mut sizes = vec![64, 33];
        // Too short for GSO batches, which leave by the kernel socket in mode auto.
        sizes.extend([600; 300]);
        learn_hops(&mut client, &mut server);
        echo(&mut client, &mut server, &sizes);
        let stats = *client.stats();
        assert!(stats.xsk_transmitted > 300 && stats.xsk_received > 300, "{stats:?}");
        let redirected = |client: &HybridPort| {
            let counters = client.xsk().unwrap().counters().unwrap();
            counters.map_or(0, |counters| counters.count(Verdict::Redirected))
        };
        eventually("the broker publishes the counters of the program", || {
            redirected(&client) > 300
        });
        // The kernel's rule of one socket a queue applies here, too.
        let second = open_bare(&hosts, &broker, Mode::Auto);
        assert_eq!(second.status().tier, Tier::Udp);
        let why = &second.status().why_not_better;
        assert!(why.contains("other AF_XDP sockets have all queues"), "{why}");
        drop(client);
        eventually("the program is gone", || !hosts.has_program(0));
    }
    let log = broker.log();
    assert!(log.contains("user 0 (process "), "{log}");
    assert!(log.contains(&format!("on {INTERFACE} queue 0, skb")), "{log}");
}

#[test]
fn root_when_the_broker_is_killed_traffic_goes_on() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut broker = Broker::start(&hosts, &policy(&[0], ""));
    let mut client = open_bare(&hosts, &broker, Mode::Auto);
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    echo(&mut client, &mut server, &[64; 20]);
    let index = request(&hosts, None).interface.cast_signed();
    let joined = hosts.on(0, || Redirect::open(index, AttachMode::Generic).unwrap());
    assert!(joined.is_attached().unwrap());
    broker.child.kill().unwrap();
    eventually("the program is gone with entries of clients", || !hosts.has_program(0));
    assert!(!joined.is_attached().unwrap());
    echo(&mut client, &mut server, &[64; 300]);
    assert_eq!(client.status().tier, Tier::Udp, "{}", client.status());
}

/// A process of another user without any capability; not a test by itself.
#[test]
#[ignore = "run by root_another_user_without_capabilities_gets_a_socket"]
fn nobody() {
    assert_eq!(nix::unistd::geteuid().as_raw(), NOBODY);
    assert!(caps::read(None, caps::CapSet::Permitted).unwrap().is_empty());
    assert!(caps::read(None, caps::CapSet::Bounding).unwrap().is_empty());
    ask_and_exchange();
}

/// A process of that user as root of its own user namespace; not a test by itself.
#[test]
#[ignore = "run by root_root_of_a_user_namespace_gets_a_socket"]
fn contained() {
    assert!(nix::unistd::geteuid().is_root());
    assert!(caps::has_cap(None, caps::CapSet::Effective, caps::Capability::CAP_NET_RAW).unwrap());
    let interfaces = ofi_xdp_datapath::interfaces().unwrap();
    let interface = interfaces.iter().find(|one| one.name == INTERFACE).unwrap();
    let expected = ExpectedTier::new(Mode::Auto, interface, None);
    assert_eq!(expected.tier, Tier::Udp, "{expected:?}");
    assert!(expected.why_not_better.contains("user namespace; run xdp-broker"), "{expected:?}");
    let broker = std::env::var_os("OFI_XDP_TEST_BROKER").map(PathBuf::from);
    let expected = ExpectedTier::new(Mode::Auto, interface, broker.as_deref());
    assert_eq!(expected.tier, Tier::Xdp(XskMode::Skb));
    ask_and_exchange();
}

/// Opens a port as the environment describes, and exchanges packets with the server.
fn ask_and_exchange() {
    let server: SocketAddr = std::env::var("OFI_XDP_TEST_SERVER").unwrap().parse().unwrap();
    let mut config = config(V4[0], Mode::Auto);
    config.broker = std::env::var_os("OFI_XDP_TEST_BROKER").map(Into::into);
    let mut port = HybridPort::open(&config).unwrap();
    println!("opened: {}", port.status());
    assert_eq!(port.status().tier, Tier::Xdp(XskMode::Skb));
    exchange_packets(&mut port, server, 500);
    let stats = port.stats();
    assert!(stats.xsk_received > 100 && stats.xsk_transmitted > 100, "{stats:?}");
}

#[test]
fn root_another_user_without_capabilities_gets_a_socket() {
    another_user(&[], "nobody");
}

/// Capabilities of a user namespace are useless here, and the provider asks the broker.
#[test]
fn root_root_of_a_user_namespace_gets_a_socket() {
    another_user(&["unshare", "--user", "--map-root-user"], "contained");
}

/// Serves the process of another user, which runs `test` by `wrapper`.
fn another_user(wrapper: &[&str], test: &str) {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let broker = Broker::start(&hosts, &policy(&[NOBODY], ""));
    let mut server = hosts.open(1, V4[1], Mode::Skb);
    // A folder that other users may read, independent of the build folder.
    let program = broker.folder.join("client");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut child = Command::new("ip")
        .args(["netns", "exec", &hosts.names[0], "setpriv", "--reuid", "65534", "--regid", "65534"])
        .args(["--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"])
        .args(wrapper)
        .arg(&program)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("OFI_XDP_TEST_SERVER", server.local_addr().to_string())
        .env("OFI_XDP_TEST_BROKER", broker.socket())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while child.try_wait().unwrap().is_none() {
        let mut packets = Vec::new();
        server.receive(now(), 64, &mut |got| packets.push((got.from, got.bytes.to_vec()))).unwrap();
        for (from, bytes) in &packets {
            send(&mut server, to(3, from.socket_addr()), bytes);
        }
        server.flush().unwrap();
        if packets.is_empty() {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    let status = child.wait().unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(status.success(), "{said}");
    assert!(
        said.contains("opened: AF_XDP skb on veth0 (veth, queue 0, MTU 1500, the kernel agrees"),
        "{said}"
    );
    eventually("the broker lets go", || !hosts.has_program(0));
}

/// The request of a client made for the test.
fn request(hosts: &Hosts, queue: Option<u32>) -> SocketRequest {
    let sizes = RingSizes { rx: RingSize::MIN, tx: RingSize::MIN };
    SocketRequest {
        interface: hosts.on(0, || nix::net::if_::if_nametoindex(INTERFACE).unwrap()),
        queues: QueueRange::one_or_any(queue),
        local: SocketAddr::new(V4[0].parse().unwrap(), 0),
        mode: XskMode::Skb,
        layout: Layout::new(sizes, 42),
        longest: 1514,
        steer: false,
        any_payload: false,
    }
}

fn try_send(
    stream: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
}

/// Sends a message, as soon as the broker has admitted the connection.
fn send_message(stream: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
    let mut sent = false;
    eventually("the broker admits the connection or hangs up", || {
        let result = try_send(stream, bytes, descriptors);
        sent = result.is_ok();
        result != Err(rustix::io::Errno::PERM)
    });
    sent
}

/// The next reply and its descriptors; `None` at the end of the connection.
fn receive_reply(stream: &UnixStream) -> Option<(Reply, Vec<OwnedFd>)> {
    let mut bytes = [0; REPLY_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(&mut bytes)];
    let count = match recvmsg(stream, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC) {
        Ok(got) => got.bytes,
        Err(rustix::io::Errno::CONNRESET) => 0,
        Err(error) => panic!("no word from the broker: {error}"),
    };
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors = descriptors.flatten().collect();
    (count > 0).then(|| (Reply::from_bytes(&bytes[..count]).unwrap(), descriptors))
}

fn ask(
    stream: &UnixStream,
    request: SocketRequest,
    udp_socket: BorrowedFd<'_>,
) -> (Reply, Vec<OwnedFd>) {
    let mut request = request;
    // The question waits for the lock of the socket.
    if request.local.port() == 0 {
        let local = socket2::SockRef::from(&udp_socket).local_addr().unwrap();
        request.local = local.as_socket().unwrap();
    }
    assert!(send_message(stream, &request.to_bytes(), &[udp_socket]));
    receive_reply(stream).expect("an answer")
}

fn udp(hosts: &Hosts) -> UdpSocket {
    hosts.on(0, || UdpSocket::bind((V4[0], 0)).unwrap())
}

fn is_granted(answer: &(Reply, Vec<OwnedFd>)) -> bool {
    matches!(answer.0.status, Status::Granted { .. })
}

#[test]
fn root_a_user_without_a_rule_gets_nothing() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let broker = Broker::start(&hosts, &policy(&[NOBODY], ""));
    let stream = broker.connect();
    let (reply, descriptors) = receive_reply(&stream).expect("a reason");
    assert_eq!((reply.status, descriptors.len()), (Status::Refused, 0));
    assert_eq!(reply.reason, "user 0 is in no rule of the policy");
    assert!(receive_reply(&stream).is_none(), "hung up on");
    let port = open_bare(&hosts, &broker, Mode::Auto);
    assert_eq!(port.status().tier, Tier::Udp);
    assert!(port.status().why_not_better.contains("user 0 is in no rule"), "{}", port.status());
    assert!(!hosts.has_program(0));
}

#[test]
fn root_the_policy_holds_for_queues_ports_addresses_and_numbers() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let [left, right] = &hosts.names;
    run(&format!("ip -n {left} link add other type veth peer name another"));
    run(&format!("ip -n {left} addr add 198.18.0.3/32 dev other"));
    let rule = "queues = 0\nports = \"7000-7001\"\nsockets = 1";
    let broker = Broker::start(&hosts, &policy(&[0], rule));
    let on = |address: &'static str| hosts.on(0, move || UdpSocket::bind(address).unwrap());
    let good = on("198.18.0.1:7000");
    let refused = |request, udp_socket: &UdpSocket| {
        let (reply, descriptors) = ask(&broker.connect(), request, udp_socket.as_fd());
        assert_eq!((reply.status, descriptors.len()), (Status::Refused, 0), "{}", reply.reason);
        reply.reason
    };
    assert!(refused(request(&hosts, Some(1)), &good).contains("may not use that queue"));
    assert!(
        refused(request(&hosts, None), &on("198.18.0.1:7002")).contains("may not use port 7002")
    );
    assert!(refused(request(&hosts, None), &on("198.18.0.3:7001")).contains("is not on interface"));
    assert!(refused(request(&hosts, None), &on("0.0.0.0:7001")).contains("is not on interface"));
    let elsewhere = hosts.on(1, || UdpSocket::bind((V4[1], 7001)).unwrap());
    assert!(refused(request(&hosts, None), &elsewhere).contains("another network namespace"));
    let mut nowhere = request(&hosts, None);
    nowhere.interface = 1;
    assert!(
        refused(nowhere, &good).contains("user 0 may not use interface lo")
            || refused(nowhere, &good).contains("loopback")
    );
    assert!(!hosts.has_program(0), "nothing was done");
    // The allowed request: the socket is bound to its queue until it closes.
    let stream = broker.connect();
    let answer = ask(&stream, request(&hosts, None), good.as_fd());
    assert!(is_granted(&answer), "{}", answer.0.reason);
    let [socket, memory, ..] = <[OwnedFd; 4]>::try_from(answer.1).unwrap();
    for queue in 0..2 {
        let interface = request(&hosts, None).interface;
        let elsewhere = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_COPY, interface, queue);
        assert_eq!(bind(&socket, &elsewhere), Err(rustix::io::Errno::BUSY));
    }
    assert!(rustix::fs::ftruncate(&memory, 0).is_err(), "the memory's size is sealed");
    // Disconnecting does not free the quota while the client keeps the socket.
    let second = on("198.18.0.1:7001");
    assert!(refused(request(&hosts, None), &second).contains("user 0 has 1 sockets already"));
    drop(stream);
    eventually("the claim is gone", || !hosts.has_program(0));
    assert!(refused(request(&hosts, None), &second).contains("user 0 has 1 sockets already"));
    // Without its memory, a kept socket looks like one that the kernel tears down.
    drop(memory);
    let (reply, _) = ask(&broker.connect(), request(&hosts, None), second.as_fd());
    assert_eq!(reply.status, Status::Busy, "{}", reply.reason);
    assert!(reply.reason.contains("the queue of a former one is busy"), "{}", reply.reason);
    drop(socket);
    let mut streams = Vec::new();
    eventually("the socket counts no more", || {
        streams.push(broker.connect());
        is_granted(&ask(streams.last().unwrap(), request(&hosts, None), second.as_fd()))
    });
    assert!(!right.is_empty());
}

/// The broker pays for the memory of its sockets, so a client cannot collect it.
#[test]
fn root_kept_memory_counts_as_a_socket() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let broker = Broker::start(&hosts, &policy(&[0], "sockets = 1"));
    let udp_socket = udp(&hosts);
    let ask_anew = || {
        let stream = broker.connect();
        let answer = ask(&stream, request(&hosts, None), udp_socket.as_fd());
        (stream, answer)
    };
    let (stream, answer) = ask_anew();
    assert!(is_granted(&answer), "{}", answer.0.reason);
    let [socket, memory, ..] = <[OwnedFd; 4]>::try_from(answer.1).unwrap();
    drop((stream, socket));
    eventually("the claim is gone", || !hosts.has_program(0));
    for _ in 0..50 {
        let (_, (reply, descriptors)) = ask_anew();
        assert_eq!((reply.status, descriptors.len()), (Status::Refused, 0));
        assert!(reply.reason.contains("memory of former ones"), "{}", reply.reason);
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(memory);
    eventually("the memory counts no more", || is_granted(&ask_anew().1));
}

#[test]
fn root_a_port_that_its_owner_let_go_is_claimed_no_more() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let broker = Broker::start(&hosts, &policy(&[0], ""));
    let udp_socket = udp(&hosts);
    let stream = broker.connect();
    let answer = ask(&stream, request(&hosts, None), udp_socket.as_fd());
    assert!(is_granted(&answer), "{}", answer.0.reason);
    assert!(hosts.has_program(0));
    // connect(2) to AF_UNSPEC releases the port, because the kernel chose it.
    rustix::net::connect_unspec(&udp_socket).unwrap();
    assert!(receive_reply(&stream).is_none(), "hung up on");
    eventually("the program is gone", || !hosts.has_program(0));
}

/// The address of an endpoint that another interface or host has now.
#[test]
fn root_a_lease_ends_when_its_address_leaves_the_interface() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let left = &hosts.names[0];
    let change = |verb: &str, ip: &str| {
        run(&format!("ip -n {left} addr {verb} {ip}/24 dev {INTERFACE}"));
    };
    change("add", "198.18.0.9");
    let broker = Broker::start(&hosts, &policy(&[0], ""));
    let udp_socket = hosts.on(0, || UdpSocket::bind("198.18.0.9:0").unwrap());
    let stream = broker.connect();
    let answer = ask(&stream, request(&hosts, None), udp_socket.as_fd());
    assert!(is_granted(&answer), "{}", answer.0.reason);
    // Another address is of no account.
    change("add", "198.18.0.10");
    change("del", "198.18.0.10");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(hosts.has_program(0));
    change("del", "198.18.0.9");
    assert!(receive_reply(&stream).is_none(), "hung up on");
    eventually("the program is gone", || !hosts.has_program(0));
}

#[test]
fn root_sighup_reads_the_policy_again() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let mut broker = Broker::start(&hosts, &policy(&[0], ""));
    let udp_socket = udp(&hosts);
    let stream = broker.connect();
    let answer = ask(&stream, request(&hosts, None), udp_socket.as_fd());
    assert!(is_granted(&answer), "{}", answer.0.reason);
    let reload = |broker: &Broker, text: &str, line: &str| {
        fs::write(broker.folder.join("policy.toml"), text).unwrap();
        broker.signal(Signal::SIGHUP);
        eventually(line, || broker.log().contains(line));
    };
    reload(&broker, "[[allow]]", "the old policy stays in force");
    reload(&broker, &format!("{0}{0}", policy(&[0], "")), "2 rules are in force");
    assert!(hosts.has_program(0), "the grant stays");
    reload(&broker, &policy(&[NOBODY], ""), "1 rules are in force");
    assert!(receive_reply(&stream).is_none(), "hung up on");
    eventually("the program is gone", || !hosts.has_program(0));
    let (reply, _) = receive_reply(&broker.connect()).expect("a reason");
    assert_eq!(reply.reason, "user 0 is in no rule of the policy");
    assert!(broker.is_alive());
}

/// Number of open descriptors of the broker. It is the child of setpriv, which replaced itself.
fn descriptors(broker: &Broker) -> usize {
    let folder = format!("/proc/{}/fd", broker.child.id());
    fs::read_dir(Path::new(&folder)).unwrap().count()
}
