// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network between the nodes: delay, rate, queue and marks, and faults of packets.
//!
//! In: packets as they leave a port. Out: times at which they reach the switch or the receiver, or
//! their loss. One random stream; the order of the calls is the world's. Bounds: three copies of a
//! packet at most, [`RECORDED_MAX`] recorded packets.

pub use ofi_xdp_test_kit::packet::{Origin, Packet, PacketId, PacketPool, address, node_of};

use crate::scenario::{LossTarget, Scenario};
use ofi_xdp_core::ChecksumCoverage;
use ofi_xdp_core::wire::{Flags, PacketKind, seal};
use ofi_xdp_test_kit::rng::Rng;
use std::collections::BTreeMap;

/// Packets kept for later injection.
const RECORDED_MAX: usize = 512;

/// Counts of the network's faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct FaultCounts {
    pub lost: u64,
    pub duplicated: u64,
    pub damaged: u64,
    pub cut: u64,
    pub queue_full: u64,
    pub marked: u64,
    pub injected: u64,
    pub forged: u64,
    pub partitions: u64,
    pub restarts: u64,
    pub clock_faults: u64,
    pub pauses: u64,
    pub ring_full: u64,
    pub too_long: u64,
    pub unprotected: u64,
}

impl FaultCounts {
    /// Names and counts.
    #[must_use]
    pub const fn rows(&self) -> [(&'static str, u64); 15] {
        [
            ("lost", self.lost),
            ("duplicated", self.duplicated),
            ("damaged", self.damaged),
            ("cut off", self.cut),
            ("queue full", self.queue_full),
            ("marked", self.marked),
            ("injected", self.injected),
            ("forged", self.forged),
            ("partitions", self.partitions),
            ("restarts", self.restarts),
            ("clock faults", self.clock_faults),
            ("pauses", self.pauses),
            ("ring full", self.ring_full),
            ("too long", self.too_long),
            ("unprotected", self.unprotected),
        ]
    }

    /// The sum, field by field.
    pub const fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.damaged += other.damaged;
        self.cut += other.cut;
        self.queue_full += other.queue_full;
        self.marked += other.marked;
        self.injected += other.injected;
        self.forged += other.forged;
        self.partitions += other.partitions;
        self.restarts += other.restarts;
        self.clock_faults += other.clock_faults;
        self.pauses += other.pauses;
        self.ring_full += other.ring_full;
        self.too_long += other.too_long;
        self.unprotected += other.unprotected;
    }
}

/// Where a packet goes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hop {
    /// It reaches the switch and queues for its receiver's port.
    Switch,
    /// It reaches its receiver.
    Arrival,
}

/// The network.
#[derive(Debug)]
pub struct Net {
    rng: Rng,
    /// Whether anything goes wrong at all.
    pub faulty: bool,
    /// Faults so far.
    pub counts: FaultCounts,
    /// When each node's port, and the switch's port to it, is free again.
    egress: Vec<u64>,
    ingress: Vec<u64>,
    /// Paths in a burst of losses.
    bad: BTreeMap<(u32, u32), bool>,
    /// How many partitions cut a path at present.
    cuts: BTreeMap<(u32, u32), u32>,
    recorded: Vec<Packet>,
    /// The first transmission of a data packet that is lost, counted from 0, for measurements.
    pub lose_one: Option<u64>,
    /// Packets submitted.
    pub submitted: u64,
    /// Bytes per second of the nodes' ports, for measurements; 0: as many as of the switch's.
    pub port_rate: u64,
    /// Extra delay between a node and the switch, in nanoseconds.
    pub farther: Vec<u64>,
    /// Bytes that have passed the switch, by sender.
    pub passed: Vec<u64>,
    targeted: u64,
}

