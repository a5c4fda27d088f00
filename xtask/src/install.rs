// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts the provider where libfabric looks, and the broker where systemd does.
//!
//! In: an optional prefix. Out: `libxdp-fi.so` in libfabric's provider folder, `xdp-top` and
//! `xdp-broker` with its units and an example of its policy under the prefix (or `/usr/local`),
//! nothing of it enabled, and on the terminal what a user must still do. libfabric searches
//! `FI_PROVIDER_PATH`, else `LIBDIR/libfabric` of its own installation (fabric(7)).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::build::{self, PROVIDER_FILE, Profile};
use crate::top;
use crate::workspace::{Privilege, Workspace};

/// Builds the provider and installs it under `prefix`, or for the system's libfabric.
pub(crate) fn install(workspace: &Workspace, prefix: Option<PathBuf>) -> Result<()> {
    let built = build::build(workspace, Profile::Release)?;
    let default = libfabric_provider_dir();
    let base = match &prefix {
        Some(prefix) => std::path::absolute(prefix)?,
        None => PathBuf::from("/usr/local"),
    };
    let shown = base.join("bin").join(top::PROGRAM);
    let broker = Broker::under(base);
    let folder = match prefix {
        Some(prefix) => std::path::absolute(prefix)?.join("lib/libfabric"),
        None => default.clone().context(
            "pkg-config does not know libfabric, so its provider folder is unknown: \
             give --prefix, and name PREFIX/lib/libfabric in FI_PROVIDER_PATH",
        )?,
    };
    let target = folder.join(PROVIDER_FILE);
    copy(&built.provider, &target, "0755")?;
    let program = built.programs.get(BROKER).context("cargo built no xdp-broker")?;
    copy(program, &broker.program, "0755")?;
    for (from, to) in broker.files(workspace) {
        copy(&from, &to, "0644")?;
    }
    // The unit names the program where a distribution puts it; here it is where it was put.
    let unit = std::fs::read_to_string(workspace.root().join(UNITS).join(SERVICE))?;
    let written = workspace.target_dir().join(SERVICE);
    std::fs::write(&written, broker.unit(&unit))?;
    copy(&written, &broker.units.join(SERVICE), "0644")?;
    copy(&top::build(workspace)?, &shown, "0755")?;
    println!("installed {}", shown.display());
    println!("{}\n\n{}", advice(&target, default.as_deref()), broker.advice());
    Ok(())
}

/// The broker's program.
const BROKER: &str = "xdp-broker";
/// Its units, in the source tree and by name.
const UNITS: &str = "xdp/broker/systemd";
const SOCKET: &str = "xdp-broker.socket";
const SERVICE: &str = "xdp-broker.service";
/// The example of its policy.
const POLICY: &str = "xdp-broker.toml";

/// Where the broker's files go.
#[derive(Debug)]
struct Broker {
    program: PathBuf,
    units: PathBuf,
    policy: PathBuf,
}

impl Broker {
    fn under(prefix: PathBuf) -> Self {
        Self {
            program: prefix.join("sbin").join(BROKER),
            units: prefix.join("lib/systemd/system"),
            policy: prefix.join("share/doc/ofi-xdp").join(POLICY),
        }
    }

    /// What is copied as it is.
    fn files(&self, workspace: &Workspace) -> [(PathBuf, PathBuf); 2] {
        let root = workspace.root();
        [
            (root.join(UNITS).join(SOCKET), self.units.join(SOCKET)),
            (root.join("xdp/broker").join(POLICY), self.policy.clone()),
        ]
    }

    /// The service's unit, with the program where it is.
    fn unit(&self, text: &str) -> String {
        text.replace("/usr/sbin/xdp-broker", &self.program.display().to_string())
    }

    /// What is left to do for who wants it.
    fn advice(&self) -> String {
        format!(
            "Processes without capabilities get AF_XDP from {}, if its policy says so:\n\n    \
             sudo install -m 0644 {} /etc/ && sudoedit /etc/{POLICY}\n    \
             sudo systemctl daemon-reload && sudo systemctl enable --now {SOCKET}",
            self.program.display(),
            self.policy.display()
        )
    }
}

/// `LIBDIR/libfabric` of the libfabric that pkg-config finds.
fn libfabric_provider_dir() -> Option<PathBuf> {
    let output =
        Command::new("pkg-config").args(["--variable=libdir", "libfabric"]).output().ok()?;
    let libdir = String::from_utf8(output.stdout).ok()?;
    let libdir = libdir.trim();
    (output.status.success() && !libdir.is_empty()).then(|| Path::new(libdir).join("libfabric"))
}

/// Copies as this user where that is allowed, else as root. `install` replaces the file, it does
/// not write into one that a running process has mapped.
fn copy(from: &Path, to: &Path, mode: &str) -> Result<()> {
    let arguments = ["-D", "-m", mode, "-T"];
    let own = Command::new("install").args(arguments).arg(from).arg(to).output();
    let own = own.context("`install` (coreutils) did not start")?;
    if own.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&own.stderr).trim().to_owned();
    match Privilege::for_files().command("install") {
        Some(mut command) if Privilege::for_files() != Privilege::Own => {
            let status = command.args(arguments).arg(from).arg(to).status()?;
            if !status.success() {
                bail!("cannot write {} as root either ({status})", to.display());
            }
            Ok(())
        }
        _ => bail!("{complaint}\nrun as root, or give a --prefix that you may write to"),
    }
}

/// What the user reads after an installation.
fn advice(installed: &Path, default: Option<&Path>) -> String {
    let folder = installed.parent().unwrap_or(installed);
    let mut text = format!("installed {}\n", installed.display());
    if Some(folder) == default {
        text += "libfabric finds it by itself: `fi_info -p xdp` shows it.\n";
    } else {
        text += &format!(
            "libfabric looks elsewhere by default. Set\n\n    export FI_PROVIDER_PATH={}\n\n",
            folder.display()
        );
    }
    text + "AF_XDP needs capabilities, which an application gets from\n\n    \
            sudo setcap cap_net_admin,cap_net_raw,cap_bpf+ep APPLICATION\n\n\
            which has risks (docs/TUNING.md), or from the broker. Without them the provider runs \
            over kernel UDP sockets, and says so."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_starts_what_was_installed() {
        let broker = Broker::under(PathBuf::from("/opt/x"));
        let unit = broker.unit(include_str!("../../xdp/broker/systemd/xdp-broker.service"));
        assert!(unit.contains("\nExecStart=/opt/x/sbin/xdp-broker\n"), "{unit}");
        assert!(broker.advice().contains("/opt/x/share/doc/ofi-xdp/xdp-broker.toml /etc/"));
    }

    #[test]
    fn the_advice_fits_the_place() {
        let system = Path::new("/usr/lib/libfabric");
        let there = advice(&system.join(PROVIDER_FILE), Some(system));
        assert!(!there.contains("FI_PROVIDER_PATH"), "{there}");
        let elsewhere = advice(Path::new("/opt/x/lib/libfabric/libxdp-fi.so"), Some(system));
        assert!(elsewhere.contains("FI_PROVIDER_PATH=/opt/x/lib/libfabric\n"), "{elsewhere}");
    }
}
