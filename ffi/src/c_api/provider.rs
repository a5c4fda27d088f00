// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entry point: `fi_prov_ini`, and the `struct fi_provider` that it returns.
//!
//! libfabric loads the library, and calls `fi_prov_ini` once, under its own lock. It keeps the
//! structure for the rest of the process; only libfabric writes its member `context`. This library
//! stays mapped after `cleanup` (see `build.rs`), so the structure, the fork handler and the tables
//! live as long as the process.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::getinfo::open_objects;
use crate::objects::progress_thread::ProgressThread;
use crate::sys::abi::{self, Provider, make_version};
use crate::sys::personality::{self, Personality};
use crate::sys::{log, param, process};

/// The oldest supported libfabric. The declarations are generated from its headers.
const LIBFABRIC_MIN: u32 = make_version(1, 17);

/// Offset of `disable_layering` in libfabric's use of `context`: after an `int` and a `bool`
/// (`struct ofi_prov_context`, equal in 1.17 and 2.x).
const DISABLE_LAYERING_OFFSET: usize = 5;

struct ProviderCell(UnsafeCell<abi::fi_provider>);

// SAFETY: written by `fi_prov_ini`, which libfabric calls once and under its lock. Afterwards only
// libfabric writes to it. This library passes its address on without reading it.
unsafe impl Sync for ProviderCell {}

static PROVIDER: ProviderCell = ProviderCell::new();

/// The provider of the variables and the log under another name: both keep the name `xdp`.
static OWN_NAME: ProviderCell = ProviderCell::new();

impl ProviderCell {
    const fn new() -> Self {
        Self(UnsafeCell::new(abi::fi_provider {
            version: process::VERSION,
            fi_version: 0,
            context: abi::fi_context { internal: [std::ptr::null_mut(); 4] },
            name: Personality::Xdp.name().as_ptr(),
            getinfo: Some(super::info::getinfo),
            fabric: Some(fabric),
            cleanup: Some(cleanup),
        }))
    }

    /// The provider, for libfabric's log and param calls.
    fn handle(&self) -> Option<Provider> {
        // SAFETY: called on statics, so valid for the rest of the process.
        NonNull::new(self.0.get()).map(|provider| unsafe { Provider::new(provider) })
    }
}

static LOADED: OnceLock<()> = OnceLock::new();

/// libfabric's entry point: returns the provider, or NULL if libfabric is too old.
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
        // The newest interface of the running library: an application requests the one that it was
        // compiled with, and libfabric hides providers with an older one.
        // SAFETY: the static's own memory; its address is not known elsewhere yet.
        unsafe { (*provider).fi_version = version };
        let name = OWN_NAME.handle().and_then(param::name);
        let personality = personality::choose(name.as_deref(), abi::library().as_deref());
        // SAFETY: as above.
        unsafe { (*provider).name = personality.name().as_ptr() };
        // SAFETY: as above.
        unsafe { (*provider).version = personality.version(version) };
        // Otherwise libfabric layers `ofi_rxm` and `ofi_rxd` over this provider, and lists them
        // first.
        // SAFETY: `context` is the static's own memory, 32 bytes long.
        let context = unsafe { (&raw mut (*provider).context).cast::<u8>() };
        // SAFETY: the offset is within those 32 bytes.
        let disable_layering = unsafe { context.add(DISABLE_LAYERING_OFFSET) };
        // SAFETY: as above; the byte is libfabric's `bool`.
        unsafe { disable_layering.write(u8::from(!personality.is_layered())) };
        process::handle_forks(in_child);
        let own = if personality == Personality::Xdp { &PROVIDER } else { &OWN_NAME };
        if let Some(handle) = own.handle() {
            log::install(handle);
            param::define(handle);
        }
    }
    provider
}

/// Called in the child of a fork, before any other code there.
extern "C" fn in_child() {
    process::note_fork();
    open_objects::unlock_in_child();
    ProgressThread::unlock_in_child();
}

/// `fi_fabric`.
unsafe extern "C" fn fabric(
    attributes: *mut abi::fi_fabric_attr,
    fabric: *mut *mut abi::fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the contract of `fi_fabric(3)`, passed on.
    unsafe { super::fabric::open(attributes, fabric, context) }
}

/// Called when libfabric is unloaded, possibly from `exit`, possibly with open objects. Threads
/// end, because they log through libfabric. Open objects are not touched otherwise. Kernel
/// resources (sockets, the link of the XDP program) end with the process.
unsafe extern "C" fn cleanup() {
    ProgressThread::stop_all();
}
