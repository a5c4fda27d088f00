// SPDX-License-Identifier: MIT OR Apache-2.0
//! One endpoint's share of the program: a socket slot and a UDP port.
//!
//! A queue, an address and a bound AF_XDP socket come in; while the [`Claim`] that goes out lives,
//! the program redirects to the socket. Bounds: one pass over the [`SLOTS`] slots and one over the
//! ports.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use libbpf_rs::MapFlags;

use crate::error::Error;
use crate::maps::{Maps, PortEntry, SLOTS};

/// A claimed port. Dropping it stops the redirection; drop it before the socket closes, so that no
/// packet is redirected to a socket that nobody reads. The slot is given back by the kernel when
/// the socket closes.
#[derive(Debug)]
pub struct Claim {
    maps: Maps,
    port: u16,
    entry: PortEntry,
}

impl Claim {
    /// Claims a slot for `socket`, which is bound to `queue` and takes IP packets of at most
    /// `longest` bytes, and then the UDP port of `address` for it.
    pub(crate) fn new(
        maps: Maps,
        queue: u32,
        address: SocketAddr,
        longest: u32,
        socket: BorrowedFd<'_>,
    ) -> Result<Self, Error> {
        let slot = take_any_slot(&maps, socket)?;
        let port = address.port();
        let entry = PortEntry::new(queue, slot, address, longest);
        let claimed = delete_stale(&maps, slot).and_then(|()| insert(&maps, port, entry, socket));
        if let Err(error) = claimed {
            // The slot was ours alone all along, so emptying it takes it from nobody. If even that
            // fails, the kernel does it when the socket closes.
            let _ = maps.empty_slot(slot);
            return Err(error);
        }
        Ok(Self { maps, port, entry })
    }

    /// The slot that the socket has.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        self.entry.slot
    }

    /// Whether the program's entry for the port is still ours: who cleans up after a dead endpoint
    /// may have taken it for that one's, and an administrator may delete anything. One system call.
    ///
    /// # Errors
    /// [`Error::Permission`] and [`Error::Os`].
    pub fn stands(&self) -> Result<bool, Error> {
        Ok(self.maps.port(self.port)? == Some(self.entry))
    }

    /// How many packets for the endpoint the program has left to its kernel socket since the slot
    /// exists, for former owners, too. One system call.
    ///
    /// # Errors
    /// [`Error::Permission`] and [`Error::Os`].
    pub fn passed(&self) -> Result<u64, Error> {
        self.maps.passed(self.entry.slot)
    }

    /// Where the same number stands in memory that may be mapped, 64 bits in the machine's byte
    /// order: the descriptor, and the byte. The program adds to it before the packet is at the
    /// socket.
    #[must_use]
    pub fn passed_word(&self) -> (BorrowedFd<'_>, usize) {
        self.maps.passed_word(self.entry.slot)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // An entry that is not ours any more belongs to whoever replaced it.
        if self.stands().is_ok_and(|stands| stands)
            && let Err(error) = self.maps.delete_port(self.port)
        {
            log::warn!("the XDP program keeps an entry for UDP port {}: {error}", self.port);
        }
    }
}

/// Puts `socket` into the first empty slot. Atomic between processes: the kernel refuses a second
/// owner.
fn take_any_slot(maps: &Maps, socket: BorrowedFd<'_>) -> Result<u32, Error> {
    for slot in 0..SLOTS {
        if maps.take_slot(slot, socket)? {
            return Ok(slot);
        }
    }
    Err(Error::NoSlot)
}

/// Deletes what a dead owner of `slot`, which is now ours, left in the port map. Another endpoint
/// may claim such a port between look and deletion, and loses its entry then; no `bpf(2)` command
/// deletes an entry of a known value only. Its owner sees that by [`Claim::stands`].
fn delete_stale(maps: &Maps, slot: u32) -> Result<(), Error> {
    for port in maps.ports() {
        if maps.port(port)?.is_some_and(|entry| entry.slot == slot) {
            maps.delete_port(port)?;
        }
    }
    Ok(())
}

/// Enters `port`. An entry that is in the way goes if its owner must be dead: either it is for our
/// own address, whose kernel socket on this port is ours, or its slot is empty.
fn insert(maps: &Maps, port: u16, entry: PortEntry, socket: BorrowedFd<'_>) -> Result<(), Error> {
    if maps.set_port(port, entry, MapFlags::NO_EXIST)? {
        return Ok(());
    }
    if let Some(other) = maps.port(port)?
        && other.address != entry.address
    {
        if other.slot >= SLOTS || !maps.take_slot(other.slot, socket)? {
            return Err(Error::PortClaimed { port, address: other.ip() });
        }
        maps.empty_slot(other.slot)?;
    }
    maps.set_port(port, entry, MapFlags::ANY).map(|_| ())
}
