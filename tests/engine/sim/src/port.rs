// SPDX-License-Identifier: MIT OR Apache-2.0
//! A node's port to the network: the seam that `drive` uses.

use crate::net::{Origin, PacketId, PacketPool, address, node_of};
use crate::rng::Rng;
use ofi_xdp_core::{Datagram, Instant, Port, PortError, PortLimits, Transmit, Transmitted};
use std::collections::VecDeque;

/// One progress call's view of the network.
#[derive(Debug)]
pub struct SimPort<'a> {
    /// The node.
    pub node: u32,
    /// The limits of the port.
    pub limits: PortLimits,
    /// Packets that have arrived.
    pub inbox: &'a mut VecDeque<PacketId>,
    /// All packets.
    pub packets: &'a mut PacketPool,
    /// Packets that leave, in order.
    pub out: &'a mut Vec<PacketId>,
    /// How many can leave.
    pub room: u32,
    /// How many are handed on at most.
    pub receive_max: u16,
    /// A lot before each packet that says that there is no room.
    pub full: f64,
    /// Draws it.
    pub rng: &'a mut Rng,
    /// How often there was no room.
    pub full_count: &'a mut u64,
}

impl Port for SimPort<'_> {
    fn receive(
        &mut self,
        _now: Instant,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> Result<u16, PortError> {
        let mut count = 0;
        while count < budget.min(self.receive_max) {
            let Some(id) = self.inbox.pop_front() else { break };
            let packet = self.packets.at(id);
            sink(Datagram {
                from: address(packet.from),
                bytes: &packet.bytes,
                congestion_experienced: packet.marked,
            });
            self.packets.release(id);
            count += 1;
        }
        Ok(count)
    }

    fn transmit(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Result<Transmitted, PortError> {
        if self.room == 0 || self.rng.chance(self.full) {
            *self.full_count += 1;
            return Ok(Transmitted::Full);
        }
        let id = self.packets.alloc();
        let packet = self.packets.at(id);
        packet.bytes.resize(self.limits.payload_max, 0xee);
        let Some(sent) = fill(&mut packet.bytes) else {
            self.packets.release(id);
            return Ok(Transmitted::Nothing);
        };
        packet.bytes.truncate(sent.len);
        packet.from = self.node;
        packet.to = node_of(&sent.to.address);
        packet.origin = Origin::Sent;
        packet.marked = false;
        self.out.push(id);
        self.room -= 1;
        Ok(Transmitted::Sent)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn limits(&self) -> PortLimits {
        self.limits
    }
}
