// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric's C interface, and safe wrappers of the functions that libfabric exports to providers.
//!
//! The declarations are those of `ffi/libfabric-sys`: libfabric 1.17's. A provider sees the layout
//! of the *running* library, which has members appended (`fi_provider(7)`). So structures are read
//! and written member by member through references to their 1.17 prefix, and are never allocated
//! here by size. Members of newer versions are touched only after a check of [`version`].
//!
//! Only symbols that have the version `FABRIC_1.0` in every release are linked (log, param,
//! version, strerror); [`running`] looks up the others.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::ptr::NonNull;

use ofi_xdp_datapath::HybridPort;
pub(crate) use ofi_xdp_libfabric_sys::running::{self, allocate_info, free_info};
pub(crate) use ofi_xdp_libfabric_sys::*;

/// The interface version that made `mr_mode` a set of bits, and appended `err_data_size` to error
/// entries.
pub(crate) const REVISED_1_5: u32 = make_version(1, 5);

/// The `fi_addr_t` that means any peer, or an unknown one.
pub(crate) const ADDR_NONE: fi_addr_t = FI_ADDR_UNSPEC;

/// `FI_SHARED_CONTEXT`, as a number of contexts.
pub(crate) const SHARED_CONTEXT: usize = usize::MAX;

/// Layouts of the C headers that this crate relies on.
const _: () = {
    use std::mem::offset_of;
    // `src_addr` was appended to `fi_cq_err_entry` in 1.20, right behind the members known here.
    assert!(size_of::<fi_cq_err_entry>() == ERR_ENTRY_SRC_ADDR_OFFSET);
    assert!(offset_of!(LongDomainAttr, max_ep_auth_key) == 192);
    assert!(offset_of!(LongDomainAttr, max_group_id) == 200);
};

/// Offset of `src_addr` in `fi_cq_err_entry` since libfabric 1.20.
pub(crate) const ERR_ENTRY_SRC_ADDR_OFFSET: usize = 80;

/// `fi_domain_attr` with the members of newer versions, which [`appended`] reads.
#[repr(C)]
struct LongDomainAttr {
    known: fi_domain_attr,
    /// Since libfabric 1.20.
    max_ep_auth_key: usize,
    /// Since libfabric 2.0.
    max_group_id: u32,
}

/// Limits that newer applications request: authorization keys of an endpoint (`max_ep_auth_key`)
/// and the greatest peer group (`max_group_id`). 0 if the running library does not have the member.
///
/// # Safety
/// `attributes` is NULL or points to the `fi_domain_attr` of the running library.
pub(crate) unsafe fn appended(attributes: *const fi_domain_attr) -> (usize, u32) {
    let (mut keys, mut group) = (0, 0);
    let attributes = attributes.cast::<LongDomainAttr>();
    if !attributes.is_null() && version() >= make_version(1, 20) {
        // SAFETY: this version's structure has the member (promised).
        keys = unsafe { (*attributes).max_ep_auth_key };
    }
    if !attributes.is_null() && version() >= make_version(2, 0) {
        // SAFETY: as above.
        group = unsafe { (*attributes).max_group_id };
    }
    (keys, group)
}

/// The provider structure, an argument of libfabric's log and param calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Provider(NonNull<fi_provider>);

// SAFETY: the pointer is passed only to libfabric's log and param calls, which lock shared data.
unsafe impl Send for Provider {}
// SAFETY: as for `Send`.
unsafe impl Sync for Provider {}

impl Provider {
    /// # Safety
    /// `provider` stays valid for the rest of the process.
    pub(crate) const unsafe fn new(provider: NonNull<fi_provider>) -> Self {
        Self(provider)
    }

    /// Whether a message of this `level` for `subsystem` would be printed.
    pub(crate) fn log_enabled(self, level: fi_log_level, subsystem: fi_log_subsys) -> bool {
        // SAFETY: the provider is valid (see `new`), the enumerators are the header's.
        unsafe { fi_log_enabled(self.0.as_ptr(), level, subsystem) != 0 }
    }

    /// Prints `message` with its source location. The caller has checked [`Self::log_enabled`].
    pub(crate) fn log(
        self,
        level: fi_log_level,
        subsystem: fi_log_subsys,
        (function, line): (&CStr, u32),
        message: &CStr,
    ) {
        let line = c_int::try_from(line).unwrap_or(0);
        let errno = nix::errno::Errno::last_raw();
        // SAFETY: all strings are zero-terminated and live across the call; the format takes one
        // string.
        unsafe {
            fi_log(
                self.0.as_ptr(),
                level,
                subsystem,
                function.as_ptr(),
                line,
                c"%s\n".as_ptr(),
                message.as_ptr(),
            );
        }
        nix::errno::Errno::set_raw(errno);
    }

    /// Defines the variable `FI_XDP_<NAME>` (`fi_info -g xdp` lists it).
    pub(crate) fn define(self, name: &CStr, kind: fi_param_type, help: &CStr) -> c_int {
        // SAFETY: both strings are zero-terminated and are copied by the callee; the format takes
        // one string.
        unsafe {
            fi_param_define(self.0.as_ptr(), name.as_ptr(), kind, c"%s".as_ptr(), help.as_ptr())
        }
    }

