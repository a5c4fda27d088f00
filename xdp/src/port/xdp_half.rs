// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `AF_XDP` half of a port: its sockets, the routes to peers, and GSO batches beside it.
//!
//! In: packets of the engine. Out: frames on the tx ring, or packets in the GSO batches of the
//! kernel socket. Callers: the hybrid port (`hybrid.rs`), and `open.rs`, which makes it. Bounds:
//! those of the two sockets.

use ofi_xdp_core::wire::cover_whole;
use ofi_xdp_core::{ChecksumCoverage, PortLimits, Transmit, Transmitted};

use super::attachment_check::AttachmentCheck;
use super::kernel_batch::KernelBatch;
use super::other_queue::OtherQueue;
use super::xsk_ports::XskPorts;
use crate::af_xdp::framing::XskTransmit;
use crate::af_xdp::kernel_hint::KernelRxHint;
use crate::config::{Mode, PortConfig};
use crate::host::interfaces::InterfaceInfo;
use crate::host::route::table::Routes;
use crate::stats::PortStats;
use crate::tier::status::{PortStatus, Tier, XskMode};
use crate::udp::UdpPort;

/// The `AF_XDP` half of a port.
#[derive(Debug)]
pub(super) struct XdpHalf {
    pub(super) sockets: XskPorts,
    /// The engine may write every packet into a frame of the one socket.
    pub(super) is_direct: bool,
    pub(super) routes: Routes,
    /// The program's count of packets left to the kernel socket; `None` where it cannot be mapped.
    pub(super) kernel_rx_hint: Option<KernelRxHint>,
    /// Packets that arrive by other queues; `None` where the interface has one queue.
    pub(super) other_queue: Option<OtherQueue>,
    pub(super) attachment: AttachmentCheck,
    /// Present where the kernel copies frames and no mode was configured.
    pub(super) kernel_batch: Option<KernelBatch>,
}

/// A half that was lost and is open again.
pub(super) struct Reopened {
    pub(super) xdp: XdpHalf,
    /// Its interface.
    pub(super) interface: InterfaceInfo,
}

impl XdpHalf {
    /// Enters mode and queues of this half in `status`.
    pub(super) fn describe(&self, status: &mut PortStatus) {
        status.tier = Tier::Xdp(self.sockets.first.mode());
        status.queues = self.sockets.queues();
        status.kernel_zerocopy = self.sockets.kernel_stats().ok().and_then(|stats| stats.zerocopy);
    }

    /// Prepares for packets of at most `payload_max` bytes. Turns GSO batches on where the kernel
    /// copies frames and the mode leaves the choice.
    pub(super) fn prepare(&mut self, config: &PortConfig, udp: &UdpPort, payload_max: usize) {
        self.follow_carrier(payload_max);
        let copies = self.sockets.first.mode() != XskMode::Zerocopy;
        let useful = config.mode == Mode::Auto && copies && udp.supports_gso();
        self.kernel_batch = useful.then(|| KernelBatch::new(config.any_payload));
    }

    /// Decides whether packets of at most `payload_max` bytes are written into frames. Without a
    /// carrier they are not: a device in zero-copy mode takes no frame (decision 0231).
    pub(super) fn follow_carrier(&mut self, payload_max: usize) {
        // A restored half, perhaps on another device, may take shorter packets than promised.
        let takes_all = self.sockets.is_one() && self.sockets.payload_max() >= payload_max;
        self.is_direct = takes_all && self.routes.has_carrier();
    }

    /// Offers a buffer of the kernel socket's batches to `fill`. A packet that is too short for a
    /// batch moves to the `AF_XDP` socket of its destination. Without batches, every packet that
    /// fits moves there.
    pub(super) fn transmit_via_kernel_batch(
        &mut self,
        udp: &mut UdpPort,
        stats: &mut PortStats,
        limits: &PortLimits,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Transmitted {
        let Self { sockets, routes, kernel_batch, .. } = self;
        if sockets.is_full() && routes.has_carrier() {
            return Transmitted::Full;
        }
        let (mut moved, mut stays) = (false, false);
        let sent = udp.transmit(|buffer| {
            let transmit = fill(buffer.get_mut(..limits.payload_max)?)?;
            if kernel_batch.as_mut().is_some_and(|batch| batch.takes(transmit)) {
                return Some(transmit);
            }
            let Some(hop) = routes.hop(transmit.to, transmit.len) else {
                stays = true;
                return Some(transmit);
            };
            let packet = buffer.get(..transmit.len)?;
            let framed = sockets.sender(transmit.to.address).transmit(stats, |frame| {
                let frame = frame.get_mut(..packet.len())?;
                frame.copy_from_slice(packet);
                protect(limits.coverage, frame);
                Some(XskTransmit::new(transmit, hop))
            });
            // Without a free frame the packet leaves by the kernel, as any packet may.
            moved = framed == Transmitted::Sent;
            (!moved).then_some(transmit)
        });
        if stays {
            udp.keep_last();
        }
        if moved { Transmitted::Sent } else { sent }
    }

    /// Moves packets of short batches from the kernel socket to the `AF_XDP` socket. Those that the
    /// kernel got for want of a hop stay: one of them makes it check a stale neighbour.
    pub(super) fn reroute_short_batches(
        &mut self,
        udp: &mut UdpPort,
        stats: &mut PortStats,
        coverage: ChecksumCoverage,
    ) {
        let Self { sockets, routes, kernel_batch: Some(kernel_batch), .. } = self else { return };
        kernel_batch.end_round();
        udp.reroute_short_batches(|transmit, packet| {
            let Some(hop) = routes.hop(transmit.to, transmit.len) else { return false };
            let framed = sockets.sender(transmit.to.address).transmit(stats, |frame| {
                let frame = frame.get_mut(..transmit.len)?;
                frame.copy_from_slice(packet);
                protect(coverage, frame);
                Some(XskTransmit::new(transmit, hop))
            });
            framed == Transmitted::Sent
        });
    }
}

/// Prepares a packet of an engine that seals for paths with `coverage` for an `AF_XDP` socket: no
/// UDP checksum protects it there.
#[inline]
pub(super) fn protect(coverage: ChecksumCoverage, packet: &mut [u8]) {
    if coverage == ChecksumCoverage::Head {
        cover_whole(packet, ofi_xdp_checksum::crc32c);
    }
}
