// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program on single frames (`BPF_PROG_TEST_RUN`): one fixture for each verdict, built by
//! `etherparse`.

use std::net::SocketAddr;
use std::os::fd::AsFd;

use etherparse::{IpFragOffset, IpNumber, PacketBuilder};
use libbpf_rs::{ErrorKind, MapCore as _, MapFlags, MapHandle, MapInfo};
use ofi_xdp_bpf::program::Loaded;
use ofi_xdp_bpf::{Claim, EndpointAddress, QUEUES, Verdict};
use socket2::{Domain, Socket, Type};

mod common;

const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;

const PORT: u16 = 7000;
const V4: [u8; 4] = [198, 18, 0, 2];
const V4_OTHER: [u8; 4] = [198, 18, 0, 3];
const V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
/// The shortest packet that the program accepts: version nibble 2, 32 bytes.
const PACKET: [u8; 32] = {
    let mut packet = [0; 32];
    packet[0] = 0x20;
    packet
};

fn ethernet() -> etherparse::PacketBuilderStep<etherparse::Ethernet2Header> {
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], common::MAC)
}

fn written(
    builder: etherparse::PacketBuilderStep<etherparse::UdpHeader>,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

fn v4(port: u16, payload: &[u8]) -> Vec<u8> {
    written(ethernet().ipv4([198, 18, 0, 1], V4, 64).udp(4000, port), payload)
}

fn v6(payload: &[u8]) -> Vec<u8> {
    written(ethernet().ipv6([0xfd; 16], V6, 64).udp(4000, PORT), payload)
}

/// The program with one claimed port; `socket` keeps the slot alive.
struct Fixture {
    loaded: Loaded,
    claim: Claim,
    socket: Socket,
}

impl Fixture {
    fn new(queue: u32, address: SocketAddr) -> Self {
        Self::of(Loaded::new().unwrap(), queue, address, 1500)
    }

    fn of(loaded: Loaded, queue: u32, address: SocketAddr, longest: u32) -> Self {
        Self::claiming(loaded, queue, common::endpoint(address), longest)
    }

    fn claiming(loaded: Loaded, queue: u32, endpoint: EndpointAddress, longest: u32) -> Self {
        let socket = xdp_socket();
        let claim = loaded.claim(queue, endpoint, longest, socket.as_fd()).unwrap();
        Self { loaded, claim, socket }
    }

    fn v4() -> Self {
        Self::new(0, SocketAddr::from((V4, PORT)))
    }

    /// Runs the program, and checks that exactly one counter changes. Packets left to the kernel
    /// socket are counted for the owner of the claim.
    fn expect(&self, verdict: Verdict, frame: &[u8]) {
        let before = self.loaded.counters().unwrap();
        let passed = self.claim.passed().unwrap();
        let action = self.loaded.run(frame).unwrap();
        let after = self.loaded.counters().unwrap();
        let moved: Vec<_> = Verdict::ALL
            .iter()
            .filter(|verdict| after.count(**verdict) != before.count(**verdict))
            .collect();
        assert_eq!(moved, [&verdict]);
        assert_eq!(after.count(verdict), before.count(verdict) + 1);
        let counted = match verdict {
            Verdict::PassOversize
            | Verdict::PassVersion
            | Verdict::PassChecksum
            | Verdict::PassQueue
            | Verdict::PassNoSocket => 1,
            // The port is known if the cut is behind the three headers.
            Verdict::PassTruncated => u64::from(frame[12] == 0x08 && frame.len() >= 14 + 20 + 8),
            _ => 0,
        };
        assert_eq!(self.claim.passed().unwrap() - passed, counted, "{verdict:?}");
        let redirected = verdict == Verdict::Redirected;
        assert_eq!(action, if redirected { XDP_REDIRECT } else { XDP_PASS });
    }
}

/// An AF_XDP socket that is not bound; the map accepts it.
fn xdp_socket() -> Socket {
    const AF_XDP: i32 = 44;
    Socket::new(Domain::from(AF_XDP), Type::RAW, None).unwrap()
}

#[test]
fn root_redirected() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::v4();
    fixture.expect(Verdict::Redirected, &v4(PORT, &PACKET));
    fixture.expect(Verdict::Redirected, &v4(PORT, &[0x2f; 1472]));
    let tagged =
        ethernet().single_vlan(0.try_into().unwrap()).ipv4([198, 18, 0, 1], V4, 64).udp(1, PORT);
    fixture.expect(Verdict::Redirected, &written(tagged, &PACKET));
    let fixture = Fixture::new(0, SocketAddr::from((V6, PORT)));
    fixture.expect(Verdict::Redirected, &v6(&PACKET));
}

