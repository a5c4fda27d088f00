// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of packets under way against a queue for each peer.

use super::*;
use crate::collections::time::Tick;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec::Vec;

#[derive(Default)]
struct Peer {
    directory: Directory,
    first: Psn,
    /// The `sent_at`, and whether the packet is acknowledged or lost.
    model: VecDeque<(u32, TxFlags)>,
}

impl Peer {
    fn next(&self) -> Psn {
        self.first.plus(self.model.len() as u32)
    }

    /// The packets of `set`, as the pool finds them.
    fn found(&self, pool: &InFlight<'_>, set: PacketSet) -> Vec<u32> {
        let (mut psn, mut found) = (self.first, Vec::new());
        while let Some(at) = pool.find(&self.directory, set, (psn, self.next())) {
            found.push(at.since(self.first));
            psn = at.plus(1);
        }
        found
    }

    fn expected(&self, set: PacketSet) -> Vec<u32> {
        let is_in = |flags: &TxFlags| match set {
            PacketSet::Outstanding => flags.is_empty(),
            PacketSet::Lost => flags.contains(TxFlags::LOST),
            PacketSet::Open => !flags.contains(TxFlags::ACKED),
        };
        let numbered = (0..).zip(&self.model);
        numbered.filter(|(_, (_, flags))| is_in(flags)).map(|(n, _)| n).collect()
    }

    fn check(&self, pool: &InFlight<'_>) -> Result<(), TestCaseError> {
        for set in [PacketSet::Outstanding, PacketSet::Lost, PacketSet::Open] {
            let expected = self.expected(set);
            let last = pool.find_last(&self.directory, set, (self.first, self.next()));
            prop_assert_eq!(last.map(|psn| psn.since(self.first)), expected.last().copied());
            prop_assert_eq!(self.found(pool, set), expected);
        }
        for ((stamp, flags), psn) in self.model.iter().zip((0..).map(|n| self.first.plus(n))) {
            let record = pool.record(&self.directory, psn).unwrap();
            prop_assert_eq!((record.sent_at.bits(), record.flags), (*stamp, *flags));
            let word = pool.open_from(&self.directory, psn);
            prop_assert_eq!(word & 1 == 1, !flags.contains(TxFlags::ACKED));
        }
        let open = pool.open_from(&self.directory, self.first);
        for (n, (_, flags)) in (0..64).zip(&self.model) {
            prop_assert_eq!(open >> n & 1 == 1, !flags.contains(TxFlags::ACKED));
        }
        prop_assert!(!self.directory.is_empty() || self.model.is_empty());
        Ok(())
    }
}

proptest! {
    #[test]
    fn in_flight_is_a_queue_for_each_peer(
        bases: [u32; 3],
        spare in 0usize..60,
        pages in 0usize..8,
        steps in prop::collection::vec((0usize..3, 0u8..4, 1u32..700, any::<u32>()), 1..40),
    ) {
        let slots = Slots::with_room(3 + spare).unwrap();
        let page_slots = Slots::with_room(pages).unwrap();
        let mut pool = InFlight::new(slots, page_slots, 3);
        let mut peers = bases.map(|base| Peer { first: Psn(base), ..Peer::default() });
        let mut stamp = 0;
        for (who, action, count, which) in steps {
            let peer = &mut peers[who];
            for _ in 0..if action == 3 { 1 } else { count } {
                let next = peer.next();
                match action {
                    0 | 1 => {
                        let room = pool.has_room(&peer.directory, peer.first, next);
                        let holds = !peer.directory.is_empty();
                        prop_assert!(room || holds, "one chunk is reserved");
                        stamp += 1;
                        let sent_at = Tick::from_bits(stamp);
                        let packet = TxPacket { sent_at, ..TxPacket::default() };
                        let pushed = pool.push(&mut peer.directory, peer.first, next, packet);
                        prop_assert_eq!(pushed, room);
                        if pushed {
                            peer.model.push_back((stamp, TxFlags::empty()));
                        }
                    }
                    2 => if peer.model.pop_front().is_some() {
                        let upto = peer.first.plus(1);
                        pool.retire(&mut peer.directory, peer.first, upto);
                        peer.first = upto;
                        if peer.model.is_empty() {
                            pool.shrink(&mut peer.directory, upto);
                        }
                    },
                    _ => if !peer.model.is_empty() {
                        let at = which as usize % peer.model.len();
                        let flags = [TxFlags::ACKED, TxFlags::LOST, TxFlags::empty()];
                        let flags = flags[which as usize / 3 % 3];
                        peer.model[at].1 = flags;
                        let psn = peer.first.plus(at as u32);
                        let changed =
                            pool.change(&peer.directory, psn, |packet| packet.flags = flags);
                        prop_assert!(changed.is_some());
                    },
                }
            }
            for peer in &peers {
                peer.check(&pool)?;
            }
        }
        for peer in &mut peers {
            let next = peer.next();
            pool.clear(&mut peer.directory, peer.first, next);
        }
        prop_assert_eq!((pool.chunks.used(), pool.pages.used(), pool.reserved), (0, 0, 3));
    }
}

#[test]
fn one_connection_takes_four_fifths_of_the_pool_and_a_window_of_three_pages() {
    for (chunks, packets) in [(100, 32 * 80), (4_000, 49_152)] {
        let slots = Slots::with_room(chunks + 2).unwrap();
        let pages = Slots::with_room(16).unwrap();
        let mut pool = InFlight::new(slots, pages, 2);
        let (mut directory, first) = (Directory::default(), Psn(u32::MAX - 1_000));
        let mut next = first;
        while pool.push(&mut directory, first, next, TxPacket::default()) {
            next = next.plus(1);
        }
        let got = next.since(first);
        assert!(got.abs_diff(packets) <= 64, "{got} of {packets}");
        let mut other = Directory::default();
        assert!(pool.push(&mut other, first, first, TxPacket::default()), "reserved");
    }
}
