// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two runs of `xdp-perf`: kernel datagrams both ways, then the provider's own packets.
//!
//! In: HOST:PORT, the environment of the application. Out: the reports, and the path as the
//! endpoint's statistics page has it. Called by `peer`. Bounds: [`DATAGRAMS`] and [`TRAFFIC`].

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::unistd::geteuid;
use ofi_xdp_perf::report::{Datagrams, PerfReport};
use ofi_xdp_statistics::{FOLDER, Page, PeerLine, read_where};

use crate::check::bounded;
use crate::cli::ProviderName;
use crate::environment::Environment;

/// Longest time of the first run, and of the second one.
const DATAGRAMS: Duration = Duration::from_secs(15);
const TRAFFIC: Duration = Duration::from_secs(30);
/// Longest wait of `xdp-perf` for an answer, in ms; also the provider's for its peer.
const ANSWER_MS: &str = "4000";
/// The measurements of the second run: round trips, small messages, and long ones, of which one MiB
/// is under way, so that a slow link has the answer in time.
const WORKLOAD: [&str; 8] =
    ["--latency", "8", "--stream", "8x64,65536x4x4", "--seconds", "0.5", "--warm-up", "100"];
/// Bytes of the headers before a packet of the engine: UDP behind IPv4, and behind IPv6.
const HEADERS: (u32, u32) = (28, 48);
/// The longest IP packet of the provider.
const PACKET_MAX: u32 = 9000;

/// The reason for which a run has no report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Failed {
    /// There is no `xdp-perf`.
    Missing,
    /// It ended with this message.
    Message(String),
}

/// The results.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Measured {
    /// The first run.
    pub(super) datagrams: Result<Datagrams, Failed>,
    /// The second run; `None` where the first one has failed.
    pub(super) traffic: Option<Result<PerfReport, Failed>>,
    /// The path of the second run, if a page was seen.
    pub(super) path: Option<PathState>,
}

/// The path to the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PathState {
    /// The interface.
    pub(super) interface: String,
    /// The way of its packets: `AF_XDP zerocopy`, `kernel UDP`.
    pub(super) tier: String,
    /// The longest IP packet that the interface lets the provider send.
    pub(super) full: u32,
    /// The longest IP packet that passes.
    pub(super) passes: u32,
    /// Data packets that were sent for the first time.
    pub(super) sent: u64,
    /// Data packets that were sent again.
    pub(super) retransmitted: u64,
}

/// Measures the path to `address`.
pub(super) fn measure(address: &str, name: ProviderName, environment: &Environment) -> Measured {
    let program = program();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.envs(environment.variables());
        if std::env::var_os("FI_XDP_PEER_TIMEOUT").is_none() {
            command.env("FI_XDP_PEER_TIMEOUT", ANSWER_MS);
        }
        command.args([address, "--json", "--timeout", ANSWER_MS, "--provider", name.text()]);
        command.args(arguments);
        command
    };
    let datagrams = run(&mut command(&["--datagrams"]), DATAGRAMS, |_| ()).and_then(|report| {
        report.datagrams.ok_or_else(|| Failed::Message("it counted no datagrams".to_owned()))
    });
    if datagrams.is_err() {
        return Measured { datagrams, traffic: None, path: None };
    }
    let mut path = None;
    let traffic =
        run(&mut command(&WORKLOAD), TRAFFIC, |pid| path = page(pid).or_else(|| path.take()));
    Measured { datagrams, traffic: Some(traffic), path }
}

/// The `xdp-perf` beside this program, else that of `PATH`.
fn program() -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(|folder| folder.join("xdp-perf"));
    beside.filter(|program| program.exists()).unwrap_or_else(|| PathBuf::from("xdp-perf"))
}

/// The report of one run.
fn run(command: &mut Command, wait: Duration, look: impl FnMut(u32)) -> Result<PerfReport, Failed> {
    let ended = match bounded::run(command, wait, look) {
        Ok(ended) => ended,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(Failed::Missing),
        Err(error) => return Err(Failed::Message(format!("xdp-perf: {error}"))),
    };
    if ended.timed_out {
        return Err(Failed::Message(format!("no end within {} s", wait.as_secs())));
    }
    if !ended.succeeded {
        return Err(Failed::Message(message(&ended.errors)));
    }
    serde_json::from_str(&ended.output)
        .map_err(|error| Failed::Message(format!("xdp-perf has no report: {error}")))
}

