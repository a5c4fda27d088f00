// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system call: `SIOCETHTOOL` of ioctl(2) (netdevice(7)).
//!
//! In: a [`RuleRequest`] or a [`HashRequest`]. Out: the answer, in the request. Callers: [`super`].
//! The socket keeps the network namespace, so a rule is removed from the right interface on any
//! thread. Bound: one system call.

#![allow(unsafe_code)]

use std::ffi::c_char;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;

use nix::errno::Errno;
use nix::libc;
use nix::net::if_::if_indextoname;

use super::Device;
use super::hash::HashRequest;
use super::rules::{RULES_MAX, RuleRequest};

/// linux/sockios.h.
pub(crate) const SIOCETHTOOL: u16 = 0x8946;

/// An interface by name, in the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct EthtoolInterface {
    name: String,
    socket: UnixDatagram,
}

/// A request that has room for the kernel's answer.
enum DriverRequest<'a> {
    Rules(&'a mut RuleRequest),
    Hash(&'a mut HashRequest),
}

impl EthtoolInterface {
    /// The interface with index `index` in the calling thread's network namespace.
    pub(crate) fn open(index: u32) -> io::Result<Self> {
        let name = if_indextoname(index)?.to_string_lossy().into_owned();
        // The socket stands for the namespace. Sockets of every family take the request
        // (`sock_do_ioctl`, net/socket.c); the broker may have none of the Internet's
        // (`RestrictAddressFamilies` of its unit).
        Ok(Self { name, socket: UnixDatagram::unbound()? })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The caller has checked that the request has room.
    fn execute(&self, request: DriverRequest<'_>) -> io::Result<()> {
        let mut name: [c_char; libc::IFNAMSIZ] = [0; libc::IFNAMSIZ];
        // The kernel's names leave room for the final zero.
        for (to, from) in name.iter_mut().zip(self.name.bytes().take(libc::IFNAMSIZ - 1)) {
            // `char` is signed on x86-64, and not on aarch64.
            *to = c_char::from_ne_bytes([from]);
        }
        let data = match request {
            DriverRequest::Rules(request) => std::ptr::from_mut(request).cast(),
            DriverRequest::Hash(request) => std::ptr::from_mut(request).cast(),
        };
        let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_data: data };
        let mut interface = libc::ifreq { ifr_name: name, ifr_ifru };
        let fd = self.socket.as_raw_fd();
        let code = SIOCETHTOOL.into();
        // SAFETY: `interface` and the request behind its pointer live through the call and have no
        // other user. The kernel accesses a `struct ethtool_rxnfc`, the beginning of a
        // `RuleRequest`, and after it at most `count` locations; or a `struct ethtool_rxfh`, the
        // beginning of a `HashRequest`, and after it table and key of the lengths in the request.
        // Both callers check that there is room.
        let result = unsafe { libc::ioctl(fd, code, &raw mut interface) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Device for EthtoolInterface {
    fn call(&self, request: &mut RuleRequest) -> io::Result<()> {
        if request.count() as usize > RULES_MAX {
            return Err(Errno::EMSGSIZE.into());
        }
        self.execute(DriverRequest::Rules(request))
    }

    fn read_hash(&self, request: &mut HashRequest) -> io::Result<()> {
        if !request.has_room() {
            return Err(Errno::EMSGSIZE.into());
        }
        self.execute(DriverRequest::Hash(request))
    }
}
