// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port that an endpoint has: an `AF_XDP` socket where that can be, and always a kernel socket.
//!
//! Packets come in from the engine by [`Port`] and leave by the better way there is to each
//! destination; packets from both ways come out in one stream. The provider opens it and lets
//! [`drive`](ofi_xdp_core::drive) use it. Bounds: those of its halves; the kernel socket is looked
//! at once in [`UDP_PAUSE_MAX`] calls at least, announcements every [`REFRESH_INTERVAL`] calls.
//!
//! ```text
//!                  ┌─ hop known ──────────▶ XskPort ──▶ NIC
//!   transmit ──▶ Routes                       ▲ short trains, the first packet of a run
//!                  └─ kernel knows better,    │
//!                     or a train is better ─▶ UdpPort ──▶ kernel (learns, loops back, routes)
//! ```

mod bulk;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use ofi_xdp_core::{Datagram, Port, PortError, PortLimits, Transmit, Transmitted};
use rustix::event::epoll;

use crate::config::{Mode, PortConfig};
use crate::device::{self, ChooseError, InterfaceFacts};
use crate::facts::{Facts, Tier, XskMode};
use crate::features;
use crate::namespace::Namespace;
use crate::netlink::Netlink;
use crate::plan::plan;
use crate::recovery::Recovery;
use crate::route::Routes;
use crate::stats::{KernelStats, PortStats};
use crate::udp::{self, UdpPort};
use crate::xsk_port::{Access, Outgoing, XskError, XskPort};
use bulk::Bulk;

/// Most calls of [`Port::receive`] between two looks at the kernel socket. A look costs a system
/// call, some 150 ns, which a packet in the `AF_XDP` socket would wait for; so the pause doubles
/// while nothing comes.
const UDP_PAUSE_MAX: u32 = 127;
/// Calls of [`Port::receive`] between two looks at the kernel's announcements.
const REFRESH_INTERVAL: u32 = 256;
/// Packets from the kernel socket alone after which the port asks whether the XDP program is still
/// attached. Asking costs a system call, which this many packets share: they may come that way for
/// good reason.
const UDP_STREAK_MAX: u32 = 128;
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

/// The `AF_XDP` half.
#[derive(Debug)]
struct Xdp {
    port: XskPort,
    routes: Routes,
    /// Where the kernel copies frames, and nothing else was asked for.
    bulk: Option<Bulk>,
}

/// Both ways to send and receive, behind one address.
#[derive(Debug)]
pub struct HybridPort {
    xdp: Option<Xdp>,
    udp: UdpPort,
    facts: Facts,
    limits: PortLimits,
    stats: PortStats,
    /// An epoll set of whatever can be received from, so that its members may change.
    poll: OwnedFd,
    fds: [RawFd; 1],
    /// What to open again when it is lost.
    config: PortConfig,
    namespace: Option<Arc<Namespace>>,
    recovery: Option<Recovery<Xdp>>,
    /// Calls of `receive` until the kernel socket is looked at.
    udp_countdown: u32,
    /// Where that count started.
    udp_pause: u32,
    /// Calls of `receive` until the announcements are looked at.
    refresh_countdown: u32,
    /// Packets from the kernel socket since the last one from the `AF_XDP` socket.
    udp_streak: u32,
}

