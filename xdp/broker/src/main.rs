// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xdp-broker`: makes AF_XDP sockets for processes without capabilities.
//!
//! In: a policy file, and a listening Unix socket (from systemd, or by `--socket`). Out: bound
//! sockets as descriptors (`SCM_RIGHTS`) for users that the policy allows. Callers: the libfabric
//! provider `xdp` in processes without capabilities. The messages and the lease are in
//! `ofi_xdp_datapath::broker`. Bounds: those of `server.rs`.
//!
//! | file | contents |
//! |---|---|
//! | `server.rs` | the loop, with limits for each user |
//! | `credentials.rs` | user, groups and process of a client |
//! | `connection.rs` | the connection of a client |
//! | `fd_message.rs` | messages with descriptors |
//! | `intake.rs` | the processes that read messages and close descriptors |
//! | `intake_process.rs` | such a process |
//! | `udp_socket.rs` | the proof that a client owns its address |
//! | `sock_diag.rs` | the binding of a client's socket |
//! | `policy.rs` | the policy file |
//! | `grants.rs` | decisions and their execution |
//! | `lent_memory.rs` | the memory of a socket, and whether a client holds it |
//! | `quota.rs` | sockets of each user |
//! | `rule_records.rs` | rules in devices, which outlive a killed broker |
//! | `programs.rs` | attached XDP programs |
//! | `limited_log.rs` | log lines that clients cause |
//! | `listener.rs` | the listening socket |
//!
//! # Rights of a client
//!
//! A bound `AF_XDP` socket sends any frame on its interface, with any addresses. A user of the
//! broker is trusted like one with `CAP_NET_RAW` on that interface, and no more. It receives the
//! packets of its own UDP port only, cannot bind the socket again, and has no access to the program
//! or its maps.
//!
//! A socket in zero-copy mode gives more. The driver fills the queue's whole ring from the client's
//! memory, so the client reads, alters and can hold up every packet of the queue. Only a rule with
//! `zerocopy` allows that mode.

#![deny(unsafe_code)]

mod connection;
mod credentials;
mod fd_message;
mod grants;
mod intake;
mod intake_process;
mod lent_memory;
mod limited_log;
mod listener;
mod policy;
mod programs;
mod quota;
mod raw;
mod rule_records;
mod server;
mod sock_diag;
mod udp_socket;

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ofi_xdp_datapath::{DEFAULT_BROKER_PATH, SteeringError, SteeringRule};

use crate::grants::GrantManager;
use crate::policy::Policy;
use crate::rule_records::RuleRecords;
use crate::server::Server;

/// Limit of descriptors, sufficient for all grants and connections.
const DESCRIPTORS: u64 = 8192;

/// Makes AF_XDP sockets for processes without capabilities, as the policy file allows
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Policy file: the sockets that each user may have
    #[arg(long, default_value = "/etc/xdp-broker.toml", value_name = "FILE")]
    policy: PathBuf,
    /// Path of the listening socket, unless systemd passes one
    #[arg(long, default_value = DEFAULT_BROKER_PATH, value_name = "PATH")]
    socket: PathBuf,
    /// Read clients' messages for the broker at the other end of standard input
    #[arg(long, hide = true)]
    intake: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xdp-broker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.intake {
        return Ok(intake_process::run()?);
    }
    let level = env_logger::Env::default().default_filter_or("info");
    env_logger::Builder::from_env(level).format_timestamp(None).init();
    // A grant takes some seven descriptors; the default limit of shells is a thousand.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most.min(DESCRIPTORS), most)?;
    let policy = Policy::read(&arguments.policy)?;
    if policy.len() == 0 {
        log::warn!("{}: no rule, so no user gets a socket", arguments.policy.display());
    }
    // SIGHUP makes the server read the policy again. The others end it, after the rules that it
    // has given to devices. SIGIO comes when a client opens a socket's memory again in the moment
    // of a question about it (`lent_memory.rs`).
    let mut signals = SigSet::from_iter([Signal::SIGHUP, Signal::SIGTERM, Signal::SIGINT]);
    let received = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    signals.add(Signal::SIGIO);
    signals.thread_block()?;
    let socket = UnixDatagram::unbound().context("make a socket")?;
    let namespace = raw::namespace(socket.as_fd())
        .context("the kernel does not tell network namespaces apart (Linux 5.14)")?;
    sock_diag::is_available()
        .context("the kernel does not tell of UDP sockets (CONFIG_INET_UDP_DIAG)")?;
    let listener = listener::listener(&arguments.socket)?;
    // Connections inherit this from the listener until their user is admitted (Linux 6.16). Older
    // kernels take descriptors from every user; `intake.rs` limits the harm.
    if raw::pass_descriptors(listener.as_fd(), false).is_err() {
        log::debug!("the kernel cannot refuse descriptors of unknown users (Linux 6.16)");
    }
    // systemd's socket may be at another path than the one of `--socket`.
    let address = listener.local_addr().context("ask for the path of the socket")?;
    let rules = RuleRecords::open(address.as_pathname(), remove_left);
    let grants =
        GrantManager::new(policy, namespace, rules).context("listen to changes of addresses")?;
    Ok(Server::new(listener, grants, (arguments.policy, received))?.run()?)
}

/// Removes a rule that a killed broker has left. Returns whether it is gone.
fn remove_left(rule: SteeringRule) -> bool {
    let SteeringRule { interface, queue, address } = rule;
    match rule.remove_left() {
        Ok(0) | Err(SteeringError::Unsupported(_)) => true,
        Ok(_) => {
            log::info!("interface {interface}: removed a left rule for {address}, queue {queue}");
            true
        }
        // No such interface.
        Err(SteeringError::Os(error)) if error.raw_os_error() == Some(Errno::ENXIO as i32) => true,
        Err(error) => {
            log::warn!("interface {interface}: a left rule for {address}, queue {queue}: {error}");
            false
        }
    }
}
