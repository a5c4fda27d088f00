// SPDX-License-Identifier: MIT OR Apache-2.0
//! The protocol between a process without capabilities and `xdp-broker`.
//!
//! In: a [`SocketRequest`](crate::SocketRequest) and the endpoint's kernel socket. Out: a
//! [`Reply`], with an `AF_XDP` socket if it was granted. Callers: the provider (`client.rs`), and
//! the program `xdp-broker` (`xdp/broker`). One connection stands for one lease:
//!
//! ```text
//!   client                                   broker
//!     ── request + kernel UDP socket ──▶       user (SO_PEERCRED) allowed by the policy?
//!                                              socket bound as requested, in this namespace?
//!     ◀── reply + AF_XDP socket, memory,       bind, attach, claim the socket's port
//!         counters page, map of the counts     publish the program's counters each second
//!         of packets left to the kernel ──
//!     ── (stays open) ──                       closed by either side: the lease ends
//! ```
//!
//! Bounds: a message has a fixed length and arrives in one piece or not at all.

pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod counters_page;
pub(crate) mod message;

pub use counters_page::CountersPage;
pub use message::{REPLY_BYTES, REQUEST_BYTES, Reply, Status};
