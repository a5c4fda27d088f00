// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client's connection, without its messages: `intake_process.rs` reads those.
//!
//! In: a connected socket. Out: replies. Callers: `server.rs`, `intake.rs`. Bound: one system call
//! each; no call waits.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use ofi_xdp_datapath::broker::Reply;
use rustix::io::ioctl_fionread;

use crate::{fd_message, raw};

/// A client's connection.
#[derive(Debug)]
pub(crate) struct ClientConnection(UnixStream);

impl ClientConnection {
    /// A connection over `stream`.
    pub(crate) const fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// Permits descriptors in messages, which `main.rs` has forbidden for the listener's
    /// connections. Fails where the kernel permits them always (before Linux 6.16).
    pub(crate) fn pass_descriptors(&self) {
        let _ = raw::pass_descriptors(self.as_fd(), true);
    }

    /// Sends `reply` with `descriptors`. The call fails for a client that does not read its
    /// answers.
    pub(crate) fn send(&self, reply: &Reply, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        fd_message::send(&self.0, &reply.to_bytes(), descriptors)
    }

    /// Shuts the connection down; the client sees its end at once. Returns the connection if it has
    /// unread data, perhaps with descriptors, so that another process closes it.
    pub(crate) fn shut_down(self) -> Option<OwnedFd> {
        // Fails if the client is gone. From here on no data arrive.
        let _ = self.0.shutdown(Shutdown::Both);
        let unread = ioctl_fionread(&self.0).map_or(true, |bytes| bytes > 0);
        unread.then(|| self.0.into())
    }
}

impl AsFd for ClientConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn only_unread_bytes_make_a_connection_slow_to_close() {
        let (broker_end, mut client_end) = UnixStream::pair().unwrap();
        assert!(ClientConnection::new(broker_end).shut_down().is_none());
        assert_eq!(client_end.read(&mut [0]).unwrap(), 0);
        let (broker_end, mut client_end) = UnixStream::pair().unwrap();
        client_end.write_all(&[1]).unwrap();
        let ended = ClientConnection::new(broker_end).shut_down();
        assert!(ended.is_some());
        assert_eq!(client_end.read(&mut [0]).unwrap(), 0, "the client sees the end at once");
        assert!(client_end.write_all(&[1]).is_err());
    }

    #[test]
    fn a_connection_takes_descriptors_once_they_are_permitted() {
        let (broker_end, client_end) = UnixStream::pair().unwrap();
        if raw::pass_descriptors(broker_end.as_fd(), false).is_err() {
            println!("SKIPPED: needs Linux 6.16");
            return;
        }
        let connection = ClientConnection::new(broker_end);
        let pass = || fd_message::send(&client_end, &[1], &[client_end.as_fd()]);
        let refused = pass().unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
        connection.pass_descriptors();
        pass().unwrap();
    }
}
