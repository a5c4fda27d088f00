// SPDX-License-Identifier: MIT OR Apache-2.0
//! Installs the provider for libfabric and the broker for systemd.
//!
//! In: an optional prefix. Out: `libxdp-fi.so` in libfabric's provider folder, and a copy in a
//! folder beside it, which is `tcp` by its folder's name. Under the prefix (or `/usr/local`):
//! `xdp-run`, `xdp-perf`, `xdp-top`, and `xdp-broker` with its units and an example of its policy.
//! Nothing is enabled; the remaining steps are printed. libfabric searches `FI_PROVIDER_PATH`, else
//! `LIBDIR/libfabric` of its own installation (fabric(7)).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::artifacts::PROVIDER_FILE;
use crate::build;
use crate::top;
use crate::workspace::{Privilege, Workspace};

/// Builds the provider and installs it under `prefix`, or for the system's libfabric.
pub(crate) fn install(workspace: &Workspace, prefix: Option<PathBuf>) -> Result<()> {
    let built = build::best(workspace)?;
    let default = libfabric_provider_dir();
    let base = match &prefix {
        Some(prefix) => std::path::absolute(prefix)?,
        None => PathBuf::from("/usr/local"),
    };
    let shown = base.join("bin").join(top::PROGRAM);
    let broker = Broker::under(base.clone());
    let folder = match prefix {
        Some(prefix) => std::path::absolute(prefix)?.join("lib/libfabric"),
        None => default.clone().context(
            "pkg-config does not know libfabric, so its provider folder is unknown: \
             give --prefix, and name PREFIX/lib/libfabric in FI_PROVIDER_PATH",
        )?,
    };
    let target = folder.join(PROVIDER_FILE);
    copy(&built.provider, &target, "0755")?;
    let as_tcp = folder.with_file_name(AS_TCP).join(PROVIDER_FILE);
    copy(&built.provider, &as_tcp, "0755")?;
    for name in [STARTER, METER] {
        let program = built.programs.get(name).with_context(|| format!("cargo built no {name}"))?;
        copy(program, &base.join("bin").join(name), "0755")?;
    }
    let program = built.programs.get(BROKER).context("cargo built no xdp-broker")?;
    copy(program, &broker.program, "0755")?;
    for (from, to) in broker.files(workspace) {
        copy(&from, &to, "0644")?;
    }
    // Units name things where a distribution puts them; here they are where they were put.
    for name in [SOCKET, SERVICE] {
        let unit = std::fs::read_to_string(workspace.root().join(UNITS).join(name))?;
        let written = workspace.target_dir().join(name);
        std::fs::write(&written, broker.unit(&unit))?;
        copy(&written, &broker.units.join(name), "0644")?;
    }
    copy(&top::build(workspace)?, &shown, "0755")?;
    for program in [base.join("bin").join(STARTER), base.join("bin").join(METER), shown] {
        println!("installed {}", program.display());
    }
    println!("{}", as_tcp_advice(&as_tcp));
    println!("{}\n\n{}", advice(&target, default.as_deref()), broker.advice());
    Ok(())
}

/// The folder of the copy that is `tcp` without a variable.
pub(crate) const AS_TCP: &str = "libfabric-as-tcp";
/// The program that starts others on the provider.
const STARTER: &str = "xdp-run";
/// The program that measures providers.
const METER: &str = "xdp-perf";
/// The broker's program.
const BROKER: &str = "xdp-broker";
/// Its units, in the source tree and by name.
const UNITS: &str = "xdp/broker/systemd";
const SOCKET: &str = "xdp-broker.socket";
const SERVICE: &str = "xdp-broker.service";
/// The example of its policy, and the manual.
const POLICY: &str = "xdp-broker.toml";
const MANUAL: &str = "fi_xdp.7.md";
/// Where a distribution puts such things.
const DOCUMENTS: &str = "share/doc/ofi-xdp";
/// Where systemd looks for units.
const UNIT_PATH: [&str; 2] = ["/usr/lib/systemd/system", "/usr/local/lib/systemd/system"];

/// Where the broker's files go.
#[derive(Debug)]
struct Broker {
    prefix: PathBuf,
    program: PathBuf,
    units: PathBuf,
    documents: PathBuf,
}

impl Broker {
    fn under(prefix: PathBuf) -> Self {
        Self {
            program: prefix.join("sbin").join(BROKER),
            units: prefix.join("lib/systemd/system"),
            documents: prefix.join(DOCUMENTS),
            prefix,
        }
    }

    /// Files that are copied without a change: from, to.
    fn files(&self, workspace: &Workspace) -> [(PathBuf, PathBuf); 2] {
        let root = workspace.root();
        [
            (root.join("xdp/broker").join(POLICY), self.documents.join(POLICY)),
            (root.join("docs").join(MANUAL), self.documents.join(MANUAL)),
        ]
    }

