// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_av`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use super::{array, control, copy_out, copy_text, text, unsupported::slot};
use crate::c_api::object::{self, Object};
use crate::objects::av::Av;
use crate::objects::eq::{Eq, ErrorEvent, Event};
use crate::sys::abi::{self, bits, fi_addr_t};
use crate::sys::errno::Error;
use crate::sys::sockaddr::{self, SocketAddress};

static FID_OPS: abi::fi_ops = super::fid::table::<Av>();

static OPS: abi::fi_ops_av = abi::fi_ops_av {
    size: size_of::<abi::fi_ops_av>(),
    insert: Some(insert),
    insertsvc: Some(insertsvc),
    insertsym: Some(insertsym),
    remove: Some(remove),
    lookup: Some(lookup),
    straddr: Some(straddr),
    av_set: slot(),
};

// SAFETY: `fid_av` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for Av {
    type C = abi::fid_av;
    const CLASS: u32 = abi::FI_CLASS_AV;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_av {
        abi::fid_av { fid, ops: std::ptr::from_ref(&OPS).cast_mut() }
    }
}

/// The object behind the pointer of an address vector.
///
/// # Safety
/// Those of [`object::object`].
unsafe fn vector<'a>(vector: *mut abi::fid_av) -> Result<&'a Arc<Av>, Error> {
    // SAFETY: passed on from the caller.
    unsafe { object::object(vector.cast::<abi::fid>()) }
}

/// The outputs of an insertion: the application's arrays, and the event queue of an asynchronous
/// vector.
struct Report<'a> {
    results: *mut fi_addr_t,
    errors: *mut c_int,
    events: Option<&'a Arc<Eq>>,
    fid: usize,
    context: usize,
    inserted: usize,
}

impl<'a> Report<'a> {
    /// # Safety
    /// `results` is NULL or an array with an element for each address; with `FI_SYNC_ERR`, so is
    /// `context`, of `int`.
    unsafe fn new(
        av: &'a Av,
        fid: *mut abi::fid_av,
        results: *mut fi_addr_t,
        flags: u64,
        context: *mut c_void,
    ) -> Result<Self, Error> {
        if flags & !(bits::MORE | bits::SYNC_ERR) != 0 {
            return Err(Error::BadFlags);
        }
        let events = av.events()?;
        // For an asynchronous insertion, `context` is the application's context.
        let synchronous = flags & bits::SYNC_ERR != 0 && events.is_none();
        if synchronous && context.is_null() {
            return Err(Error::Invalid);
        }
        let errors = if synchronous { context.cast() } else { std::ptr::null_mut() };
        let (fid, context) = (fid.expose_provenance(), context.expose_provenance());
        Ok(Self { results, errors, events, fid, context, inserted: 0 })
    }

    /// Reports the result for the address at `index`.
    ///
    /// # Safety
    /// `index` is below the number of addresses.
    unsafe fn add(&mut self, index: usize, result: Result<fi_addr_t, Error>) {
        // SAFETY: `index` is inside both arrays, if they are there (promised here and in `new`).
        unsafe { report(self.results, self.errors, index, result) };
        match (result, self.events) {
            (Ok(_), _) => self.inserted += 1,
            (Err(error), Some(queue)) => queue.push_error(ErrorEvent {
                fid: self.fid,
                context: self.context,
                data: index as u64,
                number: error.number(),
                detail: error.number(),
                bytes: Vec::new(),
            }),
            (Err(_), None) => {}
        }
    }

    /// The return value: the number of inserted addresses, or 0 if an event reports it.
    fn finish(self) -> usize {
        let Some(queue) = self.events else { return self.inserted };
        let fields = [self.fid, self.context, self.inserted];
        let bytes = fields.iter().flat_map(|field| field.to_ne_bytes()).collect();
        queue.push(Event::new(abi::FI_AV_COMPLETE, bytes));
        0
    }
}

/// `struct fi_eq_entry` is three pointer-sized members: `fid`, `context`, `data`.
const _: () = assert!(size_of::<abi::fi_eq_entry>() == 3 * size_of::<usize>());

/// A count as C's `int`, or an error.
fn inserted(call: impl FnOnce() -> Result<usize, Error>) -> c_int {
    let mut count = 0;
    let status = control(|| {
        count = call()?;
        Ok(())
    });
    if status == 0 { c_int::try_from(count).unwrap_or(c_int::MAX) } else { status }
}

/// `fi_av_insert`: returns the number of inserted addresses. With `FI_SYNC_ERR`, `context` is an
/// array of `int` for the error of each address.
unsafe extern "C" fn insert(
    av: *mut abi::fid_av,
    addresses: *const c_void,
    count: usize,
    results: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    inserted(|| {
        let fid = av;
        // SAFETY: the man page's contract: open.
        let av = unsafe { vector(av) }?;
        // SAFETY: the man page's contract: both arrays are NULL or have `count` elements.
        let mut report = unsafe { Report::new(av, fid, results, flags, context) }?;
        let len = av.address_len();
        let bytes = len.checked_mul(count).ok_or(Error::Invalid)?;
        // SAFETY: the man page's contract: `count` addresses of the vector's format.
        let addresses = unsafe { array(addresses.cast::<u8>(), bytes) }?;
        for (index, address) in addresses.chunks_exact(len).enumerate() {
            let result =
                sockaddr::decode(address).ok_or(Error::Invalid).and_then(|it| av.insert(it));
            // SAFETY: there are `count` addresses.
            unsafe { report.add(index, result) };
        }
        Ok(report.finish())
    })
}

