// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the caller of [`HybridPort::open`](crate::HybridPort::open) can choose.
//!
//! Plain values come in from the provider's parameters; nothing here touches the system. Bounds:
//! [`RingSize`] rounds to what the kernel accepts.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::broker;

/// Which way packets move: what the provider's parameters `FI_XDP_TIER` and `FI_XDP_MODE` come to.
///
/// Each choice but [`Mode::Udp`] is a first choice only: when it cannot be had, the next one down
/// this list is tried, and [`Facts::why_not_better`](crate::Facts::why_not_better) says why.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// By the kind of device: `zerocopy` on hardware, `skb` on virtual links.
    #[default]
    Auto,
    /// `AF_XDP` in native mode, the device reading and writing our memory.
    Zerocopy,
    /// `AF_XDP` in native mode, the driver copying each packet.
    Copy,
    /// `AF_XDP` in generic mode: works with every driver.
    Skb,
    /// Kernel UDP sockets only: a tier of its own, so it has no text that is read as a mode.
    Udp,
}

impl Mode {
    /// What a text can name: the modes of `AF_XDP`.
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

/// Queues of an interface: from `first` to `last`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Queues {
    /// The first.
    pub first: u32,
    /// The last. It need not exist.
    pub last: u32,
}

impl Queues {
    /// Whatever queues there are.
    pub const ALL: Self = Self { first: 0, last: u32::MAX };

    /// One queue, or any.
    #[must_use]
    pub const fn one_or_any(queue: Option<u32>) -> Self {
        match queue {
            Some(queue) => Self { first: queue, last: queue },
            None => Self::ALL,
        }
    }

    /// Those that are in both; `None` if there are none.
    #[must_use]
    pub fn and(self, other: Self) -> Option<Self> {
        let both = Self { first: self.first.max(other.first), last: self.last.min(other.last) };
        (both.first <= both.last).then_some(both)
    }
}

/// A ring's number of descriptors: a power of two, since the kernel takes nothing else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RingSize(u32);

impl RingSize {
    /// The smallest: one batch.
    pub const MIN: Self = Self(64);
    /// The largest. Drivers stop at 8192 or earlier, and frames cost memory.
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

/// Sizes of the four rings of an `AF_XDP` socket. Fill and rx rings are of one size, and so are tx
/// and completion ring: a frame that fits in one of a pair then always fits in the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingSizes {
    /// Of the fill and the rx ring.
    pub rx: RingSize,
    /// Of the tx and the completion ring.
    pub tx: RingSize,
}

impl Default for RingSizes {
    fn default() -> Self {
        Self { rx: RingSize::new(2048), tx: RingSize::new(1024) }
    }
}

/// Everything that [`HybridPort::open`](crate::HybridPort::open) needs to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortConfig {
    /// Where to be reached. An unspecified IP address stands for the interface's first, port 0 for
    /// any free one.
    pub bind: SocketAddr,
    /// The interface to use. `None`: the one that has the address of `bind`, or, if that is
    /// unspecified, the one that the default route takes.
    pub interface: Option<String>,
    /// The mode to try first.
    pub mode: Mode,
    /// The receive queue that the `AF_XDP` socket is bound to; `None`: the first that is free.
    pub queue: Option<u32>,
    /// Whether the device may be given a rule that sends this endpoint's packets to that queue. A
    /// rule is a change of the device, which the port takes back when it closes.
    pub steer: bool,
    /// Where a broker is asked for what this process may not do itself; `None`: nowhere.
    pub broker: Option<PathBuf>,
    /// Most peers whose routes are remembered: the engine's number of peer slots. Packets to others
    /// go through the kernel socket.
    pub peers: u32,
    /// How many packets from all peers together the kernel socket's buffer should hold. The limit
    /// that was achieved is in
    /// [`PortLimits::window_packets`](ofi_xdp_core::PortLimits::window_packets).
    pub window_packets: u16,
    /// Sizes of the rings.
    pub rings: RingSizes,
}

impl PortConfig {
    /// The usual configuration for `bind`, with room for `peers` peers.
    #[must_use]
    pub fn new(bind: SocketAddr, peers: u32) -> Self {
        Self {
            bind,
            interface: None,
            mode: Mode::Auto,
            queue: None,
            steer: false,
            broker: Some(PathBuf::from(broker::DEFAULT_PATH)),
            peers,
            window_packets: 1024,
            rings: RingSizes::default(),
        }
    }
}

/// DSCP and ECN of every packet sent. 0: best effort, not ECN-capable (RFC 3168 §5); `0b10` would
/// be ECT(0).
pub(crate) const TRAFFIC_CLASS: u8 = 0;

/// The largest packet that any port sends, in bytes of UDP payload: what fits in a 9000-byte MTU
/// behind IPv4 and UDP headers.
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
        let some = Queues { first: 2, last: 5 };
        assert_eq!(some.and(Queues::ALL), Some(some));
        assert_eq!(some.and(Queues::one_or_any(Some(5))), Some(Queues { first: 5, last: 5 }));
        assert_eq!(some.and(Queues::one_or_any(Some(6))), None);
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
