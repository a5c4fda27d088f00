// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two seams of the engine, in memory, for the simulator, the fuzz targets, core's tests and
//! the benches of the engine.
//!
//! [`memory`] checks each copy and [`queue`] lends packets to a link of the caller; [`link`] is a
//! link on virtual time for callers without one. The benches count instructions, so they have a
//! [`counted`] memory and a [`ring`] of packets: both without checks or allocation. [`records`]
//! makes the packets of a peer by hand. [`agents`] are connection managers and their link.

pub mod agents;
pub mod card;
pub mod counted;
pub mod link;
pub mod memory;
pub mod packet;
pub mod queue;
pub mod records;
pub mod ring;
pub mod rng;
mod slots;
pub mod violation;
