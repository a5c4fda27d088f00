// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another host: a network namespace (`ip-netns(8)`).
//!
//! In: the name and an address of the namespace. Out: calls and processes there. Sockets stay in
//! the namespace in which they were opened. So one process can have nodes on two hosts, with a
//! network between them.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nix::sched::{CloneFlags, setns};

/// A network namespace with an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Host {
    pub(crate) namespace: String,
    pub(crate) address: String,
}

impl std::str::FromStr for Host {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (namespace, address) = text.split_once('=').context("not NAMESPACE=ADDRESS")?;
        ensure!(!namespace.is_empty() && !address.is_empty(), "not NAMESPACE=ADDRESS");
        Ok(Self { namespace: namespace.to_owned(), address: address.to_owned() })
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.namespace, self.address)
    }
}

impl Host {
    /// Runs `work` with this thread on the host.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let ours = File::open("/proc/thread-self/ns/net").context("our network namespace")?;
        let path = Path::new("/run/netns").join(&self.namespace);
        let theirs = File::open(&path).with_context(|| path.display().to_string())?;
        setns(theirs, CloneFlags::CLONE_NEWNET).context("cannot go to the other host")?;
        let result = work();
        setns(ours, CloneFlags::CLONE_NEWNET).context("cannot come back")?;
        result
    }

    /// A copy of `command` that starts on the host.
    pub(crate) fn command(&self, command: &Command) -> Command {
        let mut there = Command::new("ip");
        there.args(["netns", "exec", &self.namespace]).arg(command.get_program());
        there.args(command.get_args());
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                there.env(name, value);
            }
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_namespace_and_an_address() {
        let host: Host = "b=198.18.0.2".parse().unwrap();
        assert_eq!((host.namespace.as_str(), host.address.as_str()), ("b", "198.18.0.2"));
        assert_eq!(host.to_string().parse::<Host>().unwrap(), host);
        assert!("b".parse::<Host>().is_err() && "=1".parse::<Host>().is_err());
    }

    #[test]
    fn a_command_keeps_its_arguments_and_variables() {
        let host: Host = "b=198.18.0.2".parse().unwrap();
        let mut command = Command::new("true");
        command.arg("x").env("A", "1");
        let there = host.command(&command);
        let arguments: Vec<_> = there.get_args().collect();
        assert_eq!(arguments, ["netns", "exec", "b", "true", "x"]);
        assert_eq!(there.get_envs().count(), 1);
    }
}
