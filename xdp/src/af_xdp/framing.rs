// SPDX-License-Identifier: MIT OR Apache-2.0
//! The headers of the packets that an `AF_XDP` port sends.
//!
//! In: where a packet goes, and its place in a frame. Out: the headers before it. Packets that go
//! where the last one went take theirs from a template. Caller: `port.rs`. Bound: one template.

use std::ops::Range;

use ofi_xdp_core::{PeerAddress, Transmit};

use crate::config::TRAFFIC_CLASS;
use crate::headers::{EmitError, Headers, MacAddress, Template, UdpChecksum, emit};
use crate::host::route::table::Hop;

/// Length and destination of a packet that was written into a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XskTransmit {
    /// Bytes of the packet.
    pub len: usize,
    /// Destination.
    pub to: PeerAddress,
    /// Link-layer address of the next hop.
    pub mac: MacAddress,
    /// The source port.
    pub source: u16,
    /// Whether the next hop is a gateway. Then a UDP checksum is computed, because a router beyond
    /// the link may drop packets without one.
    pub gateway: bool,
}

impl XskTransmit {
    /// A packet that leaves by `hop`.
    pub(crate) const fn new(transmit: Transmit, hop: Hop) -> Self {
        let Transmit { len, to, .. } = transmit;
        Self { len, to: to.address, mac: hop.mac, source: hop.source, gateway: hop.gateway }
    }

    /// Whether the headers of both packets differ in their length alone.
    #[inline]
    fn has_headers_of(&self, other: &Self) -> bool {
        let Self { len: _, to, mac, source, gateway } = *self;
        to == other.to && mac == other.mac && source == other.source && gateway == other.gateway
    }
}

/// Writes the headers of one endpoint's packets.
#[derive(Debug)]
pub(super) struct Framing {
    local: PeerAddress,
    mac: MacAddress,
    /// Whether packets are datagrams of an application: these have no checksum but that of UDP.
    datagrams: bool,
    /// The last packet, and the template of its headers.
    last: Option<(XskTransmit, Template)>,
}

impl Framing {
    /// For packets, or `datagrams` of an application, of the endpoint at `local` from a device with
    /// the link-layer address `mac`.
    pub(super) const fn new(local: PeerAddress, mac: MacAddress, datagrams: bool) -> Self {
        Self { local, mac, datagrams, last: None }
    }

    /// The endpoint's address.
    #[inline]
    pub(super) const fn local(&self) -> PeerAddress {
        self.local
    }

    /// Writes the headers of `outgoing` directly before the packet at `payload` in `frame`, and
    /// returns the range of the whole frame.
    ///
    /// # Errors
    /// Those of [`emit`].
    #[inline]
    pub(super) fn write(
        &mut self,
        outgoing: &XskTransmit,
        frame: &mut [u8],
        payload: Range<usize>,
    ) -> Result<Range<usize>, EmitError> {
        match &self.last {
            Some((last, template)) if last.has_headers_of(outgoing) => {
                template.write(frame, payload)
            }
            _ => self.write_other(outgoing, frame, payload),
        }
    }

    /// Writes the headers of a packet to another destination than the last one.
    #[inline(never)]
    fn write_other(
        &mut self,
        outgoing: &XskTransmit,
        frame: &mut [u8],
        payload: Range<usize>,
    ) -> Result<Range<usize>, EmitError> {
        let computes = outgoing.gateway || self.datagrams;
        let headers = Headers {
            source_mac: self.mac,
            destination_mac: outgoing.mac,
            source: self.local.with_port(outgoing.source),
            destination: outgoing.to,
            traffic_class: TRAFFIC_CLASS,
            checksum: if computes { UdpChecksum::Compute } else { UdpChecksum::Omit },
        };
        self.last = Template::new(&headers).map(|template| (*outgoing, template));
        match &self.last {
            Some((_, template)) => template.write(frame, payload),
            None => emit(&headers, frame, payload),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: PeerAddress = PeerAddress::from_v4([10, 0, 0, 1], 7);

    fn outgoing() -> XskTransmit {
        XskTransmit {
            len: 3,
            to: PeerAddress::from_v4([10, 0, 0, 2], 9),
            mac: MacAddress([2; 6]),
            source: 7,
            gateway: false,
        }
    }

    fn framing(datagrams: bool) -> Framing {
        Framing::new(LOCAL, MacAddress([6; 6]), datagrams)
    }

    /// The frame of a packet by `framing`.
    fn frame(framing: &mut Framing, outgoing: &XskTransmit) -> Vec<u8> {
        let mut frame = vec![0xaa; 100];
        let range = framing.write(outgoing, &mut frame, 80..80 + outgoing.len).unwrap();
        frame[range].to_vec()
    }

    #[test]
    fn each_packet_has_its_own_headers_whatever_the_last_one_had() {
        let usual = outgoing();
        let others = [
            usual,
            XskTransmit { len: 17, ..usual },
            XskTransmit { len: 0, ..usual },
            XskTransmit { to: usual.to.with_port(10), ..usual },
            XskTransmit { to: PeerAddress::from_v4([10, 0, 0, 3], 9), ..usual },
            XskTransmit { mac: MacAddress([4; 6]), ..usual },
            XskTransmit { source: 8, ..usual },
            XskTransmit { gateway: true, ..usual },
        ];
        for first in &others {
            for second in &others {
                let mut framing = framing(false);
                let of_new = |it| frame(&mut self::framing(false), it);
                assert_eq!(frame(&mut framing, first), of_new(first));
                assert_eq!(
                    frame(&mut framing, second),
                    of_new(second),
                    "{second:?} behind {first:?}"
                );
                assert_eq!(frame(&mut framing, second), of_new(second), "{second:?} again");
            }
        }
    }

    /// A packet to a gateway has it, too (`headers/tests.rs`).
    #[test]
    fn a_datagram_of_an_application_has_a_udp_checksum_on_the_link() {
        let direct = outgoing();
        let [of_packet, of_datagram] = [false, true].map(|it| frame(&mut framing(it), &direct));
        let routed = frame(&mut framing(false), &XskTransmit { gateway: true, ..direct });
        assert_ne!(of_packet, routed);
        assert_eq!(of_datagram, routed);
    }

    #[test]
    fn a_frame_without_room_is_refused_either_way() {
        let mut framing = framing(false);
        for _ in 0..2 {
            let mut small = [0; 41];
            assert_eq!(framing.write(&outgoing(), &mut small, 41..41), Err(EmitError::NoRoom));
        }
        let mut long = vec![0; 70_000];
        assert_eq!(framing.write(&outgoing(), &mut long, 80..70_000), Err(EmitError::NoRoom));
    }
}
