// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_cq`, and completions in the formats of the application's arrays.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::time::Duration;

use super::unsupported::{ExportXpu, WithXpu, slot};
use super::{control, copy_out, copy_text, counted};
use crate::c_api::object::{self, Object};
use crate::objects::cq::{Cq, Entry, ErrorEntry};
use crate::sys::abi::{self, fi_addr_t};
use crate::sys::errno::{self, Error};
use crate::sys::sockaddr::SocketAddress;

static FID_OPS: abi::fi_ops = super::fid::table::<Cq>();

type CqTable = WithXpu<abi::fi_ops_cq, ExportXpu<abi::fid_cq>>;

static OPS: CqTable = WithXpu {
    table: abi::fi_ops_cq {
        size: size_of::<CqTable>(),
        read: Some(read),
        readfrom: Some(readfrom),
        readerr: Some(readerr),
        sread: Some(sread),
        sreadfrom: Some(sreadfrom),
        signal: Some(signal),
        strerror: Some(strerror),
    },
    xpu: slot(),
};

// SAFETY: `fid_cq` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for Cq {
    type C = abi::fid_cq;
    const CLASS: u32 = abi::FI_CLASS_CQ;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_cq {
        abi::fid_cq { fid, ops: std::ptr::from_ref(&OPS).cast_mut().cast() }
    }
}

/// The application's arrays of completions and of their sources, while they are filled.
struct Entries {
    next: *mut c_void,
    sources: *mut fi_addr_t,
    capacity: usize,
    filled: usize,
}

impl Entries {
    /// # Safety
    /// `entries` has room for `capacity` entries of the queue's format. `sources` is NULL or has
    /// room for as many addresses. Both stay writable while the value lives.
    unsafe fn new(
        entries: *mut c_void,
        sources: *mut fi_addr_t,
        capacity: usize,
    ) -> Result<Self, Error> {
        if entries.is_null() && capacity > 0 {
            return Err(Error::Invalid);
        }
        Ok(Self { next: entries, sources, capacity, filled: 0 })
    }

    /// Whether there is room for one more.
    #[inline]
    const fn has_room(&self) -> bool {
        self.filled < self.capacity
    }

    /// Writes one completion in `format`, if there is room.
    #[inline]
    fn push(&mut self, format: abi::fi_cq_format, entry: &Entry) {
        if !self.has_room() {
            return;
        }
        let op_context = std::ptr::with_exposed_provenance_mut(entry.context.0 as usize);
        let Entry { flags, len, data, tag, .. } = *entry;
        let buf = buffer_of(entry);
        match format {
            // SAFETY: there is room for an entry of the format that the queue was opened with
            // (`new`). The queue passes that format here, in each arm.
            abi::FI_CQ_FORMAT_MSG => unsafe {
                self.write(abi::fi_cq_msg_entry { op_context, flags, len });
            },
            // SAFETY: as above.
            abi::FI_CQ_FORMAT_DATA => unsafe {
                self.write(abi::fi_cq_data_entry { op_context, flags, len, buf, data });
            },
            // SAFETY: as above.
            abi::FI_CQ_FORMAT_TAGGED => unsafe {
                self.write(abi::fi_cq_tagged_entry { op_context, flags, len, buf, data, tag });
            },
            // SAFETY: as above.
            _ => unsafe { self.write(abi::fi_cq_entry { op_context }) },
        }
        if !self.sources.is_null() {
            // SAFETY: `filled` is below the capacity, for which there is room (`new`).
            let at = unsafe { self.sources.add(self.filled) };
            // SAFETY: writable (`new`).
            unsafe { at.write(entry.source) };
        }
        self.filled += 1;
    }

    /// # Safety
    /// There is room for a `T` at `next`.
    #[inline]
    unsafe fn write<T>(&mut self, entry: T) {
        let at = self.next.cast::<T>();
        // SAFETY: promised by the caller; the application aligned its array for `T`.
        unsafe { at.write(entry) };
        self.next = at.wrapping_add(1).cast();
    }
}

/// Address of a message in a multi-receive buffer, for the application.
fn buffer_of(entry: &Entry) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(entry.buffer_address)
}

