// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric clients, and the same measurements without libfabric.
//!
//! | program | what it shows |
//! |---|---|
//! | `pingpong` | the smallest useful libfabric client and server; `c/pingpong.c` is the same in C |
//! | `perf` | latency, message rate and bandwidth of any provider, and whether the bytes are right |
//! | `perf-rma` | the same with RMA writes instead of messages, and RMA reads |
//! | `peers` | what it takes to insert a million addresses |
//! | `kernel-udp` | the same over plain UDP sockets: what the kernel gives without a protocol |
//! | `raw-af_xdp` | the same over bare AF_XDP sockets: the floor under the provider |
//!
//! All but `pingpong` and `peers` differ in their [`transport`] alone. A [`session`] is one client
//! at one server: they agree over a TCP connection ([`control`]) on what to measure ([`plan`]),
//! measure it over the transport, and the client prints a [`report`].
#![deny(unsafe_code)]

pub mod cli;
pub mod control;
pub mod fabric;
pub mod plan;
pub mod report;
pub mod session;
pub mod transport;
