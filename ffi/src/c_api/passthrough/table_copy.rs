// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of the tables of hardware providers' fabrics and domains, in which the few calls that see
//! names are replaced.
//!
//! In: `fi_domain`, `fi_passive_ep`, `fi_endpoint` and `fi_scalable_ep` with the `fi_info` that the
//! application was shown. Out: the provider's own call, with the `fi_info` as the provider made it.
//! Every other call goes to the provider directly, and every call on the opened objects.
//!
//! A copy has the size of the provider's table, so it includes members of newer libfabric releases.
//! A copy is found by the original table, belongs to no object, and stays. Reason: a provider may
//! share an object between its openers (psm3's fabric), which close it in any order. A replaced
//! slot passes a `fi_info` of another origin on unchanged. Bound: [`TABLES_MAX`] tables, of which a
//! provider has a few.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use super::info_list::OwnedNames;
use crate::c_api::{argument, control};
use crate::getinfo::hardware::{Filter, ProviderRoute};
use crate::sys::abi::running;
use crate::sys::abi::{
    self, fi_info, fi_ops_domain, fi_ops_fabric, fid_domain, fid_ep, fid_fabric,
};
use crate::sys::errno::Error;
use crate::sys::owned_info::OwnedInfo;
use crate::sys::param;

/// Most copied tables of a class in a process.
const TABLES_MAX: usize = 64;

/// A table of libfabric's calls.
///
/// # Safety
/// `#[repr(C)]`, beginning with its size in bytes as `usize`, otherwise of optional function
/// pointers; all zeros are a value.
unsafe trait SlotTable: Copy + 'static {
    /// Replaces the slots that see names, unless they are empty.
    fn take_over(&mut self);
}

// SAFETY: `size` and function pointers, as libfabric defines it.
unsafe impl SlotTable for fi_ops_fabric {
    fn take_over(&mut self) {
        let Self { domain, passive_ep, domain2, .. } = self;
        replace(domain, open_domain);
        replace(passive_ep, open_passive);
        replace(domain2, open_domain2);
    }
}

// SAFETY: `size` and function pointers, as libfabric defines it.
unsafe impl SlotTable for fi_ops_domain {
    fn take_over(&mut self) {
        let Self { endpoint, scalable_ep, endpoint2, .. } = self;
        replace(endpoint, open_endpoint);
        replace(scalable_ep, open_scalable);
        replace(endpoint2, open_endpoint2);
    }
}

/// Replaces a slot. An empty slot stays empty: its callers check it.
fn replace<F>(slot: &mut Option<F>, ours: F) {
    if slot.is_some() {
        *slot = Some(ours);
    }
}

/// A table and its copy; both stay for the rest of the process.
struct Copied<T> {
    /// The content of the provider's table; zeros after its end.
    original: T,
    /// The provider's table.
    theirs: *const T,
    /// The copy, of equal size.
    ours: NonNull<T>,
}

// SAFETY: the pointers are to tables, which are not written after this value is made.
unsafe impl<T> Send for Copied<T> {}

/// The copies of one class.
struct Copies<T>(Mutex<Vec<Copied<T>>>);

static FABRICS: Copies<fi_ops_fabric> = Copies(Mutex::new(Vec::new()));
static DOMAINS: Copies<fi_ops_domain> = Copies(Mutex::new(Vec::new()));

impl<T: SlotTable> Copies<T> {
    /// The copy of a provider's table, made at the first call.
    ///
    /// # Safety
    /// `theirs` is a table of the provider's, which stays for the rest of the process.
    unsafe fn of(&self, theirs: *const T) -> Result<NonNull<T>, Error> {
        if theirs.is_null() {
            return Err(Error::Invalid);
        }
        let mut copies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = copies
            .iter()
            .find(|copied| copied.theirs == theirs || copied.ours.as_ptr().cast_const() == theirs);
        if let Some(copied) = known {
            return Ok(copied.ours);
        }
        if copies.len() >= TABLES_MAX {
            return Err(Error::NoMemory);
        }
        // SAFETY: not NULL, a table (promised), which begins with its size.
        let size = unsafe { theirs.cast::<usize>().read() };
        // SAFETY: a table (promised) of `size` bytes.
        let (original, ours) = unsafe { copy(theirs, size) }?;
        copies.push(Copied { original, theirs, ours });
        Ok(ours)
    }

    /// The content of the provider's table from which the copy `ours` was made.
    fn original(&self, ours: *const T) -> Result<T, Error> {
        let copies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let copied = copies.iter().find(|copied| copied.ours.as_ptr().cast_const() == ours);
        copied.map(|copied| copied.original).ok_or(Error::Internal)
    }
}

