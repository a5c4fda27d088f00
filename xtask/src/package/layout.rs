// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where each file of the packages goes.
//!
//! In: the tree and the generated files. Out: a folder for each format, with every file at its
//! place and with its mode. Called by `package`. Bound: the table.

use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::manuals;
use super::origin::{NAME, Origin};
use crate::artifacts::PROVIDER_FILE;
use crate::install;

/// What packages are made of.
#[derive(Debug)]
pub(super) struct Sources {
    /// The workspace.
    pub(super) root: PathBuf,
    /// The folder of the packages.
    pub(super) folder: PathBuf,
    /// The folder of stripped programs, manual pages and the rest that is not in the tree.
    pub(super) generated: PathBuf,
    pub(super) origin: Origin,
}

/// A kind of package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Debian's and Ubuntu's.
    Deb,
    /// Fedora's, Red Hat's and SUSE's.
    Rpm,
    /// To be unpacked in `/usr/local`.
    Tar,
}

impl Format {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Deb => "deb",
            Self::Rpm => "rpm",
            Self::Tar => "tar",
        }
    }

    /// The folder of everything but the configuration.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Deb | Self::Rpm => "usr",
            Self::Tar => ".",
        }
    }

    /// The folder of libraries, where libfabric and Wireshark have their plug-ins.
    fn libraries(self) -> String {
        match self {
            Self::Deb => format!("lib/{ARCH}-linux-gnu"),
            Self::Rpm => "lib64".to_owned(),
            Self::Tar => "lib".to_owned(),
        }
    }

    /// The folder of completions of zsh, below `share/zsh`.
    const fn zsh(self) -> &'static str {
        match self {
            Self::Deb => "vendor-completions",
            Self::Rpm | Self::Tar => "site-functions",
        }
    }
}

/// Fills `tree`, which is emptied before.
pub(super) fn lay_out(sources: &Sources, format: Format, tree: &Path) -> Result<()> {
    if tree.exists() {
        fs::remove_dir_all(tree)?;
    }
    let prefix = tree.join(format.prefix());
    for (from, to) in generated(format) {
        put(&sources.generated.join(from), &prefix.join(to))?;
    }
    for (from, to) in in_tree(format) {
        put(&sources.root.join(from), &prefix.join(to))?;
    }
    if format == Format::Tar {
        // The units name the programs of `/usr`.
        for unit in fs::read_dir(prefix.join(UNITS))? {
            let unit = unit?.path();
            fs::write(&unit, install::under_usr_local(&fs::read_to_string(&unit)?))?;
        }
    } else {
        put(&sources.root.join("xdp/broker").join(POLICY), &tree.join("etc").join(POLICY))?;
    }
    Ok(())
}

/// The policy of the broker.
pub(super) const POLICY: &str = "xdp-broker.toml";
/// The folder of units.
const UNITS: &str = "lib/systemd/system";

/// Generated files: name, place.
fn generated(format: Format) -> Vec<(String, String)> {
    let documents = format!("share/doc/{NAME}");
    let provider = |folder| {
        let place = format!("{}/{folder}/{PROVIDER_FILE}", format.libraries());
        (PROVIDER_FILE.to_owned(), place)
    };
    let mut files = vec![
        provider("libfabric"),
        provider(install::AS_TCP),
        ("xdp-perf".to_owned(), "bin/xdp-perf".to_owned()),
        ("xdp-run".to_owned(), "bin/xdp-run".to_owned()),
        ("xdp-top".to_owned(), "bin/xdp-top".to_owned()),
        ("xdp-broker".to_owned(), "sbin/xdp-broker".to_owned()),
        ("copyright".to_owned(), format!("{documents}/copyright")),
        ("licences.gz".to_owned(), format!("{documents}/licences.gz")),
    ];
    for (name, section) in manuals::PAGES {
        let page = format!("{name}.{section}.gz");
        files.push((page.clone(), format!("share/man/man{section}/{page}")));
    }
    for program in ["xdp-perf", "xdp-run", "xdp-top"] {
        for (shell, place) in [
            ("bash", format!("share/bash-completion/completions/{program}")),
            ("zsh", format!("share/zsh/{}/_{program}", format.zsh())),
            ("fish", format!("share/fish/vendor_completions.d/{program}.fish")),
        ] {
            files.push((format!("{program}.{shell}"), place));
        }
    }
    if format == Format::Deb {
        files.push(("changelog.gz".to_owned(), format!("{documents}/changelog.Debian.gz")));
    }
    files
}

