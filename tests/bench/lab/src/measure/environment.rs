// SPDX-License-Identifier: MIT OR Apache-2.0
//! Environments of sessions: two namespaces, or this machine and another.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use ofi_xdp_perf::report::PerfReport;

use super::cores::handover_ns;
use super::{Candidate, Entry, LinkUse};
use ofi_xdp_harness::paths;
use ofi_xdp_harness::process::{Program, RunningProgram};
use ofi_xdp_harness::topology::{LinkOptions, Side, TwoHosts};

/// The first port of servers.
pub(super) const PORT: u16 = 7471;
/// Time limit for a server to listen, and to end after its client.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// Where sessions run.
#[derive(Debug)]
pub enum Environment {
    /// Both processes on this machine, on two hosts that are namespaces.
    Hosts(TwoHosts),
    /// The client on this machine, the server on a machine with `ofi-xdp-lab run --serve`.
    Machine {
        /// The interface to that machine.
        nic: String,
        /// The address of that machine.
        peer: IpAddr,
    },
}

/// The processes of one session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: RunningProgram,
    /// `None` if it runs on another machine.
    pub(super) server: Option<RunningProgram>,
}

impl Environment {
    /// Two hosts with a link for each use.
    ///
    /// # Errors
    /// Without privilege.
    pub fn two_hosts() -> anyhow::Result<Self> {
        Ok(Self::Hosts(TwoHosts::new(&[LinkOptions::default(); 2])?))
    }

    /// Two hosts with a link of its own for each entry, with the properties that it asks for.
    ///
    /// # Errors
    /// Without privilege.
    pub fn own_links(entries: &mut [Entry]) -> anyhow::Result<Self> {
        let mut links = Vec::with_capacity(entries.len());
        for Entry { candidate, .. } in entries {
            candidate.link_number = links.len();
            links.push(candidate.options);
        }
        Ok(Self::Hosts(TwoHosts::new(&links)?))
    }

    /// Two hosts with a link for each peer and mode.
    ///
    /// # Errors
    /// Without privilege.
    pub fn links_by_mode(entries: &mut [Entry]) -> anyhow::Result<Self> {
        let mut links = Vec::new();
        for Entry { candidate, .. } in entries {
            let key = (candidate.peer, candidate.mode.clone());
            let known = links.iter().position(|link| *link == key);
            candidate.link_number = known.unwrap_or(links.len());
            if known.is_none() {
                links.push(key);
            }
        }
        Ok(Self::Hosts(TwoHosts::new(&vec![LinkOptions::default(); links.len()])?))
    }

    /// A description of the environment.
    #[must_use]
    pub fn setting(&self) -> String {
        match self {
            Self::Hosts(_) => String::from("two network namespaces of one machine, joined by veth"),
            Self::Machine { nic, peer } => format!("interface {nic} to {peer}"),
        }
    }

    /// Distance between the cores of client and server, in ns for a cache line; `None` if they are
    /// on two machines.
    pub(super) fn distance(&self) -> Option<f64> {
        match self {
            Self::Hosts(_) => handover_ns(),
            Self::Machine { .. } => None,
        }
    }

    /// The interface that `candidate` uses.
    #[must_use]
    pub fn interface(&self, candidate: &Candidate) -> &str {
        match self {
            Self::Hosts(hosts) => &hosts.link(candidate.link_number).interface,
            Self::Machine { nic, .. } => nic,
        }
    }

    /// A program on the client's side of `link`.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn here(&self, program: Program, link: LinkUse) -> anyhow::Result<Program> {
        match self {
            Self::Hosts(hosts) if link == LinkUse::Loopback => program.inside(hosts.host(Side::A)),
            Self::Hosts(hosts) => program.inside(hosts.host(Side::B)),
            Self::Machine { .. } => Ok(program),
        }
    }

    /// Starts a session of `candidate` with `arguments` for its client.
    pub(super) fn start(
        &self,
        candidate: &Candidate,
        arguments: &[String],
        variables: &[(&str, &str)],
    ) -> anyhow::Result<Session> {
        let path = paths::program(candidate.program)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let core = |number: usize| match cores {
            1 => Vec::new(),
            _ => vec![String::from("--core"), number.to_string()],
        };
        let (server, address) = match self {
            Self::Hosts(hosts) => {
                let address = match candidate.link {
                    LinkUse::Loopback => IpAddr::V4(Ipv4Addr::LOCALHOST),
                    _ => hosts.link(candidate.link_number).v4(Side::A),
                };
                let listen = SocketAddr::new(address, PORT);
                let mut server = Program::new(&path)
                    .inside(hosts.host(Side::A))?
                    .args(["--sessions", "1", "--listen", &listen.to_string()])
                    .args(core(0))
                    .envs(candidate.variables(None)?)
                    .envs(variables.iter().copied())
                    .start()?;
                server.wait_for("listening at", START_TIMEOUT)?;
                (Some(server), listen)
            }
            Self::Machine { peer, .. } => {
                (None, SocketAddr::new(*peer, PORT + candidate.port_offset))
            }
        };
        let nic = match self {
            Self::Hosts(_) => None,
            Self::Machine { nic, .. } => Some(nic.as_str()),
        };
        let client = self
            .here(Program::new(&path), candidate.link)?
            .args([&address.to_string()])
            .args(&candidate.arguments)
            .args(arguments)
            .args(core(1))
            .envs(candidate.variables(nic)?)
            .envs(variables.iter().copied())
            .start()?;
        Ok(Session { client, server })
    }

    /// Runs a whole session.
    ///
    /// # Errors
    /// The failure of either side.
    pub fn session(&self, entry: &Entry) -> anyhow::Result<PerfReport> {
        let session = self.start(&entry.candidate, &entry.arguments, &[])?;
        let output = session.client.finish(entry.timeout)?.success()?;
        if let Some(server) = session.server {
            server.finish(START_TIMEOUT)?.success()?;
        }
        serde_json::from_str(&output.stdout).context("the client's report is not understood")
    }
}
