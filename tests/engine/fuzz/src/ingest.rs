// SPDX-License-Identifier: MIT OR Apache-2.0
//! Target `ingest`: packets of an attacker with a connection's identifier and token.
//!
//! Two engines with a connection and traffic both ways. Between their own packets, the first one
//! gets packets of the fuzzer. Some have the right identifier, token and checksum, and anything in
//! the other fields. Some are recorded packets with changed bytes, some are garbage. Rules: no
//! panic, no byte outside a buffer, audits hold, and a packet that is refused leaves no trace.

use ofi_xdp_core::StorageBox;
use ofi_xdp_core::wire::{self, HEADER_LEN};
use ofi_xdp_test_kit::packet::{PacketPool, address};

use crate::input::Input;
use crate::node::{Node, OneSided, PAYLOAD_MAX, config};

/// Steps that one input may make.
const STEPS_MAX: usize = 200;
/// Packets that are remembered, to be changed and sent again.
const RECORDED_MAX: usize = 32;

/// Kinds of packets, known and unknown.
const KINDS: [u8; 16] = [
    0x10, 0x10, 0x10, 0x10, 0x0a, 0x01, 0x0b, 0x09, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0xff,
];

/// Plays `bytes` against a connection.
///
/// # Panics
/// When a rule does not hold.
pub fn run(bytes: &[u8]) {
    let config = config();
    let mut stores = [(); 2].map(|()| StorageBox::new(&config).expect("memory"));
    let [victim, other] = &mut stores;
    let nodes = [Node::new(victim, &config, 0), Node::new(other, &config, 1)];
    let packets = PacketPool::default();
    let mut attack = Attack { nodes, now: 1 << 24, packets, recorded: Vec::new() };
    attack.connect();
    let mut input = Input::new(bytes);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        attack.step(&mut input);
    }
    attack.exchange();
}

#[derive(Debug)]
struct Attack<'s> {
    nodes: [Node<'s>; 2],
    now: u64,
    packets: PacketPool,
    /// Packets that the victim received from the other engine.
    recorded: Vec<Vec<u8>>,
}

