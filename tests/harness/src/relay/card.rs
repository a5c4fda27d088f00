// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network card in software: it puts each frame for its host on one of several receive queues,
//! by a hash as cards do, or as TAP and virtio devices do.
//!
//! In: frames for the host, and frames that the host has sent. Out: the queue of each frame. Bound:
//! [`FLOWS_MAX`] flows remembered.

use std::collections::HashMap;

use ofi_xdp_core::PeerAddress;
use ofi_xdp_core::rss::{HashFields, KEY, KEY_LEN, Rss};

use super::frame::flow;

/// Entries of the indirection table, as many as common cards have.
const TABLE_LEN: u32 = 128;
/// Flows that [`Spread::LastSent`] remembers; beyond that it begins anew.
const FLOWS_MAX: usize = 1 << 14;

/// How a card picks the queue of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// By a Toeplitz hash of these fields.
    Hash(HashFields),
    /// The queue from which the host last sent to the other end of the flow; else by a hash of
    /// addresses and ports.
    LastSent,
}

/// The rule of a card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CardRule {
    /// How it picks the queue.
    pub spread: Spread,
    /// The key of the hash.
    pub key: [u8; KEY_LEN],
    /// The indirection table.
    pub table: Vec<u32>,
}

impl CardRule {
    /// The usual rule: a known key, and a table that names all `queues` alike.
    #[must_use]
    pub fn new(spread: Spread, queues: u32) -> Self {
        Self { spread, key: KEY, table: (0..TABLE_LEN).map(|at| at % queues.max(1)).collect() }
    }

    /// The rule with the table moved on by one queue: nearly every flow changes its queue.
    #[must_use]
    pub fn turned(mut self, queues: u32) -> Self {
        for queue in &mut self.table {
            *queue = (*queue + 1) % queues.max(1);
        }
        self
    }
}

/// The card of one host.
#[derive(Debug)]
pub(super) struct Card {
    rule: CardRule,
    queues: u32,
    /// The queue by which the host last sent each flow.
    sent_by: HashMap<(PeerAddress, PeerAddress), u32>,
}

impl Card {
    /// A card of `queues` queues.
    pub(super) fn new(rule: CardRule, queues: u32) -> Self {
        Self { rule, queues, sent_by: HashMap::new() }
    }

    /// Changes the rule.
    pub(super) fn set(&mut self, rule: CardRule) {
        self.rule = rule;
        self.sent_by.clear();
    }

    /// Takes note of a frame that the host sent by `queue`.
    pub(super) fn sent(&mut self, frame: &[u8], queue: u32) {
        if self.rule.spread != Spread::LastSent {
            return;
        }
        if let Some((from, to)) = flow(frame) {
            if self.sent_by.len() >= FLOWS_MAX {
                self.sent_by.clear();
            }
            self.sent_by.insert((from, to), queue);
        }
    }

    /// The queue of a frame for the host. Frames that are not IP go to the first.
    pub(super) fn queue(&self, frame: &[u8]) -> u32 {
        if self.queues <= 1 {
            return 0;
        }
        let Some((from, to)) = flow(frame) else { return 0 };
        let fields = match self.rule.spread {
            Spread::Hash(fields) => fields,
            Spread::LastSent => match self.sent_by.get(&(to, from)) {
                Some(queue) => return *queue,
                None => HashFields::Ports,
            },
        };
        let rss = Rss { key: &self.rule.key, table: &self.rule.table, fields };
        rss.queue(from, to).min(self.queues - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP frame between two hosts.
    fn frame(source: u16, destination: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend([198, 18, 0, 2, 198, 18, 0, 1]);
        frame.extend(source.to_be_bytes());
        frame.extend(destination.to_be_bytes());
        frame.extend([0, 12, 0, 0, 1, 2, 3, 4]);
        frame
    }

    fn card(spread: Spread, queues: u32) -> Card {
        Card::new(CardRule::new(spread, queues), queues)
    }

    #[test]
    fn ports_spread_flows_over_all_queues_and_addresses_do_not() {
        for queues in [1, 4, 16, 64] {
            let by_ports = card(Spread::Hash(HashFields::Ports), queues);
            let by_addresses = card(Spread::Hash(HashFields::Addresses), queues);
            let mut used = vec![0; queues as usize];
            for source in 0..64 * queues as u16 {
                used[by_ports.queue(&frame(source, 9)) as usize] += 1;
                assert_eq!(by_addresses.queue(&frame(source, 9)), by_addresses.queue(&frame(0, 1)));
            }
            assert!(used.iter().all(|&count| count >= 16), "{used:?}");
        }
    }

    #[test]
    fn another_table_moves_flows() {
        let rule = CardRule::new(Spread::Hash(HashFields::Ports), 4);
        let mut card = Card::new(rule.clone(), 4);
        let before = card.queue(&frame(7, 9));
        card.set(rule.turned(4));
        assert_eq!(card.queue(&frame(7, 9)), (before + 1) % 4);
        card.set(CardRule::new(Spread::Hash(HashFields::Ports), 1));
        assert_eq!(card.queue(&frame(7, 9)), 0, "fewer queues");
    }

    #[test]
    fn answers_come_by_the_queue_that_last_sent() {
        let mut card = card(Spread::LastSent, 4);
        let mut answer = frame(7, 9);
        for queue in [3, 1] {
            // The host at .1 sends from port 9 to port 7.
            let mut sent = frame(9, 7);
            sent[26..34].copy_from_slice(&[198, 18, 0, 1, 198, 18, 0, 2]);
            card.sent(&sent, queue);
            assert_eq!(card.queue(&answer), queue);
        }
        answer[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(card.queue(&answer), 0, "it is not IP");
    }
}