    /// A unit, with program and manual where they are.
    fn unit(&self, text: &str) -> String {
        unit_under(&self.prefix, text)
    }

    /// The command that makes systemd read the units.
    fn reload(&self) -> String {
        if UNIT_PATH.iter().any(|path| Path::new(path) == self.units) {
            return "sudo systemctl daemon-reload".to_owned();
        }
        let unit = |name| self.units.join(name).display().to_string();
        format!("sudo systemctl link {} {}", unit(SOCKET), unit(SERVICE))
    }

    /// The optional steps that remain.
    fn advice(&self) -> String {
        format!(
            "Processes without capabilities get AF_XDP from {}, if its policy says so:\n\n    \
             test -e /etc/{POLICY} || sudo install -m 0644 {} /etc/\n    \
             sudoedit /etc/{POLICY}\n    \
             {} && sudo systemctl enable --now {SOCKET}{}",
            self.program.display(),
            self.documents.join(POLICY).display(),
            self.reload(),
            // The unit's ProtectHome=.
            if ["/home", "/root"].iter().any(|home| self.program.starts_with(home)) {
                "\n\nThe unit hides home folders from the broker, and itself with them: install it \
                 elsewhere."
            } else {
                ""
            }
        )
    }
}

/// A unit of a package that is unpacked in `/usr/local`.
pub(crate) fn under_usr_local(unit: &str) -> String {
    unit_under(Path::new("/usr/local"), unit)
}

/// The unit with this text, whose programs and manual are below `prefix`.
fn unit_under(prefix: &Path, text: &str) -> String {
    ["bin/", "sbin/", DOCUMENTS].iter().fold(text.to_owned(), |text, place| {
        text.replace(&format!("/usr/{place}"), &format!("{}/{place}", prefix.display()))
    })
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

/// The line about the copy that is `tcp`.
fn as_tcp_advice(installed: &Path) -> String {
    let folder = installed.parent().unwrap_or(installed);
    let (installed, folder) = (installed.display(), folder.display());
    format!("installed {installed}: the provider as tcp, with FI_PROVIDER_PATH={folder}")
}

/// The text for the user after an installation.
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
    fn the_unit_starts_the_installed_program() {
        let broker = Broker::under(PathBuf::from("/opt/x"));
        let unit = broker.unit(include_str!("../../xdp/broker/systemd/xdp-broker.service"));
        assert!(unit.contains("\nExecStart=/opt/x/sbin/xdp-broker\n"), "{unit}");
        assert!(unit.contains("=file:/opt/x/share/doc/ofi-xdp/fi_xdp.7.md\n"), "{unit}");
        let advice = broker.advice();
        assert!(advice.contains("/opt/x/share/doc/ofi-xdp/xdp-broker.toml /etc/"), "{advice}");
        assert!(advice.contains("test -e /etc/xdp-broker.toml || sudo install"), "{advice}");
        assert!(advice.contains("link /opt/x/lib/systemd/system/xdp-broker.socket "), "{advice}");
        assert!(!advice.contains("elsewhere"), "{advice}");
        assert!(Broker::under(Path::new("/home").join("x")).advice().contains("elsewhere"));
        let advice = Broker::under("/usr/local".into()).advice();
        assert!(advice.contains("systemctl daemon-reload"), "{advice}");
    }

    /// systemd takes the lines in their order, and `bpf` is one of `@privileged`.
    #[test]
    fn the_unit_lets_the_broker_load_its_program() {
        let unit = include_str!("../../xdp/broker/systemd/xdp-broker.service");
        let lines = unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter="));
        let allowed = lines.fold(false, |allowed, line| match line.strip_prefix('~') {
            Some(list) => allowed && !list.contains("@privileged"),
            None => allowed || line.split(' ').any(|call| call == "bpf"),
        });
        assert!(allowed, "the filter is against bpf(2)");
    }

    /// In a user namespace of its own the files of all users belong to the overflow user.
    #[test]
    fn the_unit_of_xdp_top_sees_who_owns_a_page() {
        let unit = include_str!("../../xdp/top/systemd/xdp-top.service");
        assert!(!unit.lines().any(|line| line.starts_with("PrivateUsers=")), "{unit}");
    }

    #[test]
    fn a_provider_path_is_a_folder() {
        let text = as_tcp_advice(Path::new("/opt/x/lib/libfabric-as-tcp/libxdp-fi.so"));
        assert!(text.ends_with("FI_PROVIDER_PATH=/opt/x/lib/libfabric-as-tcp"), "{text}");
    }

    #[test]
    fn the_document_keeps_the_policy_of_the_site() {
        let document = include_str!("../../docs/install.md");
        let lines = document.lines().filter(|line| line.contains("xdp-broker.toml /etc/"));
        assert_eq!(lines.clone().count(), 1);
        assert!(document.contains("test -e /etc/xdp-broker.toml ||"));
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
