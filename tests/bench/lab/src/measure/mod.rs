// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements of several candidates in turn, repeated in rounds.
//!
//! An [`Entry`] is a candidate with its workload, an [`Environment`] the place of the sessions.
//! [`Suite`] and [`candidates`] make the entries of the main job, `suites` those of the benchmarks.
//! Rounds interleave the entries, so that other load of the machine affects all alike; only ratios
//! within one run are meaningful. Sessions with far cores are repeated, and count only for
//! candidates without other sessions. Out: [`Results`].

mod candidate;
mod cores;
mod entry;
mod environment;
mod flame;
mod path;
mod profile;
mod results;
mod rounds;
mod serve;
mod suite;
mod tcp_streams;

pub use candidate::{CONNECTED, Candidate, LinkUse, READ, TAGGED, WRITE, candidates};
pub use cores::Distances;
pub use entry::Entry;
pub use environment::Environment;
pub use path::describe_path;
pub use profile::{Shares, profile};
pub use results::{Results, Series};
pub use rounds::{Progress, run, run_with};
pub use serve::serve;
pub use suite::Suite;
pub use tcp_streams::TcpStreams;
