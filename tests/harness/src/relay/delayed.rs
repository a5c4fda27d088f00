// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that are under way: a pool of equal buffers, and for each direction a queue in the order
//! of arrival. The bound is [`FRAMES_MAX`] frames of both directions together.

use std::collections::VecDeque;

/// Most frames under way.
pub(super) const FRAMES_MAX: u32 = 1 << 17;

/// The number of a buffer.
pub(super) type Slot = u32;

/// Equal buffers. The buffer that was freed last is used first, because it is in the cache.
#[derive(Debug)]
pub(super) struct Pool {
    /// Untouched pages take no memory.
    bytes: Vec<u8>,
    len: usize,
    free: Vec<Slot>,
    /// The first buffer that was never used.
    fresh: Slot,
}

impl Pool {
    /// Buffers of `len` bytes.
    pub(super) fn new(len: usize) -> Self {
        let bytes = vec![0; len * FRAMES_MAX as usize];
        Self { bytes, len, free: Vec::new(), fresh: 0 }
    }

    /// Takes a buffer; `None` if all hold frames.
    pub(super) fn alloc(&mut self) -> Option<Slot> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let slot = self.fresh;
        (slot < FRAMES_MAX).then(|| {
            self.fresh += 1;
            slot
        })
    }

    /// Returns a buffer.
    pub(super) fn release(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// The bytes of a buffer.
    pub(super) fn bytes(&mut self, slot: Slot) -> &mut [u8] {
        let start = slot as usize * self.len;
        &mut self.bytes[start..start + self.len]
    }
}

/// A frame under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DelayedFrame {
    /// The time of its arrival, in ns.
    pub(super) due: u64,
    /// Its buffer.
    pub(super) slot: Slot,
    /// Its length.
    pub(super) len: usize,
}

/// The frames of one direction. Their times ascend: [`super::line::Line`] keeps the order.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<DelayedFrame>);

impl Queue {
    /// Adds the frame that arrives last.
    pub(super) fn push(&mut self, frame: DelayedFrame) {
        self.0.push_back(frame);
    }

    /// Takes the next frame, if it has arrived by `now`.
    pub(super) fn pop_due(&mut self, now: u64) -> Option<DelayedFrame> {
        self.0.pop_front_if(|frame| frame.due <= now)
    }

    /// The time of the next arrival.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.0.front().map(|frame| frame.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_has_a_bound_and_reuses_the_last_buffer() {
        let mut pool = Pool::new(2);
        let slots: Vec<Slot> = std::iter::from_fn(|| pool.alloc()).collect();
        assert_eq!(slots.len(), FRAMES_MAX as usize);
        pool.release(7);
        pool.release(9);
        assert_eq!((pool.alloc(), pool.alloc(), pool.alloc()), (Some(9), Some(7), None));
        pool.bytes(9).fill(1);
        assert_eq!((pool.bytes(8)[1], pool.bytes(10)[0]), (0, 0));
    }

    #[test]
    fn frames_leave_when_they_are_due() {
        let mut queue = Queue::default();
        let frame = |due| DelayedFrame { due, slot: 0, len: 60 };
        queue.push(frame(10));
        queue.push(frame(20));
        assert_eq!(queue.next_due(), Some(10));
        assert_eq!(queue.pop_due(9), None);
        assert_eq!(queue.pop_due(15), Some(frame(10)));
        assert_eq!(queue.pop_due(15), None);
        assert_eq!(queue.pop_due(20), Some(frame(20)));
        assert_eq!(queue.next_due(), None);
    }
}