/// A copy of a table with replaced slots, in memory that is never freed; and the original content.
///
/// # Safety
/// `theirs` points to a table of `size` bytes.
unsafe fn copy<T: SlotTable>(theirs: *const T, size: usize) -> Result<(T, NonNull<T>), Error> {
    /// Greatest size of a table, far above libfabric's tables.
    const SIZE_MAX: usize = 4096;
    if !(size_of::<usize>()..=SIZE_MAX).contains(&size) {
        return Err(Error::Invalid);
    }
    let words = size.max(size_of::<T>()).div_ceil(size_of::<*const c_void>());
    let memory = Box::leak(vec![std::ptr::null::<c_void>(); words].into_boxed_slice());
    let ours = NonNull::from(memory).cast::<T>();
    // SAFETY: `size` bytes are in the table (promised) and in the new memory, without overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(theirs.cast::<u8>(), ours.as_ptr().cast::<u8>(), size);
    }
    // SAFETY: as large as a `T` and aligned for pointers; its bytes are a table's, then zeros.
    let original = unsafe { ours.read() };
    let mut changed = original;
    changed.take_over();
    // SAFETY: as above; the memory is not passed on yet.
    unsafe { ours.write(changed) };
    Ok((original, ours))
}

/// Gives a provider's fabric the copy of its table.
///
/// # Safety
/// `fabric` is an open fabric of another provider.
pub(super) unsafe fn adopt_fabric(fabric: NonNull<fid_fabric>) -> Result<(), Error> {
    // SAFETY: open (promised): initialised.
    let ops = unsafe { (*fabric.as_ptr()).ops };
    // SAFETY: an open fabric's table is a static of its provider, which libfabric keeps loaded.
    let ours = unsafe { FABRICS.of(ops) }?;
    // SAFETY: as above; a table of the same calls is in place of the other, and nothing else of
    // the object changes.
    unsafe { (*fabric.as_ptr()).ops = ours.as_ptr() };
    Ok(())
}

/// Gives a provider's domain the copy of its table.
///
/// # Safety
/// `domain` is an open domain of another provider.
unsafe fn adopt_domain(domain: NonNull<fid_domain>) -> Result<(), Error> {
    // SAFETY: open (promised): initialised.
    let ops = unsafe { (*domain.as_ptr()).ops };
    // SAFETY: as in `adopt_fabric`.
    let ours = unsafe { DOMAINS.of(ops) }?;
    // SAFETY: as in `adopt_fabric`.
    unsafe { (*domain.as_ptr()).ops = ours.as_ptr() };
    Ok(())
}

/// The original table of a fabric.
///
/// # Safety
/// `fabric` is open.
unsafe fn fabric_calls(fabric: *mut fid_fabric) -> Result<fi_ops_fabric, Error> {
    // SAFETY: promised by the caller.
    FABRICS.original(unsafe { argument(fabric) }?.ops)
}

/// The original table of a domain.
///
/// # Safety
/// `domain` is open.
unsafe fn domain_calls(domain: *mut fid_domain) -> Result<fi_ops_domain, Error> {
    // SAFETY: promised by the caller.
    DOMAINS.original(unsafe { argument(domain) }?.ops)
}

/// A `fi_info` as its provider made it: the application's own, or a copy with the names restored.
struct Restored {
    given: *mut fi_info,
    copy: Option<(OwnedInfo, String)>,
}

impl Restored {
    /// Restores the `fi_info` that the application passed.
    ///
    /// # Safety
    /// `info` is NULL or initialised, as `fi_getinfo(3)` says.
    unsafe fn of(info: *mut fi_info) -> Result<Self, Error> {
        // SAFETY: promised by the caller.
        let given = unsafe { argument(info) }?;
        // SAFETY: promised by the caller.
        let names = unsafe { OwnedNames::of(given) }?;
        let providers = param::values()?.passthrough;
        let own = |name: &Option<String>| {
            let name = providers.split(name.as_deref()?)?;
            Some((name.provider.to_owned(), name.own.to_owned()))
        };
        let (fabric, domain) = (own(&names.fabric), own(&names.domain));
        let Some((provider, _)) = domain.as_ref().or(fabric.as_ref()) else {
            return Ok(Self { given: info, copy: None });
        };
        let route = ProviderRoute::to(provider, &Filter::parse(abi::provider_filter().as_deref()));
        // SAFETY: promised by the caller.
        let copy = unsafe { running::duplicate_info(given) };
        // SAFETY: made for us.
        let mut copy = unsafe { OwnedInfo::from_raw(copy.ok_or(Error::NoMemory)?) };
        let own = |parts: Option<(String, String)>, name| {
            parts.map(|(_, own)| if own.is_empty() { own } else { route.own(&own) }).or(name)
        };
        let fabric = own(fabric, names.fabric).filter(|name| !name.is_empty());
        let domain = own(domain, names.domain).filter(|name| !name.is_empty());
        copy.rename(Some(&route.provider), fabric.as_deref(), domain.as_deref())?;
        Ok(Self { given: info, copy: Some((copy, route.provider)) })
    }

    /// The pointer for the provider's call.
    fn as_ptr(&self) -> *mut fi_info {
        self.copy.as_ref().map_or(self.given, |(copy, _)| copy.as_ptr())
    }

    /// The provider of the restored names.
    fn provider(&self) -> Option<&str> {
        self.copy.as_ref().map(|(_, provider)| provider.as_str())
    }
}

