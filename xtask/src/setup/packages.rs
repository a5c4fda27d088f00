// SPDX-License-Identifier: MIT OR Apache-2.0
//! Package managers: the one of this machine, and each one's package for a requirement.
//!
//! Called by [`super::ensure`] only.

use std::fs;

use super::requirement::{Requirement, Test};
use crate::workspace::find_command;

/// A package manager; one with two sets of package names has two entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackageManager {
    Apt,
    AptOnUbuntu,
    Dnf,
    Zypper,
    Pacman,
}

impl PackageManager {
    /// The first one installed here.
    pub(crate) fn detect() -> Option<Self> {
        let managers = [
            ("apt-get", apt_of(&fs::read_to_string("/etc/os-release").unwrap_or_default())),
            ("dnf", Self::Dnf),
            ("zypper", Self::Zypper),
            ("pacman", Self::Pacman),
        ];
        managers.into_iter().find(|(program, _)| find_command(program).is_some()).map(|one| one.1)
    }

    /// Whether set-up runs it. The other managers are untested: their command is only printed.
    pub(crate) fn installs_unattended(self) -> bool {
        matches!(self, Self::Apt | Self::AptOnUbuntu)
    }

    /// The packages that bring `missing`, each once.
    pub(crate) fn packages(self, missing: &[&Requirement]) -> Vec<String> {
        let mut names = Vec::new();
        for one in missing {
            let name = self.package(one);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn package(self, one: &Requirement) -> String {
        let column = match self {
            // The commands of these names there start the ones that fit the running kernel, from
            // here; no package is called linux-perf.
            Self::AptOnUbuntu if matches!(one.test, Test::Runs("bpftool" | "perf")) => {
                let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
                return format!("linux-tools-{}", kernel.trim());
            }
            Self::Apt | Self::AptOnUbuntu => 0,
            Self::Dnf => 1,
            Self::Zypper => 2,
            Self::Pacman => 3,
        };
        one.packages[column].to_owned()
    }

    /// The line a person would type.
    pub(crate) fn install_command(self, packages: &[String]) -> String {
        let verb = match self {
            Self::Apt | Self::AptOnUbuntu => "apt-get install -y --no-install-recommends",
            Self::Dnf => "dnf install -y",
            Self::Zypper => "zypper install -y",
            Self::Pacman => "pacman -S --needed",
        };
        format!("sudo {verb} {}", packages.join(" "))
    }
}

/// The kind of apt, by os-release(5): Ubuntu and its derivatives, or Debian.
fn apt_of(os_release: &str) -> PackageManager {
    let ubuntu = os_release.lines().any(|line| {
        let id = line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE="));
        id.is_some_and(|names| names.trim_matches('"').split(' ').any(|name| name == "ubuntu"))
    });
    if ubuntu { PackageManager::AptOnUbuntu } else { PackageManager::Apt }
}

#[cfg(test)]
mod tests {
    use super::super::requirement::REQUIREMENTS;
    use super::*;

    #[test]
    fn ubuntu_differs_from_debian() {
        assert_eq!(apt_of("NAME=x\nID=debian\n"), PackageManager::Apt);
        assert_eq!(apt_of("ID=ubuntu\nID_LIKE=debian\n"), PackageManager::AptOnUbuntu);
        assert_eq!(
            apt_of("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"),
            PackageManager::AptOnUbuntu
        );
    }

    #[test]
    fn each_manager_has_its_own_names_and_names_each_once() {
        let all: Vec<&Requirement> = REQUIREMENTS.iter().collect();
        assert!(PackageManager::Apt.packages(&all).contains(&"bpftool".to_owned()));
        let ubuntu = PackageManager::AptOnUbuntu.packages(&all);
        let tools = ubuntu.iter().filter(|name| name.starts_with("linux-tools-"));
        assert_eq!(tools.count(), 1, "{ubuntu:?}");
        let debians = ["bpftool", "linux-perf"];
        assert!(!ubuntu.iter().any(|name| debians.contains(&name.as_str())), "{ubuntu:?}");
        let arch = PackageManager::Pacman.packages(&all);
        assert_eq!(arch.iter().filter(|name| *name == "libfabric").count(), 1);
    }
}
