// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debian packages that are unpacked, not installed.
//!
//! In: a folder, and a line of sources.list(5). Out: packages, downloaded by apt with lists and
//! caches of its own, so that the machine's are untouched, and unpacked by dpkg.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

/// Written when all is there.
const COMPLETE: &str = "complete";

/// Makes `folder` by `make`, which gets it empty, unless that was done before.
pub(crate) fn once(folder: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let complete = folder.join(COMPLETE);
    if complete.exists() {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    make(folder)?;
    Ok(fs::write(&complete, "")?)
}

/// apt with lists and caches of its own.
#[derive(Debug)]
pub(crate) struct Apt {
    folder: PathBuf,
    options: Vec<String>,
}

impl Apt {
    /// For packages of `suite` and of `architecture` (Debian's name), in `folder`; fetches their
    /// list.
    pub(crate) fn new(folder: &Path, suite: &str, architecture: &str) -> Result<Self> {
        for part in ["lists/partial", "cache/archives/partial", "state"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let sources = folder.join("sources.list");
        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let line = format!("deb [signed-by={keys}] http://deb.debian.org/debian {suite} main\n");
        fs::write(&sources, line)?;
        // Nothing is installed there: dependencies are not checked.
        fs::write(folder.join("status"), "")?;
        let path = |part: &str| folder.join(part).display().to_string();
        let options = vec![
            format!("Dir::Etc::SourceList={}", sources.display()),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State={}", path("state")),
            format!("Dir::State::Lists={}", path("lists")),
            format!("Dir::State::Status={}", path("status")),
            format!("Dir::Cache={}", path("cache")),
            format!("APT::Architecture={architecture}"),
            format!("APT::Architectures={architecture}"),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Retries=3".to_owned(),
        ];
        let apt = Self { folder: folder.to_owned(), options };
        apt.run("apt-get", &["update"])?;
        Ok(apt)
    }

    /// The entry of a package in the list.
    pub(crate) fn show(&self, package: &str) -> Result<String> {
        self.run("apt-cache", &["show", package])
    }

    /// Downloads packages and unpacks them below `root`.
    pub(crate) fn unpack(&self, packages: &[&str], root: &Path) -> Result<()> {
        self.run("apt-get", &[&["download"], packages].concat())?;
        for entry in fs::read_dir(&self.folder)? {
            let package = entry?.path();
            if package.extension().is_some_and(|extension| extension == "deb") {
                output(Command::new("dpkg").arg("-x").arg(&package).arg(root))?;
                fs::remove_file(package)?;
            }
        }
        Ok(())
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).arg("--quiet=2");
        for option in &self.options {
            command.args(["-o", option]);
        }
        output(command.args(arguments))
    }
}

fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("{name} did not start"))?;
    if !output.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8(output.stdout)?;
    ensure!(output.stderr.is_empty() || !text.is_empty() || name != "apt-cache", "{name}: nothing");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_folder_is_kept_and_a_half_made_one_is_made_again() {
        let folder = std::env::temp_dir().join(format!("xtask-once-{}", std::process::id()));
        let failing = |folder: &Path| -> Result<()> {
            fs::create_dir_all(folder.join("half"))?;
            bail!("no network")
        };
        assert!(once(&folder, failing).is_err());
        let mut made = 0;
        for _ in 0..2 {
            let make = |folder: &Path| {
                assert!(!folder.join("half").exists());
                made += 1;
                Ok(fs::create_dir_all(folder)?)
            };
            once(&folder, make).unwrap();
        }
        assert_eq!(made, 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
