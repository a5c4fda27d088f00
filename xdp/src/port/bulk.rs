// SPDX-License-Identifier: MIT OR Apache-2.0
//! What leaves by the kernel's socket although there is an `AF_XDP` socket: long trains.
//!
//! Where the kernel copies frames from and to an `AF_XDP` socket, each costs its sender about a
//! microsecond there; a train of packets (`UDP_SEGMENT`, udp(7)) costs little more than one, and
//! crosses a virtual link in one piece. So packets that are nearly full are gathered in the kernel
//! port's trains, and when everything is to leave, trains that turned out short move over to the
//! `AF_XDP` socket after all: that is quicker for a few. [`HybridPort`](super::HybridPort) calls;
//! bounds: those of its halves.

use ofi_xdp_core::{Destination, Transmit, Transmitted};

use super::Xdp;
use crate::stats::PortStats;
use crate::udp::UdpPort;
use crate::xsk_port::Outgoing;

/// Packets of at least this many bytes may be part of a train: half of what Ethernet's MTU has room
/// for, on links with a larger one, too. With an MTU below some 780 bytes nothing is.
const LEN_MIN: usize = 736;

/// Trains beside an `AF_XDP` socket.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    /// The last packet was one of those: the next one is, too, as a rule.
    likely: bool,
    /// Whose packets are in the last train. What comes for them until everything leaves stays
    /// behind it, however short: on the other way it would arrive before, and be a hole to the
    /// receiver.
    behind: Option<Destination>,
}

impl Bulk {
    /// Whether the next packet should be written among the trains, for it will probably stay there.
    pub(super) const fn is_likely(&self) -> bool {
        self.likely
    }

    /// Whether a packet goes to the trains.
    pub(super) fn takes(&mut self, transmit: Transmit) -> bool {
        self.likely = transmit.len >= LEN_MIN;
        if self.likely {
            self.behind = Some(transmit.to);
        }
        self.behind == Some(transmit.to)
    }
}

/// Offers a buffer among the trains to `fill`; a packet that turns out to be short moves over. So
/// does every one that fits where the `AF_XDP` socket has no trains beside it.
pub(super) fn transmit(
    xdp: &mut Xdp,
    udp: &mut UdpPort,
    stats: &mut PortStats,
    payload_max: usize,
    fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
) -> Transmitted {
    let Xdp { port, routes, bulk, .. } = xdp;
    let mut moved = false;
    let sent = udp.transmit(|buffer| {
        let transmit = fill(buffer.get_mut(..payload_max)?)?;
        if bulk.as_mut().is_some_and(|bulk| bulk.takes(transmit)) {
            return Some(transmit);
        }
        let Some(hop) = routes.hop(transmit.to, transmit.len) else { return Some(transmit) };
        let packet = buffer.get(..transmit.len)?;
        let framed = port.transmit(stats, |frame| {
            frame.get_mut(..packet.len())?.copy_from_slice(packet);
            Some(Outgoing::new(transmit, hop))
        });
        // Without a free frame it leaves by the kernel, as any packet may.
        moved = framed == Transmitted::Sent;
        (!moved).then_some(transmit)
    });
    if moved { Transmitted::Sent } else { sent }
}

/// Moves what should not leave by the kernel from the trains to the `AF_XDP` socket.
pub(super) fn divert(xdp: &mut Xdp, udp: &mut UdpPort, stats: &mut PortStats) {
    let Xdp { port, routes, bulk: Some(bulk), .. } = xdp else { return };
    bulk.behind = None;
    udp.divert(|transmit, packet| {
        let Some(hop) = routes.hop(transmit.to, transmit.len) else { return false };
        let framed = port.transmit(stats, |frame| {
            frame.get_mut(..transmit.len)?.copy_from_slice(packet);
            Some(Outgoing::new(transmit, hop))
        });
        framed == Transmitted::Sent
    });
}
