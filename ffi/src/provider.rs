// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entry point: `fi_prov_ini`, and the `struct fi_provider` that it returns.
//!
//! libfabric loads the library, calls `fi_prov_ini` once under its own lock, and keeps the
//! structure for the rest of the process; its member `context` is libfabric's to write. This
//! library stays mapped after `cleanup` (see `build.rs`), so the structure, the fork handler and
//! the tables live as long as the process.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi::{self, Provider, make_version};
use crate::thread::ProgressThread;
use crate::{log, param, shim};

/// This provider's version; libfabric prefers the higher of two providers with one name.
pub(crate) const VERSION: u32 = make_version(0, 1);

/// The oldest libfabric that this library runs on: its headers are what `bindings.rs` was made
/// from.
const LIBFABRIC_MIN: u32 = make_version(1, 17);

/// Where `disable_layering` lies in what libfabric keeps in `context`: behind an `int` and a `bool`
/// (`struct ofi_prov_context`, the same in 1.17 and 2.x).
const DISABLE_LAYERING_OFFSET: usize = 5;

struct ProviderCell(UnsafeCell<abi::fi_provider>);

// SAFETY: written by `fi_prov_ini`, which libfabric calls once and under its lock; afterwards only
// libfabric writes to it, and this library passes its address on without reading it.
unsafe impl Sync for ProviderCell {}

static PROVIDER: ProviderCell = ProviderCell(UnsafeCell::new(abi::fi_provider {
    version: VERSION,
    fi_version: 0,
    context: abi::fi_context { internal: [std::ptr::null_mut(); 4] },
    name: c"xdp".as_ptr(),
    getinfo: Some(shim::info::getinfo),
    fabric: Some(fabric),
    cleanup: Some(cleanup),
}));

static LOADED: OnceLock<()> = OnceLock::new();
/// How many forks this process is away from the one that loaded the library.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The provider, for libfabric's log and param calls; `None` until libfabric has loaded it.
pub(crate) fn handle() -> Option<Provider> {
    LOADED.get()?;
    // SAFETY: a static, so valid for the rest of the process.
    NonNull::new(PROVIDER.0.get()).map(|provider| unsafe { Provider::new(provider) })
}

/// Tells this process from those that it is a fork of. What was opened before a fork is inert in
/// the child, because rings and sockets are shared with the parent (fabric(7)); what the child
/// opens is its own.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn note_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// libfabric's entry point: the provider, or NULL if this libfabric is older than any that it
/// knows.
///
/// # Safety
/// Called by libfabric when it loads the library, under its own lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_prov_ini() -> *mut abi::fi_provider {
    let version = abi::version();
    if version < LIBFABRIC_MIN {
        return std::ptr::null_mut();
    }
    let provider = PROVIDER.0.get();
    if LOADED.set(()).is_ok() {
        // The newest interface the running library has: applications ask for the one that they were
        // compiled with, and are not shown providers that know less.
        // SAFETY: the static's own memory, and nobody else has its address yet.
        unsafe { (*provider).fi_version = version };
        // Otherwise libfabric would put `ofi_rxm` and `ofi_rxd` over this provider, and list them
        // first.
        // SAFETY: `context` is the static's own memory, 32 bytes long.
        let context = unsafe { (&raw mut (*provider).context).cast::<u8>() };
        // SAFETY: the offset is within those 32 bytes.
        let disable_layering = unsafe { context.add(DISABLE_LAYERING_OFFSET) };
        // SAFETY: as above; the byte is libfabric's `bool`.
        unsafe { disable_layering.write(1) };
        // SAFETY: the handler only stores to an atomic, and stays mapped.
        unsafe { libc::pthread_atfork(None, None, Some(note_fork)) };
        if let Some(handle) = handle() {
            log::install(handle);
            param::define(handle);
        }
    }
    provider
}

/// `fi_fabric`.
unsafe extern "C" fn fabric(
    attributes: *mut abi::fi_fabric_attr,
    fabric: *mut *mut abi::fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the contract of `fi_fabric(3)`, passed on.
    unsafe { shim::fabric::open(attributes, fabric, context) }
}

/// libfabric is being unloaded, perhaps from `exit`, perhaps with objects still open. Threads end,
/// since they log through libfabric; nothing else of those objects is touched. What the kernel
/// holds for this process (sockets, the XDP program's link) ends with it.
unsafe extern "C" fn cleanup() {
    ProgressThread::stop_all();
}
