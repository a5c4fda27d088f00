// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel modules with their dependencies, in the order in which they can be loaded.
//!
//! In: names, and the folder of a kernel's modules as Debian packages it (compressed, and without
//! the index that only depmod(8) makes). Out: uncompressed modules. Dependencies are in each
//! module's section `.modinfo` (`depends=a,b`). Bounded by the modules there are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use object::{Object as _, ObjectSection as _};
use walkdir::WalkDir;

/// A module, ready to be loaded.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// `names` and all that they depend on, dependencies first.
pub(crate) fn closure(folder: &Path, names: &[&str]) -> Result<Vec<Module>> {
    let files = index(folder);
    let mut loaded = Vec::new();
    for name in names {
        add(name, &files, &mut loaded)?;
    }
    Ok(loaded)
}

/// Every module's file, by the module's name.
fn index(folder: &Path) -> BTreeMap<String, PathBuf> {
    let files = WalkDir::new(folder).into_iter().filter_map(|entry| Some(entry.ok()?.into_path()));
    files.filter_map(|path| Some((module_name(&path)?, path))).collect()
}

/// `virtio_net` of `…/virtio_net.ko.xz`: a dash in a file's name is an underscore in the module's.
fn module_name(path: &Path) -> Option<String> {
    let (stem, kind) = path.file_name()?.to_str()?.split_once(".ko")?;
    matches!(kind, "" | ".xz").then(|| stem.replace('-', "_"))
}

fn add(name: &str, files: &BTreeMap<String, PathBuf>, loaded: &mut Vec<Module>) -> Result<()> {
    if loaded.iter().any(|module| module.name == name) {
        return Ok(());
    }
    // A built-in module has no file, and no module lists it as a dependency.
    let path = files.get(name).with_context(|| format!("the kernel has no module {name}"))?;
    let bytes = read(path)?;
    for other in dependencies(&bytes).with_context(|| path.display().to_string())? {
        add(&other, files, loaded)?;
    }
    loaded.push(Module { name: name.to_owned(), bytes });
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let output =
        Command::new("xz").args(["--decompress", "--force", "--stdout"]).arg(path).output();
    let output = output.context("xz did not start")?;
    if !output.status.success() {
        bail!("xz: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

/// The modules that one depends on.
fn dependencies(module: &[u8]) -> Result<Vec<String>> {
    let file = object::File::parse(module)?;
    let section = file.section_by_name(".modinfo").context("it has no section .modinfo")?;
    Ok(depends(section.data()?))
}

/// From the section's strings, each ended by a zero byte.
fn depends(modinfo: &[u8]) -> Vec<String> {
    let strings = modinfo.split(|byte| *byte == 0);
    let line = strings.filter_map(|string| string.strip_prefix(b"depends=")).next();
    let names = String::from_utf8_lossy(line.unwrap_or_default()).into_owned();
    names.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_the_modules_strings() {
        assert_eq!(
            depends(b"license=GPL\0depends=failover,net-failover\0"),
            ["failover", "net_failover"]
        );
        assert!(depends(b"license=GPL\0depends=\0").is_empty());
        assert!(depends(b"").is_empty());
    }

    #[test]
    fn a_file_names_its_module() {
        let name = |path: &str| module_name(Path::new(path));
        assert_eq!(name("/a/net-failover.ko.xz").as_deref(), Some("net_failover"));
        assert_eq!(name("/a/dummy.ko").as_deref(), Some("dummy"));
        assert_eq!(name("/a/modules.order"), None);
    }
}
