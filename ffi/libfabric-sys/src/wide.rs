// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric's names, with its constants in the types of the members and arguments that take them.
//!
//! bindgen gives `#define` constants the smallest type that holds them, and enumerators one of
//! their own. Here capabilities, flags and orders are `u64`; error numbers, commands, options and
//! the bits of `mr_mode` are `c_int`. [`bits`] has the former without their prefix.

use std::ffi::c_int;

use crate::bindings;
pub use crate::bindings::*;
pub use crate::inline::*;
pub use crate::{
    FI_ADDR_NOTAVAIL, FI_ADDR_UNSPEC, FI_KEY_NOTAVAIL, VERSION, error_text, make_version, version,
};

/// Defines each constant as `u64`, here and in [`bits`].
macro_rules! flags {
    ($($short:ident = $name:ident,)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            pub const $name: u64 = bindings::$name as u64;
        )*

        /// Capabilities, flags and orders without the prefix `FI_`.
        pub mod bits {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                pub const $short: u64 = super::$name;
            )*
        }
    };
}

flags! {
    MSG = FI_MSG, RMA = FI_RMA, TAGGED = FI_TAGGED, ATOMIC = FI_ATOMIC, MULTICAST = FI_MULTICAST,
    COLLECTIVE = FI_COLLECTIVE, READ = FI_READ, WRITE = FI_WRITE, RECV = FI_RECV, SEND = FI_SEND,
    REMOTE_READ = FI_REMOTE_READ, REMOTE_WRITE = FI_REMOTE_WRITE, RMA_EVENT = FI_RMA_EVENT,
    FETCH_ATOMIC = FI_FETCH_ATOMIC, COMPARE_ATOMIC = FI_COMPARE_ATOMIC, HMEM = FI_HMEM,
    NAMED_RX_CTX = FI_NAMED_RX_CTX, DIRECTED_RECV = FI_DIRECTED_RECV, SOURCE = FI_SOURCE,
    LOCAL_COMM = FI_LOCAL_COMM, REMOTE_COMM = FI_REMOTE_COMM, REMOTE_CQ_DATA = FI_REMOTE_CQ_DATA,
    MORE = FI_MORE, COMPLETION = FI_COMPLETION, INJECT = FI_INJECT,
    INJECT_COMPLETE = FI_INJECT_COMPLETE, TRANSMIT_COMPLETE = FI_TRANSMIT_COMPLETE,
    DELIVERY_COMPLETE = FI_DELIVERY_COMPLETE, PEEK = FI_PEEK, CLAIM = FI_CLAIM,
    DISCARD = FI_DISCARD, FENCE = FI_FENCE, COMMIT_COMPLETE = FI_COMMIT_COMPLETE,
    MATCH_COMPLETE = FI_MATCH_COMPLETE, SELECTIVE_COMPLETION = FI_SELECTIVE_COMPLETION,
    NUMERICHOST = FI_NUMERICHOST, EVENT = FI_EVENT, MULTI_RECV = FI_MULTI_RECV,
    SYNC_ERR = FI_SYNC_ERR, ORDER_RAR = FI_ORDER_RAR, ORDER_RAW = FI_ORDER_RAW,
    ORDER_RAS = FI_ORDER_RAS, ORDER_WAR = FI_ORDER_WAR, ORDER_WAW = FI_ORDER_WAW,
    ORDER_WAS = FI_ORDER_WAS, ORDER_SAR = FI_ORDER_SAR, ORDER_SAW = FI_ORDER_SAW,
    ORDER_SAS = FI_ORDER_SAS, ORDER_RMA_RAR = FI_ORDER_RMA_RAR, ORDER_RMA_RAW = FI_ORDER_RMA_RAW,
    ORDER_RMA_WAR = FI_ORDER_RMA_WAR, ORDER_RMA_WAW = FI_ORDER_RMA_WAW,
    ORDER_ATOMIC_RAR = FI_ORDER_ATOMIC_RAR, ORDER_ATOMIC_RAW = FI_ORDER_ATOMIC_RAW,
    ORDER_ATOMIC_WAR = FI_ORDER_ATOMIC_WAR, ORDER_ATOMIC_WAW = FI_ORDER_ATOMIC_WAW, PEER = FI_PEER,
    SOURCE_ERR = FI_SOURCE_ERR, AFFINITY = FI_AFFINITY, SYMMETRIC = FI_SYMMETRIC,
    SHARED_AV = FI_SHARED_AV, TRIGGER = FI_TRIGGER, REG_MR = FI_REG_MR, TRANSMIT = FI_TRANSMIT,
}

/// Defines each constant as `c_int`.
macro_rules! codes {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "`.")]
        pub const $name: c_int = bindings::$name as c_int;
    )* };
}

codes! {
    FI_MR_LOCAL FI_MR_RAW FI_MR_VIRT_ADDR FI_MR_ALLOCATED FI_MR_PROV_KEY FI_MR_ENDPOINT
    FI_MR_RMA_EVENT FI_MR_HMEM FI_EAGAIN FI_EAVAIL FI_EBUSY FI_EINVAL FI_ENODATA FI_ENOSYS
    FI_ETOOSMALL FI_ENOMSG FI_ECANCELED FI_ETRUNC FI_ENOPROTOOPT FI_ENOKEY FI_EBADFLAGS
    FI_EOPBADSTATE FI_ENOCQ FI_ENOAV FI_ENOENT FI_EOPNOTSUPP FI_ENOMEM FI_EMSGSIZE FI_EADDRNOTAVAIL
    FI_EACCES FI_EADDRINUSE FI_ETIMEDOUT FI_EINTR FI_EPERM FI_EKEYREJECTED FI_EIO FI_EREMOTEIO
    FI_ECONNREFUSED FI_ENOTCONN FI_EISCONN FI_ENOEQ
    FI_EOVERRUN FI_ENORX FI_EDOMAIN FI_GETWAIT FI_ENABLE FI_GET_RAW_MR FI_MAP_RAW_MR FI_UNMAP_KEY
    FI_GETOPSFLAG FI_SETOPSFLAG FI_ALIAS FI_BACKLOG FI_REFRESH FI_QUEUE_WORK FI_CANCEL_WORK
    FI_FLUSH_WORK FI_GETFIDFLAG FI_OPT_ENDPOINT FI_OPT_MIN_MULTI_RECV FI_OPT_CM_DATA_SIZE
    FI_OPT_TX_SIZE FI_OPT_RX_SIZE FI_OPT_FI_HMEM_P2P
}
