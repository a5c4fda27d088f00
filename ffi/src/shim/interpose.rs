// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few calls of a hardware provider's objects that see names: fabric and domain are the
//! provider's own objects, with a copy of their table in which these calls are ours.
//!
//! In: `fi_domain`, `fi_passive_ep`, `fi_endpoint` and `fi_scalable_ep` with the `fi_info` that the
//! application was shown. Out: the same call of the provider's, with the `fi_info` as the provider
//! itself had made it. Every other call, and every call on what is opened, goes to the provider at
//! once.
//!
//! A copy has the size that the provider's table says, so what newer releases of libfabric append
//! is in it. Copies are found by the table they were made from, belong to no object, and stay: an
//! object that a provider shares between its openers (psm3's fabric) may be closed by anybody in
//! any order. A copied slot treats a `fi_info` that was not shown by us as the provider would.
//! Bound: [`TABLES_MAX`] tables, of which a provider has a handful.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use super::infos::{One, OwnedNames};
use super::{argument, control};
use crate::abi::library;
use crate::abi::{self, fi_info, fi_ops_domain, fi_ops_fabric, fid_domain, fid_ep, fid_fabric};
use crate::errno::Error;
use crate::param;
use crate::passthrough::{Filter, Route};

/// Most tables of a class that are copied in a process.
const TABLES_MAX: usize = 64;

/// A table of libfabric's calls.
///
/// # Safety
/// `#[repr(C)]`, beginning with its size in bytes as `usize`, otherwise of optional function
/// pointers; all zeros are a value.
unsafe trait Table: Copy + 'static {
    /// Puts our slots where the table has some.
    fn take_over(&mut self);
}

// SAFETY: `size` and function pointers, as libfabric defines it.
unsafe impl Table for fi_ops_fabric {
    fn take_over(&mut self) {
        let Self { domain, passive_ep, domain2, .. } = self;
        replace(domain, open_domain);
        replace(passive_ep, open_passive);
        replace(domain2, open_domain2);
    }
}

// SAFETY: `size` and function pointers, as libfabric defines it.
unsafe impl Table for fi_ops_domain {
    fn take_over(&mut self) {
        let Self { endpoint, scalable_ep, endpoint2, .. } = self;
        replace(endpoint, open_endpoint);
        replace(scalable_ep, open_scalable);
        replace(endpoint2, open_endpoint2);
    }
}

/// A slot that is empty stays so: the callers look.
fn replace<F>(slot: &mut Option<F>, ours: F) {
    if slot.is_some() {
        *slot = Some(ours);
    }
}

/// A table and our copy of it; both stay for the rest of the process.
struct Copied<T> {
    /// What the provider's table held, so far as it is known here, beyond its end zeros.
    original: T,
    /// The provider's table.
    theirs: *const T,
    /// Ours, as long as theirs.
    ours: NonNull<T>,
}

// SAFETY: the pointers are to tables, which are never written after they are here.
unsafe impl<T> Send for Copied<T> {}

/// The copies of one class.
struct Copies<T>(Mutex<Vec<Copied<T>>>);

static FABRICS: Copies<fi_ops_fabric> = Copies(Mutex::new(Vec::new()));
static DOMAINS: Copies<fi_ops_domain> = Copies(Mutex::new(Vec::new()));

impl<T: Table> Copies<T> {
    /// Our copy of a provider's table; the same one each time.
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

    /// What the provider's table has where `ours` is in its place.
    fn original(&self, ours: *const T) -> Result<T, Error> {
        let copies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let copied = copies.iter().find(|copied| copied.ours.as_ptr().cast_const() == ours);
        copied.map(|copied| copied.original).ok_or(Error::Internal)
    }
}

/// A copy of a table in memory that is never freed, with our slots in it; and its content before.
///
/// # Safety
/// `theirs` points to a table of `size` bytes.
unsafe fn copy<T: Table>(theirs: *const T, size: usize) -> Result<(T, NonNull<T>), Error> {
    /// Far more than any table of libfabric's has.
    const SIZE_MAX: usize = 4096;
    if !(size_of::<usize>()..=SIZE_MAX).contains(&size) {
        return Err(Error::Invalid);
    }
    let words = size.max(size_of::<T>()).div_ceil(size_of::<*const c_void>());
    let memory = Box::leak(vec![std::ptr::null::<c_void>(); words].into_boxed_slice());
    let ours = NonNull::from(memory).cast::<T>();
    // SAFETY: `size` bytes are in the table (promised) and in the new memory, which is apart.
    unsafe {
        std::ptr::copy_nonoverlapping(theirs.cast::<u8>(), ours.as_ptr().cast::<u8>(), size);
    }
    // SAFETY: as large as a `T` and aligned for pointers; its bytes are a table's, then zeros.
    let original = unsafe { ours.read() };
    let mut changed = original;
    changed.take_over();
    // SAFETY: as above; nobody else has it yet.
    unsafe { ours.write(changed) };
    Ok((original, ours))
}

