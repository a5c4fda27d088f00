// SPDX-License-Identifier: MIT OR Apache-2.0
//! The binding of a UDP socket that other processes hold, too.
//!
//! getsockname(2) would wait for the lock of the socket. Another process with the socket can keep
//! that lock without limit. It sends with `MSG_MORE` while the buffer is full, or from memory that
//! never faults in. `sock_diag(7)` takes no lock of a socket. The request names one socket by
//! address, interface and cookie, and the kernel searches it as it does for a packet
//! (`udp_dump_one` in the kernel). A dump of all sockets would take as long as any user likes, and
//! leave out sockets while others come and go.
//!
//! In: a descriptor and its stated address. Out: whether it is bound to that address. Callers:
//! `udp_socket.rs`, `main.rs`. Bound: one request with one answer.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_UDP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use socket2::{Domain, SockRef};

use crate::raw;

/// Maximum length of the kernel's answer; it has no attributes.
const ANSWER_BYTES: usize = 4096;

/// Whether packets that `interface` receives for `address` reach the UDP socket `socket`, in this
/// network namespace, and the socket is bound to that very address.
pub(crate) fn is_bound(
    socket: BorrowedFd<'_>,
    address: SocketAddr,
    interface: u32,
) -> io::Result<bool> {
    let wanted = cookie(raw::cookie(socket)?);
    // An IPv6 socket that is bound to an IPv4 address has its IPv4-mapped form.
    let (family, any, ip) = match (SockRef::from(&socket).domain()?, address.ip()) {
        (Domain::IPV4, ip) => (AF_INET, SocketId::new_v4(), ip),
        (_, IpAddr::V4(ip)) => (AF_INET6, SocketId::new_v6(), ip.to_ipv6_mapped().into()),
        (_, ip) => (AF_INET6, SocketId::new_v6(), ip),
    };
    if ip.is_ipv4() != (family == AF_INET) {
        return Ok(false);
    }
    // The kernel takes the destination as the address of the socket.
    let (destination_address, destination_port) = (ip, address.port());
    let interface_id = interface;
    let wanted_id =
        SocketId { destination_address, destination_port, interface_id, cookie: wanted, ..any };
    let found = ask(family, wanted_id)?;
    Ok(found.is_some_and(|found| {
        let bound = SocketAddr::new(found.source_address, found.source_port);
        found.cookie == wanted && bound == SocketAddr::new(ip, address.port())
    }))
}

/// Whether the kernel answers at all (`CONFIG_INET_UDP_DIAG`), else its error.
pub(crate) fn is_available() -> io::Result<()> {
    // No socket has port 0: the answer is that there is none.
    ask(AF_INET, SocketId::new_v4()).map(drop)
}

/// The address and the cookie of the UDP socket that `socket_id` names, if there is one.
fn ask(family: u8, socket_id: SocketId) -> io::Result<Option<SocketId>> {
    let kernel = Socket::new(NETLINK_SOCK_DIAG)?;
    // The kernel answers before the send returns, so no read waits.
    kernel.set_non_blocking(true)?;
    kernel.send(&question(family, socket_id), 0)?;
    let mut bytes = Vec::with_capacity(ANSWER_BYTES);
    kernel.recv(&mut bytes, 0)?;
    let message = NetlinkMessage::<SockDiagMessage>::deserialize(&bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    match message.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(answer)) => {
            Ok(Some(answer.header.socket_id))
        }
        NetlinkPayload::Error(error) => match error.to_io() {
            // No socket gets such packets, or another one (`sock_diag_check_cookie`).
            error if is(&error, &[libc::ENOENT, libc::ESTALE]) => Ok(None),
            error => Err(error),
        },
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn is(error: &io::Error, numbers: &[i32]) -> bool {
    error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}

/// A cookie in the form of netlink: the lower half first.
fn cookie(number: u64) -> [u8; 8] {
    let mut cookie = [0; 8];
    let halves = [number as u32, (number >> 32) as u32];
    for (into, half) in cookie.chunks_exact_mut(4).zip(halves) {
        into.copy_from_slice(&half.to_ne_bytes());
    }
    cookie
}

/// A request for the UDP socket of `family` that `socket_id` names.
fn question(family: u8, socket_id: SocketId) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
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
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::fd::AsFd as _;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether `socket` is bound to `address` for the loopback interface.
    fn here(socket: &UdpSocket, address: SocketAddr) -> bool {
        is_bound(socket.as_fd(), address, 1).unwrap()
    }

    #[test]
    fn this_kernel_answers() {
        is_available().unwrap();
    }

    #[test]
    fn a_socket_is_bound_to_its_own_address_only() {
        for host in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let socket = UdpSocket::bind(host).unwrap();
            let address = socket.local_addr().unwrap();
            assert!(here(&socket, address), "{host}");
            let canonical = SocketAddr::new(address.ip().to_canonical(), address.port());
            assert!(here(&socket, canonical), "{host}");
            let elsewhere = SocketAddr::new(address.ip(), address.port() ^ 1);
            assert!(!here(&socket, elsewhere), "{host}");
            let other = SocketAddr::from(([127, 0, 0, 2], address.port()));
            assert!(!here(&socket, other), "{host}");
        }
        for host in ["0.0.0.0:0", "[::]:0"] {
            let socket = UdpSocket::bind(host).unwrap();
            let port = socket.local_addr().unwrap().port();
            assert!(!here(&socket, SocketAddr::from(([127, 0, 0, 1], port))), "{host}");
        }
        let socket = socket2::Socket::new(Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        assert!(!here(&socket.into(), "127.0.0.1:7".parse().unwrap()), "not bound");
    }

    #[test]
    fn a_socket_of_another_device_is_not_bound_here() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        assert!(is_bound(socket.as_fd(), address, 4711).unwrap());
        SockRef::from(&socket).bind_device(Some(b"lo")).unwrap();
        assert!(!is_bound(socket.as_fd(), address, 4711).unwrap());
        assert!(here(&socket, address));
    }

    /// Sockets of other users at the same port, of which some come and go, are not looked at.
    #[test]
    fn one_of_many_is_found_in_one_answer() {
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = own.local_addr().unwrap();
        let other = |number: u16| {
            let [high, low] = number.to_be_bytes();
            UdpSocket::bind((Ipv4Addr::new(127, 1, high, low), address.port())).unwrap()
        };
        let (_, most) =
            nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
        nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, most, most)
            .unwrap();
        let count = u16::try_from(most.min(4000)).unwrap() - 500;
        let _others: Vec<UdpSocket> = (0..count).map(other).collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    drop((count..count + 300).map(other).collect::<Vec<_>>());
                }
            });
            let found = (0..500).filter(|_| here(&own, address)).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(found, 500);
        });
    }

    #[test]
    fn a_request_is_no_dump() {
        let bytes = question(AF_INET, SocketId::new_v4());
        // struct nlmsghdr: length, type, flags (netlink(7)).
        assert_eq!(u16::from_ne_bytes([bytes[6], bytes[7]]), NLM_F_REQUEST);
    }

    #[test]
    fn a_descriptor_that_is_no_socket_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(is_bound(file.as_fd(), "127.0.0.1:7".parse().unwrap(), 1).is_err());
    }

    #[test]
    fn a_cookie_has_its_lower_half_first() {
        let halves = [1_u32.to_ne_bytes(), 2_u32.to_ne_bytes()].concat();
        assert_eq!(cookie(1 | 2 << 32).as_slice(), halves);
    }
}