const _: () = {
    const fn assert_send<T: Send>() {}
    assert_send::<HybridPort>();
};

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
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .and_then(|poll| watch(&poll, udp.socket()).map(|()| poll))
            .map_err(|error| OpenError::Bind { address, source: error.into() })?;
        let mut facts = Facts {
            tier: Tier::Udp,
            interface: interface.map(|facts| facts.name.clone()).unwrap_or_default(),
            driver: interface.map(|facts| facts.driver.clone()).unwrap_or_default(),
            queue: None,
            kernel_zerocopy: None,
            mtu,
            why_not_better: String::new(),
        };
        let xdp = match plan(config.mode, interface) {
            Ok((interface, modes, reason)) => {
                let mut reasons: Vec<String> = reason.into_iter().collect();
                let xdp = modes.iter().find_map(|mode| {
                    open_xdp(
                        config,
                        interface,
                        (udp.local_addr(), udp.socket()),
                        *mode,
                        &mut reasons,
                    )
                });
                facts.why_not_better = reasons.join("; ");
                if xdp.is_none() {
                    log::info!("no AF_XDP on {}: {}", interface.name, facts.why_not_better);
                }
                xdp
            }
            Err(reason) => {
                facts.why_not_better = reason;
                None
            }
        };
        if let Some(xdp) = &xdp {
            facts.tier = Tier::Xdp(xdp.port.mode());
            facts.queue = Some(xdp.port.queue());
            facts.kernel_zerocopy = xdp.port.kernel_stats().ok().and_then(|stats| stats.zerocopy);
            // In generic mode the device's GRO comes before the XDP program, and joins packets for
            // a socket that takes them joined.
            let joined = |interface: &InterfaceFacts| features::joins_packets(interface.index);
            if xdp.port.mode() == XskMode::Skb && interface.is_none_or(joined) {
                let bind = |source| OpenError::Bind { address, source };
                udp.receive_unjoined().map_err(bind)?;
            }
        }
        log::info!("{}: {facts}", udp.local_addr());
        Ok(Self::assemble(config, xdp, udp, facts, poll))
    }

    fn assemble(
        config: &PortConfig,
        mut xdp: Option<Xdp>,
        udp: UdpPort,
        facts: Facts,
        poll: OwnedFd,
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
            xdp.bulk = bulk(config.mode, xdp, &udp, limits);
        }
        // Who never had `AF_XDP` has nothing to get back.
        let namespace = xdp.as_ref().and_then(|_| Namespace::current().ok()).map(Arc::new);
        let port = Self {
            fds: [poll.as_raw_fd()],
            poll,
            config: config.clone(),
            namespace,
            recovery: None,
            xdp,
            udp,
            facts,
            limits,
            stats: PortStats::default(),
            udp_countdown: 0,
            udp_pause: 0,
            refresh_countdown: REFRESH_INTERVAL,
            udp_streak: 0,
        };
        port.watch_xdp();
        port
    }

    /// The address to be reached at: concrete IP address and port.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.udp.local_addr()
    }

    /// What this port turned out to be. Changes when the `AF_XDP` half is lost.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What this port has done.
    #[must_use]
    pub const fn stats(&self) -> &PortStats {
        &self.stats
    }

    /// What the kernel counted at the `AF_XDP` socket, if there is one. Two system calls.
    #[must_use]
    pub fn kernel_stats(&self) -> Option<KernelStats> {
        self.xsk()?.kernel_stats().ok()
    }

    /// The `AF_XDP` half, if there is one.
    #[must_use]
    pub fn xsk(&self) -> Option<&XskPort> {
        self.xdp.as_ref().map(|xdp| &xdp.port)
    }

    /// The descriptor that becomes readable when there is something to receive: the same one as
    /// long as the port lives. Call [`Self::look_everywhere`] before sleeping on it, and receive
    /// until nothing comes.
    #[must_use]
    pub fn poll_fds(&self) -> &[RawFd] {
        &self.fds
    }

    /// Makes the next [`Port::receive`] look at every source, whichever's turn it is.
    pub const fn look_everywhere(&mut self) {
        self.udp_countdown = 0;
        self.refresh_countdown = 0;
    }

    /// Adds the descriptors of the `AF_XDP` half to the set. They leave it when they are closed.
    fn watch_xdp(&self) {
        let Some(xdp) = &self.xdp else { return };
        for fd in [xdp.port.socket(), xdp.routes.socket()] {
            if let Err(error) = watch(&self.poll, fd) {
                log::warn!("{}: packets may wait for a timer: {error}", self.local_addr());
            }
        }
    }

    /// Goes on without `AF_XDP`. Packets in its rings are lost, as on any network.
    #[cold]
    fn lose_xdp(&mut self, reason: &str) {
        log::warn!(
            "{}: AF_XDP on {} is lost ({reason}); going on over the kernel's UDP",
            self.local_addr(),
            self.facts.interface
        );
        self.xdp = None;
        self.stats.xsk_losses += 1;
        self.recover();
        self.facts.tier = Tier::Udp;
        self.facts.kernel_zerocopy = None;
        self.facts.queue = None;
        self.facts.why_not_better = format!("AF_XDP was lost: {reason}");
    }

    /// Has the `AF_XDP` half opened again as soon as that can be, by a thread of its own.
    fn recover(&mut self) {
        let Some(namespace) = self.namespace.clone() else { return };
        let companion = match self.udp.socket().try_clone_to_owned() {
            Ok(companion) => companion,
            Err(error) => return log::warn!("{}: it stays lost: {error}", self.local_addr()),
        };
        let (config, local) = (self.config.clone(), self.local_addr());
        let payload_max = self.limits.payload_max;
        let attempt = move || {
            namespace.enter().ok()?;
            reopen(&config, local, companion.as_fd(), payload_max)
        };
        match Recovery::start(attempt) {
            Ok(recovery) => self.recovery = Some(recovery),
            Err(error) => log::warn!("{local}: it stays lost: {error}"),
        }
    }

    /// Takes back the `AF_XDP` half that was found.
    #[cold]
    fn regain(&mut self, mut xdp: Xdp) {
        self.recovery = None;
        let mode = xdp.port.mode();
        self.facts.tier = Tier::Xdp(mode);
        self.facts.kernel_zerocopy = xdp.port.kernel_stats().ok().and_then(|stats| stats.zerocopy);
        self.facts.queue = Some(xdp.port.queue());
        self.facts.why_not_better.clear();
        xdp.bulk = bulk(self.config.mode, &xdp, &self.udp, self.limits);
        self.xdp = Some(xdp);
        self.watch_xdp();
        self.look_everywhere();
        self.udp_streak = 0;
        log::warn!("{}: AF_XDP is back: {}", self.local_addr(), self.facts);
    }

    /// Takes in the kernel's announcements.
    #[cold]
    fn refresh(&mut self) {
        self.refresh_countdown = REFRESH_INTERVAL;
        let Some(xdp) = &mut self.xdp else { return };
        if let Err(reason) = xdp.routes.refresh() {
            return self.lose_xdp(reason);
        }
        let mtu = xdp.routes.mtu();
        if mtu != self.facts.mtu {
            self.facts.mtu = mtu;
            let way = if xdp.routes.payload_max() < self.limits.payload_max {
                "longer packets go through the kernel, in fragments"
            } else {
                "all packets fit again"
            };
            log::warn!("{}: the MTU is {mtu} now: {way}", self.udp.local_addr());
        }
    }

    /// Asks whether the program is still there. The kernel announces no detachment (net/core/dev.c,
    /// `bpf_xdp_link_release`); what tells is that packets come through its socket only.
    #[cold]
    fn suspect(&mut self) {
        self.udp_streak = 0;
        if self.xdp.as_ref().is_some_and(|xdp| !xdp.port.is_attached()) {
            self.lose_xdp("the XDP program was detached");
        }
    }

    /// Looks at the kernel socket if it is its turn, at most `budget` packets of it.
    fn receive_udp(&mut self, budget: u16, sink: &mut impl FnMut(Datagram<'_>)) -> u16 {
        if self.udp_countdown > 0 {
            self.udp_countdown -= 1;
            return 0;
        }
        let count = self.udp.receive(budget, &mut self.stats, sink);
        // Where packets come from, more do.
        self.udp_pause = if count > 0 { 0 } else { (2 * self.udp_pause + 1).min(UDP_PAUSE_MAX) };
        self.udp_countdown = self.udp_pause;
        self.udp_streak += u32::from(count);
        if self.udp_streak >= UDP_STREAK_MAX {
            self.suspect();
        }
        count
    }
}