/// A read into the application's arrays.
///
/// # Safety
/// `cq` is NULL or an open object; the arrays are as [`Entries::new`] demands.
#[inline]
unsafe fn read_into(
    cq: *mut abi::fid_cq,
    (entries, sources, capacity): (*mut c_void, *mut fi_addr_t, usize),
    read: impl FnOnce(&Cq, &mut Entries) -> Result<usize, Error>,
) -> isize {
    // SAFETY: promised by the caller.
    let queue = unsafe { object::object::<Cq>(cq.cast::<abi::fid>()) };
    counted(queue.and_then(|queue| {
        // SAFETY: promised by the caller.
        let mut entries = unsafe { Entries::new(entries, sources, capacity) }?;
        read(queue, &mut entries)
    }))
}

/// A read that does not wait.
#[inline]
fn read_now(queue: &Cq, entries: &mut Entries) -> Result<usize, Error> {
    queue.read(entries.capacity, |format, entry| entries.push(format, entry))
}

/// `fi_cq_read`.
unsafe extern "C" fn read(cq: *mut abi::fid_cq, buffer: *mut c_void, count: usize) -> isize {
    // SAFETY: the man page's contract.
    unsafe { read_into(cq, (buffer, std::ptr::null_mut(), count), read_now) }
}

/// `fi_cq_readfrom`.
unsafe extern "C" fn readfrom(
    cq: *mut abi::fid_cq,
    buffer: *mut c_void,
    count: usize,
    sources: *mut fi_addr_t,
) -> isize {
    // SAFETY: the man page's contract.
    unsafe { read_into(cq, (buffer, sources, count), read_now) }
}

/// `fi_cq_sread`. The threshold in `cond` is a hint without effect; a negative timeout waits for
/// ever.
unsafe extern "C" fn sread(
    cq: *mut abi::fid_cq,
    buffer: *mut c_void,
    count: usize,
    cond: *const c_void,
    timeout_ms: c_int,
) -> isize {
    // SAFETY: the man page's contract.
    unsafe { sreadfrom(cq, buffer, count, std::ptr::null_mut(), cond, timeout_ms) }
}

/// `fi_cq_sreadfrom`.
unsafe extern "C" fn sreadfrom(
    cq: *mut abi::fid_cq,
    buffer: *mut c_void,
    count: usize,
    sources: *mut fi_addr_t,
    _cond: *const c_void,
    timeout_ms: c_int,
) -> isize {
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    let read = |queue: &Cq, entries: &mut Entries| {
        queue.read_wait(entries.capacity, timeout, |format, entry| entries.push(format, entry))
    };
    // SAFETY: the man page's contract.
    unsafe { read_into(cq, (buffer, sources, count), read) }
}

/// `fi_cq_readerr`.
unsafe extern "C" fn readerr(
    cq: *mut abi::fid_cq,
    buffer: *mut abi::fi_cq_err_entry,
    _flags: u64,
) -> isize {
    // SAFETY: the man page's contract: open.
    let queue = unsafe { object::object::<Cq>(cq.cast::<abi::fid>()) };
    counted(queue.and_then(|queue| {
        if queue.api_version() < abi::REVISED_1_5 {
            // SAFETY: the man page's contract: writable, of the size of the application's version.
            return unsafe { read_old_error(queue, buffer) };
        }
        // SAFETY: the man page's contract: writable, of the size of the application's version.
        let to = unsafe { buffer.as_mut() }.ok_or(Error::Invalid)?;
        let entry = queue.read_error()?;
        write_error(to, &entry);
        // SAFETY: the man page's contract: NULL, or room for `err_data_size` bytes.
        unsafe { write_unknown_source(to, queue, entry.unknown_source) };
        if queue.api_version() >= abi::make_version(1, 20) {
            // SAFETY: an application of this version or later passes the structure that has the
            // member.
            unsafe { write_source(buffer, entry.entry.source) };
        }
        Ok(1)
    }))
}

