// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port that an endpoint has: an `AF_XDP` socket where that can be, and always a kernel socket.
//!
//! Packets come in from the engine by [`Port`] and leave by the better way there is to each
//! destination; packets from both ways come out in one stream. The provider opens it (`open`) and
//! lets [`drive`](ofi_xdp_core::drive) use it; should it lose its `AF_XDP` half, it goes on without
//! and gets it back (`fallback`). Bounds: those of its halves; the kernel socket is looked at when
//! the XDP program tells of it (`passed.rs`), and every [`UDP_PAUSE_MAX_NANOS`] at least,
//! announcements every [`REFRESH_NANOS`], or as often as somebody calls.
//!
//! ```text
//!                  ┌─ hop known ──────────▶ XskPort ──▶ NIC
//!   transmit ──▶ Routes                       ▲ short trains
//!                  └─ kernel knows better,    │
//!                     or a train is better ─▶ UdpPort ──▶ kernel (learns, loops back, routes)
//! ```

mod bulk;
mod fallback;
mod open;
mod watch;

use std::mem;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

use ofi_xdp_core::{Datagram, Instant, Port, PortError, PortLimits, Transmit, Transmitted};

use crate::config::PortConfig;
use crate::facts::Facts;
use crate::glance::Glance;
use crate::namespace::Namespace;
use crate::passed::Passed;
use crate::recovery::Recovery;
use crate::route::Routes;
use crate::stats::{KernelStats, PortStats};
use crate::udp::UdpPort;
use crate::xsk_port::{Outgoing, XskPort};
use bulk::Bulk;
pub use open::OpenError;
use watch::Watch;

/// Longest time between two looks at the kernel socket, as long as a train may wait there: after a
/// silence of 50 ms.
const UDP_PAUSE_MAX_NANOS: u64 = 100_000;
/// Time between two looks at the kernel's announcements; before it sleeps a port looks anyway.
const REFRESH_NANOS: u64 = 250_000;
/// Packets from the kernel socket alone after which the port asks whether the XDP program is still
/// attached and redirects. Asking costs two system calls, which this many packets share: they may
/// come that way for good reason.
const UDP_STREAK_MAX: u32 = 128;

/// The `AF_XDP` half.
#[derive(Debug)]
struct Xdp {
    port: XskPort,
    routes: Routes,
    /// Word of packets that come to the kernel socket, where it can be had.
    passed: Option<Passed>,
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
    watch: Watch,
    /// What to open again when it is lost.
    config: PortConfig,
    namespace: Option<Arc<Namespace>>,
    recovery: Option<Recovery<Xdp>>,
    /// When the kernel socket is looked at.
    udp_look: Glance,
    /// When the announcements are looked at.
    refresh_at: Instant,
    /// The next look begins with the `AF_XDP` socket, whosever turn it is.
    usual_first: bool,
    /// Packets from the kernel socket since the last one from the `AF_XDP` socket.
    udp_streak: u32,
}

const _: () = {
    const fn assert_send<T: Send>() {}
    assert_send::<HybridPort>();
};

impl HybridPort {
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

    /// The descriptor that becomes readable when there is something to receive, while it is
    /// watched: the same one as long as the port lives. Call [`Self::watch`] before sleeping on it,
    /// then receive, and again while there is more ([`Self::has_more`]).
    #[must_use]
    pub const fn poll_fds(&self) -> &[RawFd] {
        self.watch.fds()
    }

    /// From now on the descriptor tells of packets, also of those that came before and are not
    /// received. The next [`Port::receive`] looks at every source, unless it finds something where
    /// packets come from; then the one after it looks at all others first, however often this is
    /// called: what ends a sleep came from there, most likely, and should not wait.
    pub fn watch(&mut self) {
        self.hasten(true);
        if !self.watch.is_on() {
            self.watch_sources();
        }
    }

    /// Whether the last [`Port::receive`] has left packets that the descriptor does not tell of:
    /// those of a train are taken from the kernel together, and its budget was less.
    #[must_use]
    pub const fn has_more(&self) -> bool {
        self.udp.has_more()
    }

    /// From now on the descriptor tells of nothing, and no packet pays for it.
    pub fn unwatch(&mut self) {
        if self.watch.is_on() {
            self.watch.turn(false);
            self.sources().for_each(|source| self.watch.remove(source));
        }
    }

    /// Puts all that can be received from into the set, if it is not in it. What cannot be put
    /// there is tried again before the next sleep.
    fn watch_sources(&mut self) {
        let mut all = true;
        for source in self.sources() {
            if let Err(error) = self.watch.add(source) {
                log::warn!("{}: packets may wait for a timer: {error}", self.local_addr());
                all = false;
            }
        }
        self.watch.turn(all);
    }