/// Writes the result for the address at `index`.
///
/// # Safety
/// `results` and `errors` are NULL or may be written at `index`.
unsafe fn report(
    results: *mut fi_addr_t,
    errors: *mut c_int,
    index: usize,
    result: Result<fi_addr_t, Error>,
) {
    if !results.is_null() {
        // SAFETY: `index` is inside the array (promised).
        let at = unsafe { results.add(index) };
        // SAFETY: writable (promised).
        unsafe { at.write(result.unwrap_or(abi::ADDR_NONE)) };
    }
    if !errors.is_null() {
        // SAFETY: `index` is inside the array (promised).
        let at = unsafe { errors.add(index) };
        // SAFETY: writable (promised).
        unsafe { at.write(result.err().map_or(0, Error::number)) };
    }
}

/// `fi_av_insertsvc`: returns the number of inserted addresses, which is 1, or an error that is in
/// no event.
unsafe extern "C" fn insertsvc(
    av: *mut abi::fid_av,
    node: *const c_char,
    service: *const c_char,
    result: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    inserted(|| {
        let fid = av;
        // SAFETY: the man page's contract: open.
        let av = unsafe { vector(av) }?;
        // SAFETY: the man page's contract: NULL or a string.
        let node = unsafe { text(node) }?;
        // SAFETY: as above.
        let service = unsafe { text(service) }?;
        // SAFETY: the man page's contract: NULL or room for one.
        let mut report = unsafe { Report::new(av, fid, result, flags, context) }?;
        let found = av.resolve(node.as_deref(), service.as_deref());
        let inserted = found.and_then(|address| av.insert(address));
        // SAFETY: there is one address.
        unsafe { report.add(0, inserted) };
        if report.events.is_none() {
            inserted?;
        }
        Ok(report.finish())
    })
}

/// `fi_av_insertsym`: returns the number of inserted addresses.
unsafe extern "C" fn insertsym(
    av: *mut abi::fid_av,
    node: *const c_char,
    nodes: usize,
    service: *const c_char,
    services: usize,
    results: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    inserted(|| {
        let fid = av;
        // SAFETY: the man page's contract: open.
        let av = unsafe { vector(av) }?;
        // SAFETY: the man page's contract: a string.
        let node = unsafe { text(node) }?.ok_or(Error::Invalid)?;
        // SAFETY: as above.
        let service = unsafe { text(service) }?.ok_or(Error::Invalid)?;
        // SAFETY: the man page's contract: NULL or room for all.
        let mut report = unsafe { Report::new(av, fid, results, flags, context) }?;
        let count = nodes.checked_mul(services).ok_or(Error::Invalid)?;
        if count > av.table().capacity() {
            return Err(Error::NoMemory);
        }
        for (n, m) in (0..nodes).flat_map(|n| (0..services).map(move |m| (n, m))) {
            let found = av.resolve_nth((&node, n), (&service, m));
            let result = found.and_then(|address| av.insert(address));
            // SAFETY: below `nodes * services`.
            unsafe { report.add(n * services + m, result) };
        }
        Ok(report.finish())
    })
}

/// `fi_av_remove`: removes all valid addresses, even if some are invalid.
unsafe extern "C" fn remove(
    av: *mut abi::fid_av,
    addresses: *mut fi_addr_t,
    count: usize,
    flags: u64,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let av = unsafe { vector(av) }?;
        if flags != 0 {
            return Err(Error::BadFlags);
        }
        // SAFETY: the man page's contract: `count` elements.
        let addresses = unsafe { array(addresses.cast_const(), count) }?;
        addresses.iter().map(|&address| av.table().remove(address)).fold(Ok(()), Result::and)
    })
}

/// `fi_av_lookup`.
unsafe extern "C" fn lookup(
    av: *mut abi::fid_av,
    address: fi_addr_t,
    buffer: *mut c_void,
    len: *mut usize,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let av = unsafe { vector(av) }?;
        let found = SocketAddress::from(av.table().lookup(address)?);
        // SAFETY: the man page's contract: `*len` bytes of room. A cut address is no error: the
        // true length shows it (fi_av(3)).
        match unsafe { copy_out(found.bytes(), buffer, len) } {
            Err(Error::TooSmall) | Ok(()) => Ok(()),
            error => error,
        }
    })
}

/// `fi_av_straddr`: the address as text, `fi_sockaddr_in://198.18.0.1:7471`.
unsafe extern "C" fn straddr(
    av: *mut abi::fid_av,
    address: *const c_void,
    buffer: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    let status = control(|| {
        // SAFETY: the man page's contract: open.
        let av = unsafe { vector(av) }?;
        // SAFETY: the man page's contract: one address of the vector's format.
        let bytes = unsafe { array(address.cast::<u8>(), av.address_len()) }?;
        let address = sockaddr::decode(bytes).ok_or(Error::Invalid)?;
        let text = CString::new(sockaddr::text(&address)).map_err(|_| Error::Invalid)?;
        // SAFETY: the man page's contract: readable, or NULL.
        let room = *unsafe { super::argument(len) }?;
        // SAFETY: the man page's contract: `*len` bytes of room.
        unsafe { copy_text(&text, buffer, room) };
        // SAFETY: the man page's contract: writable; takes the length that the whole text needs.
        unsafe { super::answer(len, text.as_bytes_with_nul().len()) }
    });
    if status == 0 { buffer } else { std::ptr::null() }
}
