// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port over an `AF_XDP` socket: headers, frames, wake-ups, and the self-test of the driver.
//!
//! In: an interface, a mode, the endpoint's address. Out: an [`XskPort`](port::XskPort). Caller:
//! the hybrid port. Bounds: those of the rings.
//!
//! | file | contents |
//! |---|---|
//! | `port.rs` | send and receive |
//! | `open.rs` | open the socket, map it, test it, claim the port |
//! | `multi_buffer.rs` | packets longer than a frame |
//! | `framing.rs` | headers of sent packets |
//! | `fill_level.rs` | the number of frames that the kernel has for receiving |
//! | `kernel_hint.rs` | the program's count of packets left to the kernel socket |
//! | `self_test/` | whether the driver sends and receives |

pub(crate) mod fill_level;
pub(crate) mod framing;
pub(crate) mod kernel_hint;
pub(crate) mod multi_buffer;
pub(crate) mod open;
pub(crate) mod port;
pub(crate) mod self_test;
