// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a port loses its `AF_XDP` half, goes on without it, and has it back.
//!
//! In: errors of the `AF_XDP` socket, the kernel's announcements, and the suspicion that the XDP
//! program is gone. Out: a port of the lower tier, with one line in the log, and a thread that
//! tries to open what was lost (`recovery`); then a port as it was, with another line. Called by
//! [`HybridPort`], never for a packet that travels as it should.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};

use ofi_xdp_core::Instant;

use super::open::{bulk, open_best};
use super::{HybridPort, REFRESH_NANOS, Xdp};
use crate::config::PortConfig;
use crate::device::{self, InterfaceFacts};
use crate::facts::Tier;
use crate::netlink::Netlink;
use crate::recovery::Recovery;
use crate::udp;

impl HybridPort {
    /// Goes on without `AF_XDP`. Packets in its rings are lost, as on any network.
    #[cold]
    pub(super) fn lose_xdp(&mut self, reason: &str) {
        log::warn!(
            "{}: AF_XDP on {} is lost ({reason}); going on over the kernel's UDP",
            self.local_addr(),
            self.facts.interface
        );
        self.stats.xsk_losses += 1;
        self.change_sources(|port| {
            port.xdp = None;
            // No XDP program has to see each packet any more.
            if let Err(error) = udp::receive_joined(port.udp.socket(), true) {
                log::debug!("{}: packets come one by one: {error}", port.local_addr());
            }
            port.recover();
        });
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
    pub(super) fn regain(&mut self, mut xdp: Xdp) {
        xdp.describe(&mut self.facts);
        self.facts.why_not_better.clear();
        xdp.bulk = bulk(self.config.mode, &xdp, &self.udp);
        self.change_sources(|port| {
            port.recovery = None;
            // The kernel would join packets for it before the XDP program sees them.
            port.udp.forget_near();
            port.xdp = Some(xdp);
        });
        self.look_everywhere();
        self.udp_streak = 0;
        log::warn!("{}: AF_XDP is back: {}", self.local_addr(), self.facts);
    }

    /// Takes in the kernel's announcements.
    #[cold]
    pub(super) fn refresh(&mut self, now: Instant) {
        self.refresh_at = now.after_nanos(REFRESH_NANOS);
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

    /// Asks whether the program is still there, and redirects. The kernel announces no detachment
    /// (net/core/dev.c, `bpf_xdp_link_release`), nor that an entry is gone; what tells is that
    /// packets come through its socket only.
    #[cold]
    pub(super) fn suspect(&mut self) {
        self.udp_streak = 0;
        if let Some(reason) = self.xdp.as_ref().and_then(|xdp| xdp.port.end()) {
            self.lose_xdp(reason);
        }
    }
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
    // Peers know what they were told when the port opened, and join what is longer than that. What
    // is longer than the MTU by now goes through the kernel (`Routes`).
    let promised = udp::mtu(payload_max, local.ip());
    let interface = interface.map(|found| InterfaceFacts { mtu: promised, ..found.clone() });
    let (found, reasons) = open_best(config, interface.as_ref(), (local, companion));
    log::debug!("{local}: AF_XDP again: {reasons}");
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::facts::XskMode;
    use crate::glance::now;
    use crate::route::Routes;
    use crate::xsk_port::{Access, Opening};
    use nix::sched::{CloneFlags, unshare};
    use ofi_xdp_core::{Destination, PeerId, Port as _, Transmit, Transmitted};
    use std::process::Command;

    /// A port over the loopback interface of a network namespace of its own, whose packets are
    /// longer than the `AF_XDP` socket takes that it regains.
    fn with_short_half() -> HybridPort {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        assert!(up.success());
        let mut config = PortConfig::new("127.0.0.1:0".parse().unwrap(), 4);
        config.mode = Mode::Udp;
        let mut port = HybridPort::open(&config).unwrap();
        let interface = device::interfaces().unwrap().remove(0);
        let interface = InterfaceFacts { mtu: 1500, ..interface };
        let opening = Opening {
            interface: &interface,
            queue: None,
            steer: false,
            local: port.local_addr(),
            mode: XskMode::Skb,
            sizes: config.rings,
            access: Access { broker: None, companion: port.udp.socket() },
        };
        let xsk = opening.open().unwrap();
        let own = port.local_addr().ip();
        let routes = Routes::new(Netlink::open().unwrap(), own, &interface, 4).unwrap();
        port.regain(Xdp { port: xsk, routes, passed: None, bulk: None });
        port
    }

    #[test]
    fn root_what_the_socket_is_too_short_for_leaves_by_the_kernel() {
        let skip = std::env::var("OFI_XDP_UNPRIVILEGED").is_ok_and(|value| value == "skip");
        if skip && !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: needs CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF");
            return;
        }
        let mut port = with_short_half();
        assert_eq!((port.limits().payload_max, port.xsk().unwrap().payload_max()), (8972, 1472));
        let to = Destination { peer: PeerId::new(0, 0), address: port.local_addr().into() };
        for len in [8972, 64] {
            let sent = port.transmit(|buffer| {
                buffer[..len].fill(0x10);
                Some(Transmit { len, to, receive_max: 8972 })
            });
            assert_eq!(sent, Ok(Transmitted::Sent));
            port.flush().unwrap();
            port.look_everywhere();
            let mut lengths = Vec::new();
            port.receive(now(), 8, &mut |packet| lengths.push(packet.bytes.len())).unwrap();
            assert_eq!(lengths, [len]);
        }
    }
}
