// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_av`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use super::{array, control, copy_out, copy_text, text, unsupported::slot};
use crate::abi::{self, bits, fi_addr_t};
use crate::av::Av;
use crate::errno::Error;
use crate::fid::{self, Object};
use crate::ops::AvOps;
use crate::sockaddr::{self, SocketAddress};

static FID_OPS: abi::fi_ops = super::fid::table::<Av>();

static OPS: abi::fi_ops_av = abi::fi_ops_av {
    size: size_of::<abi::fi_ops_av>(),
    insert: Some(insert::<Av>),
    insertsvc: Some(insertsvc::<Av>),
    insertsym: slot(),
    remove: Some(remove::<Av>),
    lookup: Some(lookup::<Av>),
    straddr: Some(straddr::<Av>),
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

/// Our object behind the pointer of an address vector.
///
/// # Safety
/// As [`fid::object`].
unsafe fn vector<'a, T: Object>(vector: *mut abi::fid_av) -> Result<&'a Arc<T>, Error> {
    // SAFETY: passed on from the caller.
    unsafe { fid::object(vector.cast::<abi::fid>()) }
}

/// `fi_av_insert`: how many addresses were inserted. With `FI_SYNC_ERR`, `context` is an array of
/// `int` that takes each address's error.
unsafe extern "C" fn insert<T: AvOps + Object>(
    av: *mut abi::fid_av,
    addresses: *const c_void,
    count: usize,
    results: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    let mut inserted: c_int = 0;
    let errors = if flags & bits::SYNC_ERR == 0 { std::ptr::null_mut() } else { context.cast() };
    let status = control(|| {
        // SAFETY: the man page's contract: open.
        let av = unsafe { vector::<T>(av) }?;
        if flags & bits::AV_USER_ID != 0 {
            return Err(Error::BadFlags);
        }
        let len = av.address_len();
        let bytes = len.checked_mul(count).ok_or(Error::Invalid)?;
        // SAFETY: the man page's contract: `count` addresses of the vector's format.
        let addresses = unsafe { array(addresses.cast::<u8>(), bytes) }?;
        for (index, address) in addresses.chunks_exact(len).enumerate() {
            let result =
                sockaddr::decode(address).ok_or(Error::Invalid).and_then(|it| av.insert(it));
            // SAFETY: the man page's contract: both arrays are NULL or have `count` elements.
            unsafe { report(results, errors, index, result) };
            inserted += c_int::from(result.is_ok());
        }
        Ok(())
    });
    if status == 0 { inserted } else { status }
}

/// Writes what became of the address at `index`.
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

/// `fi_av_insertsvc`: how many addresses were inserted, that is 1.
unsafe extern "C" fn insertsvc<T: AvOps + Object>(
    av: *mut abi::fid_av,
    node: *const c_char,
    service: *const c_char,
    result: *mut fi_addr_t,
    _flags: u64,
    _context: *mut c_void,
) -> c_int {
    let status = control(|| {
        // SAFETY: the man page's contract: open.
        let av = unsafe { vector::<T>(av) }?;
        // SAFETY: the man page's contract: NULL or a string.
        let node = unsafe { text(node) }?;
        // SAFETY: as above.
        let service = unsafe { text(service) }?;
        let inserted = av.insert_service(node.as_deref(), service.as_deref());
        // SAFETY: the man page's contract: NULL or room for one.
        unsafe { report(result, std::ptr::null_mut(), 0, inserted) };
        inserted.map(|_| ())
    });
    if status == 0 { 1 } else { status }
}

/// `fi_av_remove`.
unsafe extern "C" fn remove<T: AvOps + Object>(
    av: *mut abi::fid_av,
    addresses: *mut fi_addr_t,
    count: usize,
    _flags: u64,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let av = unsafe { vector::<T>(av) }?;
        // SAFETY: the man page's contract: `count` elements.
        let addresses = unsafe { array(addresses.cast_const(), count) }?;
        // Backwards, so that the freed indices of a whole block come back in its order.
        addresses.iter().rev().try_for_each(|&address| av.remove(address))
    })
}

/// `fi_av_lookup`.
unsafe extern "C" fn lookup<T: AvOps + Object>(
    av: *mut abi::fid_av,
    address: fi_addr_t,
    buffer: *mut c_void,
    len: *mut usize,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let av = unsafe { vector::<T>(av) }?;
        let found = SocketAddress::from(av.lookup(address)?);
        // SAFETY: the man page's contract: `*len` bytes of room. A cut address is no error here:
        // the true length says so (fi_av(3)).
        match unsafe { copy_out(found.bytes(), buffer, len) } {
            Err(Error::TooSmall) | Ok(()) => Ok(()),
            error => error,
        }
    })
}

/// `fi_av_straddr`: the address as text, `fi_sockaddr_in://198.18.0.1:7471`.
unsafe extern "C" fn straddr<T: AvOps + Object>(
    av: *mut abi::fid_av,
    address: *const c_void,
    buffer: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    let status = control(|| {
        // SAFETY: the man page's contract: open.
        let av = unsafe { vector::<T>(av) }?;
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