impl Net {
    /// A network between `nodes` nodes.
    #[must_use]
    pub fn new(seed: u64, nodes: u32) -> Self {
        Self {
            rng: Rng::new(seed, "net"),
            faulty: true,
            counts: FaultCounts::default(),
            egress: vec![0; nodes as usize],
            ingress: vec![0; nodes as usize],
            bad: BTreeMap::new(),
            cuts: BTreeMap::new(),
            recorded: Vec::new(),
            lose_one: None,
            submitted: 0,
            port_rate: 0,
            farther: vec![0; nodes as usize],
            passed: vec![0; nodes as usize],
            targeted: 0,
        }
    }

    /// How many packets more a node's port can hold.
    #[must_use]
    pub fn room(&self, scenario: &Scenario, node: u32, now: u64) -> u32 {
        if scenario.link.rate == 0 {
            return u32::MAX;
        }
        let backlog = self.egress[node as usize].saturating_sub(now);
        let full_packet = transfer_time(1500, self.port_rate_of(scenario)).max(1);
        scenario.link.tx_ring.saturating_sub((backlog / full_packet) as u32)
    }

    fn port_rate_of(&self, scenario: &Scenario) -> u64 {
        if self.port_rate > 0 { self.port_rate } else { scenario.link.rate }
    }

    /// When a node's port has sent something off.
    #[must_use]
    pub fn drains_at(&self, node: u32) -> u64 {
        self.egress[node as usize]
    }

    /// Cuts or restores the path from one node to another.
    pub fn cut(&mut self, from: u32, to: u32, cut: bool) {
        let count = self.cuts.entry((from, to)).or_default();
        *count = if cut { *count + 1 } else { count.saturating_sub(1) };
    }

    /// Every packet reaches its node again.
    pub fn heal(&mut self) {
        self.faulty = false;
        self.cuts.clear();
        self.bad.clear();
    }

    /// A packet leaves its port: the next location of each copy, and its time.
    pub fn submit(
        &mut self,
        scenario: &Scenario,
        now: u64,
        id: PacketId,
        packets: &mut PacketPool,
        out: &mut Vec<(u64, Hop, PacketId)>,
    ) {
        self.submitted += 1;
        let depart = self.depart(scenario, now, packets.at(id));
        if scenario.hop.drops(packets.at(id).bytes.len(), now) {
            self.counts.too_long += 1;
            packets.release(id);
            return;
        }
        if !self.faulty {
            return self.forward(scenario, depart, id, out);
        }
        self.record(scenario, packets.at(id));
        if self.rng.chance(scenario.malicious.rate) {
            let forged = packets.copy(id, Origin::Forged);
            mutate(&mut self.rng, &mut packets.at(forged).bytes);
            self.counts.forged += 1;
            let later = depart + self.rng.below(scenario.link.delay_ns * 4 + 1);
            self.forward(scenario, later, forged, out);
        }
        if self.rng.chance(scenario.duplicate.rate) {
            self.counts.duplicated += 1;
            let copy = packets.copy(id, Origin::Copy);
            let later = depart + self.rng.below(scenario.duplicate.later_us * 1000 + 1);
            self.forward(scenario, later, copy, out);
        }
        if self.is_lost(scenario, packets.at(id)) {
            packets.release(id);
            return;
        }
        if self.damage(scenario, packets.at(id)) {
            packets.release(id);
            return;
        }
        self.forward(scenario, depart, id, out);
    }

    fn depart(&mut self, scenario: &Scenario, now: u64, packet: &Packet) -> u64 {
        if scenario.link.rate == 0 {
            return now;
        }
        let time = transfer_time(packet.bytes.len(), self.port_rate_of(scenario));
        let free = &mut self.egress[packet.from as usize];
        *free = now.max(*free) + time;
        *free + self.farther[packet.from as usize]
    }

    fn forward(
        &mut self,
        scenario: &Scenario,
        depart: u64,
        id: PacketId,
        out: &mut Vec<(u64, Hop, PacketId)>,
    ) {
        let mut delay = scenario.link.delay_ns;
        if self.faulty && scenario.reorder.jitter_us > 0 {
            let jitter = scenario.reorder.jitter_us * 1000;
            delay += match scenario.reorder.paths {
                0 | 1 => self.rng.below(jitter),
                paths => self.rng.below(u64::from(paths)) * jitter,
            };
        }
        if scenario.link.rate == 0 {
            out.push((depart + delay, Hop::Arrival, id));
        } else {
            out.push((depart + delay / 2, Hop::Switch, id));
        }
    }

