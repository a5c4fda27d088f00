// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `AF_XDP` sockets of a port: one, or one on each of several receive queues.
//!
//! In: packets of the engine, and the number of wanted queues. Out: packets of all sockets in one
//! stream, and for each destination the socket to send by. Caller: `xdp_half.rs`. Bounds:
//! [`QUEUES_MAX`] sockets, [`ARRIVALS`] remembered queues.
//!
//! A packet leaves by the socket to which the packets of its destination come: a queue for each
//! flow, both ways. Cards that answer by the queue that sent last (TAP, virtio-net) keep it so.

use std::io;
use std::iter;
use std::os::fd::BorrowedFd;

use ofi_xdp_core::{Datagram, PeerAddress};

use crate::af_xdp::port::XskPort;
use crate::config::QUEUES_MAX;
use crate::stats::{KernelStats, PortStats};
use crate::tier::queue_list::QueueList;

/// Entries of the table of queues. Peers that share an entry share the queue to send by, which
/// costs no packet.
const ARRIVALS: usize = 256;

const _: () = assert!(QUEUES_MAX <= u8::MAX as u32, "a socket's number is a byte");

/// The sockets. On drop the first one ends the claim of the UDP port before any of them closes; the
/// order of the fields ensures this.
#[derive(Debug)]
pub(super) struct XskPorts {
    /// The socket that holds the claim.
    pub(super) first: XskPort,
    /// `None` with one queue.
    further: Option<Box<Further>>,
}

/// Further sockets. Number 0 is the first socket, number n is entry n - 1 of `ports`.
#[derive(Debug)]
struct Further {
    ports: Vec<XskPort>,
    /// The socket that receives first in the next call.
    receives_first: usize,
    /// The socket that sent last.
    sender: u8,
    /// By a hash of a peer's address: the socket that its last packet came to.
    arrivals: [u8; ARRIVALS],
}

impl XskPorts {
    /// The socket `first`, and `further` ones that have joined its claim.
    pub(super) fn new(first: XskPort, further: Vec<XskPort>) -> Self {
        let of = |ports| {
            Box::new(Further { ports, receives_first: 0, sender: 0, arrivals: [0; ARRIVALS] })
        };
        Self { first, further: (!further.is_empty()).then(|| of(further)) }
    }

    /// All sockets.
    pub(super) fn iter(&self) -> impl Iterator<Item = &XskPort> {
        let further = self.further.iter().flat_map(|further| &further.ports);
        iter::once(&self.first).chain(further)
    }

    /// Whether there is one socket alone.
    pub(super) const fn is_one(&self) -> bool {
        self.further.is_none()
    }

    /// The queues of the sockets.
    pub(super) fn queues(&self) -> QueueList {
        self.iter().map(XskPort::queue).collect()
    }

    /// Maximum packet of every socket, in bytes.
    pub(super) fn payload_max(&self) -> usize {
        self.iter().map(XskPort::payload_max).min().unwrap_or(0)
    }

