// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line between two engines: a ring of packet buffers, written by one and read by the other in
//! place.
//!
//! In: the bytes that an engine's `transmit` writes. Out: the same bytes, to the other engine's
//! `ingest`. Called by [`drive`](ofi_xdp_core::drive()) only. Bound: [`SLOTS`] packets; a full ring
//! says so.

use ofi_xdp_core::{
    Datagram, Instant, PeerAddress, Port, PortError, PortLimits, Transmit, Transmitted,
};

use crate::mark;

/// The largest packet at an MTU of 1,500 over IPv4.
pub(crate) const PAYLOAD_MAX: usize = 1472;

/// Room for more than a window of packets and their acknowledgments.
const SLOTS: usize = 1024;

/// Packets from one engine to the other.
#[derive(Debug)]
pub(crate) struct Line {
    slots: Box<[[u8; PAYLOAD_MAX]]>,
    lens: Box<[usize]>,
    /// Packets ever written and ever read; the difference is in flight.
    written: usize,
    read: usize,
}

impl Line {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![[0; PAYLOAD_MAX]; SLOTS].into(),
            lens: vec![0; SLOTS].into(),
            written: 0,
            read: 0,
        }
    }
}

/// One engine's end of both lines.
#[derive(Debug)]
pub(crate) struct LinePort<'a> {
    pub(crate) incoming: &'a mut Line,
    pub(crate) outgoing: &'a mut Line,
    /// The sender on the incoming line.
    pub(crate) from: PeerAddress,
    /// The side that owns this end.
    pub(crate) side: usize,
}

/// The limits of a port of this kind.
pub(crate) fn limits() -> PortLimits {
    PortLimits { payload_max: PAYLOAD_MAX, receive_max: PAYLOAD_MAX, window_packets: 256 }
}

impl Port for LinePort<'_> {
    fn receive(
        &mut self,
        _now: Instant,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> Result<u16, PortError> {
        let line = &mut *self.incoming;
        let mut count = 0;
        while count < budget && line.read != line.written {
            let slot = line.read % SLOTS;
            let bytes = &line.slots[slot][..line.lens[slot]];
            let (from, congestion_experienced) = (self.from, false);
            mark::ingest(self.side, || sink(Datagram { from, bytes, congestion_experienced }));
            line.read += 1;
            count += 1;
        }
        Ok(count)
    }

    fn transmit(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Result<Transmitted, PortError> {
        let line = &mut *self.outgoing;
        if line.written - line.read == SLOTS {
            return Ok(Transmitted::Full);
        }
        let slot = line.written % SLOTS;
        let packet = &mut line.slots[slot];
        let Some(sent) = mark::transmit(self.side, || fill(packet)) else {
            return Ok(Transmitted::Nothing);
        };
        line.lens[slot] = sent.len;
        line.written += 1;
        Ok(Transmitted::Sent)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn limits(&self) -> PortLimits {
        limits()
    }
}
