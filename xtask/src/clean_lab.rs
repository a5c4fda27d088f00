// SPDX-License-Identifier: MIT OR Apache-2.0
//! Removes the network namespaces of lab and test runs that were killed.
//!
//! In: the system's named network namespaces. Out: those with our prefix are gone, with the
//! processes in them and, as the kernel removes a veth pair with either end, their links. Nothing
//! else is touched.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::setup;
use crate::workspace::Privilege;

/// The harness and every test name their namespaces `oxl-PID-…`, after the process that made them.
const PREFIX: &str = "oxl-";

/// Finds and removes the leftovers, naming each. A run that is under way keeps its own.
pub(crate) fn clean_lab() -> Result<()> {
    setup::ensure(&[setup::Purpose::Run])?;
    let ours = ours(&ip(&["netns", "list"])?);
    for (name, owner) in &ours {
        let owner = owner.to_string();
        // As root, too: `/proc` may hide the processes of others.
        let runs = Path::new("/proc").join(&owner).exists();
        if runs || privileged("kill", &["-0", &owner]).is_ok() {
            println!("kept {name}: process {owner}, which made it, runs");
            continue;
        }
        let pids = ip(&["netns", "pids", name])?;
        let pids: Vec<&str> = pids.split_whitespace().collect();
        if !pids.is_empty() {
            privileged("kill", &[&["-KILL"], &pids[..]].concat())?;
        }
        ip(&["netns", "delete", name])?;
        println!("removed {name} ({} processes ended)", pids.len());
    }
    if ours.is_empty() {
        println!("no namespace {PREFIX}* is left");
    }
    Ok(())
}

/// Name and owner of each of our namespaces in the output of `ip netns list` (lines of a name, then
/// perhaps `(id: 0)`).
fn ours(list: &str) -> Vec<(String, u32)> {
    list.lines()
        .filter_map(|line| {
            let name = line.split_whitespace().next()?;
            let owner = name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()?;
            Some((name.to_owned(), owner))
        })
        .collect()
}

fn ip(arguments: &[&str]) -> Result<String> {
    privileged("ip", arguments)
}

/// The output of `program`. If it fails, its message is the error.
fn privileged(program: &str, arguments: &[&str]) -> Result<String> {
    let mut command: Command = Privilege::for_network()
        .command(program)
        .context("network namespaces need root: run this as root or install sudo")?;
    let output = command.args(arguments).output()?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{program} {}: {}", arguments.join(" "), complaint.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_namespaces_are_taken() {
        let list = "oxl-12-0-a (id: 0)\ncustomer\noxl-7-b\nmy-oxl-1-c\noxl-mine\n\n";
        assert_eq!(ours(list), [("oxl-12-0-a".to_owned(), 12), ("oxl-7-b".to_owned(), 7)]);
        assert!(ours("").is_empty());
    }
}
