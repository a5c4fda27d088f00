// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measuring programs beside `xdp-perf`: the same measurements without libfabric, and measurements
//! of one thing each.
//!
//! | program | measurement |
//! |---|---|
//! | `kernel-udp`, `kernel-udp-gso` | plain UDP sockets: the kernel without a protocol |
//! | `raw-af_xdp` | bare AF_XDP sockets: the lower bound of the provider's cost |
//! | `perf-lazy` | transfers of applications that read their completion queue at intervals |
//! | `reads` | reads of a completion queue that find nothing |
//! | `peers` | the insertion of a million addresses |
//! | `connections` | many connections between two processes |
//! | `matching` | messages among many posted receives, or stored messages |
//! | `threads` | threads with a context each, beside as many endpoints |
//! | `datagrams` | datagrams of `FI_EP_DGRAM` or of bare AF_XDP, one way and to and fro |
//!
//! The first three have a [`transport`] of their own, and all else of `xdp-perf`.
#![deny(unsafe_code)]

pub mod datagrams;
pub mod lazy;
pub mod queue;
pub mod report;
pub mod transport;
pub mod want;
