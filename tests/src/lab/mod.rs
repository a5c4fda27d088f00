// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lab: the same measurements over several peers, in turn, several times over.
//!
//! A [`Suite`] says what to measure, the [`contestants`] who is measured, a [`Field`] where. Rounds
//! interleave them, so that what the machine does meanwhile falls on all alike; only ratios within
//! one run mean anything. Out come [`Results`].

mod contestant;
mod field;
mod introduce;
mod results;
mod rounds;
mod serve;
mod suite;

pub use contestant::{Contestant, LinkUse, XdpMode, contestants};
pub use field::Field;
pub use introduce::introduce;
pub use results::{Results, Series};
pub use rounds::{Progress, run};
pub use serve::serve;
pub use suite::Suite;
