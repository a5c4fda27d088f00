// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slots of unsupported operations: functions that return an error. No slot is NULL.
//!
//! libfabric's inline wrappers call most slots without a check, so each slot must have a function.
//! [`Unsupported::SLOT`] is that function, for a slot of any signature; the type of the table's
//! member selects it.

use std::ffi::{c_char, c_int, c_void};

use crate::sys::abi;

/// The return value of an unsupported slot.
pub(crate) trait Refused {
    /// The value.
    const REFUSAL: Self;
}

impl Refused for c_int {
    const REFUSAL: Self = -abi::FI_ENOSYS.cast_signed();
}

impl Refused for isize {
    const REFUSAL: Self = -(abi::FI_ENOSYS as Self);
}

impl Refused for *const c_char {
    const REFUSAL: Self = std::ptr::null();
}

/// A function type that has a refusing function.
pub(crate) trait Unsupported {
    /// The refusing function.
    const SLOT: Self;
}

macro_rules! unsupported {
    ($($argument:ident)*) => {
        impl<R: Refused, $($argument),*> Unsupported
            for Option<unsafe extern "C" fn($($argument),*) -> R>
        {
            const SLOT: Self = {
                unsafe extern "C" fn refuse<R: Refused, $($argument),*>($(_: $argument),*) -> R {
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

/// The refusing function of this type.
pub(crate) const fn slot<F: Unsupported + Copy>() -> F {
    F::SLOT
}

/// A table of libfabric 2.6, followed by the slot of later headers (`fi_xpu(3)`). Their wrappers
/// call that slot without a check of the table's size.
#[repr(C)]
pub(crate) struct WithXpu<T, F> {
    /// The table of 2.6, with the size of both members.
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

/// `struct fi_ops_msg`.
pub(crate) const MSG: abi::fi_ops_msg = abi::fi_ops_msg {
    size: size_of::<abi::fi_ops_msg>(),
    recv: slot(),
    recvv: slot(),
    recvmsg: slot(),
    send: slot(),
    sendv: slot(),
    sendmsg: slot(),
    inject: slot(),
    senddata: slot(),
    injectdata: slot(),
};

/// `struct fi_ops_tagged`.
pub(crate) const TAGGED: abi::fi_ops_tagged = abi::fi_ops_tagged {
    size: size_of::<abi::fi_ops_tagged>(),
    recv: slot(),
    recvv: slot(),
    recvmsg: slot(),
    send: slot(),
    sendv: slot(),
    sendmsg: slot(),
    inject: slot(),
    senddata: slot(),
    injectdata: slot(),
};

/// `struct fi_ops_rma`.
pub(crate) static RMA: abi::fi_ops_rma = abi::fi_ops_rma {
    size: size_of::<abi::fi_ops_rma>(),
    read: slot(),
    readv: slot(),
    readmsg: slot(),
    write: slot(),
    writev: slot(),
    writemsg: slot(),
    inject: slot(),
    writedata: slot(),
    injectdata: slot(),
};

/// `struct fi_ops_atomic`.
pub(crate) static ATOMIC: abi::fi_ops_atomic = abi::fi_ops_atomic {
    size: size_of::<abi::fi_ops_atomic>(),
    write: slot(),
    writev: slot(),
    writemsg: slot(),
    inject: slot(),
    readwrite: slot(),
    readwritev: slot(),
    readwritemsg: slot(),
    compwrite: slot(),
    compwritev: slot(),
    compwritemsg: slot(),
    writevalid: slot(),
    readwritevalid: slot(),
    compwritevalid: slot(),
};

/// `struct fi_ops_cm`.
pub(crate) const CM: abi::fi_ops_cm = abi::fi_ops_cm {
    size: size_of::<abi::fi_ops_cm>(),
    setname: slot(),
    getname: slot(),
    getpeer: slot(),
    connect: slot(),
    listen: slot(),
    accept: slot(),
    reject: slot(),
    shutdown: slot(),
    join: slot(),
};
