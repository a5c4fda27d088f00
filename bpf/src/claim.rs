// SPDX-License-Identifier: MIT OR Apache-2.0
//! One endpoint's share of the program: a UDP port, and a slot for each socket.
//!
//! In: a queue, an address and a bound AF_XDP socket; further sockets on other queues. Out: a
//! [`Claim`]; while it lives, the program redirects packets to the sockets. Callers: `redirect.rs`,
//! and the AF_XDP port for further sockets. Bounds: one pass over the [`SLOTS`] slots and one over
//! the ports for each socket.

use std::os::fd::BorrowedFd;

use libbpf_rs::MapFlags;

use crate::error::Error;
use crate::layout::{EndpointAddress, PortEntry, SLOTS};
use crate::maps::Maps;

/// A claimed port. Dropping it ends the redirection. Drop it before the socket closes; otherwise
/// the program redirects packets to a socket without a reader. The kernel frees the slot when the
/// socket closes.
#[derive(Debug)]
pub struct Claim {
    maps: Maps,
    port: u16,
    entry: PortEntry,
}

impl Claim {
    /// Claims a slot for `socket`, then the UDP port of `endpoint`. The socket is bound to `queue`
    /// and takes IP packets of at most `longest` bytes.
    pub(crate) fn new(
        maps: Maps,
        queue: u32,
        endpoint: EndpointAddress,
        longest: u32,
        socket: BorrowedFd<'_>,
    ) -> Result<Self, Error> {
        let slot = take_any_slot(&maps, socket)?;
        let port = endpoint.address.port();
        let entry = PortEntry::new(queue, slot, endpoint, longest);
        let claimed = delete_stale(&maps, slot).and_then(|()| insert(&maps, port, entry, socket));
        if let Err(error) = claimed {
            // The slot has been ours throughout, so emptying it affects no other socket. If
            // emptying fails, the kernel empties the slot when the socket closes.
            let _ = maps.empty_slot(slot);
            return Err(error);
        }
        Ok(Self { maps, port, entry })
    }

    /// Claims a slot for a further socket of the endpoint, which is bound to `queue`: packets that
    /// arrive there go to it. It takes packets as long as those of the first one. Close it after
    /// the claim has ended.
    ///
    /// # Errors
    /// [`Error::NoSlot`], [`Error::NoQueue`], [`Error::Permission`], [`Error::Os`].
    pub fn add(&mut self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Error> {
        let slot = take_any_slot(&self.maps, socket)?;
        let added = self.entry.with(queue, slot).ok_or(Error::NoQueue { queue });
        let added = added.and_then(|entry| {
            delete_stale(&self.maps, slot)?;
            self.maps.set_port(self.port, entry, MapFlags::EXIST)?;
            self.entry = entry;
            Ok(())
        });
        if added.is_err() {
            // As in `new`: the kernel empties the slot when the socket closes.
            let _ = self.maps.empty_slot(slot);
        }
        added
    }

    /// The slot of the first socket.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        self.entry.slot
    }

    /// Whether the program's entry for the port is still ours. Another endpoint that deletes stale
    /// entries may have deleted it, or an administrator. One system call.
    ///
    /// # Errors
    /// [`Error::Permission`] and [`Error::Os`].
    pub fn is_valid(&self) -> Result<bool, Error> {
        Ok(self.maps.port(self.port)? == Some(self.entry))
    }

    /// Packets that the program has left to the kernel socket, for this slot and all its former
    /// owners. One system call.
    ///
    /// # Errors
    /// [`Error::Permission`] and [`Error::Os`].
    pub fn passed(&self) -> Result<u64, Error> {
        self.maps.passed(self.entry.slot)
    }

    /// The location of the count of [`Self::passed`] in memory that may be mapped for reading: a
    /// descriptor and an offset in bytes. The count has 64 bits in the machine's byte order. The
    /// program increments it before the packet reaches the socket. The memory has the counts of all
    /// endpoints of the interface, and no process can write it.
    #[must_use]
    pub fn kernel_rx_counter(&self) -> (BorrowedFd<'_>, usize) {
        self.maps.kernel_rx_counter(self.entry.slot)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // An entry that is no longer ours belongs to the endpoint that replaced it.
        if self.is_valid().is_ok_and(|valid| valid)
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

/// Deletes the port entries that a dead owner of `slot` has left; the slot is ours now. No `bpf(2)`
/// command deletes an entry on condition of its value. Therefore an endpoint that claims such a
/// port at the same moment may lose its entry, and finds out by [`Claim::is_valid`].
fn delete_stale(maps: &Maps, slot: u32) -> Result<(), Error> {
    for port in maps.ports() {
        if maps.port(port)?.is_some_and(|entry| entry.has(slot)) {
            maps.delete_port(port)?;
        }
    }
    Ok(())
}

/// Enters `port`. An existing entry is replaced if its owner must be dead. Then its slot is empty,
/// or it is for our own address: the kernel socket on this port is ours.
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
