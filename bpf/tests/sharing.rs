// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several processes on one interface share one program, which stays as long as one of them lives.

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns};
use ofi_xdp_bpf::{AttachMode, EndpointAddress, Error, Redirect, SLOTS};
use socket2::{Domain, Socket, Type};

const CAPABILITIES: &str = "CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN";
const INTERFACE: &str = "veth0";

/// A network namespace with a veth pair in it; removed on drop.
struct Host(String);

impl Host {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // The prefix that `cargo xtask clean-lab` removes.
        let host = Self(format!("oxl-{}-{number}", std::process::id()));
        let name = &host.0;
        run(&format!("ip netns add {name}"));
        run(&format!("ip -n {name} link add {INTERFACE} type veth peer name veth1"));
        run(&format!("ip -n {name} link set {INTERFACE} up"));
        run(&format!("ip -n {name} link set veth1 up"));
        host
    }

    /// Moves the calling thread into the namespace, and returns the interface's index.
    fn enter(&self) -> i32 {
        enter(&self.0)
    }

    /// The id of the XDP program on the interface.
    fn program(&self) -> Option<String> {
        let link = run(&format!("ip -n {} -details link show dev {INTERFACE}", self.0));
        let (_, after) = link.split_once("prog/xdp id ")?;
        after.split_whitespace().next().map(str::to_owned)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

#[track_caller]
fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn enter(namespace: &str) -> i32 {
    let file = File::open(format!("/run/netns/{namespace}")).unwrap();
    setns(&file, CloneFlags::CLONE_NEWNET).unwrap();
    i32::try_from(if_nametoindex(INTERFACE).unwrap()).unwrap()
}

fn xdp_socket() -> Socket {
    const AF_XDP: i32 = 44;
    Socket::new(Domain::from(AF_XDP), Type::RAW, None).unwrap()
}

fn address(last: u8, port: u16) -> EndpointAddress {
    common::endpoint(SocketAddr::from(([198, 18, 0, last], port)))
}

/// The other process, not a test by itself. It opens the interface, claims a port, prints its slot,
/// and waits for `SIGKILL`.
#[test]
#[ignore = "run by the tests below"]
fn other_process() {
    let ifindex = enter(&std::env::var("OFI_XDP_TEST_NAMESPACE").unwrap());
    let port = std::env::var("OFI_XDP_TEST_PORT").unwrap().parse().unwrap();
    let lent = std::env::var_os("OFI_XDP_TEST_LENT").is_some();
    let redirect = if lent {
        Redirect::open_lent(ifindex, AttachMode::Generic, false).unwrap()
    } else {
        Redirect::open(ifindex, AttachMode::Generic).unwrap()
    };
    let socket = xdp_socket();
    let claim = redirect.claim(0, address(1, port), 1500, socket.as_fd()).unwrap();
    println!("\nslot {}", claim.slot());
    loop {
        std::thread::park();
    }
}

/// Another process with a claim on `port`.
struct Other {
    child: Child,
    slot: u32,
}

impl Other {
    fn start(host: &Host, port: u16) -> Self {
        Self::start_by(&mut Command::new(std::env::current_exe().unwrap()), host, port)
    }

    /// One that passes its sockets on.
    fn start_lender(host: &Host, port: u16) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        Self::start_by(command.env("OFI_XDP_TEST_LENT", "1"), host, port)
    }

    fn start_by(command: &mut Command, host: &Host, port: u16) -> Self {
        let mut child = command
            .args(["--exact", "other_process", "--ignored", "--nocapture"])
            .env("OFI_XDP_TEST_NAMESPACE", &host.0)
            .env("OFI_XDP_TEST_PORT", port.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let slot = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("slot ").and_then(|slot| slot.parse().ok()))
            .expect("the other process claims a slot");
        Self { child, slot }
    }

    /// `SIGKILL`: no destructor runs.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn root_the_program_stays_for_the_last_process() {
    if common::skipped(CAPABILITIES) {
        return;
    }
    let host = Host::new();
    let first = Other::start(&host, 7001);
    let program = host.program().unwrap();
    let second = Other::start(&host, 7002);
    assert_eq!(host.program().as_ref(), Some(&program), "one program for both");
    assert_ne!(first.slot, second.slot);
    first.kill();
    let third = Other::start(&host, 7003);
    assert_eq!(host.program().as_ref(), Some(&program), "it outlives the process that loaded it");
    second.kill();
    third.kill();
    common::eventually(|| host.program().is_none());
}

