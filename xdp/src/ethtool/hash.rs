// SPDX-License-Identifier: MIT OR Apache-2.0
//! The request for the key and the indirection table of a card's hash: `struct ethtool_rxfh` of
//! linux/ethtool.h.
//!
//! In: the sizes that the device has. Out: bytes for `ioctl.rs`, and the answer's parts. Callers:
//! `host/card_hash.rs`, `ioctl.rs`. A test compiles the kernel's header and compares the layout.
//! Bounds: [`TABLE_MAX`], [`KEY_MAX`].

use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout};

/// Maximum number of entries of an indirection table that is read.
pub(crate) const TABLE_MAX: usize = 4096;
/// Maximum length of a key that is read, in bytes.
pub(crate) const KEY_MAX: usize = 128;
/// `ETHTOOL_GRSSH`.
const GET: u32 = 0x46;
/// `ETH_RSS_HASH_TOP`: the Toeplitz hash.
const TOEPLITZ: u8 = 1;
const CONFIG_MAX: usize = 4 * TABLE_MAX + KEY_MAX;

/// `struct ethtool_rxfh`, with room for table and key. The context is 0: the device's own.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct HashRequest {
    command: u32,
    context: u32,
    table_len: u32,
    key_len: u32,
    function: u8,
    transformation: u8,
    _unused: [u8; 6],
    /// The table, with four bytes for each entry, and the key behind it.
    config: [u8; CONFIG_MAX],
}

impl HashRequest {
    /// A request for the sizes alone.
    pub(crate) fn new() -> Self {
        Self { command: GET, ..Self::new_zeroed() }
    }

    /// Whether there is room for as many bytes as the kernel writes: table and key of the sizes in
    /// the request, or none.
    pub(crate) const fn has_room(&self) -> bool {
        self.table_len as usize <= TABLE_MAX && self.key_len as usize <= KEY_MAX
    }

    /// Whether the card computes a Toeplitz hash of the fields as they stand in the packet.
    pub(crate) const fn is_toeplitz(&self) -> bool {
        self.function == TOEPLITZ && self.transformation == 0
    }

    /// The indirection table.
    pub(crate) fn table(&self) -> impl Iterator<Item = u32> {
        let entries = self.config.as_chunks().0.iter();
        entries.take(self.table_len as usize).map(|entry| u32::from_ne_bytes(*entry))
    }

    /// The key.
    pub(crate) fn key(&self) -> &[u8] {
        let start = 4 * self.table_len as usize;
        self.config.get(start..start + self.key_len as usize).unwrap_or(&[])
    }

    #[cfg(test)]
    pub(crate) const fn set_table_len(&mut self, len: u32) {
        self.table_len = len;
    }

    /// Enters an answer, as a device does.
    #[cfg(test)]
    pub(crate) fn answer(&mut self, function: u8, table: &[u32], key: &[u8]) {
        let lengths = (self.table_len as usize, self.key_len as usize);
        let wanted = (table.len(), key.len());
        assert!(lengths == (0, 0) || lengths == wanted, "the device has other sizes");
        (self.table_len, self.key_len) = (table.len() as u32, key.len() as u32);
        if lengths == wanted {
            self.function = function;
            let bytes = table.iter().flat_map(|entry| entry.to_ne_bytes());
            for (to, byte) in self.config.iter_mut().zip(bytes.chain(key.iter().copied())) {
                *to = byte;
            }
        }
    }
}