    /// A packet reaches the switch: when it reaches its receiver, if the queue has room.
    pub fn enqueue(&mut self, scenario: &Scenario, now: u64, packet: &mut Packet) -> Option<u64> {
        let (len, to) = (packet.bytes.len(), packet.to);
        let Some(&free) = self.ingress.get(to as usize) else { return Some(now) };
        let waiting = bytes_in(free.saturating_sub(now), scenario.link.rate);
        let left = self.pass(scenario, now, to, len)?;
        if scenario.link.ecn > 0 && waiting >= scenario.link.ecn {
            packet.marked = true;
            self.counts.marked += 1;
        }
        if let Some(passed) = self.passed.get_mut(packet.from as usize) {
            *passed += len as u64;
        }
        let farther = self.farther[to as usize];
        Some(left + scenario.link.delay_ns.div_ceil(2) + farther)
    }

    /// `len` bytes pass the switch's port to a node: when they have left it, if the queue has room.
    pub fn pass(&mut self, scenario: &Scenario, now: u64, to: u32, len: usize) -> Option<u64> {
        let rate = scenario.link.rate;
        let free = self.ingress.get_mut(to as usize)?;
        if bytes_in(free.saturating_sub(now), rate) + len as u64 > scenario.link.queue {
            self.counts.queue_full += 1;
            return None;
        }
        *free = now.max(*free) + transfer_time(len, rate);
        Some(*free)
    }

    /// When the switch's port to a node is free again.
    #[must_use]
    pub fn free_at(&self, to: u32) -> u64 {
        self.ingress[to as usize]
    }

    fn is_lost(&mut self, scenario: &Scenario, packet: &Packet) -> bool {
        let path = (packet.from, packet.to);
        if self.cuts.get(&path).is_some_and(|&count| count > 0) {
            self.counts.cut += 1;
            return true;
        }
        let loss = &scenario.loss;
        let mut lost = self.rng.chance(loss.iid);
        if let Some(left) = self.lose_one
            && is_target(LossTarget::First, &packet.bytes, 0)
        {
            self.lose_one = left.checked_sub(1);
            lost |= left == 0;
        }
        if loss.burst_enter > 0.0 {
            let bad = self.bad.entry(path).or_default();
            *bad = if *bad {
                !self.rng.chance(loss.burst_leave)
            } else {
                self.rng.chance(loss.burst_enter)
            };
            lost |= *bad && self.rng.chance(loss.burst_loss);
        }
        if loss.target.is_some_and(|target| is_target(target, &packet.bytes, self.submitted)) {
            self.targeted += 1;
            lost |= self.targeted.is_multiple_of(u64::from(loss.every.max(1)));
        }
        self.counts.lost += u64::from(lost);
        lost
    }

