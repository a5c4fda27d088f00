// SPDX-License-Identifier: MIT OR Apache-2.0
//! The licences of all that the packages contain.
//!
//! In: cargo's metadata, and the sources of each crate. Out: a file: the own
//! licence texts, then each text of others once, below the crates that it is of. Called by
//! `package`. Bound: the crates that are linked in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;
use walkdir::WalkDir;

use super::origin::{NAME, output};
use crate::workspace::Workspace;

/// The packages that are linked into the installed files.
const LINKED: [&str; 5] =
    ["ofi-xdp-ffi", "ofi-xdp-broker", "ofi-xdp-perf", "ofi-xdp-run", "ofi-xdp-top"];
/// Licence files lie at the top of a crate, or beside the C code in it.
const DEPTH: usize = 2;
/// Beginnings of their names.
const FILES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT"];
/// The line between two texts.
const RULE: &str = "------------------------------------------------------------------------";

/// The text of the file.
pub(super) fn notices(workspace: &Workspace) -> Result<String> {
    let mut text =
        format!("{NAME} is under MIT or Apache-2.0, at your choice. Its XDP program is ");
    text += "under GPL-2.0 too, which Debian has in /usr/share/common-licenses/GPL-2.\n";
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let own = fs::read_to_string(workspace.root().join(file))?;
        let _ = write!(text, "\n{RULE}\n\n{}\n", own.trim());
    }
    text += "\nThe programs contain these crates:\n\n";
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let metadata: Value = serde_json::from_str(&output(workspace.cargo().args(METADATA))?)?;
    let linked = linked(workspace)?;
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = format!("{} {}", field(package, "name"), field(package, "version"));
        // Those without a source are of this workspace.
        if !linked.contains(&name) || package["source"].is_null() {
            continue;
        }
        let _ = writeln!(text, "{name}: {}", field(package, "license"));
        let folder = Path::new(field(package, "manifest_path")).parent().context("no folder")?;
        for licence in licence_texts(folder)? {
            texts.entry(licence).or_default().insert(name.clone());
        }
    }
    for (licence, crates) in texts {
        let crates = Vec::from_iter(crates).join(", ");
        let _ = write!(text, "\n{RULE}\n{crates}:\n\n{licence}\n");
    }
    Ok(text)
}

const METADATA: [&str; 4] = ["metadata", "--format-version", "1", "--locked"];

fn field<'a>(package: &'a Value, name: &str) -> &'a str {
    package[name].as_str().unwrap_or("?")
}

/// Name and version of each crate that is compiled in; build scripts and macros are not.
fn linked(workspace: &Workspace) -> Result<BTreeSet<String>> {
    let mut cargo = workspace.cargo();
    cargo.args(["tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none"]);
    cargo.args(["--format", "{p}"]).args(LINKED.iter().flat_map(|name| ["--package", name]));
    Ok(output(&mut cargo)?.lines().filter_map(name_and_version).collect())
}

/// `name version` of a line `name vVERSION (SOURCE)`.
fn name_and_version(line: &str) -> Option<String> {
    let mut words = line.split(' ');
    Some(format!("{} {}", words.next()?, words.next()?.strip_prefix('v')?))
}

/// The licence files of a crate.
fn licence_texts(folder: &Path) -> Result<BTreeSet<String>> {
    let mut texts = BTreeSet::new();
    for entry in WalkDir::new(folder).max_depth(DEPTH) {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if entry.file_type().is_file() && FILES.iter().any(|file| name.starts_with(file)) {
            texts.insert(String::from_utf8_lossy(&fs::read(entry.path())?).trim().to_owned());
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_texts_of_linked_crates_alone() {
        let text = notices(&Workspace::open().unwrap()).unwrap();
        for wanted in ["Apache License", "\nlibc 0.2", "\nclap 4.", "Redistribution and use"] {
            assert!(text.contains(wanted), "no {wanted:?}");
        }
        // A macro, and a crate of tests.
        for other in ["\nserde_derive ", "\nproptest "] {
            assert!(!text.contains(other), "{other:?}");
        }
    }

    #[test]
    fn a_line_of_the_tree_names_a_crate() {
        assert_eq!(name_and_version("libc v0.2.9").as_deref(), Some("libc 0.2.9"));
        let own = "ofi-xdp-ffi v0.1.0 (/x/ffi) (*)";
        assert_eq!(name_and_version(own).as_deref(), Some("ofi-xdp-ffi 0.1.0"));
        assert_eq!(name_and_version(""), None);
    }
}