impl Attack<'_> {
    /// A connection with messages both ways.
    fn connect(&mut self) {
        for node in [0, 1] {
            let peer = self.nodes[node].peer(1 - node as u32).expect("room for one peer");
            self.nodes[1 - node].recv(None, 64, None).expect("room for a receive");
            self.nodes[node].send(self.now, peer, 16, None, (false, false)).expect("room");
        }
        for _ in 0..6 {
            self.exchange();
        }
        assert!(self.nodes.iter().all(|node| node.owed() == 0), "the engines come together");
    }

    /// Exchanges the packets of both engines.
    fn exchange(&mut self) {
        self.now += 20_000;
        for node in [0, 1] {
            let mut sent = Vec::new();
            self.nodes[node].drive(self.now, &mut self.packets, &mut sent);
            self.nodes[node].poll(false);
            for id in sent {
                let packet = self.packets.at(id);
                if packet.to as usize == 1 - node {
                    self.nodes[1 - node].ingest(self.now, address(packet.from), &packet.bytes);
                }
                if node == 1 {
                    self.recorded.push(packet.bytes.clone());
                }
                self.packets.release(id);
            }
        }
        let more = self.recorded.len().saturating_sub(RECORDED_MAX);
        self.recorded.drain(..more);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() & 15 {
            0..=5 => self.hostile(input),
            6 | 7 => self.changed(input),
            8 => {
                let len = usize::from(input.word()) % (PAYLOAD_MAX * 2);
                let garbage = input.slice(len).to_vec();
                self.nodes[0].ingest(self.now, address(1), &garbage);
            }
            9 | 10 => self.post(input),
            11 => self.now += u64::from(input.word()) << 8,
            12 => {
                if let Some(next) = self.nodes[0].engine.poll_at() {
                    self.now = self.now.max(next.as_nanos());
                }
            }
            _ => self.exchange(),
        }
        self.nodes[0].poll(false);
    }

    fn post(&mut self, input: &mut Input<'_>) {
        let [how, len] = input.array();
        let node = usize::from(how & 1);
        let len = usize::from(len) * if how & 2 == 0 { 1 } else { 16 };
        if how & 32 != 0 {
            let key = self.nodes[1 - node].key;
            let Some(peer) = self.nodes[node].peer(1 - node as u32) else { return };
            let what = match how >> 3 & 3 {
                0 | 1 => OneSided::Write { data: how & 8 != 0 },
                2 => OneSided::Read,
                _ => OneSided::FetchAdd,
            };
            let now = self.now;
            let _ = self.nodes[node].one_sided(now, (peer, key), what, (8, len), how & 64 != 0);
        } else if how & 4 == 0 {
            let _ = self.nodes[node].recv(None, len, None);
        } else if let Some(peer) = self.nodes[node].peer(1 - node as u32) {
            let _ = self.nodes[node].send(self.now, peer, len, None, (how & 8 != 0, how & 16 != 0));
        }
    }

    /// The header of the connection's last packet: receiver, token and numbers.
    fn template(&self, data: bool) -> Option<[u8; HEADER_LEN]> {
        let packets = self.recorded.iter().rev();
        let mut right = packets.filter(|bytes| !data || bytes.get(1) == Some(&0x10));
        right.find_map(|bytes| bytes.get(..HEADER_LEN)?.try_into().ok())
    }

    /// The upper half of the token, as the connection's last packet without a number has it.
    fn upper_half(&self) -> Option<[u8; 4]> {
        let has_it = |bytes: &&Vec<u8>| matches!(bytes.get(1), Some(0x01 | 0x03 | 0x06 | 0x07));
        self.recorded.iter().rev().find(has_it)?.get(12..16)?.try_into().ok()
    }

    /// Right identifier, token and checksum; the rest is the fuzzer's.
    fn hostile(&mut self, input: &mut Input<'_>) {
        let Some(mut header) = self.template(true).or_else(|| self.template(false)) else { return };
        let [kind, flags, rnr_epoch, keep] = input.array();
        header[1] = KINDS[usize::from(kind) % KINDS.len()];
        header[2] = flags;
        header[3] = rnr_epoch;
        // Sequence numbers near the right ones find more than any others.
        for (bit, at) in [(1, 12), (2, 16)] {
            let mut number = u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
            number = if keep & bit == 0 {
                number.wrapping_add_signed(i32::from(input.byte() as i8))
            } else {
                u32::from_le_bytes(input.array())
            };
            header[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        let has_psn = matches!(header[1], 0x0a | 0x10);
        if let Some(upper) = self.upper_half().filter(|_| !has_psn && keep & 1 == 0) {
            header[12..16].copy_from_slice(&upper);
        }
        if keep & 4 != 0 {
            header[20..24].copy_from_slice(&input.array::<4>());
        }
        if keep & 8 != 0 {
            header[24..28].copy_from_slice(&input.array::<4>());
        }
        let len = usize::from(input.word()) % (PAYLOAD_MAX - HEADER_LEN + 16);
        let mut packet = header.to_vec();
        packet.extend_from_slice(input.slice(len));
        if keep & 32 != 0 && packet.len() >= HEADER_LEN + 16 {
            // The right key: at the place where writes, reads and atomics have it.
            let key = self.nodes[0].key.to_le_bytes();
            packet[HEADER_LEN + 8..HEADER_LEN + 16].copy_from_slice(&key);
        }
        wire::seal(&mut packet, crc32c::crc32c_append);
        let from = if keep & 16 == 0 { address(1) } else { address(2) };
        self.nodes[0].ingest(self.now, from, &packet);
    }

    /// A packet that was sent once, with some bytes changed and the checksum put right.
    fn changed(&mut self, input: &mut Input<'_>) {
        if self.recorded.is_empty() {
            return;
        }
        let which = input.below(self.recorded.len());
        let mut packet = self.recorded[which].clone();
        for _ in 0..input.byte() & 7 {
            let at = input.below(packet.len());
            packet[at] ^= input.byte();
        }
        wire::seal(&mut packet, crc32c::crc32c_append);
        self.nodes[0].ingest(self.now, address(1), &packet);
    }
}