/// Makes the calls of a provider's fabric that see names ours.
///
/// # Safety
/// `fabric` is an open fabric of another provider's.
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

/// The same for a domain.
///
/// # Safety
/// `domain` is an open domain of another provider's.
unsafe fn adopt_domain(domain: NonNull<fid_domain>) -> Result<(), Error> {
    // SAFETY: open (promised): initialised.
    let ops = unsafe { (*domain.as_ptr()).ops };
    // SAFETY: as in `adopt_fabric`.
    let ours = unsafe { DOMAINS.of(ops) }?;
    // SAFETY: as in `adopt_fabric`.
    unsafe { (*domain.as_ptr()).ops = ours.as_ptr() };
    Ok(())
}

/// What the provider has in the place of our slot.
///
/// # Safety
/// `fabric` is open.
unsafe fn fabric_calls(fabric: *mut fid_fabric) -> Result<fi_ops_fabric, Error> {
    // SAFETY: promised by the caller.
    FABRICS.original(unsafe { argument(fabric) }?.ops)
}

/// As [`fabric_calls`].
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
    copy: Option<(One, String)>,
}

impl Restored {
    /// From what the application passed.
    ///
    /// # Safety
    /// `info` is NULL or initialised, as `fi_getinfo(3)` says.
    unsafe fn of(info: *mut fi_info) -> Result<Self, Error> {
        // SAFETY: promised by the caller.
        let given = unsafe { argument(info) }?;
        // SAFETY: promised by the caller.
        let names = unsafe { OwnedNames::of(given) }?;
        let providers = param::values().passthrough;
        let own = |name: &Option<String>| {
            let name = providers.split(name.as_deref()?)?;
            Some((name.provider.to_owned(), name.own.to_owned()))
        };
        let (fabric, domain) = (own(&names.fabric), own(&names.domain));
        let Some((provider, _)) = domain.as_ref().or(fabric.as_ref()) else {
            return Ok(Self { given: info, copy: None });
        };
        let route = Route::to(provider, &Filter::parse(library::provider_filter().as_deref()));
        // SAFETY: promised by the caller.
        let copy = unsafe { library::duplicate(given) };
        // SAFETY: made for us.
        let mut copy = unsafe { One::from_raw(copy.ok_or(Error::NoMemory)?) };
        let own = |parts: Option<(String, String)>, name| {
            parts.map(|(_, own)| if own.is_empty() { own } else { route.own(&own) }).or(name)
        };
        let fabric = own(fabric, names.fabric).filter(|name| !name.is_empty());
        let domain = own(domain, names.domain).filter(|name| !name.is_empty());
        copy.rename(Some(&route.provider), fabric.as_deref(), domain.as_deref())?;
        Ok(Self { given: info, copy: Some((copy, route.provider)) })
    }

    /// For the provider's call.
    fn as_ptr(&self) -> *mut fi_info {
        self.copy.as_ref().map_or(self.given, |(copy, _)| copy.as_ptr())
    }

    /// The provider whose names were restored.
    fn provider(&self) -> Option<&str> {
        self.copy.as_ref().map(|(_, provider)| provider.as_str())
    }
}

/// Whether a provider knows its domains by the address of their table, so that it must stay: `tcp`
/// does since libfabric 2.0 (`prov/tcp/src/xnet_domain.c`). It opens endpoints without looking at
/// names.
fn compares_its_tables(provider: &str) -> bool {
    provider.eq_ignore_ascii_case("tcp")
}

/// `fi_close` of another provider's object.
///
/// # Safety
/// `fid` is an open libfabric object that nobody else uses.
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

/// A provider's answer as ours.
fn answered(status: c_int) -> Result<(), Error> {
    if status == 0 { Ok(()) } else { Err(Error::Os(status.wrapping_neg())) }
}

/// The domain that the provider has opened, taken over if its names are ours.
///
/// # Safety
/// `domain` holds an open domain of the provider's.
unsafe fn opened(domain: *mut *mut fid_domain, info: &Restored) -> Result<(), Error> {
    if info.provider().is_none_or(compares_its_tables) {
        return Ok(());
    }
    // SAFETY: the provider has written it.
    let Some(domain) = NonNull::new(unsafe { domain.read() }) else { return Ok(()) };
    // SAFETY: open (promised).
    let adopted = unsafe { adopt_domain(domain) };
    if adopted.is_err() {
        // SAFETY: open, and nobody has seen it: closed again, since its endpoints could not be
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
        // SAFETY: the provider's own call with what the application passed.
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
        // SAFETY: the provider's own call with what the application passed.
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
        // SAFETY: the provider's own call with what the application passed.
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
        // SAFETY: the provider's own call with what the application passed.
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
        // SAFETY: the provider's own call with what the application passed.
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
        // SAFETY: the provider's own call with what the application passed.
        answered(unsafe { call(domain, info.as_ptr(), endpoint, context) })
    })
}
