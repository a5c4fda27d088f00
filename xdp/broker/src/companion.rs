// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel socket that a client passes along: the proof that an address is theirs.
//!
//! Whatever descriptor came in, either a [`Companion`] goes out, which is a UDP socket of our
//! network namespace bound to one address of the interface, or a reason. One that is bound to
//! another device (`SO_BINDTODEVICE`, which everybody may set once) is no proof: the kernel gives
//! its port on this interface to others. The broker keeps the socket while the grant lives, so
//! nobody else gets the port meanwhile; that it is still bound is asked again
//! ([`Companion::is_bound`]), since a socket can let go of a port that the kernel chose
//! (`connect(2)` to `AF_UNSPEC`), and be bound to a device later.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use ofi_xdp_datapath::InterfaceFacts;
use socket2::{Domain, Protocol, SockRef, Type};

use crate::raw;
use crate::sockets::{self, Bound};

/// See the module.
#[derive(Debug)]
pub(crate) struct Companion {
    socket: OwnedFd,
    address: SocketAddr,
    /// The interface's index.
    interface: u32,
}

impl Companion {
    /// Whether `descriptor` is a UDP socket: all others may take long to close (`closers.rs`).
    pub(crate) fn is_udp(descriptor: &OwnedFd) -> bool {
        let reference = SockRef::from(descriptor);
        let domain = reference.domain();
        let ip = |domain| domain == Domain::IPV4 || domain == Domain::IPV6;
        domain.is_ok_and(ip)
            && matches!(reference.r#type(), Ok(Type::DGRAM))
            && matches!(reference.protocol(), Ok(Some(Protocol::UDP)))
    }

    /// Checks `socket`, a UDP socket that a client passed, against the broker's network `namespace`
    /// and the `interface` that it asked for.
    pub(crate) fn check(
        socket: OwnedFd,
        namespace: u64,
        interface: &InterfaceFacts,
    ) -> Result<Self, String> {
        let os = |error: io::Error| format!("the socket passed along: {error}");
        if raw::namespace(socket.as_fd()).map_err(os)? != namespace {
            return Err(
                "xdp-broker serves another network namespace; run one in this one, too".to_owned()
            );
        }
        let bound = sockets::bound(socket.as_fd(), 0).map_err(os)?;
        let Bound { address, device } = bound.ok_or("the socket passed along is not bound")?;
        let ip = address.ip().to_canonical();
        if !interface.addresses.iter().any(|one| one.ip == ip) {
            return Err(format!("address {ip} is not on interface {}", interface.name));
        }
        let companion = Self { socket, address, interface: interface.index };
        if !companion.is_on(device) {
            return Err(format!(
                "the socket passed along is bound to another device than {}",
                interface.name
            ));
        }
        Ok(companion)
    }

    /// The address that it is bound to.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it still is, for packets of the interface; `true` if that cannot be told, for want
    /// of memory or descriptors.
    pub(crate) fn is_bound(&self) -> bool {
        let as_ever = |Bound { address, device }| address == self.address && self.is_on(device);
        let bound = sockets::bound(self.socket.as_fd(), self.address.port());
        bound.map_or(true, |found| found.is_some_and(as_ever))
    }

    /// Whether a socket of `device`, 0 for all, has the interface's packets.
    const fn is_on(&self, device: u32) -> bool {
        device == 0 || device == self.interface
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    fn loopback() -> InterfaceFacts {
        let interfaces = ofi_xdp_datapath::interfaces().unwrap();
        interfaces.into_iter().find(|interface| interface.loopback).unwrap()
    }

    fn here() -> u64 {
        raw::namespace(UdpSocket::bind("127.0.0.1:0").unwrap().as_fd()).unwrap()
    }

    #[test]
    fn a_bound_udp_socket_is_its_own_proof() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let companion = Companion::check(socket.into(), here(), &loopback()).unwrap();
        assert_eq!(companion.address(), address);
        assert!(companion.is_bound());
    }

    #[test]
    fn a_socket_of_another_device_proves_nothing() {
        let namespace = here();
        let other = InterfaceFacts { index: u32::MAX, ..loopback() };
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = || OwnedFd::from(socket.try_clone().unwrap());
        let early = Companion::check(own(), namespace, &other).unwrap();
        assert!(early.is_bound(), "to every device");
        SockRef::from(&socket).bind_device(Some(b"lo")).unwrap();
        assert!(!early.is_bound(), "to lo alone");
        let refused = Companion::check(own(), namespace, &other).unwrap_err();
        assert_eq!(refused, "the socket passed along is bound to another device than lo");
        assert!(Companion::check(own(), namespace, &loopback()).unwrap().is_bound());
    }

    #[test]
    fn anything_else_is_refused() {
        let refused = |socket: OwnedFd| Companion::check(socket, here(), &loopback()).unwrap_err();
        let udp = || OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap());
        assert!(Companion::is_udp(&udp()));
        assert!(!Companion::is_udp(&TcpListener::bind("127.0.0.1:0").unwrap().into()));
        assert!(!Companion::is_udp(&std::fs::File::open("/dev/null").unwrap().into()));
        let any = refused(UdpSocket::bind("0.0.0.0:0").unwrap().into());
        assert_eq!(any, "address 0.0.0.0 is not on interface lo");
        let unbound = socket2::Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        assert!(refused(unbound.into()).contains("not bound"));
        let elsewhere = Companion::check(udp(), here() + 1, &loopback()).unwrap_err();
        assert!(elsewhere.contains("another network namespace"), "{elsewhere}");
    }
}
