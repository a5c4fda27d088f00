// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzzer's bytes as a stream of choices.

/// Bytes that have not been used yet. Where they end, zeros follow.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether there is nothing left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.slice(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// The next two bytes as a number.
    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// At most `count` bytes: fewer if there are not so many.
    pub fn slice(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.word()) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_in_order_and_zeros_after_them() {
        let mut input = Input::new(&[1, 2, 3]);
        assert_eq!((input.byte(), input.word(), input.byte()), (1, 0x302, 0));
        assert!(input.is_empty() && input.slice(4).is_empty());
    }
}
