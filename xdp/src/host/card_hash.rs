// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rule by which the card of an interface spreads UDP packets over its queues (RSS).
//!
//! In: an interface, and the family of an endpoint's address. Out: fields, key and indirection
//! table, where the driver tells them and they are of the kind that
//! [`rss`](ofi_xdp_core::rss) computes. Caller: `port/other_queue.rs`, off the data path: a driver
//! may ask its device, which takes up to milliseconds. No privilege is needed. Bounds: three system
//! calls, [`TABLE_MAX`] entries.

use std::io;

use ofi_xdp_core::rss::{HashFields, KEY_LEN, Rss};

use crate::ethtool::Device;
use crate::ethtool::hash::{HashRequest, TABLE_MAX};
use crate::ethtool::ioctl::EthtoolInterface;
use crate::ethtool::rules::{HASH_ADDRESSES, HASH_PORTS, RuleRequest};
use crate::host::interfaces::InterfaceInfo;

/// Reason why the queue of a packet cannot be computed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HashUnknown {
    /// The driver does not answer.
    #[error("the driver does not tell: {0}")]
    Silent(#[from] io::Error),
    /// The fields are neither addresses alone nor addresses and ports.
    #[error("it hashes other fields ({0:#x}) than addresses and ports")]
    Fields(u64),
    /// No Toeplitz hash, or one of rearranged fields; or a key that is too short, or a table that
    /// is empty or too long.
    #[error("it has another hash than Toeplitz, or no usable key and table")]
    Kind,
}

/// The rule of a card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CardHash {
    fields: HashFields,
    key: [u8; KEY_LEN],
    table: Box<[u32]>,
}

/// A card that may be asked for its rule at any time, on any thread.
#[derive(Debug)]
pub(crate) struct HashReader {
    interface: EthtoolInterface,
    ipv4: bool,
}

impl HashReader {
    /// The card of the interface with index `interface` in the calling thread's network namespace,
    /// for packets over IPv4 or over IPv6.
    pub(crate) fn open(interface: u32, ipv4: bool) -> io::Result<Self> {
        Ok(Self { interface: EthtoolInterface::open(interface)?, ipv4 })
    }

    /// Asks for the rule.
    pub(crate) fn hash(&self) -> Result<CardHash, HashUnknown> {
        CardHash::read(&self.interface, self.ipv4)
    }
}

/// How the card of an interface with several queues spreads UDP packets over them, as text for the
/// user; `None` for one queue, and where the driver does not tell.
#[must_use]
pub fn spread(interface: &InterfaceInfo) -> Option<String> {
    if interface.rx_queues < 2 {
        return None;
    }
    let ipv4 = interface.addresses.iter().any(|address| address.ip.is_ipv4());
    let device = EthtoolInterface::open(interface.index).ok()?;
    let fields = hash_fields(&device, ipv4).ok()?;
    Some(spread_by(fields, &interface.name, ipv4))
}

fn spread_by(fields: HashFields, interface: &str, ipv4: bool) -> String {
    match fields {
        HashFields::Ports => "queue of a packet by: addresses and ports".to_owned(),
        HashFields::Addresses => {
            let command = hash_ports_command(interface, ipv4);
            format!("queue of a packet by: addresses alone; {command}")
        }
    }
}

/// The command by which a card hashes ports, too, and its effect.
pub(crate) fn hash_ports_command(interface: &str, ipv4: bool) -> String {
    let family = if ipv4 { "udp4" } else { "udp6" };
    format!(
        "`ethtool -N {interface} rx-flow-hash {family} sdfn` lets the card tell source ports apart"
    )
}

/// The fields that the card hashes.
fn hash_fields(device: &impl Device, ipv4: bool) -> Result<HashFields, HashUnknown> {
    let mut request = RuleRequest::hash_fields(ipv4);
    device.call(&mut request)?;
    match request.data {
        HASH_ADDRESSES => Ok(HashFields::Addresses),
        data if data == HASH_ADDRESSES | HASH_PORTS => Ok(HashFields::Ports),
        other => Err(HashUnknown::Fields(other)),
    }
}

