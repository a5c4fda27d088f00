// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine's interface: the values that go in and come out, and the two seams that a caller
//! implements ([`Port`](port::Port) and [`Memory`](memory::Memory)).
//!
//! Everything here is plain data or a trait: no state of the engine.

pub(crate) mod address;
pub(crate) mod atomic;
pub(crate) mod completion;
pub(crate) mod completion_group;
pub(crate) mod config;
pub(crate) mod counters;
pub(crate) mod error;
pub(crate) mod hosts;
pub(crate) mod id;
pub(crate) mod limits;
pub(crate) mod link;
pub(crate) mod link_share;
pub(crate) mod matching;
pub(crate) mod memory;
pub(crate) mod port;
pub(crate) mod posted;
pub(crate) mod request;
pub mod rss;
pub(crate) mod shared_receive;
pub(crate) mod source_port;
pub mod stats;
