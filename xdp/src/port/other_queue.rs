// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that arrive by another queue than that of the `AF_XDP` socket: which packets of the
//! kernel socket they are, and the source port that is wanted for them (`docs/PROTOCOL.md` §13).
//!
//! In: the XDP program's count of such packets, and packets of the kernel socket. Out: the wanted
//! source port of each. Caller: the hybrid port. Bound: [`EXPECTED_MAX`] packets expected.
//!
//! The kernel socket does not tell the queue of a packet. The program counts a packet before the
//! socket has it, so as many of the next packets are taken for packets of another queue. Packets
//! that take the kernel's path for another reason may be taken for one of them: the request that
//! follows costs one packet, and the sender ignores it.

use std::net::SocketAddr;

use ofi_xdp_core::WantedPort;

use crate::af_xdp::kernel_hint::KernelRxHint;
use crate::stats::PortStats;
use crate::tier::status::PortStatus;

/// Packets that may be counted and not yet received. The rest of them is lost.
const EXPECTED_MAX: u64 = 1 << 10;

/// Packets of other queues after which the port says so, if they are the most.
const SAID_FROM: u64 = 1 << 12;

/// Packets of other queues.
#[derive(Debug)]
pub(super) struct OtherQueue {
    wanted: WantedPort,
    /// The port has said that most packets come by other queues.
    said: bool,
    /// Packets that the program has counted and the kernel socket has not delivered.
    expected: u64,
}

impl OtherQueue {
    /// For an interface of `queues` queues.
    pub(super) fn new(queues: u32) -> Self {
        let queues = u16::try_from(queues).unwrap_or(u16::MAX);
        Self { wanted: WantedPort::other(queues), said: false, expected: 0 }
    }

    /// Reads the program's count, before the kernel socket is polled.
    pub(super) fn count(&mut self, hint: &mut KernelRxHint) {
        let counted = hint.take_other_queue();
        self.expected = self.expected.saturating_add(counted).min(EXPECTED_MAX);
    }

    /// The source port that is wanted for the sender of the next packet of the kernel socket.
    /// Counts the packet in `taken` if there is one.
    pub(super) fn wanted(&mut self, taken: &mut u64) -> WantedPort {
        if self.expected == 0 {
            return WantedPort::KEEP;
        }
        self.expected -= 1;
        *taken += 1;
        self.wanted
    }

    /// Says once that most packets come by other queues, with the command that would help.
    pub(super) fn complain(&mut self, local: SocketAddr, stats: &PortStats, status: &PortStatus) {
        let PortStats { xsk_received, other_queue, .. } = *stats;
        if self.said || other_queue < SAID_FROM || other_queue < xsk_received {
            return;
        }
        self.said = true;
        let (interface, queue) = (&status.interface, status.queue.unwrap_or(0));
        let share = 100 * xsk_received / (xsk_received + other_queue);
        let family = if local.is_ipv4() { "udp4" } else { "udp6" };
        log::warn!(
            "{local}: {share} % of packets come by AF_XDP, on queue {queue} of {interface}; the \
             others come by other queues and the kernel. `ethtool -N {interface} rx-flow-hash \
             {family} sdfn` lets the card tell source ports apart, `ethtool --set-channels \
             {interface} combined 1` gives it one queue (docs/TUNING.md)"
        );
    }

    /// The kernel socket is empty: what is expected still was dropped there.
    pub(super) fn emptied(&mut self) {
        self.expected = 0;
    }
}
