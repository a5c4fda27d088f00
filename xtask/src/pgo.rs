// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PGO build: the provider, compiled with a profile of itself under load (profile-guided
//! optimisation).
//!
//! In: the lab of a plain release build, which makes the load (`ofi-xdp-lab pgo-workload`). Out:
//! the provider and the engine's benchmark in `target/pgo`. Called by `build.rs` for the tasks that
//! install or measure. Reason: between two packets the kernel fills the processor's caches with its
//! own code. So a good part of a packet's cost is the fetching of code. With a profile, the
//! compiler puts the code that runs in one place and the rest apart.
//!
//! ```text
//!   build, counting ──▶ target/pgo/counting ──▶ load ──▶ counts ──▶ HASH.profdata ──▶ build
//! ```
//!
//! The load runs again only if the counting build has changed. `cargo-pgo` does the same steps, but
//! builds both into one folder, so that each call would compile everything twice.

use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::artifacts::{self, Artifacts, ENGINE_BENCH, PROVIDER_FILE};
use crate::process::{succeed_within, variable};
use crate::workspace::{Privilege, Workspace, find_command, host};

/// Packages of the PGO build: the provider and the engine's benchmark. The programs that use the
/// provider gained nothing from a profile.
const PACKAGES: [&str; 2] = ["ofi-xdp-ffi", ENGINE_BENCH];

/// The component of the toolchain that has [`MERGE`].
const COMPONENT: &str = "llvm-tools";
/// Makes a profile of counts.
const MERGE: &str = "llvm-profdata";

/// For some thirty sessions of a second at most.
const LOAD_LIMIT: Duration = Duration::from_secs(300);
/// For a component of a few MB, or some files of counts.
const TOOL_LIMIT: Duration = Duration::from_secs(300);

/// The benchmark's workloads, and enough operations of each for a profile.
const WORK: [&str; 7] = ["ping-pong", "singles", "messages", "packets", "writes", "reads", "bulk"];
const OPERATIONS: &str = "20000";
/// For some seconds, with a counting build.
const WORK_LIMIT: Duration = Duration::from_secs(120);

const NEEDS_ROOT: &str = "the lab makes network namespaces and AF_XDP sockets, which needs root";

/// The results of a PGO build.
#[derive(Debug)]
pub(crate) struct PgoBuild {
    /// The provider.
    pub(crate) provider: PathBuf,
    /// The folder of the programs.
    pub(crate) programs: PathBuf,
}

/// Makes a profile, if there is none of this code, and builds with it. `lab` makes the load.
///
/// # Errors
/// If the toolchain's tools are missing, or without the privilege to make network namespaces.
pub(crate) fn build(workspace: &Workspace, lab: &Path) -> Result<PgoBuild> {
    // Checked first: without it, the compilation would be useless.
    ensure!(Privilege::for_network() != Privilege::None, NEEDS_ROOT);
    let merge = merge_tool()?;
    let folder = workspace.root().join("target/pgo");
    if find_profile(&folder).is_none() {
        println!("PGO build: compiles twice more, for some minutes, the first time");
    }
    let (counting, counts) = (folder.join("counting"), folder.join("counts"));
    let made = compile(workspace, "release", &flag("-Cprofile-generate=", &counts))?;
    let changed = install(&made, &counting)?;
    let profile = match find_profile(&folder) {
        Some(profile) if !changed => profile,
        old => {
            // The old counts are of other code.
            remove(old.as_deref())?;
            make_empty(&counts)?;
            println!("PGO build: the provider runs under load, and its code is counted");
            exercise(workspace, lab, &counting)?;
            profile_of(&merge, &counts, &folder)?
        }
    };
    let made = compile(workspace, "pgo", &flag("-Cprofile-use=", &profile))?;
    let programs = folder.join("programs");
    install(&made, &programs)?;
    Ok(PgoBuild { provider: programs.join(PROVIDER_FILE), programs })
}

fn flag(name: &str, path: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(path);
    flag
}

/// Builds with one more flag for the compiler. The named target keeps the flag away from build
/// scripts and macros. Each call has a `profile` of its own, because cargo keeps one library such
/// as the provider in each profile's folder.
fn compile(workspace: &Workspace, profile: &str, flag: &OsString) -> Result<Artifacts> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--profile", profile, "--lib", "--target", &host()?]);
    cargo.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    cargo.args(["--bin", ENGINE_BENCH]);
    let mut flags = OsString::new();
    for own in std::env::var("RUSTFLAGS").unwrap_or_default().split_whitespace() {
        flags.push(own);
        flags.push("\x1f");
    }
    flags.push(flag);
    artifacts::run_cargo(cargo.env("CARGO_ENCODED_RUSTFLAGS", flags))
}

/// Copies the results to `folder`; true if any of them is new there.
fn install(made: &Artifacts, folder: &Path) -> Result<bool> {
    let library = made.library.as_deref().context("cargo built no provider")?;
    let mut files = vec![(library, folder.join(PROVIDER_FILE))];
    files.extend(made.programs.iter().map(|(name, path)| (path.as_path(), folder.join(name))));
    let mut changed = false;
    for (from, to) in files {
        if fs::read(&to).ok() != Some(fs::read(from)?) {
            artifacts::replace(from, &to)?;
            changed = true;
        }
    }
    Ok(changed)
}

/// The profile of an earlier build. Its name is a hash of its contents, because cargo compares
/// flags and not the files that they name.
fn find_profile(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "profdata"))
}

fn remove(file: Option<&Path>) -> Result<()> {
    file.map_or(Ok(()), fs::remove_file).context("cannot remove the old profile")
}

/// Makes the folder of the counts. It belongs to the user. So the user can write there after the
/// lab, and can remove the files that the lab wrote as root.
fn make_empty(counts: &Path) -> Result<()> {
    if counts.exists() {
        fs::remove_dir_all(counts)
            .with_context(|| format!("cannot remove {}", counts.display()))?;
    }
    Ok(fs::create_dir_all(counts)?)
}

/// Runs the lab and the engine's benchmark with the counting build in `counting`.
fn exercise(workspace: &Workspace, lab: &Path, counting: &Path) -> Result<()> {
    // `env` takes variables past sudo.
    let mut load = Privilege::for_network().asked().command("env").context(NEEDS_ROOT)?;
    load.arg(variable("FI_PROVIDER_PATH", counting.as_os_str()));
    load.arg(lab).arg("pgo-workload").current_dir(workspace.root());
    succeed_within(load, LOAD_LIMIT)?;
    run_benchmark(&counting.join(ENGINE_BENCH))
}

/// Runs each workload of the engine's benchmark once.
fn run_benchmark(program: &Path) -> Result<()> {
    let once = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::null());
        succeed_within(command, WORK_LIMIT)
    };
    WORK.iter().try_for_each(|work| once(&["work", work, OPERATIONS]))?;
    once(&["peers", "--quick"])
}

/// Converts the counts to the format that the compiler reads.
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

/// The toolchain's own `llvm-profdata`: others may not read the format of its compiler. If it is
/// missing, rustup installs it.
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
        std::env::temp_dir().join(format!("xtask-pgo-{name}-{}", std::process::id()))
    }

    #[test]
    fn only_a_new_library_is_installed() {
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
