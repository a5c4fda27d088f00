// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system call of steering: `SIOCETHTOOL` of ioctl(2) (netdevice(7)).
//!
//! In: a [`RuleRequest`]. Out: the answer, in the request. Caller: [`super`]. The socket keeps the
//! network namespace, so a rule is removed from the right interface on any thread. Bound: one
//! system call.

#![allow(unsafe_code)]

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::libc;

use super::request::{Device, RULES_MAX, RuleRequest};

/// linux/sockios.h.
pub(super) const SIOCETHTOOL: u16 = 0x8946;

/// An interface by name, in the network namespace in which it was opened.
#[derive(Debug)]
pub(super) struct EthtoolInterface {
    name: String,
    socket: UdpSocket,
}

impl EthtoolInterface {
    /// The interface `name` of the calling thread's network namespace.
    pub(super) fn open(name: &str) -> io::Result<Self> {
        // The socket is bound to no interface and no port; it stands for the namespace.
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
        Ok(Self { name: name.to_owned(), socket: socket.into() })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Device for EthtoolInterface {
    fn call(&self, request: &mut RuleRequest) -> io::Result<()> {
        if request.count() as usize > RULES_MAX {
            return Err(Errno::EMSGSIZE.into());
        }
        let mut name = [0; libc::IFNAMSIZ];
        // The kernel's names leave room for the final zero.
        for (to, from) in name.iter_mut().zip(self.name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from.cast_signed();
        }
        let data = std::ptr::from_mut(request).cast();
        let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_data: data };
        let mut interface = libc::ifreq { ifr_name: name, ifr_ifru };
        let fd = self.socket.as_raw_fd();
        let code = SIOCETHTOOL.into();
        // SAFETY: `interface` and the request behind its pointer live through the call and have no
        // other user. The kernel accesses a `struct ethtool_rxnfc`, the beginning of the request,
        // and after it at most `count` locations, for which there is room as checked above.
        let result = unsafe { libc::ioctl(fd, code, &raw mut interface) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
