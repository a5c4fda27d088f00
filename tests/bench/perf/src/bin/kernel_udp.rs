// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of `perf` over plain UDP sockets: the cost of the kernel's own path, without a
//! protocol.

use std::process::ExitCode;

use ofi_xdp_perf::cli;
use ofi_xdp_perf::transport::{UdpConfig, UdpTransport};

fn main() -> ExitCode {
    cli::main::<UdpTransport, UdpConfig>()
}
