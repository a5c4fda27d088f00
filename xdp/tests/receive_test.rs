// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device that binds and sends and delivers nothing. The port detects it when it opens, if a
//! neighbour answers, and continues in a mode that delivers. A silent neighbour alone does not fail
//! the test.
//!
//! The device is a TAP device (Documentation/networking/tuntap.rst) with this test as its driver.
//! The test reads frames of the kernel, and writes the neighbour's answers or drops them.
#![allow(unsafe_code, clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::{config, enter, run, skipped};
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage, LinkXdp, XdpAttached};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::libc;
use ofi_xdp_datapath::{HybridPort, Mode, Tier, XskMode};

const CARD: &str = "tap0";
const OWN: &str = "198.18.0.1";
/// The neighbour on the link.
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const ARP: [u8; 2] = [0x08, 0x06];

nix::ioctl_write_int!(
    /// `TUNSETIFF`.
    tun_set_interface,
    b'T',
    202
);

/// Makes the interface `CARD` in the calling thread's namespace, with non-blocking reads.
fn tap() -> File {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open("/dev/net/tun").unwrap();
    let mut name = [0; libc::IFNAMSIZ];
    for (to, from) in name.iter_mut().zip(CARD.bytes()) {
        *to = libc::c_char::try_from(from).unwrap();
    }
    let flags = libc::c_short::try_from(libc::IFF_TAP | libc::IFF_NO_PI).unwrap();
    let flags = libc::__c_anonymous_ifr_ifru { ifru_flags: flags };
    let request = libc::ifreq { ifr_name: name, ifr_ifru: flags };
    let address = std::ptr::from_ref(&request).expose_provenance();
    // SAFETY: the descriptor is open, and the request is the `ifreq` that TUNSETIFF reads; it lives
    // until the call returns.
    unsafe { tun_set_interface(file.as_raw_fd(), address.try_into().unwrap()) }.unwrap();
    file
}

/// Whether a program is attached to the device in native mode.
fn has_native_program(netlink: &Socket) -> bool {
    let mut request = LinkMessage::default();
    request.attributes.push(LinkAttribute::IfName(CARD.to_owned()));
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let request = NetlinkPayload::from(RouteNetlinkMessage::GetLink(request));
    let mut message = NetlinkMessage::new(header, request);
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    netlink.send(&bytes, 0).unwrap();
    let (answer, _) = netlink.recv_from_full().unwrap();
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).unwrap();
    let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) = answer.payload else {
        panic!("{answer:?}")
    };
    let native = LinkXdp::Attached(XdpAttached::Driver);
    link.attributes
        .iter()
        .any(|attribute| matches!(attribute, LinkAttribute::Xdp(xdp) if xdp.contains(&native)))
}

/// Whether the neighbour answers, given the number of earlier solicitations and whether a program
/// is attached in native mode.
type Behaviour = fn(asked: u32, native_program: bool) -> bool;

/// A host with such a device.
struct Host {
    name: String,
    stop: Arc<AtomicBool>,
    neighbour: Arc<Mutex<Neighbour>>,
    card: Option<JoinHandle<()>>,
}

/// The host at the other end of the link.
struct Neighbour {
    asked: u32,
    behaviour: Behaviour,
}

impl Host {
    /// Enters the neighbour into the kernel's table.
    fn add_neighbour(&self) {
        let mac = MAC.map(|byte| format!("{byte:02x}")).join(":");
        let entry = format!("{NEIGHBOUR} lladdr {mac} dev {CARD} nud stale");
        run(&format!("ip -n {} neigh replace {entry}", self.name));
    }

