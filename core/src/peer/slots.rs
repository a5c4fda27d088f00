// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slot numbers of the engine's pools. Each pool has a type of its own, so that the compiler tells
//! the slot of a peer from that of an operation.
//!
//! A slot number is valid inside the engine only. The outside holds identifiers, which add a
//! generation ([`crate::api::id`]).

use crate::collections::slab::SlotIndex;
use crate::{OpId, PeerId, RecvId, RegionId, UnexpectedId};

macro_rules! slot_index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub(crate) struct $name(u32);

        impl SlotIndex for $name {
            const NONE: Self = Self(u32::MAX);

            #[inline(always)]
            fn from_number(number: u32) -> Self {
                Self(number)
            }

            #[inline(always)]
            fn number(self) -> u32 {
                self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::NONE
            }
        }
    };
    ($(#[$doc:meta])* $name:ident of $id:ident) => {
        slot_index! { $(#[$doc])* $name }

        impl $name {
            /// The slot that an identifier names; its generation is not checked.
            #[inline(always)]
            pub(crate) const fn of(id: $id) -> Self {
                Self(id.slot())
            }

            /// The identifier of this slot in `generation`.
            #[inline(always)]
            pub(crate) const fn id(self, generation: u32) -> $id {
                $id::new(self.0, generation)
            }
        }
    };
}

slot_index! {
    /// A peer in the table.
    PeerSlot of PeerId
}
slot_index! {
    /// A connection: the state of a peer with traffic.
    ConnSlot
}
slot_index! {
    /// An operation that sends packets.
    OpSlot of OpId
}
slot_index! {
    /// A posted receive, a slice of a multi-receive buffer, or an event of a remote write.
    RecvSlot of RecvId
}
slot_index! {
    /// A stored message.
    StoredSlot of UnexpectedId
}
slot_index! {
    /// A message of several packets that is arriving.
    AssemblySlot
}
slot_index! {
    /// A memory region.
    RegionSlot of RegionId
}
slot_index! {
    /// A chunk of packet records.
    ChunkSlot
}
slot_index! {
    /// A page of a large send window: chunks of packet records.
    PageSlot
}
slot_index! {
    /// A page of a large receive window: bits of packets.
    BitsSlot
}

static_assertions::assert_eq_size!(PeerSlot, u32);
