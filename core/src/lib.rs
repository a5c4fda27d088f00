// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protocol engine of the `xdp` provider: wire format, reliability, matching, remote memory access.
//! The engine has no operating system, no allocation, no unsafe code and no clock.
//!
//! # The map
//!
//! A message out: [`Engine::post_send`] queues it for its peer; [`drive()`] asks
//! [`Burst::transmit`] for packets while the [`Port`] has room; [`Memory::gather`] copies the
//! payload behind the headers.
//!
//! A message in: [`drive()`] hands each received packet to [`Engine::ingest`]. The packet is parsed
//! ([`wire`]), admitted once by the receive window, and its message is matched with a posted
//! receive or stored. [`Memory::place`] copies the payload to its destination.
//! [`Engine::poll_recv_completion`] returns the completion.
//!
//! The caller lends all memory ([`Storage`], sized by [`Config`]), gives the time ([`Instant`]) and
//! performs all input and output ([`Port`], [`Memory`]).
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod api;
#[cfg(feature = "alloc")]
mod boxed;
pub mod cm;
mod collections;
pub mod drive;
mod engine;
mod peer;
pub mod shared_queue;
pub mod wire;

pub use api::address::PeerAddress;
pub use api::atomic::{AtomicForm, AtomicOp, Datatype};
pub use api::completion::{Completion, DeferredId, OpError, OpKind};
pub use api::completion_group::{CompletionGroup, GROUPS_MAX};
pub use api::config::{ChecksumFn, Config, Congestion, Order, UNEXPECTED_CLASS_LEN};
pub use api::counters::{OpCount, OpCounters, TargetCounters};
pub use api::error::{ConfigError, PeersFull, PostError, RegionError, Unknown};
pub use api::id::{Context, OpId, PeerId, RecvId, RegionId, SharedRecvId, UnexpectedId};
pub use api::limits::{ATOMIC_LEN_MAX, MESSAGE_LEN_MAX, PIECED_LEN_MAX, RENDEZVOUS_READ_LEN_MAX};
pub use api::link::LinkState;
pub use api::link_share::{LinkShare, LinkShares};
pub use api::matching::TagMatch;
pub use api::memory::{AtomicAccess, Gather, Memory, Placement, Source, Target, UnmatchedMessage};
pub use api::port::{
    ChecksumCoverage, Datagram, Destination, Port, PortError, PortLimits, Transmit, Transmitted,
};
pub use api::request::{
    AtomicRequest, Common, Peek, ReadRequest, RecvRequest, Remote, SendRequest, UnstartedOp,
    WriteRequest,
};
pub use api::rss;
pub use api::source_port::{PathAdvice, SourcePort, WantedPort};
pub use api::stats::{self, DropReason, Stats};
#[cfg(feature = "alloc")]
pub use boxed::{AgentBox, EngineBox, SharedQueueBox};
pub use cm::{Agent, AgentConfig};
pub use collections::serial::{Msn, Psn};
pub use collections::time::Instant;
pub use drive::{Budget, Progress, drive};
#[cfg(feature = "alloc")]
pub use engine::storage::StorageBox;
pub use engine::storage::{Storage, StorageBytes};
pub use engine::{
    Access, Arrivals, Burst, Engine, Identity, PeerReport, RegionRequest, TIMERS_PER_ADVANCE,
    Violation,
};
pub use peer::window::WINDOW_PACKETS;
pub use shared_queue::SharedQueue;
