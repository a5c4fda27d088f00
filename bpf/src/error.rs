// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong with the program, and what to do about it.

use std::io;
use std::net::IpAddr;

/// Why the program cannot be attached or a port cannot be claimed. In each case the endpoint can go
/// on over its kernel socket.
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
        /// The mode that was asked for: `native` or `generic`.
        mode: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// All slots for sockets on this interface are taken.
    #[error("all {} AF_XDP sockets that can share an interface are in use", crate::SLOTS)]
    NoSlot,
    /// Any other failure of the operating system.
    #[error("{what}: {source}")]
    Os {
        /// What was attempted.
        what: &'static str,
        /// What the kernel or libbpf said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A capability is missing.
    #[error("{what} needs {capability}: {source}")]
    Permission {
        /// What was attempted.
        what: &'static str,
        /// The capability or capabilities that it needs.
        capability: &'static str,
        /// What the kernel or libbpf said.
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
    /// Other processes attached and detached the program each time that this one looked.
    #[error("other processes kept attaching and detaching the XDP program; try again")]
    Raced,
}

/// What attaching and loading needs.
pub(crate) const CAPABILITY_LOAD: &str = "CAP_BPF and CAP_NET_ADMIN";
/// What sharing another process's program needs.
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
