// SPDX-License-Identifier: MIT OR Apache-2.0
//! The licences of all dependencies against the list in `deny.toml`.
//!
//! In: `cargo metadata` of the workspace and of the fuzz targets, and `deny.toml`. Out: an error
//! that names each crate outside the list. The file is cargo-deny's, so `cargo deny check licenses`
//! says the same where that tool is installed; this check does without its long compilation.

use std::fs;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use spdx::{Expression, ParseMode};

use crate::workspace::Workspace;

/// Those with a `Cargo.lock` in the tree.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "tests/engine/fuzz/Cargo.toml"];

/// Fails with one line for each package with a licence that the list does not allow.
pub(crate) fn licences(workspace: &Workspace) -> Result<()> {
    let file = workspace.root().join("deny.toml");
    let text = fs::read_to_string(&file).with_context(|| format!("no {}", file.display()))?;
    let allowed = allowed(&text)?;
    let (mut count, mut faults) = (0, Vec::new());
    for manifest in MANIFESTS {
        let metadata = metadata(workspace, manifest)?;
        let packages = metadata["packages"].as_array().context("cargo's metadata: no packages")?;
        count += packages.len();
        faults.extend(packages.iter().filter_map(|one| fault(one, &allowed)));
    }
    if !faults.is_empty() {
        bail!("not allowed by deny.toml:\n    {}", faults.join("\n    "));
    }
    println!("{count} packages, all permissive");
    Ok(())
}

/// Cargo's metadata of the workspace of a manifest, with the dependencies of its `Cargo.lock`.
fn metadata(workspace: &Workspace, manifest: &str) -> Result<Value> {
    let mut cargo = workspace.cargo();
    cargo.args(["metadata", "--format-version", "1", "--locked", "--all-features"]);
    let output =
        cargo.args(["--manifest-path", manifest]).output().context("cargo did not start")?;
    if !output.status.success() {
        bail!("{manifest}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// `licenses.allow` of deny.toml.
fn allowed(deny: &str) -> Result<Vec<String>> {
    let table: toml::Table = deny.parse().context("deny.toml is not TOML")?;
    let list = table.get("licenses").and_then(|licences| licences.get("allow"));
    let list = list.and_then(|allow| allow.as_array()).context("deny.toml: no licenses.allow")?;
    Ok(list.iter().filter_map(|one| one.as_str()).map(str::to_owned).collect())
}

/// The fault in the licence of a package of cargo's metadata, if there is one.
fn fault(package: &Value, allowed: &[String]) -> Option<String> {
    let name = package["name"].as_str().unwrap_or("?");
    let version = package["version"].as_str().unwrap_or("?");
    let Some(licence) = package["license"].as_str() else {
        return Some(format!("{name} {version}: states no licence"));
    };
    // Lax: old crates write "MIT/Apache-2.0".
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
        return Some(format!("{name} {version}: {licence} is no SPDX expression"));
    };
    let permitted = expression.evaluate(|one| allowed.contains(&one.to_string()));
    (!permitted).then(|| format!("{name} {version}: {licence}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(licence: &str) -> Option<String> {
        let list = ["MIT".to_owned(), "BSD-2-Clause".to_owned()];
        fault(&serde_json::json!({ "name": "a", "version": "1.0.0", "license": licence }), &list)
    }

    #[test]
    fn an_expression_needs_one_way_that_is_allowed() {
        assert_eq!(fault_of("MIT"), None);
        assert_eq!(fault_of("MIT/Apache-2.0"), None);
        assert_eq!(fault_of("LGPL-2.1-only OR BSD-2-Clause"), None);
        assert_eq!(fault_of("GPL-3.0-only").as_deref(), Some("a 1.0.0: GPL-3.0-only"));
        assert!(fault_of("MIT AND GPL-3.0-only").is_some());
    }

    #[test]
    fn no_licence_and_nonsense_are_faults() {
        let none = serde_json::json!({ "name": "a", "version": "1.0.0", "license": null });
        assert!(fault(&none, &[]).unwrap().contains("no licence"));
        assert!(fault_of("do what you like").unwrap().contains("SPDX"));
    }

    #[test]
    fn fuzz_targets_and_their_libfuzzer_are_read() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        for manifest in MANIFESTS {
            let lock = std::path::Path::new(root).join(manifest).with_file_name("Cargo.lock");
            assert!(lock.exists(), "{manifest}");
        }
        let allowed = allowed(include_str!("../../deny.toml")).unwrap();
        let libfuzzer = "(MIT OR Apache-2.0) AND NCSA";
        let package = serde_json::json!({ "name": "a", "version": "1", "license": libfuzzer });
        assert_eq!(fault(&package, &allowed), None);
    }

    #[test]
    fn the_list_is_cargo_denys() {
        assert_eq!(allowed("[licenses]\nallow = [\"MIT\"]\n").unwrap(), ["MIT"]);
        assert!(allowed("[bans]\n").is_err());
        assert!(allowed("][").is_err());
    }
}
