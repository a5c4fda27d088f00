// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets through a kernel UDP socket.
//!
//! Packets come in one by one and leave in trains: consecutive ones of one size to one destination
//! go to the kernel in one piece (`UDP_SEGMENT`, udp(7)), and the other way the kernel hands over
//! what it joined (`UDP_GRO`). quinn-udp makes the system calls that move several. A packet that
//! the kernel refuses is lost on the way, as the engine expects of any network; nothing here ends
//! the port. Bounds: [`train::BYTES`] and [`train::TRAINS_MAX`] to send, [`receive::BUFFERS`]
//! buffers to receive.

mod near;
mod receive;
mod source;
mod train;

#[cfg(test)]
mod tests;

use std::io;
use std::iter;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::sys::socket::{setsockopt, sockopt};
use ofi_xdp_core::{Datagram, Instant, Transmit, Transmitted};

use crate::config::PAYLOAD_MAX;
use crate::stats::PortStats;
use near::Near;
use receive::Received;
use source::Source;
use train::Trains;

/// Bytes of IPv4 and UDP headers.
const HEADERS_V4: usize = 28;
/// Bytes of IPv6 and UDP headers.
const HEADERS_V6: usize = 48;

/// A non-blocking kernel UDP socket, bound to one address; and another at the same address that is
/// connected to the near peer, if there is one ([`near`]).
#[derive(Debug)]
pub struct UdpPort {
    main: Source,
    near: Near,
    local: SocketAddr,
    trains: Trains,
    received: Received,
    payload_max: usize,
    window_packets: u16,
}

impl UdpPort {
    /// A socket bound to `address`, whose interface sends IP packets of at most `mtu` bytes, with a
    /// receive buffer for `window_packets` packets if the system grants that.
    ///
    /// # Errors
    /// What `socket(2)`, `bind(2)` or `setsockopt(2)` fail with.
    pub fn bind(address: SocketAddr, mtu: u32, window_packets: u16) -> io::Result<Self> {
        let main = Source::bind(address)?;
        let payload_max = payload_max(mtu, address.ip());
        let window_packets = main.grow_buffers(payload_max, window_packets)?;
        let local = main.socket.local_addr()?;
        Ok(Self {
            trains: Trains::new(main.segments_max()),
            received: Received::new(),
            main,
            near: Near::default(),
            local,
            payload_max,
            window_packets,
        })
    }

    /// The address that the socket is bound to.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The largest packet that fits in the MTU, in bytes.
    #[must_use]
    pub const fn payload_max(&self) -> usize {
        self.payload_max
    }

    /// How many packets of that size the receive buffer holds.
    #[must_use]
    pub const fn window_packets(&self) -> u16 {
        self.window_packets
    }

