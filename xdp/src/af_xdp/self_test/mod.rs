// SPDX-License-Identifier: MIT OR Apache-2.0
//! Self-test of a bound socket: some drivers bind, and then move no packets.
//!
//! In: a bound socket, neighbours on its link. Out: `Ok`, or a
//! [`SelfTestError`](crate::error::SelfTestError). Caller: `af_xdp/open.rs`, once for each port
//! that opens. Bounds: the time limits of the two tests.
//!
//! | file | contents |
//! |---|---|
//! | `transmit_test.rs` | a frame given to the tx ring leaves |
//! | `bound_socket.rs` | the transmit test on a real socket |
//! | `receive_test.rs` | packets still arrive with the socket bound |
//! | `neighbours.rs` | the receive test with the kernel's neighbours |

pub(crate) mod bound_socket;
pub(crate) mod neighbours;
mod receive_test;
mod transmit_test;
