// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where it is measured: between two namespaces, or from this machine to another.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use ofi_xdp_examples::report::Report;

use super::cores::handover_ns;
use super::{Contestant, Entry, LinkUse};
use crate::paths;
use crate::process::{Program, Running};
use crate::topology::{LinkOptions, Side, TwoHosts};

/// The first of the ports that servers listen at.
pub(super) const PORT: u16 = 7471;
/// How long a server may take to listen.
const START_PATIENCE: Duration = Duration::from_secs(5);
/// How long a session may take, beyond what it measures.
const SESSION_PATIENCE: Duration = Duration::from_secs(20);

/// Where sessions run.
#[derive(Debug)]
pub enum Field {
    /// Both processes here, on two hosts that are namespaces.
    Hosts(TwoHosts),
    /// Our process here, the other at a machine that runs `ofi-xdp-lab run --serve`.
    Machine {
        /// The interface that reaches it.
        nic: String,
        /// Its address.
        peer: IpAddr,
    },
}

/// The processes of one session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Running,
    /// `None` on another machine.
    pub(super) server: Option<Running>,
}

impl Field {
    /// Two hosts with a link for each use.
    ///
    /// # Errors
    /// Without privilege.
    pub fn two_hosts() -> anyhow::Result<Self> {
        Ok(Self::Hosts(TwoHosts::new(&[LinkOptions::default(); 2])?))
    }

    /// Two hosts with a link for each entry, as it likes it best; nobody shares one.
    ///
    /// # Errors
    /// Without privilege.
    pub fn own_links(entries: &mut [Entry]) -> anyhow::Result<Self> {
        let mut links = Vec::with_capacity(entries.len());
        for Entry { contestant, .. } in entries {
            contestant.link_number = links.len();
            links.push(contestant.options);
        }
        Ok(Self::Hosts(TwoHosts::new(&links)?))
    }

    /// What it is, in words.
    #[must_use]
    pub fn setting(&self) -> String {
        match self {
            Self::Hosts(_) => String::from("two network namespaces of one machine, joined by veth"),
            Self::Machine { nic, peer } => format!("interface {nic} to {peer}"),
        }
    }

    /// How far the cores of client and server are from each other, in ns for a cache line; `None`
    /// where they are on two machines.
    pub(super) fn distance(&self) -> Option<f64> {
        match self {
            Self::Hosts(_) => handover_ns(),
            Self::Machine { .. } => None,
        }
    }

    /// The interface that `contestant` uses.
    #[must_use]
    pub fn interface(&self, contestant: &Contestant) -> &str {
        match self {
            Self::Hosts(hosts) => &hosts.link(contestant.link_number).interface,
            Self::Machine { nic, .. } => nic,
        }
    }

    /// A program on the side that measures `link`.
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

    /// Starts a session of `contestant` with `arguments` for its client.
    pub(super) fn start(
        &self,
        contestant: &Contestant,
        arguments: &[String],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Session> {
        let path = paths::program(contestant.program)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let core = |number: usize| match cores {
            1 => Vec::new(),
            _ => vec![String::from("--core"), number.to_string()],
        };
        let (server, address) = match self {
            Self::Hosts(hosts) => {
                let address = match contestant.link {
                    LinkUse::Loopback => IpAddr::V4(Ipv4Addr::LOCALHOST),
                    _ => hosts.link(contestant.link_number).v4(Side::A),
                };
                let listen = SocketAddr::new(address, PORT);
                let mut server = Program::new(&path)
                    .inside(hosts.host(Side::A))?
                    .args(["server", "--sessions", "1", "--listen", &listen.to_string()])
                    .args(core(0))
                    .envs(contestant.environment(None)?)
                    .envs(environment.iter().copied())
                    .start()?;
                server.wait_for("listening at", START_PATIENCE)?;
                (Some(server), listen)
            }
            Self::Machine { peer, .. } => {
                (None, SocketAddr::new(*peer, PORT + contestant.port_offset))
            }
        };
        let nic = match self {
            Self::Hosts(_) => None,
            Self::Machine { nic, .. } => Some(nic.as_str()),
        };
        let client = self
            .here(Program::new(&path), contestant.link)?
            .args(["client", &address.to_string()])
            .args(&contestant.arguments)
            .args(arguments)
            .args(core(1))
            .envs(contestant.environment(nic)?)
            .envs(environment.iter().copied())
            .start()?;
        Ok(Session { client, server })
    }

    /// Runs a whole session.
    ///
    /// # Errors
    /// What either side complained of.
    pub fn session(&self, contestant: &Contestant, arguments: &[String]) -> anyhow::Result<Report> {
        let session = self.start(contestant, arguments, &[])?;
        let output = session.client.finish(SESSION_PATIENCE)?.success()?;
        if let Some(server) = session.server {
            server.finish(SESSION_PATIENCE)?.success()?;
        }
        serde_json::from_str(&output.stdout).context("the client's report is not understood")
    }
}