/// Whether a provider knows its domains by the address of their table, which must then stay. `tcp`
/// does since libfabric 2.0 (`prov/tcp/src/xnet_domain.c`); it opens endpoints without reading
/// names.
fn compares_its_tables(provider: &str) -> bool {
    provider.eq_ignore_ascii_case("tcp")
}

/// `fi_close` of another provider's object.
///
/// # Safety
/// `fid` is an open libfabric object without another user.
pub(super) unsafe fn close(fid: *mut abi::fid) {
    // SAFETY: promised by the caller: initialised.
    let ops = unsafe { (*fid).ops };
    // SAFETY: an open object has its table.
    let call: Option<unsafe extern "C" fn(*mut abi::fid) -> c_int> = unsafe { (*ops).close };
    if let Some(call) = call {
        // SAFETY: promised by the caller.
        unsafe { call(fid) };
    }
}

/// The result of a provider's call.
fn answered(status: c_int) -> Result<(), Error> {
    if status == 0 { Ok(()) } else { Err(Error::Os(status.wrapping_neg())) }
}

/// Gives the domain that the provider has opened the copy of its table, if its names were changed.
///
/// # Safety
/// `domain` holds an open domain of the provider.
unsafe fn opened(domain: *mut *mut fid_domain, info: &Restored) -> Result<(), Error> {
    if info.provider().is_none_or(compares_its_tables) {
        return Ok(());
    }
    // SAFETY: the provider has written it.
    let Some(domain) = NonNull::new(unsafe { domain.read() }) else { return Ok(()) };
    // SAFETY: open (promised).
    let adopted = unsafe { adopt_domain(domain) };
    if adopted.is_err() {
        // SAFETY: open, and not passed on. It is closed again, because its endpoints could not be
        // opened by the names that the application has.
        unsafe { close(domain.as_ptr().cast()) };
    }
    adopted
}

/// `fi_domain`.
unsafe extern "C" fn open_domain(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let call = unsafe { fabric_calls(fabric) }?.domain.ok_or(Error::NotSupported)?;
        // SAFETY: the man page's contract: an initialised `fi_info`.
        let info = unsafe { Restored::of(info) }?;
        // SAFETY: the provider's own call with the application's arguments.
        answered(unsafe { call(fabric, info.as_ptr(), domain, context) })?;
        // SAFETY: the provider has opened it.
        unsafe { opened(domain, &info) }
    })
}

/// `fi_domain2`.
unsafe extern "C" fn open_domain2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let call = unsafe { fabric_calls(fabric) }?.domain2.ok_or(Error::NotSupported)?;
        // SAFETY: the man page's contract: an initialised `fi_info`.
        let info = unsafe { Restored::of(info) }?;
        // SAFETY: the provider's own call with the application's arguments.
        answered(unsafe { call(fabric, info.as_ptr(), domain, flags, context) })?;
        // SAFETY: the provider has opened it.
        unsafe { opened(domain, &info) }
    })
}

/// `fi_passive_ep`.
unsafe extern "C" fn open_passive(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    endpoint: *mut *mut abi::fid_pep,
    context: *mut c_void,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let call = unsafe { fabric_calls(fabric) }?.passive_ep.ok_or(Error::NotSupported)?;
        // SAFETY: the man page's contract: an initialised `fi_info`.
        let info = unsafe { Restored::of(info) }?;
        // SAFETY: the provider's own call with the application's arguments.
        answered(unsafe { call(fabric, info.as_ptr(), endpoint, context) })
    })
}

/// `fi_endpoint`.
unsafe extern "C" fn open_endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    endpoint: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let call = unsafe { domain_calls(domain) }?.endpoint.ok_or(Error::NotSupported)?;
        // SAFETY: the man page's contract: an initialised `fi_info`.
        let info = unsafe { Restored::of(info) }?;
        // SAFETY: the provider's own call with the application's arguments.
        answered(unsafe { call(domain, info.as_ptr(), endpoint, context) })
    })
}

/// `fi_endpoint2`.
unsafe extern "C" fn open_endpoint2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    endpoint: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let call = unsafe { domain_calls(domain) }?.endpoint2.ok_or(Error::NotSupported)?;
        // SAFETY: the man page's contract: an initialised `fi_info`.
        let info = unsafe { Restored::of(info) }?;
        // SAFETY: the provider's own call with the application's arguments.
        answered(unsafe { call(domain, info.as_ptr(), endpoint, flags, context) })
    })
}

/// `fi_scalable_ep`.
unsafe extern "C" fn open_scalable(
    domain: *mut fid_domain,
    info: *mut fi_info,
    endpoint: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    control(|| {
        // SAFETY: the man page's contract: open.
        let call = unsafe { domain_calls(domain) }?.scalable_ep.ok_or(Error::NotSupported)?;
        // SAFETY: the man page's contract: an initialised `fi_info`.
        let info = unsafe { Restored::of(info) }?;
        // SAFETY: the provider's own call with the application's arguments.
        answered(unsafe { call(domain, info.as_ptr(), endpoint, context) })
    })
}
