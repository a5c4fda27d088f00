// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of `perf` over plain UDP sockets: what the kernel's own path costs, without a
//! protocol.

use std::process::ExitCode;

use ofi_xdp_examples::cli;
use ofi_xdp_examples::transport::{UdpConfig, UdpTransport};

fn main() -> ExitCode {
    cli::main::<UdpTransport, UdpConfig>()
}
