// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of `perf` over kernel UDP with segmentation offload both ways: the kernel's own
//! path at its best, without a protocol.

use std::process::ExitCode;

use ofi_xdp_examples::cli;
use ofi_xdp_examples::transport::{TrainConfig, TrainTransport};

fn main() -> ExitCode {
    cli::main::<TrainTransport, TrainConfig>()
}
