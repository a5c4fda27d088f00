// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the provider, the examples and the lab, and leaves the provider under its own name.
//!
//! In: how far to optimise. Out: `target/provider/libxdp-fi.so`, replaced in one step, so that a
//! process that has the old one loaded keeps it, and the paths of the programs. Called by most
//! tasks: tests take the plain build, who installs or measures takes the [`best`]. Cargo names a
//! library `libxdp_fi.so`; libfabric loads files whose name ends in `-fi.so` (fabric(7)).

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::workspace::Workspace;
use crate::{guided, setup};

/// The name libfabric finds.
pub(crate) const PROVIDER_FILE: &str = "libxdp-fi.so";

/// The cargo target that becomes [`PROVIDER_FILE`].
const PROVIDER_TARGET: &str = "xdp_fi";

/// Always built together: another selection could give a shared dependency other features, and what
/// is tested would not be what was built.
const PACKAGES: &[&str] =
    &["ofi-xdp-ffi", "ofi-xdp-broker", "ofi-xdp-examples", "ofi-xdp-tests", "ofi-xdp-guest"];

/// How far to optimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As cargo does.
    Release,
    /// Not at all.
    Debug,
    /// Guided by a profile of the provider at work (`guided.rs`).
    Guided,
}

/// What a build left.
#[derive(Debug)]
pub(crate) struct Built {
    /// `target/provider/libxdp-fi.so`.
    pub(crate) provider: PathBuf,
    /// Path of each program, by name.
    pub(crate) programs: BTreeMap<String, PathBuf>,
    /// The folder of those programs that are guided, too.
    pub(crate) guided: Option<PathBuf>,
}

/// Sets up and builds what runs fastest: guided, or, where that cannot be had, said why, as cargo
/// does.
pub(crate) fn best(workspace: &Workspace) -> Result<Built> {
    build(workspace, Profile::Guided).or_else(|error| {
        eprintln!("not guided by a profile, so slower than it can be: {error:#}");
        build(workspace, Profile::Release)
    })
}

/// Sets up, builds, and installs the provider in `target/provider`.
pub(crate) fn build(workspace: &Workspace, profile: Profile) -> Result<Built> {
    setup::ensure(&[setup::Purpose::Build])?;
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--lib", "--bins"]);
    for package in PACKAGES {
        cargo.args(["--package", package]);
    }
    if profile != Profile::Debug {
        cargo.arg("--release");
    }
    let Artifacts { library, programs } = run_cargo(&mut cargo)?;
    let library = library.context("cargo built no cdylib xdp_fi: see ffi/Cargo.toml")?;
    let provider = workspace.provider_dir().join(PROVIDER_FILE);
    let mut built = Built { provider, programs, guided: None };
    if profile == Profile::Guided {
        let guided = guided::build(workspace, &built)?;
        replace(&guided.provider, &built.provider)?;
        built.guided = Some(guided.programs);
    } else {
        replace(&library, &built.provider)?;
    }
    Ok(built)
}

/// Runs a build, and collects what it made.
pub(crate) fn run_cargo(cargo: &mut Command) -> Result<Artifacts> {
    cargo.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut child = cargo.spawn().context("cargo did not start")?;
    let mut artifacts = Artifacts::default();
    for line in BufReader::new(child.stdout.take().context("cargo has no output")?).lines() {
        artifacts.read(&line?);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("the build failed ({status}): see above");
    }
    Ok(artifacts)
}

/// What cargo's messages say it made.
#[derive(Debug, Default)]
pub(crate) struct Artifacts {
    /// The provider.
    pub(crate) library: Option<PathBuf>,
    /// Each program, by name.
    pub(crate) programs: BTreeMap<String, PathBuf>,
}

impl Artifacts {
    /// Takes in one line of `--message-format=json`; lines of other kinds change nothing.
    fn read(&mut self, line: &str) {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return };
        if message["reason"] != "compiler-artifact" {
            return;
        }
        let name = message["target"]["name"].as_str().unwrap_or_default();
        if let Some(program) = message["executable"].as_str() {
            self.programs.insert(name.to_owned(), program.into());
        } else if name == PROVIDER_TARGET {
            let files = message["filenames"].as_array().into_iter().flatten();
            if let Some(library) = files.filter_map(Value::as_str).find(|one| one.ends_with(".so"))
            {
                self.library = Some(library.into());
            }
        }
    }
}

/// Puts a copy of `from` at `to` in one step: a reader sees the old file or the new one, never
/// half.
pub(crate) fn replace(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("a file has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // libfabric loads every file of the folder that ends in `fi.so`: this one does not.
    let part = to.with_extension(format!("part-{}", std::process::id()));
    fs::copy(from, &part)
        .and_then(|_| fs::rename(&part, to))
        .with_context(|| format!("cannot write {}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_found_among_cargos_messages() {
        let mut artifacts = Artifacts::default();
        for line in [
            r#"{"reason":"compiler-artifact","target":{"name":"xdp_fi"},"filenames":
                ["/t/libxdp_fi.so","/t/libxdp_fi.rlib"],"executable":null}"#,
            r#"{"reason":"compiler-artifact","target":{"name":"ofi-xdp-lab"},
                "filenames":["/t/ofi-xdp-lab"],"executable":"/t/ofi-xdp-lab"}"#,
            r#"{"reason":"build-script-executed","target":{"name":"xdp_fi"}}"#,
            "not json",
        ] {
            artifacts.read(line);
        }
        assert_eq!(artifacts.library.as_deref(), Some(Path::new("/t/libxdp_fi.so")));
        assert_eq!(artifacts.programs["ofi-xdp-lab"], Path::new("/t/ofi-xdp-lab"));
        assert_eq!(artifacts.programs.len(), 1);
    }

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let folder = std::env::temp_dir().join(format!("xtask-replace-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to/libx-fi.so"));
        fs::create_dir_all(&folder).unwrap();
        for text in ["one", "two"] {
            fs::write(&from, text).unwrap();
            replace(&from, &to).unwrap();
            assert_eq!(fs::read_to_string(&to).unwrap(), text);
        }
        assert_eq!(fs::read_dir(folder.join("to")).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
