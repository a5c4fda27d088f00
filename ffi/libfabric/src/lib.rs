// SPDX-License-Identifier: MIT OR Apache-2.0
//! A libfabric client in two layers.
//!
//! The safe layer is for programs. In: a request ([`Want`]) and messages. Out: messages to a peer,
//! and completions. The steps, which are every libfabric program's:
//!
//! 1. [`Info::find`]: `fi_getinfo` picks an offer that satisfies the request;
//! 2. [`Endpoint::open`]: fabric, domain, completion queue, address vector, endpoint, enabled;
//! 3. [`Endpoint::name`] and [`Endpoint::insert`]: addresses, exchanged by other means;
//! 4. [`Endpoint::receive`], [`Endpoint::send`], [`Endpoint::poll`]: the data path, which allocates
//!    nothing.
//!
//! An endpoint of type `FI_EP_MSG` is connected instead (steps 2 and 3): [`Listener::accept`] and
//! [`Endpoint::connect`].
//!
//! Bounds: an endpoint owns its buffers, a fixed number of [`Setup::slots`], and one operation at
//! most is under way on each. That also makes the interface safe: a buffer cannot be touched while
//! an operation has it, and outlives the endpoint.
//!
//! The layer below, [`raw`], has every object and call of libfabric and checks nothing: it is for
//! tests that call a provider in wrong ways. The safe layer is built on it.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod buffers;
mod domain;
mod endpoint;
mod error;
mod events;
mod info;
mod listener;
mod name;
mod operation;
mod owned;
#[allow(unsafe_code)]
#[allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "a method for each call of C, also for calls with pointers that must not be followed"
)]
pub mod raw;

pub use endpoint::{Completion, Endpoint, Peer, RemoteBuffer, RemoteRegion, Route, Setup, Wait};
pub use error::Error;
pub use info::{Info, Kind, Want};
pub use listener::Listener;
pub use name::Name;
pub use operation::Operation;

/// The running library's version, as (major, minor).
#[must_use]
pub fn version() -> (u32, u32) {
    let version = raw::version();
    (version >> 16, version & 0xffff)
}
