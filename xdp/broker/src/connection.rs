// SPDX-License-Identifier: MIT OR Apache-2.0
//! One client's connection: bytes and descriptors in, bytes and descriptors out.
//!
//! A connected socket comes in, [`Heard`] goes out for what the client sent; `server.rs` decides.
//! Bounds: a message is taken in one piece, with one descriptor at most (the kernel drops others);
//! nothing waits.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use ofi_xdp_datapath::broker::{REQUEST_BYTES, Reply, Request};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// What a client sent.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Nothing yet.
    Nothing,
    /// A request, and the descriptor that came with it.
    Request(Request, OwnedFd),
    /// A descriptor that came with something else.
    Odd(OwnedFd),
    /// Something else, or the end.
    End,
}

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection(UnixStream);

impl Connection {
    /// Makes `stream` one that nothing waits for.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self(stream))
    }

    /// Takes what the client sent.
    pub(crate) fn hear(&self) -> Heard {
        let mut bytes = [0; REQUEST_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let count = match recvmsg(&self.0, &mut buffers, &mut control, flags) {
            Ok(got) => got.bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Heard::Nothing,
            Err(_) => return Heard::End,
        };
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        match (bytes.get(..count).and_then(Request::from_bytes), descriptor) {
            (Some(request), Some(descriptor)) => Heard::Request(request, descriptor),
            (None, Some(descriptor)) => Heard::Odd(descriptor),
            (_, None) => Heard::End,
        }
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
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
