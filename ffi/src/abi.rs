// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric's C interface: declarations, and safe wrappers of what libfabric exports to providers.
//!
//! The declarations are libfabric 1.17's (`bindings.rs`, generated). A provider sees the layout of
//! the *running* library, which is that one with members appended (`fi_provider(7)`): so structures
//! are read and written member by member through references to their 1.17 prefix, and are never
//! allocated here by size. What newer versions append is touched only after asking [`version`].
//!
//! Imported by linking are only symbols whose version is `FABRIC_1.0` in every release (log, param,
//! version, strerror). `fi_dupinfo` and `fi_freeinfo` change theirs with the layout of `fi_info`,
//! and are looked up at run time, which gives the running library's default.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::OnceLock;

use ofi_xdp_datapath::HybridPort;

pub(crate) mod library;

#[allow(
    dead_code,
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unnameable_types,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::ptr_as_ptr,
    clippy::use_self,
    clippy::doc_markdown,
    reason = "written by bindgen"
)]
// As bindgen writes it, or `cargo xtask bindings --check` would differ.
#[rustfmt::skip]
#[path = "bindings.rs"]
mod bindings;

pub(crate) use bindings::*;

#[link(name = "fabric")]
unsafe extern "C" {}

/// Flag and capability bits, all of the width in which libfabric uses them.
pub(crate) mod bits {
    macro_rules! bits {
        ($($name:ident = $value:ident),* $(,)?) => {
            $(pub(crate) const $name: u64 = super::bindings::$value as u64;)*
        };
    }

    bits! {
        MSG = FI_MSG, RMA = FI_RMA, TAGGED = FI_TAGGED, ATOMIC = FI_ATOMIC,
        MULTICAST = FI_MULTICAST, COLLECTIVE = FI_COLLECTIVE, READ = FI_READ, WRITE = FI_WRITE,
        RECV = FI_RECV, SEND = FI_SEND, REMOTE_READ = FI_REMOTE_READ,
        REMOTE_WRITE = FI_REMOTE_WRITE,
        RMA_EVENT = FI_RMA_EVENT, FETCH_ATOMIC = FI_FETCH_ATOMIC,
        COMPARE_ATOMIC = FI_COMPARE_ATOMIC, HMEM = FI_HMEM, NAMED_RX_CTX = FI_NAMED_RX_CTX,
        DIRECTED_RECV = FI_DIRECTED_RECV, SOURCE = FI_SOURCE, LOCAL_COMM = FI_LOCAL_COMM,
        REMOTE_COMM = FI_REMOTE_COMM, REMOTE_CQ_DATA = FI_REMOTE_CQ_DATA, MORE = FI_MORE,
        COMPLETION = FI_COMPLETION, INJECT = FI_INJECT, INJECT_COMPLETE = FI_INJECT_COMPLETE,
        TRANSMIT_COMPLETE = FI_TRANSMIT_COMPLETE, DELIVERY_COMPLETE = FI_DELIVERY_COMPLETE,
        PEEK = FI_PEEK, CLAIM = FI_CLAIM, DISCARD = FI_DISCARD, FENCE = FI_FENCE,
        COMMIT_COMPLETE = FI_COMMIT_COMPLETE, MATCH_COMPLETE = FI_MATCH_COMPLETE,
        SELECTIVE_COMPLETION = FI_SELECTIVE_COMPLETION, NUMERICHOST = FI_NUMERICHOST,
        EVENT = FI_EVENT, MULTI_RECV = FI_MULTI_RECV, SYNC_ERR = FI_SYNC_ERR,
        ORDER_RAR = FI_ORDER_RAR,
        ORDER_RAW = FI_ORDER_RAW, ORDER_RAS = FI_ORDER_RAS, ORDER_WAR = FI_ORDER_WAR,
        ORDER_WAW = FI_ORDER_WAW, ORDER_WAS = FI_ORDER_WAS, ORDER_SAR = FI_ORDER_SAR,
        ORDER_SAW = FI_ORDER_SAW, ORDER_SAS = FI_ORDER_SAS, ORDER_RMA_RAR = FI_ORDER_RMA_RAR,
        ORDER_RMA_RAW = FI_ORDER_RMA_RAW, ORDER_RMA_WAR = FI_ORDER_RMA_WAR,
        ORDER_RMA_WAW = FI_ORDER_RMA_WAW, ORDER_ATOMIC_RAR = FI_ORDER_ATOMIC_RAR,
        ORDER_ATOMIC_RAW = FI_ORDER_ATOMIC_RAW, ORDER_ATOMIC_WAR = FI_ORDER_ATOMIC_WAR,
        ORDER_ATOMIC_WAW = FI_ORDER_ATOMIC_WAW, PEER = FI_PEER, SOURCE_ERR = FI_SOURCE_ERR,
        AFFINITY = FI_AFFINITY, SYMMETRIC = FI_SYMMETRIC, SHARED_AV = FI_SHARED_AV,
        TRIGGER = FI_TRIGGER, REG_MR = FI_REG_MR,
    }
}