    /// The value of a string variable, if it is set.
    pub(crate) fn text_value(self, name: &CStr) -> Option<String> {
        let mut value: *mut c_char = std::ptr::null_mut();
        // SAFETY: the variable was defined as a string, so the callee writes one pointer.
        let status =
            unsafe { fi_param_get(self.0.as_ptr(), name.as_ptr(), (&raw mut value).cast()) };
        if status != 0 || value.is_null() {
            return None;
        }
        // SAFETY: on success the pointer is a zero-terminated string in the environment, which this
        // provider does not modify; it is copied at once.
        let text = unsafe { CStr::from_ptr(value) };
        Some(text.to_string_lossy().into_owned())
    }

    /// The value of a variable that is yes or no. `None` if it is not set; an error for an invalid
    /// value.
    pub(crate) fn flag_value(self, name: &CStr) -> Result<Option<bool>, c_int> {
        let mut value: c_int = 0;
        // SAFETY: the variable was defined as a boolean (fi_provider(3)), so the callee writes one
        // `int`.
        let status =
            unsafe { fi_param_get(self.0.as_ptr(), name.as_ptr(), (&raw mut value).cast()) };
        match status {
            0 => Ok(Some(value != 0)),
            status if status == -(FI_ENODATA as c_int) => Ok(None),
            status => Err(status),
        }
    }
}

/// The file of this library, as it was opened; `None` if the loader does not tell.
pub(crate) fn library() -> Option<PathBuf> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let here = (library as fn() -> Option<PathBuf>) as *const c_void;
    // SAFETY: any address may be asked for; the result may be written.
    let status = unsafe { libc::dladdr(here, found.as_mut_ptr()) };
    // SAFETY: zeroed, which is valid for these pointers, and possibly written.
    let name = unsafe { found.assume_init() }.dli_fname;
    if status == 0 || name.is_null() {
        return None;
    }
    // SAFETY: on success it is a zero-terminated string that lives as long as the library.
    let name = unsafe { CStr::from_ptr(name) };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}

/// `FI_PROVIDER`, the filter of providers.
pub(crate) fn provider_filter() -> Option<String> {
    let mut value: *mut c_char = std::ptr::null_mut();
    // SAFETY: the variable is libfabric's own, a string: the callee writes one pointer.
    let status = unsafe {
        fi_param_get(std::ptr::null_mut(), c"provider".as_ptr(), (&raw mut value).cast::<c_void>())
    };
    if status != 0 || value.is_null() {
        return None;
    }
    // SAFETY: on success it is a zero-terminated string in the environment or the configuration,
    // copied at once.
    Some(unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
}

/// A copy of `text` in memory that C frees with `free`; NULL when memory is out or `text` holds a
/// zero.
pub(crate) fn c_string(text: &str) -> *mut c_char {
    let Ok(text) = CString::new(text) else { return std::ptr::null_mut() };
    // SAFETY: the argument is zero-terminated.
    unsafe { libc::strdup(text.as_ptr()) }
}

/// A copy of `bytes` in memory that C frees with `free`; NULL when memory is out.
pub(crate) fn c_bytes(bytes: &[u8]) -> *mut c_void {
    // SAFETY: `malloc` accepts any size.
    let memory = unsafe { libc::malloc(bytes.len()) };
    if !memory.is_null() {
        // SAFETY: the new block holds `bytes.len()` bytes and overlaps nothing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.cast::<u8>(), bytes.len()) };
    }
    memory
}

/// Replaces the C string of a member by another text, or by NULL.
///
/// # Safety
/// `member` is NULL or a string that C's `free` frees, and belongs to the caller.
pub(crate) unsafe fn replace_text(member: &mut *mut c_char, text: Option<&str>) -> Option<()> {
    let new = match text {
        None => std::ptr::null_mut(),
        Some(text) => {
            let new = c_string(text);
            if new.is_null() {
                return None;
            }
            new
        }
    };
    let old = std::mem::replace(member, new);
    // SAFETY: promised by the caller; the old pointer is not used any more.
    unsafe { libc::free(old.cast()) };
    Some(())
}

/// The bytes of a `struct fi_eq_cm_entry` without a `fi_info`, with `data` behind it.
pub(crate) fn cm_entry(fid: usize, data: &[u8]) -> Vec<u8> {
    const _: () = assert!(size_of::<fi_eq_cm_entry>() == 2 * size_of::<usize>());
    let mut bytes = [fid.to_ne_bytes(), 0usize.to_ne_bytes()].concat();
    bytes.extend_from_slice(data);
    bytes
}

/// The descriptors of a port, while the port is borrowed.
pub(crate) fn descriptors(port: &HybridPort) -> impl Iterator<Item = BorrowedFd<'_>> {
    port.poll_fds().iter().map(|&descriptor| {
        // SAFETY: the port owns the listed descriptors, and closes none while it is borrowed.
        unsafe { BorrowedFd::borrow_raw(descriptor) }
    })
}
