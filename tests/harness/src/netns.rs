// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network namespaces, made with the `ip` command: each is one host.
//!
//! A namespace is removed when its [`Namespace`] is dropped. Namespaces of killed processes are
//! removed by the next run: their names carry the process id of the owner.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::process::Program;

/// Prefix of every namespace's name.
const PREFIX: &str = "oxl-";
/// How long `ip` may take. It waits for the kernel's one lock over network configuration. Detaching
/// an XDP program holds that lock until every core has been idle or in user space.
const IP_TIMEOUT: Duration = Duration::from_secs(30);

/// A named network namespace that this process made.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes a namespace with its loopback interface up. `role` ends its name.
    ///
    /// # Errors
    /// Without `CAP_SYS_ADMIN`, or without the `ip` command.
    pub fn new(role: &str) -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}-{role}", std::process::id());
        ip(&["netns", "add", &name]).context("cannot make a network namespace (it takes root)")?;
        let namespace = Self { name };
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// The name, as in `ip netns`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with `arguments` in the namespace, and returns its output. Its own option `-netns`
    /// mounts `/sys` again, which waits for several grace periods of the kernel: seconds on a busy
    /// machine.
    ///
    /// # Errors
    /// The error output of `ip`.
    pub fn ip(&self, arguments: &[&str]) -> anyhow::Result<String> {
        run(Program::new("ip").args(arguments).inside(self)?, arguments)
            .with_context(|| self.name.clone())
    }

    /// Opens the namespace, for setns(2).
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn open(&self) -> anyhow::Result<File> {
        let path = PathBuf::from("/run/netns").join(&self.name);
        File::open(&path).with_context(|| format!("namespace {}", path.display()))
    }
}

impl Program {
    /// Runs the program in `namespace`. Only its network differs: the file systems are shared, as
    /// between two containers with the same mounts.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn inside(self, namespace: &Namespace) -> anyhow::Result<Self> {
        Ok(self.in_network(namespace.open()?.into()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = ip(&["netns", "delete", &self.name]) {
            eprintln!("namespace {} stays behind: {error:#}", self.name);
        }
    }
}

/// Runs `ip` with `arguments`, and returns its output.
///
/// # Errors
/// The error output of `ip`, with the command.
pub fn ip(arguments: &[&str]) -> anyhow::Result<String> {
    run(Program::new("ip").args(arguments), arguments)
}

/// Runs `ip` as `program`, which has these `arguments`.
fn run(program: Program, arguments: &[&str]) -> anyhow::Result<String> {
    let output = program.run_regardless(IP_TIMEOUT).with_context(|| {
        format!("`ip {}` (Debian, Ubuntu: package iproute2)", arguments.join(" "))
    })?;
    if !output.status.success() {
        bail!("`ip {}` failed: {}", arguments.join(" "), output.stderr.trim());
    }
    Ok(output.stdout)
}

/// Removes the namespaces of dead owners (killed with SIGKILL). Returns their number.
///
/// # Errors
/// When `ip` cannot list or remove them.
pub fn sweep() -> anyhow::Result<usize> {
    let mut removed = 0;
    for line in ip(&["netns", "list"])?.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
        let Some(owner) = owner else { continue };
        if kill(Pid::from_raw(owner), None) == Err(Errno::ESRCH) {
            ip(&["netns", "delete", name])?;
            removed += 1;
        }
    }
    Ok(removed)
}
