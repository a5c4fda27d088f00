// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ports that move the engine's packets over `AF_XDP` and over kernel UDP sockets.
//!
//! In: a [`PortConfig`]. Out: a [`HybridPort`], through which the engine's
//! [`drive`](ofi_xdp_core::drive()) sends and receives, and its [`PortStatus`]. Caller: the
//! provider, which also lists the [`interfaces`]. Bounds: the data path allocates nothing, reads
//! no clock, and waits for no lock of the kernel's that others hold for long. Threads beside it
//! open a lost `AF_XDP` half again, and ask questions that wait for such a lock.
//!
//! Each folder imports only from folders below it:
//!
//! | folder | contents |
//! |---|---|
//! | `port/` | chooses the path of each packet, fails over from `AF_XDP` and back |
//! | `af_xdp/` | the port over an `AF_XDP` socket, and the self-test of its driver |
//! | `lease/` | a bound socket and a redirected UDP port, from this process or from the broker |
//! | `steering/` | a rule in the device that sends packets to the socket's queue |
//! | `xsk/` | the raw `AF_XDP` socket: memory, rings, binding |
//! | `tier/` | candidate modes, the expected tier, the status of an open port |
//! | `udp/` | the port over a kernel UDP socket, with GSO and GRO |
//! | `host/` | interfaces, drivers, routes, neighbours, capabilities |
//! | `ethtool/` | requests to an interface's driver: rules, hash |
//! | `headers/` | Ethernet, IP and UDP headers |
//! | `clock` | the time |
//! | `epoll_set` | one descriptor for several sockets |
//! | `fork` | descriptors that the child of a fork closes |
//! | `thread` | a thread of the C library |
//!
//! # Two paths, one address
//!
//! The kernel socket is always open, bound to the endpoint's address. It receives the packets that
//! the XDP program passes: packets on another queue, fragments, all packets after a detachment. It
//! sends packets that the `AF_XDP` socket cannot send: to this host, through other interfaces, and
//! to neighbours without a known link-layer address. Sending to such a neighbour makes the kernel
//! resolve its address. So ARP, neighbour discovery and routing stay in the kernel.
//!
//! The loss of the `AF_XDP` socket loses no packet that is sent afterwards. A thread opens the
//! `AF_XDP` half again (`port/hybrid/failover.rs`, `port/recovery.rs`) in the network namespace of
//! the port (`host/netns.rs`). If the MTU has been lowered, packets that are too long for it go
//! through the kernel, in fragments.
//!
//! # Limits
//!
//! * Above an MTU of about 3800 bytes a packet takes several frames. If the kernel (before Linux
//!   6.6) or the driver does not support that, packets stay shorter than a frame.
//! * The kernel gives each queue to one `AF_XDP` socket. Each endpoint takes the first free queue;
//!   an endpoint without a free queue uses the kernel's UDP and logs that. The number of queues is
//!   never changed.
//! * Native mode on a veth switches off segmentation offload at the other end, for all traffic
//!   there (`veth_xdp_set`). Generic mode does not, so a GSO batch of a kernel socket arrives in
//!   one piece. The program leaves packets longer than the MTU to the kernel socket, and
//!   `udp/gso.rs` sends no shorter batches.
//! * Frames leave without a VLAN tag: a VLAN is an interface of its own, which adds the tag.

#![deny(unsafe_code)]

mod af_xdp;
mod clock;
mod config;
mod epoll_set;
mod error;
mod ethtool;
pub mod fork;
mod headers;
mod host;
mod lease;
mod mtu;
mod port;
mod stats;
mod steering;
mod thread;
mod tier;
mod udp;
mod xsk;

pub use af_xdp::framing::XskTransmit;
pub use af_xdp::open::{BrokerAccess, XskPortConfig};
pub use af_xdp::port::XskPort;
pub use clock::now;
pub use config::{
    DEFAULT_BROKER_PATH, Mode, PortConfig, QUEUES_MAX, QueueRange, RingSize, RingSizes, Steer,
    UnknownMode,
};
pub use error::{BrokerError, Missing, RingsError, SelfTestError, XskError};
pub use headers::MacAddress;
pub use host::card_hash::spread;
pub use host::features::XdpFeatures;
pub use host::interfaces::{ChooseError, InterfaceAddress, InterfaceInfo, interfaces, uplink};
pub use host::netlink::AddressMonitor;
pub use lease::broker;
pub use lease::request::SocketRequest;
pub use lease::socket_lease::{Lease, ProgramLease};
pub use mtu::{path_mtu, payload_max};
pub use ofi_xdp_bpf::{AttachMode, Counters, EndpointAddress, Redirect, Verdict};
pub use port::hybrid::HybridPort;
pub use port::open::OpenError;
pub use stats::{KernelStats, PortStats};
pub use steering::{SteeringError, SteeringRule};
pub use thread::Thread;
pub use tier::candidates::ExpectedTier;
pub use tier::queue_list::QueueList;
pub use tier::status::{PortStatus, Tier, XskMode};
pub use udp::UdpPort;
pub use xsk::socket::XskSocket;
pub use xsk::umem::Layout;
