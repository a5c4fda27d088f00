// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that are a tool and its command line: rustfmt, clippy, rustdoc, typos.
//!
//! In: the workspace. Out: the tool's result, its complaints on the terminal. Called by
//! [`crate::test`] with `--all`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::fuzz;
use crate::setup::{self, Purpose};
use crate::stage::Outcome;
use crate::workspace::{Workspace, find_command};

/// The release of typos that is installed; another would know other words.
const TYPOS: &str = "typos==1.52.0";

/// Packages that are workspaces of their own, because they are compiled with other flags.
const APART: [&str; 2] = ["tests/engine/fuzz", "tests/engine/no_std"];

/// `cargo fmt` would change nothing.
pub(crate) fn format(workspace: &Workspace) -> Result<Outcome> {
    for folder in [""].iter().chain(&APART) {
        let mut cargo = workspace.cargo();
        cargo.current_dir(workspace.root().join(folder)).args(["fmt", "--all", "--check"]);
        let advice = format!("`cargo fmt --all` in ./{folder} mends it");
        must_succeed(cargo, &advice)?;
    }
    Ok(Outcome::Passed)
}

/// No lint fires, in any target of the workspace and of the fuzz targets.
pub(crate) fn clippy(workspace: &Workspace) -> Result<Outcome> {
    let lints = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    let mut cargo = workspace.cargo();
    cargo.args(lints);
    must_succeed(cargo, "see the lints above")?;
    setup::ensure(&[Purpose::Fuzz])?;
    let mut cargo = workspace.cargo();
    cargo.current_dir(workspace.root().join(fuzz::PACKAGE)).args(lints);
    cargo.env("CARGO_TARGET_DIR", workspace.target_dir());
    // Nothing is linked, so no libFuzzer is compiled: libfuzzer-sys takes any file for it.
    cargo.env("CUSTOM_LIBFUZZER_PATH", workspace.root().join("Cargo.toml"));
    must_succeed(cargo, "see the lints above")
}

/// The documentation builds, private items too, and every link in it resolves.
pub(crate) fn docs(workspace: &Workspace) -> Result<Outcome> {
    let mut cargo = workspace.cargo();
    cargo.args(["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"]);
    // Links to private items are good links where private items are documented.
    cargo.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
    must_succeed(cargo, "see the warnings above")
}

/// No word that typos knows to be misspelt.
pub(crate) fn spelling(workspace: &Workspace) -> Result<Outcome> {
    let mut typos = Command::new(typos(workspace)?);
    typos.current_dir(workspace.root()).args(["--config", "typos.toml"]);
    must_succeed(typos, "`target/tools/bin/typos --write-changes` mends them")
}

/// The checker on the search path, or one installed in `target/tools` now.
fn typos(workspace: &Workspace) -> Result<PathBuf> {
    let tools = workspace.tools_dir();
    let installed = tools.join("bin/typos");
    if let Some(found) = find_command("typos") {
        return Ok(found);
    }
    if installed.exists() {
        return Ok(installed);
    }
    setup::ensure(&[Purpose::Check])?;
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(&tools);
    must_succeed(venv, "python3 cannot make a virtual environment")?;
    let mut pip = Command::new(tools.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", TYPOS]);
    must_succeed(pip, "pip cannot install typos")?;
    Ok(installed)
}

fn must_succeed(mut command: Command, advice: &str) -> Result<Outcome> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("{name} did not start"))?;
    if !status.success() {
        bail!("{advice} ({status})");
    }
    Ok(Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_tool_is_a_failure_with_advice() {
        assert!(must_succeed(Command::new("true"), "").is_ok());
        let error = must_succeed(Command::new("false"), "mend it so").unwrap_err().to_string();
        assert!(error.contains("mend it so"), "{error}");
        assert!(must_succeed(Command::new("no-such-command-anywhere"), "").is_err());
    }
}
