// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask package`: the `.deb`, the `.rpm` and the `.tar.gz`.
//!
//! In: a build. Out: `target/package/ofi-xdp…`: the three packages, and the debug symbols in an
//! archive of their own. One table ([`layout`]) names each file; `cargo deb` and `cargo
//! generate-rpm` pack it. Times are those of the last commit, so two runs give the same bytes.
//! Called by the task and by the stage `packages`. Bound: the table.

mod clean_root;
mod formats;
mod layout;
mod manuals;
mod notices;
mod origin;
mod portable;
mod symbols;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use self::layout::{Format, Sources};
use self::origin::{NAME, Origin, compress, output};
use crate::artifacts::PROVIDER_FILE;
use crate::build::{self, Profile};
use crate::setup::{self, Purpose};
use crate::stage::skipped_block;
use crate::suite::Counts;
use crate::workspace::{Privilege, Workspace, is_ci};

/// Debian's `copyright` file; common licences are named, not repeated (Debian Policy 12.5).
const COPYRIGHT: &str = "\
Copyright: the authors of ofi-xdp
License: MIT or Apache-2.0, at your choice; the XDP program GPL-2.0 too.
licences.gz beside this file has the texts, and those of all crates in the programs. Debian has
/usr/share/common-licenses/Apache-2.0 and /usr/share/common-licenses/GPL-2.
";

/// The packages of one run.
#[derive(Debug)]
pub(crate) struct Packages {
    /// For Debian 12, Ubuntu 24.04 and later ones.
    deb: PathBuf,
    /// Every file, the debug symbols too.
    files: Vec<PathBuf>,
}

/// The archive of debug symbols. The documents name that of the programs by `ofi-xdp-*.tar.gz`.
const DEBUG: &str = "debug-ofi-xdp";
/// The programs beside the provider.
const PROGRAMS: [&str; 4] = ["xdp-perf", "xdp-run", "xdp-top", "xdp-broker"];
/// The formats of `cargo xtask package`; the first one is installed by the stage.
const ALL: [Format; 3] = [Format::Deb, Format::Tar, Format::Rpm];
/// Those of the stage: the compilation of `cargo generate-rpm` takes longer than all the rest.
const TESTED: [Format; 2] = [Format::Deb, Format::Tar];

/// Builds and packs; with `pgo` the PGO build.
pub(crate) fn package(workspace: &Workspace, pgo: bool) -> Result<()> {
    let sources = prepare(workspace, pgo, "package")?;
    for file in pack(workspace, &sources, &ALL)?.files {
        println!("package   {}", file.display());
    }
    println!("needs     {}", portable::oldest(&programs(&sources.generated))?);
    Ok(())
}

/// Packs twice, compares the bytes, and uses the `.deb` in a clean root, if there is privilege.
pub(crate) fn stage(workspace: &Workspace, privilege: Privilege) -> Result<Counts> {
    setup::ensure(&[Purpose::PackageTest])?;
    // The builds of stages are no product: its packages stay where they are.
    let sources = prepare(workspace, false, "package-test")?;
    let first = contents(&pack(workspace, &sources, &TESTED)?)?;
    let packages = pack(workspace, &sources, &TESTED)?;
    let second = contents(&packages)?;
    ensure_same(&packages.files, &first, &second)?;
    println!("ok       two runs give the same bytes");
    let mut counts = Counts { passed: 1, failed: 0, skipped: 0 };
    let checked = portable::check(&programs(&sources.generated));
    match portable::excused(checked, portable::host(), is_ci())? {
        Some(reason) => {
            println!("{}", skipped_block("the C library of the packages", &reason));
            counts.skipped += 1;
        }
        None => {
            println!("ok       no program needs a newer C library than Debian 12's");
            counts.passed += 1;
        }
    }
    counts += clean_root::check(workspace, privilege, &packages.deb)?;
    Ok(counts)
}

