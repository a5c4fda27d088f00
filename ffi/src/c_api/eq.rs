// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_eq`.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::time::Duration;

use super::{array, copy_text, counted};
use crate::c_api::object::{self, Object};
use crate::objects::eq::{EVENT_LEN_MAX, Eq, ErrorEvent, Event};
use crate::sys::abi::{self, bits};
use crate::sys::errno::Error;

static FID_OPS: abi::fi_ops = super::fid::table::<Eq>();

static OPS: abi::fi_ops_eq = abi::fi_ops_eq {
    size: size_of::<abi::fi_ops_eq>(),
    read: Some(read),
    readerr: Some(readerr),
    write: Some(write),
    sread: Some(sread),
    strerror: Some(strerror),
};

// SAFETY: `fid_eq` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for Eq {
    type C = abi::fid_eq;
    const CLASS: u32 = abi::FI_CLASS_EQ;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_eq {
        abi::fid_eq { fid, ops: std::ptr::from_ref(&OPS).cast_mut() }
    }
}

/// `fi_eq_read`: returns the length of the event.
unsafe extern "C" fn read(
    queue: *mut abi::fid_eq,
    event: *mut u32,
    buffer: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: open.
    let queue = unsafe { object::object::<Eq>(queue.cast::<abi::fid>()) };
    // SAFETY: the man page's contract: room for `len` bytes.
    counted(queue.and_then(|queue| unsafe { take(queue, event, (buffer, len), flags) }))
}

/// # Safety
/// `event` is NULL or may be written; `buffer` is NULL or has room for `len` bytes.
unsafe fn take(
    queue: &Eq,
    event: *mut u32,
    (buffer, len): (*mut c_void, usize),
    flags: u64,
) -> Result<usize, Error> {
    if flags & !bits::PEEK != 0 {
        return Err(Error::BadFlags);
    }
    queue.read(flags & bits::PEEK != 0, |found| {
        if event.is_null() || (buffer.is_null() && len > 0) {
            return Err(Error::Invalid);
        }
        if found.bytes.len() > len {
            return Err(Error::TooSmall);
        }
        // SAFETY: not NULL, hence writable (promised).
        unsafe { event.write(found.code) };
        let (from, to) = (found.bytes.as_ptr(), buffer.cast::<u8>());
        // SAFETY: no more than `len` bytes, for which there is room (promised) if there are any;
        // the application's buffer does not overlap ours.
        unsafe { std::ptr::copy_nonoverlapping(from, to, found.bytes.len()) };
        Ok(())
    })
}

/// `fi_eq_readerr`: returns the length of the entry.
unsafe extern "C" fn readerr(
    queue: *mut abi::fid_eq,
    entry: *mut abi::fi_eq_err_entry,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: open.
    let queue = unsafe { object::object::<Eq>(queue.cast::<abi::fid>()) };
    counted(queue.and_then(|queue| {
        if flags & !bits::PEEK != 0 {
            return Err(Error::BadFlags);
        }
        if entry.is_null() {
            return Err(Error::Invalid);
        }
        let error = queue.read_error(flags & bits::PEEK != 0)?;
        let old = queue.fabric().api_version() < abi::REVISED_1_5;
        // SAFETY: the man page's contract: not NULL, hence writable, of the size of the
        // application's version.
        Ok(unsafe { write_error(entry, &error, old) })
    }))
}

/// Writes an error entry; returns its length. An `old` one ends in front of `err_data_size`.
///
/// # Safety
/// `to` has room for the entry.
unsafe fn write_error(to: *mut abi::fi_eq_err_entry, error: &ErrorEvent, old: bool) -> usize {
    let whole = abi::fi_eq_err_entry {
        fid: std::ptr::with_exposed_provenance_mut(error.fid),
        context: std::ptr::with_exposed_provenance_mut(error.context),
        data: error.data,
        err: error.number,
        prov_errno: error.number,
        // Errors have no data.
        err_data: std::ptr::null_mut(),
        err_data_size: 0,
    };
    // Room for error data stays the application's; the old entry names no room.
    let data = offset_of!(abi::fi_eq_err_entry, err_data);
    let end = offset_of!(abi::fi_eq_err_entry, err_data_size);
    let from = (&raw const whole).cast::<u8>();
    // SAFETY: the bytes are in `whole`, and there is room for them (promised).
    unsafe { std::ptr::copy_nonoverlapping(from, to.cast::<u8>(), if old { end } else { data }) };
    if old {
        return end;
    }
    // SAFETY: this version's entry has the member (promised).
    let room = unsafe { &raw mut (*to).err_data_size };
    // SAFETY: as above: writable.
    unsafe { room.write(0) };
    size_of::<abi::fi_eq_err_entry>()
}

/// `fi_eq_write`: returns the number of bytes written.
unsafe extern "C" fn write(
    queue: *mut abi::fid_eq,
    code: u32,
    buffer: *const c_void,
    len: usize,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: open.
    let queue = unsafe { object::object::<Eq>(queue.cast::<abi::fid>()) };
    counted(queue.and_then(|queue| {
        if flags != 0 {
            return Err(Error::BadFlags);
        }
        if len > EVENT_LEN_MAX {
            return Err(Error::Invalid);
        }
        // SAFETY: the man page's contract: `len` bytes.
        let bytes = unsafe { array(buffer.cast::<u8>(), len) }?;
        queue.write(Event { code, bytes: bytes.to_vec() })
    }))
}

/// `fi_eq_sread`: a negative timeout waits for ever.
unsafe extern "C" fn sread(
    queue: *mut abi::fid_eq,
    event: *mut u32,
    buffer: *mut c_void,
    len: usize,
    timeout_ms: c_int,
    flags: u64,
) -> isize {
    // SAFETY: the man page's contract: open.
    let queue = unsafe { object::object::<Eq>(queue.cast::<abi::fid>()) };
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    counted(queue.and_then(|queue| {
        // SAFETY: the man page's contract: room for `len` bytes.
        queue.read_wait(timeout, || unsafe { take(queue, event, (buffer, len), flags) })
    }))
}

/// `fi_eq_strerror`.
unsafe extern "C" fn strerror(
    _queue: *mut abi::fid_eq,
    provider_errno: c_int,
    _data: *const c_void,
    buffer: *mut c_char,
    len: usize,
) -> *const c_char {
    let text = abi::error_text(provider_errno);
    // SAFETY: the man page's contract: NULL, or room for `len` bytes.
    unsafe { copy_text(text, buffer, len) };
    text.as_ptr()
}
