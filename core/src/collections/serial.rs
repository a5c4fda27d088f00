// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequence numbers that wrap (RFC 1982 arithmetic, 32 bits).
//!
//! Two numbers are compared only while they are less than 2^31 apart. The windows guarantee that:
//! [`WINDOW_PACKETS`](crate::WINDOW_PACKETS) packets,
//! [`MESSAGES_AHEAD_MAX`](crate::wire::MESSAGES_AHEAD_MAX) messages.

macro_rules! serial {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The number `n` steps after this one.
            #[must_use]
            pub const fn plus(self, n: u32) -> Self {
                Self(self.0.wrapping_add(n))
            }

            /// The number of steps from `earlier` to this one, across the wrap if need be.
            #[must_use]
            pub const fn since(self, earlier: Self) -> u32 {
                self.0.wrapping_sub(earlier.0)
            }

            /// Whether this number comes before `other`.
            #[must_use]
            pub const fn is_before(self, other: Self) -> bool {
                other.since(self).wrapping_sub(1) < (1 << 31) - 1
            }
        }
    };
}

serial! {
    /// Packet sequence number: one a reliable packet, per peer and direction (`docs/PROTOCOL.md`
    /// §4.1).
    Psn
}
serial! {
    /// Message sequence number: the order in which messages match (`docs/PROTOCOL.md` §6.1).
    Msn
}

impl Msn {
    /// The number nearest to this one with the low 16 bits `low`: the full value of a number that
    /// is truncated on the wire.
    #[must_use]
    pub const fn nearest(self, low: u16) -> Self {
        #[expect(clippy::cast_possible_wrap, reason = "the sign of the distance is what is wanted")]
        let distance = low.wrapping_sub(self.0 as u16) as i16;
        Self(self.0.wrapping_add_signed(distance as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_survives_the_wrap(base: u32, step in 1u32..(1 << 31)) {
            let (a, b) = (Psn(base), Psn(base).plus(step));
            prop_assert!(a.is_before(b));
            prop_assert!(!b.is_before(a));
            prop_assert_eq!(b.since(a), step);
            prop_assert!(!a.is_before(a));
        }

        #[test]
        fn low_bits_name_the_nearest(base: u32, distance in -32_768i32..32_768) {
            let far = Msn(base.wrapping_add_signed(distance));
            prop_assert_eq!(Msn(base).nearest(far.0 as u16), far);
        }
    }
}
