// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time by the processor's cycle counter: a third of what the kernel's clock costs.
//!
//! In: the counter, and the kernel's clock in an [`Anchor`] from time to time. Out: the time of
//! that clock. It is wrong by half of what a reading of the two takes, tens of nanoseconds, and by
//! the change of the clock's rate over [`AGE_MAX`] cycles: 50 ns while NTP slews it by 500 ppm.
//! Caller: `clock.rs`. Bound: one anchor for the process, [`ATTEMPTS_MAX`] attempts to set it.
//!
//! The kernel's choice of the counter as its clock source says that the counters of all processors
//! agree and never stop (Documentation/timers/timekeeping.rst). With another clock source, and on
//! other architectures, there is no time here. A counter that jumps, as after the suspension or the
//! migration of a virtual machine, makes the anchor too old, and its rate is measured anew.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

/// Age of an anchor, in cycles, up to which it tells the time: about 100 µs.
const AGE_MAX: u64 = 1 << 18;
/// Time over which the rate is measured, in nanoseconds (10 ms).
const RATE_NANOS: u64 = 10_000_000;
/// Two rates in a row differ by one in this many, or the counter has jumped.
const RATE_CHANGE: u64 = 1 << 10;
/// The most cycles around a reading of the kernel's clock that pairs the two.
const READING_MAX: u64 = 1 << 11;
/// A reading that takes this many times as long as the shortest one was interrupted. The counter
/// does not follow the processor's frequency, so readings differ.
const INTERRUPTED: u64 = 8;
/// Attempts to read the kernel's clock without an interruption.
const ATTEMPTS_MAX: u32 = 3;
/// Calls in a row without such a reading after which the counter is given up: the kernel's clock
/// has become another one.
const MISSES_MAX: u32 = 64;
/// Time between two questions for the kernel's clock source, in nanoseconds (10 s): it gives the
/// counter up where counters of processors go apart.
const ASK_NANOS: u64 = 10_000_000_000;

/// The cycles of the shortest reading.
static SHORTEST: AtomicU64 = AtomicU64::new(READING_MAX);
/// Calls without a reading that pairs the clocks, in a row.
static MISSES: AtomicU32 = AtomicU32::new(0);
/// The time of the last question for the clock source.
static ASKED_AT: AtomicU64 = AtomicU64::new(0);
/// Whether the counter can be used: not known yet, no, yes.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const UNUSABLE: u8 = 1;
const USABLE: u8 = 2;

/// The anchor of the process.
static ANCHOR: Anchor = Anchor::new();

/// The present time in nanoseconds. `kernel_clock` is read where the counter does not tell it.
#[inline]
pub(crate) fn nanos(kernel_clock: impl Fn() -> u64) -> u64 {
    if STATE.load(Ordering::Relaxed) == USABLE
        && let Some(nanos) = ANCHOR.nanos(cycles())
    {
        return nanos;
    }
    set_anchor(&kernel_clock)
}

/// Reads the kernel's clock, and sets the anchor to it.
#[cold]
#[inline(never)]
fn set_anchor(kernel_clock: &dyn Fn() -> u64) -> u64 {
    let state = STATE.load(Ordering::Relaxed);
    if state == UNUSABLE {
        return kernel_clock();
    }
    let mut nanos = 0;
    for _ in 0..ATTEMPTS_MAX {
        let before = cycles();
        nanos = kernel_clock();
        let took = cycles().wrapping_sub(before);
        let shortest = SHORTEST.fetch_min(took, Ordering::Relaxed).min(took);
        if took <= READING_MAX.min(INTERRUPTED * shortest) {
            MISSES.store(0, Ordering::Relaxed);
            ANCHOR.set(before.wrapping_add(took / 2), nanos);
            break;
        }
    }
    let misses = MISSES.fetch_add(1, Ordering::Relaxed);
    let asks = nanos.saturating_sub(ASKED_AT.load(Ordering::Relaxed)) >= ASK_NANOS;
    if state == UNKNOWN || asks || misses >= MISSES_MAX {
        ASKED_AT.store(nanos, Ordering::Relaxed);
        let is_usable = misses < MISSES_MAX && is_usable();
        STATE.store(if is_usable { USABLE } else { UNUSABLE }, Ordering::Relaxed);
    }
    nanos
}

