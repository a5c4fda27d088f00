// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `xdp-run`.
//!
//! In: arguments. Out: [`RunArguments`]. Called by `main`. Bound: the arguments of a process.

use std::ffi::OsString;

use clap::{Parser, ValueEnum};
use clap_complete::Shell;

/// Starts a program, or an MPI launcher, on the xdp provider of libfabric.
#[derive(Debug, Parser)]
#[command(name = "xdp-run", version, after_help = AFTER_HELP)]
pub(crate) struct RunArguments {
    /// The provider's name for the program: tcp for NIXL, MXL and Mercury, which look for it; every
    /// host must do it
    #[arg(long = "as", value_name = "NAME", value_enum, default_value_t = ProviderName::Xdp)]
    pub(crate) name: ProviderName,
    /// The tiers to offer: everything, hardware, AF_XDP or kernel sockets alone
    #[arg(long, value_enum)]
    pub(crate) tier: Option<WantedTier>,
    /// The only network interface to offer
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) nic: Option<String>,
    /// Print the offers and the variables in one line
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print the state of interfaces and host, and commands that better it; start nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// Measure the path to a host on which xdp-perf waits, HOST or HOST:PORT, and print each
    /// obstacle
    #[arg(long, requires = "check", value_name = "ADDRESS")]
    pub(crate) peer: Option<String>,
    /// Print the table of --check as JSON
    #[arg(long, requires = "check")]
    pub(crate) json: bool,
    /// Print the offers of this environment as JSON
    #[arg(long, hide = true)]
    pub(crate) offers: Option<String>,
    /// Print the completions of this shell
    #[arg(long, hide = true, value_name = "SHELL")]
    pub(crate) completions: Option<Shell>,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        value_name = "PROGRAM",
        required_unless_present_any = ["check", "offers", "completions"]
    )]
    pub(crate) program: Vec<OsString>,
}

const AFTER_HELP: &str = "The exit status is the program's; 125 if xdp-run fails, 126 if the \
                          program cannot be started, 127 if there is none of this name. See \
                          xdp-run(1).";

/// A name of the provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ProviderName {
    /// Its own
    Xdp,
    /// That of libfabric's own provider, which it replaces
    Tcp,
}

/// The tiers to offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum WantedTier {
    /// Everything, the best first
    Auto,
    /// Hardware providers
    Passthrough,
    /// Interfaces with AF_XDP
    AfXdp,
    /// Kernel UDP sockets
    Udp,
}

impl ProviderName {
    /// The value of the variable.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::Tcp => "tcp",
        }
    }
}

impl WantedTier {
    /// The value of the variable.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Passthrough => "passthrough",
            Self::AfXdp => "af_xdp",
            Self::Udp => "udp",
        }
    }
}

impl RunArguments {
    /// The message about an empty list of offers. The reason is the provider's line.
    pub(crate) fn nothing(&self) -> String {
        let tier = self.tier.map(|tier| format!(" --tier {}", tier.text())).unwrap_or_default();
        let nic = self.nic.as_ref().map(|nic| format!(" --nic {nic}")).unwrap_or_default();
        format!(
            "the provider offers nothing for --as {}{tier}{nic}; `xdp-run --check` shows what it \
             can, `FI_LOG_LEVEL=info fi_info -p {}` why not",
            self.name.text(),
            self.name.text()
        )
    }
}
