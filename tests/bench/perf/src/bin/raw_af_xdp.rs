// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of `xdp-perf` over bare AF_XDP sockets, with the provider's configuration: the
//! lower bound of the provider's cost.

use std::process::ExitCode;

use ofi_xdp_bench::transport::{RawConfig, RawTransport};
use ofi_xdp_perf::cli;

fn main() -> ExitCode {
    cli::main::<RawTransport, RawConfig>()
}
