// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slots of what the provider does not do: each answers, none is NULL.
//!
//! libfabric's inline wrappers call most slots without looking, so an application that tries
//! collective operations must find a function there. [`Unsupported::SLOT`] is that function, for a
//! slot of any signature; the table's member type picks it.

use std::ffi::{c_char, c_int, c_void};

use crate::abi;

/// What a slot returns that is not implemented.
pub(crate) trait Refusal {
    /// The value.
    const REFUSAL: Self;
}

impl Refusal for c_int {
    const REFUSAL: Self = -abi::FI_ENOSYS.cast_signed();
}

impl Refusal for isize {
    const REFUSAL: Self = -(abi::FI_ENOSYS as Self);
}

impl Refusal for *const c_char {
    const REFUSAL: Self = std::ptr::null();
}

/// A function type that has a refusing function.
pub(crate) trait Unsupported {
    /// The refusing function.
    const SLOT: Self;
}

macro_rules! unsupported {
    ($($argument:ident)*) => {
        impl<R: Refusal, $($argument),*> Unsupported
            for Option<unsafe extern "C" fn($($argument),*) -> R>
        {
            const SLOT: Self = {
                unsafe extern "C" fn refuse<R: Refusal, $($argument),*>($(_: $argument),*) -> R {
                    R::REFUSAL
                }
                Some(refuse::<R, $($argument),*>)
            };
        }
    };
}

unsupported!(A);
unsupported!(A B);
unsupported!(A B C);
unsupported!(A B C D);
unsupported!(A B C D E);
unsupported!(A B C D E F);
unsupported!(A B C D E F G);
unsupported!(A B C D E F G H);
unsupported!(A B C D E F G H I);
unsupported!(A B C D E F G H I J);
unsupported!(A B C D E F G H I J K);
unsupported!(A B C D E F G H I J K L);
unsupported!(A B C D E F G H I J K L M);
unsupported!(A B C D E F G H I J K L M N);
unsupported!(A B C D E F G H I J K L M N O);
unsupported!(A B C D E F G H I J K L M N O P);

/// The refusing function of the wanted type.
pub(crate) const fn slot<F: Unsupported + Copy>() -> F {
    F::SLOT
}

/// A table as libfabric 2.6 ends it, and the slot that later headers have behind it (`fi_xpu(3)`),
/// whose wrappers call it without a look at how long the table is.
#[repr(C)]
pub(crate) struct WithXpu<T, F> {
    /// What 2.6 knows, with the size of all.
    pub(crate) table: T,
    /// The slot.
    pub(crate) xpu: F,
}

/// The `export_xpu` slot of a `T`.
pub(crate) type ExportXpu<T> = Option<unsafe extern "C" fn(*mut T, u64, *mut c_void) -> c_int>;

/// The `xpu_ctx` slot of a domain.
pub(crate) type XpuContext = Option<
    unsafe extern "C" fn(*mut abi::fid_domain, *mut c_void, *mut *mut c_void, *mut c_void) -> c_int,
>;

/// `struct fi_ops_collective`.
pub(crate) static COLLECTIVE: abi::fi_ops_collective = abi::fi_ops_collective {
    size: size_of::<abi::fi_ops_collective>(),
    barrier: slot(),
    broadcast: slot(),
    alltoall: slot(),
    allreduce: slot(),
    allgather: slot(),
    reduce_scatter: slot(),
    reduce: slot(),
    scatter: slot(),
    gather: slot(),
    msg: slot(),
    barrier2: slot(),
};
