// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_cq(3)`.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::BorrowedFd;

use super::abi;
use super::{Answer, Errno, Fid, Object, done, is_fid, sized};

/// `struct fid_cq`.
#[derive(Debug)]
pub struct Cq {
    pub(super) object: Object<abi::fid_cq>,
    /// The granted format, which determines the size of an entry.
    pub format: abi::fi_cq_format,
}

is_fid!(Cq);

/// A completion; fields that the queue's format does not have are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The context of the operation.
    pub context: *mut c_void,
    /// The kind of operation, and whether there is remote CQ data.
    pub flags: u64,
    /// Bytes received.
    pub len: usize,
    /// The start of the data in a multi-receive buffer.
    pub buf: *mut c_void,
    /// Remote CQ data.
    pub data: u64,
    /// The tag of a tagged message.
    pub tag: u64,
    /// The sender, if it was requested.
    pub from: abi::fi_addr_t,
}

// SAFETY: the pointers are names; no code follows them.
unsafe impl Send for Completion {}

/// An operation that failed.
#[derive(Clone, Debug)]
pub struct CqError {
    /// The context of the operation.
    pub context: *mut c_void,
    /// The kind of operation, and whether there is remote CQ data.
    pub flags: u64,
    /// Bytes that did not fit.
    pub olen: usize,
    /// The error.
    pub err: Errno,
    /// The provider's own error number.
    pub prov_errno: c_int,
    /// Error data.
    pub err_data: Vec<u8>,
}

// SAFETY: as above.
unsafe impl Send for CqError {}

/// The result of reading a queue.
#[derive(Clone, Debug)]
pub enum Event {
    /// A completion.
    Done(Completion),
    /// An error completion.
    Failed(CqError),
}

/// An array that holds `count` entries of the longest format.
type Entries = Vec<abi::fi_cq_tagged_entry>;

fn room(count: usize) -> Entries {
    let (op_context, buf) = (std::ptr::null_mut(), std::ptr::null_mut());
    vec![abi::fi_cq_tagged_entry { op_context, flags: 0, len: 0, buf, data: 0, tag: 0 }; count]
}

impl Cq {
    /// The size of one entry in this queue's format.
    fn entry_size(&self) -> usize {
        match self.format {
            abi::FI_CQ_FORMAT_CONTEXT => size_of::<abi::fi_cq_entry>(),
            abi::FI_CQ_FORMAT_MSG => size_of::<abi::fi_cq_msg_entry>(),
            abi::FI_CQ_FORMAT_DATA => size_of::<abi::fi_cq_data_entry>(),
            _ => size_of::<abi::fi_cq_tagged_entry>(),
        }
    }

    fn decode(&self, entries: &Entries, count: usize, from: &[u64]) -> Vec<Completion> {
        let size = self.entry_size();
        let one = |index: usize| {
            let mut whole = room(1);
            let at = entries.as_ptr().cast::<u8>().wrapping_add(index * size);
            // SAFETY: the provider wrote `count` entries of `size` bytes, a prefix of the longest
            // format (fi_cq(3)), into an array of as many of the longest.
            unsafe { whole.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(at, size) };
            let abi::fi_cq_tagged_entry { op_context, flags, len, buf, data, tag } = whole[0];
            let from = from.get(index).copied().unwrap_or(abi::FI_ADDR_UNSPEC);
            Completion { context: op_context, flags, len, buf, data, tag, from }
        };
        (0..count).map(one).collect()
    }

    /// `fi_cq_read`.
    pub fn read(&self, most: usize) -> Answer<Vec<Completion>> {
        let cq = self.object.get();
        let mut entries = room(most);
        let count = sized(call!(fi_cq_read(cq, entries.as_mut_ptr().cast(), most)))?;
        Ok(self.decode(&entries, count, &[]))
    }

    /// `fi_cq_read` into `entries`, without a decoding of the format.
    #[inline]
    pub fn read_into(&self, entries: &mut [abi::fi_cq_tagged_entry]) -> Answer<usize> {
        let cq = self.object.get();
        // No format has longer entries than the tagged one.
        sized(call!(fi_cq_read(cq, entries.as_mut_ptr().cast(), entries.len())))
    }

    /// `fi_cq_sread` into `entries`, without a decoding of the format.
    pub fn sread_into(
        &self,
        entries: &mut [abi::fi_cq_tagged_entry],
        timeout_ms: c_int,
    ) -> Answer<usize> {
        let cq = self.object.get();
        let (to, most) = (entries.as_mut_ptr().cast(), entries.len());
        sized(call!(fi_cq_sread(cq, to, most, std::ptr::null(), timeout_ms)))
    }

    /// `fi_cq_read(cq, NULL, 0)`: progress alone.
    pub fn progress(&self) -> Answer<usize> {
        let cq = self.object.get();
        sized(call!(fi_cq_read(cq, std::ptr::null_mut(), 0)))
    }

