// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening a port: first the kernel socket, which is mandatory, then the best available `AF_XDP`
//! mode.
//!
//! In: a [`PortConfig`]. Out: a [`HybridPort`]; its status has the reasons against better modes.
//! Callers: the provider, and `hybrid/failover.rs` after a loss. Bound: one attempt for each mode.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;

use super::attachment_check::AttachmentCheck;
use super::hybrid::HybridPort;
use super::other_queue::{Card, OtherQueue};
use super::wakeup_set::WakeupSet;
use super::xdp_half::XdpHalf;
use super::xsk_ports::XskPorts;
use crate::af_xdp::open::{BrokerAccess, XskPortConfig};
use crate::af_xdp::port::XskPort;
use crate::config::{PortConfig, QUEUES_MAX, Steer};
use crate::error::XskError;
use crate::host::features;
use crate::host::interfaces::{self, ChooseError, InterfaceInfo};
use crate::host::netlink::Netlink;
use crate::host::route::table::Routes;
use crate::tier::candidates::candidate_modes;
use crate::tier::queue_list::QueueList;
use crate::tier::status::{PortStatus, Tier, XskMode};
use crate::udp::{self, UdpPort};

/// MTU assumed where the address is on no interface: Ethernet's.
const MTU_UNKNOWN: u32 = 1500;

/// Reason why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel socket cannot be bound: the address is in use or not ours.
    #[error("bind a UDP socket to {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// Interface and address contradict each other or do not exist.
    #[error(transparent)]
    Choose(#[from] ChooseError),
    /// The kernel's tables cannot be read.
    #[error("read the interfaces through netlink: {0}")]
    Netlink(io::Error),
}

impl HybridPort {
    /// Opens a port in the calling thread's network namespace. [`Self::status`] has its tier. If
    /// `AF_XDP` was requested and is not available, the caller should log that.
    ///
    /// # Errors
    /// [`OpenError`], when no kernel socket can be opened.
    pub fn open(config: &PortConfig) -> Result<Self, OpenError> {
        let mut netlink = Netlink::open().map_err(OpenError::Netlink)?;
        let interfaces = interfaces::list(&mut netlink).map_err(OpenError::Netlink)?;
        let (interface, ip) = interfaces::choose(config, &interfaces, &mut netlink)?;
        let address = SocketAddr::new(ip, config.bind.port());
        let mtu = interface.map_or(MTU_UNKNOWN, |interface| interface.mtu);
        let mut udp = UdpPort::bind(address, mtu, config.port_packets)
            .map_err(|source| OpenError::Bind { address, source })?;
        if let Some(interface) = interface {
            udp.set_interface(interface.index);
        }
        if config.any_payload {
            udp.deliver_empty();
        }
        let wakeup_set = WakeupSet::new().map_err(|source| OpenError::Bind { address, source })?;
        let mut status = PortStatus {
            tier: Tier::Udp,
            interface: interface.map(|found| found.name.clone()).unwrap_or_default(),
            driver: interface.map(|found| found.driver.clone()).unwrap_or_default(),
            queues: QueueList::default(),
            kernel_zerocopy: None,
            mtu,
            why_not_better: String::new(),
            advice: String::new(),
        };
        let xdp;
        (xdp, status.why_not_better) =
            open_best(config, interface, (udp.local_addr(), udp.socket()));
        if let Some(xdp) = &xdp {
            xdp.describe(&mut status);
        }
        log::info!("{}: {status}", udp.local_addr());
        Ok(Self::new(config, xdp, udp, status, wakeup_set))
    }
}

