// SPDX-License-Identifier: MIT OR Apache-2.0
//! The secret of an engine: one key of 128 bits, and a pseudorandom function with that key.
//! Everything that others must not guess comes from it (`docs/PROTOCOL.md` §5.3).
//!
//! The function is SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012).
//! Each [`Use`] has a label of its own, so that a value of one use tells nothing about any value of
//! another. In: the key, from the kernel's generator. Out: numbers. Callers: handshake, resets,
//! registrations, the retransmission timer; never the path of a packet with data. All operations
//! are O(1).

use core::hash::Hasher as _;
use siphasher::sip::SipHasher24;

/// The uses of the secret. The numbers are the labels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Use {
    /// The incarnation that the peer at an address sees.
    Incarnation = 1,
    /// The cookie that a hello repeats.
    HelloCookie = 2,
    /// The first packet number of a connection.
    PacketNumber = 3,
    /// The key of a region.
    RegionKey = 4,
    /// A pause that differs from that of others.
    Jitter = 5,
    /// The hash table of peers.
    PeerTable = 6,
    /// The hash table of regions.
    RegionTable = 7,
    /// The order and the first generations of the slots of peers.
    PeerSlot = 8,
    /// The hash bins of posted receives.
    ReceiveTable = 9,
    /// The hash bins of stored messages.
    StoredTable = 10,
    /// The sums that show whether parts cover a range.
    Coverage = 11,
    /// The numbers of connection requests and of acceptances.
    ConnectNonce = 12,
    /// The cookie that a connection request repeats.
    ConnectCookie = 13,
    /// The hash table of connection requests.
    ConnectTable = 14,
    /// The places of the counts of hosts.
    HostTable = 15,
}

/// SipHash-2-4 of `words`, under the key of two words.
pub(crate) fn sip_hash(key: [u64; 2], words: &[u64]) -> u64 {
    let [low, high] = key;
    let mut hasher = SipHasher24::new_with_keys(low, high);
    words.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
    hasher.finish()
}

/// A key, and a count of the numbers that were drawn with it.
#[derive(Clone)]
pub(crate) struct Secret {
    key: [u64; 2],
    drawn: u64,
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// The secret with this key.
    pub(crate) const fn new(key: u128) -> Self {
        Self { key: [key as u64, (key >> 64) as u64], drawn: 0 }
    }

    /// The number that belongs to `words` in this use; equal words have equal numbers.
    pub(crate) fn of<const N: usize>(&self, purpose: Use, words: [u64; N]) -> u64 {
        // The length is absorbed as well: words of another number of words are others.
        let label = purpose as u64 | (N as u64) << 32;
        let [low, high] = self.key;
        let mut hasher = SipHasher24::new_with_keys(low, high);
        hasher.write(&label.to_le_bytes());
        words.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
        hasher.finish()
    }

    /// A number that was not drawn before.
    pub(crate) fn draw(&mut self, purpose: Use) -> u64 {
        self.drawn += 1;
        self.of(purpose, [self.drawn])
    }

    /// A key for this use alone.
    pub(crate) fn subkey(&self, purpose: Use) -> [u64; 2] {
        [0, 1].map(|half| self.of(purpose, [half]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;

    /// The vectors of the authors: key 00 01 … 0f, input 00 01 … of 0, 8 and 16 bytes.
    #[test]
    fn the_function_is_siphash_2_4() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(sip_hash(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(sip_hash(key, &key[..1]), 0x93f5_f579_9a93_2462);
        assert_eq!(sip_hash(key, &key), 0x3f2a_cc7f_57c2_9bdb);
    }

    #[test]
    fn the_key_is_not_printed() {
        let secret = Secret::new(0x1234_5678);
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    proptest! {
        #[test]
        fn another_use_key_or_draw_gives_another_number(key: u128, bit in 0u32..128, word: u64) {
            let uses = [
                Use::Incarnation, Use::HelloCookie, Use::PacketNumber, Use::RegionKey,
                Use::Jitter, Use::PeerTable, Use::RegionTable, Use::PeerSlot,
                Use::ReceiveTable, Use::StoredTable, Use::Coverage,
                Use::ConnectNonce, Use::ConnectCookie, Use::ConnectTable, Use::HostTable,
            ];
            let mut secret = Secret::new(key);
            let mut seen = std::collections::BTreeSet::new();
            for purpose in uses {
                prop_assert_eq!(secret.of(purpose, [word]), secret.of(purpose, [word]));
                prop_assert!(seen.insert(secret.of(purpose, [word])));
                prop_assert!(seen.insert(secret.of(purpose, [word, 0])));
                prop_assert!(seen.insert(secret.of(purpose, [word ^ 1])));
            }
            let other = Secret::new(key ^ 1 << bit);
            prop_assert!(seen.insert(other.of(Use::Incarnation, [word])));
            let drawn = [0; 4].map(|_: u8| secret.draw(Use::PacketNumber));
            prop_assert!(drawn[1] != drawn[0] && drawn[2] != drawn[1] && drawn[3] != drawn[2]);
        }
    }
}
