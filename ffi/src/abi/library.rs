// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of ours into the running libfabric as an application makes them: for passthrough.
//!
//! In: the arguments of `fi_getinfo(3)`, `fi_fabric(3)` and their kin. Out: what they say. The
//! symbols are those of the running library's default version, so structures have its own layout
//! on both sides. Called by `shim/passthrough`, on the set-up path alone.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::{fi_fabric_attr, fi_info, fid_fabric, info_calls, symbol};

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

/// The running library's calls, looked up once.
#[derive(Clone, Copy)]
struct Calls {
    getinfo: GetInfo,
    fabric: OpenFabric,
    to_string: ToString,
}

fn calls() -> Option<Calls> {
    static CALLS: OnceLock<Option<Calls>> = OnceLock::new();
    *CALLS.get_or_init(|| {
        let (getinfo, fabric) = (symbol(c"fi_getinfo")?, symbol(c"fi_fabric")?);
        let to_string = symbol(c"fi_tostr_r")?;
        Some(Calls {
            // SAFETY: the symbol is libfabric's `fi_getinfo`, of this signature in every version.
            getinfo: unsafe { std::mem::transmute::<NonNull<c_void>, GetInfo>(getinfo) },
            // SAFETY: the symbol is libfabric's `fi_fabric`, likewise.
            fabric: unsafe { std::mem::transmute::<NonNull<c_void>, OpenFabric>(fabric) },
            // SAFETY: the symbol is libfabric's `fi_tostr_r`, likewise.
            to_string: unsafe { std::mem::transmute::<NonNull<c_void>, ToString>(to_string) },
        })
    })
}

/// Node and service as `fi_getinfo(3)` takes them, with the version and the flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) api_version: u32,
    pub(crate) node: *const c_char,
    pub(crate) service: *const c_char,
    pub(crate) flags: u64,
}

/// `fi_getinfo`: the list, or libfabric's (positive) error number.
///
/// # Safety
/// The contract of `fi_getinfo(3)`, for the strings of `question` and for `hints`.
pub(crate) unsafe fn getinfo(
    question: Question,
    hints: *const fi_info,
) -> Result<NonNull<fi_info>, c_int> {
    let Question { api_version, node, service, flags } = question;
    let calls = calls().ok_or(libc::ENOSYS)?;
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
pub(crate) unsafe fn open_fabric(
    attributes: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    let Some(calls) = calls() else { return -libc::ENOSYS };
    // SAFETY: passed on from the caller.
    unsafe { (calls.fabric)(attributes, fabric, context) }
}

/// A copy of one element of a list, with all that it points to (`fi_dupinfo(3)`).
///
/// # Safety
/// `info` is initialised, as `fi_getinfo(3)` says.
pub(crate) unsafe fn duplicate(info: &fi_info) -> Option<NonNull<fi_info>> {
    let calls = info_calls()?;
    // SAFETY: passed on from the caller.
    NonNull::new(unsafe { (calls.dup)(info) })
}

/// Everything that `info` says, as text (`fi_tostr(3)`), cut where it is very long.
///
/// # Safety
/// `info` is initialised, as `fi_getinfo(3)` says.
pub(crate) unsafe fn text_of(info: &fi_info) -> String {
    const LEN: usize = 16 << 10;
    let Some(calls) = calls() else { return String::new() };
    let mut text = vec![0_u8; LEN];
    let to = text.as_mut_ptr().cast::<c_char>();
    // SAFETY: `info` is what the type says (promised), and `to` has room for `LEN` bytes.
    unsafe { (calls.to_string)(to, LEN, std::ptr::from_ref(info).cast(), super::FI_TYPE_INFO) };
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

/// What limits the providers of this process, `FI_PROVIDER`.
pub(crate) fn provider_filter() -> Option<String> {
    let mut value: *mut c_char = std::ptr::null_mut();
    // SAFETY: the variable is libfabric's own, a string: the callee writes one pointer.
    let status = unsafe {
        super::fi_param_get(
            std::ptr::null_mut(),
            c"provider".as_ptr(),
            (&raw mut value).cast::<c_void>(),
        )
    };
    if status != 0 || value.is_null() {
        return None;
    }
    // SAFETY: on success it is a zero-terminated string in the environment or the configuration,
    // copied at once.
    Some(unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
}

/// Gives a member that holds a C string another text, or none.
///
/// # Safety
/// `member` is NULL or a string that C's `free` frees, and belongs to the caller.
pub(crate) unsafe fn replace_text(member: &mut *mut c_char, text: Option<&str>) -> Option<()> {
    let new = match text {
        None => std::ptr::null_mut(),
        Some(text) => {
            let new = super::c_string(text);
            if new.is_null() {
                return None;
            }
            new
        }
    };
    let old = std::mem::replace(member, new);
    // SAFETY: promised by the caller; nothing has the old pointer any more.
    unsafe { libc::free(old.cast()) };
    Some(())
}
