// SPDX-License-Identifier: MIT OR Apache-2.0
//! A card that binds and sends and delivers nothing: the port finds it out when it opens, if a
//! neighbour is there to answer, and goes on in a mode that delivers; and no neighbour's silence is
//! taken for the card's.
//!
//! The card is a TAP device (Documentation/networking/tuntap.rst), whose driver this test is: what
//! the kernel sends is read here, and what the neighbours answer is written here, or not.
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

/// Makes the interface `CARD` in the calling thread's namespace, without waiting reads.
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
    // SAFETY: the descriptor is open, and the request is what TUNSETIFF reads: an `ifreq`, which
    // lives until the call returns.
    unsafe { tun_set_interface(file.as_raw_fd(), address.try_into().unwrap()) }.unwrap();
    file
}

/// Whether a program is on the card in native mode.
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

/// Whether the neighbour answers: told how often it was asked before, and whether a program is on
/// the card in native mode.
type Manners = fn(asked: u32, native_program: bool) -> bool;

/// A host with such a card.
struct Host {
    name: String,
    stop: Arc<AtomicBool>,
    neighbour: Arc<Mutex<Neighbour>>,
    card: Option<JoinHandle<()>>,
}

/// The one on the other end of the link.
struct Neighbour {
    asked: u32,
    manners: Manners,
}

impl Host {
    /// Makes the kernel know its neighbour.
    fn acquaint(&self) {
        let mac = MAC.map(|byte| format!("{byte:02x}")).join(":");
        let entry = format!("{NEIGHBOUR} lladdr {mac} dev {CARD} nud stale");
        run(&format!("ip -n {} neigh replace {entry}", self.name));
    }

    fn new(suffix: &str) -> Self {
        // As `cargo xtask clean-lab` knows them.
        let name = format!("oxl-{}-{suffix}", std::process::id());
        run(&format!("ip netns add {name}"));
        let stop = Arc::new(AtomicBool::new(false));
        let neighbour = Arc::new(Mutex::new(Neighbour { asked: 0, manners: |_, _| true }));
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
                    (neighbour.manners)(neighbour.asked - 1, has_native_program(&netlink))
                });
            }
        });
        is_made.recv().unwrap();
        run(&format!("ip -n {name} addr add {OWN}/24 dev {CARD}"));
        run(&format!("ip -n {name} link set {CARD} up"));
        Self { name, stop, neighbour, card: Some(card) }
    }

    /// Opens a port beside a neighbour of such `manners`.
    fn open(&self, manners: Manners) -> HybridPort {
        *self.neighbour.lock().unwrap() = Neighbour { asked: 0, manners };
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

/// Takes a frame that the kernel sent; answers it if it asks for the neighbour and `answers`.
fn drive(tap: &mut File, answers: impl FnOnce() -> bool) {
    let mut frame = [0; 2048];
    let Ok(length) = tap.read(&mut frame) else {
        // Nothing to read, or the interface is down.
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
    port.facts().tier == Tier::Xdp(mode)
}

#[test]
fn root_a_card_that_delivers_nothing_is_found_out() {
    if skipped() {
        return;
    }
    let host = Host::new("deaf");
    host.acquaint();
    let port = host.open(|_, native| !native);
    let facts = port.facts();
    assert!(is_in(&port, XskMode::Skb), "{facts}");
    assert!(facts.why_not_better.contains("copy: self-test: neighbours answer, and"), "{facts}");
    drop(port);
    // It was the card, and not its luck.
    let port = host.open(|_, _| true);
    assert!(is_in(&port, XskMode::Copy), "{}", port.facts());
    assert!(host.asked() >= 2, "nobody asked the neighbour");
}

#[test]
fn root_a_neighbours_silence_is_not_the_cards() {
    if skipped() {
        return;
    }
    let host = Host::new("dead");
    let manners: [(&str, Manners); 3] = [
        ("dead", |_, _| false),
        ("dies", |asked, _| asked == 0),
        ("answers one question of three", |asked, _| asked % 3 == 2),
    ];
    for (what, manners) in manners {
        host.acquaint();
        let port = host.open(manners);
        assert!(is_in(&port, XskMode::Copy), "{what}: {}", port.facts());
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
    assert!(is_in(&port, XskMode::Copy), "{}", port.facts());
    assert_eq!(host.asked(), 0);
}
