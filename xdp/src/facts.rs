// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a port turned out to be.
//!
//! The port fills it in when it opens, and changes it when it loses its `AF_XDP` half; the provider
//! logs it and reports it in `fi_getinfo`.

use std::fmt;

/// Which way packets move.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tier {
    /// Kernel UDP sockets only.
    Udp,
    /// `AF_XDP`, with a kernel socket beside it.
    Xdp(XskMode),
}

/// How frames move between the device and the `AF_XDP` socket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum XskMode {
    /// The device reads and writes the UMEM.
    Zerocopy,
    /// The driver's XDP hook copies.
    Copy,
    /// The network core's XDP hook copies from and to skbs.
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

/// What a port turned out to be, and why it is nothing better.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The tier.
    pub tier: Tier,
    /// Name of the interface that has the port's address; empty if none has.
    pub interface: String,
    /// Name of the interface's driver; empty if it has none.
    pub driver: String,
    /// The queue that the `AF_XDP` socket is bound to, if there is one.
    pub queue: Option<u32>,
    /// What the kernel itself says of zero-copy (`XDP_OPTIONS`); `None` without an `AF_XDP` socket,
    /// and before Linux 5.3.
    pub kernel_zerocopy: Option<bool>,
    /// The interface's MTU in bytes.
    pub mtu: u32,
    /// Why no better mode is in use; empty if there is none better.
    pub why_not_better: String,
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} ({}", self.tier, self.interface, self.driver)?;
        if let Some(queue) = self.queue {
            write!(f, ", queue {queue}")?;
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
mod tests {
    use super::*;

    #[test]
    fn the_line_for_people_has_the_kernels_word_and_the_reason() {
        let mut facts = Facts {
            tier: Tier::Xdp(XskMode::Copy),
            interface: "eth0".to_owned(),
            driver: "ena".to_owned(),
            queue: Some(3),
            kernel_zerocopy: Some(false),
            mtu: 1500,
            why_not_better: "zerocopy: no".to_owned(),
        };
        assert_eq!(
            facts.to_string(),
            "AF_XDP copy on eth0 (ena, queue 3, MTU 1500, the kernel agrees: it copies); \
             not better because: zerocopy: no"
        );
        facts.tier = Tier::Udp;
        facts.queue = None;
        facts.kernel_zerocopy = None;
        facts.why_not_better.clear();
        assert_eq!(facts.to_string(), "kernel UDP on eth0 (ena, MTU 1500)");
    }
}
