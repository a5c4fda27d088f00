// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hint from the XDP program: it has left packets of this endpoint to the kernel socket.
//!
//! GSO batches take that path, and a poll of the socket is a system call. The hint is a load from a
//! cache line that is written only for such a packet. The program counts a packet before it reaches
//! the kernel socket, so the port polls until the packet is there. The program does not count
//! packets that it cannot see or recognise (other interfaces, fragments); for them the socket is
//! polled by its back-off (`poll_backoff.rs`).
//!
//! In: the location of the endpoint's count. Out: whether the count has changed, and how many of
//! the packets came by another queue. Caller: the hybrid port, in each call. Bound: one page.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

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
    /// Maps the count at byte `at` of `map`; [`Claim::kernel_rx_counter`] tells both.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    ///
    /// [`Claim::kernel_rx_counter`]: ofi_xdp_bpf::Claim::kernel_rx_counter
    pub(crate) fn map((map, at): (BorrowedFd<'_>, usize)) -> io::Result<Self> {
        let map = Mapping::read_only(map, at + 2 * size_of::<u64>())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    use ofi_xdp_bpf::EndpointAddress;
    use ofi_xdp_bpf::program::Loaded;
    use rustix::io::Errno;
    use socket2::{Domain, Socket, Type};

    #[test]
    fn root_a_holder_of_the_map_can_only_read_it() {
        let skip = std::env::var("OFI_XDP_UNPRIVILEGED").is_ok_and(|value| value == "skip");
        if skip && !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: needs CAP_BPF and CAP_NET_ADMIN");
            return;
        }
        let loaded = Loaded::new().unwrap();
        let address = "198.18.0.2:7000".parse().unwrap();
        let endpoint =
            EndpointAddress { address, broadcast: None, mac: [0; 6], any_payload: false };
        let domain = Domain::from(nix::libc::AF_XDP);
        let socket = Socket::new(domain, Type::RAW, None).unwrap();
        let claim = loaded.claim(0, endpoint, 1500, socket.as_fd()).unwrap();
        let (map, at) = claim.kernel_rx_counter();
        let written = Mapping::new(map, 0, at + 8).unwrap_err();
        assert_eq!(Errno::from_io_error(&written), Some(Errno::PERM));
        let mut hint = KernelRxHint::map((map, at)).unwrap();
        assert!(!hint.changed());
        assert_eq!((hint.count(), hint.take_other_queue()), (0, 0));
        assert!(KernelRxHint::map((map, 1 << 20)).is_err(), "beyond the map");
    }
}
