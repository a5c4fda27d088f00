// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fill level: the number of rx frames that the kernel has at a time.
//!
//! The kernel fills frames in the order in which it got them, so all its frames come into use in
//! turn. All begin at the same offset of a page. So more than some 256 of them evict each other
//! from a processor's caches, even for short packets. Therefore the kernel has that many frames
//! where it copies, while they suffice, and gets the last used frames first. A device that writes
//! into frames itself has all of them, because it takes them long before it needs them.
//!
//! In: the number of frames that each receive found. Out: the number of frames to keep back.
//! Caller: the `AF_XDP` port. Bound: all frames.

/// Minimum fill level, in packets.
const PACKETS_MIN: usize = 256;
/// Number of frames received without a burst before the fill level is halved. It is high because
/// one frame too few loses a packet, and one too many costs almost nothing.
const STABLE_FRAMES: usize = 1 << 20;

/// The fill level and its limits.
#[derive(Debug)]
pub(super) struct FillLevel {
    now: usize,
    least: usize,
    all: usize,
    /// Frames received since [`Self::now`] changed or was needed in full.
    stable_frames: usize,
}

impl FillLevel {
    /// A fill level for `all` frames, `fragments` of them for a packet. With `keeps_all` the kernel
    /// has all frames at all times.
    pub(super) fn new(all: usize, fragments: usize, keeps_all: bool) -> Self {
        let least = if keeps_all { all } else { all.min(PACKETS_MIN * fragments) };
        Self { now: least, least, all, stable_frames: 0 }
    }

    /// Records that a receive found `frames` frames, which the kernel did without meanwhile.
    #[inline]
    pub(super) fn record_received(&mut self, frames: usize) {
        self.stable_frames += frames;
        if frames >= self.now / 2 {
            (self.now, self.stable_frames) = ((2 * self.now).min(self.all), 0);
        } else if self.stable_frames >= STABLE_FRAMES {
            (self.now, self.stable_frames) = ((self.now / 2).max(self.least), 0);
        }
    }

    /// Number of frames to keep back.
    #[inline]
    pub(super) const fn reserve(&self) -> usize {
        self.all - self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fill_level_rises_before_the_kernel_runs_short_and_falls_when_traffic_is_even() {
        let mut fill_level = FillLevel::new(2048, 1, false);
        assert_eq!(fill_level.reserve(), 2048 - 256);
        fill_level.record_received(127);
        assert_eq!(fill_level.reserve(), 2048 - 256);
        for reserve in [2048 - 512, 1024, 0, 0] {
            fill_level.record_received((2048 - fill_level.reserve()) / 2);
            assert_eq!(fill_level.reserve(), reserve);
        }
        for reserve in [1024, 2048 - 512, 2048 - 256, 2048 - 256] {
            (0..STABLE_FRAMES).for_each(|_| fill_level.record_received(1));
            assert_eq!(fill_level.reserve(), reserve);
        }
    }

    #[test]
    fn a_card_keeps_all_and_so_does_a_small_ring() {
        for mut fill_level in [
            FillLevel::new(2048, 1, true),
            FillLevel::new(64, 1, false),
            FillLevel::new(512, 3, false),
        ] {
            assert_eq!(fill_level.reserve(), 0);
            (0..2 * STABLE_FRAMES).for_each(|_| fill_level.record_received(1));
            fill_level.record_received(fill_level.all);
            assert_eq!(fill_level.reserve(), 0);
        }
    }
}
