// SPDX-License-Identifier: MIT OR Apache-2.0
//! The raw `AF_XDP` socket (`xsk` in the kernel): memory, rings, and binding to a queue.
//!
//! In: an interface, a queue, sizes. Out: a bound socket, and UMEM chunks that move between its
//! rings. Callers: `lease`, in the provider and in the broker, and the port over it (`af_xdp`).
//! Bounds: the sizes of the rings.
//!
//! | file | contents |
//! |---|---|
//! | `socket.rs` | register memory, size rings, bind |
//! | `umem.rs` | the memory, its layout, and the token of one chunk |
//! | `rings.rs` | the fill, rx, tx and completion ring of one socket |
//! | `ring.rs` | one ring, shared with the kernel |
//! | `mapping.rs` | one `mmap(2)` |

pub(crate) mod mapping;
pub(crate) mod ring;
pub(crate) mod rings;
pub(crate) mod socket;
pub(crate) mod umem;
