// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network namespaces, by the `ip` command: one is one host.
//!
//! A namespace is removed when its [`Namespace`] is dropped. What a killed process left behind is
//! removed by the next one: names carry the process id of their owner.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::process::Program;

/// How every namespace's name begins.
const PREFIX: &str = "oxl-";
/// How long `ip` may take. It waits for the kernel's one lock over all network configuration, which
/// detaching an XDP program holds until every core has been idle or in user space for a moment.
const IP_PATIENCE: Duration = Duration::from_secs(30);

/// A named network namespace that this process made.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one, with its loopback interface up. `role` ends its name.
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

    /// Its name, as `ip netns` knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with `arguments` in it, and gives what it printed.
    ///
    /// # Errors
    /// What `ip` complained of.
    pub fn ip(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut all = vec!["-netns", &self.name];
        all.extend(arguments);
        ip(&all)
    }

    /// Opens it, for setns(2).
    ///
    /// # Errors
    /// When it is gone.
    pub fn open(&self) -> anyhow::Result<File> {
        let path = PathBuf::from("/run/netns").join(&self.name);
        File::open(&path).with_context(|| format!("namespace {}", path.display()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = ip(&["netns", "delete", &self.name]) {
            eprintln!("namespace {} stays behind: {error:#}", self.name);
        }
    }
}

/// Runs `ip` with `arguments`, and gives what it printed.
///
/// # Errors
/// What `ip` complained of, with the command.
pub fn ip(arguments: &[&str]) -> anyhow::Result<String> {
    let output =
        Program::new("ip").args(arguments).run_regardless(IP_PATIENCE).with_context(|| {
            format!("`ip {}` (Debian, Ubuntu: package iproute2)", arguments.join(" "))
        })?;
    if !output.status.success() {
        bail!("`ip {}` failed: {}", arguments.join(" "), output.stderr.trim());
    }
    Ok(output.stdout)
}

/// Removes namespaces whose owner no longer lives (it was killed with SIGKILL). Returns how many.
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