impl CardHash {
    fn read(device: &impl Device, ipv4: bool) -> Result<Self, HashUnknown> {
        let fields = hash_fields(device, ipv4)?;
        // The first call returns the sizes, which the second one must have.
        let mut request = HashRequest::new();
        device.read_hash(&mut request)?;
        if !request.has_room() {
            return Err(HashUnknown::Kind);
        }
        device.read_hash(&mut request)?;
        let key = request.key().first_chunk().filter(|_| request.is_toeplitz());
        let key = *key.ok_or(HashUnknown::Kind)?;
        let table: Box<[u32]> = request.table().take(TABLE_MAX).collect();
        if table.is_empty() {
            return Err(HashUnknown::Kind);
        }
        Ok(Self { fields, key, table })
    }

    /// The rule, for computations.
    pub(crate) const fn rss(&self) -> Rss<'_> {
        Rss { key: &self.key, table: &self.table, fields: self.fields }
    }

    /// A rule with the key of [`rss`](ofi_xdp_core::rss), for tests.
    #[cfg(test)]
    pub(crate) fn known(fields: HashFields, table: &[u32]) -> Self {
        Self { fields, key: ofi_xdp_core::rss::KEY, table: table.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_core::rss::KEY;
    use zerocopy::IntoBytes as _;

    /// A card that tells its hash.
    struct AnsweringCard {
        fields: io::Result<u64>,
        function: u8,
        table: Vec<u32>,
        key: Vec<u8>,
    }

    impl AnsweringCard {
        fn new(fields: u64) -> Self {
            let key = [KEY.as_slice(), &[9; 12]].concat();
            Self { fields: Ok(fields), function: 1, table: vec![0, 1, 2, 3], key }
        }
    }

    impl Device for AnsweringCard {
        fn call(&self, request: &mut RuleRequest) -> io::Result<()> {
            assert_eq!(request.as_bytes()[..8], [0x29, 0, 0, 0, 2, 0, 0, 0], "of UDP over IPv4");
            request.data = *self.fields.as_ref().map_err(|error| error.kind())?;
            Ok(())
        }

        fn read_hash(&self, request: &mut HashRequest) -> io::Result<()> {
            request.answer(self.function, &self.table, &self.key);
            Ok(())
        }
    }

    #[test]
    fn fields_key_and_table_are_those_of_the_card() {
        for (bits, fields) in [(0x30, HashFields::Addresses), (0xf0, HashFields::Ports)] {
            let read = CardHash::read(&AnsweringCard::new(bits), true).unwrap();
            assert_eq!(read, CardHash::known(fields, &[0, 1, 2, 3]), "a key of 52 bytes");
            assert_eq!(read.rss().table, [0, 1, 2, 3]);
        }
    }

    #[test]
    fn a_hash_that_cannot_be_computed_is_unknown() {
        let silent = AnsweringCard {
            fields: Err(io::ErrorKind::Unsupported.into()),
            ..AnsweringCard::new(0)
        };
        assert!(matches!(CardHash::read(&silent, true), Err(HashUnknown::Silent(_))));
        let source_alone = AnsweringCard::new(0x10);
        assert!(matches!(CardHash::read(&source_alone, true), Err(HashUnknown::Fields(0x10))));
        for other in [
            AnsweringCard { function: 2, ..AnsweringCard::new(0xf0) },
            AnsweringCard { table: Vec::new(), ..AnsweringCard::new(0xf0) },
            AnsweringCard { table: vec![0; TABLE_MAX + 1], ..AnsweringCard::new(0xf0) },
            AnsweringCard { key: vec![0; KEY_LEN - 1], ..AnsweringCard::new(0xf0) },
        ] {
            assert!(matches!(CardHash::read(&other, true), Err(HashUnknown::Kind)));
        }
    }

    #[test]
    fn the_user_reads_how_packets_are_spread_and_what_adds_ports() {
        let of = |bits| {
            let fields = hash_fields(&AnsweringCard::new(bits), true).unwrap();
            spread_by(fields, "eth0", true)
        };
        assert_eq!(of(0xf0), "queue of a packet by: addresses and ports");
        let alone =
            "queue of a packet by: addresses alone; `ethtool -N eth0 rx-flow-hash udp4 sdfn`";
        assert!(of(0x30).starts_with(alone), "{}", of(0x30));
        let several = InterfaceInfo { rx_queues: 4, ..InterfaceInfo::sample("eth0") };
        assert_eq!(spread(&several), None, "the loopback interface does not tell");
    }

    #[test]
    fn an_interface_without_a_hash_does_not_tell() {
        let hash = HashReader::open(1, true).unwrap().hash();
        assert!(matches!(hash, Err(HashUnknown::Silent(_))), "{hash:?}");
        assert!(HashReader::open(0x7fff_0000, true).is_err(), "there is no such interface");
    }
}
