// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of `xdp-perf`, for other programs as well: latency, message rate and bandwidth
//! between two processes.
//!
//! Programs differ in their [`transport`] alone. A [`session`] is one client at one server. They
//! agree over a TCP connection ([`control`]) on the [`plan`] and measure over the transport. The
//! result is a [`report`].
#![deny(unsafe_code)]

pub mod cli;
pub mod control;
pub mod output;
pub mod plan;
pub mod report;
pub mod session;
pub mod sizes;
pub mod transport;
