// SPDX-License-Identifier: MIT OR Apache-2.0
//! The deterministic simulator: engines on virtual time, under every fault, against an oracle.
//!
//! # The map
//!
//! [`run::run`] plays a [`scenario::Scenario`] with a seed in a [`world::World`]: nodes
//! ([`node`]) with engines that own their storage ([`storage`]), clocks of their own ([`clock`])
//! and memory that notices wrong bytes ([`memory`]); a network that loses, repeats, delays and
//! damages ([`net`]), other faults ([`faults`]), a random application ([`app`]) whose oracle knows
//! what each operation must do, and the [`invariants`]. Packets move by the engine's own
//! production loop.
//!
//! Around a run: [`swarm`] plays many and shrinks failures, [`corpus`] holds scenarios with names,
//! [`measure`] prints what the protocol achieves, [`trace`] and [`coverage`] say what happened.

pub mod app;
pub mod clock;
pub mod corpus;
pub mod coverage;
pub mod faults;
pub mod invariants;
pub mod measure;
pub mod memory;
pub mod net;
pub mod node;
pub mod port;
pub mod rng;
pub mod run;
pub mod scenario;
pub mod storage;
pub mod swarm;
pub mod trace;
pub mod wire;
pub mod world;
