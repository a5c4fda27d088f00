// SPDX-License-Identifier: MIT OR Apache-2.0
//! The provider built once more, guided by a profile of itself at work (profile-guided
//! optimisation).
//!
//! In: a plain release build, whose lab makes the provider work (`ofi-xdp-lab train`). Out: the
//! provider, and the engine's benchmark, in `target/guided`. `build.rs` calls, for the tasks
//! that install or measure. What it is for: between two packets the kernel puts its own code into
//! the processor's caches, so what a packet costs is to a good part the fetching of code; a
//! compiler that knows which way the code goes puts that in one place and the rest apart.
//!
//! ```text
//!   build, counting ──▶ target/guided/counting ──▶ train ──▶ counts ──▶ HASH.profdata ──▶ build
//! ```
//!
//! Nothing is trained again while the counting build comes out as it was. `cargo-pgo` does the same
//! steps, but builds both into one place, so that each call would compile everything twice.

use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::build::{self, Artifacts, Built, PROVIDER_FILE};
use crate::process::succeed_within;
use crate::workspace::{Privilege, Workspace, find_command, host};
use crate::{engine, lab};

/// What is guided: the provider, and the engine's own benchmark. Not the programs that use it: for
/// them it made no difference.
const PACKAGES: [&str; 2] = ["ofi-xdp-ffi", engine::PACKAGE];

/// The component of the toolchain that has [`MERGE`].
const COMPONENT: &str = "llvm-tools";
/// Makes a profile of counts.
const MERGE: &str = "llvm-profdata";

/// Some twenty sessions of a second.
const TRAIN_LIMIT: Duration = Duration::from_secs(300);
/// One component, a few MB; some files of counts.
const TOOL_LIMIT: Duration = Duration::from_secs(300);

const NEEDS_ROOT: &str = "the lab makes network namespaces and AF_XDP sockets, which needs root";

/// What a guided build left.
#[derive(Debug)]
pub(crate) struct Guided {
    /// The provider.
    pub(crate) provider: PathBuf,
    /// The folder of the programs.
    pub(crate) programs: PathBuf,
}

/// Builds guided by a profile; `plain` does the training.
///
/// # Errors
/// Where the toolchain's tools cannot be had, or nobody may make network namespaces.
pub(crate) fn build(workspace: &Workspace, plain: &Built) -> Result<Guided> {
    // Before anything is compiled for nothing.
    ensure!(Privilege::for_network() != Privilege::None, NEEDS_ROOT);
    let merge = merge_tool()?;
    let folder = workspace.root().join("target/guided");
    if find_profile(&folder).is_none() {
        println!("guided build: compiles twice more, for some minutes, the first time");
    }
    let (counting, counts) = (folder.join("counting"), folder.join("counts"));
    let made = compile(workspace, "release", &flag("-Cprofile-generate=", &counts))?;
    let changed = install(&made, &counting)?;
    let profile = match find_profile(&folder) {
        Some(profile) if !changed => profile,
        old => {
            // What was counted before is of other code.
            remove(old.as_deref())?;
            make_empty(&counts)?;
            println!("guided build: the provider works, and what runs is counted");
            train(workspace, plain, &counting)?;
            profile_of(&merge, &counts, &folder)?
        }
    };
    let made = compile(workspace, "guided", &flag("-Cprofile-use=", &profile))?;
    let programs = folder.join("programs");
    install(&made, &programs)?;
    Ok(Guided { provider: programs.join(PROVIDER_FILE), programs })
}

fn flag(name: &str, path: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(path);
    flag
}

/// Builds with one more flag for the compiler. A target is named, so that build scripts and macros
/// go without; and a `profile` for each, since cargo has one place in each for a library such as
/// the provider.
fn compile(workspace: &Workspace, profile: &str, flag: &OsString) -> Result<Artifacts> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--profile", profile, "--lib", "--target", &host()?]);
    cargo.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    cargo.args(["--bin", engine::PACKAGE]);
    let mut flags = OsString::new();
    for own in std::env::var("RUSTFLAGS").unwrap_or_default().split_whitespace() {
        flags.push(own);
        flags.push("\x1f");
    }
    flags.push(flag);
    build::run_cargo(cargo.env("CARGO_ENCODED_RUSTFLAGS", flags))
}

/// Copies what was made to `folder`; says whether any of it is new there.
fn install(made: &Artifacts, folder: &Path) -> Result<bool> {
    let library = made.library.as_deref().context("cargo built no provider")?;
    let mut files = vec![(library, folder.join(PROVIDER_FILE))];
    files.extend(made.programs.iter().map(|(name, path)| (path.as_path(), folder.join(name))));
    let mut changed = false;
    for (from, to) in files {
        if fs::read(&to).ok() != Some(fs::read(from)?) {
            build::replace(from, &to)?;
            changed = true;
        }
    }
    Ok(changed)
}

