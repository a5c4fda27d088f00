// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configuration of a port: the argument of [`HybridPort::open`](crate::HybridPort::open).
//!
//! In: plain values from the provider's parameters. Out: the same values, checked. Caller: the
//! provider. Bounds: [`RingSize`] rounds to the sizes that the kernel accepts.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use ofi_xdp_core::ChecksumCoverage;

/// The data path of packets, as configured by `FI_XDP_TIER` and `FI_XDP_MODE`.
///
/// Each mode but [`Mode::Udp`] is a preference. If it is not available, the next mode of this list
/// is tried, and [`PortStatus::why_not_better`](crate::PortStatus::why_not_better) has the reason.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// Depends on the kind of device: `zerocopy` on hardware, `skb` on virtual links.
    #[default]
    Auto,
    /// `AF_XDP` in native mode; the device reads and writes our memory.
    Zerocopy,
    /// `AF_XDP` in native mode; the driver copies each packet.
    Copy,
    /// `AF_XDP` in generic mode; works with every driver.
    Skb,
    /// Kernel UDP sockets only. This is a tier, so no mode name stands for it.
    Udp,
}

impl Mode {
    /// The modes of `AF_XDP`, which a text can name.
    const OF_AF_XDP: [Self; 4] = [Self::Auto, Self::Zerocopy, Self::Copy, Self::Skb];

    const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Zerocopy => "zerocopy",
            Self::Copy => "copy",
            Self::Skb => "skb",
            Self::Udp => "udp",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is no [`Mode`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no mode of AF_XDP: use auto, zerocopy, copy or skb")]
pub struct UnknownMode(String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::OF_AF_XDP
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

/// Whether the device may be given a rule that sends an endpoint's packets to the queue of its
/// socket, as configured by `FI_XDP_STEER`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Steer {
    /// No.
    No,
    /// When the port opens. A rule of this process stays if the process is killed.
    Yes,
    /// Once most packets come by other queues, by the broker, and where the device has n-tuple
    /// filters on. A rule of the broker stays in no case.
    #[default]
    Auto,
}

/// A range of queues of an interface, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QueueRange {
    /// The first queue.
    pub first: u32,
    /// The last queue. It need not exist.
    pub last: u32,
}

impl QueueRange {
    /// The last number that a queue can have. The kernel takes larger ones modulo 65,536
    /// (`xp_assign_dev` in the kernel).
    pub const LAST: u32 = 65_535;
    /// All queues of an interface.
    pub const ALL: Self = Self { first: 0, last: Self::LAST };

    /// The range of one queue, or [`Self::ALL`].
    #[must_use]
    pub const fn one_or_any(queue: Option<u32>) -> Self {
        match queue {
            Some(queue) => Self { first: queue, last: queue },
            None => Self::ALL,
        }
    }

    /// The queues in both ranges; `None` if there are none.
    #[must_use]
    pub fn and(self, other: Self) -> Option<Self> {
        let both = Self { first: self.first.max(other.first), last: self.last.min(other.last) };
        (both.first <= both.last).then_some(both)
    }
}

/// Maximum number of queues with a socket of one port.
pub const QUEUES_MAX: u32 = ofi_xdp_bpf::QUEUES;

/// Number of descriptors of a ring: a power of two, as the kernel demands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RingSize(u32);

impl RingSize {
    /// The minimum: one batch.
    pub const MIN: Self = Self(64);
    /// The maximum. Drivers stop at 8192 or earlier, and frames cost memory.
    pub const MAX: Self = Self(32_768);

    /// The smallest ring of at least `descriptors`, between [`Self::MIN`] and [`Self::MAX`].
    #[must_use]
    pub const fn new(descriptors: u32) -> Self {
        if descriptors <= Self::MIN.0 {
            return Self::MIN;
        }
        if descriptors >= Self::MAX.0 {
            return Self::MAX;
        }
        Self(descriptors.next_power_of_two())
    }

