// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions: the completion queue of an endpoint, polled or slept on (`fi_cq(3)`).
//!
//! Out: [`Completion`]s, and buffers that are free again. Bound: 16 completions a call.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::Endpoint;
use crate::Error;
use crate::operation::Operation;
use crate::owned::{check, text_of};
use crate::raw::{Answer, Errno, abi};

/// A finished operation; its buffer is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Its buffer; `usize::MAX` for a remote write, which had none.
    pub slot: usize,
    /// Its kind.
    pub operation: Operation,
    /// Bytes received.
    pub len: usize,
    /// Remote CQ data.
    pub data: u64,
    /// The tag of a tagged message received.
    pub tag: u64,
}

/// An empty entry.
pub(super) const EMPTY_ENTRY: abi::fi_cq_tagged_entry = abi::fi_cq_tagged_entry {
    op_context: std::ptr::null_mut(),
    flags: 0,
    len: 0,
    buf: std::ptr::null_mut(),
    data: 0,
    tag: 0,
};

impl Endpoint {
    /// Drives progress, and hands completions to `sink`: at most 16. Returns their number.
    ///
    /// # Errors
    /// [`Error::Completion`] for an operation that failed; later calls go on with the rest.
    #[inline]
    pub fn poll(&mut self, sink: impl FnMut(Completion)) -> Result<usize, Error> {
        let answer = self.queue.read_into(&mut self.entries[..]);
        self.completions(answer, sink)
    }

    /// As [`Endpoint::poll`], but sleeps until a completion, for `timeout` at most
    /// ([`Sread`](super::Wait::Sread)).
    ///
    /// # Errors
    /// As [`Endpoint::poll`].
    pub fn wait(
        &mut self,
        timeout: Duration,
        sink: impl FnMut(Completion),
    ) -> Result<usize, Error> {
        let ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        let answer = self.queue.sread_into(&mut self.entries[..], ms);
        self.completions(answer, sink)
    }

    #[inline]
    fn completions(
        &mut self,
        answer: Answer<usize>,
        mut sink: impl FnMut(Completion),
    ) -> Result<usize, Error> {
        let count = match answer {
            Ok(count) => count,
            Err(Errno(abi::FI_EAGAIN)) => return Ok(0),
            Err(Errno(abi::FI_EAVAIL)) => return Err(self.error_completion()),
            Err(errno) => return check("fi_cq_read", Err(errno)),
        };
        for entry in self.entries.iter().take(count) {
            let operation = operation_of(entry.flags);
            let slot = match operation {
                // No operation of ours has ended.
                Operation::RemoteWrite => Some(usize::MAX),
                _ => self.buffers.complete(entry.op_context),
            };
            if let Some(slot) = slot {
                let abi::fi_cq_tagged_entry { len, data, tag, .. } = *entry;
                sink(Completion { slot, operation, len, data, tag });
            }
        }
        Ok(count)
    }

    /// The error completion that the queue has announced.
    #[cold]
    fn error_completion(&mut self) -> Error {
        let failed = match check("fi_cq_readerr", self.queue.readerr(0)) {
            Ok(failed) => failed,
            Err(error) => return error,
        };
        let Errno(errno) = failed.err;
        Error::Completion {
            operation: operation_of(failed.flags),
            slot: self.buffers.complete(failed.context),
            errno,
            provider_errno: failed.prov_errno,
            text: text_of(errno),
        }
    }

    /// Whether the program may sleep on [`Endpoint::wait_fd`] now (`fi_trywait`); if not, it must
    /// poll first.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn may_sleep(&self) -> Result<bool, Error> {
        match check("fi_trywait", self.domain.fabric().trywait(&[&*self.queue])) {
            Ok(()) => Ok(true),
            Err(Error::Again) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The descriptor that turns readable when the completion queue wants attention
    /// ([`Fd`](super::Wait::Fd)).
    ///
    /// # Errors
    /// [`Error::Call`] when the queue has none.
    pub fn wait_fd(&self) -> Result<BorrowedFd<'_>, Error> {
        check("fi_control", self.queue.borrowed_wait_fd())
    }
}

/// The kind of operation, by the flags of an entry.
fn operation_of(flags: u64) -> Operation {
    let has = |bits: u64| flags & bits != 0;
    if has(abi::FI_REMOTE_CQ_DATA) && has(abi::FI_REMOTE_WRITE | abi::FI_RMA) {
        Operation::RemoteWrite
    } else if has(abi::FI_ATOMIC) {
        Operation::Atomic
    } else if has(abi::FI_WRITE) {
        Operation::Write
    } else if has(abi::FI_READ) {
        Operation::Read
    } else if has(abi::FI_RECV) {
        Operation::Receive
    } else if has(abi::FI_SEND) {
        Operation::Send
    } else {
        Operation::Unknown
    }
}
