// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failover: the loss of the `AF_XDP` half, operation without it, and its return.
//!
//! In: errors of the `AF_XDP` socket, the kernel's notifications, and runs of packets on the kernel
//! socket. Out: a port of the lower tier, one line in the log, and a thread that opens the `AF_XDP`
//! half again (`recovery.rs`, `reopen.rs`). When that succeeds: the restored port and a second
//! line. Caller: [`HybridPort`], never on the normal path of a packet. Bound: one thread.

use ofi_xdp_core::Instant;

use super::{HybridPort, REFRESH_NANOS};
use crate::config::Steer;
use crate::port::other_queue::OtherQueue;
use crate::port::recovery::Recovery;
use crate::port::reopen::Reopening;
use crate::port::xdp_half::{Reopened, XdpHalf};
use crate::tier::queue_list::QueueList;
use crate::tier::status::Tier;
use crate::udp;

impl HybridPort {
    /// Drops the `AF_XDP` half. Packets in its rings are lost, as on any network.
    #[cold]
    pub(super) fn fall_back(&mut self, reason: &str) {
        log::warn!(
            "{}: AF_XDP on {} is lost ({reason}); going on over the kernel's UDP",
            self.local_addr(),
            self.status.interface
        );
        self.stats.xsk_losses += 1;
        self.change_sources(|port| {
            let Some(mut lost) = port.xdp.take() else { return };
            // From now on packets come to the kernel socket.
            lost.sockets.first.end();
            // No XDP program has to see single packets now.
            if let Err(error) = udp::receive_joined(port.udp.socket(), true) {
                log::debug!("{}: packets come one by one: {error}", port.local_addr());
            }
            port.recover(lost);
        });
        self.status.tier = Tier::Udp;
        self.status.kernel_zerocopy = None;
        self.status.queues = QueueList::default();
        self.status.why_not_better = format!("AF_XDP was lost: {reason}");
        self.status.advice.clear();
    }

    /// Starts the thread that closes the `lost` half and opens it again.
    fn recover(&mut self, lost: XdpHalf) {
        let Some(namespace) = self.namespace.clone() else { return };
        let local = self.local_addr();
        let reopening = Reopening::new(&self.config, local, &self.udp, &lost.routes);
        let mut reopening = match reopening {
            Ok(reopening) => reopening,
            Err(error) => return log::warn!("{local}: it stays lost: {error}"),
        };
        let payload_max = self.limits.payload_max;
        let attempt = move || {
            namespace.enter().ok()?;
            reopening.attempt(payload_max)
        };
        match Recovery::start(lost, attempt) {
            Ok(recovery) => self.recovery = Some(recovery),
            Err(error) => log::warn!("{local}: it stays lost: {error}"),
        }
    }

    /// Takes the `AF_XDP` half that the thread has opened.
    #[cold]
    pub(super) fn restore(&mut self, Reopened { mut xdp, interface }: Reopened) {
        xdp.describe(&mut self.status);
        self.status.interface = interface.name;
        self.status.driver = interface.driver;
        self.udp.use_interface(xdp.routes.interface());
        self.status.why_not_better.clear();
        xdp.prepare(&self.config, &self.udp, self.limits.payload_max);
        self.change_sources(|port| {
            port.recovery = None;
            // With the connected socket, the kernel would join packets before the XDP program sees
            // them.
            port.udp.forget_peers();
            port.xdp = Some(xdp);
        });
        self.poll_all_sources();
        self.kernel_rx_run = 0;
        log::warn!("{}: AF_XDP is back: {}", self.local_addr(), self.status);
    }

    /// Processes the kernel's notifications.
    #[cold]
    pub(super) fn refresh(&mut self, now: Instant) {
        self.refresh_at = now.after_nanos(REFRESH_NANOS);
        let Some(xdp) = &mut self.xdp else { return };
        if let Err(reason) = xdp.routes.refresh() {
            return self.fall_back(reason);
        }
        xdp.follow_carrier(self.limits.payload_max);
        if let Some(reason) = xdp.attachment.end_reason() {
            return self.fall_back(reason);
        }
        if let Some(other_queue) = &mut xdp.other_queue {
            other_queue.refresh(now);
        }
        let mtu = xdp.routes.mtu();
        if mtu != self.status.mtu {
            self.status.mtu = mtu;
            let path = if xdp.routes.payload_max() < self.limits.payload_max {
                "longer packets go through the kernel, in fragments"
            } else {
                "all packets fit again"
            };
            log::warn!("{}: the MTU is {mtu} now: {path}", self.udp.local_addr());
        }
    }

