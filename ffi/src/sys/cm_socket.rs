// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's side of a socket of connection management: opened, and asked for messages of ICMP.
//!
//! In: a local address. Out: a UDP socket that does not block and keeps errors (`ip(7)`,
//! `IP_RECVERR`). Called by the connection manager. Bound: one system call a step.

use std::ffi::c_int;
use std::io::IoSliceMut;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::cmsg_space;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage, bind,
    recvmsg, setsockopt, socket, sockopt,
};

use crate::sys::errno::Error;

/// A socket bound to `address`; one of IPv6 takes no packets of IPv4.
///
/// # Errors
/// [`Error::Os`]: those of `socket(2)`, `setsockopt(2)` and `bind(2)`.
pub(crate) fn open(address: SocketAddr) -> Result<UdpSocket, Error> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket: OwnedFd = socket(family, SockType::Datagram, flags, None)?;
    if address.is_ipv4() {
        setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
    } else {
        setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
        setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
    }
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(UdpSocket::from(socket))
}

/// The next message of ICMP about a packet of this socket: the packet's destination, how many bytes
/// of its beginning are in `quoted` now, and the error number that stands for the message.
pub(crate) fn next_error(
    socket: &UdpSocket,
    quoted: &mut [u8],
) -> Option<(SocketAddr, usize, c_int)> {
    let mut control = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    let mut buffers = [IoSliceMut::new(quoted)];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut buffers, Some(&mut control), flags)
            .ok()?;
    let to = message.address.as_ref().and_then(socket_addr)?;
    let errno = message.cmsgs().ok()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
            c_int::try_from(error.ee_errno).ok()
        }
        _ => None,
    });
    Some((to, message.bytes, errno?))
}

fn socket_addr(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(SocketAddrV4::new(v4.ip(), v4.port()).into());
    }
    let v6 = address.as_sockaddr_in6()?;
    Some(SocketAddrV6::new(v6.ip(), v6.port(), 0, v6.scope_id()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd as _;

    #[test]
    fn a_port_without_a_socket_is_an_error_with_its_address() {
        for ip in ["127.0.0.1:0", "[::1]:0"] {
            let ours = open(ip.parse().unwrap()).unwrap();
            let mut quoted = [0; 64];
            assert_eq!(next_error(&ours, &mut quoted), None);
            let closed = open(ip.parse().unwrap()).unwrap().local_addr().unwrap();
            ours.send_to(b"a packet", closed).unwrap();
            poll(&mut [PollFd::new(ours.as_fd(), PollFlags::POLLERR)], PollTimeout::MAX).unwrap();
            let error = next_error(&ours, &mut quoted);
            assert_eq!(error, Some((closed, 8, libc::ECONNREFUSED)));
            assert_eq!(quoted[..8], *b"a packet");
        }
    }

    #[test]
    fn an_address_has_one_socket() {
        let first = open("127.0.0.1:0".parse().unwrap()).unwrap();
        let second = open(first.local_addr().unwrap());
        assert_eq!(second.err(), Some(Error::Os(libc::EADDRINUSE)));
    }
}
