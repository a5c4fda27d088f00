// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares of hosts (`docs/PROTOCOL.md` §9.1): how many slots of a pool the peers at one IP address
//! have together.
//!
//! In: slots as they are taken and given back. Out: whether the host of an unnamed peer may have
//! another one. Callers: the owners of the pools. Bound: all operations are O(1).
//!
//! Counts are kept by two hashes of the address. The smaller count is used: it is never too small,
//! and too large only if other hosts share both places. The hashes are secret, so that hosts cannot
//! choose their places.

use super::address::PeerAddress;
use crate::collections::secret::sip_hash;

/// Places for counts by each hash.
const PLACES: usize = 256;

/// The places of a host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Host([u8; 2]);

impl Host {
    /// The host with the IP address of `address`; its port has no influence. Of IPv6, all addresses
    /// with equal first 64 bits are one host.
    pub(crate) fn of(key: [u64; 2], address: &PeerAddress) -> Self {
        let [high, low, _] = address.words();
        let low = if address.ip().is_ipv6() { 0 } else { low };
        let [first, second, ..] = sip_hash(key, &[high, low]).to_le_bytes();
        Self([first, second])
    }
}

/// Slots of one pool, by host.
#[derive(Clone, Debug)]
pub(crate) struct HostSlots {
    /// By each hash.
    counts: [[u32; PLACES]; 2],
    /// The slots of all hosts.
    total: u32,
}

impl Default for HostSlots {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl HostSlots {
    /// No host has a slot.
    pub(crate) const EMPTY: Self = Self { counts: [[0; PLACES]; 2], total: 0 };

    fn places(&mut self, Host(places): Host) -> impl Iterator<Item = &mut u32> {
        let rows = self.counts.iter_mut().zip(places);
        rows.filter_map(|(row, place)| row.get_mut(usize::from(place)))
    }

    /// A host has `slots` slots more.
    pub(crate) fn taken(&mut self, host: Host, slots: u32) {
        self.total += slots;
        self.places(host).for_each(|count| *count += slots);
    }

    /// A host has given `slots` slots back.
    pub(crate) fn given_back(&mut self, host: Host, slots: u32) {
        self.total = self.total.saturating_sub(slots);
        self.places(host).for_each(|count| *count = count.saturating_sub(slots));
    }

    /// How many slots all hosts have.
    pub(crate) const fn total(&self) -> u32 {
        self.total
    }

    /// Whether all counts are of `slots` slots. For tests.
    pub(crate) fn adds_up_to(&self, slots: u32) -> bool {
        self.total == slots && self.counts.iter().all(|row| row.iter().sum::<u32>() == slots)
    }

    /// How many slots a host has.
    pub(crate) fn of(&self, Host(places): Host) -> u32 {
        let rows = self.counts.iter().zip(places);
        rows.filter_map(|(row, place)| row.get(usize::from(place))).copied().min().unwrap_or(0)
    }

    /// Whether an unnamed peer may take another slot while `free` are left: its host must not have
    /// more than that. So some slots remain for others, however many a host asks for.
    pub(crate) fn has_share(&self, host: Host, free: u32) -> bool {
        self.of(host) <= free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u8, port: u16) -> Host {
        Host::of([1, 2], &PeerAddress::from_v4([10, 0, 0, number], port))
    }

    #[test]
    fn a_host_is_an_address_with_all_its_ports() {
        assert_eq!(host(1, 7), host(1, 8));
        assert_ne!(host(1, 7), host(2, 7));
        let of = |ip: &str| Host::of([1, 2], &PeerAddress::new(ip.parse().unwrap(), 1));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    }

    #[test]
    fn hosts_leave_slots_to_others() {
        let (mut slots, mut free) = (HostSlots::EMPTY, 64);
        let mut had = [0; 4];
        for (number, had) in had.iter_mut().enumerate() {
            // bound: the slots
            while free > 0 && slots.has_share(host(number as u8, 0), free) {
                slots.taken(host(number as u8, 0), 1);
                (free, *had) = (free - 1, *had + 1);
            }
        }
        assert_eq!(had, [33, 16, 8, 4]);
        slots.given_back(host(0, 0), 33);
        assert!(slots.has_share(host(0, 0), 0), "it has none");
        assert!(!slots.has_share(host(1, 0), 15));
    }
}
