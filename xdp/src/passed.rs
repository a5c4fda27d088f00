// SPDX-License-Identifier: MIT OR Apache-2.0
//! Word from the XDP program that it has left packets of ours to the kernel socket.
//!
//! Trains come that way, and asking the socket is a system call; this is a load from a line of the
//! cache that is written only when there is something. The program counts a packet before the
//! kernel socket has it, so who is told asks until it is there. In: the endpoint's claim. Out:
//! whether anything is new. `port.rs` asks in every call. Not told is what the program cannot see
//! or recognise (other interfaces, fragments): for that the socket is looked at now and then anyway
//! (`glance.rs`). Bound: one page.

use std::io;
use std::sync::atomic::Ordering;

use ofi_xdp_bpf::Claim;

use crate::mapping::Mapping;

/// See the module.
#[derive(Debug)]
pub(crate) struct Passed {
    map: Mapping,
    /// Where in it our word is.
    at: usize,
    /// What it said last.
    seen: u64,
}

impl Passed {
    /// Maps the word of `claim`.
    ///
    /// # Errors
    /// What `mmap(2)` fails with.
    pub(crate) fn map(claim: &Claim) -> io::Result<Self> {
        let (map, at) = claim.passed_word();
        let map = Mapping::new(map, 0, at + size_of::<u64>())?;
        let mut passed = Self { map, at, seen: 0 };
        // Packets of former owners of the slot.
        passed.has_news();
        Ok(passed)
    }

    /// Whether packets were left to the kernel socket since the last call.
    #[inline]
    pub(crate) fn has_news(&mut self) -> bool {
        // It is a hint, so no order is needed between it and what the socket has.
        let Some(word) = self.map.word(self.at) else { return false };
        let seen = std::mem::replace(&mut self.seen, word.load(Ordering::Relaxed));
        seen != self.seen
    }
}
