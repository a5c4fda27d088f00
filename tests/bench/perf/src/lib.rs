// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measuring programs over libfabric, and the same measurements without libfabric.
//!
//! | program | measurement |
//! |---|---|
//! | `perf` | latency, message rate and bandwidth of any provider, with checks of the bytes |
//! | `perf-rma` | RMA writes in place of messages, and RMA reads |
//! | `perf-lazy` | transfers of applications that read their completion queue at intervals |
//! | `peers` | the insertion of a million addresses |
//! | `matching` | messages among many posted receives, or stored messages |
//! | `kernel-udp` | plain UDP sockets: the kernel without a protocol |
//! | `raw-af_xdp` | bare AF_XDP sockets: the lower bound of the provider's cost |
//!
//! All but `peers`, `matching` and `perf-lazy` ([`lazy`]) differ in their [`transport`] alone. A
//! [`session`] is one client at one server. They agree over a TCP connection ([`control`]) on the
//! [`plan`] and measure over the transport. The client prints a [`report`].
#![deny(unsafe_code)]

pub mod cli;
pub mod control;
pub mod lazy;
pub mod plan;
pub mod report;
pub mod session;
pub mod transport;
