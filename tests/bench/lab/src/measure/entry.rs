// SPDX-License-Identifier: MIT OR Apache-2.0
//! One row of a measurement.

use std::time::Duration;

use super::Candidate;

/// The usual time limit of a session, beyond its measurements.
const SESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// A candidate and its workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The transport.
    pub candidate: Candidate,
    /// Arguments for its program's client.
    pub arguments: Vec<String>,
    /// The time limit of a session.
    pub timeout: Duration,
}

impl Entry {
    /// An entry with the usual time limit.
    #[must_use]
    pub fn new(candidate: Candidate, arguments: Vec<String>) -> Self {
        Self { candidate, arguments, timeout: SESSION_TIMEOUT }
    }
}
