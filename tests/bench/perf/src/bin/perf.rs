// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency, message rate and bandwidth of a libfabric provider, optionally with every byte checked.
//!
//! `perf server` on one machine, `perf client HOST:7471 --provider xdp` on another.

use std::process::ExitCode;

use ofi_xdp_libfabric::Wait;
use ofi_xdp_perf::cli;
use ofi_xdp_perf::transport::{FabricConfig, FabricTransport};

#[derive(Debug, clap::Args)]
struct Arguments {
    /// The provider, by its full name: xdp, tcp, "tcp;`ofi_rxm`"
    #[arg(long, default_value = "xdp", value_name = "NAME")]
    provider: String,
    /// Untagged messages instead of tagged ones
    #[arg(long)]
    untagged: bool,
    /// Untagged messages over a connection (`FI_EP_MSG`), also where there are datagrams
    #[arg(long)]
    connected: bool,
    /// Never inject small messages
    #[arg(long)]
    no_inject: bool,
    /// Require a provider with automatic progress
    #[arg(long)]
    auto_progress: bool,
    /// How to wait for completions
    #[arg(long, default_value = "spin", value_parser = parse_wait, value_name = "spin|sread|fd")]
    wait: Wait,
}

fn parse_wait(text: &str) -> Result<Wait, String> {
    match text {
        "spin" => Ok(Wait::Spin),
        "sread" => Ok(Wait::Sread),
        "fd" => Ok(Wait::Fd),
        other => Err(format!("{other:?} is none of spin, sread and fd")),
    }
}

impl From<Arguments> for FabricConfig {
    fn from(arguments: Arguments) -> Self {
        Self {
            provider: arguments.provider,
            tagged: !(arguments.untagged || arguments.connected),
            connected: arguments.connected,
            wait: arguments.wait,
            inject: !arguments.no_inject,
            auto_progress: arguments.auto_progress,
        }
    }
}

fn main() -> ExitCode {
    cli::main::<FabricTransport, Arguments>()
}
