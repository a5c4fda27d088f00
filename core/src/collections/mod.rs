// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data structures over borrowed storage, and small values: slots, lists, hash index, timer wheel,
//! sequence numbers, time, the secret.
//!
//! Nothing here knows the protocol or another folder of this crate.

pub(crate) mod bins;
pub(crate) mod coverage;
#[cfg(feature = "alloc")]
pub(crate) mod filled;
pub(crate) mod index;
pub(crate) mod list;
pub(crate) mod mix;
pub(crate) mod secret;
pub(crate) mod serial;
pub(crate) mod slab;
pub(crate) mod slots;
pub(crate) mod time;
pub(crate) mod wheel;
