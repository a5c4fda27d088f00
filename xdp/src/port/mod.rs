// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port of an endpoint: an `AF_XDP` socket where possible, and always a kernel UDP socket.
//!
//! In: a [`PortConfig`](crate::PortConfig). Out: a [`HybridPort`](hybrid::HybridPort). Caller: the
//! provider. Bounds: those of the two halves.
//!
//! | file | contents |
//! |---|---|
//! | `hybrid.rs` | chooses the path of each packet, and receives from both |
//! | `open.rs` | opens both halves |
//! | `xdp_half.rs` | the `AF_XDP` half: sockets, routes, kernel batches |
//! | `xsk_ports.rs` | the `AF_XDP` sockets, one or one on each of several queues |
//! | `other_queue.rs` | packets that come by queues without a socket |
//! | `kernel_batch.rs` | which packets leave in GSO batches beside `AF_XDP` |
//! | `announce.rs` | tells neighbours a changed link-layer address |
//! | `hybrid/failover.rs` | the loss of the `AF_XDP` half, and its return |
//! | `attachment_check.rs` | whether the XDP program is still attached |
//! | `recovery.rs` | the thread that opens it again |
//! | `reopen.rs` | its attempts, on the interface by which packets come now |
//! | `wakeup_set.rs` | the descriptor that a sleeper waits on |

mod announce;
mod attachment_check;
pub(crate) mod hybrid;
mod kernel_batch;
pub(crate) mod open;
mod other_queue;
mod recovery;
mod reopen;
mod wakeup_set;
mod xdp_half;
mod xsk_ports;
