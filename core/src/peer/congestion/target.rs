// SPDX-License-Identifier: MIT OR Apache-2.0
//! The target of the delay (`docs/PROTOCOL.md` §4.6): up to it a window grows.
//!
//! In: the window and the round trips of its path. Out: delays in ticks. The congestion window
//! calls. All operations are O(1), with one square root.

use super::{LONG_QUARTERS, ONE};
use crate::collections::time::TICK_NANOS;
use crate::peer::Rtt;

/// Delay beyond the least round trip that is no sign of congestion.
const QUEUE_TICKS: u32 = (50_000 / TICK_NANOS) as u32;
/// On a long path the allowance has this part of what the least round trip has beyond
/// [`NEAR_TICKS`], too.
const QUEUE_PART: u32 = 8;
/// The longest round trip within a data centre.
const NEAR_TICKS: u32 = (1_000_000 / TICK_NANOS) as u32;
/// Slow senders may cause more delay, so that many senders settle at one queue, and at equal rates
/// (Swift §3.5, flow scaling, by rate instead of window). This is the most, for the slowest.
const SCALED_MAX_TICKS: u32 = (1_000_000 / TICK_NANOS) as u32;
/// That delay for a rate of one packet in [`SCALED_PERIOD_TICKS`]. It is inversely proportional to
/// the root of the rate.
const SCALED_TICKS: u64 = 250_000 / TICK_NANOS;
const SCALED_PERIOD_TICKS: u64 = 100_000 / TICK_NANOS;
/// The least target: below it software's own delays would be taken for congestion.
pub(super) const MIN_TICKS: u32 = (100_000 / TICK_NANOS) as u32;

/// The delay up to which a window of `packets` grows. The allowance for queueing is that of the
/// path, and 250 µs divided by the root of the rate in packets per 100 µs. Until the least round
/// trip is known, no delay is too long.
pub(super) fn delay(packets: u32, rtt: &Rtt) -> u32 {
    const SQUARE: u64 = SCALED_TICKS * SCALED_TICKS / SCALED_PERIOD_TICKS * ONE as u64;
    const SQUARE_MAX: u64 = SCALED_MAX_TICKS as u64 * SCALED_MAX_TICKS as u64;
    if rtt.least() == 0 {
        return u32::MAX;
    }
    let square = SQUARE * u64::from(rtt.least()) / u64::from(packets.max(1));
    let scaled = (square.min(SQUARE_MAX) as u32).isqrt();
    (rtt.least() + queue_allowance(rtt)).max(MIN_TICKS) + scaled
}

/// The delay half-way from the least round trip to the target.
pub(super) fn half_way(packets: u32, rtt: &Rtt) -> u32 {
    rtt.least() + (delay(packets, rtt) - rtt.least()) / 2
}

/// The delay of a queue that is so long that its senders should measure the path anew: as long as
/// [`Competition`](super::Competition) calls it. Where one of them took the queue of the others for
/// a part of the path, it has twice the length of the target's.
pub(super) fn long(packets: u32, rtt: &Rtt) -> u32 {
    rtt.least() + (delay(packets, rtt) - rtt.least()) / 4 * LONG_QUARTERS
}

/// Delay beyond the least round trip that is no sign of congestion, for a high rate. A long path's
/// own delay varies by a part of the round trip.
pub(super) const fn queue_allowance(rtt: &Rtt) -> u32 {
    QUEUE_TICKS + rtt.least().saturating_sub(NEAR_TICKS) / QUEUE_PART
}