    /// The number of descriptors.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Sizes of the four rings of an `AF_XDP` socket. The fill and the rx ring have one size, and so
/// have the tx and the completion ring. Hence each frame that fits in one ring of a pair fits in
/// the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingSizes {
    /// Size of the fill and the rx ring.
    pub rx: RingSize,
    /// Size of the tx and the completion ring.
    pub tx: RingSize,
}

impl Default for RingSizes {
    fn default() -> Self {
        Self { rx: RingSize::new(2048), tx: RingSize::new(1024) }
    }
}

/// Configuration of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortConfig {
    /// The endpoint's address. An unspecified IP address stands for the first one of the interface,
    /// port 0 for any free port.
    pub bind: SocketAddr,
    /// The interface. `None`: the interface that has the address of `bind`, or the interface of the
    /// default route if that address is unspecified.
    pub interface: Option<String>,
    /// The mode to try first.
    pub mode: Mode,
    /// The receive queue that the `AF_XDP` socket is bound to; `None`: the first that is free.
    pub queue: Option<u32>,
    /// Maximum number of queues with a socket of this port: that one and the next free ones. 1 to
    /// [`QUEUES_MAX`], which stands for all queues.
    pub queues: u32,
    /// Whether the port may add a rule to the device that steers this endpoint's packets to its
    /// queue. The port removes the rule when it closes.
    pub steer: Steer,
    /// Whether packets are datagrams of an application, without the header of the engine.
    pub any_payload: bool,
    /// Whether packets to a peer may have another source port than the endpoint's, where those
    /// arrive by another queue than that of the peer's socket.
    pub entropy: bool,
    /// The coverage of checksums of long packets that leave by the kernel.
    pub coverage: ChecksumCoverage,
    /// Path of the broker, which grants sockets to a process without capabilities; `None`: no
    /// broker.
    pub broker: Option<PathBuf>,
    /// Maximum number of peers with a stored route: the engine's number of peer slots. Packets to
    /// other peers go through the kernel socket.
    pub peers: u32,
    /// Wanted capacity of the kernel socket's receive buffer, in packets of all peers together.
    /// [`PortLimits::port_packets`](ofi_xdp_core::PortLimits::port_packets) has the capacity
    /// that was granted.
    pub port_packets: u16,
    /// Sizes of the rings.
    pub rings: RingSizes,
}

impl PortConfig {
    /// The default configuration for `bind`, with room for `peers` peers.
    #[must_use]
    pub fn new(bind: SocketAddr, peers: u32) -> Self {
        Self {
            bind,
            interface: None,
            mode: Mode::Auto,
            queue: None,
            queues: 1,
            steer: Steer::default(),
            any_payload: false,
            entropy: true,
            coverage: ChecksumCoverage::Head,
            broker: Some(PathBuf::from(DEFAULT_BROKER_PATH)),
            peers,
            port_packets: 1024,
            rings: RingSizes::default(),
        }
    }
}

/// Path of the broker's socket, unless `FI_XDP_BROKER` names another one.
pub const DEFAULT_BROKER_PATH: &str = "/run/xdp-broker/socket";

/// DSCP and ECN of every packet sent. 0: best effort, not ECN-capable (RFC 3168 §5); `0b10` would
/// be ECT(0).
pub(crate) const TRAFFIC_CLASS: u8 = 0;

/// Maximum packet of any port, in bytes of UDP payload: the payload of a 9000-byte MTU behind IPv4
/// and UDP headers.
pub(crate) const PAYLOAD_MAX: usize = 8972;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_sizes_round_up_to_powers_of_two() {
        for (asked, size) in
            [(0, 64), (1, 64), (64, 64), (65, 128), (511, 512), (2048, 2048), (u32::MAX, 32_768)]
        {
            assert_eq!(RingSize::new(asked).get(), size, "{asked}");
        }
    }

    #[test]
    fn queues_are_cut() {
        let some = QueueRange { first: 2, last: 5 };
        assert_eq!(some.and(QueueRange::ALL), Some(some));
        assert_eq!(
            some.and(QueueRange::one_or_any(Some(5))),
            Some(QueueRange { first: 5, last: 5 })
        );
        assert_eq!(some.and(QueueRange::one_or_any(Some(6))), None);
    }

    #[test]
    fn modes_come_back_from_their_names() {
        for mode in Mode::OF_AF_XDP {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        let message = "fast".parse::<Mode>().unwrap_err().to_string();
        assert_eq!(message, "`fast` is no mode of AF_XDP: use auto, zerocopy, copy or skb");
        assert!("udp".parse::<Mode>().is_err(), "one way to say one thing: that is a tier");
    }
}
