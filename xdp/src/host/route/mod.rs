// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes: one question to the kernel (`lookup.rs`), the next hops on the own interface
//! (`neighbours.rs`), that interface (`own_link.rs`), and the table of all peers (`table.rs`).
//!
//! In: addresses. Out: the next hop. Callers: the hybrid port for each packet, and the choice of an
//! interface. Bounds: those of the table.

pub(crate) mod lookup;
mod neighbours;
mod own_link;
pub(crate) mod table;