#[test]
fn root_pass_not_ip() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::v4();
    let mut arp = v4(PORT, &PACKET);
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    fixture.expect(Verdict::PassNotIp, &arp);
    let two_tags = ethernet()
        .double_vlan(5.try_into().unwrap(), 6.try_into().unwrap())
        .ipv4([198, 18, 0, 1], V4, 64)
        .udp(1, PORT);
    fixture.expect(Verdict::PassNotIp, &written(two_tags, &PACKET));
    let mut wrong_version = v4(PORT, &PACKET);
    wrong_version[14] = 0x55;
    fixture.expect(Verdict::PassNotIp, &wrong_version);
}

#[test]
fn root_pass_options() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::v4();
    let mut header =
        etherparse::Ipv4Header::new(40, 64, IpNumber::UDP, [198, 18, 0, 1], V4).unwrap();
    header.options = etherparse::Ipv4Options::try_from(&[1_u8, 1, 1, 1][..]).unwrap();
    let with_options =
        ethernet().ip(etherparse::IpHeaders::Ipv4(header, Default::default())).udp(1, PORT);
    fixture.expect(Verdict::PassOptions, &written(with_options, &PACKET));
    let mut extension = v6(&PACKET);
    extension[20] = 60; // destination options
    fixture.expect(Verdict::PassOptions, &extension);
}

#[test]
fn root_pass_fragment() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::v4();
    for (more, offset) in [(true, 0), (true, 185), (false, 185)] {
        let mut header =
            etherparse::Ipv4Header::new(40, 64, IpNumber::UDP, [198, 18, 0, 1], V4).unwrap();
        header.dont_fragment = false;
        header.more_fragments = more;
        header.fragment_offset = IpFragOffset::try_new(offset).unwrap();
        let fragment =
            ethernet().ip(etherparse::IpHeaders::Ipv4(header, Default::default())).udp(1, PORT);
        fixture.expect(Verdict::PassFragment, &written(fragment, &PACKET));
    }
    let mut fragment = v6(&PACKET);
    fragment[20] = 44;
    fixture.expect(Verdict::PassFragment, &fragment);
}

#[test]
fn root_pass_not_udp() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::v4();
    let mut tcp = Vec::new();
    ethernet()
        .ipv4([198, 18, 0, 1], V4, 64)
        .tcp(4000, PORT, 0, 1024)
        .write(&mut tcp, &PACKET)
        .unwrap();
    fixture.expect(Verdict::PassNotUdp, &tcp);
    let mut icmp = v6(&PACKET);
    icmp[20] = 58;
    fixture.expect(Verdict::PassNotUdp, &icmp);
}

#[test]
fn root_pass_truncated() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::v4();
    let frame = v4(PORT, &PACKET);
    // Test runs need a whole Ethernet header; each longer cut ends inside a header.
    for length in 15..frame.len() {
        fixture.expect(Verdict::PassTruncated, &frame[..length]);
    }
    fixture.expect(Verdict::PassTruncated, &v6(&PACKET)[..53]);
}

#[test]
fn root_pass_port() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    Fixture::v4().expect(Verdict::PassPort, &v4(PORT + 1, &PACKET));
}

/// Packets of connection management have no meaning at the port of an endpoint, which counts them.
/// Their own sockets are the kernel's, on other ports.
#[test]
fn root_connection_management_is_for_the_kernel() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::v4();
    for kind in 0x20..0x28 {
        let mut packet = [0; 48];
        packet[..2].copy_from_slice(&[PACKET[0], kind]);
        fixture.expect(Verdict::PassPort, &v4(PORT + 1, &packet));
        fixture.expect(Verdict::Redirected, &v4(PORT, &packet));
    }
}

#[test]
fn root_pass_address() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::new(0, SocketAddr::from((V4_OTHER, PORT)));
    fixture.expect(Verdict::PassAddress, &v4(PORT, &PACKET));
    fixture.expect(Verdict::PassAddress, &v6(&PACKET));
}

