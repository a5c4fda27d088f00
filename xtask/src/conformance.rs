// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask conformance`: the promises of libfabric's man pages, on this or another provider.
//!
//! In: the arguments of `tests/conformance`, and which libfabric. Out: its lines and counts. Our
//! provider is the one that was built, on kernel sockets and the loopback interface. So a run needs
//! no privilege: libfabric's interface is under test. Over AF_XDP the lab runs the suite between
//! two hosts. libfabric 2 is Debian 13's; the tests of package `ffi` fetch it into the target
//! folder.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};

use crate::artifacts::LAB;
use crate::build::{self, Profile};
use crate::lab;
use crate::process::variable;
use crate::suite::{self, Counts};
use crate::workspace::{Privilege, Workspace};

const PACKAGE: &str = "ofi-xdp-conformance";

/// Which libfabric the suite runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Libfabric {
    /// The installed one.
    Installed,
    /// Debian 13's libfabric 2.
    Two,
}

/// How its packets travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tier<'a> {
    /// Kernel sockets, on the loopback interface.
    KernelUdp,
    /// AF_XDP, between two hosts.
    AfXdp,
    /// As this stand-in for a hardware provider has it, which is tested beside it.
    Passthrough(&'a str),
}

/// Names the folder of another libfabric to the suite.
const LIBRARIES: &str = "CONFORMANCE_LIBRARIES";

/// The pages that are tested over AF_XDP too. Each test attaches and detaches the XDP program,
/// which takes half a second.
const PAGES_WITH_PACKETS: [&str; 8] = [
    "fi_msg::",
    "fi_tagged::",
    "fi_rma::",
    "fi_atomic::",
    "fi_multi_recv::",
    "fi_join::",
    "traps::",
    "wakeups::",
];

/// Builds the suite alone.
pub(crate) fn suite(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--package", PACKAGE]);
    ensure!(cargo.status()?.success(), "{PACKAGE} does not build: see above");
    Ok(workspace.target_dir().join("release").join(PACKAGE))
}

/// The folder with libfabric 2 and its C library, if it has been fetched.
fn libfabric_2(workspace: &Workspace) -> Option<PathBuf> {
    let products = ["debug", "release"].map(|profile| workspace.target_dir().join(profile));
    let folders = products.map(|folder| {
        folder.join("deps/libfabric-tests/debian-13/root").join("usr/lib/x86_64-linux-gnu")
    });
    folders.into_iter().find(|folder| folder.join("libfabric.so.1").exists())
}

/// The command that runs the suite, or `None` where libfabric 2 has not been fetched.
fn command(workspace: &Workspace, libfabric: Libfabric, tier: Tier<'_>) -> Result<Option<Command>> {
    let built = build::build(workspace, Profile::Release)?;
    let program = suite(workspace)?;
    let libraries = match libfabric {
        Libfabric::Installed => None,
        Libfabric::Two => match libfabric_2(workspace) {
            None => return Ok(None),
            libraries => libraries,
        },
    };
    if tier != Tier::AfXdp {
        let mut command = Command::new(&program);
        command.envs(libraries.map(|folder| (LIBRARIES, folder)));
        command.env("FI_PROVIDER_PATH", workspace.provider_dir());
        command.env("FI_XDP_IFACE", "lo");
        match tier {
            Tier::Passthrough(stand_in) => command.args(["--passthrough", stand_in]),
            _ => command.env("FI_XDP_TIER", "udp"),
        };
        return Ok(Some(command));
    }
    let lab = built.programs.get(LAB).context("the build made no ofi-xdp-lab")?;
    let privilege = Privilege::for_network();
    let mut command = privilege.command("env").context(
        "over AF_XDP the suite runs between network namespaces: be root, or install sudo",
    )?;
    lab::hand_over(&mut command, workspace);
    if let Some(folder) = libraries {
        command.arg(variable(LIBRARIES, folder.as_os_str()));
    }
    command.arg(lab).arg("conformance").arg(program);
    Ok(Some(command))
}

/// The pages that CI tests through passthrough. Passthrough adds set-up and names and nothing to a
/// transfer: one page is about the former, one about transfers.
const PAGES_OF_PASSTHROUGH: [&str; 2] = ["fi_fabric::", "fi_rma::"];

/// Runs a part of it through passthrough, and counts the tests that come out no worse; `None` where
/// this libfabric is not there.
pub(crate) fn count_through(
    workspace: &Workspace,
    libfabric: Libfabric,
    stand_in: &str,
) -> Result<Option<Counts>> {
    let Some(mut command) = command(workspace, libfabric, Tier::Passthrough(stand_in))? else {
        return Ok(None);
    };
    for page in PAGES_OF_PASSTHROUGH {
        command.args(["--filter", page]);
    }
    suite::run(command).map(Some)
}

/// The profiles of applications, which CI plays under the name `tcp` too.
const APPLICATIONS: [&str; 7] =
    ["mpich::", "open_mpi::", "openshmem::", "nixl::", "mxl::", "nccl::", "mercury::"];

/// Plays the profiles of applications under the name `tcp`, and counts; `None` where this libfabric
/// is not there.
pub(crate) fn count_as_tcp(workspace: &Workspace, libfabric: Libfabric) -> Result<Option<Counts>> {
    let Some(mut command) = command(workspace, libfabric, Tier::KernelUdp)? else {
        return Ok(None);
    };
    command.env("FI_XDP_NAME", "tcp").args(["--provider", "tcp", "--complete"]);
    for application in APPLICATIONS {
        command.args(["--filter", application]);
    }
    suite::run(command).map(Some)
}

/// Runs it with the arguments of a person.
pub(crate) fn exec(
    workspace: &Workspace,
    libfabric: Libfabric,
    tier: Tier<'_>,
    arguments: &[OsString],
) -> Result<ExitCode> {
    let command = command(workspace, libfabric, tier)?;
    let mut command = command.context(
        "libfabric 2 is fetched by `cargo xtask test libfabric_2`: it is not there (yet)",
    )?;
    let status = command.args(arguments).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the tests that move packets over AF_XDP, and counts.
pub(crate) fn count_over_af_xdp(workspace: &Workspace) -> Result<Counts> {
    let command = command(workspace, Libfabric::Installed, Tier::AfXdp)?;
    let mut command = command.context("no suite")?;
    for page in PAGES_WITH_PACKETS {
        command.args(["--filter", page]);
    }
    suite::run(command)
}

/// Runs all of it, and counts; `None` where this libfabric is not there.
pub(crate) fn count(workspace: &Workspace, libfabric: Libfabric) -> Result<Option<Counts>> {
    let Some(command) = command(workspace, libfabric, Tier::KernelUdp)? else { return Ok(None) };
    suite::run(command).map(Some)
}