/// Opens the `AF_XDP` half in the best available mode, beside the kernel socket at `local`. Returns
/// the reasons against better modes.
pub(super) fn open_best(
    config: &PortConfig,
    interface: Option<&InterfaceInfo>,
    local: (SocketAddr, BorrowedFd<'_>),
) -> (Option<XdpHalf>, String) {
    let (interface, modes, reason) = match candidate_modes(config.mode, interface) {
        Ok(candidates) => candidates,
        Err(reason) => return (None, reason),
    };
    let mut reasons: Vec<String> = reason.into_iter().collect();
    let mut answers = InterfaceAnswers::ask(local.0, interface);
    let xdp = modes
        .iter()
        .find_map(|mode| open_xdp(config, (interface, &mut answers), local, *mode, &mut reasons));
    (xdp, reasons.join("; "))
}

/// What is asked of the device before a socket opens. The answers wait for a lock of the kernel's,
/// and a lease of the broker has packets from its grant on.
struct InterfaceAnswers {
    /// `None`: it has one queue, or a port has taken the card.
    card: Option<Card>,
    joins_packets: bool,
}

impl InterfaceAnswers {
    fn ask(local: SocketAddr, interface: &InterfaceInfo) -> Self {
        // A virtual device allocates many more queues than it uses.
        let queues = interface.rx_queues.min(QUEUES_MAX);
        let card = (queues > 1).then(|| Card::new(local, interface.index, queues));
        Self { card, joins_packets: features::joins_packets(interface.index) }
    }
}

/// Opens the `AF_XDP` half in `mode`; adds the reason to `reasons` if that fails.
fn open_xdp(
    config: &PortConfig,
    (interface, answers): (&InterfaceInfo, &mut InterfaceAnswers),
    (local, udp_socket): (SocketAddr, BorrowedFd<'_>),
    mode: XskMode,
    reasons: &mut Vec<String>,
) -> Option<XdpHalf> {
    let access = BrokerAccess { broker: config.broker.as_deref(), udp_socket };
    let PortConfig { queue, any_payload, rings: sizes, .. } = *config;
    let steer = config.steer == Steer::Yes;
    let opening =
        XskPortConfig { interface, queue, steer, any_payload, local, mode, sizes, access };
    let mut port = match opening.open_unclaimed() {
        Ok(port) => port,
        Err(error) => {
            let reason = reason(mode, &error);
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
            return None;
        }
    };
    if port.mode() != mode {
        reasons.push(format!("{mode}: the program is attached in mode {} already", port.mode()));
    }
    let routes =
        Netlink::open().and_then(|netlink| Routes::new(netlink, local, interface, config.peers));
    let routes = match routes {
        Ok(routes) => routes,
        Err(error) => {
            reasons.push(format!("{mode}: listen to the kernel's announcements: {error}"));
            return None;
        }
    };
    let (mut further, mut missing) = open_further(opening, &port, config.queues);
    // In generic mode the device's GRO runs before the XDP program, and joins packets for a socket
    // that accepts joined packets. Only the loss of this half undoes this step.
    if port.mode() == XskMode::Skb
        && answers.joins_packets
        && let Err(error) = udp::receive_joined(udp_socket, false)
    {
        reasons.push(format!("{mode}: have the kernel join no packets: {error}"));
        return None;
    }
    // The claim is last: from now on packets come to sockets that nobody reads yet.
    if let Err(error) = opening.claim(&mut port) {
        let _ = udp::receive_joined(udp_socket, true);
        reasons.push(format!("{mode}: {error}"));
        return None;
    }
    if let Some((joined, error)) = join(&mut port, &further) {
        further.truncate(joined);
        missing = Some(error.to_string());
    }
    if let Some(reason) = missing {
        log::warn!("{local}: not on more queues of {}: {reason}", interface.name);
        reasons.push(format!("not on more queues: {reason}"));
    }
    // Without the hint the kernel socket is polled by its back-off alone.
    let kernel_rx_hint = port.kernel_rx_hint().unwrap_or_else(|error| {
        log::debug!("{local}: map the hint of the XDP program: {error}");
        None
    });
    let sockets = XskPorts::new(port, further);
    let other_queue =
        answers.card.take().map(|card| OtherQueue::new(local, card, sockets.queues()));
    Some(XdpHalf {
        sockets,
        is_direct: false,
        routes,
        kernel_rx_hint,
        other_queue,
        attachment: AttachmentCheck::default(),
        kernel_batch: None,
    })
}

/// The reason against `mode` in words.
fn reason(mode: XskMode, error: &XskError) -> String {
    match error {
        // These reasons are equal in every mode.
        XskError::Privilege { .. } | XskError::Broker(_) => error.to_string(),
        _ => format!("{mode}: {error}"),
    }
}

/// Lets packets of other queues come to the `further` sockets. Returns how many have joined and the
/// error of the next one, if not all have.
fn join(first: &mut XskPort, further: &[XskPort]) -> Option<(usize, XskError)> {
    let mut joined = further.iter().enumerate();
    joined.find_map(|(number, port)| Some((number, first.join(port).err()?)))
}

/// Opens sockets on the queues behind that of `first` until the port has `wanted` of them. Returns
/// the reason why it has fewer; the last queue of the interface is none where all are wanted.
fn open_further(
    opening: XskPortConfig<'_>,
    first: &XskPort,
    wanted: u32,
) -> (Vec<XskPort>, Option<String>) {
    let mut further = Vec::new();
    let is_complete = |further: &Vec<XskPort>| further.len() + 1 >= wanted as usize;
    if is_complete(&further) {
        return (further, None);
    }
    if first.is_brokered() {
        return (further, Some("the broker grants one queue to an endpoint".to_owned()));
    }
    if first.queue() >= QUEUES_MAX {
        return (further, Some(format!("they would be on queues below {QUEUES_MAX}")));
    }
    let mut reason = None;
    for queue in first.queue() + 1..QUEUES_MAX {
        let opening = XskPortConfig { queue: Some(queue), steer: false, ..opening };
        match opening.open_further() {
            Ok(port) => further.push(port),
            Err(XskError::Bind(error)) if error.is(Errno::EBUSY) => {
                reason = Some(format!("queue {queue}: {error}"));
            }
            Err(XskError::Bind(error)) if error.is(Errno::EINVAL) => {
                if wanted < QUEUES_MAX {
                    reason.get_or_insert_with(|| format!("{queue} is the number of its queues"));
                }
                break;
            }
            Err(error) => {
                reason = Some(format!("queue {queue}: {error}"));
                break;
            }
        }
        if is_complete(&further) {
            return (further, None);
        }
    }
    (further, reason)
}
