// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab: the same measurements over several peers, in turn, several times over.
//!
//! Each [`Entry`] says who is measured and with what, a [`Field`] where; [`Suite`] and
//! [`contestants`] make the entries of the main job, `bench` those of the benchmarks. Rounds
//! interleave them, so that what the machine does meanwhile falls on all alike; only ratios within
//! one run mean anything. Sessions beside which the two cores were far from each other are measured
//! again, and count only of who has no others. Out come [`Results`].

mod contestant;
mod cores;
mod field;
mod flame;
mod introduce;
mod profile;
mod results;
mod rounds;
mod serve;
mod suite;

pub use contestant::{Contestant, LinkUse, READ, TAGGED, WRITE, XdpMode, contestants};
pub use cores::Distances;
pub use field::Field;
pub use introduce::introduce;
pub use profile::{Shares, profile};
pub use results::{Results, Series};
pub use rounds::{Entry, Progress, run};
pub use serve::serve;
pub use suite::Suite;