/// Files and folders of the tree: path, place.
fn in_tree(format: Format) -> Vec<(&'static str, String)> {
    let documents = format!("share/doc/{NAME}");
    let document = |name: &str| format!("{documents}/{name}");
    vec![
        ("README.md", document("README.md")),
        ("CHANGELOG.md", document("CHANGELOG.md")),
        ("docs/TUNING.md", document("TUNING.md")),
        ("docs/fi_xdp.7.md", document("fi_xdp.7.md")),
        ("docs/quickstart.md", document("quickstart.md")),
        ("docs/troubleshooting.md", document("troubleshooting.md")),
        ("xdp/broker/xdp-broker.toml", document(POLICY)),
        ("examples/pingpong.rs", document("examples/pingpong.rs")),
        ("examples/connected.rs", document("examples/connected.rs")),
        ("examples/c/pingpong.c", document("examples/pingpong.c")),
        ("examples/c/connected.c", document("examples/connected.c")),
        ("docs/grafana/xdp.json", document("grafana/xdp.json")),
        (
            "docs/wireshark/ofi_xdp.lua",
            format!("{}/wireshark/plugins/ofi_xdp.lua", format.libraries()),
        ),
        ("xdp/broker/systemd/xdp-broker.service", format!("{UNITS}/xdp-broker.service")),
        ("xdp/broker/systemd/xdp-broker.socket", format!("{UNITS}/xdp-broker.socket")),
        ("xdp/top/systemd/xdp-top.service", format!("{UNITS}/xdp-top.service")),
    ]
}

/// Copies a file. Programs may be executed, everything may be read.
fn put(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    fs::copy(from, to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    let folder = to.parent().and_then(Path::file_name);
    let is_program = folder.is_some_and(|folder| folder == "bin" || folder == "sbin");
    fs::set_permissions(to, fs::Permissions::from_mode(if is_program { 0o755 } else { 0o644 }))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libfabric_finds_the_provider_of_each_distribution() {
        let place = |format| {
            let files = generated(format);
            files.into_iter().find(|(name, _)| name == PROVIDER_FILE).unwrap().1
        };
        assert_eq!(place(Format::Deb), format!("lib/{ARCH}-linux-gnu/libfabric/{PROVIDER_FILE}"));
        assert_eq!(place(Format::Rpm), format!("lib64/libfabric/{PROVIDER_FILE}"));
        assert_eq!(place(Format::Tar), format!("lib/libfabric/{PROVIDER_FILE}"));
    }

    /// The programs that units start and manuals that they name, without the leading slash.
    fn named_in_units(units: &Path) -> Vec<String> {
        let mut named = Vec::new();
        for unit in fs::read_dir(units).unwrap() {
            let text = fs::read_to_string(unit.unwrap().path()).unwrap();
            for line in text.lines() {
                let start = ["ExecStart=/", "Documentation=file:/"];
                let Some(rest) = start.iter().find_map(|start| line.strip_prefix(start)) else {
                    continue;
                };
                named.extend(rest.split(' ').next().map(str::to_owned));
            }
        }
        named
    }

    #[test]
    fn the_units_of_each_package_name_files_that_it_has() {
        let base = std::env::temp_dir().join(format!("ofi-layout-{}", std::process::id()));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let none = String::new;
        let origin = Origin { seconds: none(), date: none(), maintainer: none() };
        let sources =
            Sources { root, folder: base.clone(), generated: base.join("generated"), origin };
        fs::create_dir_all(&sources.generated).unwrap();
        for format in [Format::Deb, Format::Rpm, Format::Tar] {
            for (name, _) in generated(format) {
                fs::write(sources.generated.join(name), "").unwrap();
            }
            // The archive is unpacked in /usr/local, the others in /.
            let tree = base.join(format.name());
            let unpacked =
                if format == Format::Tar { tree.join("usr/local") } else { tree.clone() };
            lay_out(&sources, format, &unpacked).unwrap();
            let named = named_in_units(&unpacked.join(format.prefix()).join(UNITS));
            assert_eq!(named.len(), 4, "{format:?}: {named:?}");
            for file in named {
                assert!(tree.join(&file).is_file(), "{format:?}: {file}");
            }
        }
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn files_of_the_tree_exist_and_no_two_go_to_one_place() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for format in [Format::Deb, Format::Rpm, Format::Tar] {
            let mut places: Vec<String> =
                generated(format).into_iter().map(|file| file.1).collect();
            for (from, to) in in_tree(format) {
                assert!(root.join(from).is_file(), "{from}");
                places.push(to);
            }
            let count = places.len();
            places.sort();
            places.dedup();
            assert_eq!(places.len(), count);
        }
    }
}
