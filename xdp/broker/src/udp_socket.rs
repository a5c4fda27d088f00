// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel socket that a client passes: the proof that it owns an address.
//!
//! A valid socket is a UDP socket of the broker's network namespace, bound to one address of the
//! interface. A socket that is bound to another device (`SO_BINDTODEVICE`, which every user may set
//! once) proves nothing. The kernel gives its port on this interface to other sockets. The broker
//! keeps the socket while the grant lives, so the port stays in use. The binding is checked again
//! ([`UdpSocketProof::is_bound`]). Reason: a socket can release a port that the kernel chose
//! (`connect(2)` to `AF_UNSPEC`), and can be bound to a device later.
//!
//! In: a descriptor. Out: a [`UdpSocketProof`], or the reason for a refusal. Caller: `grants.rs`.
//! Bounds: those of `sock_diag.rs`.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use ofi_xdp_datapath::InterfaceInfo;
use socket2::{Domain, Protocol, SockRef, Type};

use crate::raw;
use crate::sock_diag;

/// A checked socket.
#[derive(Debug)]
pub(crate) struct UdpSocketProof {
    socket: OwnedFd,
    address: SocketAddr,
    /// Index of the interface.
    interface: u32,
}

impl UdpSocketProof {
    /// Whether `descriptor` is a UDP socket. Descriptors of other kinds may block when closed
    /// (`intake_process.rs`).
    pub(crate) fn is_udp(descriptor: &OwnedFd) -> bool {
        let reference = SockRef::from(descriptor);
        let domain = reference.domain();
        let ip = |domain| domain == Domain::IPV4 || domain == Domain::IPV6;
        domain.is_ok_and(ip)
            && matches!(reference.r#type(), Ok(Type::DGRAM))
            && matches!(reference.protocol(), Ok(Some(Protocol::UDP)))
    }

    /// Checks a client's UDP socket, which is stated to be bound to `address`, against the broker's
    /// network `namespace` and the requested `interface`, one of `all`.
    pub(crate) fn check(
        socket: OwnedFd,
        address: SocketAddr,
        namespace: u64,
        (interface, all): (&InterfaceInfo, &[InterfaceInfo]),
    ) -> Result<Self, String> {
        let os = |error: io::Error| format!("the socket passed along: {error}");
        if raw::namespace(socket.as_fd()).map_err(os)? != namespace {
            return Err(
                "xdp-broker serves another network namespace; run one in this one, too".to_owned()
            );
        }
        let (ip, name) = (address.ip(), &interface.name);
        if !interface.carries(ip, all) {
            return Err(format!("address {ip} is not on interface {name}"));
        }
        let udp_socket = Self { socket, address, interface: interface.index };
        if !udp_socket.ask().map_err(os)? {
            return Err(format!("the socket passed along is not bound to {address} on {name}"));
        }
        Ok(udp_socket)
    }

    /// The address of the socket.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the socket is still bound to it for packets of the interface; `true` if that is
    /// unknown, for lack of memory or descriptors.
    pub(crate) fn is_bound(&self) -> bool {
        self.ask().unwrap_or(true)
    }

    fn ask(&self) -> io::Result<bool> {
        sock_diag::is_bound(self.socket.as_fd(), self.address, self.interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    fn loopback() -> InterfaceInfo {
        let interfaces = ofi_xdp_datapath::interfaces().unwrap();
        interfaces.into_iter().find(|interface| interface.loopback).unwrap()
    }

    fn here() -> u64 {
        raw::namespace(UdpSocket::bind("127.0.0.1:0").unwrap().as_fd()).unwrap()
    }

    fn check(socket: OwnedFd, address: SocketAddr) -> Result<UdpSocketProof, String> {
        UdpSocketProof::check(socket, address, here(), (&loopback(), &[]))
    }

    #[test]
    fn a_bound_udp_socket_is_its_own_proof() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let udp_socket = check(socket.into(), address).unwrap();
        assert_eq!(udp_socket.address(), address);
        assert!(udp_socket.is_bound());
    }

    #[test]
    fn a_socket_of_another_device_proves_nothing() {
        let namespace = here();
        let other = InterfaceInfo { index: u32::MAX, ..loopback() };
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let own = || OwnedFd::from(socket.try_clone().unwrap());
        let proof = UdpSocketProof::check(own(), address, namespace, (&other, &[])).unwrap();
        assert!(proof.is_bound(), "to every device");
        SockRef::from(&socket).bind_device(Some(b"lo")).unwrap();
        assert!(!proof.is_bound(), "to lo alone");
        let refused = UdpSocketProof::check(own(), address, namespace, (&other, &[])).unwrap_err();
        assert_eq!(refused, format!("the socket passed along is not bound to {address} on lo"));
        assert!(check(own(), address).unwrap().is_bound());
    }

    #[test]
    fn anything_else_is_refused() {
        let address = "127.0.0.1:7".parse().unwrap();
        let udp = || OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap());
        assert!(UdpSocketProof::is_udp(&udp()));
        assert!(!UdpSocketProof::is_udp(&TcpListener::bind("127.0.0.1:0").unwrap().into()));
        assert!(!UdpSocketProof::is_udp(&std::fs::File::open("/dev/null").unwrap().into()));
        let any = UdpSocket::bind("0.0.0.0:0").unwrap();
        let refused = check(any.try_clone().unwrap().into(), any.local_addr().unwrap());
        assert_eq!(refused.unwrap_err(), "address 0.0.0.0 is not on interface lo");
        let stated = SocketAddr::from(([127, 0, 0, 1], any.local_addr().unwrap().port()));
        assert!(check(any.into(), stated).unwrap_err().contains("is not bound to 127.0.0.1"));
        let unbound = socket2::Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        assert!(check(unbound.into(), address).unwrap_err().contains("is not bound"));
        let elsewhere =
            UdpSocketProof::check(udp(), address, here() + 1, (&loopback(), &[])).unwrap_err();
        assert!(elsewhere.contains("another network namespace"), "{elsewhere}");
    }
}
