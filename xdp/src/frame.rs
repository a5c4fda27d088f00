// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may touch which part of the UMEM.
//!
//! One [`Frame`] is made for each frame of the UMEM when it is mapped, and moves ever after: to a
//! ring, back from a ring, through the port's free list. Whoever holds it owns the frame's bytes.

use rustix::net::xdp::{XdpDesc, XdpDescOptions};

/// The right to one frame of the UMEM. Neither `Copy` nor `Clone`, and nobody but `umem.rs` and
/// `rings.rs` can look inside or make one.
#[derive(Debug)]
pub(crate) struct Frame(pub(super) XdpDesc);

impl Frame {
    /// Whether the packet that begins or goes on in this received frame goes on in the next.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.0.options.contains(XdpDescOptions::XDP_PKT_CONTD)
    }
}
