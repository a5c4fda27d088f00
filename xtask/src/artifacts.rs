// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs cargo, finds the files that it made, and puts copies of them where they are used.
//!
//! In: a cargo command. Out: the paths of the library and of the programs. Called by `build.rs` and
//! `pgo.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The name of the provider that libfabric finds.
pub(crate) const PROVIDER_FILE: &str = "libxdp-fi.so";
/// The program that measures and makes load.
pub(crate) const LAB: &str = "ofi-xdp-lab";
/// The package of the engine's benchmark, and its program.
pub(crate) const ENGINE_BENCH: &str = "ofi-xdp-engine-bench";

/// The cargo target that becomes [`PROVIDER_FILE`].
const PROVIDER_TARGET: &str = "xdp_fi";

/// Runs a build and collects the files that it made.
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

/// The files that cargo reports.
#[derive(Debug, Default)]
pub(crate) struct Artifacts {
    /// The provider.
    pub(crate) library: Option<PathBuf>,
    /// Each program, by name.
    pub(crate) programs: BTreeMap<String, PathBuf>,
}

impl Artifacts {
    /// Reads one line of `--message-format=json`; lines of other kinds change nothing.
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

/// Copies `from` to `to` in one step: a reader sees the old file or the new one, whole.
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
