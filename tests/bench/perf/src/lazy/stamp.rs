// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sampled contents: eight bytes at the start, at the end, and at intervals between them.
//!
//! A stamp holds the number of its operation, mixed with its position. All other bytes of a buffer
//! keep a constant pattern: they are not read again.

use anyhow::ensure;
use ofi_xdp_libfabric::raw::Mem;

/// Bytes in a stamp.
const LEN: usize = 8;
/// Distance between two stamps: no multiple of a packet, page or segment.
const STEP: usize = 65_521;

/// The positions of the stamps in `len` bytes; none overlaps another.
fn positions(len: usize) -> impl Iterator<Item = usize> {
    let last = len.saturating_sub(LEN);
    (0..last.saturating_sub(LEN - 1)).step_by(STEP).chain([last])
}

/// The mask of a position: zero for the first one only.
fn mask(position: usize) -> u64 {
    (position as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Writes the stamps of operation `number`.
pub(super) fn write(memory: Mem, number: u64) {
    for position in positions(memory.len()) {
        let stamp = number.wrapping_add(1) ^ mask(position);
        memory.write(position, &stamp.to_le_bytes());
    }
}

/// Removes all stamps.
pub(super) fn clear(memory: Mem) {
    for position in positions(memory.len()) {
        memory.write(position, &mask(position).to_le_bytes());
    }
}

/// The number of the operation in the stamps; `None` unless all agree.
pub(super) fn read(memory: Mem) -> Option<u64> {
    let mut found = None;
    for position in positions(memory.len()) {
        let bytes = memory.part(position, LEN).bytes();
        let number = u64::from_le_bytes(bytes.try_into().ok()?) ^ mask(position);
        if found.is_some_and(|found| found != number) {
            return None;
        }
        found = Some(number);
    }
    found?.checked_sub(1)
}

/// Checks that the stamps are those of operation `number`.
pub(super) fn check(memory: Mem, number: u64) -> anyhow::Result<()> {
    let found = read(memory);
    ensure!(found == Some(number), "the bytes of operation {number} are those of {found:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_name_their_operation() {
        for len in [8, 15, 16, 1000, 65_528, 65_536, 1 << 20] {
            let memory = Mem::zeroed(len);
            clear(memory);
            assert_eq!(read(memory), None);
            write(memory, 0);
            assert_eq!(read(memory), Some(0));
            write(memory, 77);
            assert!(check(memory, 77).is_ok());
            assert!(check(memory, 78).is_err());
        }
    }

    #[test]
    fn a_part_of_an_operation_is_none() {
        let memory = Mem::zeroed(1 << 20);
        write(memory, 1);
        write(memory.part(0, 1 << 19), 2);
        assert_eq!(read(memory), None);
    }
}
