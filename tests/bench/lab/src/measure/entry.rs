// SPDX-License-Identifier: MIT OR Apache-2.0
//! One row of a measurement.

use super::Candidate;

/// A candidate and its workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The transport.
    pub candidate: Candidate,
    /// Arguments for its program's client.
    pub arguments: Vec<String>,
}