/// Whether the counter is the kernel's clock source.
fn is_usable() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let is_its = || std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc");
    cfg!(target_arch = "x86_64") && is_its()
}

/// The cycle counter.
#[cfg(target_arch = "x86_64")]
#[inline]
fn cycles() -> u64 {
    // SAFETY: each x86-64 processor has the instruction, which touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// There is none.
#[cfg(not(target_arch = "x86_64"))]
const fn cycles() -> u64 {
    0
}

/// A time of both clocks, and the rate between them. A sequence lock: readers repeat nothing, and
/// take the kernel's clock while it changes.
#[derive(Debug)]
#[repr(align(64))]
struct Anchor {
    /// Odd while it changes.
    version: AtomicU32,
    cycles: AtomicU64,
    nanos: AtomicU64,
    /// Nanoseconds for 2^32 cycles; 0 until it is known.
    rate: AtomicU64,
    /// The time of both clocks from which the rate is measured.
    from_cycles: AtomicU64,
    from_nanos: AtomicU64,
}

impl Anchor {
    const fn new() -> Self {
        Self {
            version: AtomicU32::new(0),
            cycles: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            from_cycles: AtomicU64::new(0),
            from_nanos: AtomicU64::new(0),
        }
    }

    /// The time at `cycles`, unless the anchor is too old, behind it, or changes.
    #[inline]
    fn nanos(&self, cycles: u64) -> Option<u64> {
        let version = self.version.load(Ordering::Acquire);
        let age = cycles.wrapping_sub(self.cycles.load(Ordering::Relaxed));
        let nanos = self.nanos.load(Ordering::Relaxed);
        let rate = self.rate.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_whole = version & 1 == 0 && self.version.load(Ordering::Relaxed) == version;
        if !is_whole || age > AGE_MAX || rate == 0 {
            return None;
        }
        Some(nanos + ((age * rate) >> 32))
    }

    /// Sets the anchor to one time of both clocks, unless another thread does.
    fn set(&self, cycles: u64, nanos: u64) {
        let version = self.version.load(Ordering::Relaxed);
        let (idle, busy) = (version & !1, version | 1);
        let exchange = (Ordering::Acquire, Ordering::Relaxed);
        if self.version.compare_exchange(idle, busy, exchange.0, exchange.1).is_err() {
            return;
        }
        fence(Ordering::Release);
        let present = self.rate.load(Ordering::Relaxed);
        let from =
            (self.from_cycles.load(Ordering::Relaxed), self.from_nanos.load(Ordering::Relaxed));
        if let Some(rate) = rate(from, (cycles, nanos), present) {
            self.rate.store(rate, Ordering::Relaxed);
            self.from_cycles.store(cycles, Ordering::Relaxed);
            self.from_nanos.store(nanos, Ordering::Relaxed);
        }
        self.cycles.store(cycles, Ordering::Relaxed);
        self.nanos.store(nanos, Ordering::Relaxed);
        self.version.store(idle.wrapping_add(2), Ordering::Release);
    }
}

/// The rate between two times of both clocks, where `present` is the one so far; 0 if it is unknown
/// from now on. `None` while they are too near.
fn rate(from: (u64, u64), to: (u64, u64), present: u64) -> Option<u64> {
    if from.1 == 0 || to.1 < from.1 {
        return Some(0);
    }
    let nanos = to.1 - from.1;
    if nanos < RATE_NANOS {
        return None;
    }
    let cycles = to.0.wrapping_sub(from.0);
    let rate = (u128::from(nanos) << 32).checked_div(u128::from(cycles))?;
    // A counter below 4 MHz has none. So the product of age and rate fits.
    let rate = u64::try_from(rate).ok().filter(|rate| *rate >> 40 == 0).unwrap_or(0);
    let has_jumped = present > 0 && rate.abs_diff(present) > present / RATE_CHANGE;
    Some(if has_jumped { 0 } else { rate })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of 2.5 GHz.
    const NANOS_PER_CYCLE: f64 = 0.4;

    /// The cycles at a time of the kernel's clock.
    fn at(nanos: u64) -> u64 {
        (nanos as f64 / NANOS_PER_CYCLE) as u64 + (1 << 60)
    }

    /// An anchor with a measured rate, and its time.
    fn anchored() -> (Anchor, u64) {
        let anchor = Anchor::new();
        let start = 77_000_000_000;
        anchor.set(at(start), start);
        assert_eq!(anchor.nanos(at(start)), None, "the rate is unknown");
        let next = start + RATE_NANOS;
        anchor.set(at(next), next);
        (anchor, next)
    }

    #[test]
    fn time_goes_on_at_the_measured_rate_until_the_anchor_is_old() {
        let (anchor, time) = anchored();
        for after in [0, 1, 1000, 50_000, 100_000] {
            let read = anchor.nanos(at(time + after)).unwrap();
            assert!(read.abs_diff(time + after) <= 1, "{after}: {read}");
        }
        assert_eq!(anchor.nanos(at(time) + AGE_MAX + 1), None);
        assert_eq!(anchor.nanos(at(time) - 1), None, "the counter has jumped back");
    }

    #[test]
    fn a_counter_that_jumps_has_no_rate_until_it_is_measured_anew() {
        let (anchor, time) = anchored();
        for jump in [1 << 40, 1_u64.wrapping_neg() << 40] {
            let (later, much_later) = (time + 2 * RATE_NANOS, time + 4 * RATE_NANOS);
            let moved = |nanos| at(nanos).wrapping_add(jump);
            anchor.set(moved(later), later);
            assert_eq!(anchor.nanos(moved(later)), None);
            anchor.set(moved(much_later), much_later);
            assert_eq!(anchor.nanos(moved(much_later)), Some(much_later));
        }
    }

    #[test]
    fn an_anchor_that_changes_tells_no_time() {
        let (anchor, time) = anchored();
        anchor.version.fetch_add(1, Ordering::Relaxed);
        assert_eq!(anchor.nanos(at(time)), None);
        anchor.set(at(time + 1), time + 1);
        assert_eq!(anchor.nanos.load(Ordering::Relaxed), time, "another thread sets it");
    }

    #[test]
    fn a_clock_that_goes_back_starts_anew() {
        assert_eq!(rate((5, 10), (6, 9), 1), Some(0));
        assert_eq!(rate((5, 10), (5, 10 + RATE_NANOS), 1), None, "no cycle has passed");
        assert_eq!(rate((0, 0), (5, 10), 0), Some(0), "the first one");
    }

    /// In a process of its own, as each test has one (nextest).
    #[test]
    fn a_clock_that_takes_long_is_read_once_a_call() {
        use std::cell::Cell;
        let readings = Cell::new(0);
        let slow = || {
            readings.set(readings.get() + 1);
            std::thread::sleep(std::time::Duration::from_micros(10));
            readings.get()
        };
        for _ in 0..=MISSES_MAX + 1 {
            set_anchor(&slow);
        }
        let before = readings.get();
        assert_eq!((set_anchor(&slow), STATE.load(Ordering::Relaxed)), (before + 1, UNUSABLE));
    }

    #[test]
    fn the_counter_agrees_with_the_kernels_clock() {
        use rustix::time::{ClockId, clock_gettime};
        #[expect(clippy::disallowed_methods, reason = "the clock to compare with")]
        let kernel_clock = || {
            let time = clock_gettime(ClockId::Monotonic);
            time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
        };
        let start = kernel_clock();
        let mut by_counter = 0;
        // bound: the time
        while kernel_clock() < start + 8 * RATE_NANOS {
            let before = kernel_clock();
            let read = nanos(kernel_clock);
            let after = kernel_clock();
            // Of half a reading and of the rate; a cycle is no longer than a nanosecond.
            let slack = READING_MAX + AGE_MAX / 1000;
            assert!(before <= read + slack && read <= after + slack, "{before} {read} {after}");
            by_counter += u32::from(ANCHOR.nanos(cycles()).is_some());
        }
        assert_eq!(by_counter > 0, STATE.load(Ordering::Relaxed) == USABLE);
    }
}
