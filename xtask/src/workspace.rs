// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folders of the project, and the privilege of this process.
//!
//! In: the environment. Out: paths, and [`Privilege`]. Called by every task. Reads, changes
//! nothing.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

/// The checked-out project.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    /// Release builds optimise between crates, as the top `Cargo.toml` says.
    lto: bool,
}

impl Workspace {
    /// The workspace that this program was built from, also when called from a subfolder.
    pub(crate) fn open() -> Result<Self> {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package.parent().context("xtask has no parent folder")?;
        let root = fs::canonicalize(root)
            .with_context(|| format!("{} is gone: was the project moved?", root.display()))?;
        Ok(Self { root, lto: true })
    }

    /// Release builds optimise within each crate alone from now on: for the stages, which link more
    /// than twenty programs. The tests that they start inherit it.
    pub(crate) fn without_lto(self) -> Self {
        Self { lto: false, ..self }
    }

    /// A second one, with release builds as the product's.
    pub(crate) fn with_lto(&self) -> Self {
        Self { root: self.root.clone(), lto: true }
    }

    /// The folder of the top `Cargo.toml`.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Cargo's output folder.
    pub(crate) fn target_dir(&self) -> PathBuf {
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), PathBuf::from)
    }

    /// The folder for `FI_PROVIDER_PATH`. It stays here even if `CARGO_TARGET_DIR` moves cargo's
    /// output.
    pub(crate) fn provider_dir(&self) -> PathBuf {
        self.root.join("target/provider")
    }

    /// Where tools are kept that only the checks need.
    pub(crate) fn tools_dir(&self) -> PathBuf {
        self.root.join("target/tools")
    }

    /// A cargo command at the top of the workspace, with the cargo that runs this program.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root).stdin(Stdio::null());
        // Written by `cargo run` for this package; the packages built now get their own.
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_PKG_") {
                command.env_remove(name);
            }
        }
        command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
        if !self.lto {
            command.env(LTO, "off");
        }
        command
    }
}

/// Cargo's variable for the key `lto` of the release profile.
const LTO: &str = "CARGO_PROFILE_RELEASE_LTO";

/// Whether an automatic build runs this: then a missing privilege or tool is a failure.
pub(crate) fn is_ci() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false" && value != "0")
}

/// The compiler's name for this machine's kind.
pub(crate) fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc did not start")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

/// The first executable file called `name` on the search path or in the system's own folders
/// (`/usr/sbin` is not on everyone's path).
pub(crate) fn find_command(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path)
        .chain(system)
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The way of this process to root's privilege: for namespaces, AF_XDP sockets, BPF programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// It may itself.
    Own,
    /// Through `sudo`, which does not ask (`sudo -n` succeeds).
    Sudo,
    /// Through `sudo`, which may ask for a password on the terminal.
    SudoAsks,
    /// Not at all.
    None,
}

/// Bits of `CapEff` (linux/capability.h): AF_XDP and links need the one, namespaces the other.
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;

impl Privilege {
    /// For network namespaces, AF_XDP and BPF. A root without capabilities (a plain container) has
    /// none.
    pub(crate) fn for_network() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let needed = CAP_NET_ADMIN | CAP_SYS_ADMIN;
        Self::own_or_sudo(effective_capabilities(&status) & needed == needed)
    }

    /// For packages and files of the system.
    pub(crate) fn for_files() -> Self {
        use std::os::unix::fs::MetadataExt as _;
        // The owner of a process's folder is its effective user (proc(5)).
        Self::own_or_sudo(fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0))
    }

    fn own_or_sudo(own: bool) -> Self {
        use std::io::IsTerminal as _;
        if own {
            return Self::Own;
        }
        if find_command("sudo").is_none() {
            return Self::None;
        }
        let silent = Command::new("sudo")
            .args(["-n", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match silent {
            Ok(status) if status.success() => Self::Sudo,
            _ if std::io::stdin().is_terminal() => Self::SudoAsks,
            _ => Self::None,
        }
    }

    /// The privilege that is left in the background, where `sudo` cannot ask: it asks now.
    pub(crate) fn asked(self) -> Self {
        if self != Self::SudoAsks {
            return self;
        }
        let answer = Command::new("sudo").arg("-v").status();
        if answer.is_ok_and(|status| status.success()) { Self::Sudo } else { Self::None }
    }

    /// A command that runs `program` with the privilege, or nothing where there is none.
    pub(crate) fn command(self, program: impl AsRef<OsStr>) -> Option<Command> {
        let mut command = match self {
            Self::Own => return Some(Command::new(program)),
            Self::Sudo => {
                let mut sudo = Command::new("sudo");
                sudo.arg("-n");
                sudo
            }
            Self::SudoAsks => Command::new("sudo"),
            Self::None => return None,
        };
        command.arg("--").arg(program);
        Some(command)
    }
}

/// The `CapEff` line of `/proc/self/status` (`proc_pid_status(5)`); no line is no capability.
fn effective_capabilities(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_link_without_lto_and_the_product_with_it() {
        let workspace = Workspace::open().unwrap();
        let is_set = |one: &Workspace| one.cargo().get_envs().any(|(name, _)| name == LTO);
        assert!(!is_set(&workspace));
        let stages = workspace.without_lto();
        assert!(is_set(&stages) && !is_set(&stages.with_lto()));
    }

    #[test]
    fn capabilities_are_read_from_their_line() {
        let status = "Name:\tx\nCapPrm:\tffff\nCapEff:\t0000000000201000\nCapBnd:\t0\n";
        assert_eq!(effective_capabilities(status), CAP_NET_ADMIN | CAP_SYS_ADMIN);
        assert_eq!(effective_capabilities("Name:\tx\n"), 0);
    }

    #[test]
    fn a_command_is_found_only_if_it_can_run() {
        assert!(find_command("sh").is_some());
        assert_eq!(find_command("no-such-command-anywhere"), None);
        assert!(!is_executable(Path::new("/etc/passwd")));
    }

    #[test]
    fn without_privilege_there_is_no_command() {
        assert!(Privilege::None.command("true").is_none());
        let sudo = Privilege::Sudo.command("ip").unwrap();
        assert_eq!(sudo.get_program(), "sudo");
        assert!(sudo.get_args().eq(["-n", "--", "ip"]));
    }

    #[test]
    fn a_privilege_that_needs_no_prompt_stays_as_it_is() {
        for privilege in [Privilege::Own, Privilege::Sudo, Privilege::None] {
            assert_eq!(privilege.asked(), privilege);
        }
    }
}
