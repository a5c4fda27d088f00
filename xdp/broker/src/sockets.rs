// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a UDP socket is bound that others have, too.
//!
//! A descriptor comes in, address and device go out. getsockname(2) would wait for the socket's
//! lock, and who else has the socket can hold that as long as they like: by sending with `MSG_MORE`
//! while the buffer is full, or from memory whose page they let nobody fault in. So the kernel's
//! list of UDP sockets is asked (`sock_diag(7)`), in which the one with the descriptor's cookie is
//! looked for: that waits for no lock of a socket. `companion.rs` calls. Bounds: one dump of the
//! list, of one port where that is known.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use socket2::{Domain, SockRef};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::raw;

/// `SOCK_DIAG_BY_FAMILY` of `sock_diag(7)`.
const BY_FAMILY: u16 = 20;
/// Bytes of the answer that are taken at once: what the kernel sends at most (net/netlink).
const ANSWER_BYTES: usize = 32 << 10;

/// `struct nlmsghdr` (netlink(7)).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    length: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    port: u32,
}

/// `struct inet_diag_sockid` of `sock_diag(7)`; ports in the network's byte order.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct SocketId {
    port: [u8; 2],
    peer_port: [u8; 2],
    address: [u8; 16],
    peer_address: [u8; 16],
    device: u32,
    cookie: [u32; 2],
}

/// `struct inet_diag_req_v2`, with its header.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Question {
    header: Header,
    family: u8,
    protocol: u8,
    extensions: u8,
    unused: u8,
    states: u32,
    id: SocketId,
}

/// The beginning of `struct inet_diag_msg`.
#[derive(FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Answer {
    family: u8,
    state: u8,
    timer: u8,
    retransmissions: u8,
    id: SocketId,
}

/// What a socket is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bound {
    /// The address.
    pub(crate) address: SocketAddr,
    /// The index of the device (`SO_BINDTODEVICE`, socket(7)); 0: to none.
    pub(crate) device: u32,
}

/// What the UDP socket `socket` of this network namespace is bound to; `None`: to nothing, or not
/// to `port`, which is any if it is 0.
pub(crate) fn bound(socket: BorrowedFd<'_>, port: u16) -> io::Result<Option<Bound>> {
    let family = match SockRef::from(&socket).domain()? {
        Domain::IPV4 => libc::AF_INET,
        _ => libc::AF_INET6,
    };
    let cookie = raw::cookie(socket)?;
    let flags = SocketFlags::CLOEXEC;
    let kernel =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG))?;
    send(&kernel, question(family, port).as_bytes(), SendFlags::empty())?;
    let mut bytes = vec![0; ANSWER_BYTES];
    loop {
        // The answer is made while it is fetched: there is nothing to wait for.
        let (count, _) = recv(&kernel, bytes.as_mut_slice(), RecvFlags::DONTWAIT)?;
        let mut rest = bytes.get(..count).unwrap_or(&[]);
        if rest.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let Ok((header, _)) = Header::read_from_prefix(rest) {
            let length = header.length as usize;
            let Some(body) = rest.get(size_of::<Header>()..length) else { break };
            match i32::from(header.kind) {
                libc::NLMSG_DONE => return Ok(None),
                libc::NLMSG_ERROR => return Err(refused(body)),
                _ => {}
            }
            let found = Answer::read_from_prefix(body).ok().map(|(answer, _)| answer);
            if let Some(answer) = found.filter(|answer| answer.id.cookie() == cookie) {
                return Ok(Some(answer.bound()));
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        }
    }
}

/// Asks for all UDP sockets of `family` on `port`.
fn question(family: libc::c_int, port: u16) -> Question {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_DUMP;
    Question {
        header: Header {
            length: size_of::<Question>() as u32,
            kind: BY_FAMILY,
            flags: flags as u16,
            sequence: 1,
            port: 0,
        },
        family: family as u8,
        protocol: libc::IPPROTO_UDP as u8,
        extensions: 0,
        unused: 0,
        states: u32::MAX,
        id: SocketId {
            port: port.to_be_bytes(),
            peer_port: [0; 2],
            address: [0; 16],
            peer_address: [0; 16],
            device: 0,
            cookie: [0; 2],
        },
    }
}

/// The error that an answer begins with, a negative number (netlink(7)).
fn refused(body: &[u8]) -> io::Error {
    let number = i32::read_from_prefix(body).map_or(0, |(number, _)| number);
    io::Error::from_raw_os_error(number.saturating_neg())
}

impl SocketId {
    fn cookie(&self) -> u64 {
        let [low, high] = self.cookie.map(u64::from);
        low | high << 32
    }
}

impl Answer {
    fn bound(&self) -> Bound {
        let SocketId { port, address, device, .. } = self.id;
        let [a, b, c, d, ..] = address;
        let ip = match i32::from(self.family) {
            libc::AF_INET => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            _ => IpAddr::V6(Ipv6Addr::from(address)),
        };
        Bound { address: SocketAddr::new(ip, u16::from_be_bytes(port)), device }
    }
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
                assert_eq!(found, Some(Bound { address, device: 0 }), "{host}");
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
    fn what_the_kernel_refuses_is_told() {
        assert_eq!(refused(&(-2_i32).to_ne_bytes()).raw_os_error(), Some(2));
        assert!(bound(std::fs::File::open("/dev/null").unwrap().as_fd(), 0).is_err());
    }
}
