// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port over a kernel UDP socket, with GSO and GRO.
//!
//! In: single packets of the engine. Out: GSO batches (`UDP_SEGMENT`, udp(7)) of consecutive
//! packets of one size to one destination; in the other direction single packets from GRO batches
//! (`UDP_GRO`). quinn-udp makes the system calls that move several packets. A packet that the
//! kernel refuses is lost, as on any network; no error ends the port. Callers: the hybrid port,
//! benchmarks. Bounds: [`gso::BYTES`] and [`gso::BATCHES_MAX`] to send, [`gro::BUFFERS`] buffers to
//! receive.

mod connected;
mod gro;
mod groups;
mod gso;
mod long_packets;
mod memory;
pub(crate) mod poll_backoff;
mod senders;
mod silent_poll;
mod socket;

#[cfg(test)]
mod tests;

use std::io;
use std::iter;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::sys::socket::{setsockopt, sockopt};
use ofi_xdp_core::{Datagram, Destination, Instant, PathAdvice, Transmit, Transmitted};

use crate::mtu::payload_max;
use crate::stats::PortStats;
use connected::ConnectedPeer;
use gro::Received;
use groups::Groups;
pub(crate) use groups::Memberships;
use gso::GsoBatches;
use long_packets::LongPackets;
use rustix::net::sockopt::set_ip_multicast_if_with_ifindex;
use senders::Senders;
use silent_poll::SilentPoll;
use socket::KernelSocket;
use socket2::SockRef;

/// A non-blocking kernel UDP socket, bound to one address. If there is a connected peer, it has a
/// second socket at the same address (`connected.rs`). Packets to peers that want another source
/// port have sockets that only send (`senders.rs`).
#[derive(Debug)]
pub struct UdpPort {
    main: KernelSocket,
    connected: ConnectedPeer,
    /// `None` until a peer wants another source port.
    senders: Option<Box<Senders>>,
    groups: Groups,
    silence: SilentPoll,
    local: SocketAddr,
    batches: GsoBatches,
    long_packets: LongPackets,
    received: Received,
    payload_max: usize,
    port_packets: u16,
}

impl UdpPort {
    /// A socket bound to `address` on an interface with `mtu`. The receive buffer has room for
    /// `port_packets` packets if the system grants that.
    ///
    /// # Errors
    /// Those of `socket(2)`, `bind(2)` and `setsockopt(2)`; `ENOMEM`.
    pub fn bind(address: SocketAddr, mtu: u32, port_packets: u16) -> io::Result<Self> {
        let main = KernelSocket::bind(address)?;
        let payload_max = payload_max(mtu, address.ip());
        let port_packets = main.grow_buffers(payload_max, port_packets)?;
        let local = main.socket.local_addr()?;
        Ok(Self {
            batches: GsoBatches::new(main.segments_max())?,
            long_packets: LongPackets::new(local),
            received: Received::new()?,
            main,
            connected: ConnectedPeer::default(),
            senders: None,
            groups: Groups::default(),
            silence: SilentPoll::default(),
            local,
            payload_max,
            port_packets,
        })
    }

    /// Delivers empty packets, too.
    pub const fn deliver_empty(&mut self) {
        self.received.delivers_empty = true;
    }

    /// Follows the MTU of the interface with this index: packets that exceed it leave in fragments.
    pub const fn set_interface(&mut self, index: u32) {
        self.long_packets.set_interface(index);
    }

    /// Index of the interface; `None` where the address is on none.
    pub(crate) const fn interface(&self) -> Option<u32> {
        self.long_packets.interface()
    }

    /// The address of the socket.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The largest packet that fits in the MTU, in bytes.
    #[must_use]
    pub const fn payload_max(&self) -> usize {
        self.payload_max
    }

    /// Capacity of the receive buffer, in packets of [`Self::payload_max`] bytes.
    #[must_use]
    pub const fn port_packets(&self) -> u16 {
        self.port_packets
    }

