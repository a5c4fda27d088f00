// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may touch which part of the UMEM.
//!
//! One [`Frame`] is made for each frame of the UMEM when it is created, and moves ever after: to a
//! ring, back from a ring, through the port's free list. Whoever holds it owns the frame's bytes.

use xsk_rs::FrameDesc;

/// The right to one frame of the UMEM. Neither `Copy` nor `Clone`, and nobody but `umem.rs` and
/// `rings.rs` can look inside or make one.
#[derive(Debug)]
pub(crate) struct Frame(pub(super) FrameDesc);

impl Frame {
    /// Whether the packet that begins or goes on in this received frame goes on in the next.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.0.has_more_frames()
    }
}