/// A client of that process may have kept the socket of an entry that is still there.
#[test]
fn root_the_program_of_a_process_that_passes_sockets_on_goes_with_it() {
    if common::skipped(CAPABILITIES) {
        return;
    }
    let host = Host::new();
    let ifindex = host.enter();
    let lender = Other::start_lender(&host, 7001);
    let program = host.program().unwrap();
    let redirect = Redirect::open(ifindex, AttachMode::Generic).unwrap();
    assert_eq!(host.program().as_ref(), Some(&program), "one program for both");
    assert!(redirect.is_attached().unwrap() && redirect.link().is_none());
    let socket = xdp_socket();
    let claim = redirect.claim(0, address(1, 7002), 1500, socket.as_fd()).unwrap();
    assert_ne!(claim.slot(), lender.slot);
    lender.kill();
    common::eventually(|| host.program().is_none());
    assert!(!redirect.is_attached().unwrap());
    let own = Redirect::open(ifindex, AttachMode::Generic).unwrap();
    assert!(own.is_attached().unwrap() && own.link().is_some());
    let joining = Other::start(&host, 7003);
    drop(own);
    let refused = Redirect::open_lent(ifindex, AttachMode::Generic, false).unwrap_err();
    assert!(matches!(refused, Error::Foreign { .. }), "{refused}");
    joining.kill();
}

#[test]
fn root_slots_of_a_killed_process_are_reused() {
    if common::skipped(CAPABILITIES) {
        return;
    }
    let host = Host::new();
    let ifindex = host.enter();
    let redirect = Redirect::open(ifindex, AttachMode::Generic).unwrap();
    let other = Other::start(&host, 7001);
    let slot = other.slot;
    // On another address, so that only the slot shows whether the owner lives.
    let socket = xdp_socket();
    let taken = redirect.claim(0, address(2, 7001), 1500, socket.as_fd()).unwrap_err();
    assert!(matches!(taken, Error::PortClaimed { port: 7001, .. }), "{taken}");
    assert_eq!(
        taken.to_string(),
        "UDP port 7001 of this interface belongs to the endpoint on 198.18.0.1"
    );
    other.kill();
    common::eventually(|| redirect.claim(0, address(2, 7001), 1500, socket.as_fd()).is_ok());
    let claim = redirect.claim(0, address(2, 7001), 1500, socket.as_fd()).unwrap();
    assert_eq!(claim.slot(), slot, "the first empty one");
}

#[test]
fn root_stale_ports_go_with_their_slot() {
    if common::skipped(CAPABILITIES) {
        return;
    }
    let host = Host::new();
    let redirect = Redirect::open(host.enter(), AttachMode::Generic).unwrap();
    let socket = xdp_socket();
    let claim = redirect.claim(0, address(1, 7001), 1500, socket.as_fd()).unwrap();
    // Like SIGKILL: the entry stays, the socket closes.
    std::mem::forget(claim);
    drop(socket);
    let socket = xdp_socket();
    common::eventually(|| {
        redirect
            .claim(0, address(1, 7002), 1500, socket.as_fd())
            .is_ok_and(|claim| claim.slot() == 0)
    });
    // The new owner of the slot has deleted port 7001, so another address may claim it.
    let other = xdp_socket();
    let claim = redirect.claim(0, address(2, 7001), 1500, other.as_fd()).unwrap();
    drop(claim);
}

#[test]
fn root_a_stale_port_goes_with_the_slot_of_a_further_socket() {
    if common::skipped(CAPABILITIES) {
        return;
    }
    let host = Host::new();
    let redirect = Redirect::open(host.enter(), AttachMode::Generic).unwrap();
    let [first, further] = [xdp_socket(), xdp_socket()];
    let mut claim = redirect.claim(0, address(1, 7001), 1500, first.as_fd()).unwrap();
    claim.add(1, further.as_fd()).unwrap();
    // The entry stays, and so does its first slot; the further socket closes.
    std::mem::forget(claim);
    drop(further);
    let socket = xdp_socket();
    common::eventually(|| {
        redirect
            .claim(0, address(1, 7002), 1500, socket.as_fd())
            .is_ok_and(|claim| claim.slot() == 1)
    });
    let other = xdp_socket();
    let claim = redirect.claim(0, address(2, 7001), 1500, other.as_fd()).unwrap();
    drop(claim);
}

