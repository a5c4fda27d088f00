// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings about the host and this process: kernel, libfabric, offers, privilege.
//!
//! In: /proc, the running libfabric, the broker's socket. Out: a finding each. Called by `check`.
//! Bound: three files, one connection.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::finding::Finding;

/// The subject of these findings.
pub(super) const SUBJECT: &str = "host";

/// The capabilities that AF_XDP needs: name and bit (`linux/capability.h`).
const NEEDED: [(&str, u32); 3] = [("CAP_NET_RAW", 13), ("CAP_NET_ADMIN", 12), ("CAP_BPF", 39)];
/// `CAP_SYS_ADMIN`, which has the powers of `CAP_BPF`.
const SYS_ADMIN: u32 = 21;
/// `CAP_IPC_LOCK`: no limit of locked memory.
const IPC_LOCK: u32 = 14;
/// Inode number of the initial user namespace (`linux/nsfs.h`, `USER_NS_INIT_INO`).
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;
/// Locked memory of an AF_XDP endpoint: its frames.
const ENDPOINT_BYTES: u64 = 12 << 20;
/// The oldest libfabric, the oldest kernel for the broker, and that for packets of several frames.
const LIBFABRIC: (u32, u32) = (1, 17);
const KERNEL_BROKER: (u32, u32) = (6, 4);
const KERNEL_FRAMES: (u32, u32) = (6, 6);
/// The broker's socket where `FI_XDP_BROKER` names no other.
const BROKER: &str = "/run/xdp-broker/socket";
const ENABLE_BROKER: &str = "sudo systemctl enable --now xdp-broker.socket";

/// Time limit for a connection to the broker.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// The broker, as a client sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum BrokerState {
    /// It accepts connections.
    Reachable,
    /// `FI_XDP_BROKER=none`.
    Off,
    /// No socket has this name.
    Absent,
    /// A connection fails.
    Broken(String),
}

/// The findings, with the number of the offers of the provider `name`. `program` stands in
/// commands.
pub(super) fn findings(count: usize, name: &str, program: &str) -> Vec<Finding> {
    let variable = |name: &str| std::env::var(name).ok();
    let (path, filter) = (variable("FI_PROVIDER_PATH"), variable("FI_PROVIDER"));
    let reason = no_offer(path.as_deref(), filter.as_deref(), name, has_address());
    let status = read("/proc/self/status");
    let namespace = fs::metadata("/proc/self/ns/user");
    let counts = namespace.map_or(true, |it| it.ino() == INITIAL_USER_NAMESPACE);
    // Those of a user namespace do not count for bpf(2).
    let held = if counts { held(&status) } else { 0 };
    let path = std::env::var("FI_XDP_BROKER").unwrap_or_else(|_| BROKER.to_owned());
    let broker = broker_state(&path);
    let missing = missing(held);
    vec![
        kernel(read("/proc/sys/kernel/osrelease").trim()),
        libfabric(ofi_xdp_libfabric::version()),
        offers(count, reason),
        capabilities(&missing, &broker, program),
        locked_memory(held, lock_limit(&read("/proc/self/limits"))),
        broker_finding(&broker, &path, missing.is_empty()),
    ]
}

fn kernel(release: &str) -> Finding {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let finding = |more: &str| Finding::good(SUBJECT, "kernel", format!("Linux {release}{more}"));
    let upgrade = "sudo apt full-upgrade && sudo reboot";
    if version < KERNEL_BROKER {
        finding(": xdp-broker needs 6.4, packets of several frames 6.6").warning(upgrade)
    } else if version < KERNEL_FRAMES {
        finding(": packets longer than a frame need 6.6").warning(upgrade)
    } else {
        finding("")
    }
}

fn libfabric(version: (u32, u32)) -> Finding {
    let finding = |more: &str| {
        Finding::good(SUBJECT, "libfabric", format!("{}.{}{more}", version.0, version.1))
    };
    if version < LIBFABRIC {
        finding(": 1.17 is the oldest that loads the provider")
            .failure("sudo apt install --only-upgrade libfabric1")
    } else {
        finding("")
    }
}

fn offers(count: usize, reason: Option<(String, &str)>) -> Finding {
    let finding = |value: String| Finding::good(SUBJECT, "offers", value);
    match reason {
        _ if count > 0 => finding(count.to_string()),
        Some((reason, remedy)) => finding(format!("0: {reason}")).failure(remedy),
        // The command prints libfabric's reason, or the provider's own line.
        None => finding("0".to_owned()).failure("FI_LOG_LEVEL=warn fi_info -p xdp"),
    }
}

