// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port of an endpoint: an `AF_XDP` socket where possible, and always a kernel socket.
//!
//! In: packets of the engine, by [`Port`]. Out: each packet on the better path to its destination,
//! and the packets of both paths in one stream. Callers: the provider opens the port (`open.rs`);
//! [`drive`](ofi_xdp_core::drive()) moves packets. If the `AF_XDP` half is lost, the port continues
//! without it (`hybrid/failover.rs`). Bounds: those of the halves. The kernel socket is polled when
//! the XDP program reports a packet (`kernel_hint.rs`), and at least every
//! [`UDP_PAUSE_MAX_NANOS`]; notifications are read every [`REFRESH_NANOS`].
//!
//! ```text
//!                  ┌─ hop known ─────────────▶ XskPort ──▶ NIC
//!   transmit ──▶ Routes                          ▲ short batches
//!                  └─ kernel's route, or a    ─▶ UdpPort ──▶ kernel (resolves, loops back, routes)
//!                     GSO batch is cheaper
//! ```

mod failover;
mod receive;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

use nix::errno::Errno;
use ofi_xdp_core::{
    ChecksumCoverage, Datagram, Destination, Instant, PathAdvice, Port, PortError, PortLimits,
    Transmit, Transmitted,
};

use super::kernel_batch::KernelBatch;
use super::recovery::Recovery;
use super::wakeup_set::WakeupSet;
use super::xdp_half::{Reopened, XdpHalf, protect};
use crate::af_xdp::framing::XskTransmit;
use crate::af_xdp::port::XskPort;
use crate::config::PortConfig;
use crate::host::interfaces;
use crate::host::netlink::Netlink;
use crate::host::netns::Namespace;
use crate::stats::{KernelStats, PortStats};
use crate::tier::status::PortStatus;
use crate::udp::UdpPort;
use crate::udp::poll_backoff::PollBackoff;

/// Longest pause between two polls of the kernel socket. The pause reaches it after a silence of 50
/// ms, and a GSO batch may wait that long.
const UDP_PAUSE_MAX_NANOS: u64 = 100_000;
/// Pause between two reads of the kernel's notifications. Before a sleep they are read in any case.
const REFRESH_NANOS: u64 = 250_000;

/// Both paths, behind one address.
#[derive(Debug)]
pub struct HybridPort {
    xdp: Option<XdpHalf>,
    udp: UdpPort,
    status: PortStatus,
    limits: PortLimits,
    stats: PortStats,
    wakeup_set: WakeupSet,
    /// Configuration for opening the `AF_XDP` half again.
    config: PortConfig,
    namespace: Option<Arc<Namespace>>,
    recovery: Option<Recovery<Reopened>>,
    /// Poll back-off of the kernel socket.
    udp_poll: PollBackoff,
    /// Time of the next read of notifications.
    refresh_at: Instant,
    /// The next receive polls the `AF_XDP` socket first, even if the kernel socket is due.
    primary_first: bool,
    /// Packets from the kernel socket since the last one from the `AF_XDP` socket.
    kernel_rx_run: u32,
    /// A packet has found no frame since the last receive.
    lacks_frame: bool,
}

const _: () = {
    const fn assert_send<T: Send>() {}
    assert_send::<HybridPort>();
};

impl HybridPort {
    /// A port of these halves.
    pub(super) fn new(
        config: &PortConfig,
        mut xdp: Option<XdpHalf>,
        udp: UdpPort,
        status: PortStatus,
        wakeup_set: WakeupSet,
    ) -> Self {
        let mut limits = PortLimits {
            payload_max: udp.payload_max(),
            receive_max: udp.payload_max(),
            port_packets: udp.port_packets(),
            coverage: if config.any_payload { ChecksumCoverage::Whole } else { config.coverage },
        };
        // A packet may take either path, so the limits hold for both.
        if let Some(xdp) = &mut xdp {
            limits.payload_max = limits.payload_max.min(xdp.sockets.payload_max());
            limits.receive_max = limits.payload_max;
            // A peer's packets may all come to one socket.
            let port_packets = xdp.sockets.first.port_packets();
            limits.port_packets = limits.port_packets.min(port_packets);
            xdp.prepare(config, &udp, limits.payload_max);
            if xdp.kernel_batch.is_none() {
                limits.coverage = ChecksumCoverage::Whole;
            }
        }
        // A port without `AF_XDP` has nothing to restore.
        let namespace = xdp.as_ref().and_then(|_| Namespace::current().ok()).map(Arc::new);
        Self {
            wakeup_set,
            config: config.clone(),
            namespace,
            recovery: None,
            xdp,
            udp,
            status,
            limits,
            stats: PortStats::default(),
            udp_poll: PollBackoff::new(UDP_PAUSE_MAX_NANOS),
            refresh_at: Instant::ZERO,
            primary_first: false,
            kernel_rx_run: 0,
            lacks_frame: false,
        }
    }

