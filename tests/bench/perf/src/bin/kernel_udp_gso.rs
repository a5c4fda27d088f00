// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of `xdp-perf` over kernel UDP with GSO and GRO: the kernel's own path at its
//! best, without a protocol.

use std::process::ExitCode;

use ofi_xdp_bench::transport::{GsoConfig, GsoTransport};
use ofi_xdp_perf::cli;

fn main() -> ExitCode {
    cli::main::<GsoTransport, GsoConfig>()
}