/// The first known reason why libfabric has no offer, with the command that mends it. `path` and
/// `filter` are `FI_PROVIDER_PATH` and `FI_PROVIDER`.
fn no_offer(
    path: Option<&str>,
    filter: Option<&str>,
    name: &str,
    has_address: bool,
) -> Option<(String, &'static str)> {
    let has_library = |path: &str| {
        // libfabric reads one folder or several (fabric(7)); a name with `+` is a file.
        path.split(':').any(|folder| Path::new(folder).join("libxdp-fi.so").exists())
            || path.contains(['+', '@'])
    };
    let excludes = |filter: &str| match filter.trim().strip_prefix('^') {
        Some(excluded) => excluded.split(',').any(|one| one.trim() == name),
        None => !filter.split([',', ';']).any(|one| one.trim() == name),
    };
    if let Some(path) = path.filter(|path| !has_library(path)) {
        let reason = format!("no libxdp-fi.so in FI_PROVIDER_PATH={path}");
        return Some((reason, "unset FI_PROVIDER_PATH  # or give the folder of libxdp-fi.so"));
    }
    if let Some(filter) = filter.filter(|filter| !filter.is_empty() && excludes(filter)) {
        return Some((format!("FI_PROVIDER={filter} leaves {name} out"), "unset FI_PROVIDER"));
    }
    if !has_address {
        let reason = "no interface is up with an address".to_owned();
        return Some((reason, "ip -brief address  # then: sudo ip link set INTERFACE up"));
    }
    None
}

/// Whether an interface of this host is up with an address (`proc_net(5)`).
fn has_address() -> bool {
    read("/proc/net/fib_trie").contains("host LOCAL") || !read("/proc/net/if_inet6").is_empty()
}

fn capabilities(missing: &[&str], broker: &BrokerState, program: &str) -> Finding {
    let finding = |value: String| Finding::good(SUBJECT, "capabilities", value);
    if missing.is_empty() {
        return finding("those of AF_XDP".to_owned());
    }
    let missing = missing.join(", ");
    if *broker == BrokerState::Reachable {
        return finding(format!("without {missing}; the broker has them"));
    }
    finding(format!("AF_XDP needs {missing}, or the broker"))
        .warning(format!("sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep {program}"))
}

/// `limit` is in bytes; `None` if there is none.
fn locked_memory(held: u64, limit: Option<u64>) -> Finding {
    let finding = |value: String| Finding::good(SUBJECT, "memlock", value);
    match limit {
        _ if !missing(held).is_empty() => finding("no AF_XDP socket of its own".to_owned()),
        _ if has(held, IPC_LOCK) => finding("no limit (CAP_IPC_LOCK)".to_owned()),
        None => finding("no limit".to_owned()),
        Some(bytes) if bytes < ENDPOINT_BYTES => {
            finding(format!("{} KiB, and an endpoint locks 12 MiB", bytes >> 10))
                .warning("ulimit -l unlimited")
        }
        Some(bytes) => finding(format!("{} AF_XDP endpoints", bytes / ENDPOINT_BYTES)),
    }
}

fn broker_finding(broker: &BrokerState, path: &str, has_capabilities: bool) -> Finding {
    let finding = |value: String| Finding::good(SUBJECT, "broker", value);
    match broker {
        BrokerState::Reachable => finding(format!("at {path}")),
        _ if has_capabilities => finding("not needed".to_owned()),
        BrokerState::Off => finding("FI_XDP_BROKER=none".to_owned()).warning("unset FI_XDP_BROKER"),
        BrokerState::Absent => finding(format!("none at {path}")).warning(ENABLE_BROKER),
        BrokerState::Broken(error) => {
            finding(format!("{path}: {error}")).warning("sudo systemctl restart xdp-broker.socket")
        }
    }
}

fn broker_state(path: &str) -> BrokerState {
    if path == "none" {
        return BrokerState::Off;
    }
    match connect(path) {
        Ok(()) => BrokerState::Reachable,
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            BrokerState::Broken("it accepts no connection".to_owned())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => BrokerState::Absent,
        Err(error) => BrokerState::Broken(error.to_string()),
    }
}

/// Connects to the socket at `path`, in [`CONNECT_MAX`]: the time limit for sending is that for a
/// place in the listener's queue, too (unix(7), `SO_SNDTIMEO`).
fn connect(path: &str) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(CONNECT_MAX))?;
    socket.connect(&SockAddr::unix(path)?)
}

/// The effective capabilities in `/proc/self/status` (proc(5)).
fn held(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

fn has(held: u64, bit: u32) -> bool {
    held >> bit & 1 == 1
}

/// The needed capabilities that are not held.
fn missing(held: u64) -> Vec<&'static str> {
    let is_held = |name: &str, bit| has(held, bit) || (name == "CAP_BPF" && has(held, SYS_ADMIN));
    NEEDED.iter().filter(|(name, bit)| !is_held(name, *bit)).map(|(name, _)| *name).collect()
}

/// The soft limit of locked memory in `/proc/self/limits` (proc(5)).
fn lock_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The text of a file of the kernel, empty if it cannot be read.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests;
