// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xdp-run`: starts a program, or an MPI launcher, on the xdp provider.
//!
//! In: a name, a tier, an interface, and a program. Out: the program in place of this one, with the
//! environment for it: its signals and its exit status are its own. A child asks for the offers in
//! that environment first. Bound: one child.
#![deny(unsafe_code)]

mod check;
mod cli;
mod environment;
mod offers;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Parser as _};

use crate::cli::RunArguments;
use crate::environment::Environment;
use crate::offers::Offer;

/// The exit status of a failure of this program, as of env(1).
const FAILED: u8 = 125;
const NOT_STARTED: u8 = 126;
const NOT_FOUND: u8 = 127;

fn main() -> ExitCode {
    let cli = match RunArguments::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { FAILED } else { 0 });
        }
    };
    run(&cli).unwrap_or_else(|error| {
        eprintln!("xdp-run: {error:#}");
        ExitCode::from(FAILED)
    })
}

fn run(cli: &RunArguments) -> Result<ExitCode> {
    if let Some(provider) = &cli.offers {
        println!("{}", serde_json::to_string(&offers::here(provider)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(shell) = cli.completions {
        let (mut command, mut output) = (RunArguments::command(), std::io::stdout());
        clap_complete::generate(shell, &mut command, "xdp-run", &mut output);
        return Ok(ExitCode::SUCCESS);
    }
    let environment = Environment::new(cli.name, cli.tier, cli.nic.as_deref());
    if cli.check {
        return check::run(cli, &environment);
    }
    let (program, arguments) = cli.program.split_first().context("no program")?;
    let found = offers::in_environment(&environment, cli.name)?;
    anyhow::ensure!(!found.is_empty(), "{}", cli.nothing());
    if cli.verbose {
        eprintln!("xdp-run: {}: {}; {environment}", cli.name.text(), summary(&found));
    }
    let mut command = Command::new(program);
    let error = command.args(arguments).envs(environment.variables()).exec();
    eprintln!("xdp-run: {}: {error}", Path::new(program).display());
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    Ok(ExitCode::from(if missing { NOT_FOUND } else { NOT_STARTED }))
}

/// The interfaces, each with its tier, in the order of the offers.
fn summary(offers: &[Offer]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for offer in offers {
        let part = format!("{} ({})", offer.domain, offer.tier());
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join(", ")
}
