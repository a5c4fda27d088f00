// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages with descriptors over Unix sockets (`SCM_RIGHTS`, unix(7)).
//!
//! In: bytes and descriptors. Out: bytes and descriptors of the other process. Callers:
//! `connection.rs`, `intake.rs`, `intake_process.rs`. Bound: one system call, with at most
//! [`DESCRIPTORS_MAX`] descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Maximum number of descriptors of one message (`SCM_MAX_FD`, include/net/scm.h). With less room
/// the kernel would close the others in the receiving call.
const DESCRIPTORS_MAX: usize = 253;
/// Maximum number of descriptors of a message that this program sends.
const SENT_MAX: usize = 4;

/// Receives a message into `bytes`; returns its length, 0 at the end, and its descriptors.
pub(crate) fn receive(
    socket: impl AsFd,
    bytes: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(bytes)];
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let length = recvmsg(socket, &mut buffers, &mut control, flags)?.bytes;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((length, descriptors.flatten().collect()))
}

/// Sends a message without waiting. The call fails if the other process does not read.
pub(crate) fn send(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SENT_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}
