// SPDX-License-Identifier: MIT OR Apache-2.0
//! The address of a UDP socket that other processes hold, too.
//!
//! getsockname(2) would wait for the lock of the socket. Another holder of the socket can keep that
//! lock without limit: by sending with `MSG_MORE` while the buffer is full, or from memory that
//! never faults in. The kernel's list of UDP sockets (`sock_diag(7)`) takes no lock of a socket;
//! the socket with the descriptor's cookie is searched in it.
//!
//! In: a descriptor. Out: address and device. Caller: `udp_socket.rs`. Bound: one dump of the list,
//! of one port where that is known.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_UDP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use socket2::{Domain, SockRef};

use crate::raw;

/// Maximum length of one datagram of the kernel's answer (net/netlink).
const ANSWER_BYTES: usize = 32 << 10;

/// The address and device of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BoundAddress {
    /// The address.
    pub(crate) address: SocketAddr,
    /// Index of the device (`SO_BINDTODEVICE`, socket(7)); 0 without one.
    pub(crate) device: u32,
}

/// The address of the UDP socket `socket` in this network namespace; `None` if it is not bound, or
/// not to `port`. Port 0 stands for any.
pub(crate) fn bound(socket: BorrowedFd<'_>, port: u16) -> io::Result<Option<BoundAddress>> {
    let (family, any) = match SockRef::from(&socket).domain()? {
        Domain::IPV4 => (AF_INET, SocketId::new_v4()),
        _ => (AF_INET6, SocketId::new_v6()),
    };
    let wanted = cookie(raw::cookie(socket)?);
    let kernel = Socket::new(NETLINK_SOCK_DIAG)?;
    // The kernel makes the answer while it is read, so no read waits.
    kernel.set_non_blocking(true)?;
    kernel.send(&question(family, SocketId { source_port: port, ..any }), 0)?;
    let mut bytes = Vec::with_capacity(ANSWER_BYTES);
    // bound: the number of sockets
    loop {
        bytes.clear();
        if kernel.recv(&mut bytes, 0)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(None),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(answer))
                    if answer.header.socket_id.cookie == wanted =>
                {
                    let SocketId { source_address, source_port, interface_id, .. } =
                        answer.header.socket_id;
                    let address = SocketAddr::new(source_address, source_port);
                    return Ok(Some(BoundAddress { address, device: interface_id }));
                }
                _ => {}
            }
            let length = (message.header.length as usize).next_multiple_of(4);
            rest = rest.get(length..).unwrap_or(&[]);
        }
    }
}

/// A cookie in the form of the list: the lower half first.
fn cookie(number: u64) -> [u8; 8] {
    let mut cookie = [0; 8];
    let halves = [number as u32, (number >> 32) as u32];
    for (into, half) in cookie.chunks_exact_mut(4).zip(halves) {
        into.copy_from_slice(&half.to_ne_bytes());
    }
    cookie
}

/// A request for all UDP sockets of `family` that match `socket_id`.
fn question(family: u8, socket_id: SocketId) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let request = InetRequest {
        family,
        protocol: IPPROTO_UDP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id,
    };
    let payload = NetlinkPayload::from(SockDiagMessage::InetRequest(request));
    let mut message = NetlinkMessage::new(header, payload);
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;

    #[test]
    fn the_kernel_lists_what_is_bound() {
        for host in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let socket = UdpSocket::bind(host).unwrap();
            let address = socket.local_addr().unwrap();
            for port in [0, address.port()] {
                let found = bound(socket.as_fd(), port).unwrap();
                assert_eq!(found, Some(BoundAddress { address, device: 0 }), "{host}");
            }
            assert_eq!(bound(socket.as_fd(), address.port() ^ 1).unwrap(), None, "{host}");
        }
        let socket = socket2::Socket::new(Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        assert_eq!(bound(socket.as_fd(), 0).unwrap(), None, "not bound");
        socket.bind_device(Some(b"lo")).unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(&any.into()).unwrap();
        let lo = nix::net::if_::if_nametoindex("lo").unwrap();
        assert_eq!(bound(socket.as_fd(), 0).unwrap().unwrap().device, lo);
    }

    #[test]
    fn one_of_many_is_found() {
        let sockets: Vec<UdpSocket> =
            (0..1000).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        for socket in [sockets.first(), sockets.get(500), sockets.last()] {
            let socket = socket.unwrap();
            let found = bound(socket.as_fd(), 0).unwrap().unwrap();
            assert_eq!(found.address, socket.local_addr().unwrap());
        }
    }

    #[test]
    fn a_descriptor_that_is_no_socket_is_refused() {
        assert!(bound(std::fs::File::open("/dev/null").unwrap().as_fd(), 0).is_err());
    }

    #[test]
    fn a_cookie_has_its_lower_half_first() {
        let halves = [1_u32.to_ne_bytes(), 2_u32.to_ne_bytes()].concat();
        assert_eq!(cookie(1 | 2 << 32).as_slice(), halves);
    }
}
