// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packs a laid-out folder: `cargo deb`, `cargo generate-rpm`, `tar`.
//!
//! In: a folder with every file at its place. Out: a package. Both cargo tools read the manifest of
//! a package: one is generated, of `package.toml` beside this file and a line for each file. Called
//! by `package`. Bound: the files of the folder.

use std::env::consts::ARCH;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use walkdir::WalkDir;

use super::layout::{Format, Sources};
use super::origin::{NAME, compress, output};
use crate::install;
use crate::workspace::{Workspace, find_command};

/// A tool of cargo that packs.
#[derive(Debug)]
struct Tool {
    name: &'static str,
    /// The release that is installed; others may pack the bytes in another order.
    version: &'static str,
    /// The optimisation that makes compiling and packing together take the least time.
    optimisation: &'static str,
    /// Further arguments of its installation.
    arguments: &'static [&'static str],
}

/// It compresses with `xz`; its feature compiles that library.
const DEB: Tool = Tool {
    name: "cargo-deb",
    version: "3.8.0",
    optimisation: "0",
    arguments: &["--no-default-features"],
};
/// It compresses by itself.
const RPM: Tool =
    Tool { name: "cargo-generate-rpm", version: "0.21.1", optimisation: "1", arguments: &[] };

/// What does not depend on the build.
const METADATA: &str = include_str!("package.toml");

/// The place in [`METADATA`] of the folders of the package alone.
const OWN_FOLDERS: &str = "OWN_FOLDERS";

/// The folder of the tools: those of the search path, else installed in `target/tools` now.
pub(super) fn tools(workspace: &Workspace, formats: &[Format]) -> Result<PathBuf> {
    let folder = workspace.tools_dir();
    for format in formats {
        let Tool { name, version, optimisation, arguments } = match format {
            Format::Deb => DEB,
            Format::Rpm => RPM,
            Format::Tar => continue,
        };
        if find_command(name).is_some() || folder.join("bin").join(name).exists() {
            continue;
        }
        let mut cargo = workspace.cargo();
        cargo.args(["install", "--locked", "--debug", "--config", "profile.dev.debug=false"]);
        cargo.arg("--config").arg(format!("profile.dev.opt-level={optimisation}"));
        cargo.args(arguments).arg(format!("{name}@{version}")).arg("--root").arg(&folder);
        ensure!(cargo.status()?.success(), "{name} does not install: see above");
    }
    Ok(folder.join("bin"))
}

/// Makes the `.deb`.
pub(super) fn deb(sources: &Sources, tools: &Path, tree: &Path) -> Result<PathBuf> {
    let package = sources.folder.join(format!("{NAME}_{}.deb", version_and_architecture()));
    // `cargo deb` takes the units from their folder (package.toml).
    let files = assets(tree, |path| path.starts_with("usr/lib/systemd"))?;
    let mut manifest = String::from("[package.metadata.deb]\n");
    let _ = writeln!(manifest, "maintainer = {:?}", sources.origin.maintainer);
    manifest += "assets = [\n";
    for file in files {
        let _ = writeln!(manifest, "    [{:?}, {:?}, \"{:o}\"],", file.from, file.to, file.mode);
    }
    let folder = write_manifest(sources, &(manifest + "]\n"), "")?;
    let mut cargo = tool(sources, tools, DEB.name);
    cargo.args(["deb", "--no-build", "--no-strip", "--quiet", "--offline", "--manifest-path"]);
    output(cargo.arg(folder.join("Cargo.toml")).arg("--output").arg(&package))?;
    Ok(package)
}

/// Makes the `.rpm`.
pub(super) fn rpm(sources: &Sources, tools: &Path, tree: &Path) -> Result<PathBuf> {
    let package = sources.folder.join(format!("{NAME}-{}.rpm", version_and_architecture()));
    let mut manifest = String::from("[package.metadata.generate-rpm]\nassets = [\n");
    let files = assets(tree, |_| false)?;
    let folders = own_folders(files.iter().map(|file| file.to.as_path()));
    for file in files {
        let kept = if file.to.starts_with("etc") { ", config = \"noreplace\"" } else { "" };
        let to = Path::new("/").join(&file.to);
        let (from, mode) = (&file.from, file.mode);
        let _ = writeln!(
            manifest,
            "    {{ source = {from:?}, dest = {to:?}, mode = \"{mode:o}\"{kept} }},"
        );
    }
    let folder = write_manifest(sources, &(manifest + "]\n"), &folders)?;
    let mut cargo = tool(sources, tools, RPM.name);
    cargo.current_dir(folder).arg("generate-rpm").arg("--output").arg(&package);
    output(&mut cargo)?;
    Ok(package)
}