/// The kernel gives the frames of a VLAN to its interface, and drops them without one.
#[test]
fn root_pass_vlan() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::v4();
    for id in [1, 5, 4095] {
        let tagged = ethernet()
            .single_vlan(id.try_into().unwrap())
            .ipv4([198, 18, 0, 1], V4, 64)
            .udp(1, PORT);
        fixture.expect(Verdict::PassVlan, &written(tagged, &PACKET));
    }
}

/// The kernel has rules of its own for frames to a group. It drops those to another unicast
/// address, or gives them to their interface.
#[test]
fn root_pass_link() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixtures = [
        (Fixture::v4(), v4(PORT, &PACKET)),
        (Fixture::new(0, SocketAddr::from((V6, PORT))), v6(&PACKET)),
    ];
    for (fixture, mut frame) in fixtures {
        for byte in 0..6 {
            frame[byte] ^= 4;
            fixture.expect(Verdict::PassLink, &frame);
            frame[byte] ^= 4;
        }
        fixture.expect(Verdict::Redirected, &frame);
        for group in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]] {
            frame[..6].copy_from_slice(&group);
            fixture.expect(Verdict::PassLink, &frame);
        }
    }
}

#[test]
fn root_pass_source() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::v4();
    let from = |source| written(ethernet().ipv4(source, V4, 64).udp(4000, PORT), &PACKET);
    for source in [
        [0, 0, 0, 0],
        [0, 1, 2, 3],
        [127, 0, 0, 1],
        [127, 255, 255, 255],
        [224, 0, 0, 1],
        [239, 255, 255, 255],
        [255, 255, 255, 255],
        [198, 18, 0, 255],
        V4,
    ] {
        fixture.expect(Verdict::PassSource, &from(source));
    }
    for source in [[1, 0, 0, 0], [126, 0, 0, 1], [128, 0, 0, 1], [223, 9, 9, 9], [198, 18, 0, 0]] {
        fixture.expect(Verdict::Redirected, &from(source));
    }
    let fixture = Fixture::new(0, SocketAddr::from((V6, PORT)));
    let from = |source: &str| {
        let source: std::net::Ipv6Addr = source.parse().unwrap();
        written(ethernet().ipv6(source.octets(), V6, 64).udp(4000, PORT), &PACKET)
    };
    for source in ["::", "::1", "ff02::1", "ff0e::7", "::ffff:198.18.0.1", "fd00::2"] {
        fixture.expect(Verdict::PassSource, &from(source));
    }
    for source in ["::2", "0:0:1::1", "fe80::1", "fd00::3", "::fffe:198.18.0.1"] {
        fixture.expect(Verdict::Redirected, &from(source));
    }
}

/// An IPv6 packet to the IPv4-mapped form of an address is none for the IPv4 endpoint.
#[test]
fn root_pass_mapped_destination() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let mapped = std::net::Ipv4Addr::from(V4).to_ipv6_mapped().octets();
    let frame = written(ethernet().ipv6([0xfd; 16], mapped, 64).udp(4000, PORT), &PACKET);
    Fixture::v4().expect(Verdict::PassAddress, &frame);
}

#[test]
fn root_pass_oversize() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::v4();
    fixture.expect(Verdict::Redirected, &v4(PORT, &[0x2f; 1472]));
    fixture.expect(Verdict::PassOversize, &v4(PORT, &[0x2f; 1473]));
    fixture.expect(Verdict::PassOversize, &v4(PORT, &[0x2f; 2816]));
}

#[test]
fn root_frames_in_several_buffers() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    // The first buffer of a test run has less than a page, hence less than this.
    let longest = 4500;
    let loaded = Loaded::multi_buffer().unwrap();
    let fixture = Fixture::of(loaded, 0, SocketAddr::from((V4, PORT)), longest);
    fixture.expect(Verdict::Redirected, &v4(PORT, &[0x2f; 1472]));
    fixture.expect(Verdict::Redirected, &v4(PORT, &[0x2f; 4472]));
    fixture.expect(Verdict::PassOversize, &v4(PORT, &[0x2f; 4473]));
    fixture.expect(Verdict::PassOversize, &v4(PORT, &[0x2f; 20_000]));
    let loaded = Loaded::multi_buffer().unwrap();
    let fixture = Fixture::of(loaded, 0, SocketAddr::from((V6, PORT)), longest);
    fixture.expect(Verdict::Redirected, &v6(&[0x2f; 4452]));
    fixture.expect(Verdict::PassOversize, &v6(&[0x2f; 4453]));
}

