// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wireshark's view of the protocol (`docs/wireshark/ofi_xdp.lua`), held to the simulator's own,
//! packet by packet of captured runs.
//!
//! Without tshark these tests skip themselves, loudly; where `CI` is set that is a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use etherparse::{SlicedPacket, TransportSlice};
use ofi_xdp_core::PeerAddress;
use ofi_xdp_core::wire::{CONNECT_PACKET_MAX, ConnectKind, ConnectPacket, RejectReason, seal};
use ofi_xdp_sim::run::run_traced;
use ofi_xdp_sim::scenario::Scenario;
use ofi_xdp_sim::trace::Trace;
use ofi_xdp_sim::wire::{RETRANSMISSION, View};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/wireshark/ofi_xdp.lua");
/// Seeds of the swarm with runs that together have every kind of record.
const SEEDS: [u64; 6] = [3, 7, 11, 19, 23, 42];
/// Headers of a capture file and of a packet in it.
const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;

#[path = "../../../../ffi/tests/support/skip.rs"]
mod skip;

fn has_tshark() -> bool {
    let there = Command::new("tshark").arg("--version").output().is_ok();
    if !there {
        skip::skipped("no tshark: `cargo xtask setup --all` installs it");
    }
    there
}

/// A capture of a run, removed at the end.
struct Capture(PathBuf);

impl Capture {
    /// An empty one, and what writes to it.
    fn begun() -> (Self, Trace) {
        // Tests may be threads of one process.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = format!("ofi-xdp-dissector-{}-{number}.pcap", std::process::id());
        let path = std::env::temp_dir().join(file);
        let mut trace = Trace::default();
        trace.capture(Box::new(fs::File::create(&path).unwrap())).unwrap();
        (Self(path), trace)
    }

    /// A run of the simulator.
    fn of(seed: u64) -> Self {
        let (capture, trace) = Self::begun();
        run_traced(seed, &Scenario::swarm(seed), trace).unwrap();
        capture
    }

    /// These packets.
    fn of_packets(packets: &[Vec<u8>]) -> Self {
        let (capture, mut trace) = Self::begun();
        packets.iter().for_each(|packet| trace.record(1, 0, 1, packet));
        capture
    }

