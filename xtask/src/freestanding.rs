// SPDX-License-Identifier: MIT OR Apache-2.0
//! Proof that `core` needs no operating system and no allocator.
//!
//! In: `tests/engine/no_std`, a static library without `std` around the whole of core. Out:
//! success, or the symbols that are missing. The library has a panic handler of its own, which the
//! compiler refuses where `std` is linked in. Every symbol that it leaves to others must be one of
//! the memory functions that any compiler output may call. Where a target without an operating
//! system is installed, core is built for that target, too.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use object::elf::FileHeader64;
use object::read::archive::ArchiveFile;
use object::read::elf::ElfFile;
use object::{Endianness, Object as _, ObjectSymbol as _};
use serde_json::Value;

use crate::workspace::Workspace;

const PACKAGE: &str = "tests/engine/no_std";

/// Symbols that compiled Rust expects from any environment. The memory functions are in the
/// documentation of crate `core`, "How to use the core library". The other is a name in the unwind
/// tables of the distributed core library; no code calls it if a panic does not unwind.
const ENVIRONMENT: &[&str] =
    &["memcpy", "memmove", "memset", "memcmp", "bcmp", "strlen", "rust_eh_personality"];

/// Builds, looks, fails with the symbols that should not be needed.
pub(crate) fn freestanding(workspace: &Workspace) -> Result<()> {
    let package = workspace.root().join(PACKAGE);
    // The versions of the product; cargo removes the entries that are not used here.
    fs::copy(workspace.root().join("Cargo.lock"), package.join("Cargo.lock"))?;
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--message-format=json-render-diagnostics"]);
    cargo.arg("--manifest-path").arg(package.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(workspace.target_dir().join("no-std"));
    cargo.stderr(std::process::Stdio::inherit());
    let output = cargo.output().context("cargo did not start")?;
    if !output.status.success() {
        bail!("core does not build without std: see above");
    }
    let archive = String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(static_library)
        .context("cargo built no static library")?;
    let bytes = fs::read(&archive).with_context(|| format!("cannot read {archive}"))?;
    let needed = needed_symbols(&bytes).with_context(|| format!("cannot parse {archive}"))?;
    let foreign: Vec<&str> =
        needed.iter().map(String::as_str).filter(|name| !ENVIRONMENT.contains(name)).collect();
    if !foreign.is_empty() {
        bail!("core needs symbols of an operating system: {}", foreign.join(", "));
    }
    println!("core links alone; it needs {}", Vec::from_iter(needed).join(", "));
    for target in bare_targets() {
        build_for(workspace, &target)?;
    }
    Ok(())
}

/// The archive of a line of cargo's messages, if it tells of one.
fn static_library(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    let files = message["filenames"].as_array()?;
    files.iter().filter_map(Value::as_str).find(|file| file.ends_with(".a")).map(str::to_owned)
}

/// Symbols that some member of the archive uses and none defines.
fn needed_symbols(archive: &[u8]) -> Result<BTreeSet<String>> {
    let (mut used, mut defined) = (BTreeSet::new(), BTreeSet::new());
    let file = ArchiveFile::parse(archive)?;
    for member in file.members() {
        let object = ElfFile::<FileHeader64<Endianness>>::parse(member?.data(archive)?)?;
        for symbol in object.symbols() {
            let name = symbol.name()?.to_owned();
            if symbol.is_definition() {
                defined.insert(name);
            } else if symbol.is_undefined() && !symbol.is_weak() && !name.is_empty() {
                used.insert(name);
            }
        }
    }
    // Made by the linker (System V ABI, x86-64 supplement, 3.5).
    defined.insert("_GLOBAL_OFFSET_TABLE_".to_owned());
    Ok(used.difference(&defined).cloned().collect())
}

/// Installed targets without an operating system; none on most machines.
fn bare_targets() -> Vec<String> {
    let output = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let list = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let list = list.unwrap_or_default();
    list.lines().filter(|target| target.contains("-none")).map(str::to_owned).collect()
}

fn build_for(workspace: &Workspace, target: &str) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--quiet", "--package", "ofi-xdp-core", "--target", target]);
    if !cargo.status()?.success() {
        bail!("core does not build for {target}");
    }
    println!("core builds for {target}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of the object files of `sources`, compiled by `cc`.
    fn archive(name: &str, sources: &[&str]) -> Vec<u8> {
        let folder = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut ar = Command::new("ar");
        ar.current_dir(&folder).args(["rc", "lib.a"]);
        for (index, source) in sources.iter().enumerate() {
            fs::write(folder.join(format!("{index}.c")), source).unwrap();
            let mut cc = Command::new("cc");
            cc.current_dir(&folder).args(["-c", "-fno-builtin", &format!("{index}.c")]);
            assert!(cc.status().unwrap().success());
            ar.arg(format!("{index}.o"));
        }
        assert!(ar.status().unwrap().success());
        let bytes = fs::read(folder.join("lib.a")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        bytes
    }

    #[test]
    fn only_undefined_symbols_are_needed() {
        let user = "void *malloc(unsigned long); int helper(void);\n\
                    void *f(void) { return malloc(helper()); }\n\
                    __attribute__((weak)) int w(void); int g(void) { return w ? 1 : 0; }\n";
        let bytes = archive("needed", &[user, "int helper(void) { return 8; }\n"]);
        assert_eq!(Vec::from_iter(needed_symbols(&bytes).unwrap()), ["malloc"]);
    }

    #[test]
    fn a_file_that_is_no_archive_is_refused() {
        assert!(needed_symbols(b"nonsense").is_err());
    }

    #[test]
    fn the_archive_is_found_in_cargos_messages() {
        let line = r#"{"reason":"compiler-artifact","filenames":["/t/libx.a"]}"#;
        assert_eq!(static_library(line).as_deref(), Some("/t/libx.a"));
        assert_eq!(static_library(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
