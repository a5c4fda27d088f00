// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel says of an `AF_XDP` socket.
//!
//! A bound socket comes in, the kernel's word goes out; `xsk_port.rs` asks once, when a port opens.
//! One system call.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::sockopt::xdp_options;
use rustix::net::xdp::XdpOptionsFlags;

/// Whether the kernel moves this bound socket's frames without copying them (`XDP_OPTIONS`).
///
/// # Errors
/// What `getsockopt(2)` fails with.
pub(crate) fn is_zerocopy(socket: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(xdp_options(socket)?.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn a_socket_of_another_family_is_an_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = is_zerocopy(socket.as_fd()).unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
    }
}