/// `fi_cq_readerr` of an application from before 1.5: its entry ends in front of `err_data_size`.
///
/// # Safety
/// `buffer` is NULL or has room for that entry.
unsafe fn read_old_error(queue: &Cq, buffer: *mut abi::fi_cq_err_entry) -> Result<usize, Error> {
    if buffer.is_null() {
        return Err(Error::Invalid);
    }
    let entry = queue.read_error()?;
    let mut whole = NO_ERROR;
    write_error(&mut whole, &entry);
    // SAFETY: `whole` names no room for error data.
    unsafe { write_unknown_source(&mut whole, queue, entry.unknown_source) };
    let (from, to) = ((&raw const whole).cast::<u8>(), buffer.cast::<u8>());
    let len = offset_of!(abi::fi_cq_err_entry, err_data_size);
    // SAFETY: `len` bytes are in `whole`, and in the application's entry by promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    Ok(1)
}

/// An error entry before its members are written.
const NO_ERROR: abi::fi_cq_err_entry = abi::fi_cq_err_entry {
    op_context: std::ptr::null_mut(),
    flags: 0,
    len: 0,
    buf: std::ptr::null_mut(),
    data: 0,
    tag: 0,
    olen: 0,
    err: 0,
    prov_errno: 0,
    err_data: std::ptr::null_mut(),
    err_data_size: 0,
};

/// The source of a message, if it is not in the address vector. It goes to the application's buffer
/// for error data, or to memory of the queue (`fi_cq(3)`, `err_data`).
///
/// # Safety
/// `to.err_data` has room for `to.err_data_size` bytes, if that is not 0.
unsafe fn write_unknown_source(
    to: &mut abi::fi_cq_err_entry,
    queue: &Cq,
    unknown_source: Option<SocketAddress>,
) {
    if to.err_data_size == 0 {
        let kept = unknown_source.map(|address| (queue.keep(address), address.bytes().len()));
        let (data, len) = kept.unwrap_or((std::ptr::null(), 0));
        (to.err_data, to.err_data_size) = (data.cast_mut().cast(), len);
        return;
    }
    let bytes = unknown_source.as_ref().map_or(&[][..], SocketAddress::bytes);
    let bytes = bytes.get(..to.err_data_size).unwrap_or(bytes);
    // SAFETY: no more bytes than there is room for (promised, checked).
    to.err_data_size = match unsafe { copy_out(bytes, to.err_data, &raw mut to.err_data_size) } {
        Ok(()) => bytes.len(),
        Err(_) => 0,
    };
}

/// The members of every version, without error data.
fn write_error(to: &mut abi::fi_cq_err_entry, error: &ErrorEntry) {
    to.op_context = std::ptr::with_exposed_provenance_mut(error.entry.context.0 as usize);
    to.flags = error.entry.flags;
    to.len = error.entry.len;
    to.buf = buffer_of(&error.entry);
    to.data = error.entry.data;
    to.tag = error.entry.tag;
    to.olen = error.overflow;
    to.err = error.number;
    to.prov_errno = error.number;
}

/// `src_addr`, which libfabric 1.20 appended.
///
/// # Safety
/// `entry` points to a `fi_cq_err_entry` of libfabric 1.20 or later.
unsafe fn write_source(entry: *mut abi::fi_cq_err_entry, source: fi_addr_t) {
    // SAFETY: the member lies inside the structure (promised).
    let at = unsafe { entry.byte_add(abi::ERR_ENTRY_SRC_ADDR_OFFSET) };
    // SAFETY: as above; aligned, because the offset is a multiple of the structure's alignment.
    unsafe { at.cast::<fi_addr_t>().write(source) };
}

/// `fi_cq_signal`.
unsafe extern "C" fn signal(cq: *mut abi::fid_cq) -> c_int {
    // SAFETY: the man page's contract: open.
    control(|| unsafe { object::object::<Cq>(cq.cast::<abi::fid>()) }?.signal())
}

/// `fi_cq_strerror`.
unsafe extern "C" fn strerror(
    _cq: *mut abi::fid_cq,
    provider_errno: c_int,
    _data: *const c_void,
    buffer: *mut c_char,
    len: usize,
) -> *const c_char {
    let text = errno::completion_text(provider_errno);
    // SAFETY: the man page's contract: NULL, or room for `len` bytes.
    unsafe { copy_text(text, buffer, len) };
    text.as_ptr()
}