/// Fails with the name of the first file that has other bytes in the second run.
fn ensure_same(files: &[PathBuf], first: &[Vec<u8>], second: &[Vec<u8>]) -> Result<()> {
    ensure!(first.len() == files.len() && second.len() == files.len(), "a file is missing");
    for (file, (one, two)) in files.iter().zip(first.iter().zip(second)) {
        ensure!(one == two, "{}: two runs gave different bytes", file.display());
    }
    Ok(())
}

fn contents(packages: &Packages) -> Result<Vec<Vec<u8>>> {
    packages.files.iter().map(|file| fs::read(file).map_err(Into::into)).collect()
}

/// The provider and the programs, stripped.
fn programs(generated: &Path) -> Vec<PathBuf> {
    let names = [PROVIDER_FILE].into_iter().chain(PROGRAMS);
    names.map(|name| generated.join(name)).collect()
}

/// Builds, strips, and generates what is not in the tree, in `folder` of the target folder.
fn prepare(workspace: &Workspace, pgo: bool, folder: &str) -> Result<Sources> {
    setup::ensure(&[Purpose::Build, Purpose::Package])?;
    let built =
        if pgo { build::best(workspace)? } else { build::build(workspace, Profile::Release)? };
    let folder = workspace.target_dir().join(folder);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let generated = folder.join("generated");
    let mut programs = vec![built.provider];
    for name in PROGRAMS {
        programs.push(built.programs.get(name).with_context(|| format!("no {name}"))?.clone());
    }
    symbols::split(&programs, &generated)?;
    let origin = Origin::of(workspace)?;
    manuals::write(workspace.root(), &origin, &generated)?;
    completions(&generated)?;
    fs::write(generated.join("copyright"), COPYRIGHT)?;
    fs::write(generated.join("licences"), notices::notices(workspace)?)?;
    compress(&generated.join("licences"))?;
    fs::write(generated.join("changelog"), origin.changelog())?;
    compress(&generated.join("changelog"))?;
    Ok(Sources { root: workspace.root().to_owned(), folder, generated, origin })
}

/// Lays out and packs each of `formats`, of which the first one is the `.deb`.
fn pack(workspace: &Workspace, sources: &Sources, formats: &[Format]) -> Result<Packages> {
    let tools = formats::tools(workspace, formats)?;
    let mut files = Vec::new();
    for &format in formats {
        let tree = sources.folder.join(format.name());
        layout::lay_out(sources, format, &tree)?;
        files.push(match format {
            Format::Deb => formats::deb(sources, &tools, &tree)?,
            Format::Rpm => formats::rpm(sources, &tools, &tree)?,
            Format::Tar => formats::tar(sources, &tree, NAME)?,
        });
    }
    let symbols = sources.generated.join("debug");
    files.push(formats::tar(sources, &symbols, DEBUG)?);
    Ok(Packages { deb: files[0].clone(), files })
}

/// Completions of the programs that people type.
fn completions(generated: &Path) -> Result<()> {
    for program in ["xdp-perf", "xdp-run", "xdp-top"] {
        for shell in ["bash", "zsh", "fish"] {
            let mut command = Command::new(generated.join(program));
            let text = output(command.args(["--completions", shell]))?;
            fs::write(generated.join(format!("{program}.{shell}")), text)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_archive_has_the_name_of_the_documents() {
        let document = include_str!("../../docs/install.md");
        assert!(document.contains(&format!("tar -xzf {NAME}-*.tar.gz ")));
        assert!(!DEBUG.starts_with(NAME));
    }

    #[test]
    fn a_file_with_other_bytes_is_named() {
        let files = ["a.deb", "a.tar.gz"].map(PathBuf::from);
        let bytes = |last| vec![vec![1, 2], vec![3, last]];
        ensure_same(&files, &bytes(4), &bytes(4)).unwrap();
        let error = ensure_same(&files, &bytes(4), &bytes(5)).unwrap_err().to_string();
        assert!(error.starts_with("a.tar.gz: two runs"), "{error}");
        assert!(ensure_same(&files, &bytes(4), &[]).is_err());
    }
}
