// SPDX-License-Identifier: MIT OR Apache-2.0
//! The deterministic simulator: engines on virtual time, under every fault, against an oracle.
//!
//! # The map
//!
//! [`run::run`] plays a [`scenario::Scenario`] with a seed in a [`world::World`]. A node ([`node`])
//! has an engine that owns its storage, a clock of its own ([`clock`]) and memory that notices
//! wrong bytes ([`ofi_xdp_test_kit::memory`]). The network loses, repeats, delays and damages
//! packets ([`net`]); there are other faults ([`faults`]). A random application ([`app`]) has an
//! oracle that knows the required result of each operation. The [`invariants`] are checked. Packets
//! move by the engine's own production loop.
//!
//! Around a run: [`swarm`] plays many and shrinks failures, [`corpus`] holds scenarios with names.
//! [`measure`] prints the goodput of the protocol, [`trace`] and [`coverage`] record the events.

pub mod agents;
pub mod app;
pub mod clock;
pub mod completions;
pub mod corpus;
pub mod coverage;
pub mod cross;
pub mod faults;
pub mod hop;
pub mod invariants;
pub mod late;
pub mod measure;
pub mod net;
pub mod node;
pub mod run;
pub mod scenario;
pub mod share;
pub mod swarm;
pub mod trace;
pub mod wire;
pub mod world;
