// SPDX-License-Identifier: MIT OR Apache-2.0
//! A node's port: a queue of packets that have arrived, and a list of packets that leave.
//!
//! In: packets of a link. Out: the same packets to the engine, and the packets that the engine
//! sends. The link is the caller's: the simulator's network, [`Link`](crate::link::Link), or the
//! bytes of a fuzzer. Bound: the room that the caller gives.

use std::collections::VecDeque;

use ofi_xdp_core::wire::PacketKind;
use ofi_xdp_core::{
    ChecksumCoverage, Datagram, Destination, Instant, PathAdvice, PeerId, Port, PortError,
    PortLimits, Transmit, Transmitted, WantedPort,
};

use crate::card::HostCard;
use crate::packet::{Origin, PORT, PacketId, PacketPool, address, node_of};

/// One progress call's view of a node's queues.
#[derive(Debug)]
pub struct QueuePort<'a, R> {
    /// The node.
    pub node: u32,
    /// The limits of the port.
    pub limits: PortLimits,
    /// All packets.
    pub packets: &'a mut PacketPool,
    /// Packets that have arrived.
    pub inbox: &'a mut VecDeque<PacketId>,
    /// Packets that leave, in order.
    pub out: &'a mut Vec<PacketId>,
    /// The most packets that are handed to the engine.
    pub receive_max: u16,
    /// The card of the host; `None`: it has one queue.
    pub card: Option<&'a mut HostCard>,
    /// Takes the room for one packet, if there is any.
    pub room: R,
}

/// The limits of a port for packets of this length in bytes.
#[must_use]
pub const fn limits(payload_max: usize) -> PortLimits {
    PortLimits {
        payload_max,
        receive_max: payload_max,
        port_packets: 256,
        coverage: ChecksumCoverage::Whole,
    }
}

impl<R: FnMut() -> bool> Port for QueuePort<'_, R> {
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
            let from = packet.source_address();
            let to = address(self.node);
            let arrived = |card: &mut &mut HostCard| card.arrived(from, to);
            let wanted = self.card.as_mut().map_or(WantedPort::KEEP, arrived);
            sink(Datagram {
                coverage: packet.coverage(),
                to_group: false,
                from,
                bytes: &packet.bytes,
                congestion_experienced: packet.marked,
                wanted,
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
        if !(self.room)() {
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
        // A probe in a GSO batch would show nothing (`docs/PROTOCOL.md` §11.1).
        let is_probe = packet.bytes.get(1) == Some(&(PacketKind::Probe as u8));
        assert!(!is_probe || sent.receive_max == u16::MAX, "a probe leaves in no GSO batch");
        packet.from = self.node;
        packet.to = node_of(&sent.to.address);
        // Packets outside of connections keep the own port.
        let card = self.card.as_ref().filter(|_| sent.to.peer != PeerId::NONE);
        packet.source = card.map_or(PORT, |card| card.source(packet.to, PORT));
        packet.origin = Origin::Sent;
        (packet.marked, packet.unprotected) = (false, false);
        self.out.push(id);
        Ok(Transmitted::Sent)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn advise(&mut self, now: Instant, to: Destination, advice: PathAdvice) -> bool {
        let node = node_of(&to.address);
        self.card.as_mut().is_some_and(|card| card.advise(now, (self.node, node), PORT, advice))
    }

    fn limits(&self) -> PortLimits {
        self.limits
    }
}