/// `fi_addr_t` for "nobody in particular" and for "not known" (`FI_ADDR_UNSPEC`,
/// `FI_ADDR_NOTAVAIL`).
pub(crate) const ADDR_NONE: fi_addr_t = fi_addr_t::MAX;

/// `FI_SHARED_CONTEXT`, as it stands in counts of contexts.
pub(crate) const SHARED_CONTEXT: usize = usize::MAX;

/// A libfabric version as it stands in structures (`FI_VERSION`).
pub(crate) const fn make_version(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

/// Layouts that the C headers promise and this crate builds on.
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(fid_fabric, fid) == 0);
    assert!(offset_of!(fid_domain, fid) == 0);
    assert!(offset_of!(fid_ep, fid) == 0);
    assert!(offset_of!(fid_av, fid) == 0);
    assert!(offset_of!(fid_mr, fid) == 0);
    assert!(offset_of!(fid_cq, fid) == 0);
    assert!(offset_of!(fid_eq, fid) == 0);
    assert!(offset_of!(fid_nic, fid) == 0);
    assert!(offset_of!(fid_wait, fid) == 0);
    assert!(offset_of!(fid_poll, fid) == 0);
    // `src_addr` was appended to `fi_cq_err_entry` in 1.20, right behind the members known here.
    assert!(size_of::<fi_cq_err_entry>() == ERR_ENTRY_SRC_ADDR_OFFSET);
    assert!(offset_of!(LongDomainAttr, max_ep_auth_key) == 192);
    assert!(offset_of!(LongDomainAttr, max_group_id) == 200);
};

/// Where `src_addr` lies in `fi_cq_err_entry` since libfabric 1.20.
pub(crate) const ERR_ENTRY_SRC_ADDR_OFFSET: usize = 80;

/// `fi_domain_attr` as it has grown. Nothing of it is read but by [`appended`].
#[repr(C)]
struct LongDomainAttr {
    known: fi_domain_attr,
    /// Since libfabric 1.20.
    max_ep_auth_key: usize,
    /// Since libfabric 2.0.
    max_group_id: u32,
}

/// Limits that newer applications ask for: authorization keys of an endpoint (`max_ep_auth_key`)
/// and the greatest peer group (`max_group_id`). 0 where the running library has none.
///
/// # Safety
/// `attributes` is NULL or points to what the running library takes for its `fi_domain_attr`.
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

/// The running library's version.
pub(crate) fn version() -> u32 {
    // SAFETY: `fi_version` has no preconditions.
    unsafe { fi_version() }
}

