// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has finished: the completion queue of an endpoint, polled or slept on (`fi_cq(3)`).
//!
//! Out: [`Completion`]s, and buffers that are free again. Bound: [`BATCH`] completions a call.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use super::super::buffers::Operation;
use super::super::object::{check, check_size, failure, text_of};
use super::super::{Error, abi};
use super::Endpoint;

/// A finished operation; its buffer is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Its buffer; `usize::MAX` for a remote write, which had none.
    pub slot: usize,
    /// What it was.
    pub operation: Operation,
    /// Bytes received.
    pub len: usize,
    /// Remote CQ data.
    pub data: u64,
    /// The tag of a tagged message received.
    pub tag: u64,
}

/// How many completions one call reads at most.
pub(super) const BATCH: usize = 16;

/// An entry that nothing was read into.
pub(super) const EMPTY_ENTRY: abi::fi_cq_tagged_entry = abi::fi_cq_tagged_entry {
    op_context: std::ptr::null_mut(),
    flags: 0,
    len: 0,
    buf: std::ptr::null_mut(),
    data: 0,
    tag: 0,
};

impl Endpoint {
    /// Drives progress, and hands what has finished to `sink`: at most 16 completions. Returns
    /// their number.
    ///
    /// # Errors
    /// [`Error::Completion`] for an operation that failed; later calls go on with the rest.
    #[inline]
    pub fn poll(&mut self, sink: impl FnMut(Completion)) -> Result<usize, Error> {
        let entries = self.entries.as_mut_ptr();
        // SAFETY: the queue is open, of the tagged format; there is room for BATCH entries.
        let code = unsafe { abi::fi_cq_read(self.queue.as_ptr(), entries, BATCH) };
        self.completions(code, sink)
    }

    /// The same, but sleeps for something to happen, for `timeout` at most
    /// ([`Sread`](super::Wait::Sread)).
    ///
    /// # Errors
    /// As [`Endpoint::poll`].
    pub fn wait(
        &mut self,
        timeout: Duration,
        sink: impl FnMut(Completion),
    ) -> Result<usize, Error> {
        let entries = self.entries.as_mut_ptr();
        let ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue is open, of the tagged format; there is room for BATCH entries.
        let code = unsafe { abi::fi_cq_sread(self.queue.as_ptr(), entries, BATCH, ms) };
        self.completions(code, sink)
    }

    #[inline]
    fn completions(
        &mut self,
        code: isize,
        mut sink: impl FnMut(Completion),
    ) -> Result<usize, Error> {
        if code == -(abi::FI_EAVAIL as isize) {
            return Err(self.error_completion());
        }
        let count = match check_size("fi_cq_read", code) {
            Ok(count) => count,
            Err(Error::Again) => return Ok(0),
            Err(error) => return Err(error),
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
        // SAFETY: a C structure of integers and pointers, for which all zero is valid.
        let mut entry: abi::fi_cq_err_entry = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is open; no error data is asked for.
        let code = unsafe { abi::fi_cq_readerr(self.queue.as_ptr(), &raw mut entry) };
        if let Err(error) = check_size("fi_cq_readerr", code) {
            return error;
        }
        Error::Completion {
            operation: operation_of(entry.flags),
            slot: self.buffers.complete(entry.op_context),
            errno: entry.err,
            provider_errno: entry.prov_errno,
            text: text_of(entry.err),
        }
    }

    /// Whether the program may sleep on [`Endpoint::wait_fd`] now (`fi_trywait`); if not, it must
    /// poll first.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn may_sleep(&self) -> Result<bool, Error> {
        let mut object = self.queue.fid();
        // SAFETY: fabric and queue are open; one object.
        let code = unsafe { abi::fi_trywait(self.fabric.as_ptr(), &raw mut object, 1) };
        match check("fi_trywait", code) {
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
        let mut fd: RawFd = -1;
        let command = abi::FI_GETWAIT as i32;
        let argument = (&raw mut fd).cast::<c_void>();
        // SAFETY: the queue is open; of a queue with FI_WAIT_FD the command writes one int.
        check("fi_control", unsafe { abi::fi_control(self.queue.fid(), command, argument) })?;
        if fd < 0 {
            return Err(failure("fi_control", libc::EBADF));
        }
        // SAFETY: the queue owns the descriptor, and `self` keeps the queue.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }
}

/// What an entry's flags say it was.
fn operation_of(flags: u64) -> Operation {
    let has = |bits: u32| flags & u64::from(bits) != 0;
    if has(abi::FI_REMOTE_CQ_DATA) && has(abi::FI_REMOTE_WRITE | abi::FI_RMA) {
        Operation::RemoteWrite
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
