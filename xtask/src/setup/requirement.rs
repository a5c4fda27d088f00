// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requirements of the build and the tests, each with a probe.
//!
//! A requirement is a capability: a command that is there, a header that compiles, a library that
//! can be found. It is never the name of a package: packages differ, and people install by hand.
//! Called by [`super::ensure`] only. Bounded by the table.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::workspace::find_command;

/// The purpose of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Compiling the workspace.
    Build,
    /// The lab and the tests.
    Run,
    /// The tests alone.
    Test,
    /// Generating `ffi/libfabric-sys/src/bindings.rs`.
    Bindings,
    /// Checks that only `test --all` makes.
    Check,
    /// Building the fuzz targets.
    Fuzz,
    /// Counting instructions.
    Count,
    /// The virtual machine.
    Vm,
    /// The packages.
    Package,
    /// What is tried with the packages.
    PackageTest,
    /// Compiling for aarch64, and an emulator of it.
    Aarch64,
}

/// A capability, tested by using it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// An executable on the search path.
    Command(&'static str),
    /// One that also answers to `version`: Ubuntu's bpftool and perf are there without working.
    Runs(&'static str),
    /// A header that the C compiler finds.
    Header(&'static str),
    /// A shared library in one of the usual folders, whatever its version.
    Library(&'static str),
    /// A Python module that can be imported.
    PythonModule(&'static str),
    /// A file.
    File(&'static str),
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(name) | Self::Runs(name) | Self::File(name) => write!(f, "{name}"),
            Self::Header(name) => write!(f, "<{name}>"),
            Self::Library(name) => write!(f, "{name}.so"),
            Self::PythonModule(name) => write!(f, "python3: {name}"),
        }
    }
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Requirement {
    pub(crate) test: Test,
    pub(crate) purpose: Purpose,
    /// The reason, for a person.
    pub(crate) why: &'static str,
    /// Package names for apt, dnf, zypper and pacman.
    pub(crate) packages: [&'static str; 4],
}

const fn need(
    purpose: Purpose,
    test: Test,
    packages: [&'static str; 4],
    why: &'static str,
) -> Requirement {
    Requirement { test, purpose, why, packages }
}

/// Everything, in the order in which it is used.
pub(crate) const REQUIREMENTS: &[Requirement] = {
    use Purpose::{Aarch64, Bindings, Build, Check, Count, Fuzz, Package, PackageTest, Run, Vm};
    use Test::{Command, File, Header, Library, PythonModule, Runs};
    &[
        need(Build, Command("cc"), ["gcc"; 4], "compiles libbpf, and links"),
        need(
            Build,
            Header("stdio.h"),
            ["libc6-dev", "glibc-devel", "glibc-devel", "glibc"],
            "the C library's headers",
        ),
        need(Build, Command("make"), ["make"; 4], "builds libbpf"),
        need(Build, Command("clang"), ["clang"; 4], "compiles the XDP program to BPF"),
        need(
            Build,
            Command("pkg-config"),
            ["pkg-config", "pkgconf-pkg-config", "pkg-config", "pkgconf"],
            "finds libelf, zlib and libfabric",
        ),
        need(
            Build,
            Header("gelf.h"),
            ["libelf-dev", "elfutils-libelf-devel", "libelf-devel", "libelf"],
            "libbpf reads the compiled program with libelf",
        ),
        need(
            Build,
            Header("zlib.h"),
            ["zlib1g-dev", "zlib-devel", "zlib-devel", "zlib"],
            "libelf's compressed sections",
        ),
        need(
            Build,
            Header("rdma/fabric.h"),
            ["libfabric-dev", "libfabric-devel", "libfabric-devel", "libfabric"],
            "libfabric, which loads the provider",
        ),
        need(
            Run,
            Command("fi_info"),
            ["libfabric-bin", "libfabric", "libfabric", "libfabric"],
            "shows and tests the provider (fi_info, fi_pingpong)",
        ),
        need(
            Run,
            Command("ip"),
            ["iproute2", "iproute", "iproute2", "iproute2"],
            "makes the hosts of the lab and of the tests (network namespaces)",
        ),
        need(Run, Command("ethtool"), ["ethtool"; 4], "sets and shows device features"),
        need(
            Run,
            Command("nft"),
            ["nftables"; 4],
            "loses packets on the links of the benchmark `loss`",
        ),
        need(
            Purpose::Test,
            Runs("bpftool"),
            ["bpftool"; 4],
            "shows the XDP program and its counters",
        ),
        need(
            Bindings,
            Library("libclang"),
            ["libclang-dev", "clang-libs", "libclang13", "clang"],
            "bindgen reads the libfabric headers with libclang",
        ),
        need(
            Check,
            PythonModule("ensurepip"),
            ["python3-venv", "python3", "python3", "python"],
            "installs the spelling checker in target/tools",
        ),
        need(
            Check,
            Command("tshark"),
            ["tshark", "wireshark-cli", "wireshark", "wireshark-cli"],
            "reads captures with docs/wireshark/ofi_xdp.lua",
        ),
        need(
            Fuzz,
            Command("c++"),
            ["g++", "gcc-c++", "gcc-c++", "gcc"],
            "compiles libFuzzer, which drives the fuzz targets",
        ),
        need(Count, Command("valgrind"), ["valgrind"; 4], "counts the engine's instructions"),
        need(
            Count,
            Runs("perf"),
            ["linux-perf", "perf", "perf", "perf"],
            "samples for flame graphs (`cargo xtask profile`)",
        ),
        need(
            Vm,
            Command("qemu-system-x86_64"),
            ["qemu-system-x86", "qemu-kvm", "qemu-x86", "qemu-system-x86"],
            "emulates network cards with zero-copy",
        ),
        need(
            Vm,
            Command("busybox"),
            ["busybox-static", "busybox", "busybox-static", "busybox"],
            "the prompt in the virtual machine",
        ),
        need(Vm, Command("xz"), ["xz-utils", "xz", "xz", "xz"], "unpacks kernel modules"),
        need(Vm, Command("dpkg"), ["dpkg"; 4], "unpacks the kernel, which is Debian's"),
        need(
            Package,
            Command("systemd-socket-activate"),
            ["systemd"; 4],
            "starts the installed broker as its unit does",
        ),
        need(Package, Command("xz"), ["xz-utils", "xz", "xz", "xz"], "compresses the .deb"),
        need(Package, Command("go-md2man"), ["go-md2man"; 4], "makes manual pages"),
        need(
            Package,
            Command("dpkg-shlibdeps"),
            ["dpkg-dev", "dpkg-dev", "dpkg-devel", "dpkg"],
            "names the libraries that the .deb depends on",
        ),
        need(PackageTest, Command("lintian"), ["lintian"; 4], "checks the .deb"),
        need(
            PackageTest,
            Command("qemu-x86_64"),
            ["qemu-user", "qemu-user", "qemu-linux-user", "qemu-user"],
            "runs the provider on a processor without AVX",
        ),
        need(
            Aarch64,
            Command("aarch64-linux-gnu-gcc"),
            [
                "gcc-aarch64-linux-gnu",
                "gcc-aarch64-linux-gnu",
                "cross-aarch64-gcc13",
                "aarch64-linux-gnu-gcc",
            ],
            "compiles libbpf for aarch64, and links",
        ),
        need(
            Aarch64,
            File("/usr/aarch64-linux-gnu/include/stdio.h"),
            [
                "libc6-dev-arm64-cross",
                "glibc-devel",
                "cross-aarch64-glibc-devel",
                "aarch64-linux-gnu-glibc",
            ],
            "the C library's headers for aarch64",
        ),
        need(
            Aarch64,
            Command("qemu-aarch64"),
            ["qemu-user", "qemu-user", "qemu-linux-user", "qemu-user"],
            "runs programs of aarch64",
        ),
    ]
};

/// Answers whether a capability is there. The tests of the table answer for imaginary machines.
pub(crate) trait Check {
    /// Whether this machine passes `test`.
    fn holds(&self, test: &Test) -> bool;
}

/// This machine.
#[derive(Debug)]
pub(crate) struct System;

impl Check for System {
    fn holds(&self, test: &Test) -> bool {
        match test {
            Test::Command(name) => find_command(name).is_some(),
            Test::Runs(name) => find_command(name).is_some_and(|p| succeeds(p, &["version"], "")),
            Test::Header(name) => header_compiles(name),
            Test::Library(stem) => LIBRARY_DIRS.iter().any(|dir| holds_library(dir, stem)),
            Test::File(path) => Path::new(path).exists(),
            Test::PythonModule(name) => succeeds("python3", &["-c", &format!("import {name}")], ""),
        }
    }
}

/// Where distributions put shared libraries; `/usr/lib/llvm-*` is covered by the links that their
/// packages make in the first of these.
const LIBRARY_DIRS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
];

fn holds_library(dir: &str, stem: &str) -> bool {
    let Ok(entries) = fs::read_dir(Path::new(dir)) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.strip_prefix(stem)
            .is_some_and(|rest| rest.starts_with(".so") || is_version_and_so(rest))
    })
}

/// `-14.so`, `-14.so.1`: how Debian names the library of one version.
fn is_version_and_so(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').starts_with("so")
    })
}

fn header_compiles(name: &str) -> bool {
    succeeds("cc", &["-E", "-xc", "-o", "/dev/null", "-"], &format!("#include <{name}>\n"))
}

fn succeeds(program: impl AsRef<OsStr>, arguments: &[&str], input: &str) -> bool {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input has answered by its exit code all the same.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_answers_truthfully() {
        assert!(System.holds(&Test::Command("sh")));
        assert!(!System.holds(&Test::Command("no-such-command-anywhere")));
        assert!(System.holds(&Test::Runs("true")) && !System.holds(&Test::Runs("false")));
        assert!(!System.holds(&Test::Header("no/such/header.h")));
        assert!(!System.holds(&Test::Library("libno-such-library")));
        assert!(!System.holds(&Test::PythonModule("no_such_module_anywhere")));
    }

    #[test]
    fn library_names_differ_from_their_neighbours() {
        assert!(is_version_and_so("-14.so"));
        assert!(is_version_and_so("-14.so.1"));
        assert!(!is_version_and_so("-cpp.so.14"));
        assert!(!is_version_and_so("Analysis.a"));
    }

    #[test]
    fn every_requirement_has_a_reason_and_packages() {
        for one in REQUIREMENTS {
            assert!(!one.why.is_empty() && one.packages.iter().all(|name| !name.is_empty()));
        }
    }
}