    /// Verifies that the program is attached and redirects. The kernel notifies neither of a
    /// detachment nor of a deleted entry. The sign of both is a long run of packets on the kernel
    /// socket.
    #[cold]
    pub(super) fn verify_attachment(&mut self, now: Instant) {
        self.kernel_rx_run = 0;
        let Some(xdp) = &mut self.xdp else { return };
        let XdpHalf { sockets, kernel_rx_hint, other_queue, attachment, .. } = xdp;
        if let Some(reason) = sockets.first.end_reason() {
            return self.fall_back(reason);
        }
        attachment.begin(now, &sockets.first, kernel_rx_hint.as_ref());
        let may_steer = sockets.first.may_steer();
        let complains = |others: &mut OtherQueue| others.complain(&self.stats, &mut self.status);
        if other_queue.as_mut().is_some_and(complains) && may_steer {
            self.steer();
        }
    }

    /// Opens the `AF_XDP` half again, with a rule for the device, if that is configured. Meanwhile
    /// all packets come by the kernel, as most do already.
    fn steer(&mut self) {
        if self.config.steer == Steer::Auto {
            self.config.steer = Steer::Yes;
            self.fall_back("it asks for a rule, as most packets come by other queues");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::af_xdp::open::{BrokerAccess, XskPortConfig};
    use crate::clock::now;
    use crate::config::{Mode, PortConfig};
    use crate::fork;
    use crate::host::interfaces::{self, InterfaceInfo};
    use crate::host::netlink::Netlink;
    use crate::host::netns::Namespace;
    use crate::host::route::table::Routes;
    use crate::port::attachment_check::AttachmentCheck;
    use crate::port::xsk_ports::XskPorts;
    use crate::tier::status::XskMode;
    use nix::sched::{CloneFlags, unshare};
    use nix::sys::socket::{SockaddrStorage, getsockname};
    use ofi_xdp_core::{Destination, PeerId, Port as _, Transmit, Transmitted};
    use std::net::SocketAddr;
    use std::os::fd::RawFd;
    use std::process::Command;
    use std::sync::Arc;

    /// A port over the loopback interface of a new network namespace. Its packets are longer than
    /// its restored `AF_XDP` socket takes.
    fn with_short_half() -> HybridPort {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        assert!(up.success());
        let mut config = PortConfig::new("127.0.0.1:0".parse().unwrap(), 4);
        config.mode = Mode::Udp;
        let mut port = HybridPort::open(&config).unwrap();
        let interface = interfaces::interfaces().unwrap().remove(0);
        let interface = InterfaceInfo { mtu: 1500, ..interface };
        let opening = XskPortConfig {
            interface: &interface,
            queue: None,
            steer: false,
            any_payload: false,
            local: port.local_addr(),
            mode: XskMode::Skb,
            sizes: config.rings,
            access: BrokerAccess { broker: None, udp_socket: port.udp.socket() },
        };
        let xsk = opening.open().unwrap();
        let own = port.local_addr();
        let routes = Routes::new(Netlink::open().unwrap(), own, &interface, 4).unwrap();
        let xdp = XdpHalf {
            sockets: XskPorts::new(xsk, Vec::new()),
            is_direct: false,
            routes,
            kernel_rx_hint: None,
            other_queue: None,
            attachment: AttachmentCheck::default(),
            kernel_batch: None,
        };
        port.restore(Reopened { xdp, interface });
        port
    }

    #[test]
    fn root_a_rule_is_asked_for_when_the_half_opens_again() {
        let skip = std::env::var("OFI_XDP_UNPRIVILEGED").is_ok_and(|value| value == "skip");
        if skip && !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: needs CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF");
            return;
        }
        let mut port = with_short_half();
        port.config.steer = Steer::No;
        port.steer();
        assert!(port.xsk().is_some(), "it is not configured");
        port.config.steer = Steer::Auto;
        port.steer();
        assert!(port.xsk().is_none() && port.config.steer == Steer::Yes);
        assert!(port.status().why_not_better.contains("asks for a rule"), "{}", port.status());
    }

    /// Descriptors of this process that are sockets with the address `of`.
    fn sockets(of: SocketAddr) -> Vec<RawFd> {
        let descriptors = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap().parse().unwrap());
        let address = SockaddrStorage::from(of);
        let is_its = |its: SockaddrStorage| its == address;
        descriptors.filter(|&one| getsockname(one).is_ok_and(is_its)).collect()
    }

    #[test]
    fn root_the_thread_that_opens_the_half_again_has_no_socket_that_forks_keep() {
        let skip = std::env::var("OFI_XDP_UNPRIVILEGED").is_ok_and(|value| value == "skip");
        if skip && !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: needs CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF");
            return;
        }
        let mut port = with_short_half();
        port.namespace = Namespace::current().ok().map(Arc::new);
        port.fall_back("a test");
        let sockets = sockets(port.local_addr());
        assert!(sockets.len() > 1, "the thread has one");
        assert!(sockets.into_iter().all(fork::is_registered));
    }

    #[test]
    fn root_packets_too_long_for_the_socket_leave_by_the_kernel() {
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
            port.poll_all_sources();
            let mut lengths = Vec::new();
            port.receive(now(), 8, &mut |packet| lengths.push(packet.bytes.len())).unwrap();
            assert_eq!(lengths, [len]);
        }
    }
}
