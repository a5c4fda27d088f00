// SPDX-License-Identifier: MIT OR Apache-2.0
//! The neighbours on one interface that are next hops of peers.
//!
//! In: the IP addresses of next hops, and the kernel's notifications. Out: an index for each
//! address, and the [`Neighbour`] with that index. Caller: the route table. Bound: the room of
//! [`Neighbours::with_room`]; a table without room is cleared.

use std::collections::{HashMap, TryReserveError};
use std::net::IpAddr;

use netlink_packet_route::neighbour::NeighbourMessage;

use super::lookup::{Neighbour, announced, ask_neighbour, neighbour};
use crate::host::netlink::Netlink;

/// In place of a neighbour's index: the packet takes the kernel's path.
pub(super) const KERNEL: u32 = u32::MAX;

/// Neighbours by index, and the index by address.
#[derive(Debug)]
pub(super) struct Neighbours {
    interface: u32,
    known: Vec<Neighbour>,
    index: HashMap<IpAddr, u32>,
}

impl Neighbours {
    /// An empty table for `count` neighbours on `interface`.
    pub(super) fn with_room(interface: u32, count: usize) -> Result<Self, TryReserveError> {
        let (mut known, mut index) = (Vec::new(), HashMap::new());
        known.try_reserve_exact(count)?;
        index.try_reserve(count)?;
        Ok(Self { interface, known, index })
    }

    /// The neighbour with an index that [`Self::find`] returned.
    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Neighbour> {
        self.known.get_mut(at as usize)
    }

    /// Whether `ip` is new, and the table is full of neighbours of former peers.
    pub(super) fn lacks_room(&self, ip: IpAddr) -> bool {
        self.known.len() == self.known.capacity() && !self.index.contains_key(&ip)
    }

    /// The index of neighbour `ip`, which is looked up if it is new.
    pub(super) fn find(&mut self, netlink: &mut Netlink, ip: IpAddr) -> u32 {
        if let Some(index) = self.index.get(&ip) {
            return *index;
        }
        let found = ask_neighbour(netlink, self.interface, ip).unwrap_or_else(|error| {
            log::debug!("neighbour {ip} could not be asked for: {error}");
            Neighbour::UNKNOWN
        });
        self.insert(ip, found)
    }

    /// Adds a neighbour. Returns its index.
    pub(super) fn insert(&mut self, ip: IpAddr, neighbour: Neighbour) -> u32 {
        let index = u32::try_from(self.known.len()).unwrap_or(KERNEL);
        self.known.push(neighbour);
        self.index.insert(ip, index);
        index
    }

    /// Applies the notification of a neighbour's change.
    pub(super) fn change(&mut self, message: &NeighbourMessage, gone: bool) {
        if message.header.ifindex != self.interface {
            return;
        }
        if let Some(at) = announced(message).and_then(|ip| self.index.get(&ip))
            && let Some(known) = self.known.get_mut(*at as usize)
        {
            *known = if gone { Neighbour::UNKNOWN } else { neighbour(message) };
        }
    }

    /// Removes all neighbours.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.index.clear();
    }

    /// Whether there is no neighbour.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.index.is_empty()
    }
}