#[test]
fn root_a_claim_sees_that_it_is_gone() {
    if common::skipped(CAPABILITIES) {
        return;
    }
    let host = Host::new();
    let redirect = Redirect::open(host.enter(), AttachMode::Generic).unwrap();
    let sockets = [xdp_socket(), xdp_socket()];
    // The address belongs to one host, so the previous owner of the claim must be dead.
    let [first, second] = sockets
        .each_ref()
        .map(|socket| redirect.claim(0, address(1, 7001), 1500, socket.as_fd()).unwrap());
    assert!(!first.is_valid().unwrap() && second.is_valid().unwrap());
    drop(first);
    assert!(second.is_valid().unwrap(), "a claim without its entry leaves the new entry alone");
}

#[test]
fn root_slots_run_out_with_a_word() {
    if common::skipped(CAPABILITIES) {
        return;
    }
    let host = Host::new();
    let redirect = Redirect::open(host.enter(), AttachMode::Generic).unwrap();
    let held: Vec<_> = (0..SLOTS)
        .map(|slot| {
            let socket = xdp_socket();
            let port = 7000 + u16::try_from(slot).unwrap();
            let claim = redirect.claim(0, address(1, port), 1500, socket.as_fd()).unwrap();
            assert_eq!(claim.slot(), slot);
            (claim, socket)
        })
        .collect();
    let socket = xdp_socket();
    let none = redirect.claim(0, address(1, 9000), 1500, socket.as_fd()).unwrap_err();
    assert!(matches!(none, Error::NoSlot), "{none}");
    drop(held);
    common::eventually(|| redirect.claim(0, address(1, 9000), 1500, socket.as_fd()).is_ok());
}

/// Threads of one process may race as well, although none of them may search for programs.
#[test]
fn root_first_comers_may_race() {
    if common::skipped(CAPABILITIES) {
        return;
    }
    let host = Host::new();
    for _ in 0..5 {
        std::thread::scope(|scope| {
            let open = || {
                let ifindex = host.enter();
                caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_SYS_ADMIN).unwrap();
                Redirect::open(ifindex, AttachMode::Generic).map(|r| r.counters())
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            for thread in threads {
                thread.join().unwrap().unwrap().unwrap();
            }
        });
    }
    common::eventually(|| host.program().is_none());
}

/// A foreign program on the interface, attached by iproute2: `return XDP_PASS`.
struct Foreign<'a>(&'a Host);

impl<'a> Foreign<'a> {
    fn attach(host: &'a Host) -> Self {
        const SOURCE: &str = "__attribute__((section(\"xdp\"), used)) int p(void *c) { return 2; }";
        let object = std::env::temp_dir().join(format!("{}.o", host.0));
        let mut clang = Command::new("clang")
            .args(["-O2", "-target", "bpf", "-x", "c", "-c", "-", "-o"])
            .arg(&object)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut clang.stdin.take().unwrap(), SOURCE.as_bytes()).unwrap();
        assert!(clang.wait().unwrap().success());
        let path = object.display();
        run(&format!("ip -n {} link set dev {INTERFACE} xdpgeneric obj {path} sec xdp", host.0));
        std::fs::remove_file(&object).unwrap();
        Self(host)
    }
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        run(&format!("ip -n {} link set dev {INTERFACE} xdpgeneric off", self.0.0));
    }
}

#[test]
fn root_another_program_is_left_alone() {
    if common::skipped(CAPABILITIES) {
        return;
    }
    let host = Host::new();
    let ifindex = host.enter();
    let foreign = Foreign::attach(&host);
    let error = Redirect::open(ifindex, AttachMode::Generic).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("already runs another XDP program"), "{error}");
    drop(foreign);
    common::eventually(|| host.program().is_none());
    let redirect = Redirect::open(ifindex, AttachMode::Native).unwrap();
    assert_eq!(redirect.mode(), AttachMode::Native);
    // The second process gets the mode of the first.
    assert_eq!(Redirect::open(ifindex, AttachMode::Generic).unwrap().mode(), AttachMode::Native);
    assert!(redirect.is_attached().unwrap());
    drop(redirect);
    common::eventually(|| host.program().is_none());
}

#[test]
fn root_no_such_interface_is_an_error() {
    if common::skipped(CAPABILITIES) {
        return;
    }
    assert!(Redirect::open(0x7fff_0000, AttachMode::Generic).is_err());
}
