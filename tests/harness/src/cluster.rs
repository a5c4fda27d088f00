// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several hosts on one switch: a namespace each, joined by veth pairs to a bridge in a namespace
//! of its own. The machine's own network stays unchanged.
//!
//! Host number `n`, from 0, has 198.18.0.(n + 1)/24 and `fd00:198:18::(n + 1)/64` on [`INTERFACE`].

use std::net::Ipv4Addr;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::interrupt;
use crate::netns::{Namespace, ip};

/// The interface of every host.
pub const INTERFACE: &str = "link0";
/// The bridge.
const BRIDGE: &str = "switch0";
/// How long killed processes may take to end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The hosts and their switch; removed on drop, with the processes that still run there.
#[derive(Debug)]
pub struct Cluster {
    hosts: Vec<Namespace>,
    switch: Namespace,
}

impl Cluster {
    /// `count` hosts.
    ///
    /// # Errors
    /// Without privilege, or when `ip` fails.
    pub fn new(count: u8) -> anyhow::Result<Self> {
        Self::with_queues(count, 1)
    }

    /// `count` hosts with so many receive and transmit queues each.
    ///
    /// # Errors
    /// As [`Cluster::new`].
    pub fn with_queues(count: u8, queues: u32) -> anyhow::Result<Self> {
        let switch = Namespace::new("switch")?;
        // No multicast snooping: every port gets every multicast frame.
        let no_snooping = ["type", "bridge", "mcast_snooping", "0"];
        switch.ip(&[&["link", "add", BRIDGE][..], &no_snooping].concat())?;
        switch.ip(&["link", "set", BRIDGE, "up"])?;
        let mut cluster = Self { hosts: Vec::new(), switch };
        for number in 0..count {
            cluster.add(number, queues)?;
        }
        Ok(cluster)
    }

    fn add(&mut self, number: u8, queues: u32) -> anyhow::Result<()> {
        let (host, last) = (Namespace::new(&format!("host{number}"))?, number + 1);
        let port = format!("port{number}");
        let queues = queues.to_string();
        let queues = ["numrxqueues", &queues, "numtxqueues", &queues];
        let near = ["link", "add", "name", INTERFACE, "netns", host.name()];
        let far = ["type", "veth", "peer", "name", &port, "netns", self.switch.name()];
        ip(&[&near[..], &queues, &far, &queues].concat())?;
        self.switch.ip(&["link", "set", &port, "master", BRIDGE, "up"])?;
        let (v4, v6) = (format!("{}/24", address(number)), format!("fd00:198:18::{last:x}/64"));
        host.ip(&["address", "add", &v4, "dev", INTERFACE])?;
        host.ip(&["address", "add", &v6, "dev", INTERFACE, "nodad"])?;
        host.ip(&["link", "set", INTERFACE, "up"])?;
        self.hosts.push(host);
        Ok(())
    }

    /// The hosts, in the order of their numbers.
    #[must_use]
    pub fn hosts(&self) -> &[Namespace] {
        &self.hosts
    }

    /// Each host's address and the name of its namespace.
    pub fn addresses(&self) -> impl Iterator<Item = (Ipv4Addr, &str)> {
        (0..).zip(&self.hosts).map(|(number, host)| (address(number), host.name()))
    }

    /// Kills all processes on the hosts (a launcher's daemons leave their parent's process group),
    /// and waits until they are gone.
    ///
    /// # Errors
    /// When `ip` fails, or a process does not end.
    pub fn end_processes(&self) -> anyhow::Result<()> {
        interrupt::wait_regardless("the end of all processes on the hosts", TIMEOUT, || {
            let mut none = true;
            for host in &self.hosts {
                for pid in ip(&["netns", "pids", host.name()])?.split_whitespace() {
                    none = false;
                    match kill(Pid::from_raw(pid.parse()?), Signal::SIGKILL) {
                        Ok(()) | Err(Errno::ESRCH) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            Ok(none.then_some(()))
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.end_processes() {
            eprintln!("{error:#}");
        }
    }
}

/// The IPv4 address of host `number`.
#[must_use]
pub fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 0, number + 1)
}