#[test]
fn root_pass_version() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::v4();
    for first in [0x00, 0x0f, 0x10, 0x90, 0xff] {
        let mut packet = PACKET;
        packet[0] = first;
        fixture.expect(Verdict::PassVersion, &v4(PORT, &packet));
    }
}

#[test]
fn root_pass_checksum() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::v4();
    for (kind, flags) in [(0x10, 0x20), (0x10, 0x3f), (0x10, 0xff)] {
        let mut packet = PACKET;
        packet[1..3].copy_from_slice(&[kind, flags]);
        fixture.expect(Verdict::PassChecksum, &v4(PORT, &packet));
    }
    // The flag of other kinds means nothing.
    for (kind, flags) in [(0x10, 0xdf), (0x01, 0x20), (0x0a, 0x20), (0x11, 0x20)] {
        let mut packet = PACKET;
        packet[1..3].copy_from_slice(&[kind, flags]);
        fixture.expect(Verdict::Redirected, &v4(PORT, &packet));
    }
}

#[test]
fn root_any_payload_is_redirected_for_datagrams() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let endpoint = common::endpoint(SocketAddr::from((V4, PORT)));
    let endpoint = EndpointAddress { any_payload: true, ..endpoint };
    let fixture = Fixture::claiming(Loaded::new().unwrap(), 0, endpoint, 1500);
    for len in [0, 1, 31, 32, 1472] {
        for first in [0x00, 0x10, 0x2f, 0xff] {
            fixture.expect(Verdict::Redirected, &v4(PORT, &vec![first; len]));
        }
    }
    fixture.expect(Verdict::PassOversize, &v4(PORT, &[0; 1473]));
    fixture.expect(Verdict::PassPort, &v4(PORT + 1, &[0; 8]));
}

#[test]
fn root_pass_queue() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::new(1, SocketAddr::from((V4, PORT)));
    fixture.expect(Verdict::PassQueue, &v4(PORT, &PACKET));
}

#[test]
fn root_packets_of_other_queues_go_to_further_sockets() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let mut fixture = Fixture::new(1, SocketAddr::from((V4, PORT)));
    let (another, third, first) = (xdp_socket(), xdp_socket(), xdp_socket());
    fixture.claim.add(QUEUES - 1, another.as_fd()).unwrap();
    fixture.expect(Verdict::PassQueue, &v4(PORT, &PACKET));
    let beyond = fixture.claim.add(QUEUES, third.as_fd()).unwrap_err().to_string();
    assert_eq!(beyond, "queue 64: further sockets are on queues below 64");
    fixture.claim.add(0, first.as_fd()).unwrap();
    fixture.expect(Verdict::Redirected, &v4(PORT, &PACKET));
    fixture.expect(Verdict::PassOversize, &v4(PORT, &[0x2f; 1473]));
    assert!(fixture.claim.is_valid().unwrap());
}

#[test]
fn root_pass_no_socket() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let Fixture { loaded, claim, socket } = Fixture::v4();
    drop(socket);
    let fixture = Fixture { loaded, claim, socket: xdp_socket() };
    common::eventually(|| {
        let _ = fixture.loaded.run(&v4(PORT, &PACKET)).unwrap();
        fixture.loaded.counters().unwrap().count(Verdict::PassNoSocket) > 0
    });
    fixture.expect(Verdict::PassNoSocket, &v4(PORT, &PACKET));
}

/// All endpoints of all users have a descriptor of this map.
#[test]
fn root_the_counts_of_passed_packets_are_written_by_the_program_alone() {
    if common::skipped("CAP_BPF and CAP_NET_ADMIN") {
        return;
    }
    let fixture = Fixture::v4();
    let (map, at) = fixture.claim.kernel_rx_counter();
    let id = MapInfo::new(map).unwrap().info.id;
    let map = MapHandle::from_map_id(id).unwrap();
    assert!(at < (map.max_entries() * map.value_size()) as usize);
    let value = vec![0xff; map.value_size() as usize];
    let written = map.update(&0_u32.to_ne_bytes(), &value, MapFlags::ANY);
    assert_eq!(written.unwrap_err().kind(), ErrorKind::PermissionDenied);
    fixture.expect(Verdict::PassOversize, &v4(PORT, &[0x2f; 1473]));
}
