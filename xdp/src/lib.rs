// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ports that move the engine's packets: over `AF_XDP`, and over kernel UDP sockets.
//!
//! In comes a [`PortConfig`]; out goes a [`HybridPort`], which the engine's
//! [`drive`](ofi_xdp_core::drive) sends and receives through, and [`Facts`] about what it turned
//! out to be. The provider is the caller; it also asks for the [`interfaces`] there are. No clock
//! is read, the data path allocates nothing, and the only thread there is gets back what was lost.
//!
//! In the order in which a packet meets them:
//!
//! | file | what it does |
//! |---|---|
//! | `port.rs` | chooses the way for each packet, and listens on both |
//! | `port/bulk.rs` | what leaves by the kernel where `AF_XDP` copies: long trains |
//! | `passed.rs` | word from the XDP program of packets that it leaves to the kernel socket |
//! | `route.rs` | which way a peer is, by the kernel's tables (`netlink.rs`) |
//! | `xsk_port.rs` | headers, rings and wake-ups of the `AF_XDP` way |
//! | `xsk_port/jumbo.rs` | packets longer than a frame, on links with a large MTU |
//! | `umem.rs` | the memory that frames lie in |
//! | `rings.rs` | fill, rx, tx and completion ring; who has a frame's token (`frame.rs`) owns it |
//! | `ring.rs` | one ring, in memory that the kernel sees too (`mapping.rs`) |
//! | `udp/` | the kernel's way: trains of equal packets, both ways |
//!
//! Before the first packet: `port/open.rs`, `config.rs` (what can be chosen), `plan.rs` (which
//! modes to try; `forecast.rs` tells it before anything is opened), `device.rs` (interfaces and
//! addresses), `features.rs` (what their drivers say of XDP), `socket.rs` (a bound socket),
//! `grant.rs` (socket and program, from this process or from `broker/`), `privilege.rs` (what is
//! missing, and how to get it), `self_test.rs` (whether a driver that bound a socket moves
//! anything), `socket_options.rs` (what the kernel says of it), `facts.rs` (what became of it).
//!
//! # Two ways, one address
//!
//! The kernel socket is always there, bound to the endpoint's address. It receives what the XDP
//! program passes: packets on another queue, fragments, everything after the program is detached.
//! It sends what the `AF_XDP` socket cannot: to this host, through other interfaces, and to
//! neighbours whose link-layer address the kernel has yet to learn, which sending makes it do. So
//! ARP, neighbour discovery and routing stay the kernel's, and losing `AF_XDP` loses no packet that
//! is sent afterwards. What was lost is tried for again until it is back (`port/fallback.rs`,
//! `recovery.rs`, in the port's own `namespace.rs`). Packets that an MTU lowered meanwhile is too
//! small for go through the kernel, in fragments.
//!
//! # Limits
//!
//! * Above an MTU of about 3800 bytes a packet takes several frames; where the kernel (before Linux
//!   6.6) or the driver cannot do that, packets stay smaller than the MTU.
//! * One `AF_XDP` socket has a queue to itself (the kernel's rule): each endpoint takes the first
//!   free one, and who finds none gets the kernel's UDP, and says so. The number of queues is never
//!   changed.
//! * Native mode on a veth switches off segmentation offload at its other end, for everybody there
//!   (`veth_xdp_set`). Generic mode does not, so a train from a kernel socket arrives in one piece:
//!   the program leaves what is longer than the MTU to the kernel socket, and `udp/train.rs` sends
//!   no shorter trains.
//! * Frames leave without a VLAN tag: a VLAN is an interface of its own, which adds it.

#![deny(unsafe_code)]

pub mod broker;
mod config;
mod device;
mod facts;
mod features;
mod forecast;
mod frame;
mod glance;
mod grant;
mod mapping;
mod namespace;
mod netlink;
mod passed;
mod plan;
mod port;
mod privilege;
mod recovery;
mod ring;
mod rings;
mod route;
mod self_test;
mod socket;
mod socket_options;
mod stats;
mod steering;
mod udp;
mod umem;
mod xsk_port;

pub use config::{Mode, PortConfig, Queues, RingSize, RingSizes, UnknownMode};
pub use device::{ChooseError, InterfaceAddress, InterfaceFacts, interfaces};
pub use facts::{Facts, Tier, XskMode};
pub use features::XdpFeatures;
pub use forecast::Forecast;
pub use grant::{Grant, Held, Wish};
pub use ofi_xdp_bpf::{AttachMode, Counters, Redirect, Verdict};
pub use port::{HybridPort, OpenError};
pub use privilege::Missing;
pub use rings::RingsError;
pub use self_test::Stands;
pub use socket::XskSocket;
pub use stats::{KernelStats, PortStats};
pub use udp::UdpPort;
pub use umem::Layout;
pub use xsk_port::{Access, Opening, Outgoing, XskError, XskPort};