    /// The socket, readable when a packet arrived.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.main.socket.as_raw_fd()
    }

    /// The main socket.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.main.socket.as_fd()
    }

    /// All sockets, readable when a packet arrived.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        receivers(&self.main, &self.connected, &self.groups)
    }

    /// Ends a silence, before a change of the sockets.
    fn end_silence(&mut self) {
        let Self { silence, main, connected, groups, .. } = self;
        silence.end(receivers(main, connected, groups));
    }

    /// Makes packets to groups leave by the interface with this index. With `receives` the packets
    /// to `group`, with its port, are received there.
    ///
    /// # Errors
    /// `EADDRINUSE` for a group that was joined before; `ENOBUFS` beyond the capacity; those of the
    /// system calls.
    pub(crate) fn join(
        &mut self,
        group: SocketAddr,
        interface: u32,
        receives: bool,
    ) -> io::Result<()> {
        self.send_to_groups_by(interface)?;
        if receives {
            self.end_silence();
            let socket = self.groups.join(group, interface)?;
            socket.grow_buffers(self.payload_max, self.port_packets)?;
        }
        Ok(())
    }

    /// Makes packets to groups leave by the interface with this index.
    ///
    /// # Errors
    /// `ENODEV` where there is none; those of `setsockopt(2)`.
    fn send_to_groups_by(&self, interface: u32) -> io::Result<()> {
        let socket = &self.main.socket;
        if self.local.is_ipv6() {
            return SockRef::from(socket).set_multicast_if_v6(interface);
        }
        // By its index: an address would name the interface that has it, perhaps the loopback one.
        let none = &Ipv4Addr::UNSPECIFIED;
        set_ip_multicast_if_with_ifindex(socket, none, none, interface).map_err(|error| {
            let is_gone = error == rustix::io::Errno::ADDRNOTAVAIL;
            if is_gone { rustix::io::Errno::NODEV } else { error }.into()
        })
    }

    /// The memberships in groups, for another thread as well.
    pub(crate) fn memberships(&self) -> Memberships {
        self.groups.memberships().clone()
    }

    /// Goes on with the interface with this index, another one or the same. Groups that were joined
    /// on another one follow.
    #[cold]
    pub(crate) fn use_interface(&mut self, interface: u32) {
        self.set_interface(interface);
        self.groups.memberships().follow(interface);
        if let Err(error) = self.send_to_groups_by(interface) {
            log::warn!("{}: packets to groups leave no more: {error}", self.local);
        }
    }

    /// Receives packets to `group` no more.
    pub(crate) fn leave(&mut self, group: SocketAddr) {
        self.end_silence();
        self.groups.leave(group);
    }

    /// Makes the next [`Self::receive`] poll all sockets; see [`ConnectedPeer::poll_all_sources`].
    pub(crate) fn poll_all_sources(&mut self, primary_first: bool) {
        self.silence.force_now();
        self.connected.poll_all_sources(primary_first);
    }

    /// Connects the second socket to another peer if that is due; returns whether there is a new
    /// socket. Call it after a flush, and only for ports without an `AF_XDP` half.
    #[inline]
    pub(crate) fn reconnect_if_due(&mut self) -> bool {
        self.connected.is_due() && self.connect()
    }

    #[cold]
    fn connect(&mut self) -> bool {
        self.end_silence();
        let Self { connected, main, local, payload_max, port_packets, .. } = self;
        let result = connected.connect(main, *local).and_then(|new| match new {
            Some(new) => new.grow_buffers(*payload_max, *port_packets).map(|_| true),
            None => Ok(false),
        });
        result.unwrap_or_else(|error| {
            log::debug!("{local}: no socket for the connected peer: {error}");
            connected.source().is_some()
        })
    }

    /// Closes the connected socket, whose unread packets are lost, and those that only send.
    pub(crate) fn forget_peers(&mut self) {
        self.end_silence();
        self.connected = ConnectedPeer::default();
        self.senders = None;
    }

    /// Follows advice about the source port of packets to a peer. Returns whether it has changed.
    #[cold]
    pub(crate) fn advise(&mut self, now: Instant, to: Destination, advice: PathAdvice) -> bool {
        if self.senders.is_none() && advice == PathAdvice::TimedOut {
            return false;
        }
        let Self { main, senders, local, .. } = self;
        let senders = senders.get_or_insert_with(|| Box::new(Senders::new(*local)));
        senders.advise(main, now, (to, advice))
    }

    /// Whether received packets are left that no socket reports.
    pub(crate) const fn has_more(&self) -> bool {
        self.received.is_left()
    }

    /// As [`Self::receive`], for a port without an `AF_XDP` half. A poll in a silence is cheaper.
    #[inline]
    pub(crate) fn receive_or_stay_silent(
        &mut self,
        now: Instant,
        budget: u16,
        stats: &mut PortStats,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> u16 {
        if self.silence.has_begun() {
            if self.silence.lasts(now) {
                return 0;
            }
            self.connected.poll_all_sources(false);
        }
        let count = self.receive(now, budget, stats, sink);
        let Self { silence, main, connected, groups, .. } = self;
        silence.record(count, receivers(main, connected, groups));
        count
    }

    /// Hands at most `budget` packets to `sink`, and returns how many. One system call, and one for
    /// each group, unless packets of the last one are left.
    pub fn receive(
        &mut self,
        now: Instant,
        budget: u16,
        stats: &mut PortStats,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> u16 {
        let Self { received, groups, connected, main, .. } = self;
        let mut count = received.deliver(budget, sink);
        let groups_first = groups.go_first();
        if groups_first && count < budget {
            count += groups.receive(budget - count, received, sink);
        }
        if count < budget && !received.is_left() && connected.fetch(now, main, received) {
            count += received.deliver(budget - count, sink);
        }
        if !groups_first && count < budget && !received.is_left() {
            count += groups.receive(budget - count, received, sink);
        }
        stats.udp_received += u64::from(count);
        count
    }

    /// Offers a buffer of [`Self::payload_max`] bytes to `fill`, and queues the packet.
    pub fn transmit(&mut self, fill: impl FnOnce(&mut [u8]) -> Option<Transmit>) -> Transmitted {
        let Some(buffer) = self.batches.buffer(self.payload_max) else {
            return Transmitted::Full;
        };
        let Some(transmit) = fill(buffer) else {
            return Transmitted::Nothing;
        };
        self.batches.push(Transmit { len: transmit.len.min(self.payload_max), ..transmit });
        Transmitted::Sent
    }

    /// Whether [`Self::transmit`] has room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.batches.has_room(self.payload_max)
    }

    /// Whether the kernel takes GSO batches.
    #[must_use]
    pub const fn supports_gso(&self) -> bool {
        self.batches.segments_max() > 1
    }

    /// Makes the packet that was queued last leave by this socket, whatever its batch.
    #[cold]
    pub(crate) fn keep_last(&mut self) {
        self.batches.keep_last();
    }

    /// Offers the packets of short batches to another path, until it refuses one.
    #[inline]
    pub(crate) fn reroute_short_batches(&mut self, take: impl FnMut(Transmit, &[u8]) -> bool) {
        if !self.batches.is_empty() {
            self.batches.reroute_short_batches(take);
        }
    }

    /// Sends all queued packets: one system call for each long batch, one for each other packet.
    /// `refused` gets the destination of a batch that has no other path, if the socket had no room
    /// for it.
    #[inline]
    pub fn flush(&mut self, stats: &mut PortStats, refused: impl FnMut(Destination)) {
        if !self.batches.is_empty() {
            self.send_batches(stats, refused);
        }
    }

    fn send_batches(&mut self, stats: &mut PortStats, mut refused: impl FnMut(Destination)) {
        let Self { main, connected, senders, batches, long_packets, local, .. } = self;
        let mut segments = true;
        batches.drain(|batch, bytes| {
            let to = batch.to.address;
            let sender = senders.as_mut().and_then(|senders| senders.socket(batch.to.peer));
            let source = sender.unwrap_or(main);
            stats.udp_transmitted += u64::from(batch.count);
            let mut lose = |count: u16, error: &io::Error| {
                stats.udp_lost += u64::from(count);
                if batch.lacks_path && error.kind() == io::ErrorKind::WouldBlock {
                    refused(batch.to);
                }
            };
            if batch.uses_gso() && segments {
                stats.udp_sends += 1;
                match source.send_gso(to, bytes, batch.segment) {
                    // EIO, EINVAL: the device or the path cannot split the batch (udp(7),
                    // UDP_SEGMENT). EMSGSIZE, in older kernels EINVAL: its packets are longer than
                    // the MTU, and the kernel does not fragment batches.
                    Err(error) if is_no_gso(&error) || is_too_long(&error) => {
                        log::trace!("{local}: sending packet by packet: {error}");
                        segments = false;
                    }
                    Err(error) => return lose(batch.count, &error),
                    Ok(()) => return,
                }
            }
            for packet in batch.packets(bytes) {
                stats.udp_sends += 1;
                // The error may belong to an earlier packet (ICMP); this packet has not left.
                if sender.is_none()
                    && connected.socket_to(to).is_some_and(|socket| socket.send(packet).is_ok())
                {
                    continue;
                }
                // Without control data, which the kernel would have to parse.
                let mut sent = source.socket.send_to(packet, to.socket_addr());
                if sent.as_ref().is_err_and(is_too_long) {
                    sent = long_packets.send(source, packet, to);
                }
                if let Err(error) = sent {
                    lose(1, &error);
                }
            }
        });
        if !segments {
            self.batches.pause();
        }
    }
}

/// The sockets that receive.
fn receivers<'a>(
    main: &'a KernelSocket,
    connected: &'a ConnectedPeer,
    groups: &'a Groups,
) -> impl Iterator<Item = BorrowedFd<'a>> {
    let sources = iter::once(main).chain(connected.source());
    sources.map(|source| source.socket.as_fd()).chain(groups.descriptors())
}

/// Sets whether the kernel delivers joined packets (GRO) to `socket`, which it does by default.
/// Switched off for the kernel socket beside an `AF_XDP` socket in generic mode: otherwise the
/// kernel joins packets before the XDP program sees them.
///
/// # Errors
/// Those of `setsockopt(2)`.
pub(crate) fn receive_joined(socket: BorrowedFd<'_>, joined: bool) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::UdpGroSegment, &joined)?)
}

fn is_no_gso(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| {
        code == nix::errno::Errno::EIO as i32 || code == nix::errno::Errno::EINVAL as i32
    })
}

/// EMSGSIZE: the packet is longer than the MTU of the interface by which it would leave.
fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::EMSGSIZE as i32)
}
