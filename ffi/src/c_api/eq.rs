// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_eq`.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;

use super::{array, copy_text, counted};
use crate::c_api::object::{self, Object};
use crate::objects::eq::{ArrivedRequest, EVENT_LEN_MAX, Eq, ErrorEvent, Event};
use crate::sys::abi::{self, bits};
use crate::sys::errno::Error;
use crate::sys::owned_info::OwnedInfo;

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
    let peek = flags & bits::PEEK != 0;
    queue.read(peek, |found| {
        if event.is_null() || (buffer.is_null() && len > 0) {
            return Err(Error::Invalid);
        }
        found.bytes_for(len)?;
        let info = found.arrival.as_mut().map(|it| connection_info(it, peek)).transpose()?;
        let bytes = found.bytes_for(len)?;
        // SAFETY: not NULL, hence writable (promised).
        unsafe { event.write(found.code) };
        let (from, to) = (bytes.as_ptr(), buffer.cast::<u8>());
        // SAFETY: no more than `len` bytes, for which there is room (promised) if there are any;
        // the application's buffer does not overlap ours.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes.len()) };
        if let Some(info) = info {
            let entry = buffer.cast::<abi::fi_eq_cm_entry>();
            // SAFETY: such an event has the structure, for which there is room.
            let member = unsafe { &raw mut (*entry).info };
            // SAFETY: as above; the buffer may have any alignment.
            unsafe { member.write_unaligned(info) };
        }
        Ok(bytes.len())
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
        Ok(unsafe { write_error(queue, entry, error, old) })
    }))
}

/// Writes an error entry; returns its length. An `old` one ends in front of `err_data_size`.
///
/// # Safety
/// `to` has room for the entry; a current one is initialised.
unsafe fn write_error(
    queue: &Eq,
    to: *mut abi::fi_eq_err_entry,
    error: ErrorEvent,
    old: bool,
) -> usize {
    let whole = abi::fi_eq_err_entry {
        fid: std::ptr::with_exposed_provenance_mut(error.fid),
        context: std::ptr::with_exposed_provenance_mut(error.context),
        data: error.data,
        err: error.number,
        prov_errno: error.detail,
        err_data: std::ptr::null_mut(),
        err_data_size: 0,
    };
    let data = offset_of!(abi::fi_eq_err_entry, err_data);
    let end = offset_of!(abi::fi_eq_err_entry, err_data_size);
    let from = (&raw const whole).cast::<u8>();
    // SAFETY: the bytes are in `whole`, and there is room for them (promised).
    unsafe { std::ptr::copy_nonoverlapping(from, to.cast::<u8>(), if old { end } else { data }) };
    if old {
        return end;
    }
    // SAFETY: this version's entry is initialised (promised).
    let to = unsafe { &mut *to };
    // SAFETY: the man page's contract: `err_data` has room for `err_data_size` bytes, or is NULL.
    unsafe { write_error_data(queue, to, error.bytes) };
    size_of::<abi::fi_eq_err_entry>()
}

/// Copies the data of an error into the application's room, or names this library's copy, which
/// stays until the next error is read (`fi_eq(3)`, `err_data`).
///
/// # Safety
/// `to.err_data` is NULL, or has room for `to.err_data_size` bytes.
unsafe fn write_error_data(queue: &Eq, to: &mut abi::fi_eq_err_entry, bytes: Vec<u8>) {
    if bytes.is_empty() {
        to.err_data_size = 0;
        return;
    }
    if to.err_data_size == 0 || to.err_data.is_null() {
        to.err_data_size = bytes.len();
        to.err_data = queue.keep_data(bytes).cast_mut().cast();
        return;
    }
    to.err_data_size = to.err_data_size.min(bytes.len());
    let (from, into) = (bytes.as_ptr(), to.err_data.cast::<u8>());
    // SAFETY: the bytes are in `bytes`, and there is room for them (promised).
    unsafe { std::ptr::copy_nonoverlapping(from, into, to.err_data_size) };
}

/// The `fi_info` of a connection request, which the application frees. With `peek` the event keeps
/// it: all reads of an event have the same one (`fi_eq(3)`, `FI_PEEK`).
fn connection_info(arrival: &mut ArrivedRequest, peek: bool) -> Result<*mut abi::fi_info, Error> {
    let info = match arrival.info.take() {
        Some(peeked) => peeked,
        None => new_info(arrival)?,
    };
    if !peek {
        arrival.request.event_read();
        return Ok(info.into_raw());
    }
    Ok(arrival.info.insert(info).as_ptr())
}

/// A copy of the passive endpoint's `fi_info`, with both addresses, the names of the interface, and
/// the handle of the request.
fn new_info(arrival: &ArrivedRequest) -> Result<OwnedInfo, Error> {
    let ArrivedRequest { request, template, names, .. } = arrival;
    let mut info = template.duplicate()?;
    super::info::readdress(&mut info, request.local(), request.peer())?;
    if let Some((fabric, domain)) = names {
        info.rename_network(Some(fabric), Some(domain))?;
    }
    if request.handle() == 0 {
        let handle = object::open(Arc::clone(request), std::ptr::null_mut());
        request.set_handle(handle.expose_provenance());
    }
    info.get_mut().handle = std::ptr::with_exposed_provenance_mut(request.handle());
    Ok(info)
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
        queue.write(Event::new(code, bytes.to_vec()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::connection_manager::{ConnectionRequest, NewRequest, Purpose};
    use crate::objects::fabric::Fabric;

    fn fabric() -> Arc<Fabric> {
        Fabric::open(None, abi::make_version(1, 17)).unwrap()
    }

    #[test]
    fn data_of_an_error_are_named_where_the_application_has_no_room_for_them() {
        let queue = Eq::open(&fabric(), Default::default()).unwrap();
        for room in [0, 256] {
            let mut entry = abi::fi_eq_err_entry {
                fid: std::ptr::null_mut(),
                context: std::ptr::null_mut(),
                data: 0,
                err: 0,
                prov_errno: 0,
                err_data: std::ptr::null_mut(),
                err_data_size: room,
            };
            // SAFETY: NULL, whatever the size.
            unsafe { write_error_data(&queue, &mut entry, b"full".to_vec()) };
            assert!(!entry.err_data.is_null());
            assert_eq!(entry.err_data_size, 4);
        }
    }

    #[test]
    fn reads_of_a_request_bring_one_info() {
        let fabric = fabric();
        let manager = fabric.connection_manager().unwrap();
        let local = "127.0.0.1:0".parse().unwrap();
        let socket = manager.open(local, Purpose::Connect(1)).unwrap();
        let nobody: std::sync::Weak<crate::endpoint::connection::EndpointConnection> =
            std::sync::Weak::new();
        let cid = ofi_xdp_core::PeerId::NONE;
        let id = socket.connect(socket.local(), (local, cid), &[], nobody).unwrap();
        let (from, peer) = (socket.local(), socket.local());
        let request = ConnectionRequest::new(&socket, NewRequest { id, from, peer, cid });
        let template = abi::allocate_info().unwrap();
        // SAFETY: just allocated.
        let template = Arc::new(unsafe { OwnedInfo::from_raw(template) });
        let mut arrival = ArrivedRequest { request, template, names: None, info: None };
        let [first, second, taken] =
            [true, true, false].map(|peek| connection_info(&mut arrival, peek).unwrap());
        assert_eq!([first, second], [taken; 2]);
        assert!(arrival.info.is_none(), "the application frees it");
    }
}