    /// The endpoint's address: concrete IP address and port.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.udp.local_addr()
    }

    /// Tier, interface and limits of this port. They change when the `AF_XDP` half is lost or
    /// restored.
    #[must_use]
    pub const fn status(&self) -> &PortStatus {
        &self.status
    }

    /// Counters of this port.
    #[must_use]
    pub const fn stats(&self) -> &PortStats {
        &self.stats
    }

    /// The kernel's counters of the `AF_XDP` sockets, if there are any. Two system calls for each.
    #[must_use]
    pub fn kernel_stats(&self) -> Option<KernelStats> {
        self.xdp.as_ref()?.sockets.kernel_stats().ok()
    }

    /// The `AF_XDP` socket that holds the claim, if there is one.
    #[must_use]
    pub fn xsk(&self) -> Option<&XskPort> {
        self.xdp.as_ref().map(|xdp| &xdp.sockets.first)
    }

    /// The wakeup descriptor: readable when a packet can be received, while the set is armed. It
    /// stays the same as long as the port lives. Call [`Self::arm`] before a sleep, then receive
    /// until [`Self::has_more`] returns `false`.
    #[must_use]
    pub const fn poll_fds(&self) -> &[RawFd] {
        self.wakeup_set.fds()
    }

    /// Arms the wakeup descriptor, which then also reports earlier packets that are not received.
    ///
    /// The next [`Port::receive`] polls all sockets, except that it stops at packets on the primary
    /// socket, unless the program has left packets to the kernel socket. In that case the receive
    /// after it polls the other sockets first, however often this function is called. Reason: the
    /// packet that ends a sleep most likely came to the primary socket, and should not wait.
    pub fn arm(&mut self) {
        self.force_now(true);
        if !self.wakeup_set.is_armed() {
            self.arm_sources();
        }
    }

    /// Whether the last [`Port::receive`] left packets that the descriptor does not report. The
    /// kernel delivers a GRO batch in one piece, and the budget was smaller.
    #[must_use]
    pub const fn has_more(&self) -> bool {
        self.udp.has_more()
    }

    /// Whether the kernel has left frames in the ring of an `AF_XDP` socket, as while the device's
    /// queue is full, or a packet has found no frame, as while the device has all of them.
    /// [`Port::receive`] and [`Port::transmit`] offer them again; no descriptor tells when.
    #[inline]
    #[must_use]
    pub fn has_untaken(&self) -> bool {
        self.lacks_frame || self.xdp.as_ref().is_some_and(|xdp| xdp.sockets.has_untaken())
    }

    /// Disarms the wakeup descriptor, so that no packet pays for it.
    pub fn disarm(&mut self) {
        if self.wakeup_set.is_armed() {
            self.wakeup_set.set_armed(false);
            self.sources().for_each(|source| self.wakeup_set.remove(source));
        }
    }

    /// Puts all sockets into the set that are not in it. A socket that cannot be added is tried
    /// again before the next sleep.
    fn arm_sources(&mut self) {
        let mut all = true;
        for source in self.sources() {
            if let Err(error) = self.wakeup_set.add(source) {
                log::warn!("{}: packets may wait for a timer: {error}", self.local_addr());
                all = false;
            }
        }
        self.wakeup_set.set_armed(all);
    }

    /// All sockets that receive packets or notifications.
    fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let xdp = self.xdp.iter();
        let xdp = xdp.flat_map(|xdp| xdp.sockets.descriptors().chain([xdp.routes.socket()]));
        let recovery = self.recovery.iter().map(Recovery::descriptor);
        xdp.chain(recovery).chain(self.udp.sockets())
    }

    /// Exchanges sockets by `change`, also for a sleeping thread. All sockets leave the set before:
    /// a closed socket stays in the set while a fork holds a copy of it (epoll(7)).
    fn change_sources(&mut self, change: impl FnOnce(&mut Self)) {
        let was_armed = self.wakeup_set.is_armed();
        self.disarm();
        change(self);
        if was_armed {
            self.arm_sources();
        }
    }

    /// Joins a multicast group on the port's interface: packets to it leave there, and with
    /// `receives` those to its address and port are received, by a kernel socket on every tier.
    ///
    /// # Errors
    /// `EADDRINUSE` for a group that was joined before; `ENOBUFS` beyond 64 groups; `ENODEV` where
    /// no interface is the port's; those of the system calls.
    pub fn join(&mut self, group: SocketAddr, receives: bool) -> io::Result<()> {
        let interface = self.udp.interface().ok_or(Errno::ENODEV)?;
        let joined = self.join_on(interface, group, receives);
        let is_gone = |error: &io::Error| error.raw_os_error() == Some(Errno::ENODEV as i32);
        if !joined.as_ref().is_err_and(is_gone) {
            return joined;
        }
        // The interface may have been made anew, and has another index then.
        let config = PortConfig { bind: self.local_addr(), ..self.config.clone() };
        let mut netlink = Netlink::open()?;
        let interfaces = interfaces::list(&mut netlink)?;
        let present = interfaces::choose_again(&config, interface, &interfaces, &mut netlink);
        let present = present.ok().flatten().ok_or(Errno::ENODEV)?.index;
        self.udp.use_interface(present);
        self.join_on(present, group, receives)
    }

    fn join_on(&mut self, interface: u32, group: SocketAddr, receives: bool) -> io::Result<()> {
        let mut joined = Ok(());
        self.change_sources(|port| joined = port.udp.join(group, interface, receives));
        self.poll_all_sources();
        joined
    }

    /// Leaves a multicast group. Its unread packets are lost.
    pub fn leave(&mut self, group: SocketAddr) {
        self.change_sources(|port| port.udp.leave(group));
    }

    /// Makes the next [`Port::receive`] poll all sockets.
    pub fn poll_all_sources(&mut self) {
        self.force_now(false);
    }

    fn force_now(&mut self, primary_first: bool) {
        self.primary_first = primary_first && !self.udp_poll.is_forced();
        self.udp_poll.force_now();
        self.refresh_at = Instant::ZERO;
        self.udp.poll_all_sources(primary_first);
    }
}