/// Makes a `.tar.gz` with one folder at its top.
pub(super) fn tar(sources: &Sources, tree: &Path, name: &str) -> Result<PathBuf> {
    let name = format!("{name}-{}", version_and_architecture());
    let package = sources.folder.join(format!("{name}.tar"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--format=ustar", "--mode=go=rX,u+rw", "--directory"]).arg(tree);
    tar.arg(format!("--mtime=@{}", sources.origin.seconds));
    tar.arg(format!("--transform=s,^\\.,{name},")).arg("--file").arg(&package).arg(".");
    output(&mut tar)?;
    compress(&package)?;
    Ok(package.with_added_extension("gz"))
}

fn version_and_architecture() -> String {
    format!("{}-{ARCH}", env!("CARGO_PKG_VERSION"))
}

/// A command with the tools on its search path, and the time of every file in a package.
fn tool(sources: &Sources, tools: &Path, name: &str) -> Command {
    let installed = tools.join(name);
    let mut command = Command::new(if installed.exists() { installed } else { name.into() });
    command.env("SOURCE_DATE_EPOCH", &sources.origin.seconds);
    command
}

/// A file of a package.
#[derive(Debug)]
struct Asset {
    from: PathBuf,
    to: PathBuf,
    mode: u32,
}

/// The files below `tree` in the order of their names.
fn assets(tree: &Path, left_out: impl Fn(&Path) -> bool) -> Result<Vec<Asset>> {
    let mut assets = Vec::new();
    for entry in WalkDir::new(tree).sort_by_file_name() {
        let entry = entry?;
        let to = entry.path().strip_prefix(tree)?.to_owned();
        if entry.file_type().is_file() && !left_out(&to) {
            let mode = entry.metadata()?.permissions().mode() & 0o777;
            assets.push(Asset { from: entry.path().to_owned(), to, mode });
        }
    }
    Ok(assets)
}

/// The folders that no other package has, those inside before those around them.
fn own_folders<'a>(files: impl Iterator<Item = &'a Path>) -> String {
    let is_own = |name: &OsStr| name == NAME || name == install::AS_TCP;
    let mut folders: Vec<&Path> = files
        .flat_map(|file| file.ancestors().skip(1))
        .filter(|folder| folder.iter().any(is_own))
        .collect();
    folders.sort_by(|one, other| other.cmp(one));
    folders.dedup();
    let shown = folders.iter().map(|folder| format!("/{}", folder.display()));
    Vec::from_iter(shown).join(" ")
}

/// Writes the manifest of a package without code, and returns its folder.
fn write_manifest(sources: &Sources, assets: &str, folders: &str) -> Result<PathBuf> {
    let folder = sources.folder.join("manifest");
    fs::create_dir_all(folder.join("scripts"))?;
    fs::write(folder.join("empty.rs"), "")?;
    let version = env!("CARGO_PKG_VERSION");
    let text = format!("[package]\nname = \"{NAME}\"\nversion = \"{version}\"\n{METADATA}\n");
    let text = text.replace(OWN_FOLDERS, folders);
    fs::write(folder.join("Cargo.toml"), with_tables(&text, assets)?)?;
    Ok(folder)
}

/// The fixed part with the keys of `assets`, which has a table of the same name.
fn with_tables(fixed: &str, assets: &str) -> Result<String> {
    let (heading, keys) = assets.split_once('\n').context("no table")?;
    let place = fixed.find(heading).with_context(|| format!("package.toml has no {heading}"))?;
    let place = place + heading.len() + 1;
    Ok(format!("{}{keys}{}", &fixed[..place], &fixed[place..]))
}

#[cfg(test)]
mod tests {
    use super::super::layout::POLICY;
    use super::*;

    fn fixed() -> String {
        format!("[package]\nname = \"x\"\n{METADATA}")
    }

    #[test]
    fn the_files_join_the_fixed_part() {
        for table in ["deb", "generate-rpm"] {
            let assets = format!("[package.metadata.{table}]\nassets = [[\"a\"]]\n");
            let manifest: toml::Table = with_tables(&fixed(), &assets).unwrap().parse().unwrap();
            let found = manifest["package"]["metadata"][table].as_table().unwrap();
            assert!(found.contains_key("assets") && found.len() > 1);
        }
        assert!(with_tables(&fixed(), "[package.metadata.none]\na = 1\n").is_err());
    }

    #[test]
    fn a_removed_package_leaves_no_folder_of_its_own() {
        let files = [
            "usr/lib64/libfabric/libxdp-fi.so",
            "usr/lib64/libfabric-as-tcp/libxdp-fi.so",
            "usr/share/doc/ofi-xdp/grafana/xdp.json",
            "usr/share/doc/ofi-xdp/README.md",
        ];
        assert_eq!(
            own_folders(files.iter().map(Path::new)),
            "/usr/share/doc/ofi-xdp/grafana /usr/share/doc/ofi-xdp /usr/lib64/libfabric-as-tcp"
        );
        assert_eq!(METADATA.matches(OWN_FOLDERS).count(), 1);
    }

    /// The endpoints that hold the broker's sockets would lose them.
    #[test]
    fn an_upgrade_leaves_the_broker_and_its_policy_alone() {
        let manifest: toml::Table = fixed().parse().unwrap();
        let deb = &manifest["package"]["metadata"]["deb"];
        let units = deb["systemd-units"].as_array().unwrap();
        for (unit, name) in units.iter().zip(["xdp-broker", "xdp-top"]) {
            assert_eq!(unit["unit-name"].as_str(), Some(name));
            assert!(["enable", "start"].iter().all(|key| unit[key].as_bool() == Some(false)));
        }
        let broker = &units[0];
        for key in ["enable", "start", "restart-after-upgrade", "stop-on-upgrade"] {
            assert_eq!(broker[key].as_bool(), Some(false), "{key}");
        }
        assert_eq!(deb["conf-files"][0].as_str(), Some(format!("/etc/{POLICY}").as_str()));
    }
}
