// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many of the rx frames the kernel has at a time.
//!
//! It fills them in the order in which it got them, so that all that it has come to use in turn,
//! and all begin at the same place of a page: more than some 256 of them push each other out of a
//! processor's caches, however short the packets are. So where the kernel copies, it has that many
//! while they suffice, and the frames that were used last are the ones it gets next.
//!
//! In: how many frames waited at each look. Out: how many are to stay here. A card that writes into
//! frames by itself has all of them: it takes them long before it needs them. Bound: all frames.

/// Packets that the kernel has frames for at the least.
const PACKETS_MIN: usize = 256;
/// So many frames come and go without half of them having waited before the kernel gets fewer:
/// many, for a frame too few loses a packet, and one too many costs next to nothing.
const CALM_FRAMES: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Lent {
    now: usize,
    least: usize,
    all: usize,
    /// Frames that came since [`Self::now`] changed, or had to stay as it is.
    calm: usize,
}

impl Lent {
    /// The kernel has `all` frames, `pieces` of them for a packet. They stay with it if it
    /// `keeps_all`.
    pub(super) fn new(all: usize, pieces: usize, keeps_all: bool) -> Self {
        let least = if keeps_all { all } else { all.min(PACKETS_MIN * pieces) };
        Self { now: least, least, all, calm: 0 }
    }

    /// A look found so many frames waiting, which the kernel had to do without.
    #[inline]
    pub(super) fn found(&mut self, frames: usize) {
        self.calm += frames;
        if frames >= self.now / 2 {
            (self.now, self.calm) = ((2 * self.now).min(self.all), 0);
        } else if self.calm >= CALM_FRAMES {
            (self.now, self.calm) = ((self.now / 2).max(self.least), 0);
        }
    }

    /// How many stay here.
    #[inline]
    pub(super) const fn kept(&self) -> usize {
        self.all - self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gets_more_before_it_runs_short_and_fewer_when_it_is_calm() {
        let mut lent = Lent::new(2048, 1, false);
        assert_eq!(lent.kept(), 2048 - 256);
        lent.found(127);
        assert_eq!(lent.kept(), 2048 - 256);
        for kept in [2048 - 512, 1024, 0, 0] {
            lent.found((2048 - lent.kept()) / 2);
            assert_eq!(lent.kept(), kept);
        }
        for kept in [1024, 2048 - 512, 2048 - 256, 2048 - 256] {
            (0..CALM_FRAMES).for_each(|_| lent.found(1));
            assert_eq!(lent.kept(), kept);
        }
    }

    #[test]
    fn a_card_keeps_all_and_so_does_a_small_ring() {
        for mut lent in
            [Lent::new(2048, 1, true), Lent::new(64, 1, false), Lent::new(512, 3, false)]
        {
            assert_eq!(lent.kept(), 0);
            (0..2 * CALM_FRAMES).for_each(|_| lent.found(1));
            lent.found(lent.all);
            assert_eq!(lent.kept(), 0);
        }
    }
}
