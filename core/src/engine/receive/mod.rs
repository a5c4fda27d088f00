// SPDX-License-Identifier: MIT OR Apache-2.0
//! One packet in: checks first, then the components that it concerns.
//!
//! `admit.rs` checks a packet against its connection, `ingest.rs` takes any packet in,
//! `fast_path.rs` the two that nearly always come, `predicted_part.rs` those of long operations, of
//! which `run.rs` knows the next one. `pieces.rs` keeps packets that arrive in pieces,
//! `source_port.rs` requests other source ports.

pub(super) mod admit;
pub(super) mod fast_path;
pub(super) mod ingest;
pub(in crate::engine) mod pieces;
mod predicted_part;
mod run;
mod source_port;
