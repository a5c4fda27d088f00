// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of `perf` over bare AF_XDP sockets, configured as the provider configures its
//! own: the floor under the provider.

use std::process::ExitCode;

use ofi_xdp_examples::cli;
use ofi_xdp_examples::transport::{RawConfig, RawTransport};

fn main() -> ExitCode {
    cli::main::<RawTransport, RawConfig>()
}
