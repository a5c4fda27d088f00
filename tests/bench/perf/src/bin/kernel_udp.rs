// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of `xdp-perf` over plain UDP sockets: the cost of the kernel's own path,
//! without a protocol.

use std::process::ExitCode;

use ofi_xdp_bench::transport::{UdpConfig, UdpTransport};
use ofi_xdp_perf::cli;

fn main() -> ExitCode {
    cli::main::<UdpTransport, UdpConfig>()
}