/// The last message of `xdp-perf`.
fn message(errors: &str) -> String {
    let mut lines = errors.lines().rev().filter_map(|line| line.strip_prefix("error: "));
    lines.next().unwrap_or("xdp-perf failed without a message").to_owned()
}

/// The path on the page of process `pid`, once it has traffic.
fn page(pid: u32) -> Option<PathState> {
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino());
    let is_own = |name: &str, owner| is_of(name, owner, pid, namespace);
    read_where(Path::new(FOLDER), is_own).ok()?.first().and_then(path_state)
}

/// Whether process `pid` of this user has written the file `name`. Every user may give a file its
/// name.
fn is_of(name: &str, owner: u32, pid: u32, namespace: u64) -> bool {
    owner == geteuid().as_raw()
        && name.starts_with(&format!("ofi-xdp-{pid}-"))
        && name.ends_with(&format!("-{namespace}"))
}

fn path_state(page: &Page) -> Option<PathState> {
    let peer: &PeerLine = page.peers.iter().find(|peer| peer.established)?;
    let v6 = peer.address.parse::<SocketAddr>().is_ok_and(|address| address.is_ipv6());
    let headers = if v6 { HEADERS.1 } else { HEADERS.0 };
    let counter = |name: &str| page.counters.get(name).copied().unwrap_or(0);
    // Packets of the engine have whole words.
    let payload = page.mtu.min(PACKET_MAX).saturating_sub(headers) / 8 * 8;
    Some(PathState {
        interface: page.interface.clone(),
        tier: page.tier.clone(),
        full: payload + headers,
        passes: peer.limits?.packet_len_max.saturating_add(headers),
        sent: counter("data_packets_sent"),
        retransmitted: counter("retransmissions"),
    })
}

#[cfg(test)]
mod tests {
    use ofi_xdp_statistics::Limits;

    use super::*;

    fn page_with(address: &str, mtu: u32, packet_len_max: u32) -> Page {
        let limits = Some(Limits { packet_len_max, ..Limits::default() });
        let address = address.to_owned();
        let peer = PeerLine { address, established: true, limits, ..PeerLine::default() };
        let counters = [("data_packets_sent", 1000), ("retransmissions", 3)];
        Page {
            mtu,
            counters: counters.map(|(name, count)| (name.to_owned(), count)).into(),
            peers: vec![PeerLine::default(), peer],
            ..Page::default()
        }
    }

    #[test]
    fn a_page_of_another_user_is_not_the_own_one() {
        let (name, own) = ("ofi-xdp-7-0-9", geteuid().as_raw());
        assert!(is_of(name, own, 7, 9));
        assert!(!is_of(name, own, 7, 8) && !is_of(name, own, 8, 9));
        assert!(!is_of(name, own + 1, 7, 9));
    }

    #[test]
    fn a_page_has_the_path() {
        let path = path_state(&page_with("10.0.0.2:5000", 1500, 1472)).unwrap();
        assert_eq!((path.full, path.passes, path.sent, path.retransmitted), (1500, 1500, 1000, 3));
        let path = path_state(&page_with("[fd00::2]:5000", 1500, 1448)).unwrap();
        assert_eq!((path.full, path.passes), (1496, 1496));
        let path = path_state(&page_with("127.0.0.1:5000", 65_536, 8968)).unwrap();
        assert_eq!((path.full, path.passes), (8996, 8996));
        assert_eq!(path_state(&page_with("10.0.0.2:5000", 9000, 1344)).unwrap().passes, 1372);
        assert_eq!(path_state(&Page::default()), None, "without a peer");
    }

    #[test]
    fn the_last_error_is_the_message() {
        let errors =
            "xdp: peer A has not answered\nerror: one\nclient x\nerror: no answer in 4 s\n";
        assert_eq!(message(errors), "no answer in 4 s");
        assert_eq!(message("Segmentation fault"), "xdp-perf failed without a message");
    }

    #[test]
    fn a_program_that_is_not_there_or_talks_nonsense_has_no_report() {
        let wait = Duration::from_secs(20);
        let missing = run(&mut Command::new("no-such-program"), wait, |_| ());
        assert_eq!(missing, Err(Failed::Missing));
        let nonsense = run(Command::new("echo").arg("{}"), wait, |_| ());
        assert!(matches!(nonsense, Err(Failed::Message(text)) if text.contains("no report")));
        let endless = run(Command::new("sleep").arg("30"), Duration::from_millis(50), |_| ());
        assert_eq!(endless, Err(Failed::Message("no end within 0 s".to_owned())));
    }
}
