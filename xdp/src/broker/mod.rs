// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asking `xdp-broker` for what this process may not do itself, and the words that both use.
//!
//! The provider calls `client::ask` when it lacks capabilities; the program `xdp-broker`
//! (`xdp/broker`) reads a [`Request`] and writes a [`Reply`]. One connection stands for one grant:
//!
//! ```text
//!   client                                   broker
//!     ── Request + kernel UDP socket ──▶       who is it (SO_PEERCRED)? may they (policy)?
//!                                              is the socket theirs, bound, in this namespace?
//!     ◀── Reply + AF_XDP socket, memory,       bind, attach, claim the socket's port
//!         board ──                             what the program counts, each second
//!     ── (stays open) ──                       closed by either side: the claim ends
//! ```
//!
//! Bounds: a message has a fixed length and comes in one piece or not at all.

mod board;
mod client;
mod message;

pub use board::Board;
pub(crate) use board::BoardReader;
pub use client::BrokerError;
pub(crate) use client::{Connection, ask};
pub use message::{REPLY_BYTES, REQUEST_BYTES, Reply, Request, Status};

/// Where the broker listens, unless `FI_XDP_BROKER` says something else.
pub const DEFAULT_PATH: &str = "/run/xdp-broker/socket";
