// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promises of libfabric's man pages, one test each, for any provider.
//!
//! In: a provider's name. Out: the promises that it keeps, those that it breaks, and the features
//! that it does not offer. The tests are in [`man`], a module for each page in the page's order,
//! and in [`traps`], for known errors of providers. They use libfabric alone. So a test can also
//! run against another provider, to check the test itself.
//!
//! The profiles of applications are in [`applications`].
//!
//! [`fi`] has libfabric's calls as methods, [`group`] connected endpoints, [`runner`] a process for
//! each test, [`compare`] a comparison of all tests through passthrough.
#![deny(unsafe_code)]

mod applications;
mod compare;
mod connected;
mod group;
mod host;
mod man;
mod peer;
#[allow(unsafe_code)]
mod process;
mod runner;
mod traps;
mod waiting;
mod wakeups;
mod world;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use ofi_xdp_libfabric::raw::{self as fi, abi};

use crate::host::Host;
use crate::runner::{Plan, SLOW, Test};
use crate::world::World;

/// Tests the promises of libfabric's man pages on a provider.
#[derive(Debug, Parser)]
struct Cli {
    /// The provider, as in hints: xdp, tcp, sockets, tcp;`ofi_rxm`
    #[arg(long, default_value = "xdp")]
    provider: String,
    /// Run each test on this provider, and on xdp passing through to it: xdp must do no worse
    #[arg(long, value_name = "PROVIDER", conflicts_with_all = ["provider", "json", "other"])]
    passthrough: Option<String>,
    /// The local address; none for providers without IP addresses
    #[arg(long, default_value = "127.0.0.1")]
    node: String,
    /// The host of every second endpoint, where this is not the only one
    #[arg(long, value_name = "NAMESPACE=ADDRESS")]
    other: Option<Host>,
    /// Append the log of libfabric and the provider to this file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Only tests with one of these in their names
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// Print the names of the tests and run none
    #[arg(long)]
    list: bool,
    /// A feature that is not offered is a failure
    #[arg(long)]
    complete: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Also tests that take long or much memory
    #[arg(long)]
    slow: bool,
    /// Tests at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Seconds that a test may take
    #[arg(long, default_value_t = 30)]
    limit: u64,
    /// Run this test in this process
    #[arg(long, value_name = "NAME", hide = true)]
    here: Option<String>,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<ExitCode> {
    let all = man::all();
    let node = Some(cli.node.clone()).filter(|node| !node.is_empty() && cli.provider != "shm");
    let world = World { provider: cli.provider.clone(), node, other: cli.other.clone() };
    if let Ok(behaviour) = std::env::var(peer::BEHAVIOUR) {
        return peer::run(&world, &behaviour).map(|()| ExitCode::SUCCESS);
    }
    if let Some(name) = &cli.here {
        let test = all.iter().find(|test| test.name == name).context("no such test")?;
        return Ok(runner::run_here(test, &world));
    }
    let wanted = |test: &&Test| {
        let named = cli.filter.iter().any(|text| test.name.contains(text.as_str()));
        let slow = test.name.contains(SLOW);
        if cli.filter.is_empty() { cli.slow || !slow } else { named && (cli.slow || !slow) }
    };
    let chosen: Vec<&'static Test> = all.into_iter().filter(wanted).collect();
    if cli.list {
        chosen.iter().for_each(|test| println!("{}", test.name));
        return Ok(ExitCode::SUCCESS);
    }
    if chosen.is_empty() {
        bail!("no test has such a name; --list shows them all");
    }
    let Some(stand_in) = &cli.passthrough else {
        let accepted = match cli.complete {
            true => Some(BTreeSet::new()),
            false => accepted(&cli.provider)?,
        };
        return runner::run_all(&chosen, &Plan { accepted, ..plan(cli, &cli.provider)? });
    };
    let tier = ("FI_XDP_TIER", "passthrough".to_owned());
    let environment = vec![tier, ("FI_XDP_PASSTHROUGH", stand_in.clone())];
    let through = Plan { environment, ..plan(cli, &cli.provider)? };
    compare::run(&chosen, &plan(cli, stand_in)?, &through)
}

/// The plan for the tests on `provider`, which may leave out any optional feature.
fn plan(cli: &Cli, provider: &str) -> Result<Plan> {
    let log = cli.log.as_ref().map(|path| File::options().create(true).append(true).open(path));
    Ok(Plan {
        jobs: cli.jobs,
        limit: Duration::from_secs(cli.limit),
        json: cli.json,
        arguments: arguments(cli, provider),
        environment: Vec::new(),
        log: log.transpose().context("the log")?.map(Mutex::new),
        accepted: None,
    })
}

/// Arguments by which a child tests the same provider.
fn arguments(cli: &Cli, provider: &str) -> Vec<String> {
    let mut arguments = ["--provider", provider, "--node", &cli.node].map(str::to_owned).to_vec();
    if let Some(host) = &cli.other {
        arguments.extend(["--other".to_owned(), host.to_string()]);
    }
    arguments
}

/// The tests that this provider may leave out, from a list with a name in each line and `#`
/// comments; none without a list.
fn accepted(provider: &str) -> Result<Option<BTreeSet<String>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("not-offered");
    let file = folder.join(format!("{provider}.txt"));
    if !file.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let names = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let names: BTreeSet<String> =
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let known: BTreeSet<&str> = man::all().iter().map(|test| test.name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name.as_str())) {
        bail!("{}: there is no test {unknown}", file.display());
    }
    Ok(Some(names))
}
