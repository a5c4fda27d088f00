// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel says of an `AF_XDP` socket, where xsk-rs has no call for it.
//!
//! A bound socket comes in, the kernel's word goes out; `xsk_port.rs` asks once, when a port opens.
//! One system call.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

/// `struct xdp_options` (`linux/if_xdp.h`).
#[repr(C)]
#[derive(Default)]
struct Options {
    flags: u32,
}

/// `XDP_OPTIONS_ZEROCOPY`.
const ZEROCOPY: u32 = 1;

/// Whether the kernel moves this bound socket's frames without copying them (`XDP_OPTIONS`).
///
/// # Errors
/// What `getsockopt(2)` fails with.
pub(crate) fn is_zerocopy(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut options = Options::default();
    let mut length = size_of::<Options>() as libc::socklen_t;
    // SAFETY: `options` and `length` live through the call, and `length` is the size of `options`,
    // beyond which the kernel does not write; the structure is one plain integer.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_OPTIONS,
            (&raw mut options).cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(options.flags & ZEROCOPY != 0)
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
