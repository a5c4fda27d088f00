// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xdp-broker`: makes AF_XDP sockets for processes without capabilities.
//!
//! A policy file and a listening Unix socket come in (from systemd, or by `--socket`); bound
//! sockets go out to those whom the policy allows, as descriptors (`SCM_RIGHTS`). The libfabric
//! provider `xdp` asks by itself where it lacks capabilities. The messages, and what happens with
//! the socket, are in `ofi_xdp_datapath::broker` and `grant`.
//!
//! | file | what it does |
//! |---|---|
//! | `server.rs` | the loop, and how much of it anybody gets |
//! | `peer.rs` | who is asking, by the kernel's word |
//! | `connection.rs` | messages and descriptors |
//! | `closers.rs` | closing what clients passed |
//! | `companion.rs` | whether the address is the client's |
//! | `sockets.rs` | where a client's socket is bound |
//! | `policy.rs` | the policy file |
//! | `office.rs` | decides and grants |
//! | `ledger.rs` | who has how many |
//! | `listener.rs` | the listening socket |
//!
//! # What a client can do with what it gets
//!
//! A bound `AF_XDP` socket sends any frame on its interface, with whatever addresses: who may use
//! the broker is trusted like somebody with `CAP_NET_RAW` on that interface, and no more: it
//! receives the packets of its own UDP port only, cannot bind the socket again, and has no access
//! to program or maps.

#![deny(unsafe_code)]

mod closers;
mod companion;
mod connection;
mod ledger;
mod listener;
mod office;
mod peer;
mod policy;
mod raw;
mod server;
mod sockets;

use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use ofi_xdp_datapath::broker::DEFAULT_PATH;

use crate::office::Office;
use crate::policy::Policy;
use crate::server::Server;

/// Descriptors that are enough for every grant and connection there can be.
const DESCRIPTORS: u64 = 8192;

/// Makes AF_XDP sockets for processes without capabilities, as the policy file allows
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The policy: who may have which sockets
    #[arg(long, default_value = "/etc/xdp-broker.toml", value_name = "FILE")]
    policy: PathBuf,
    /// Where to listen, unless systemd passes the socket
    #[arg(long, default_value = DEFAULT_PATH, value_name = "PATH")]
    socket: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let level = env_logger::Env::default().default_filter_or("info");
    env_logger::Builder::from_env(level).format_timestamp(None).init();
    // A grant takes some seven descriptors; shells give a thousand.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most.min(DESCRIPTORS), most)?;
    let policy = Policy::read(&arguments.policy)?;
    if policy.len() == 0 {
        log::warn!("{}: no rule, so nobody gets anything", arguments.policy.display());
    }
    let probe = UdpSocket::bind("127.0.0.1:0").context("make a socket")?;
    let namespace = raw::namespace(probe.as_fd())
        .context("the kernel does not tell network namespaces apart (Linux 5.14)")?;
    sockets::bound(probe.as_fd(), 0)
        .context("the kernel does not tell of UDP sockets (CONFIG_INET_UDP_DIAG)")?;
    let listener = listener::listener(&arguments.socket)?;
    Ok(Server::new(listener, Office::new(policy, namespace))?.run()?)
}