/// libfabric's text for a (positive) error number.
pub(crate) fn error_text(errno: c_int) -> &'static CStr {
    // SAFETY: `fi_strerror` accepts any number.
    let text = unsafe { fi_strerror(errno) };
    if text.is_null() {
        return c"unknown error";
    }
    // SAFETY: not NULL, and `fi_strerror` returns a zero-terminated string with static storage.
    unsafe { CStr::from_ptr(text) }
}

/// The provider as libfabric knows it; what the calls below say on whose behalf they are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Provider(NonNull<fi_provider>);

// SAFETY: the pointer is only handed to libfabric's log and param calls, which lock what they
// share.
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

    /// Prints `message` with the place it comes from. The caller has asked [`Self::log_enabled`].
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

    /// Makes the variable `FI_XDP_<NAME>` known (`fi_info -g xdp` lists it).
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

    /// The value of a variable that is a number, or yes or no (1 or 0): `None` if it is not set, an
    /// error if it is something else.
    pub(crate) fn int_value(self, name: &CStr) -> Result<Option<c_int>, c_int> {
        let mut value: c_int = 0;
        // SAFETY: the variable was defined as an integer or a boolean (fi_provider(3)), so the
        // callee writes one `int`.
        let status =
            unsafe { fi_param_get(self.0.as_ptr(), name.as_ptr(), (&raw mut value).cast()) };
        match status {
            0 => Ok(Some(value)),
            status if status == -(FI_ENODATA as c_int) => Ok(None),
            status => Err(status),
        }
    }
}

type DupInfo = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
type FreeInfo = unsafe extern "C" fn(*mut fi_info);

/// The two calls that know how large the running library's `fi_info` is.
#[derive(Clone, Copy)]
struct InfoCalls {
    dup: DupInfo,
    free: FreeInfo,
}

fn info_calls() -> Option<InfoCalls> {
    static CALLS: OnceLock<Option<InfoCalls>> = OnceLock::new();
    *CALLS.get_or_init(|| {
        let dup = symbol(c"fi_dupinfo")?;
        let free = symbol(c"fi_freeinfo")?;
        // SAFETY: the symbol is libfabric's `fi_dupinfo`, whose signature is `DupInfo` in every
        // version.
        let dup = unsafe { std::mem::transmute::<NonNull<c_void>, DupInfo>(dup) };
        // SAFETY: the symbol is libfabric's `fi_freeinfo`, whose signature is `FreeInfo` likewise.
        let free = unsafe { std::mem::transmute::<NonNull<c_void>, FreeInfo>(free) };
        Some(InfoCalls { dup, free })
    })
}

/// The default version of a symbol of the running libfabric, which is in this library's own scope
/// because it is linked to it (so that `dlopen` with `RTLD_LOCAL` does not hide it).
fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the name is zero-terminated; looking up has no other effect.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// A `fi_info` with all five attribute structures, zeroed and of the running library's size
/// (`fi_allocinfo(3)` is `fi_dupinfo(NULL)`); `None` when memory is out.
pub(crate) fn allocate_info() -> Option<NonNull<fi_info>> {
    let calls = info_calls()?;
    // SAFETY: NULL asks for an empty structure.
    NonNull::new(unsafe { (calls.dup)(std::ptr::null()) })
}

/// Frees a list of `fi_info`.
///
/// # Safety
/// `info` came from [`allocate_info`] (possibly linked into a list) and is not used afterwards.
pub(crate) unsafe fn free_info(info: NonNull<fi_info>) {
    if let Some(calls) = info_calls() {
        // SAFETY: passed on from the caller.
        unsafe { (calls.free)(info.as_ptr()) };
    }
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

/// A port's descriptors, for as long as the port is borrowed.
pub(crate) fn descriptors(port: &HybridPort) -> impl Iterator<Item = BorrowedFd<'_>> {
    port.poll_fds().iter().map(|&descriptor| {
        // SAFETY: the port owns what it lists, and closes none while it is borrowed.
        unsafe { BorrowedFd::borrow_raw(descriptor) }
    })
}
