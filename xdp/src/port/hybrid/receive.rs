// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receiving by both halves of a port.
//!
//! In: packets in the rings of the `AF_XDP` sockets and in the kernel socket. Out: one stream. The
//! order of the two is unknown, but GSO batches and the first packets of a flow take the kernel's
//! path, and the short packets that follow take the other one. So the kernel socket goes first.
//! Caller: [`HybridPort`]. Bound: the budget of a call.

use std::mem;

use ofi_xdp_core::{Datagram, Instant};

use super::HybridPort;
use crate::af_xdp::kernel_hint::KernelRxHint;
use crate::port::xdp_half::XdpHalf;

/// Length of a run of packets from the kernel socket after which the port verifies that the XDP
/// program is attached and redirects. The check costs a system call, which is spread over this many
/// packets, because packets may take that path for good reason.
const KERNEL_RX_RUN_MAX: u32 = 128;

impl HybridPort {
    /// Receives at most `budget` packets by both halves.
    #[inline]
    pub(super) fn receive_both(
        &mut self,
        now: Instant,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> u16 {
        let primary_first = mem::take(&mut self.primary_first) && !self.kernel_has_packets();
        if primary_first {
            let received = self.receive_xdp(budget, sink);
            if received > 0 {
                return received;
            }
        }
        if now >= self.refresh_at {
            self.refresh(now);
        }
        // A due kernel socket goes first and gets half of the budget, so that neither starves.
        let count = self.receive_udp_first(now, budget.div_ceil(2), sink);
        let rest = if primary_first { 0 } else { self.receive_xdp(budget - count, sink) };
        count + rest
    }

    /// The time until which a receive finds nothing and has nothing to do while
    /// [`Self::has_arrivals`] is false; [`Instant::ZERO`] if the next receive may. It holds until
    /// another function of the port is called.
    #[inline]
    #[must_use]
    pub fn quiet_until(&self) -> Instant {
        let Some(xdp) = &self.xdp else { return Instant::ZERO };
        if self.primary_first || self.lacks_frame || xdp.sockets.has_unsent() {
            return Instant::ZERO;
        }
        self.refresh_at.min(self.udp_poll.due())
    }

    /// Whether packets wait in a rx ring, or at the kernel socket by the program's count, or the
    /// kernel asks for a wake-up.
    #[inline]
    #[must_use]
    pub fn has_arrivals(&self) -> bool {
        let waits = |xdp: &XdpHalf| xdp.sockets.has_received() || xdp.sockets.must_wake_rx();
        self.xdp.as_ref().is_none_or(waits) || self.kernel_has_packets()
    }

    /// Whether the program has left packets to the kernel socket since its last poll.
    #[inline]
    fn kernel_has_packets(&self) -> bool {
        let hint = self.xdp.as_ref().and_then(|xdp| xdp.kernel_rx_hint.as_ref());
        hint.is_some_and(KernelRxHint::has_changed)
    }

    /// Receives at most `budget` packets from the kernel socket, if its poll is due: those of one
    /// system call, or all while others wait in the rings. One of these may have overtaken them,
    /// and its acknowledgment would make the peer take them for lost.
    #[inline]
    fn receive_udp_first(
        &mut self,
        now: Instant,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> u16 {
        let mut count = 0;
        // bound: each round but the last receives a packet
        loop {
            let received = self.receive_udp(now, budget - count, sink);
            count += received;
            let waits = |xdp: &XdpHalf| xdp.sockets.has_received();
            if received == 0 || count == budget || !self.xdp.as_ref().is_some_and(waits) {
                return count;
            }
        }
    }

    /// Receives at most `budget` packets from the kernel socket, if its poll is due.
    fn receive_udp(
        &mut self,
        now: Instant,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> u16 {
        let kernel_rx_hint = self.xdp.as_mut().and_then(|xdp| xdp.kernel_rx_hint.as_mut());
        if kernel_rx_hint.is_some_and(KernelRxHint::changed) {
            self.udp_poll.reset();
        }
        if !self.udp_poll.is_due(now) {
            return 0;
        }
        let count = match &mut self.xdp {
            Some(XdpHalf {
                other_queue: Some(other_queue), kernel_rx_hint: Some(hint), ..
            }) => {
                other_queue.count(hint);
                let mut others = 0;
                let count = self.udp.receive(now, budget, &mut self.stats, &mut |datagram| {
                    // The card has no say in packets to a group.
                    if datagram.to_group {
                        return sink(datagram);
                    }
                    let wanted = other_queue.wanted(datagram.from, &mut others);
                    sink(Datagram { wanted, ..datagram });
                });
                self.stats.other_queue += others;
                if count == 0 {
                    other_queue.emptied();
                }
                count
            }
            _ => self.udp.receive(now, budget, &mut self.stats, sink),
        };
        self.udp_poll.record(now, count > 0);
        self.kernel_rx_run += u32::from(count);
        if self.kernel_rx_run >= KERNEL_RX_RUN_MAX {
            self.verify_attachment(now);
        }
        count
    }

    /// Receives at most `budget` packets from the `AF_XDP` sockets, if there are any.
    #[inline]
    fn receive_xdp(&mut self, budget: u16, sink: &mut impl FnMut(Datagram<'_>)) -> u16 {
        let Some(XdpHalf { sockets, .. }) = &mut self.xdp else { return 0 };
        match sockets.receive(budget, &mut self.stats, sink) {
            Ok(0) => 0,
            Ok(received) => {
                self.kernel_rx_run = 0;
                received
            }
            Err(error) => {
                self.fall_back(&error.to_string());
                0
            }
        }
    }
}
