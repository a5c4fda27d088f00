// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets under way, in buffers that are used again.

use ofi_xdp_core::wire::{Flags, PacketKind};
use ofi_xdp_core::{ChecksumCoverage, PeerAddress};

/// UDP port of every node.
pub const PORT: u16 = 7000;

/// The address of a node.
#[must_use]
pub fn address(node: u32) -> PeerAddress {
    let [_, a, b, c] = node.to_be_bytes();
    PeerAddress::from_v4([10, a, b, c], PORT)
}

/// The node that has an address.
#[must_use]
pub fn node_of(address: &PeerAddress) -> u32 {
    let [.., a, b, c] = address.octets();
    u32::from_be_bytes([0, a, b, c])
}

/// The origin of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Origin {
    /// As its sender made it.
    #[default]
    Sent,
    /// A copy of one that was sent.
    Copy,
    /// Damaged on the way.
    Damaged,
    /// Recorded earlier and sent again.
    Stale,
    /// Made by an attacker.
    Forged,
}

/// A packet under way.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    /// The node that sent it.
    pub from: u32,
    /// Its UDP source port; 0: [`PORT`].
    pub source: u16,
    /// The node that it goes to.
    pub to: u32,
    /// Its origin, and its damage.
    pub origin: Origin,
    /// Marked Congestion Experienced.
    pub marked: bool,
    /// It arrives by `AF_XDP` whatever its checksum covers.
    pub unprotected: bool,
    /// The UDP payload.
    pub bytes: Vec<u8>,
}

impl Packet {
    /// The address that it comes from.
    #[must_use]
    pub fn source_address(&self) -> PeerAddress {
        let own = address(self.from);
        if self.source == 0 { own } else { PeerAddress::new(own.ip(), self.source) }
    }

    /// The least coverage of its checksum where it arrives.
    #[must_use]
    pub fn coverage(&self) -> ChecksumCoverage {
        if self.unprotected { ChecksumCoverage::Whole } else { coverage_of(&self.bytes) }
    }
}

/// The least coverage of a packet's checksum where it arrives. One with a checksum over its head
/// arrives by the kernel, which has verified the UDP checksum, all others arrive by `AF_XDP`.
#[must_use]
pub fn coverage_of(bytes: &[u8]) -> ChecksumCoverage {
    let head = Flags::HEAD_CHECKSUM.bits();
    match *bytes {
        [_, kind, flags, ..] if kind == PacketKind::Data as u8 && flags & head != 0 => {
            ChecksumCoverage::Head
        }
        _ => ChecksumCoverage::Whole,
    }
}

/// Names a packet in the pool.
pub type PacketId = u32;

/// All packets under way.
#[derive(Debug, Default)]
pub struct PacketPool {
    packets: Vec<Packet>,
    free: Vec<PacketId>,
}

impl PacketPool {
    /// A packet of any contents, with a free buffer.
    pub fn alloc(&mut self) -> PacketId {
        self.free.pop().unwrap_or_else(|| {
            self.packets.push(Packet::default());
            self.packets.len() as PacketId - 1
        })
    }

    /// A copy of a packet.
    pub fn copy(&mut self, id: PacketId, origin: Origin) -> PacketId {
        let copy = self.alloc();
        let mut bytes = std::mem::take(&mut self.at(copy).bytes);
        let packet = self.at(id);
        bytes.clear();
        bytes.extend_from_slice(&packet.bytes);
        let (from, source, to) = (packet.from, packet.source, packet.to);
        let (marked, unprotected) = (false, false);
        *self.at(copy) = Packet { from, source, to, origin, marked, unprotected, bytes };
        copy
    }

    /// A packet.
    pub fn at(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id as usize]
    }

    /// A packet has arrived or is lost: its buffer is free.
    pub fn release(&mut self, id: PacketId) {
        self.free.push(id);
    }

    /// How many are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.packets.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers() {
        for node in [0, 1, 255, 256, 70_000] {
            assert_eq!(node_of(&address(node)), node);
        }
    }
}
