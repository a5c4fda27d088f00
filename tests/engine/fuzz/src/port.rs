// SPDX-License-Identifier: MIT OR Apache-2.0
//! A port that is a list: sent packets are kept, and nothing is received. The target itself hands
//! packets to the engine.

use ofi_xdp_core::{
    Datagram, Instant, PeerAddress, Port, PortError, PortLimits, Transmit, Transmitted,
};

/// The largest packet.
pub const PAYLOAD_MAX: usize = 512;

/// The address of node `number`.
#[must_use]
pub fn address(number: usize) -> PeerAddress {
    PeerAddress::from_v4([198, 18, 0, number as u8 + 1], 7000)
}

/// A packet that was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// The sender.
    pub from: PeerAddress,
    /// Where it is to go.
    pub to: PeerAddress,
    /// The packet.
    pub bytes: Vec<u8>,
}

/// Keeps the packets that an engine sends; has none to receive.
#[derive(Debug)]
pub(crate) struct ListPort<'a> {
    pub(crate) own: PeerAddress,
    pub(crate) sent: &'a mut Vec<Sent>,
}

pub(crate) fn limits() -> PortLimits {
    PortLimits { payload_max: PAYLOAD_MAX, receive_max: PAYLOAD_MAX, window_packets: 256 }
}

impl Port for ListPort<'_> {
    fn receive(
        &mut self,
        _now: Instant,
        _budget: u16,
        _sink: &mut impl FnMut(Datagram<'_>),
    ) -> Result<u16, PortError> {
        Ok(0)
    }

    fn transmit(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Result<Transmitted, PortError> {
        let mut packet = [0xee; PAYLOAD_MAX];
        let Some(sent) = fill(&mut packet) else { return Ok(Transmitted::Nothing) };
        let bytes = packet[..sent.len].to_vec();
        self.sent.push(Sent { from: self.own, to: sent.to.address, bytes });
        Ok(Transmitted::Sent)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn limits(&self) -> PortLimits {
        limits()
    }
}
