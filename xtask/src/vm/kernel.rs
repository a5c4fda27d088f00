// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's kernel: Debian's newest for its stable release, as packaged, fetched once.
//!
//! In: a folder. Out: `vmlinuz` and the modules, unpacked there by apt and dpkg with lists and
//! caches of their own, so that the machine's are untouched and nothing is installed. virtio-net
//! does zero-copy both ways from Linux 6.13 on, newer than what the stable release itself has. The
//! general kernel, not the one for clouds: it has the drivers of the emulated cards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

/// Where the kernel comes from.
const SOURCE: &str = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
                      http://deb.debian.org/debian trixie-backports main\n";
/// The package that depends on the newest kernel's.
const NEWEST: &str = "linux-image-amd64";
/// How the names of those begin.
const IMAGE: &str = "linux-image-";
/// Written when all is there.
const COMPLETE: &str = "complete";

/// An unpacked kernel.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// The bootable image.
    pub(crate) image: PathBuf,
    /// The folder of its modules.
    pub(crate) modules: PathBuf,
}

/// The kernel in `folder`, fetched if it is not there.
pub(crate) fn fetch(folder: &Path) -> Result<Kernel> {
    let folder = folder.join("kernel");
    let complete = folder.join(COMPLETE);
    if !complete.exists() {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        download(&folder).context("Debian's kernel cannot be had")?;
        fs::write(&complete, "")?;
    }
    find(&folder)
}

/// What was unpacked.
fn find(folder: &Path) -> Result<Kernel> {
    let all = folder.join("root/usr/lib/modules");
    let modules = fs::read_dir(&all)
        .with_context(|| all.display().to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|modules| modules.join("vmlinuz").exists())
        .with_context(|| format!("{} has no kernel: remove {}", all.display(), folder.display()))?;
    Ok(Kernel { image: modules.join("vmlinuz"), modules })
}

fn download(folder: &Path) -> Result<()> {
    let apt = Apt::new(&folder.join("apt"))?;
    apt.run("apt-get", &["update"])?;
    let release = newest(&apt.run("apt-cache", &["show", NEWEST])?)?;
    println!("vm: fetching Linux {release} from Debian");
    let packages = ["binary", "modules"].map(|part| format!("linux-{part}-{release}"));
    apt.run("apt-get", &["download", &packages[0], &packages[1]])?;
    for entry in fs::read_dir(&apt.folder)? {
        let package = entry?.path();
        if package.extension().is_some_and(|extension| extension == "deb") {
            output(Command::new("dpkg").arg("-x").arg(&package).arg(folder.join("root")))?;
            fs::remove_file(package)?;
        }
    }
    Ok(())
}

/// The release that the description of [`NEWEST`] depends on.
fn newest(description: &str) -> Result<String> {
    let depends = description.lines().find_map(|line| line.strip_prefix("Depends: "));
    let names =
        depends.unwrap_or_default().split(',').filter_map(|one| one.split_whitespace().next());
    let release = names.filter_map(|name| name.strip_prefix(IMAGE)).next();
    Ok(release.with_context(|| format!("{NEWEST} names no kernel"))?.to_owned())
}

/// apt with lists and caches of its own.
struct Apt {
    folder: PathBuf,
    options: Vec<String>,
}

impl Apt {
    fn new(folder: &Path) -> Result<Self> {
        for part in ["lists/partial", "cache/archives/partial", "state"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let sources = folder.join("sources.list");
        fs::write(&sources, SOURCE)?;
        // Nothing is installed there: what a package needs is not looked at.
        fs::write(folder.join("status"), "")?;
        let path = |part: &str| folder.join(part).display().to_string();
        let options = vec![
            format!("Dir::Etc::SourceList={}", sources.display()),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State={}", path("state")),
            format!("Dir::State::Lists={}", path("lists")),
            format!("Dir::State::Status={}", path("status")),
            format!("Dir::Cache={}", path("cache")),
            "APT::Architecture=amd64".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Retries=3".to_owned(),
        ];
        Ok(Self { folder: folder.to_owned(), options })
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
    fn the_newest_kernel_is_what_its_package_depends_on() {
        let text = "Package: linux-image-amd64\nDepends: linux-base-amd64 (= 7.3.4-1~bpo13+1), \
                    linux-image-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1)\n";
        assert_eq!(newest(text).unwrap(), "7.3.4+deb13-amd64");
        assert!(newest("Package: x\n").is_err());
    }
}
