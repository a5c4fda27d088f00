// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passthrough: the C side of hardware providers' offers and objects, a sealed folder.
//!
//! In: `fi_getinfo` and `fi_fabric`, from `info` and `fabric`, its only callers. Out: offers, and
//! objects of hardware providers. The rules on names are in `getinfo::hardware`.

mod info_list;
mod interface_list;
mod offers;
mod table_copy;

pub(super) use offers::{offers, open};
