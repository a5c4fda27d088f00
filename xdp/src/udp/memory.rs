// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buffers that may be refused.
//!
//! In: a length. Out: zeroed memory, whose pages are taken when they are used. Callers: `gro.rs`,
//! `gso.rs`. Bound: the caller's.

use std::io;

use nix::errno::Errno;
use zerocopy::FromZeros as _;

/// `count` bytes of zero.
///
/// # Errors
/// `ENOMEM`.
pub(super) fn zeroed(count: usize) -> io::Result<Box<[u8]>> {
    <[u8]>::new_box_zeroed_with_elems(count).map_err(|_| Errno::ENOMEM.into())
}

#[cfg(test)]
mod tests {
    use super::zeroed;

    #[test]
    fn a_refusal_is_an_error() {
        assert_eq!(zeroed(3).unwrap()[..], [0; 3]);
        assert_eq!(zeroed(isize::MAX as usize).unwrap_err().raw_os_error(), Some(12));
    }
}
