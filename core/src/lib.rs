// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heart of the `xdp` provider: wire format, reliability, matching. No operating system, no
//! allocation, no unsafe code, no clock.
//!
//! # The map
//!
//! A message out: [`Engine::post_send`] files it with its peer; [`drive`] asks [`Engine::transmit`]
//! for packets while the [`Port`] has room; [`Memory::gather`] copies the payload behind the
//! headers.
//!
//! A message in: [`drive`] hands each received packet to [`Engine::ingest`]; it is parsed
//! ([`wire`]), admitted once by the peer's receive window, matched with a posted receive or stored;
//! [`Memory::place`] copies the payload to where it belongs; [`Engine::poll_recv_completion`] tells
//! the application.
//!
//! The caller lends all memory ([`Storage`], sized by [`Config`]), brings the time ([`Instant`])
//! and performs all input and output ([`Port`], [`Memory`]). [`frame`] is for ports: the standard
//! headers around a packet.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod address;
mod atomic;
mod completion;
mod config;
mod engine;
mod error;
pub mod frame;
mod id;
mod in_flight;
mod index;
mod memory;
mod operation;
mod peer;
mod port;
pub mod progress;
mod region;
mod request;
mod rng;
mod serial;
mod slab;
pub mod stats;
mod tally;
mod time;
mod unexpected;
mod wheel;
mod window;
pub mod wire;

pub use address::PeerAddress;
pub use atomic::{AtomicOp, Datatype};
pub use completion::{Completion, DeferredId, OpError, OpKind};
pub use config::{Config, Congestion, Order, Storage, StorageSizes};
pub use engine::{Engine, Identity, PeerReport, TIMERS_PER_ADVANCE, Violation};
pub use error::{ConfigError, PeersFull, PostError, RegionError, Unknown};
pub use id::{Context, OpId, PeerId, RecvId, RegionId, UnexpectedId};
pub use in_flight::Extent;
pub use memory::{Arrival, AtomicAccess, Gather, Memory, Placement, Source, Target};
pub use operation::{Assembly, RecvOp, TxOp, Unexpected};
pub use peer::{Active, Peer};
pub use port::{Datagram, Destination, Port, PortError, PortLimits, Transmit, Transmitted};
pub use progress::{Budget, Progress, drive};
pub use region::{Access, Region, RegionRequest};
pub use request::{
    AtomicForm, AtomicRequest, Common, Probe, ReadRequest, RecvRequest, Remote, SendRequest,
    TagMatch, Unbegun, WriteRequest,
};
pub use serial::{Msn, Psn};
pub use slab::Slot;
pub use stats::{DropReason, Stats};
pub use tally::{Count, Served, Tally};
pub use time::Instant;
pub use unexpected::UNEXPECTED_CLASS_LEN;
pub use wheel::TimerSlot;
pub use window::WINDOW_PACKETS;
pub use wire::{ATOMIC_LEN_MAX, MESSAGE_LEN_MAX, PULL_LEN_MAX};
