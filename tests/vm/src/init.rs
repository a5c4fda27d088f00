// SPDX-License-Identifier: MIT OR Apache-2.0
//! A system from an initial file system: mounts, modules, and power-off.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};

/// The folder of the modules, named in the order in which they are loaded.
const MODULES: &str = "/modules";

/// Mount points, with their file systems.
const MOUNTS: [(&str, &str); 6] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/dev/shm"),
    ("tmpfs", "/run"),
    ("bpf", "/sys/fs/bpf"),
];

/// Mounts the usual file systems.
///
/// # Errors
/// When the kernel refuses one.
pub(crate) fn mount_all() -> anyhow::Result<()> {
    for (kind, path) in MOUNTS {
        // Some mount points are in file systems that were mounted by an earlier turn of the loop.
        fs::create_dir_all(path).with_context(|| path.to_owned())?;
        mount(Some(kind), path, Some(kind), MsFlags::empty(), None::<&str>)
            .with_context(|| format!("{kind} at {path}"))?;
    }
    Ok(())
}

/// Loads the modules of the image.
///
/// # Errors
/// When the kernel refuses one.
pub(crate) fn load_modules() -> anyhow::Result<()> {
    let mut modules: Vec<PathBuf> = fs::read_dir(MODULES)
        .context(MODULES)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    modules.sort();
    modules.iter().try_for_each(|path| load(path).with_context(|| path.display().to_string()))
}

fn load(path: &Path) -> anyhow::Result<()> {
    Ok(finit_module(&File::open(path)?, c"", ModuleInitFlags::empty())?)
}

/// Powers the machine off, after all output has left it.
pub(crate) fn power_off() -> ! {
    // A serial line drops its queue when the machine ends.
    for line in ["/dev/ttyS0", "/dev/ttyS1"] {
        if let Ok(line) = File::options().write(true).open(line) {
            let _ = nix::sys::termios::tcdrain(&line);
        }
    }
    // Returns only on failure. Then the kernel panics when its first process ends, which ends the
    // machine too.
    let _ = reboot(RebootMode::RB_POWER_OFF);
    std::process::exit(1);
}
