// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's kernel: Debian's newest for its stable release, as packaged, fetched once.
//!
//! In: a folder. Out: `vmlinuz` and the modules, unpacked there by apt and dpkg. These have lists
//! and caches of their own: the machine's are untouched and nothing is installed. virtio-net does
//! zero-copy both ways from Linux 6.13 on, which is newer than the stable release's kernel. It is
//! the general kernel, not the one for clouds: it has the drivers of the emulated cards.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::apt::{self, Apt};

/// Where the kernel comes from.
const SUITE: &str = "trixie-backports";
/// The package that depends on the newest kernel's.
const NEWEST: &str = "linux-image-amd64";
/// How the names of those begin.
const IMAGE: &str = "linux-image-";

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
    apt::once(&folder, |folder| download(folder).context("Debian's kernel cannot be had"))?;
    find(&folder)
}

/// The unpacked kernel in `folder`.
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
    let apt = Apt::new(&folder.join("apt"), SUITE, "amd64")?;
    let release = newest(&apt.show(NEWEST)?)?;
    println!("vm: fetching Linux {release} from Debian");
    let packages = ["binary", "modules"].map(|part| format!("linux-{part}-{release}"));
    apt.unpack(&packages.each_ref().map(String::as_str), &folder.join("root"))
}

/// The release that the description of [`NEWEST`] depends on.
fn newest(description: &str) -> Result<String> {
    let depends = description.lines().find_map(|line| line.strip_prefix("Depends: "));
    let names =
        depends.unwrap_or_default().split(',').filter_map(|one| one.split_whitespace().next());
    let release = names.filter_map(|name| name.strip_prefix(IMAGE)).next();
    Ok(release.with_context(|| format!("{NEWEST} names no kernel"))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_the_one_its_package_depends_on() {
        let text = "Package: linux-image-amd64\nDepends: linux-base-amd64 (= 7.3.4-1~bpo13+1), \
                    linux-image-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1)\n";
        assert_eq!(newest(text).unwrap(), "7.3.4+deb13-amd64");
        assert!(newest("Package: x\n").is_err());
    }
}
