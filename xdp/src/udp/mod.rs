// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets through a kernel UDP socket.
//!
//! Packets come in one by one and leave in trains: consecutive ones of one size to one destination
//! go to the kernel in one piece (`UDP_SEGMENT`, udp(7)), and the other way the kernel hands over
//! what it joined (`UDP_GRO`). quinn-udp makes the system calls that move several. A packet that
//! the kernel refuses is lost on the way, as the engine expects of any network; nothing here ends
//! the port. Bounds: [`train::BYTES`] and [`train::TRAINS_MAX`] to send, [`receive::BUFFERS`]
//! buffers to receive.

mod receive;
mod train;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::sys::socket::{setsockopt, sockopt};
use ofi_xdp_core::{Datagram, PeerAddress, Transmit, Transmitted};
use quinn_udp::{EcnCodepoint, UdpSockRef, UdpSocketState};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use socket2::SockRef;

use crate::config::{PAYLOAD_MAX, TRAFFIC_CLASS};
use crate::stats::PortStats;
use receive::{Received, receive_one};
use train::Trains;

pub(crate) use train::Divert;

/// Bytes of IPv4 and UDP headers.
const HEADERS_V4: usize = 28;
/// Bytes of IPv6 and UDP headers.
const HEADERS_V6: usize = 48;

/// A non-blocking kernel UDP socket, bound to one address.
#[derive(Debug)]
pub struct UdpPort {
    socket: UdpSocket,
    state: UdpSocketState,
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
        let socket = UdpSocket::bind(address)?;
        // Sets non-blocking, UDP_GRO, Don't Fragment (IP_PMTUDISC_PROBE) and the cmsgs of the ECN
        // bits …
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // … and two cmsgs that nobody here reads, which the kernel need not make for each packet.
        setsockopt(&socket, sockopt::ReceiveTimestampns, &false)?;
        if address.is_ipv4() {
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &false)?;
            SockRef::from(&socket).set_tos_v4(TRAFFIC_CLASS.into())?;
        } else {
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &false)?;
            SockRef::from(&socket).set_tclass_v6(TRAFFIC_CLASS.into())?;
        }
        let payload_max = payload_max(mtu, address.ip());
        let window_packets = grow_buffers(&socket, payload_max, window_packets)?;
        let local = socket.local_addr()?;
        Ok(Self {
            trains: Trains::new(state.max_gso_segments()),
            received: Received::new(),
            socket,
            state,
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
        self.socket.as_raw_fd()
    }

    /// The socket, for passing it on.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Hands at most `budget` packets to `sink`, and returns how many. One system call unless
    /// packets of the last one are left.
    pub fn receive(
        &mut self,
        budget: u16,
        stats: &mut PortStats,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> u16 {
        let mut count = self.received.deliver(budget, sink);
        if count < budget && self.fetch() {
            count += self.received.deliver(budget - count, sink);
        }
        stats.udp_received += u64::from(count);
        count
    }

    /// Asks the kernel for packets; says whether there were any.
    fn fetch(&mut self) -> bool {
        let Self { socket, state, received, .. } = self;
        received.fetch(
            |buffer, control| receive_one(socket.as_fd(), buffer, control),
            // Errors are what they are there.
            |buffers, meta| state.recv(UdpSockRef::from(&*socket), buffers, meta).ok(),
        )
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

    /// Offers packets that are queued to another way: `divert` says which, and `take` whether it
    /// took one. Returns whether a long train is left.
    pub(crate) fn divert(
        &mut self,
        divert: Divert,
        take: impl FnMut(Transmit, &[u8]) -> bool,
    ) -> bool {
        self.trains.divert(divert, take)
    }

    /// Sends everything queued. One system call for each long train, or else for each packet.
    pub fn flush(&mut self, stats: &mut PortStats) {
        let Self { socket, state, trains, local, .. } = self;
        let mut segments = true;
        let mut too_long = false;
        trains.drain(|train, bytes| {
            stats.udp_transmitted += u64::from(train.count);
            if train.is_joined() && segments {
                stats.udp_sends += 1;
                match send_train(state, socket, train.to.address, bytes, train.segment) {
                    // EIO, EINVAL: this device or this path cannot cut it apart (udp(7),
                    // UDP_SEGMENT).
                    Err(error) if is_no_gso(&error) || is_too_long(&error) => {
                        log::debug!("{local}: sending packet by packet: {error}");
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
                // Without control data, which the kernel would have to read.
                let mut sent = socket.send_to(packet, train.to.address.socket_addr());
                if sent.as_ref().is_err_and(is_too_long) {
                    too_long = true;
                    allow_fragments(socket, *local);
                    sent = socket.send_to(packet, train.to.address.socket_addr());
                }
                stats.udp_lost += u64::from(sent.is_err());
            }
        });
        // A smaller MTU may grow again, and with it what can be joined.
        if !segments && !too_long {
            self.trains.set_segments_max(1);
        }
    }
}

/// Has the kernel hand over packets of `socket` one by one from now on. For the companion of an
/// `AF_XDP` socket in generic mode: the kernel would join packets for this socket (GRO) before the
/// XDP program sees them.
///
/// # Errors
/// What `setsockopt(2)` fails with.
pub(crate) fn receive_unjoined(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::UdpGroSegment, &false)?)
}

/// One `sendmsg(2)`: a train of packets of `segment` bytes.
fn send_train(
    state: &UdpSocketState,
    socket: &UdpSocket,
    to: PeerAddress,
    contents: &[u8],
    segment: usize,
) -> io::Result<()> {
    let transmit = quinn_udp::Transmit {
        destination: to.socket_addr(),
        ecn: EcnCodepoint::from_bits(TRAFFIC_CLASS),
        contents,
        segment_size: Some(segment),
        src_ip: None,
    };
    state.try_send(UdpSockRef::from(socket), &transmit)
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
fn allow_fragments(socket: &UdpSocket, local: SocketAddr) {
    let allowed = match local {
        SocketAddr::V4(_) => set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DONT),
        SocketAddr::V6(_) => set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DONT),
    };
    // Where the port hears of it, it has warned already.
    log::info!("{local}: the MTU is too small for some packets, which go in fragments");
    if let Err(error) = allowed {
        log::warn!("{local}: they cannot: {error}");
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

/// Makes the socket's buffers large enough for `wanted` packets each way if that can be, and
/// returns how many the receive buffer holds. The kernel charges a packet with all the memory it
/// occupies (`skb->truesize`): the next power of two after data, headers and `skb_shared_info`, and
/// the `sk_buff`; and doubles what is asked for in return (socket(7), `SO_RCVBUF`).
fn grow_buffers(socket: &UdpSocket, payload: usize, wanted: u16) -> io::Result<u16> {
    const HEADERS_AND_INFO: usize = 512;
    const SK_BUFF: usize = 256;
    let packet = (payload + HEADERS_AND_INFO).next_power_of_two() + SK_BUFF;
    let bytes = packet * usize::from(wanted);
    // Beyond net.core.rmem_max and wmem_max only with CAP_NET_ADMIN.
    if setsockopt(&socket.as_fd(), sockopt::RcvBufForce, &bytes).is_err() {
        SockRef::from(socket).set_recv_buffer_size(bytes)?;
    }
    if setsockopt(&socket.as_fd(), sockopt::SndBufForce, &bytes).is_err() {
        SockRef::from(socket).set_send_buffer_size(bytes)?;
    }
    let granted = SockRef::from(socket).recv_buffer_size()? / 2;
    Ok(u16::try_from(granted / packet).unwrap_or(u16::MAX).max(1))
}
