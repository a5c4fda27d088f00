// SPDX-License-Identifier: MIT OR Apache-2.0
//! Socket options and file leases, which have no safe call in a library.
//!
//! In: a descriptor. Out: plain values, or the kernel's error. Callers: `credentials.rs`,
//! `connection.rs`, `lent_memory.rs`, `udp_socket.rs`, `sock_diag.rs`. Bound: one or two system
//! calls each, which wait for no lock of the socket or the file.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `SO_NETNS_COOKIE` (asm-generic/socket.h; Linux 5.14): the number of a network namespace; numbers
/// are never reused.
const SO_NETNS_COOKIE: libc::c_int = 71;
/// `SO_PASSRIGHTS` (asm-generic/socket.h; Linux 6.16): whether messages to this socket may have
/// descriptors.
const SO_PASSRIGHTS: libc::c_int = 83;
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

/// The process, user and group of the other end (`struct ucred` of `SO_PEERCRED`, unix(7)). The
/// process is 0 where this PID namespace has no number for it.
pub(crate) fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<[u32; 3]> {
    let mut credentials = [0_u32; 3];
    option(socket, libc::SO_PEERCRED, &mut credentials)?;
    Ok(credentials)
}

/// Sets whether messages to a Unix socket may have descriptors. The connections of a listening
/// socket inherit its value.
pub(crate) fn pass_descriptors(socket: BorrowedFd<'_>, pass: bool) -> io::Result<()> {
    let value = libc::c_int::from(pass);
    let length = libc::socklen_t::try_from(size_of_val(&value)).map_err(io::Error::other)?;
    let (fd, from) = (socket.as_raw_fd(), (&raw const value).cast());
    // SAFETY: `from` points to `length` readable bytes, which live through the call.
    let result = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, SO_PASSRIGHTS, from, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether another file of the inode of `file`, which is open for writing, is open for writing, too
/// (`F_SETLEASE`, fcntl(2)).
pub(crate) fn has_other_writer(file: BorrowedFd<'_>) -> io::Result<bool> {
    let lease = |kind: libc::c_int| {
        // SAFETY: the call takes plain numbers and touches no memory of ours.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) }
    };
    if lease(libc::F_WRLCK) == 0 {
        lease(libc::F_UNLCK);
        return Ok(false);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock { Ok(true) } else { Err(error) }
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
        let [pid, uid, gid] = peer_credentials(left.as_fd()).unwrap();
        assert_eq!(pid, std::process::id());
        assert_eq!(uid, nix::unistd::geteuid().as_raw());
        assert_eq!(gid, nix::unistd::getegid().as_raw());
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