    fn new(suffix: &str) -> Self {
        // The prefix that `cargo xtask clean-lab` removes.
        let name = format!("oxl-{}-{suffix}", std::process::id());
        run(&format!("ip netns add {name}"));
        let stop = Arc::new(AtomicBool::new(false));
        let neighbour = Arc::new(Mutex::new(Neighbour { asked: 0, behaviour: |_, _| true }));
        let (made, is_made) = mpsc::channel();
        let theirs = (name.clone(), Arc::clone(&stop), Arc::clone(&neighbour));
        let card = thread::spawn(move || {
            let (name, stop, neighbour) = theirs;
            enter(&name);
            let mut tap = tap();
            let mut netlink = Socket::new(NETLINK_ROUTE).unwrap();
            netlink.bind_auto().unwrap();
            netlink.connect(&SocketAddr::new(0, 0)).unwrap();
            made.send(()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                drive(&mut tap, || {
                    let mut neighbour = neighbour.lock().unwrap();
                    neighbour.asked += 1;
                    (neighbour.behaviour)(neighbour.asked - 1, has_native_program(&netlink))
                });
            }
        });
        is_made.recv().unwrap();
        run(&format!("ip -n {name} addr add {OWN}/24 dev {CARD}"));
        run(&format!("ip -n {name} link set {CARD} up"));
        Self { name, stop, neighbour, card: Some(card) }
    }

    /// Opens a port beside a neighbour that behaves by `behaviour`.
    fn open(&self, behaviour: Behaviour) -> HybridPort {
        *self.neighbour.lock().unwrap() = Neighbour { asked: 0, behaviour };
        let open = || {
            enter(&self.name);
            HybridPort::open(&config(OWN, Mode::Copy)).unwrap()
        };
        thread::scope(|scope| scope.spawn(open).join().unwrap())
    }

    fn asked(&self) -> u32 {
        self.neighbour.lock().unwrap().asked
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.card.take().map(JoinHandle::join);
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// Reads a frame of the kernel; answers a solicitation for the neighbour if `answers`.
fn drive(tap: &mut File, answers: impl FnOnce() -> bool) {
    let mut frame = [0; 2048];
    let Ok(length) = tap.read(&mut frame) else {
        // No frame, or the interface is down.
        return thread::sleep(Duration::from_micros(200));
    };
    // RFC 826: hardware, protocol, lengths, operation, then sender and target.
    let Some(arp) = frame.get(14..42).filter(|_| length >= 42 && frame[12..14] == ARP) else {
        return;
    };
    let (request, target) = (arp[6..8] == [0, 1], &arp[24..28]);
    if !request || target != NEIGHBOUR.octets() || !answers() {
        return;
    }
    let (asker, asker_ip) = (&arp[8..14], &arp[14..18]);
    let target = NEIGHBOUR.octets();
    let parts: [&[u8]; 9] = [asker, &MAC, &ARP, &arp[..6], &[0, 2], &MAC, &target, asker, asker_ip];
    tap.write_all(&parts.concat()).unwrap();
}

fn is_in(port: &HybridPort, mode: XskMode) -> bool {
    port.status().tier == Tier::Xdp(mode)
}

#[test]
fn root_a_card_that_delivers_nothing_is_found_out() {
    if skipped() {
        return;
    }
    let host = Host::new("silent");
    host.add_neighbour();
    let port = host.open(|_, native| !native);
    let status = port.status();
    assert!(is_in(&port, XskMode::Skb), "{status}");
    assert!(status.why_not_better.contains("copy: self-test: neighbours answer, and"), "{status}");
    drop(port);
    // The device was the cause, so with a working one the mode is back.
    let port = host.open(|_, _| true);
    assert!(is_in(&port, XskMode::Copy), "{}", port.status());
    assert!(host.asked() >= 2, "nobody asked the neighbour");
}

#[test]
fn root_a_neighbours_silence_is_not_the_cards() {
    if skipped() {
        return;
    }
    let host = Host::new("dead");
    let behaviour: [(&str, Behaviour); 3] = [
        ("dead", |_, _| false),
        ("dies", |asked, _| asked == 0),
        ("answers one question of three", |asked, _| asked % 3 == 2),
    ];
    for (what, behaviour) in behaviour {
        host.add_neighbour();
        let port = host.open(behaviour);
        assert!(is_in(&port, XskMode::Copy), "{what}: {}", port.status());
        assert!(host.asked() > 0, "{what}: nobody asked");
    }
}

#[test]
fn root_without_a_neighbour_nothing_is_said() {
    if skipped() {
        return;
    }
    let host = Host::new("alone");
    let port = host.open(|_, native| !native);
    assert!(is_in(&port, XskMode::Copy), "{}", port.status());
    assert_eq!(host.asked(), 0);
}
