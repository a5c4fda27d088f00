// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric's C interface: the declarations, flags of one width, and the way to call a slot of an
//! operation table.
//!
//! In: the provider's own bindings file. Out: types and constants under their names, and `call!`.
//! Only [`crate::fi`] calls through it; tests name its constants.

use std::ffi::c_int;

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
    unsafe_op_in_unsafe_fn,
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
#[path = "../../../ffi/src/bindings.rs"]
mod bindings;

pub(crate) use bindings::*;

#[link(name = "fabric")]
unsafe extern "C" {}

/// The interface version that the suite is written for, the oldest that the provider supports.
pub(crate) const VERSION: u32 = version(1, 17);

/// `FI_VERSION`.
pub(crate) const fn version(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

/// Constants of several C types under their names, as one type.
macro_rules! widened {
    ($kind:ty: $($name:ident)*) => { $(
        #[allow(dead_code, reason = "the interface's names, whether a test needs them yet or not")]
        pub(crate) const $name: $kind = bindings::$name as $kind;
    )* };
}

widened! { u64:
    FI_MSG FI_RMA FI_TAGGED FI_ATOMIC FI_SEND FI_RECV FI_READ FI_WRITE FI_REMOTE_READ
    FI_REMOTE_WRITE FI_MULTI_RECV FI_REMOTE_CQ_DATA FI_MORE FI_PEEK FI_TRIGGER FI_FENCE
    FI_COMPLETION FI_INJECT FI_INJECT_COMPLETE FI_TRANSMIT_COMPLETE FI_DELIVERY_COMPLETE
    FI_COMMIT_COMPLETE FI_MATCH_COMPLETE FI_EVENT FI_TRANSMIT FI_CLAIM FI_DISCARD FI_SYNC_ERR
    FI_ORDER_SAS FI_ORDER_WAW FI_ORDER_RAW FI_ORDER_SAW FI_ORDER_RAS FI_ORDER_ATOMIC_WAW
    FI_ORDER_ATOMIC_RAW FI_FETCH_ATOMIC FI_COMPARE_ATOMIC FI_AFFINITY FI_REG_MR
}
widened! { c_int:
    FI_MR_LOCAL FI_MR_RAW FI_MR_VIRT_ADDR FI_MR_ALLOCATED FI_MR_PROV_KEY FI_MR_ENDPOINT
    FI_MR_RMA_EVENT FI_MR_HMEM
    FI_EAGAIN FI_EAVAIL FI_EBUSY FI_EINVAL FI_ENODATA FI_ENOSYS FI_ETOOSMALL FI_ENOMSG FI_ECANCELED
    FI_ETRUNC FI_ENOPROTOOPT FI_ENOKEY FI_EBADFLAGS FI_EOPBADSTATE FI_ENOCQ FI_ENOAV FI_ENOENT
    FI_EOPNOTSUPP FI_ENOMEM FI_EMSGSIZE FI_EADDRNOTAVAIL FI_EACCES FI_EADDRINUSE FI_ETIMEDOUT
    FI_EINTR FI_EPERM FI_EKEYREJECTED FI_EIO FI_EREMOTEIO FI_EOVERRUN FI_ENORX FI_EDOMAIN
    FI_GETWAIT FI_ENABLE FI_GET_RAW_MR FI_MAP_RAW_MR FI_UNMAP_KEY FI_GETOPSFLAG FI_SETOPSFLAG
    FI_ALIAS FI_BACKLOG FI_REFRESH FI_QUEUE_WORK FI_CANCEL_WORK FI_FLUSH_WORK FI_GETFIDFLAG
    FI_OPT_ENDPOINT FI_OPT_MIN_MULTI_RECV FI_OPT_CM_DATA_SIZE FI_OPT_TX_SIZE FI_OPT_RX_SIZE
    FI_OPT_FI_HMEM_P2P
}

/// `FI_ADDR_UNSPEC` and `FI_ADDR_NOTAVAIL` (`fi_cq(3)`, `fi_msg(3)`): the same value.
pub(crate) const ANYBODY: fi_addr_t = fi_addr_t::MAX;
/// `FI_KEY_NOTAVAIL`, `fi_mr(3)`.
pub(crate) const NO_KEY: u64 = u64::MAX;
/// `-FI_ENOSYS`: an empty slot of an operation table.
pub(crate) const NO_SUCH_SLOT: i8 = -38;

/// Calls a slot of an operation table: `call!(object, table.slot(arguments))`.
///
/// What makes it sound, though the methods around it are safe functions: an object's pointer comes
/// from [`crate::fi::Object`], which gives it out only until the object is closed, and memory from
/// [`crate::fi::Mem`], which is never freed. Arguments that lie (tests of misuse) lie about
/// lengths and flags, not about memory.
macro_rules! call {
    ($object:expr, $table:ident.$slot:ident($($argument:expr),* $(,)?)) => {
        $crate::abi::call!($object, $table.$slot($($argument),*), $crate::abi::NO_SUCH_SLOT.into())
    };
    ($object:expr, $table:ident.$slot:ident($($argument:expr),* $(,)?), $absent:expr) => {{
        // SAFETY: the object is open (`Object`).
        let table = unsafe { (*$object).$table };
        // SAFETY: the tables of an open object stay in place until it is closed (fi_provider(7)).
        match unsafe { (*table).$slot } {
            // SAFETY: pointers among the arguments are open objects, memory that is never freed,
            // or locals that outlive the call.
            Some(slot) => unsafe { slot($($argument),*) },
            None => $absent,
        }
    }};
}
pub(crate) use call;
