// SPDX-License-Identifier: MIT OR Apache-2.0
//! One engine's end of the line to the other, with a mark around each call of the engine.
//!
//! In and out: the packets of a [`RingPort`]. Called by [`drive`](ofi_xdp_core::drive()) only.

use ofi_xdp_core::{Datagram, Instant, Port, PortError, PortLimits, Transmit, Transmitted};
use ofi_xdp_test_kit::ring::{PAYLOAD_MAX, RingPort};

use crate::mark;

/// One engine's end of both rings.
#[derive(Debug)]
pub(crate) struct LinePort<'a> {
    pub(crate) port: RingPort<'a>,
    /// The side that owns this end.
    pub(crate) side: usize,
}

impl Port for LinePort<'_> {
    fn receive(
        &mut self,
        now: Instant,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> Result<u16, PortError> {
        self.port.receive(now, budget, &mut |datagram| mark::ingest(self.side, || sink(datagram)))
    }

    fn transmit(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Result<Transmitted, PortError> {
        self.port.transmit(|packet| {
            // A mark that is a function of its own gets the length with the type, not as a value.
            let packet = packet.first_chunk_mut::<PAYLOAD_MAX>()?;
            mark::transmit(self.side, || fill(packet))
        })
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.port.flush()
    }

    fn limits(&self) -> PortLimits {
        self.port.limits()
    }
}
