// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a port is opened: the kernel socket, which must be had, then the best `AF_XDP` mode that can
//! be.
//!
//! In: a [`PortConfig`]. Out: a [`HybridPort`], with the reasons why it is nothing better among its
//! facts. Opening the `AF_XDP` half again after a loss (`fallback`) comes by here, too. Bounds: one
//! attempt for each mode.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::bulk::Bulk;
use super::watch::Watch;
use super::{HybridPort, UDP_PAUSE_MAX_NANOS, Xdp};
use crate::config::{Mode, PortConfig};
use crate::device::{self, ChooseError, InterfaceFacts};
use crate::facts::{Facts, Tier, XskMode};
use crate::features;
use crate::glance::Glance;
use crate::namespace::Namespace;
use crate::netlink::Netlink;
use crate::plan::plan;
use crate::route::Routes;
use crate::stats::PortStats;
use crate::udp::{self, UdpPort};
use crate::xsk_port::{Access, Opening, XskError};
use ofi_xdp_core::{Instant, PortLimits};

/// The MTU to assume where the address is on no interface: Ethernet's.
const MTU_UNKNOWN: u32 = 1500;

/// Why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel socket cannot be bound: the address is in use or not ours.
    #[error("bind a UDP socket to {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
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
    /// Opens a port in the calling thread's network namespace. What it turned out to be is in
    /// [`Self::facts`]; if `AF_XDP` was wanted and cannot be had, the caller should say so.
    ///
    /// # Errors
    /// [`OpenError`], when not even a kernel socket can be had.
    pub fn open(config: &PortConfig) -> Result<Self, OpenError> {
        let mut netlink = Netlink::open().map_err(OpenError::Netlink)?;
        let interfaces = device::list(&mut netlink).map_err(OpenError::Netlink)?;
        let (interface, ip) = device::choose(config, &interfaces, &mut netlink)?;
        let address = SocketAddr::new(ip, config.bind.port());
        let mtu = interface.map_or(MTU_UNKNOWN, |interface| interface.mtu);
        let udp = UdpPort::bind(address, mtu, config.window_packets)
            .map_err(|source| OpenError::Bind { address, source })?;
        let watch = Watch::new().map_err(|source| OpenError::Bind { address, source })?;
        let mut facts = Facts {
            tier: Tier::Udp,
            interface: interface.map(|facts| facts.name.clone()).unwrap_or_default(),
            driver: interface.map(|facts| facts.driver.clone()).unwrap_or_default(),
            queue: None,
            kernel_zerocopy: None,
            mtu,
            why_not_better: String::new(),
        };
        let xdp;
        (xdp, facts.why_not_better) =
            open_best(config, interface, (udp.local_addr(), udp.socket()));
        if let Some(xdp) = &xdp {
            xdp.describe(&mut facts);
        }
        log::info!("{}: {facts}", udp.local_addr());
        Ok(Self::assemble(config, xdp, udp, facts, watch))
    }

    fn assemble(
        config: &PortConfig,
        mut xdp: Option<Xdp>,
        udp: UdpPort,
        facts: Facts,
        watch: Watch,
    ) -> Self {
        let mut limits = PortLimits {
            payload_max: udp.payload_max(),
            receive_max: udp.payload_max(),
            window_packets: udp.window_packets(),
        };
        // A packet may come or go either way, so what holds for both is promised.
        if let Some(xdp) = &mut xdp {
            limits.payload_max = limits.payload_max.min(xdp.port.payload_max());
            limits.receive_max = limits.payload_max;
            limits.window_packets = limits.window_packets.min(xdp.port.window_packets());
            xdp.bulk = bulk(config.mode, xdp, &udp);
        }
        // Who never had `AF_XDP` has nothing to get back.
        let namespace = xdp.as_ref().and_then(|_| Namespace::current().ok()).map(Arc::new);
        Self {
            watch,
            config: config.clone(),
            namespace,
            recovery: None,
            xdp,
            udp,
            facts,
            limits,
            stats: PortStats::default(),
            udp_look: Glance::new(UDP_PAUSE_MAX_NANOS),
            refresh_at: Instant::ZERO,
            usual_first: false,
            udp_streak: 0,
        }
    }
}

impl Xdp {
    /// Says in `facts` what this half is.
    pub(super) fn describe(&self, facts: &mut Facts) {
        facts.tier = Tier::Xdp(self.port.mode());
        facts.queue = Some(self.port.queue());
        facts.kernel_zerocopy = self.port.kernel_stats().ok().and_then(|stats| stats.zerocopy);
    }
}

/// Trains, where the kernel copies frames anyway and nothing else was asked for.
pub(super) fn bulk(mode: Mode, xdp: &Xdp, udp: &UdpPort) -> Option<Bulk> {
    let copies = xdp.port.mode() != XskMode::Zerocopy;
    (mode == Mode::Auto && copies && udp.joins()).then(Bulk::default)
}

/// Opens the `AF_XDP` half in the best mode that can be had, beside the kernel socket at `local`;
/// and says why it is no better one, or why there is none.
pub(super) fn open_best(
    config: &PortConfig,
    interface: Option<&InterfaceFacts>,
    local: (SocketAddr, BorrowedFd<'_>),
) -> (Option<Xdp>, String) {
    let (interface, modes, reason) = match plan(config.mode, interface) {
        Ok(planned) => planned,
        Err(reason) => return (None, reason),
    };
    let mut reasons: Vec<String> = reason.into_iter().collect();
    let xdp = modes.iter().find_map(|mode| open_xdp(config, interface, local, *mode, &mut reasons));
    (xdp, reasons.join("; "))
}

/// Tries to open the `AF_XDP` half in `mode`; adds to `reasons` what was in the way.
fn open_xdp(
    config: &PortConfig,
    interface: &InterfaceFacts,
    (local, companion): (SocketAddr, BorrowedFd<'_>),
    mode: XskMode,
    reasons: &mut Vec<String>,
) -> Option<Xdp> {
    let access = Access { broker: config.broker.as_deref(), companion };
    let PortConfig { queue, steer, rings: sizes, .. } = *config;
    let port = match (Opening { interface, queue, steer, local, mode, sizes, access }).open() {
        Ok(port) => port,
        Err(error) => {
            let reason = match &error {
                // The same in every mode.
                XskError::Privilege { .. } | XskError::Broker(_) => error.to_string(),
                _ => format!("{mode}: {error}"),
            };
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
            return None;
        }
    };
    if port.mode() != mode {
        reasons.push(format!("{mode}: the program is attached in mode {} already", port.mode()));
    }
    let routes = Netlink::open()
        .and_then(|netlink| Routes::new(netlink, local.ip(), interface, config.peers));
    let routes = match routes {
        Ok(routes) => routes,
        Err(error) => {
            reasons.push(format!("{mode}: listen to the kernel's announcements: {error}"));
            return None;
        }
    };
    // Without, the kernel socket is asked now and then.
    let passed = port.passed().unwrap_or_else(|error| {
        log::debug!("{local}: map what the XDP program counts: {error}");
        None
    });
    // In generic mode the device's GRO comes before the XDP program, and joins packets for a socket
    // that takes them joined. Last, for it is undone when this half is lost, and not before.
    if port.mode() == XskMode::Skb
        && features::joins_packets(interface.index)
        && let Err(error) = udp::receive_joined(companion, false)
    {
        reasons.push(format!("{mode}: have the kernel join no packets: {error}"));
        return None;
    }
    Some(Xdp { port, routes, passed, bulk: None })
}