/// The profile that is kept. Its name tells its contents, since cargo looks at flags, and not at
/// the files that they name.
fn find_profile(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "profdata"))
}

fn remove(file: Option<&Path>) -> Result<()> {
    file.map_or(Ok(()), fs::remove_file).context("cannot remove the old profile")
}

/// Makes the folder of the counts here: so it belongs to the user, who writes there after the lab
/// has as root, and can remove what the lab wrote.
fn make_empty(counts: &Path) -> Result<()> {
    if counts.exists() {
        fs::remove_dir_all(counts)
            .with_context(|| format!("cannot remove {}", counts.display()))?;
    }
    Ok(fs::create_dir_all(counts)?)
}

/// Lets the lab and the engine's benchmark work with what is in `counting`, which counts.
fn train(workspace: &Workspace, plain: &Built, counting: &Path) -> Result<()> {
    let lab = plain.programs.get(lab::LAB).context("package tests has no lab")?;
    // `env` takes variables past sudo.
    let mut trainer = Privilege::for_network().asked().command("env").context(NEEDS_ROOT)?;
    trainer.arg(lab::variable("FI_PROVIDER_PATH", counting.as_os_str()));
    trainer.arg(lab).arg("train").current_dir(workspace.root());
    succeed_within(trainer, TRAIN_LIMIT)?;
    engine::work(&counting.join(engine::PACKAGE))
}

/// The counts as the compiler reads them.
fn profile_of(merge: &Path, counts: &Path, folder: &Path) -> Result<PathBuf> {
    let part = folder.join("profile.part");
    let mut command = Command::new(merge);
    command.arg("merge").arg("--output").arg(&part).arg(counts);
    succeed_within(command, TOOL_LIMIT)?;
    let bytes = fs::read(&part)?;
    ensure!(!bytes.is_empty(), "{MERGE} wrote no profile");
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    let profile = folder.join(format!("{:016x}.profdata", hasher.finish()));
    fs::rename(&part, &profile)?;
    Ok(profile)
}

/// The toolchain's own `llvm-profdata`, which alone is sure to read what its compiler writes;
/// installed by rustup if it is missing.
fn merge_tool() -> Result<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output()?;
    let root = PathBuf::from(String::from_utf8(output.stdout)?.trim_end());
    let tool = root.join("lib/rustlib").join(host()?).join("bin").join(MERGE);
    if !tool.is_file() {
        let rustup = find_command("rustup")
            .with_context(|| format!("the toolchain has no {MERGE}, and there is no rustup"))?;
        println!("set-up: rustup component add {COMPONENT}");
        let mut command = Command::new(rustup);
        command.args(["component", "add", COMPONENT]);
        succeed_within(command, TOOL_LIMIT)?;
    }
    ensure!(tool.is_file(), "{COMPONENT} is installed, and {} is not there", tool.display());
    Ok(tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("xtask-guided-{name}-{}", std::process::id()))
    }

    #[test]
    fn only_what_is_new_is_installed() {
        let folder = folder("install");
        fs::create_dir_all(&folder).unwrap();
        let library = folder.join("libxdp_fi.so");
        let made = Artifacts { library: Some(library.clone()), ..Artifacts::default() };
        let to = folder.join("to");
        for (text, changed) in [("one", true), ("one", false), ("two", true)] {
            fs::write(&library, text).unwrap();
            assert_eq!(install(&made, &to).unwrap(), changed, "{text}");
            assert_eq!(fs::read_to_string(to.join(PROVIDER_FILE)).unwrap(), text);
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn counts_begin_in_an_empty_folder() {
        let counts = folder("counts");
        for _ in 0..2 {
            make_empty(&counts).unwrap();
            assert_eq!(fs::read_dir(&counts).unwrap().count(), 0);
            fs::write(counts.join("old.profraw"), "x").unwrap();
        }
        fs::remove_dir_all(&counts).unwrap();
    }

    #[test]
    fn the_profile_is_found_by_its_ending() {
        let folder = folder("profile");
        assert_eq!(find_profile(&folder), None, "no folder, no profile");
        fs::create_dir_all(folder.join("counts")).unwrap();
        assert_eq!(find_profile(&folder), None);
        let profile = folder.join("0123456789abcdef.profdata");
        fs::write(&profile, "x").unwrap();
        assert_eq!(find_profile(&folder), Some(profile.clone()));
        remove(Some(&profile)).unwrap();
        assert_eq!(find_profile(&folder), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