    /// `fi_cq_readfrom`.
    pub fn readfrom(&self, most: usize) -> Answer<Vec<Completion>> {
        let cq = self.object.get();
        let mut entries = room(most);
        // A value that no peer has: it shows that the call wrote no answer.
        let mut from = vec![0xdead_beef; most];
        let to = entries.as_mut_ptr().cast();
        let count = sized(call!(fi_cq_readfrom(cq, to, most, from.as_mut_ptr())))?;
        Ok(self.decode(&entries, count, &from))
    }

    /// `fi_cq_sread`.
    pub fn sread(&self, most: usize, timeout_ms: c_int) -> Answer<Vec<Completion>> {
        let cq = self.object.get();
        let mut entries = room(most);
        let to = entries.as_mut_ptr().cast();
        let count = sized(call!(fi_cq_sread(cq, to, most, std::ptr::null(), timeout_ms)))?;
        Ok(self.decode(&entries, count, &[]))
    }

    /// `fi_cq_sread` with a condition (`FI_CQ_COND_THRESHOLD`).
    pub fn sread_threshold(
        &self,
        most: usize,
        threshold: usize,
        timeout_ms: c_int,
    ) -> Answer<Vec<Completion>> {
        let cq = self.object.get();
        let mut entries = room(most);
        let to = entries.as_mut_ptr().cast();
        let condition = std::ptr::without_provenance(threshold);
        let count = sized(call!(fi_cq_sread(cq, to, most, condition, timeout_ms)))?;
        Ok(self.decode(&entries, count, &[]))
    }

    /// `fi_cq_sreadfrom`.
    pub fn sreadfrom(&self, most: usize, timeout_ms: c_int) -> Answer<Vec<Completion>> {
        let cq = self.object.get();
        let mut entries = room(most);
        let mut from = vec![0xdead_beef; most];
        let to = entries.as_mut_ptr().cast();
        let (from_ptr, condition) = (from.as_mut_ptr(), std::ptr::null());
        let count = sized(call!(fi_cq_sreadfrom(cq, to, most, from_ptr, condition, timeout_ms)))?;
        Ok(self.decode(&entries, count, &from))
    }

    /// `fi_cq_readerr`, with room for `room` bytes of error data (0: the provider's own buffer).
    pub fn readerr(&self, room: usize) -> Answer<CqError> {
        let cq = self.object.get();
        // The second one is room for members that later versions of libfabric have appended
        // (`src_addr`, 1.20). A provider writes them for a fabric of such a version.
        // SAFETY: zero is a value of every field: null pointers, counts and numbers.
        let mut entries: [abi::fi_cq_err_entry; 2] = unsafe { std::mem::zeroed() };
        let [entry, _] = &mut entries;
        let mut data = vec![0_u8; room];
        if room > 0 {
            (entry.err_data, entry.err_data_size) = (data.as_mut_ptr().cast(), room);
        }
        let count = sized(call!(fi_cq_readerr(cq, entries.as_mut_ptr(), 0)))?;
        let [entry, _] = entries;
        if count == 0 {
            return Err(Errno(abi::FI_EAGAIN));
        }
        if room > 0 {
            data.truncate(entry.err_data_size);
        }
        Ok(CqError {
            context: entry.op_context,
            flags: entry.flags,
            olen: entry.olen,
            err: Errno(entry.err),
            prov_errno: entry.prov_errno,
            err_data: data,
        })
    }

    /// `fi_cq_signal`.
    pub fn signal(&self) -> Answer {
        let cq = self.object.get();
        done(call!(fi_cq_signal(cq)))
    }

    /// `fi_cq_strerror` into a buffer of `len` bytes: the returned text, and the buffer.
    pub fn strerror(&self, prov_errno: c_int, len: usize) -> (String, Vec<u8>) {
        let cq = self.object.get();
        let mut buffer = vec![0_u8; len];
        let to = buffer.as_mut_ptr().cast::<c_char>();
        let data = std::ptr::null();
        let text = call!(fi_cq_strerror(cq, prov_errno, data, to, len));
        (super::info::text(text), buffer)
    }

    /// `fi_control(FI_GETWAIT)` for a file descriptor.
    pub fn wait_fd(&self) -> Answer<c_int> {
        let mut fd: c_int = -1;
        self.control(abi::FI_GETWAIT, (&raw mut fd).cast())?;
        Ok(fd)
    }

    /// The descriptor of [`Cq::wait_fd`], which the queue owns.
    pub fn borrowed_wait_fd(&self) -> Answer<BorrowedFd<'_>> {
        let fd = self.wait_fd()?;
        if fd < 0 {
            return Err(Errno(libc::EBADF));
        }
        // SAFETY: the queue owns the descriptor, and `self` keeps the queue.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Reads one event, of either kind.
    pub fn event(&self) -> Answer<Event> {
        match self.readfrom(1) {
            Ok(mut entries) => entries.pop().map(Event::Done).ok_or(Errno(abi::FI_EAGAIN)),
            Err(Errno(abi::FI_EAVAIL)) => self.readerr(128).map(Event::Failed),
            Err(Errno(abi::FI_ENOSYS)) => {
                self.read(1)?.pop().map(Event::Done).ok_or(Errno(abi::FI_EAGAIN))
            }
            Err(errno) => Err(errno),
        }
    }
}