    /// Damages a packet, and returns whether its receiver's kernel drops it for that: the UDP
    /// checksum of a packet that it delivers is right.
    fn damage(&mut self, scenario: &Scenario, packet: &mut Packet) -> bool {
        let corrupt = &scenario.corrupt;
        let is_protected = packet.coverage() == ChecksumCoverage::Head;
        if is_protected && self.rng.chance(corrupt.flip) {
            (packet.origin, packet.unprotected) = (Origin::Damaged, true);
            self.counts.unprotected += 1;
        }
        let (rng, bytes) = (&mut self.rng, &mut packet.bytes);
        let before = (bytes.len(), ofi_xdp_test_kit::rng::hash(0, bytes));
        if rng.chance(corrupt.flip) {
            for _ in 0..rng.within(1, 3) {
                let bit = rng.index(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        if rng.chance(corrupt.truncate) {
            bytes.truncate(rng.index(bytes.len()));
        }
        if rng.chance(corrupt.extend) {
            let len = bytes.len() + rng.within(1, 64) as usize;
            bytes.resize(len, rng.next() as u8);
        }
        if rng.chance(corrupt.zero) && !bytes.is_empty() {
            let (start, end) = (rng.index(bytes.len()), bytes.len());
            let end = end.min(start + rng.within(1, 64) as usize);
            bytes[start..end].fill(0);
        }
        if before != (bytes.len(), ofi_xdp_test_kit::rng::hash(0, bytes)) {
            packet.origin = Origin::Damaged;
            self.counts.damaged += 1;
            return is_protected && packet.coverage() == ChecksumCoverage::Head;
        }
        false
    }

    fn record(&mut self, scenario: &Scenario, packet: &Packet) {
        if !self.rng.chance(scenario.stale.record) {
            return;
        }
        if self.recorded.len() < RECORDED_MAX {
            self.recorded.push(packet.clone());
        } else {
            let victim = self.rng.index(RECORDED_MAX);
            self.recorded[victim].clone_from(packet);
        }
    }

    /// One of the recorded packets, once more.
    pub fn replay(&mut self, packets: &mut PacketPool) -> Option<PacketId> {
        if self.recorded.is_empty() {
            return None;
        }
        let packet = &self.recorded[self.rng.index(self.recorded.len())];
        let id = packets.alloc();
        packets.at(id).clone_from(packet);
        packets.at(id).origin = Origin::Stale;
        self.counts.injected += 1;
        Some(id)
    }
}

/// Nanoseconds that `len` bytes and their Ethernet, IP and UDP headers take.
fn transfer_time(len: usize, rate: u64) -> u64 {
    (len as u64 + 66) * 1_000_000_000 / rate
}

fn bytes_in(nanos: u64, rate: u64) -> u64 {
    (u128::from(nanos) * u128::from(rate) / 1_000_000_000) as u64
}

fn is_target(target: LossTarget, bytes: &[u8], number: u64) -> bool {
    let [_, kind, flags, ..] = *bytes else { return false };
    let flags = Flags::from_bits_truncate(flags);
    let data = kind == PacketKind::Data as u8;
    match target {
        LossTarget::AckOnly => kind == PacketKind::Ack as u8,
        LossTarget::First => data && !flags.contains(Flags::RETRANSMISSION),
        LossTarget::Last => data && flags.contains(Flags::ACK_REQUEST),
        LossTarget::EveryNth => number > 0,
        LossTarget::Handshake => (2..=4).contains(&kind),
        LossTarget::Retransmission => data && flags.contains(Flags::RETRANSMISSION),
    }
}

/// Distances of a packet number that are beyond the window, and near enough for the proof of
/// membership (`docs/PROTOCOL.md` §5.3).
const BEYOND_WINDOW: [u64; 2] = [49_152, 65_000];

/// Changes a packet in a few places, or a field to an extreme, and makes its checksum right.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes[1] == PacketKind::Data as u8 && rng.chance(0.1) {
        let [least, most] = BEYOND_WINDOW;
        let psn = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        let psn = psn.wrapping_add(rng.within(least, most) as u32);
        bytes[12..16].copy_from_slice(&psn.to_le_bytes());
    }
    for _ in 0..rng.within(1, 4) {
        // The bytes before the token identify a packet; the interesting part is behind it.
        let start = if rng.chance(0.8) { 12 } else { 0 };
        let at = rng.within(start, bytes.len() as u64 - 1) as usize;
        match rng.below(4) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            2 => {
                let end = bytes.len().min(at + rng.pick(&[2, 4, 8]));
                bytes[at..end].fill(rng.pick(&[0, 0xff]));
            }
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
    if rng.chance(0.1) {
        let len = bytes.len().min(rng.within(32, 200) as usize);
        bytes.truncate(len);
    }
    seal(bytes, crc32c::crc32c_append);
}
