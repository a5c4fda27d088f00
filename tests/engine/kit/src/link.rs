// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link on virtual time: packets in flight, in the order of their arrival.
//!
//! In: packets, and their times of arrival in nanoseconds. Out: the queue of each node at a time.
//! Faults of the link are the caller's choice of times and packets.

use std::collections::{BTreeMap, VecDeque};

use crate::packet::{Packet, PacketId, PacketPool};

/// Packets in flight.
#[derive(Debug, Default)]
pub struct Link {
    /// All packets.
    pub packets: PacketPool,
    /// By time of arrival, and in the order of their departure.
    in_flight: BTreeMap<(u64, u64), PacketId>,
    departed: u64,
}

impl Link {
    /// Lets a packet arrive at `at`.
    pub fn depart(&mut self, at: u64, id: PacketId) {
        self.departed += 1;
        self.in_flight.insert((at, self.departed), id);
    }

    /// Lets a packet of the caller's making arrive at `at`.
    pub fn inject(&mut self, at: u64, packet: Packet) {
        let id = self.packets.alloc();
        *self.packets.at(id) = packet;
        self.depart(at, id);
    }

    /// The time of the next arrival.
    #[must_use]
    pub fn next_arrival(&self) -> Option<u64> {
        self.in_flight.first_key_value().map(|((at, _), _)| *at)
    }

    /// Moves the packets that have reached `node` by `now` into its queue.
    pub fn arrive(&mut self, now: u64, node: u32, inbox: &mut VecDeque<PacketId>) {
        let packets = &mut self.packets;
        let mine =
            self.in_flight.extract_if(..=(now, u64::MAX), |_, id| packets.at(*id).to == node);
        inbox.extend(mine.map(|(_, id)| id));
    }
}
