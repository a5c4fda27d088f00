// SPDX-License-Identifier: MIT OR Apache-2.0
//! One client's connection: bytes and descriptors in, bytes and descriptors out.
//!
//! A connected socket comes in, [`Heard`] goes out for what the client sent; `server.rs` decides.
//! Bounds: a message is taken in one piece, with all its descriptors, [`DESCRIPTORS_MAX`] at most;
//! nothing waits. What was received is for the caller to close, and so is the connection: both can
//! take long (`closers.rs`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use ofi_xdp_datapath::broker::{REQUEST_BYTES, Reply, Request};
use rustix::io::ioctl_fionread;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Most descriptors of one message (`SCM_MAX_FD`, include/net/scm.h). With room for fewer the
/// kernel would close the others here and now.
const DESCRIPTORS_MAX: usize = 253;

/// What a client sent.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Nothing yet.
    Nothing,
    /// A message, the request that it is, and the descriptors that came with it.
    Message(Option<Request>, Vec<OwnedFd>),
    /// The end.
    End,
}

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection(UnixStream);

impl Connection {
    /// The connection that `stream` is.
    pub(crate) const fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// Takes what the client sent.
    pub(crate) fn hear(&self) -> Heard {
        let mut bytes = [0; REQUEST_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let count = match recvmsg(&self.0, &mut buffers, &mut control, flags) {
            Ok(got) => got.bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Heard::Nothing,
            Err(_) => return Heard::End,
        };
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptors = descriptors.flatten().collect();
        Heard::Message(bytes.get(..count).and_then(Request::from_bytes), descriptors)
    }

    /// Sends `reply`, with `descriptors`. A client that does not read its answers is given up.
    pub(crate) fn say(&self, reply: &Reply, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
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

    /// Hangs up: the client sees the end at once. Where something is left that nobody has read,
    /// and with it perhaps descriptors, the connection comes out: it is somebody else's to close.
    pub(crate) fn end(self) -> Option<OwnedFd> {
        // It fails where there is no client any more. From here on nothing comes in.
        let _ = self.0.shutdown(Shutdown::Both);
        let unread = ioctl_fionread(&self.0).map_or(true, |bytes| bytes > 0);
        unread.then(|| self.0.into())
    }
}

impl AsFd for Connection {
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
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        assert!(Connection::new(ours).end().is_none());
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&[1]).unwrap();
        let ended = Connection::new(ours).end();
        assert!(ended.is_some());
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0, "the client sees the end at once");
        assert!(theirs.write_all(&[1]).is_err());
    }
}
