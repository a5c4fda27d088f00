// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples of the residents: their memory, descriptors, threads, connections and messages.
//!
//! In: process ids. Out: figures from `/proc` and from the statistics pages. Caller: the run, at
//! intervals.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use ofi_xdp_statistics::{FOLDER, read_all};

/// The usage of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Usage {
    /// Resident memory, in KiB (`VmRSS`).
    pub(crate) memory: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
}

/// The figures of one resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) usage: Usage,
    /// Peers with traffic, as the statistics page has them.
    pub(crate) connections: u64,
    /// Messages that have matched a receive, so far.
    pub(crate) messages: u64,
    /// Packets received by AF_XDP, so far.
    pub(crate) by_xdp: u64,
    /// Whether the endpoint has AF_XDP at this moment.
    pub(crate) has_xdp: bool,
}

/// The figures of all residents at one time since the start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    pub(crate) residents: Vec<Figures>,
}

/// Reads the usage of a process.
///
/// # Errors
/// When the process is gone.
pub(crate) fn usage(pid: u32) -> anyhow::Result<Usage> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} has ended"))?;
    let value = |name| {
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        let value = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
        value.with_context(|| format!("no {name} of process {pid}"))
    };
    Ok(Usage {
        memory: value("VmRSS:")?,
        threads: value("Threads:")?,
        descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64,
    })
}

/// Reads the figures of the residents with these process ids. `None` while one of them has no
/// statistics page: its first one may be late.
///
/// # Errors
/// When a process is gone.
pub(crate) fn take(at: Duration, pids: &[u32]) -> anyhow::Result<Option<Sample>> {
    let pages = read_all(Path::new(FOLDER))?;
    let mut residents = Vec::new();
    for pid in pids {
        let Some(page) = pages.iter().find(|page| page.pid == *pid) else { return Ok(None) };
        let counter = |name: &str| {
            page.counters.get(name).copied().with_context(|| format!("no counter {name}"))
        };
        residents.push(Figures {
            usage: usage(*pid).context("a resident")?,
            connections: page.connections.into(),
            messages: counter("messages_accepted")?,
            by_xdp: counter("xsk_received")?,
            has_xdp: page.tier.starts_with("AF_XDP"),
        });
    }
    Ok(Some(Sample { at, residents }))
}
