// SPDX-License-Identifier: MIT OR Apache-2.0
//! Socket options without a safe call in a library.
//!
//! In: a descriptor. Out: plain values, or the kernel's error. Callers: `credentials.rs`,
//! `udp_socket.rs`, `sock_diag.rs`. Bound: one system call each, which waits for no lock of the
//! socket.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `SO_NETNS_COOKIE` (asm-generic/socket.h; Linux 5.14): the number of a network namespace; numbers
/// are never reused.
const SO_NETNS_COOKIE: libc::c_int = 71;
/// Maximum number of groups of one process (`NGROUPS_MAX`).
const GROUPS_MAX: usize = 65_536;

/// The network namespace of a socket.
pub(crate) fn namespace(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value = [0_u64; 1];
    option(socket, SO_NETNS_COOKIE, &mut value)?;
    Ok(value[0])
}

/// The unique number of a socket (`SO_COOKIE`; Linux 4.12).
pub(crate) fn cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value = [0_u64; 1];
    option(socket, libc::SO_COOKIE, &mut value)?;
    Ok(value[0])
}

/// The supplementary groups of the process at the other end (`SO_PEERGROUPS`, unix(7)).
pub(crate) fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 64];
    loop {
        match option(socket, libc::SO_PEERGROUPS, &mut groups) {
            Ok(bytes) => {
                groups.truncate(bytes / size_of::<u32>());
                return Ok(groups);
            }
            // ERANGE: the process has more groups.
            Err(error)
                if error.raw_os_error() == Some(libc::ERANGE) && groups.len() < GROUPS_MAX =>
            {
                groups.resize(GROUPS_MAX, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

/// An integer that is valid for all bit patterns.
trait Word: Copy {}

impl Word for u32 {}
impl Word for u64 {}

/// Reads an option of level `SOL_SOCKET` into `value`; returns its length in bytes.
fn option<T: Word>(
    socket: BorrowedFd<'_>,
    name: libc::c_int,
    value: &mut [T],
) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(size_of_val(value)).map_err(io::Error::other)?;
    let fd = socket.as_raw_fd();
    let to = value.as_mut_ptr().cast();
    // SAFETY: `to` points to `length` writable bytes of plain integers, beyond which the kernel
    // does not write, and both live through the call.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, to, &raw mut length) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    usize::try_from(length).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn both_ends_of_a_pair_are_ours() {
        let (left, right) = UnixStream::pair().unwrap();
        let here = namespace(left.as_fd()).unwrap();
        assert_eq!(namespace(right.as_fd()).unwrap(), here);
        assert_ne!(here, 0);
        let mut groups = peer_groups(left.as_fd()).unwrap();
        let mut own: Vec<u32> =
            nix::unistd::getgroups().unwrap().into_iter().map(|gid| gid.as_raw()).collect();
        groups.sort_unstable();
        own.sort_unstable();
        assert_eq!(groups, own);
    }

    #[test]
    fn a_descriptor_that_is_no_socket_is_an_error() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = namespace(file.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
    }
}
