// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of `perf` over bare AF_XDP sockets, with the provider's configuration: the
//! lower bound of the provider's cost.

use std::process::ExitCode;

use ofi_xdp_perf::cli;
use ofi_xdp_perf::transport::{RawConfig, RawTransport};

fn main() -> ExitCode {
    cli::main::<RawTransport, RawConfig>()
}
