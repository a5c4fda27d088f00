// SPDX-License-Identifier: MIT OR Apache-2.0
//! The token of a connection (`docs/PROTOCOL.md` §5.3): 64 bits that its two sides know. A third
//! host that does not read their packets cannot know it.

use crate::collections::secret::sip_hash;

/// A token. A packet with a packet number carries the lower half, any other packet both halves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Token(pub u64);

impl Token {
    /// The token of the connection `epoch` between two incarnations; both sides find the same.
    #[must_use]
    pub fn new(one: u64, other: u64, epoch: u16) -> Self {
        Self(sip_hash([one.min(other), one.max(other)], &[u64::from(epoch)]))
    }

    /// The half that every packet carries.
    #[must_use]
    #[inline(always)]
    pub const fn low(self) -> u32 {
        self.0 as u32
    }

    /// The half that packets without a packet number carry in the field of that number.
    #[must_use]
    #[inline(always)]
    pub const fn high(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_sides_derive_one_token_and_other_pairs_derive_others(
            one: u64, other: u64, epoch: u16, bit in 0u32..64,
        ) {
            let token = Token::new(one, other, epoch);
            prop_assert_eq!(Token::new(other, one, epoch), token);
            prop_assert_ne!(Token::new(one ^ 1 << bit, other, epoch), token);
            prop_assert_ne!(Token::new(one, other, epoch ^ 1 << (bit % 16)), token);
            prop_assert_eq!(u64::from(token.high()) << 32 | u64::from(token.low()), token.0);
        }
    }
}
