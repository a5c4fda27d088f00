// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive-side scaling: how a network card picks the receive queue of a packet.
//!
//! A card hashes addresses, and often ports, with a secret key. An indirection table maps the hash
//! to a queue ("Receive Side Scaling", Microsoft, NDIS 6; `ethtool -x` shows key and table). In: a
//! packet's addresses. Out: the hash, the queue, or a source port that leads to a queue. Callers:
//! ports that know their card's rule, and the cards of tests. Bounds: 288 bits a hash,
//! [`SOURCE_TRIES_MAX`] source ports a search.

use crate::PeerAddress;
use core::net::IpAddr;

/// Bytes of the key that a hash uses: as many as IPv6 with ports needs, and 32 bits.
pub const KEY_LEN: usize = 40;
/// Source ports that [`Rss::source_for`] tries.
pub const SOURCE_TRIES_MAX: u16 = 1 << 10;
/// The first source port that a sender chooses: the range for private use (RFC 6335 §6).
pub const SOURCE_FIRST: u16 = 0xc000;
/// The key of Microsoft's verification suite, which many drivers use as well.
pub const KEY: [u8; KEY_LEN] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// The fields of a UDP packet that a card hashes, by `ethtool`'s letters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HashFields {
    /// `sd`: both addresses.
    Addresses,
    /// `sdfn`: both addresses and both ports.
    Ports,
}

/// The Toeplitz hash of a packet that `from` sends to `to`.
#[must_use]
pub fn toeplitz(
    key: &[u8; KEY_LEN],
    fields: HashFields,
    from: PeerAddress,
    to: PeerAddress,
) -> u32 {
    let mut input: heapless::Vec<u8, 36> = heapless::Vec::new();
    // 36 bytes hold both addresses and both ports.
    let mut put = |bytes: &[u8]| input.extend_from_slice(bytes).unwrap_or(());
    for address in [from, to] {
        match address.ip() {
            IpAddr::V4(ip) => put(&ip.octets()),
            IpAddr::V6(ip) => put(&ip.octets()),
        }
    }
    if fields == HashFields::Ports {
        put(&from.port().to_be_bytes());
        put(&to.port().to_be_bytes());
    }
    hash_of(key, 0, &input)
}

/// The part of the hash that `bytes` contribute, which begin at byte `at` of the input. A Toeplitz
/// hash is the exclusive or of its parts.
fn hash_of(key: &[u8; KEY_LEN], at: usize, bytes: &[u8]) -> u32 {
    let windows = key.windows(5).skip(at);
    bytes.iter().zip(windows).fold(0, |hash, (byte, window)| {
        let window = window.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        (0..u8::BITS)
            .filter(|bit| byte << bit & 0x80 != 0)
            .fold(hash, |hash, bit| hash ^ (window >> (u8::BITS - bit)) as u32)
    })
}

/// The rule by which a card spreads packets over its queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rss<'a> {
    /// The secret key.
    pub key: &'a [u8; KEY_LEN],
    /// The indirection table: queues, of which the hash names one.
    pub table: &'a [u32],
    /// The fields that are hashed.
    pub fields: HashFields,
}

impl Rss<'_> {
    /// The queue of a packet that `from` sends to `to`; 0 with an empty table.
    #[must_use]
    pub fn queue(&self, from: PeerAddress, to: PeerAddress) -> u32 {
        self.queue_of(toeplitz(self.key, self.fields, from, to))
    }

    fn queue_of(&self, hash: u32) -> u32 {
        let entry = (hash as usize).checked_rem(self.table.len()).and_then(|at| self.table.get(at));
        entry.copied().unwrap_or(0)
    }

    /// A source port by which packets of the host of `from` to `to` arrive at `queue`; `None`
    /// where the card hashes no ports, or none of [`SOURCE_TRIES_MAX`] ports leads there.
    #[must_use]
    pub fn source_for(&self, from: PeerAddress, to: PeerAddress, queue: u32) -> Option<u16> {
        if self.fields != HashFields::Ports {
            return None;
        }
        let others = toeplitz(self.key, self.fields, PeerAddress::new(from.ip(), 0), to);
        let source_at = if from.ip().is_ipv4() { 2 * 4 } else { 2 * 16 };
        // Different senders get different ports.
        let start = from.port() % SOURCE_TRIES_MAX;
        (0..SOURCE_TRIES_MAX).map(|step| SOURCE_FIRST + (start + step) % SOURCE_TRIES_MAX).find(
            |&source| {
                let hash = others ^ hash_of(self.key, source_at, &source.to_be_bytes());
                self.queue_of(hash) == queue
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;
    use std::vec::Vec;

    /// The verification suite of Microsoft's RSS specification: destination, source, the hash of
    /// the addresses, and that of addresses and ports.
    const VECTORS: [(&str, &str, u32, u32); 8] = [
        ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
        ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
        ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
        ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
        ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
        ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
        ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
        (
            "[fe80::200:f8ff:fe21:67cf]:38024",
            "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
            0x4b61_e985,
            0x02d1_feef,
        ),
    ];

    fn address(text: &str) -> PeerAddress {
        text.parse::<SocketAddr>().unwrap().into()
    }

    #[test]
    fn hashes_are_those_of_the_verification_suite() {
        for (to, from, addresses, ports) in VECTORS {
            let (to, from) = (address(to), address(from));
            assert_eq!(toeplitz(&KEY, HashFields::Addresses, from, to), addresses, "{from} {to}");
            assert_eq!(toeplitz(&KEY, HashFields::Ports, from, to), ports, "{from} {to}");
        }
    }

    #[test]
    fn a_source_port_is_found_for_each_queue() {
        let table: Vec<u32> = (0..128).map(|at| at % 64).collect();
        let rss = Rss { key: &KEY, table: &table, fields: HashFields::Ports };
        let (from, to) = (address("198.18.0.2:7000"), address("198.18.0.1:7001"));
        for queue in 0..64 {
            let source = rss.source_for(from, to, queue).unwrap();
            assert!(source >= SOURCE_FIRST);
            assert_eq!(rss.queue(PeerAddress::new(from.ip(), source), to), queue);
        }
        assert_eq!(rss.source_for(from, to, 64), None, "the table has no such queue");
        let addresses = Rss { fields: HashFields::Addresses, ..rss };
        assert_eq!(addresses.source_for(from, to, 1), None, "ports change nothing");
        assert_eq!(Rss { table: &[], ..rss }.queue(from, to), 0);
    }
}