impl Port for HybridPort {
    #[inline]
    fn receive(
        &mut self,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> Result<u16, PortError> {
        if self.xdp.is_none() {
            if let Some(found) = self.recovery.as_mut().and_then(Recovery::take) {
                self.regain(found);
            }
            return Ok(self.udp.receive(budget, &mut self.stats, sink));
        }
        match self.refresh_countdown {
            0 => self.refresh(),
            _ => self.refresh_countdown -= 1,
        }
        // When it is its turn the kernel socket goes first and gets half, so that neither starves.
        let mut count = self.receive_udp(budget.div_ceil(2), sink);
        let Some(Xdp { port, bulk, .. }) = &mut self.xdp else {
            return Ok(count);
        };
        let mut herald = false;
        let received = port.receive(budget - count, &mut self.stats, &mut |datagram| {
            herald |= bulk.as_ref().is_some_and(|bulk| bulk.is_herald(datagram.bytes.len()));
            sink(datagram);
        });
        if herald {
            (self.udp_pause, self.udp_countdown) = (0, 0);
        }
        match received {
            Ok(0) => {}
            Ok(received) => {
                count += received;
                self.udp_streak = 0;
            }
            Err(error) => self.lose_xdp(&error.to_string()),
        }
        Ok(count)
    }

    #[inline]
    fn transmit(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Result<Transmitted, PortError> {
        let Self { xdp, udp, stats, limits, .. } = self;
        let Some(xdp) = xdp else {
            return Ok(udp.transmit(|buffer| fill(buffer.get_mut(..limits.payload_max)?)));
        };
        // `fill` cannot be undone, so there must be room whichever way the packet goes.
        if !udp.has_room() {
            bulk::divert(xdp, udp, stats);
            udp.flush(stats);
        }
        if xdp.bulk.as_ref().is_some_and(Bulk::is_likely) {
            return Ok(bulk::transmit(xdp, udp, stats, limits.payload_max, fill));
        }
        let Xdp { port, routes, bulk } = xdp;
        let mut through_kernel = false;
        let sent = port.transmit(stats, |buffer| {
            let transmit = fill(buffer.get_mut(..limits.payload_max)?)?;
            let joins = bulk.as_mut().is_some_and(|bulk| bulk.takes(transmit));
            if !joins && let Some(hop) = routes.hop(transmit.to, transmit.len) {
                return Some(Outgoing::new(transmit, hop));
            }
            through_kernel = true;
            let _ = udp.transmit(|copy| {
                let packet = buffer.get(..transmit.len)?;
                copy.get_mut(..transmit.len)?.copy_from_slice(packet);
                Some(transmit)
            });
            None
        });
        Ok(if through_kernel { Transmitted::Sent } else { sent })
    }

    #[inline]
    fn flush(&mut self) -> Result<(), PortError> {
        let Self { xdp, udp, stats, .. } = self;
        if let Some(xdp) = xdp {
            bulk::divert(xdp, udp, stats);
            if let Err(error) = xdp.port.flush(stats) {
                self.lose_xdp(&error.to_string());
            }
        }
        self.udp.flush(&mut self.stats);
        Ok(())
    }

    #[inline]
    fn limits(&self) -> PortLimits {
        self.limits
    }
}

/// Trains, where the kernel copies frames anyway and nothing else was asked for.
fn bulk(mode: Mode, xdp: &Xdp, udp: &UdpPort, limits: PortLimits) -> Option<Bulk> {
    let copies = xdp.port.mode() != XskMode::Zerocopy;
    (mode == Mode::Auto && copies && udp.joins()).then(|| Bulk::new(limits.payload_max))
}

/// Has `poll` become readable when `fd` is.
fn watch(poll: &OwnedFd, fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    epoll::add(poll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
}

/// Tries to open a lost `AF_XDP` half again, for packets of at most `payload_max` bytes.
fn reopen(
    config: &PortConfig,
    local: SocketAddr,
    companion: BorrowedFd<'_>,
    payload_max: usize,
) -> Option<Xdp> {
    let mut netlink = Netlink::open().ok()?;
    let interfaces = device::list(&mut netlink).ok()?;
    // The interface may be another one by now, with the address.
    let bound = PortConfig { bind: local, ..config.clone() };
    let (interface, _) = device::choose(&bound, &interfaces, &mut netlink).ok()?;
    let (interface, modes, _) = plan(config.mode, interface).ok()?;
    // Peers know what they were told when the port opened, and join what is longer than that.
    let mtu = interface.mtu.min(udp::mtu(payload_max, local.ip()));
    let interface = &InterfaceFacts { mtu, ..interface.clone() };
    let mut reasons = Vec::new();
    let found = modes
        .iter()
        .find_map(|mode| open_xdp(config, interface, (local, companion), *mode, &mut reasons));
    log::debug!("{local}: AF_XDP again: {}", reasons.join("; "));
    found.filter(|xdp| xdp.port.payload_max() >= payload_max)
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
    let opened = XskPort::open(interface, config.queue, local, mode, config.rings, access);
    let port = match opened {
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
    match routes {
        Ok(routes) => Some(Xdp { port, routes, bulk: None }),
        Err(error) => {
            reasons.push(format!("{mode}: listen to the kernel's announcements: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_core::{Destination, PeerId};

    fn open(bind: &str) -> HybridPort {
        HybridPort::open(&PortConfig::new(bind.parse().unwrap(), 4)).unwrap()
    }

    #[test]
    fn two_ports_talk_over_loopback() {
        let (mut left, mut right) = (open("127.0.0.1:0"), open("127.0.0.1:0"));
        assert_eq!(left.facts().tier, Tier::Udp);
        assert_eq!((left.poll_fds().len(), left.facts().interface.as_str()), (1, "lo"));
        let to = Destination { peer: PeerId::new(0, 0), address: right.local_addr().into() };
        let sent = left.transmit(|buffer| {
            assert_eq!(buffer.len(), crate::config::PAYLOAD_MAX);
            buffer[..4].copy_from_slice(b"ping");
            Some(Transmit { len: 4, to, receive_max: u16::MAX })
        });
        assert_eq!(sent, Ok(Transmitted::Sent));
        left.flush().unwrap();
        let mut received = Vec::new();
        for _ in 0..1000 {
            right.receive(8, &mut |datagram| received.push(datagram.bytes.to_vec())).unwrap();
            if !received.is_empty() {
                break;
            }
            std::thread::yield_now();
        }
        assert_eq!(received, [b"ping"]);
    }

    #[test]
    fn a_port_in_use_is_said() {
        let first = open("127.0.0.1:0");
        let config = PortConfig::new(first.local_addr(), 4);
        let text = HybridPort::open(&config).unwrap_err().to_string();
        assert!(
            text.starts_with(&format!("bind a UDP socket to {}", first.local_addr())),
            "{text}"
        );
    }
}
