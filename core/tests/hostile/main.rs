// SPDX-License-Identifier: MIT OR Apache-2.0
//! One engine and a peer that sends what it likes: packets made by hand, right in everything but
//! the one thing that a test is about. Each test is a promise of `docs/PROTOCOL.md`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

#[path = "../world/mod.rs"]
mod world;

mod admission;
mod connection;
mod errors;
mod messages;
mod puppet;
mod recovery;
mod remote;
