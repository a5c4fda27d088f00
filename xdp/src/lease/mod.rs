// SPDX-License-Identifier: MIT OR Apache-2.0
//! Leases: a bound `AF_XDP` socket, and an XDP program that redirects one UDP port to it.
//!
//! In: a [`SocketRequest`](request::SocketRequest). Out: a [`Lease`](socket_lease::Lease), from
//! this process if it has the capabilities, else from `xdp-broker`. Callers: the `AF_XDP` port, and
//! the broker itself. Bounds: those of the files.

pub mod broker;
pub(crate) mod request;
pub(crate) mod socket_lease;
