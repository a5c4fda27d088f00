// SPDX-License-Identifier: MIT OR Apache-2.0
//! The invariants, by number, and where each is checked.
//!
//! In: completions and packets of the nodes. Out: the first [`Violation`]. The checkers are grouped
//! by concern; [`INVARIANTS`] is the whole list.

pub mod delivery;
pub mod liveness;
pub mod protocol;
pub mod resources;
pub mod rma;

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant; 0: the engine panicked.
    pub invariant: u8,
    /// The observation.
    pub what: String,
    /// World time in nanoseconds.
    pub at: u64,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let title = INVARIANTS.iter().find(|i| i.number == self.invariant).map_or("", |i| i.title);
        write!(f, "invariant {} ({title}): {} [at {} ns]", self.invariant, self.what, self.at)
    }
}

impl std::error::Error for Violation {}

/// The result of a checker.
pub type Checked = Result<(), (u8, String)>;

/// A checker's complaint.
///
/// # Errors
/// Always: this makes the error.
pub fn broken(invariant: u8, what: impl Into<String>) -> Checked {
    Err((invariant, what.into()))
}

/// An invariant.
#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    /// Its number.
    pub number: u8,
    /// The rule.
    pub title: &'static str,
    /// Which function checks it, or why it cannot be broken here.
    pub checked: &'static str,
}

const fn inv(number: u8, title: &'static str, checked: &'static str) -> Invariant {
    Invariant { number, title, checked }
}

/// All of them.
pub const INVARIANTS: [Invariant; 36] = [
    inv(1, "each message arrives once or its send fails", "delivery::{once, all_arrived}"),
    inv(2, "messages match in the order of their posting", "delivery::{order, passed_over}"),
    inv(3, "bytes are right, and no others are touched", "delivery::contents; memory"),
    inv(4, "no buffer is written after its completion", "memory: the buffer is gone by then"),
    inv(5, "remote CQ data comes once, after its bytes and all before", "rma::remote_data"),
    inv(6, "promised orders hold", "delivery::order (SAS); rma::{reads, remote_data}"),
    inv(7, "atomics happen once, and are indivisible", "rma::counters"),
    inv(8, "success means placed", "delivery::all_arrived; rma::written"),
    inv(9, "an operation completes once, and no error is lost", "delivery::ends_once"),
    inv(10, "the packets under way fit the window", "protocol::Observer::window"),
    inv(11, "acknowledgment never goes back", "protocol::Observer::acknowledgment"),
    inv(12, "nothing is acknowledged that was not sent", "protocol::Observer::selective"),
    inv(13, "a packet that fails validation changes nothing", "world: ingest_suspect"),
    inv(14, "packets of old connections have no effect", "delivery::order over incarnations"),
    inv(15, "acceptance never goes back", "protocol::Observer::acknowledgment"),
    inv(16, "the congestion window keeps its bounds", "resources::audit (from inside)"),
    inv(17, "no packet is repeated within a round trip", "protocol::Observer::repeated"),
    inv(18, "a packet number stands for the same records", "protocol::Observer::repeated"),
    inv(
        19,
        "an identifier never finds a later tenant of its slot",
        "memory: identifiers carry generations",
    ),
    inv(20, "pools add up and are empty at rest", "resources::{audit, at_rest}; memory"),
    inv(
        21,
        "every frame has one owner",
        "not breakable here: packets are lent to the engine for one call, the borrow checker holds \
         it; the pool of the network must be empty at rest (resources::network_at_rest)",
    ),
    inv(22, "the wheel forgets no timer", "resources::timers"),
    inv(
        23,
        "calls are bounded, nothing is allocated",
        "resources::budget; the engine has no allocator to call (no_std without alloc)",
    ),
    inv(24, "an idle peer has the documented size", "size assertions in core; resources::audit"),
    inv(25, "everything ends once faults have", "liveness::ended"),
    inv(26, "work per operation is bounded", "liveness::steps; measure::targets"),
    inv(27, "every connection gets a turn", "corpus::fair_turns; measure::targets (incast)"),
    inv(28, "peer_timeout ends operations, and a new epoch follows", "liveness::ended; corpus"),
    inv(29, "a refused sender resumes, minimum pools do not deadlock", "liveness::ended; corpus"),
    inv(30, "a node without work sends nothing and has no timer", "liveness::is_silent"),
    inv(31, "no round trip is measured too short", "resources::round_trips"),
    inv(32, "a host's delay shrinks no congestion window", "late::late_hosts"),
    inv(33, "cross traffic leaves each stream a share", "share"),
    inv(34, "streams of one bottleneck have equal shares", "share"),
    inv(35, "a path that becomes short goes on within a second", "hop::hop_with_a_smaller_mtu"),
    inv(36, "streams that begin later leave no longer queue", "share"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_whole() {
        assert!(INVARIANTS.iter().zip(1..).all(|(i, number)| i.number == number));
    }
}
