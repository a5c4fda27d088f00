// SPDX-License-Identifier: MIT OR Apache-2.0
//! Package managers: the one of this machine, and each one's package for a requirement.
//!
//! Called by [`super::ensure`] only.

use std::fs;
use std::process::Command;

use super::requirement::{Requirement, Test};
use crate::workspace::find_command;

/// The packages for some requirements.
#[derive(Debug, Default)]
pub(crate) struct Packages<'r> {
    pub(crate) names: Vec<String>,
    /// Requirements without a package here.
    pub(crate) left_out: Vec<&'r Requirement>,
}

/// Whether apt's lists have a package that can be installed; a virtual one has no entry.
pub(crate) fn apt_has(name: &str) -> bool {
    let output = Command::new("apt-cache").args(["--quiet=2", "show", name]).output();
    output.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
}

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

    /// The packages that bring `missing`, each once. `has` tells whether the lists of apt have a
    /// package.
    pub(crate) fn packages<'r>(
        self,
        missing: &[&'r Requirement],
        has: &dyn Fn(&str) -> bool,
    ) -> Packages<'r> {
        let mut found = Packages::default();
        for &one in missing {
            match self.package(one, has) {
                Some(name) if found.names.contains(&name) => {}
                Some(name) => found.names.push(name),
                None => found.left_out.push(one),
            }
        }
        found
    }

    fn package(self, one: &Requirement, has: &dyn Fn(&str) -> bool) -> Option<String> {
        let column = match self {
            // Ubuntu has packages of Debian's names from 25.04 on. Earlier commands of these names
            // start those of the running kernel, for which a kernel of WSL or of the host of a
            // container has no package. One name that apt does not know refuses the whole list.
            Self::AptOnUbuntu if matches!(one.test, Test::Runs("bpftool" | "perf")) => {
                let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
                let tools = format!("linux-tools-{}", kernel.trim());
                return [one.packages[0].to_owned(), tools].into_iter().find(|name| has(name));
            }
            Self::Apt | Self::AptOnUbuntu => 0,
            Self::Dnf => 1,
            Self::Zypper => 2,
            Self::Pacman => 3,
        };
        Some(one.packages[column].to_owned())
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
        let none = |_: &str| false;
        let debian = PackageManager::Apt.packages(&all, &none).names;
        assert!(debian.contains(&"bpftool".to_owned()));
        let arch = PackageManager::Pacman.packages(&all, &none).names;
        assert_eq!(arch.iter().filter(|name| *name == "libfabric").count(), 1);
    }

    #[test]
    fn a_kernel_without_tools_leaves_them_out_and_refuses_nothing_else() {
        let all: Vec<&Requirement> = REQUIREMENTS.iter().collect();
        let on_ubuntu =
            |has: &dyn Fn(&str) -> bool| PackageManager::AptOnUbuntu.packages(&all, has);
        let is_tool = |name: &&String| {
            ["bpftool", "linux-perf"].contains(&name.as_str()) || name.starts_with("linux-tools-")
        };
        let tools = |has| {
            let found = on_ubuntu(has);
            (found.names.iter().filter(is_tool).count(), found.left_out.len())
        };
        assert_eq!(tools(&|name| name.starts_with("linux-tools-")), (1, 0));
        assert_eq!(tools(&|name| !name.starts_with("linux-tools-")), (2, 0));
        assert_eq!(tools(&|_| false), (0, 2));
        assert!(on_ubuntu(&|_| false).names.contains(&"clang".to_owned()));
    }
}
