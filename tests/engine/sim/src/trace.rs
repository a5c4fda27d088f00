// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record of a run: a digest of every packet always; their text and a capture file on demand.
//!
//! In: packets as they leave their senders. Out: a number that is the same for the same run, and
//! lines for people. Also a pcap file (the classic format, link type Ethernet) for Wireshark.

use crate::net::address;
use crate::wire::View;
use etherparse::{
    IpEcn, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, PacketBuilder, UdpHeader,
};
use ofi_xdp_test_kit::rng::{hash, mix};
use std::fmt::Write as _;
use std::io::Write;
use std::net::IpAddr;

/// Initial TTL of IP packets, Linux's default.
const HOP_LIMIT: u8 = 64;

/// The packets of a run in short: sender, receiver, kind, packet number.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// In the order of their sending.
    pub packets: Vec<(u32, u32, u8, u32)>,
}

/// Where packets are recorded.
#[derive(Default)]
pub struct Trace {
    digest: u64,
    packets: u64,
    /// Lines go here.
    pub text: Option<Box<dyn Write>>,
    /// Packets in short go here.
    pub log: Option<Log>,
    pcap: Option<Box<dyn Write>>,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Trace {
    /// Writes a capture file's header and from now on each packet.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn capture(&mut self, mut file: Box<dyn Write>) -> std::io::Result<()> {
        // Magic number for nanoseconds, version 2.4, snapshot length, Ethernet.
        for field in [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 0x4_0000, 1] {
            file.write_all(&field.to_le_bytes())?;
        }
        self.pcap = Some(file);
        Ok(())
    }

    /// A digest that identifies the run.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Packets recorded.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Records a packet. A file that cannot be written is given up.
    pub fn record(&mut self, now: u64, from: u32, to: u32, bytes: &[u8]) {
        self.packets += 1;
        let ends = u64::from(from) << 32 | u64::from(to);
        self.digest = hash(mix(self.digest ^ now) ^ ends, bytes);
        if let Some(log) = &mut self.log {
            let (kind, psn) = View::new(bytes).map_or((0, 0), |view| (view.kind, view.psn));
            log.packets.push((from, to, kind, psn));
        }
        if let Some(text) = &mut self.text
            && writeln!(text, "{}", line(now, from, to, bytes)).is_err()
        {
            self.text = None;
        }
        if let Some(pcap) = &mut self.pcap
            && write_frame(pcap, now, from, to, bytes).is_err()
        {
            self.pcap = None;
        }
    }

    /// Records something that is not a packet.
    pub fn note(&mut self, now: u64, what: &str) {
        if let Some(text) = &mut self.text {
            let _ = writeln!(text, "{now:>14} {what}");
        }
    }
}

/// A packet in words.
fn line(now: u64, from: u32, to: u32, bytes: &[u8]) -> String {
    let Some(view) = View::new(bytes) else { return format!("{now:>14} {from}>{to} short") };
    let mut text = format!(
        "{now:>14} {from}>{to} {} psn {} ack {} accepted {}",
        view.name(),
        view.psn,
        view.ack_psn,
        view.accepted_msn
    );
    for (flag, name) in [(1, " ACK_REQUEST"), (2, " AGAIN"), (4, " BARRIER"), (8, " DUP")] {
        if view.flags & flag != 0 {
            text.push_str(name);
        }
    }
    if view.not_ready() {
        let _ = write!(text, " NOT_READY({})", view.receiver_status >> 4);
    }
    if view.rnr_epoch > 0 {
        let _ = write!(text, " attempt {}", view.rnr_epoch);
    }
    for record in view.records() {
        let _ = write!(text, " [{} {} {} B]", record.name, record.id, record.len);
    }
    let holes = view.selective().count();
    if holes > 0 {
        let _ = write!(text, " sack {holes}");
    }
    text
}

fn write_frame(
    file: &mut Box<dyn Write>,
    now: u64,
    from: u32,
    to: u32,
    bytes: &[u8],
) -> std::io::Result<()> {
    let mac = |node: u32| {
        let [a, b, c, d] = node.to_be_bytes();
        [2, 0, a, b, c, d]
    };
    let mut frame = Vec::new();
    let (source, destination) = (address(from), address(to));
    let (IpAddr::V4(source_ip), IpAddr::V4(destination_ip)) = (source.ip(), destination.ip())
    else {
        return Err(std::io::Error::other("the nodes' addresses are IPv4"));
    };
    let udp_len = (UdpHeader::LEN + bytes.len()) as u16;
    let mut ip = Ipv4Header::new(
        udp_len,
        HOP_LIMIT,
        IpNumber::UDP,
        source_ip.octets(),
        destination_ip.octets(),
    )
    .map_err(std::io::Error::other)?;
    ip.ecn = IpEcn::Ect0;
    PacketBuilder::ethernet2(mac(from), mac(to))
        .ip(IpHeaders::Ipv4(ip, Ipv4Extensions::default()))
        .udp(source.port(), destination.port())
        .write(&mut frame, bytes)
        .map_err(std::io::Error::other)?;
    let (seconds, nanos) = ((now / 1_000_000_000) as u32, (now % 1_000_000_000) as u32);
    for field in [seconds, nanos, frame.len() as u32, frame.len() as u32] {
        file.write_all(&field.to_le_bytes())?;
    }
    file.write_all(&frame)
}
