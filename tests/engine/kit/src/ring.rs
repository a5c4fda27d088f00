// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line between two engines: a ring of packet buffers, written by one and read by the other in
//! place.
//!
//! In: the bytes that an engine's `transmit` writes. Out: the same bytes, to the other engine's
//! `ingest`. Benches count the instructions of a packet, so a ring has no time and no faults, and
//! nothing is allocated. Bound: [`SLOTS`] packets; a full ring reports it.

use ofi_xdp_core::{
    ChecksumCoverage, Datagram, Instant, PeerAddress, Port, PortError, PortLimits, Transmit,
    Transmitted, WantedPort,
};

use crate::queue::limits;

/// The largest packet at an MTU of 1,500 over IPv4.
pub const PAYLOAD_MAX: usize = 1472;

/// Room for more than a window of packets and their acknowledgments.
const SLOTS: usize = 1024;

/// Packets from one engine to the other.
#[derive(Debug)]
pub struct Ring {
    slots: Box<[[u8; PAYLOAD_MAX]]>,
    lens: Box<[usize]>,
    /// Packets ever written and ever read; the difference is in flight.
    written: usize,
    read: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            slots: vec![[0; PAYLOAD_MAX]; SLOTS].into(),
            lens: vec![0; SLOTS].into(),
            written: 0,
            read: 0,
        }
    }
}

/// One engine's end of both rings.
#[derive(Debug)]
pub struct RingPort<'a> {
    /// Packets for this engine.
    pub incoming: &'a mut Ring,
    /// Packets from this engine.
    pub outgoing: &'a mut Ring,
    /// The sender on the incoming ring.
    pub from: PeerAddress,
    /// The least coverage of the packets' checksums.
    pub coverage: ChecksumCoverage,
}

impl Port for RingPort<'_> {
    #[inline]
    fn receive(
        &mut self,
        _now: Instant,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> Result<u16, PortError> {
        let ring = &mut *self.incoming;
        let mut count = 0;
        while count < budget && ring.read != ring.written {
            let slot = ring.read % SLOTS;
            let bytes = &ring.slots[slot][..ring.lens[slot]];
            sink(Datagram {
                coverage: self.coverage,
                to_group: false,
                from: self.from,
                bytes,
                congestion_experienced: false,
                wanted: WantedPort::KEEP,
            });
            ring.read += 1;
            count += 1;
        }
        Ok(count)
    }

    #[inline]
    fn transmit(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Result<Transmitted, PortError> {
        let ring = &mut *self.outgoing;
        if ring.written - ring.read == SLOTS {
            return Ok(Transmitted::Full);
        }
        let slot = ring.written % SLOTS;
        let Some(sent) = fill(&mut ring.slots[slot]) else { return Ok(Transmitted::Nothing) };
        ring.lens[slot] = sent.len;
        ring.written += 1;
        Ok(Transmitted::Sent)
    }

    #[inline]
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    #[inline]
    fn limits(&self) -> PortLimits {
        PortLimits { coverage: self.coverage, ..limits(PAYLOAD_MAX) }
    }
}
