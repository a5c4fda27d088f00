// SPDX-License-Identifier: MIT OR Apache-2.0
//! One engine, and a peer that sends arbitrary packets: each is made by hand, and wrong in one
//! respect only, the subject of the test. Each test is a promise of `docs/PROTOCOL.md`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

#[path = "../world/mod.rs"]
mod world;

mod admission;
mod beside;
mod blind;
mod connection;
mod ends;
mod errors;
mod hosts;
mod messages;
mod newcomers;
mod path_mtu;
mod progress;
mod puppet;
mod recovery;
mod remote;
mod shares;
mod source_port;
mod unnamed;
mod work;
