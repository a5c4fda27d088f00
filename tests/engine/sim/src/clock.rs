// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of one node: it runs at a rate of its own, stands still, and jumps.
//!
//! In: the world's time. Out: the node's, which never runs backwards. All in nanoseconds.

/// A node's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    /// World and local time of the last change.
    world: u64,
    local: u64,
    /// Its excess rate, in millionths.
    ppm: i64,
    /// It stands still until the world reaches this.
    stalled_until: u64,
}

impl Clock {
    /// A clock that shows `local` at world time 0.
    #[must_use]
    pub const fn new(local: u64, ppm: i64) -> Self {
        Self { world: 0, local, ppm, stalled_until: 0 }
    }

    /// Its time at world time `now`.
    #[must_use]
    pub fn read(&self, now: u64) -> u64 {
        let passed = now.saturating_sub(self.world.max(self.stalled_until));
        self.local + passed.saturating_add_signed(passed as i64 / 1_000_000 * self.ppm)
    }

    /// The world time at which it shows at least `local`.
    #[must_use]
    pub fn world_time(&self, local: u64) -> u64 {
        let start = self.world.max(self.stalled_until);
        let wanted = local.saturating_sub(self.local);
        let mut passed = wanted.saturating_add_signed(-(wanted as i64 / 1_000_000 * self.ppm));
        // The rate's inverse is rounded; a few steps put that right. bound: 64
        for _ in 0..64 {
            let shown = self.read(start.saturating_add(passed));
            if shown >= local {
                break;
            }
            passed = passed.saturating_add((local - shown).max(1));
        }
        start.saturating_add(passed)
    }

    fn rebase(&mut self, now: u64) {
        self.local = self.read(now);
        self.world = now;
    }

    /// From `now` on it stands still for `duration`.
    pub fn stall(&mut self, now: u64, duration: u64) {
        self.rebase(now);
        self.stalled_until = self.stalled_until.max(now + duration);
    }

    /// At `now` it jumps ahead by `duration`.
    pub fn jump(&mut self, now: u64, duration: u64) {
        self.rebase(now);
        self.local += duration;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_jumps_and_rates_never_turn_back() {
        let mut clock = Clock::new(1000, 500);
        assert_eq!(clock.read(1_000_000), 1_001_500);
        clock.stall(1_000_000, 5_000);
        assert_eq!(clock.read(1_004_000), 1_001_500);
        assert_eq!(clock.read(1_006_000), 1_002_500);
        clock.jump(1_006_000, 1 << 40);
        let local = clock.read(1_006_000) + 777_777_777;
        let when = clock.world_time(local);
        assert!(clock.read(when) >= local && clock.read(when) - local < 2_000);
        let slow = Clock::new(0, -500);
        assert!(slow.read(slow.world_time(123_456_789)) >= 123_456_789);
    }
}