impl Port for HybridPort {
    #[inline]
    fn receive(
        &mut self,
        now: Instant,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> Result<u16, PortError> {
        self.lacks_frame = false;
        if self.xdp.is_none() {
            if let Some(found) = self.recovery.as_mut().and_then(Recovery::take) {
                self.restore(found);
            }
            return Ok(self.udp.receive_or_stay_silent(now, budget, &mut self.stats, sink));
        }
        Ok(self.receive_both(now, budget, sink))
    }

    #[inline]
    fn transmit(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Result<Transmitted, PortError> {
        // `fill` cannot be undone, so both paths must have room. Frames in the ring, which have
        // left the batches, go before the rest of these.
        if !self.udp.has_room() {
            self.flush()?;
        }
        let Self { xdp, udp, stats, limits, lacks_frame, .. } = self;
        let Some(xdp) = xdp else {
            return Ok(udp.transmit(|buffer| fill(buffer.get_mut(..limits.payload_max)?)));
        };
        if !xdp.is_direct || xdp.kernel_batch.as_ref().is_some_and(KernelBatch::is_likely) {
            let sent = xdp.transmit_via_kernel_batch(udp, stats, limits, fill);
            *lacks_frame = sent == Transmitted::Full;
            return Ok(sent);
        }
        let XdpHalf { sockets, routes, kernel_batch, .. } = xdp;
        let mut through_kernel = false;
        let sent = sockets.first.transmit(stats, |buffer| {
            let transmit = fill(buffer.get_mut(..limits.payload_max)?)?;
            let joins =
                kernel_batch.as_mut().is_some_and(|kernel_batch| kernel_batch.takes(transmit));
            if !joins && let Some(hop) = routes.hop(transmit.to, transmit.len) {
                protect(limits.coverage, buffer.get_mut(..transmit.len)?);
                return Some(XskTransmit::new(transmit, hop));
            }
            through_kernel = true;
            let _ = udp.transmit(|copy| {
                let packet = buffer.get(..transmit.len)?;
                copy.get_mut(..transmit.len)?.copy_from_slice(packet);
                Some(transmit)
            });
            if !joins {
                udp.keep_last();
            }
            None
        });
        *lacks_frame = sent == Transmitted::Full;
        Ok(if through_kernel { Transmitted::Sent } else { sent })
    }

    #[inline]
    fn flush(&mut self) -> Result<(), PortError> {
        let Self { xdp, udp, stats, limits, .. } = self;
        if let Some(xdp) = xdp {
            xdp.reroute_short_batches(udp, stats, limits.coverage);
            if let Err(error) = xdp.sockets.flush(stats) {
                self.fall_back(&error.to_string());
            }
        }
        let Self { xdp, udp, stats, .. } = self;
        udp.flush(stats, |to| {
            if let Some(xdp) = xdp {
                xdp.routes.kernel_refused(to);
            }
        });
        if self.xdp.is_none() && self.udp.reconnect_if_due() && self.wakeup_set.is_armed() {
            self.arm_sources();
        }
        Ok(())
    }

    fn advise(&mut self, now: Instant, to: Destination, advice: PathAdvice) -> bool {
        self.config.entropy
            && match &mut self.xdp {
                Some(xdp) => xdp.routes.advise(now, to, advice),
                None => self.udp.advise(now, to, advice),
            }
    }

    #[inline]
    fn limits(&self) -> PortLimits {
        self.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use crate::tier::status::Tier;
    use ofi_xdp_core::PeerId;

    fn open(bind: &str) -> HybridPort {
        HybridPort::open(&PortConfig::new(bind.parse().unwrap(), 4)).unwrap()
    }

    #[test]
    fn two_ports_talk_over_loopback() {
        let (mut left, mut right) = (open("127.0.0.1:0"), open("127.0.0.1:0"));
        assert_eq!(left.status().tier, Tier::Udp);
        assert_eq!((left.poll_fds().len(), left.status().interface.as_str()), (1, "lo"));
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
            right
                .receive(now(), 8, &mut |datagram| received.push(datagram.bytes.to_vec()))
                .unwrap();
            if !received.is_empty() {
                break;
            }
            std::thread::yield_now();
        }
        assert_eq!(received, [b"ping"]);
    }

    #[test]
    fn a_port_of_kernel_sockets_alone_sends_more_than_its_batches_hold() {
        let mut port = open("127.0.0.1:0");
        let mut send = |slot, len| {
            let address = SocketAddr::from(([127, 0, 0, 1], 9)).into();
            let to = Destination { peer: PeerId::new(slot, 0), address };
            port.transmit(|_| Some(Transmit { len, to, receive_max: u16::MAX }))
        };
        let longest = crate::config::PAYLOAD_MAX;
        let packets = (0..100).map(|peer| (peer, 64)).chain((0..40).map(|_| (0, longest)));
        for (peer, len) in packets {
            assert_eq!(send(peer, len), Ok(Transmitted::Sent), "{len} bytes to peer {peer}");
        }
        port.flush().unwrap();
        assert_eq!(port.stats().udp_transmitted, 140);
    }

    #[test]
    fn checksums_leave_to_the_kernel_what_the_configuration_allows() {
        let config = PortConfig::new("127.0.0.1:0".parse().unwrap(), 4);
        let coverage = |config| HybridPort::open(&config).unwrap().limits().coverage;
        assert_eq!(coverage(config.clone()), ChecksumCoverage::Head);
        assert_eq!(
            coverage(PortConfig { coverage: ChecksumCoverage::Whole, ..config.clone() }),
            ChecksumCoverage::Whole
        );
        assert_eq!(coverage(PortConfig { any_payload: true, ..config }), ChecksumCoverage::Whole);
    }

    /// Whether the descriptor becomes readable within a second.
    fn wakes(port: &HybridPort) -> bool {
        let fds = [rustix::event::PollFd::new(&port.wakeup_set, rustix::event::PollFlags::IN)];
        let second = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
        rustix::event::poll(&mut fds.clone(), Some(&second)).unwrap() == 1
    }

    #[test]
    fn the_descriptor_tells_of_packets_while_it_is_watched() {
        let mut port = open("127.0.0.1:0");
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"packet", port.local_addr()).unwrap();
        assert!(!wakes(&port));
        for _ in 0..2 {
            port.arm();
            assert!(wakes(&port), "an earlier packet");
            assert_eq!(port.receive(now(), 8, &mut |_| {}), Ok(1));
            assert!(!wakes(&port));
            sender.send_to(b"packet", port.local_addr()).unwrap();
            assert!(wakes(&port), "a later packet");
            port.disarm();
            port.disarm();
            assert!(!wakes(&port));
        }
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
