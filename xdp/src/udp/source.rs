// SPDX-License-Identifier: MIT OR Apache-2.0
//! One kernel UDP socket, and what is asked of the kernel with it.
//!
//! Single packets and trains go out, packets and trains come in. quinn-udp makes the system calls
//! that move several. Called by the port; bounds: those of [`super`].

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;

use nix::sys::socket::{setsockopt, sockopt};
use ofi_xdp_core::PeerAddress;
use quinn_udp::{EcnCodepoint, UdpSockRef, UdpSocketState};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use socket2::{Domain, SockRef, Socket, Type};

use super::receive::{Received, receive_one};
use crate::config::TRAFFIC_CLASS;

/// A non-blocking UDP socket.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) socket: UdpSocket,
    state: UdpSocketState,
    /// The next system call is offered all buffers: the last one filled what it was offered.
    many: bool,
}

impl Source {
    /// A socket bound to `address`.
    ///
    /// # Errors
    /// What `socket(2)`, `bind(2)` or `setsockopt(2)` fail with.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::prepare(UdpSocket::bind(address)?, address)
    }

    /// Another socket, bound to the address `local` of this one, and connected to `peer`: the
    /// kernel gives it the peer's packets from now on. In between it may get anybody's.
    ///
    /// # Errors
    /// As [`Self::bind`], and what `connect(2)` fails with.
    pub(super) fn beside(&self, local: SocketAddr, peer: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, None)?;
        socket.set_reuse_port(true)?;
        // The kernel asks this one at that moment only; at any other the address is in use.
        let own = SockRef::from(&self.socket);
        own.set_reuse_port(true)?;
        let bound = socket.bind(&local.into());
        own.set_reuse_port(false)?;
        bound?;
        socket.connect(&peer.into())?;
        Self::prepare(socket.into(), local)
    }

    fn prepare(socket: UdpSocket, address: SocketAddr) -> io::Result<Self> {
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
        Ok(Self { socket, state, many: false })
    }

    /// Asks the kernel for packets; says whether there were any.
    pub(super) fn fetch(&mut self, received: &mut Received) -> bool {
        let Self { socket, state, many } = self;
        received.fetch(
            many,
            |buffer, control| receive_one(socket.as_fd(), buffer, control),
            // Errors are what they are there.
            |buffers, meta| state.recv(UdpSockRef::from(&*socket), buffers, meta).ok(),
        )
    }

    /// The most packets that the kernel takes joined.
    pub(super) fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// One `sendmsg(2)`: a train of packets of `segment` bytes.
    pub(super) fn send_train(
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

    /// Has the kernel cut packets that are longer than the MTU into fragments from now on. The
    /// socket is bound to one address and sends to others of its family only.
    ///
    /// # Errors
    /// What `setsockopt(2)` fails with.
    pub(super) fn allow_fragments(&self, is_ipv4: bool) -> io::Result<()> {
        if is_ipv4 {
            return Ok(set_ip_mtu_discover(&self.socket, Ipv4PathMtuDiscovery::DONT)?);
        }
        set_ipv6_mtu_discover(&self.socket, Ipv6PathMtuDiscovery::DONT)?;
        // quinn-udp forbids them by this option, too, and that alone is enough for the kernel
        // (`__ip6_append_data`, net/ipv6/ip6_output.c).
        Ok(setsockopt(&self.socket, sockopt::Ipv6DontFrag, &false)?)
    }

    /// Makes the socket's buffers large enough for `wanted` packets of `payload` bytes each way if
    /// that can be, and returns how many the receive buffer holds. The kernel charges a packet with
    /// all the memory it occupies (`skb->truesize`): the next power of two after data, headers and
    /// `skb_shared_info`, and the `sk_buff`; and doubles what is asked for in return (socket(7),
    /// `SO_RCVBUF`).
    ///
    /// # Errors
    /// What `setsockopt(2)` fails with.
    pub(super) fn grow_buffers(&self, payload: usize, wanted: u16) -> io::Result<u16> {
        const HEADERS_AND_INFO: usize = 512;
        const SK_BUFF: usize = 256;
        let socket = SockRef::from(&self.socket);
        let packet = (payload + HEADERS_AND_INFO).next_power_of_two() + SK_BUFF;
        let bytes = packet * usize::from(wanted);
        // Beyond net.core.rmem_max and wmem_max only with CAP_NET_ADMIN.
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
