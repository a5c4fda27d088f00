// SPDX-License-Identifier: MIT OR Apache-2.0
//! The emulator: this machine's QEMU, or a newer one, unpacked beside it.
//!
//! In: a folder. Out: a program and its arguments. From version 8 on, QEMU emulates igb, a second
//! card with a driver for zero-copy. Debian 12 has version 7.2, and a newer one among its backports
//! that needs no other library. Without a newer one the guest has no igb, and reports that.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::apt::{self, Apt};

/// The emulator's name.
pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// The packages of it that are unpacked, of the suite for this release of Debian.
const PACKAGES: [&str; 3] = ["qemu-system-x86", "qemu-system-common", "qemu-system-data"];
const RELEASE: &str = "VERSION_CODENAME=bookworm";
const SUITE: &str = "bookworm-backports";
/// Where Debian's QEMU looks for firmware, which is not unpacked.
const FIRMWARE: [&str; 2] = ["/usr/share/seabios", "/usr/share/qemu"];

/// A QEMU.
#[derive(Clone, Debug)]
pub(crate) struct Emulator {
    program: PathBuf,
    arguments: Vec<OsString>,
    modules: Option<PathBuf>,
    has_igb: bool,
}

impl Emulator {
    fn new(program: PathBuf, arguments: Vec<OsString>, modules: Option<PathBuf>) -> Self {
        let mut emulator = Self { program, arguments, modules, has_igb: false };
        let mut asked = emulator.command();
        asked.args(["-device", "igb,help"]).stdin(Stdio::null());
        // It also succeeds for a device that it does not have, but lists no options then.
        let output = asked.output();
        emulator.has_igb = output.is_ok_and(|output| output.stdout.starts_with(b"igb options"));
        emulator
    }

    /// A command that starts it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        // It refuses the modules of another version.
        command.envs(self.modules.iter().map(|folder| ("QEMU_MODULE_DIR", folder)));
        command
    }

    /// Whether it emulates igb.
    pub(crate) const fn has_igb(&self) -> bool {
        self.has_igb
    }
}

/// The emulator to use; a newer one is fetched into `folder` where that is simple.
pub(crate) fn find(folder: &Path) -> Emulator {
    let installed = Emulator::new(QEMU.into(), Vec::new(), None);
    if installed.has_igb {
        return installed;
    }
    match newer(&folder.join("qemu")) {
        Ok(newer) => newer,
        Err(error) => {
            println!("vm: no emulated igb, which QEMU has from version 8 on: {error:#}");
            installed
        }
    }
}

/// The one of Debian 12's backports.
fn newer(folder: &Path) -> Result<Emulator> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    ensure!(release.lines().any(|line| line == RELEASE), "this is not Debian 12");
    apt::once(folder, |folder| {
        println!("vm: fetching a newer QEMU from {SUITE}");
        Apt::new(&folder.join("apt"), SUITE, "amd64")?.unpack(&PACKAGES, &folder.join("root"))
    })
    .with_context(|| format!("the QEMU of {SUITE} cannot be had"))?;
    let root = folder.join("root/usr");
    let data = root.join("share/qemu");
    let folders = [data].into_iter().chain(FIRMWARE.map(PathBuf::from));
    let arguments = folders.flat_map(|folder| ["-L".into(), folder.into_os_string()]).collect();
    let modules = root.join("lib/x86_64-linux-gnu/qemu");
    let emulator = Emulator::new(root.join("bin").join(QEMU), arguments, Some(modules));
    ensure!(emulator.has_igb, "the QEMU of {SUITE} does not run here");
    Ok(emulator)
}
