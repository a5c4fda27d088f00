// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one system call: `SIOCETHTOOL` of ioctl(2) (netdevice(7)).
//!
//! A [`Request`] comes in, its answer goes out in it. The socket keeps the network namespace, so
//! that whichever thread drops a rule removes the right one.

#![allow(unsafe_code)]

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::libc;

use super::Device;
use super::request::{RULES_MAX, Request};

/// linux/sockios.h.
pub(super) const SIOCETHTOOL: u16 = 0x8946;

/// An interface, by name, of the network namespace that it was opened in.
#[derive(Debug)]
pub(super) struct Interface {
    name: String,
    socket: UdpSocket,
}

impl Interface {
    /// The interface `name` of the calling thread's network namespace.
    pub(super) fn open(name: &str) -> io::Result<Self> {
        // Bound to no interface and no port: it stands for the namespace.
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
        Ok(Self { name: name.to_owned(), socket: socket.into() })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Device for Interface {
    fn call(&self, request: &mut Request) -> io::Result<()> {
        if request.count() as usize > RULES_MAX {
            return Err(Errno::EMSGSIZE.into());
        }
        let mut name = [0; libc::IFNAMSIZ];
        // The kernel's own names leave room for the final zero.
        for (to, from) in name.iter_mut().zip(self.name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from.cast_signed();
        }
        let data = std::ptr::from_mut(request).cast();
        let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_data: data };
        let mut interface = libc::ifreq { ifr_name: name, ifr_ifru };
        let fd = self.socket.as_raw_fd();
        let code = SIOCETHTOOL.into();
        // SAFETY: `interface` and the request that it points to live through the call, and nobody
        // else has them. The kernel reads and writes within a `struct ethtool_rxnfc`, which is how
        // a request begins, and after it at most `count` places, for which there is room, as was
        // just looked at.
        let result = unsafe { libc::ioctl(fd, code, &raw mut interface) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
