// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identifiers of objects that live in slots.
//!
//! An identifier is a slot number and a generation in one word. The generation changes whenever the
//! slot is freed. An identifier that outlived its object is recognised, and never resolves to the
//! slot's next tenant (`docs/PROTOCOL.md` §2.3 gives the reason on the wire).

use crate::collections::index::IndexKey;
use crate::collections::mix::mix;

macro_rules! slot_id {
    ($(#[$doc:meta])* $name:ident, slot_bits = $bits:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            /// The number of low bits that hold the slot number.
            pub const SLOT_BITS: u32 = $bits;
            /// The largest number of slots. The last slot number is reserved for [`Self::NONE`].
            pub const SLOTS_MAX: u32 = (1 << $bits) - 1;
            /// No object; no slot ever has this identifier.
            pub const NONE: Self = Self(u32::MAX);

            /// The identifier of `slot` in `generation` (modulo the bits of a generation).
            #[must_use]
            pub const fn new(slot: u32, generation: u32) -> Self {
                Self((generation << $bits) | (slot & Self::SLOTS_MAX))
            }

            /// The identifier with these bits.
            #[must_use]
            pub const fn from_bits(bits: u32) -> Self {
                Self(bits)
            }

            /// All bits, as on the wire.
            #[must_use]
            pub const fn bits(self) -> u32 {
                self.0
            }

            /// The slot number, below [`Self::SLOTS_MAX`] unless this is [`Self::NONE`].
            #[must_use]
            pub const fn slot(self) -> u32 {
                self.0 & Self::SLOTS_MAX
            }

            /// The generation of the slot.
            #[must_use]
            pub const fn generation(self) -> u32 {
                self.0 >> $bits
            }

            /// Whether this identifier names no object.
            #[must_use]
            pub const fn is_none(self) -> bool {
                self.0 == u32::MAX
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                if self.is_none() {
                    return write!(f, concat!(stringify!($name), "(none)"));
                }
                write!(f, concat!(stringify!($name), "({}.{})"), self.slot(), self.generation())
            }
        }
    };
}

slot_id! {
    /// A peer in the engine's table: 24 bits of slot, 8 of generation. It is the target of an
    /// `fi_addr_t`, and the `dst_cid` in each packet of the other side.
    PeerId, slot_bits = 24
}
slot_id! {
    /// An operation that sends: posted by the application, or made to answer a peer. 20 bits of
    /// slot, two of them for the pool, and 12 of generation.
    OpId, slot_bits = 20
}
slot_id! {
    /// A registered memory region (20 bits of slot, 12 of generation).
    RegionId, slot_bits = 20
}
slot_id! {
    /// A posted receive, a slice of a multi-receive buffer, or an event of a remote write. 20 bits
    /// of slot, with a range for each of the three, and 12 of generation.
    RecvId, slot_bits = 20
}
slot_id! {
    /// A receive of a queue that engines share (20 bits of slot and 12 of generation).
    SharedRecvId, slot_bits = 20
}
slot_id! {
    /// A stored message that no posted receive has matched yet; the slot number holds the class of
    /// its storage (`docs/PROTOCOL.md` §6.3).
    UnexpectedId, slot_bits = 20
}

impl IndexKey for PeerId {
    #[inline]
    fn hash(&self, [secret, _]: [u64; 2]) -> u64 {
        mix(secret ^ u64::from(self.0))
    }
}

/// The application's context of an operation (libfabric's `op_context`), returned in its
/// completion.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Context(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_and_generation_come_back_and_wrap() {
        let id = OpId::new(0xf_fffe, 0xfff);
        assert_eq!((id.slot(), id.generation()), (0xf_fffe, 0xfff));
        assert_eq!(OpId::new(3, 0x1001), OpId::new(3, 1), "generations wrap at 12 bits");
        assert_eq!(PeerId::from_bits(PeerId::new(7, 200).bits()), PeerId::new(7, 200));
    }

    #[test]
    fn none_is_no_slot() {
        assert!(PeerId::NONE.is_none());
        assert!(!PeerId::new(PeerId::SLOTS_MAX - 1, 0xff).is_none());
    }
}
