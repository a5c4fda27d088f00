// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's network: interfaces, drivers, routes, neighbours, namespaces and capabilities.
//!
//! In: questions about the host. Out: the kernel's answers as typed values. Callers: the ports,
//! when they open; the data path calls the route table, and asks by threads (`question.rs`).
//! Bounds: those of the files.

pub(crate) mod card_hash;
mod decode;
pub(crate) mod features;
pub(crate) mod interfaces;
pub(crate) mod memory;
pub(crate) mod netlink;
pub(crate) mod netns;
pub(crate) mod privilege;
pub(crate) mod question;
pub(crate) mod route;