    /// All that can be received from, and what tells of more.
    fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let xdp = self.xdp.iter().flat_map(|xdp| [xdp.port.socket(), xdp.routes.socket()]);
        let recovery = self.recovery.iter().map(Recovery::descriptor);
        xdp.chain(recovery).chain(self.udp.sockets())
    }

    /// Has `change` put other sources in the place of these, also for who sleeps. What is closed
    /// would stay in the set where a fork has it, too (epoll(7)), so all leave before.
    fn change_sources(&mut self, change: impl FnOnce(&mut Self)) {
        let watched = self.watch.is_on();
        self.unwatch();
        change(self);
        if watched {
            self.watch_sources();
        }
    }

    /// Makes the next [`Port::receive`] look at every source, whichever's turn it is.
    pub fn look_everywhere(&mut self) {
        self.hasten(false);
    }

    fn hasten(&mut self, usual_first: bool) {
        self.usual_first = usual_first && !self.udp_look.is_hastened();
        self.udp_look.hasten();
        self.refresh_at = Instant::ZERO;
        self.udp.look_everywhere(usual_first);
    }

    /// Looks at the kernel socket if it is its turn, at most `budget` packets of it.
    fn receive_udp(
        &mut self,
        now: Instant,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> u16 {
        let passed = self.xdp.as_mut().and_then(|xdp| xdp.passed.as_mut());
        if passed.is_some_and(Passed::has_news) {
            self.udp_look.expect();
        }
        if !self.udp_look.is_due(now) {
            return 0;
        }
        let count = self.udp.receive(now, budget, &mut self.stats, sink);
        self.udp_look.looked(now, count > 0);
        self.udp_streak += u32::from(count);
        if self.udp_streak >= UDP_STREAK_MAX {
            self.suspect();
        }
        count
    }

    /// At most `budget` packets of the `AF_XDP` socket, if there is one.
    #[inline]
    fn receive_xdp(&mut self, budget: u16, sink: &mut impl FnMut(Datagram<'_>)) -> u16 {
        let Some(Xdp { port, .. }) = &mut self.xdp else { return 0 };
        match port.receive(budget, &mut self.stats, sink) {
            Ok(0) => 0,
            Ok(received) => {
                self.udp_streak = 0;
                received
            }
            Err(error) => {
                self.lose_xdp(&error.to_string());
                0
            }
        }
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
        if self.xdp.is_none() {
            if let Some(found) = self.recovery.as_mut().and_then(Recovery::take) {
                self.regain(found);
            }
            return Ok(self.udp.receive(now, budget, &mut self.stats, sink));
        }
        let usual_first = mem::take(&mut self.usual_first);
        if usual_first {
            let received = self.receive_xdp(budget, sink);
            if received > 0 {
                return Ok(received);
            }
        }
        if now >= self.refresh_at {
            self.refresh(now);
        }
        // When it is its turn the kernel socket goes first and gets half, so that neither starves.
        let count = self.receive_udp(now, budget.div_ceil(2), sink);
        let rest = if usual_first { 0 } else { self.receive_xdp(budget - count, sink) };
        Ok(count + rest)
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
        // What was opened again, on another device perhaps, may not take all that was promised.
        let short = xdp.port.payload_max() < limits.payload_max;
        if short || xdp.bulk.as_ref().is_some_and(Bulk::is_likely) {
            return Ok(bulk::transmit(xdp, udp, stats, limits.payload_max, fill));
        }
        let Xdp { port, routes, bulk, .. } = xdp;
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
        if self.xdp.is_none() && self.udp.draw_near() && self.watch.is_on() {
            self.watch_sources();
        }
        Ok(())
    }

    #[inline]
    fn limits(&self) -> PortLimits {
        self.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Tier;
    use crate::glance::now;
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

    /// Whether the descriptor becomes readable within a second.
    fn wakes(port: &HybridPort) -> bool {
        let fds = [rustix::event::PollFd::new(&port.watch, rustix::event::PollFlags::IN)];
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
            port.watch();
            assert!(wakes(&port), "what came before");
            assert_eq!(port.receive(now(), 8, &mut |_| {}), Ok(1));
            assert!(!wakes(&port));
            sender.send_to(b"packet", port.local_addr()).unwrap();
            assert!(wakes(&port), "what comes later");
            port.unwatch();
            port.unwatch();
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
