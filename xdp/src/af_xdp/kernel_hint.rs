// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hint from the XDP program: it has left packets of this endpoint to the kernel socket.
//!
//! GSO batches take that path, and a poll of the socket is a system call. The hint is a load from a
//! cache line that is written only for such a packet. The program counts a packet before it reaches
//! the kernel socket, so the port polls until the packet is there. The program does not count
//! packets that it cannot see or recognise (other interfaces, fragments); for them the socket is
//! polled by its back-off (`poll_backoff.rs`).
//!
//! In: the endpoint's claim. Out: whether the count has changed, and how many of the packets came
//! by another queue. Caller: the hybrid port, in each call. Bound: one page.

use std::io;
use std::sync::atomic::Ordering;

use ofi_xdp_bpf::Claim;

use crate::xsk::mapping::Mapping;

/// The mapped count of one slot.
#[derive(Debug)]
pub(crate) struct KernelRxHint {
    map: Mapping,
    /// Offset of the count in the map.
    at: usize,
    /// The count at the last call.
    seen: u64,
    /// The count of packets of other queues at the last call.
    other_queue: u64,
}

impl KernelRxHint {
    /// Maps the count of `claim`.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub(crate) fn map(claim: &Claim) -> io::Result<Self> {
        let (map, at) = claim.kernel_rx_counter();
        let map = Mapping::new(map, 0, at + 2 * size_of::<u64>())?;
        let mut kernel_rx_hint = Self { map, at, seen: 0, other_queue: 0 };
        // Skips the packets of former owners of the slot.
        kernel_rx_hint.changed();
        kernel_rx_hint.take_other_queue();
        Ok(kernel_rx_hint)
    }

    /// Whether packets were left to the kernel socket since the last call.
    #[inline]
    pub(crate) fn changed(&mut self) -> bool {
        // A hint needs no order between the count and the packets in the socket.
        let Some(counter) = self.map.counter(self.at) else { return false };
        let seen = std::mem::replace(&mut self.seen, counter.load(Ordering::Relaxed));
        seen != self.seen
    }

    /// Whether [`Self::changed`] would return true.
    #[inline]
    pub(crate) fn has_changed(&self) -> bool {
        let counter = self.map.counter(self.at);
        counter.is_some_and(|counter| counter.load(Ordering::Relaxed) != self.seen)
    }

    /// The count at the last call of [`Self::changed`], of this endpoint and former owners.
    pub(crate) const fn count(&self) -> u64 {
        self.seen
    }

    /// How many packets arrived by other queues than the socket's since the last call.
    pub(crate) fn take_other_queue(&mut self) -> u64 {
        let Some(counter) = self.map.counter(self.at + size_of::<u64>()) else { return 0 };
        let before = std::mem::replace(&mut self.other_queue, counter.load(Ordering::Relaxed));
        self.other_queue.wrapping_sub(before)
    }
}
