// SPDX-License-Identifier: MIT OR Apache-2.0
//! The status of an open port: its tier, its interface, and the reason against a better tier.
//!
//! In: values of the port, when it opens, and when its `AF_XDP` half is lost or restored. Out: text
//! for the log, fields for `fi_getinfo` and the statistics page. Callers: the ports, the provider.
//! Bound: one value a port.

use std::fmt;

use super::queue_list::QueueList;

/// The path of packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tier {
    /// Kernel UDP sockets only.
    Udp,
    /// `AF_XDP`, with a kernel socket beside it.
    Xdp(XskMode),
}

/// The mode of an `AF_XDP` socket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum XskMode {
    /// The device reads and writes the UMEM.
    Zerocopy,
    /// The XDP hook of the driver copies.
    Copy,
    /// The XDP hook of the network core copies from and to skbs.
    Skb,
}

impl fmt::Display for XskMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zerocopy => "zerocopy",
            Self::Copy => "copy",
            Self::Skb => "skb",
        })
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp => f.write_str("kernel UDP"),
            Self::Xdp(mode) => write!(f, "AF_XDP {mode}"),
        }
    }
}

/// The status of an open port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortStatus {
    /// The tier.
    pub tier: Tier,
    /// Name of the interface with the port's address; empty if there is none.
    pub interface: String,
    /// Name of the interface's driver; empty if it has none.
    pub driver: String,
    /// The queues of the `AF_XDP` sockets; empty without one.
    pub queues: QueueList,
    /// Whether the kernel reports zero-copy (`XDP_OPTIONS`); `None` without an `AF_XDP` socket, and
    /// before Linux 5.3.
    pub kernel_zerocopy: Option<bool>,
    /// The interface's MTU in bytes.
    pub mtu: u32,
    /// Reason against a better mode; empty if there is none better.
    pub why_not_better: String,
    /// What makes more packets come by `AF_XDP`, once most have come by other queues; else empty.
    pub advice: String,
}

impl fmt::Display for PortStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} ({}", self.tier, self.interface, self.driver)?;
        if !self.queues.is_empty() {
            write!(f, ", {}", self.queues.noun())?;
        }
        write!(f, ", MTU {}", self.mtu)?;
        match self.kernel_zerocopy {
            Some(true) => f.write_str(", the kernel agrees: no copies")?,
            Some(false) => f.write_str(", the kernel agrees: it copies")?,
            None => {}
        }
        f.write_str(")")?;
        if self.why_not_better.is_empty() {
            return Ok(());
        }
        write!(f, "; not better because: {}", self.why_not_better)
    }
}

#[cfg(test)]
impl PortStatus {
    /// A port on queue 3 of `eth0`.
    pub(crate) fn sample() -> Self {
        Self {
            tier: Tier::Xdp(XskMode::Copy),
            interface: "eth0".to_owned(),
            driver: "ena".to_owned(),
            queues: QueueList::from_iter([3]),
            kernel_zerocopy: Some(false),
            mtu: 1500,
            why_not_better: String::new(),
            advice: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_has_the_kernels_error_and_the_reason() {
        let why_not_better = "zerocopy: no".to_owned();
        let mut status = PortStatus { why_not_better, ..PortStatus::sample() };
        assert_eq!(
            status.to_string(),
            "AF_XDP copy on eth0 (ena, queue 3, MTU 1500, the kernel agrees: it copies); \
             not better because: zerocopy: no"
        );
        status.tier = Tier::Udp;
        status.queues = QueueList::default();
        status.kernel_zerocopy = None;
        status.why_not_better.clear();
        assert_eq!(status.to_string(), "kernel UDP on eth0 (ena, MTU 1500)");
    }
}
