// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of `perf` over one-sided operations of libfabric. A message is an RMA write
//! with remote CQ data, a block of a read stream an RMA read.

use std::process::ExitCode;

use ofi_xdp_perf::cli;
use ofi_xdp_perf::transport::{RmaConfig, RmaTransport};

fn main() -> ExitCode {
    cli::main::<RmaTransport, RmaConfig>()
}