    /// The descriptors of all sockets.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.iter().map(XskPort::socket)
    }

    /// The kernel's counters of all sockets.
    pub(super) fn kernel_stats(&self) -> io::Result<KernelStats> {
        let mut sum = self.first.kernel_stats()?;
        for port in self.iter().skip(1) {
            sum += port.kernel_stats()?;
        }
        Ok(sum)
    }

    /// Whether packets wait in a rx ring.
    #[inline]
    pub(super) fn has_received(&self) -> bool {
        self.any(XskPort::has_received)
    }

    /// Whether the kernel asks for a wake-up of its receive side.
    #[inline]
    pub(super) fn must_wake_rx(&self) -> bool {
        self.any(XskPort::must_wake_rx)
    }

    /// Whether the last kick of a socket has left frames in its tx ring.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.any(XskPort::has_unsent)
    }

    /// Whether `holds` for a socket. Most ports have one: it is looked at without a loop.
    #[inline]
    fn any(&self, holds: impl Fn(&XskPort) -> bool) -> bool {
        holds(&self.first)
            || self.further.as_ref().is_some_and(|further| further.ports.iter().any(holds))
    }

    /// Whether frames stay in a tx ring until the next receive.
    #[inline]
    pub(super) fn has_untaken(&self) -> bool {
        self.any(XskPort::has_untaken)
    }

    /// Hands at most `budget` packets to `sink`, and returns how many.
    ///
    /// # Errors
    /// Those of [`XskPort::receive`].
    #[inline]
    pub(super) fn receive(
        &mut self,
        budget: u16,
        stats: &mut PortStats,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> io::Result<u16> {
        match &mut self.further {
            None => self.first.receive(budget, stats, sink),
            Some(further) => further.receive(&mut self.first, budget, stats, sink),
        }
    }

    /// The socket by which packets to `to` leave.
    pub(super) fn sender(&mut self, to: PeerAddress) -> &mut XskPort {
        let Some(further) = &mut self.further else { return &mut self.first };
        further.sender = further.arrivals.get(entry(to)).copied().unwrap_or(0);
        numbered(&mut self.first, &mut further.ports, further.sender.into())
    }

    /// Whether the socket that sent last has no frame for another packet. One socket alone tells
    /// that when it is to send.
    pub(super) fn is_full(&mut self) -> bool {
        let Some(further) = &mut self.further else { return false };
        !numbered(&mut self.first, &mut further.ports, further.sender.into()).has_frame()
    }

    /// Sends all queued frames.
    ///
    /// # Errors
    /// Those of [`XskPort::flush`].
    #[inline]
    pub(super) fn flush(&mut self, stats: &mut PortStats) -> io::Result<()> {
        self.first.flush(stats)?;
        match &mut self.further {
            None => Ok(()),
            Some(further) => further.ports.iter_mut().try_for_each(|port| port.flush(stats)),
        }
    }
}

impl Further {
    /// Receives from each socket in turn. One that uses up the budget goes last in the next call.
    fn receive(
        &mut self,
        first: &mut XskPort,
        budget: u16,
        stats: &mut PortStats,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> io::Result<u16> {
        let sockets = self.ports.len() + 1;
        let mut count = 0;
        // bound: the sockets
        for number in (self.receives_first..sockets).chain(0..self.receives_first) {
            let Self { ports, arrivals, .. } = self;
            let port = numbered(first, ports, number);
            count += port.receive(budget - count, stats, &mut |datagram| {
                if let Some(arrival) = arrivals.get_mut(entry(datagram.from)) {
                    *arrival = number as u8;
                }
                sink(datagram);
            })?;
            if count == budget {
                self.receives_first = (number + 1) % sockets;
                break;
            }
        }
        Ok(count)
    }
}

/// The socket with this number.
fn numbered<'a>(
    first: &'a mut XskPort,
    further: &'a mut [XskPort],
    number: usize,
) -> &'a mut XskPort {
    match number.checked_sub(1).and_then(|at| further.get_mut(at)) {
        Some(port) => port,
        None => first,
    }
}

/// The entry of a peer in the table of queues.
fn entry(peer: PeerAddress) -> usize {
    let [low, high] = peer.port().to_le_bytes();
    let [.., host] = peer.octets();
    usize::from(low ^ high ^ host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_a_host_and_hosts_of_a_network_have_entries_of_their_own() {
        let of = |host, port| entry(PeerAddress::from_v4([198, 18, 0, host], port));
        let (ports, hosts): (Vec<_>, Vec<_>) =
            (0..=255_u8).map(|number| (of(1, 7000 + u16::from(number)), of(number, 7000))).unzip();
        for mut entries in [ports, hosts] {
            entries.sort_unstable();
            entries.dedup();
            assert!(entries.len() > 200 && entries.iter().all(|&at| at < ARRIVALS));
        }
    }
}
