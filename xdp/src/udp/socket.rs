// SPDX-License-Identifier: MIT OR Apache-2.0
//! One kernel UDP socket with its options.
//!
//! In: single packets and GSO batches. Out: the system calls. quinn-udp makes those that move
//! several packets. Caller: the UDP port. Bounds: those of [`super`].

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use ofi_xdp_core::PeerAddress;
use quinn_udp::{EcnCodepoint, UdpSockRef, UdpSocketState};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use socket2::{Domain, SockRef, Socket, Type};

use super::gro::{Received, receive_one};
use crate::config::TRAFFIC_CLASS;
use crate::fork::Uninherited;

/// A non-blocking UDP socket.
#[derive(Debug)]
pub(super) struct KernelSocket {
    /// In front of its descriptor, as the fields are dropped in this order.
    _uninherited: Uninherited,
    pub(super) socket: UdpSocket,
    state: UdpSocketState,
    /// Whether the next system call gets all buffers, because the last one filled all that it got.
    offer_all: bool,
}

impl KernelSocket {
    /// A socket bound to `address`.
    ///
    /// # Errors
    /// Those of `socket(2)`, `bind(2)` and `setsockopt(2)`.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::prepare(UdpSocket::bind(address)?, address)
    }

    /// A second socket, bound to the address `local` of this one and connected to `peer`. The
    /// kernel delivers the peer's packets to it from now on. Between the two calls it may get
    /// packets of any peer.
    ///
    /// # Errors
    /// Those of [`Self::bind`] and of `connect(2)`.
    pub(super) fn beside(&self, local: SocketAddr, peer: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, None)?;
        socket.set_reuse_port(true)?;
        // The kernel checks the option of the main socket at this moment only. At all other times
        // the address is in use.
        let own = SockRef::from(&self.socket);
        own.set_reuse_port(true)?;
        let bound = socket.bind(&local.into());
        own.set_reuse_port(false)?;
        bound?;
        socket.connect(&peer.into())?;
        Self::prepare(socket.into(), local)
    }

    /// A socket bound to `address` that sends as this one does, and receives nothing worth reading:
    /// its receive buffer is as small as the kernel permits.
    ///
    /// # Errors
    /// Those of [`Self::bind`].
    pub(super) fn sender(&self, address: SocketAddr) -> io::Result<Self> {
        let sender = Self::bind(address)?;
        let socket = SockRef::from(&sender.socket);
        socket.set_recv_buffer_size(0)?;
        // The kernel returns twice the requested size (socket(7), `SO_SNDBUF`).
        let bytes = SockRef::from(&self.socket).send_buffer_size()? / 2;
        if setsockopt(&sender.socket, sockopt::SndBufForce, &bytes).is_err() {
            socket.set_send_buffer_size(bytes)?;
        }
        Ok(sender)
    }

    /// Makes `socket`, which is bound to `address`, one of ours.
    ///
    /// # Errors
    /// Those of `setsockopt(2)`.
    pub(super) fn prepare(socket: UdpSocket, address: SocketAddr) -> io::Result<Self> {
        // Enables non-blocking mode, UDP_GRO, Don't Fragment (IP_PMTUDISC_PROBE) and control
        // messages.
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // Disables two control messages that have no reader here, so that the kernel does not make
        // them.
        turned_off(setsockopt(&socket, sockopt::ReceiveTimestampns, &false))?;
        if address.is_ipv4() {
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &false)?;
            SockRef::from(&socket).set_tos_v4(TRAFFIC_CLASS.into())?;
        } else {
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &false)?;
            SockRef::from(&socket).set_tclass_v6(TRAFFIC_CLASS.into())?;
        }
        Ok(Self { _uninherited: Uninherited::new(&socket), socket, state, offer_all: false })
    }

    /// Asks the kernel for packets; returns whether there were any.
    pub(super) fn fetch(&mut self, received: &mut Received) -> bool {
        let Self { socket, state, offer_all, .. } = self;
        received.fetch(
            offer_all,
            |buffer, control| receive_one(socket.as_fd(), buffer, control),
            // Errors mean "no packet", as in [`receive_one`].
            |buffers, meta| state.recv(UdpSockRef::from(&*socket), buffers, meta).ok(),
        )
    }

    /// Maximum number of packets of a GSO batch.
    pub(super) fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// One `sendmsg(2)`: a batch of packets of `segment` bytes.
    pub(super) fn send_gso(
        &self,
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
        self.state.try_send(UdpSockRef::from(&self.socket), &transmit)
    }

    /// Sets whether the kernel fragments packets that are longer than the MTU, or refuses them, as
    /// it does by default. The socket is bound to one address and sends to addresses of its family
    /// only.
    ///
    /// # Errors
    /// Those of `setsockopt(2)`.
    pub(super) fn permit_fragments(&self, is_ipv4: bool, permit: bool) -> io::Result<()> {
        if is_ipv4 {
            let (may, must_not) = (Ipv4PathMtuDiscovery::DONT, Ipv4PathMtuDiscovery::PROBE);
            return Ok(set_ip_mtu_discover(&self.socket, if permit { may } else { must_not })?);
        }
        let (may, must_not) = (Ipv6PathMtuDiscovery::DONT, Ipv6PathMtuDiscovery::PROBE);
        set_ipv6_mtu_discover(&self.socket, if permit { may } else { must_not })?;
        // quinn-udp also forbids fragments by this option, which alone makes the kernel refuse them
        // (`__ip6_append_data`, net/ipv6/ip6_output.c).
        Ok(setsockopt(&self.socket, sockopt::Ipv6DontFrag, &!permit)?)
    }

    /// Enlarges the socket's buffers to `wanted` packets of `payload` bytes each way, and returns
    /// the capacity of the receive buffer. The kernel charges a packet with all its memory
    /// (`skb->truesize`): data, headers and `skb_shared_info`, rounded up to a power of two, and
    /// the `sk_buff`. In return it doubles the requested size (socket(7), `SO_RCVBUF`).
    ///
    /// # Errors
    /// Those of `setsockopt(2)`.
    pub(super) fn grow_buffers(&self, payload: usize, wanted: u16) -> io::Result<u16> {
        const HEADERS_AND_INFO: usize = 512;
        const SK_BUFF: usize = 256;
        let socket = SockRef::from(&self.socket);
        let packet = (payload + HEADERS_AND_INFO).next_power_of_two() + SK_BUFF;
        let bytes = packet * usize::from(wanted);
        // Sizes beyond net.core.rmem_max and wmem_max need CAP_NET_ADMIN.
        if setsockopt(&self.socket, sockopt::RcvBufForce, &bytes).is_err() {
            socket.set_recv_buffer_size(bytes)?;
        }
        if setsockopt(&self.socket, sockopt::SndBufForce, &bytes).is_err() {
            socket.set_send_buffer_size(bytes)?;
        }
        let granted = socket.recv_buffer_size()? / 2;
        Ok(u16::try_from(granted / packet).unwrap_or(u16::MAX).max(1))
    }
}

/// The outcome of turning an option off. A system that does not know the option has it off:
/// emulated kernels (QEMU's user mode, gVisor) have fewer.
fn turned_off(outcome: nix::Result<()>) -> io::Result<()> {
    match outcome {
        Err(Errno::ENOPROTOOPT) => Ok(()),
        other => other.map_err(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_the_system_does_not_know_is_off() {
        assert!(turned_off(Ok(())).is_ok() && turned_off(Err(Errno::ENOPROTOOPT)).is_ok());
        let error = turned_off(Err(Errno::ENOBUFS)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::ENOBUFS as i32));
    }
}
