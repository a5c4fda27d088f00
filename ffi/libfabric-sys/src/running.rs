// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of the running library with symbol versions that change with the layout of `fi_info`.
//!
//! In: the arguments of `fi_getinfo(3)`, `fi_fabric(3)` and related functions. Out: their answers.
//! `dlsym` gives the default version of a symbol, so structures have the running library's own
//! layout on both sides. Symbols are looked up once. Callers: the provider, when it is set up.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::bindings::{FI_TYPE_INFO, fi_fabric_attr, fi_info, fid_fabric};

type DupInfo = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
type FreeInfo = unsafe extern "C" fn(*mut fi_info);
type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const fi_info,
    *mut *mut fi_info,
) -> c_int;
type OpenFabric =
    unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;
type ToString = unsafe extern "C" fn(*mut c_char, usize, *const c_void, u32) -> *mut c_char;

/// The functions that know the size of the running library's `fi_info`.
#[derive(Clone, Copy)]
struct InfoCalls {
    dup: DupInfo,
    free: FreeInfo,
}

/// The functions that an application calls first.
#[derive(Clone, Copy)]
struct SetUpCalls {
    getinfo: GetInfo,
    fabric: OpenFabric,
    to_string: ToString,
}

fn info_calls() -> Option<InfoCalls> {
    static CALLS: OnceLock<Option<InfoCalls>> = OnceLock::new();
    *CALLS.get_or_init(|| {
        let dup = symbol(c"fi_dupinfo")?;
        let free = symbol(c"fi_freeinfo")?;
        // SAFETY: the symbol is libfabric's `fi_dupinfo`; its signature is `DupInfo` in every
        // version.
        let dup = unsafe { std::mem::transmute::<NonNull<c_void>, DupInfo>(dup) };
        // SAFETY: the symbol is libfabric's `fi_freeinfo`; its signature is `FreeInfo` in every
        // version.
        let free = unsafe { std::mem::transmute::<NonNull<c_void>, FreeInfo>(free) };
        Some(InfoCalls { dup, free })
    })
}

fn set_up_calls() -> Option<SetUpCalls> {
    static CALLS: OnceLock<Option<SetUpCalls>> = OnceLock::new();
    *CALLS.get_or_init(|| {
        let (getinfo, fabric) = (symbol(c"fi_getinfo")?, symbol(c"fi_fabric")?);
        let to_string = symbol(c"fi_tostr_r")?;
        Some(SetUpCalls {
            // SAFETY: the symbol is libfabric's `fi_getinfo`, of this signature in every version.
            getinfo: unsafe { std::mem::transmute::<NonNull<c_void>, GetInfo>(getinfo) },
            // SAFETY: the symbol is libfabric's `fi_fabric`, likewise.
            fabric: unsafe { std::mem::transmute::<NonNull<c_void>, OpenFabric>(fabric) },
            // SAFETY: the symbol is libfabric's `fi_tostr_r`, likewise.
            to_string: unsafe { std::mem::transmute::<NonNull<c_void>, ToString>(to_string) },
        })
    })
}

/// The default version of a symbol of the running libfabric. This library is linked to it, so that
/// it is in scope even if the application opened it with `RTLD_LOCAL`.
fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the name is zero-terminated; looking up has no other effect.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// A `fi_info` with all five attribute structures, zeroed and of the running library's size
/// (`fi_allocinfo(3)` is `fi_dupinfo(NULL)`); `None` when memory is out.
#[must_use]
pub fn allocate_info() -> Option<NonNull<fi_info>> {
    let calls = info_calls()?;
    // SAFETY: NULL asks for an empty structure.
    NonNull::new(unsafe { (calls.dup)(std::ptr::null()) })
}

/// A copy of one element of a list, with all that it points to (`fi_dupinfo(3)`).
///
/// # Safety
/// `info` is initialised, as `fi_getinfo(3)` says.
#[must_use]
pub unsafe fn duplicate_info(info: &fi_info) -> Option<NonNull<fi_info>> {
    let calls = info_calls()?;
    // SAFETY: passed on from the caller.
    NonNull::new(unsafe { (calls.dup)(info) })
}

/// Frees a list of `fi_info`.
///
/// # Safety
/// `info` came from a function of this module, possibly linked into a list, and is not used
/// afterwards.
pub unsafe fn free_info(info: NonNull<fi_info>) {
    if let Some(calls) = info_calls() {
        // SAFETY: passed on from the caller.
        unsafe { (calls.free)(info.as_ptr()) };
    }
}

/// Version, node, service and flags of a `fi_getinfo(3)`.
#[derive(Clone, Copy, Debug)]
pub struct InfoQuery {
    /// The interface version that the application asks for.
    pub api_version: u32,
    /// The node, or NULL.
    pub node: *const c_char,
    /// The service, or NULL.
    pub service: *const c_char,
    /// The flags.
    pub flags: u64,
}

/// `fi_getinfo`: the list, or libfabric's (positive) error number.
///
/// # Errors
/// libfabric's; `ENOSYS` if the running library has no such function.
///
/// # Safety
/// The contract of `fi_getinfo(3)`, for the strings of `query` and for `hints`.
pub unsafe fn getinfo(query: InfoQuery, hints: *const fi_info) -> Result<NonNull<fi_info>, c_int> {
    let InfoQuery { api_version, node, service, flags } = query;
    let calls = set_up_calls().ok_or(libc::ENOSYS)?;
    let mut found = std::ptr::null_mut();
    // SAFETY: passed on from the caller; the result may be written.
    let status =
        unsafe { (calls.getinfo)(api_version, node, service, flags, hints, &raw mut found) };
    if status != 0 {
        return Err(-status);
    }
    NonNull::new(found).ok_or(libc::ENODATA)
}

/// `fi_fabric`.
///
/// # Safety
/// The contract of `fi_fabric(3)`.
pub unsafe fn open_fabric(
    attributes: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    let Some(calls) = set_up_calls() else { return -libc::ENOSYS };
    // SAFETY: passed on from the caller.
    unsafe { (calls.fabric)(attributes, fabric, context) }
}

/// The text of all members of `info` (`fi_tostr(3)`), cut after 16 kB.
///
/// # Safety
/// `info` is initialised, as `fi_getinfo(3)` says.
#[must_use]
pub unsafe fn text_of(info: &fi_info) -> String {
    const LEN: usize = 16 << 10;
    let Some(calls) = set_up_calls() else { return String::new() };
    let mut text = vec![0_u8; LEN];
    let to = text.as_mut_ptr().cast::<c_char>();
    // SAFETY: `info` is initialised (promised), and `to` has room for `LEN` bytes.
    unsafe { (calls.to_string)(to, LEN, std::ptr::from_ref(info).cast(), FI_TYPE_INFO) };
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    text.to_string_lossy().into_owned()
}