    /// The socket, readable when a packet arrived.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.main.socket.as_raw_fd()
    }

    /// The socket, for passing it on.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.main.socket.as_fd()
    }

    /// All sockets, readable when a packet arrived.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let sources = iter::once(&self.main).chain(self.near.source());
        sources.map(|source| source.socket.as_fd())
    }

    /// Makes the next [`Self::receive`] look at all of them, as [`Near::look_everywhere`] says.
    pub(crate) fn look_everywhere(&mut self, usual_first: bool) {
        self.near.look_everywhere(usual_first);
    }

    /// Sees to the near peer, after a flush; whether there is another socket now. Not for ports
    /// whose packets leave another way.
    #[inline]
    pub(crate) fn draw_near(&mut self) -> bool {
        self.near.is_due() && self.connect()
    }

    #[cold]
    fn connect(&mut self) -> bool {
        let Self { near, main, local, payload_max, window_packets, .. } = self;
        let connected = near.connect(main, *local).and_then(|new| match new {
            Some(new) => new.grow_buffers(*payload_max, *window_packets).map(|_| true),
            None => Ok(false),
        });
        connected.unwrap_or_else(|error| {
            log::debug!("{local}: no socket for the near peer: {error}");
            near.source().is_some()
        })
    }

    /// From now on there is no near peer. What it has sent and is not read is lost.
    pub(crate) fn forget_near(&mut self) {
        self.near = Near::default();
    }

    /// Whether packets are left of what came from the kernel, so that no socket tells of them.
    pub(crate) const fn has_more(&self) -> bool {
        self.received.is_left()
    }

    /// Hands at most `budget` packets to `sink`, and returns how many. One system call unless
    /// packets of the last one are left.
    pub fn receive(
        &mut self,
        now: Instant,
        budget: u16,
        stats: &mut PortStats,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> u16 {
        let mut count = self.received.deliver(budget, sink);
        if count < budget && self.near.fetch(now, &mut self.main, &mut self.received) {
            count += self.received.deliver(budget - count, sink);
        }
        stats.udp_received += u64::from(count);
        count
    }

    /// Offers a buffer of [`Self::payload_max`] bytes to `fill`, and queues what it wrote.
    pub fn transmit(&mut self, fill: impl FnOnce(&mut [u8]) -> Option<Transmit>) -> Transmitted {
        let Some(buffer) = self.trains.buffer(self.payload_max) else {
            return Transmitted::Full;
        };
        let Some(transmit) = fill(buffer) else {
            return Transmitted::Nothing;
        };
        self.trains.push(Transmit { len: transmit.len.min(self.payload_max), ..transmit });
        Transmitted::Sent
    }

    /// Whether [`Self::transmit`] would find room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.trains.has_room(self.payload_max)
    }

    /// Whether the kernel takes packets joined.
    #[must_use]
    pub const fn joins(&self) -> bool {
        self.trains.segments_max() > 1
    }

    /// Offers the packets of short trains to another way, until it takes one no more.
    pub(crate) fn divert(&mut self, take: impl FnMut(Transmit, &[u8]) -> bool) {
        self.trains.divert(take);
    }

    /// Sends everything queued. One system call for each long train, or else for each packet.
    pub fn flush(&mut self, stats: &mut PortStats) {
        let Self { main, near, trains, local, .. } = self;
        let mut segments = true;
        trains.drain(|train, bytes| {
            let to = train.to.address;
            stats.udp_transmitted += u64::from(train.count);
            if train.is_joined() && segments {
                stats.udp_sends += 1;
                match main.send_train(to, bytes, train.segment) {
                    // EIO, EINVAL: this device or this path cannot cut it apart (udp(7),
                    // UDP_SEGMENT). EMSGSIZE, in older kernels EINVAL: its packets are longer than
                    // the MTU, and of a train the kernel makes no fragments.
                    Err(error) if is_no_gso(&error) || is_too_long(&error) => {
                        log::trace!("{local}: sending packet by packet: {error}");
                        segments = false;
                    }
                    Err(_) => {
                        stats.udp_lost += u64::from(train.count);
                        return;
                    }
                    Ok(()) => return,
                }
            }
            for packet in bytes.chunks(train.segment) {
                stats.udp_sends += 1;
                // An error may be that of an earlier packet (ICMP), and this one has not left.
                if near.socket_to(to).is_some_and(|socket| socket.send(packet).is_ok()) {
                    continue;
                }
                // Without control data, which the kernel would have to read.
                let mut sent = main.socket.send_to(packet, to.socket_addr());
                if sent.as_ref().is_err_and(is_too_long) {
                    allow_fragments([Some(&*main), near.source()], *local);
                    sent = main.socket.send_to(packet, to.socket_addr());
                }
                stats.udp_lost += u64::from(sent.is_err());
            }
        });
        if !segments {
            self.trains.pause();
        }
    }
}

/// Has the kernel hand over packets of `socket` joined from now on, as it does from the beginning,
/// or one by one. The latter is for the companion of an `AF_XDP` socket in generic mode: the kernel
/// would join packets for this socket (GRO) before the XDP program sees them.
///
/// # Errors
/// What `setsockopt(2)` fails with.
pub(crate) fn receive_joined(socket: BorrowedFd<'_>, joined: bool) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::UdpGroSegment, &joined)?)
}

fn is_no_gso(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| {
        code == nix::errno::Errno::EIO as i32 || code == nix::errno::Errno::EINVAL as i32
    })
}

/// EMSGSIZE: the packet is longer than the interface's MTU, which was larger when the port opened.
fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::EMSGSIZE as i32)
}

/// Has the kernel cut packets that are longer than the MTU into fragments from now on.
#[cold]
fn allow_fragments(sources: [Option<&Source>; 2], local: SocketAddr) {
    // Where the port hears of it, it has warned already.
    log::info!("{local}: the MTU is too small for some packets, which go in fragments");
    for source in sources.into_iter().flatten() {
        if let Err(error) = source.allow_fragments(local.is_ipv4()) {
            log::warn!("{local}: they cannot: {error}");
        }
    }
}

/// What is left of `mtu` for the packet.
pub(crate) fn payload_max(mtu: u32, ip: IpAddr) -> usize {
    (mtu as usize).saturating_sub(headers(ip)).min(PAYLOAD_MAX)
}

/// The smallest MTU that leaves `payload` bytes.
pub(crate) fn mtu(payload: usize, ip: IpAddr) -> u32 {
    u32::try_from(payload + headers(ip)).unwrap_or(u32::MAX)
}

const fn headers(ip: IpAddr) -> usize {
    if ip.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 }
}
