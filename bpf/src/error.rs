// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of the program, with advice for the user.
//!
//! In: an error of the kernel or of libbpf. Out: one sentence. Callers: all files of this crate.
//! Bound: one value a call.

use std::io;
use std::net::IpAddr;

use crate::layout::{QUEUES, SLOTS};

/// Reason why the program cannot be attached or a port cannot be claimed. The endpoint continues on
/// its kernel socket in each case.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another XDP program is on the interface.
    #[error(
        "interface {ifindex} already runs another XDP program (id {program}); \
         `bpftool prog show id {program}` tells whose, `ip link set dev IF xdp off` removes it"
    )]
    Foreign {
        /// The interface.
        ifindex: i32,
        /// The other program's id.
        program: u32,
    },
    /// The driver has no XDP support in this mode, or not at the present MTU or number of queues.
    #[error("interface {ifindex} cannot run an XDP program in {mode} mode: {source}")]
    Mode {
        /// The interface.
        ifindex: i32,
        /// The requested mode: `native` or `generic`.
        mode: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// All slots for sockets on this interface are taken.
    #[error("all {} AF_XDP sockets that can share an interface are in use", SLOTS)]
    NoSlot,
    /// No further socket can be on this queue.
    #[error("queue {queue}: further sockets are on queues below {QUEUES}")]
    NoQueue {
        /// The queue.
        queue: u32,
    },
    /// Any other failure of the operating system.
    #[error("{what}: {source}")]
    Os {
        /// The attempted action.
        what: &'static str,
        /// The error of the kernel or of libbpf.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A capability is missing.
    #[error("{what} needs {capability}: {source}")]
    Permission {
        /// The attempted action.
        what: &'static str,
        /// The capability or capabilities that it needs.
        capability: &'static str,
        /// The error of the kernel or of libbpf.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another endpoint, on another address of this interface, has the UDP port.
    #[error("UDP port {port} of this interface belongs to the endpoint on {address}")]
    PortClaimed {
        /// The port.
        port: u16,
        /// The other endpoint's address.
        address: IpAddr,
    },
    /// Other processes attached and detached the program at each attempt of this one.
    #[error("other processes kept attaching and detaching the XDP program; try again")]
    Raced,
}

/// Capabilities for loading and attaching the program.
pub(crate) const CAPABILITY_LOAD: &str = "CAP_BPF and CAP_NET_ADMIN";
/// Capability for sharing another process's program.
pub(crate) const CAPABILITY_SHARE: &str = "CAP_SYS_ADMIN";

impl Error {
    /// The error of libbpf `source` while doing `what`, which takes `capability`.
    pub(crate) fn libbpf(
        what: &'static str,
        capability: &'static str,
        source: libbpf_rs::Error,
    ) -> Self {
        if source.kind() == libbpf_rs::ErrorKind::PermissionDenied {
            return Self::Permission { what, capability, source: source.into() };
        }
        Self::Os { what, source: source.into() }
    }

    /// The error of the system call `source` while doing `what`, which takes `capability`.
    pub(crate) fn os(what: &'static str, capability: &'static str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::PermissionDenied {
            return Self::Permission { what, capability, source: source.into() };
        }
        Self::Os { what, source: source.into() }
    }
}
