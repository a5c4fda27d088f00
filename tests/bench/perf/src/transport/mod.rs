// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transports without libfabric: the kernel's sockets, and bare AF_XDP sockets.

mod gso;
mod raw;
mod udp;

use std::time::Duration;

pub use gso::{GsoConfig, GsoTransport};
pub use raw::{RawConfig, RawMode, RawPending, RawTransport};
pub use udp::{UdpConfig, UdpTransport};

/// Sleep of a receiver without messages that may not spin.
const DOZE: Duration = Duration::from_micros(50);

/// Yields the processor for a moment.
fn doze() {
    std::thread::sleep(DOZE);
}
