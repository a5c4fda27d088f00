// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client's connection: messages with descriptors, in both directions.
//!
//! In: a connected socket. Out: [`ClientMessage`]. Caller: `server.rs`, which also closes received
//! descriptors and the connection, because both can take long (`fd_reaper.rs`). Bounds: a message
//! is read in one piece, with at most [`DESCRIPTORS_MAX`] descriptors; no call waits.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use ofi_xdp_datapath::SocketRequest;
use ofi_xdp_datapath::broker::{REQUEST_BYTES, Reply};
use rustix::io::ioctl_fionread;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Maximum number of descriptors of one message (`SCM_MAX_FD`, include/net/scm.h). With less room
/// the kernel would close the others in this call.
const DESCRIPTORS_MAX: usize = 253;

/// Result of a read.
#[derive(Debug)]
pub(crate) enum ClientMessage {
    /// No message yet.
    None,
    /// A message: the request, if it is one, and its descriptors.
    Request(Option<SocketRequest>, Vec<OwnedFd>),
    /// The client has closed the connection.
    Closed,
}

/// A client's connection.
#[derive(Debug)]
pub(crate) struct ClientConnection(UnixStream);

impl ClientConnection {
    /// A connection over `stream`.
    pub(crate) const fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// Reads a message.
    pub(crate) fn receive(&self) -> ClientMessage {
        let mut bytes = [0; REQUEST_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let count = match recvmsg(&self.0, &mut buffers, &mut control, flags) {
            Ok(got) => got.bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return ClientMessage::None,
            Err(_) => return ClientMessage::Closed,
        };
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptors = descriptors.flatten().collect();
        ClientMessage::Request(bytes.get(..count).and_then(SocketRequest::from_bytes), descriptors)
    }

    /// Sends `reply` with `descriptors`. The call fails for a client that does not read its
    /// answers.
    pub(crate) fn send(&self, reply: &Reply, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = reply.to_bytes();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, flags)?;
        if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Shuts the connection down; the client sees its end at once. Returns the connection if it has
    /// unread data, perhaps with descriptors, so that another thread closes it.
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
    fn only_what_was_not_read_makes_a_connection_slow_to_close() {
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
}