    /// Where each packet's frame is in the file.
    fn frames(&self) -> (Vec<u8>, Vec<std::ops::Range<usize>>) {
        let bytes = fs::read(&self.0).unwrap();
        let (mut at, mut frames) = (FILE_HEADER, Vec::new());
        while at < bytes.len() {
            let len = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
            let start = at + PACKET_HEADER;
            frames.push(start..start + len);
            at = start + len;
        }
        (bytes, frames)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The values of these fields, as tshark prints them, a line each packet. An error of the script is
/// a failure.
fn tshark(capture: &Path, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.args(["-X", &format!("lua_script:{SCRIPT}"), "-T", "fields", "-r"]).arg(capture);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The line that the simulator's own parser gives for the packet.
fn expected(payload: &[u8]) -> String {
    let view = View::new(payload).unwrap();
    let records: Vec<String> =
        view.records().map(|record| format!("0x{:02x}", record.kind)).collect();
    let lens: Vec<String> = view.records().map(|record| record.len.to_string()).collect();
    let sacked: Vec<String> = view.selective().map(|psn| psn.to_string()).collect();
    [
        format!("0x{:02x}", view.kind),
        view.psn.to_string(),
        view.ack_psn.to_string(),
        view.accepted_msn.to_string(),
        u8::from(view.flags & RETRANSMISSION != 0).to_string(),
        format!("0x{:08x}", view.token),
        records.join(","),
        lens.join(","),
        sacked.join(","),
        // The checksum is right, and nothing is wrong.
        String::from("1"),
        String::new(),
    ]
    .join("\t")
}

const FIELDS: [&str; 11] = [
    "ofi_xdp.kind",
    "ofi_xdp.psn",
    "ofi_xdp.ack_psn",
    "ofi_xdp.accepted_msn",
    "ofi_xdp.flags.retransmission",
    "ofi_xdp.token",
    "ofi_xdp.record",
    "ofi_xdp.record.len",
    "ofi_xdp.ack.sacked",
    "ofi_xdp.checksum.good",
    "ofi_xdp.malformed",
];

/// The UDP payload of a captured frame.
fn payload(frame: &[u8]) -> &[u8] {
    match SlicedPacket::from_ethernet(frame).unwrap().transport {
        Some(TransportSlice::Udp(udp)) => udp.payload(),
        other => panic!("not a UDP frame: {other:?}"),
    }
}

#[test]
fn every_packet_reads_the_same_in_wireshark() {
    if !has_tshark() {
        return;
    }
    let mut kinds = std::collections::BTreeSet::new();
    for seed in SEEDS {
        let capture = Capture::of(seed);
        let (bytes, frames) = capture.frames();
        let shown = tshark(&capture.0, &FIELDS);
        assert_eq!(shown.len(), frames.len(), "seed {seed}");
        for (number, (line, frame)) in shown.iter().zip(frames).enumerate() {
            let payload = payload(&bytes[frame]);
            let view = View::new(payload).unwrap();
            kinds.extend(view.records().map(|record| record.kind));
            assert_eq!(*line, expected(payload), "seed {seed}, packet {}", number + 1);
        }
    }
    assert_eq!(kinds.len(), 10, "every kind of record was there: {kinds:x?}");
}

#[test]
fn damage_and_nonsense_are_reported() {
    if !has_tshark() {
        return;
    }
    let capture = Capture::of(11);
    let (mut bytes, frames) = capture.frames();
    let records = |frame: &std::ops::Range<usize>| {
        View::new(payload(&bytes[frame.clone()])).unwrap().records().count() > 0
    };
    let index = frames.iter().position(records).unwrap();
    // The kind of the packet's first record: behind Ethernet, IPv4, UDP and the common header.
    bytes[frames[index].start + 14 + 20 + 8 + 32] = 0x77;
    fs::write(&capture.0, &bytes).unwrap();
    let shown = tshark(&capture.0, &["ofi_xdp.bad_checksum", "ofi_xdp.malformed"]);
    assert_eq!(shown[index], "1\t1");
    let wrong = shown.iter().filter(|line| !line.trim().is_empty()).count();
    assert_eq!(wrong, 1, "and nothing else is wrong");
}

/// Each packet of connection management (`docs/PROTOCOL.md` §12), and its fields as tshark shows
/// them.
fn connect_packets() -> (Vec<Vec<u8>>, Vec<String>) {
    let address = PeerAddress::from_v4([198, 18, 0, 9], 5001);
    let (mut packets, mut lines) = (Vec::new(), Vec::new());
    use ConnectKind::{Accept, Cancel, Confirm, Connect, Cookie, Pending, Reject, RejectAck};
    for kind in [Connect, Cookie, Pending, Accept, Confirm, Reject, RejectAck, Cancel] {
        let number = kind as u64;
        let mut packet = ConnectPacket::new(kind, u128::from(number) << 70 | 1, number << 40 | 2);
        if matches!(kind, Connect | Accept) {
            packet.address = address;
        }
        let has_data = matches!(kind, Connect | Accept | Reject);
        if has_data {
            packet.data = b"data";
        }
        packet.reason = (kind == Reject).then_some(RejectReason::Busy);
        let mut bytes = vec![0; CONNECT_PACKET_MAX];
        let len = packet.put(&mut bytes, crc32c::crc32c_append).unwrap();
        bytes.truncate(len);
        packets.push(bytes);
        let data = if has_data { "64617461" } else { "" };
        lines.push(
            [
                format!("0x{:02x}", kind as u8),
                packet.reason.map_or(0, |reason| reason as u8).to_string(),
                packet.data.len().to_string(),
                packet.address.port().to_string(),
                format!("0x{:016x}", packet.nonce as u64),
                format!("0x{:08x}", packet.nonce >> 64),
                format!("0x{:016x}", packet.proof),
                data.to_owned(),
                String::from("1"),
                String::new(),
            ]
            .join("\t"),
        );
    }
    (packets, lines)
}

#[test]
fn packets_of_connection_management_show_their_fields() {
    if !has_tshark() {
        return;
    }
    let fields = [
        "ofi_xdp.kind",
        "ofi_xdp.connect.reason",
        "ofi_xdp.connect.data_len",
        "ofi_xdp.connect.port",
        "ofi_xdp.connect.nonce",
        "ofi_xdp.connect.nonce_high",
        "ofi_xdp.connect.proof",
        "ofi_xdp.connect.data",
        "ofi_xdp.checksum.good",
        "ofi_xdp.malformed",
    ];
    let (mut packets, lines) = connect_packets();
    assert_eq!(lines.len(), 8);
    assert_eq!(tshark(&Capture::of_packets(&packets).0, &fields), lines);
    // A length that is not the packet's.
    for packet in &mut packets {
        packet[4] += 1;
        seal(packet, crc32c::crc32c_append);
    }
    let wrong = tshark(&Capture::of_packets(&packets).0, &["ofi_xdp.malformed"]);
    assert_eq!(wrong, ["1"; 8]);
}
