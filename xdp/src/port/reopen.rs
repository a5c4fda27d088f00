// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening a lost `AF_XDP` half again.
//!
//! In: the configuration of the port, and its lost half. Out: a half, on the interface by which
//! packets come now; or one line in the log for each new reason why there is none. Caller: the
//! recovery thread (`hybrid/failover.rs`). Bound: one attempt for each mode.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use super::announce::Announcement;
use super::open::open_best;
use super::xdp_half::Reopened;
use crate::config::PortConfig;
use crate::fork::UninheritedFd;
use crate::host::interfaces::{self, InterfaceInfo};
use crate::host::netlink::Netlink;
use crate::host::route::table::Routes;
use crate::mtu;
use crate::udp::{Memberships, UdpPort};

/// Attempts that wait for neighbours: some four seconds.
const PATIENCE: u32 = 4;

/// The attempts to open a lost half again.
pub(super) struct Reopening {
    /// The port's configuration, with its address and port.
    config: PortConfig,
    udp_socket: UninheritedFd,
    /// Index of the interface of the lost half.
    lost: u32,
    memberships: Memberships,
    announcement: Announcement,
    /// Attempts that wait for the announcement: the routes to some neighbours may come back later
    /// than the interface.
    patience: u32,
    /// The reason against the last attempt.
    reason: String,
}

impl Reopening {
    /// For the port at `local` with the kernel sockets `udp`, whose lost half had `routes`.
    ///
    /// # Errors
    /// When no descriptor is to be had.
    pub(super) fn new(
        config: &PortConfig,
        local: SocketAddr,
        udp: &UdpPort,
        routes: &Routes,
    ) -> io::Result<Self> {
        // An application of datagrams would receive the empty one.
        let announcement = Announcement::new(routes, !config.any_payload);
        Ok(Self {
            config: PortConfig { bind: local, ..config.clone() },
            udp_socket: UninheritedFd::duplicate(udp.socket())?,
            lost: routes.interface(),
            memberships: udp.memberships(),
            announcement,
            patience: PATIENCE,
            reason: String::new(),
        })
    }

    /// Opens the half, for packets of at most `payload_max` bytes.
    pub(super) fn attempt(&mut self, payload_max: usize) -> Option<Reopened> {
        match self.open(payload_max) {
            Ok(reopened) => Some(reopened),
            Err(reason) => {
                if reason != self.reason {
                    log::info!("{}: AF_XDP stays lost for now: {reason}", self.config.bind);
                    self.reason = reason;
                }
                None
            }
        }
    }

    fn open(&mut self, payload_max: usize) -> Result<Reopened, String> {
        self.memberships.end_without_interface();
        let unread = |error| format!("read the interfaces through netlink: {error}");
        let mut netlink = Netlink::open().map_err(unread)?;
        let interfaces = interfaces::list(&mut netlink).map_err(unread)?;
        let interface =
            interfaces::choose_again(&self.config, self.lost, &interfaces, &mut netlink)
                .map_err(|error| error.to_string())?;
        // Without a carrier no announcement leaves, although the kernel takes it.
        if let Some(interface) = interface.filter(|interface| interface.up) {
            self.announcement.announce(interface.mac, self.udp_socket.as_fd());
            if self.announcement.is_missing() && self.patience > 0 {
                self.patience -= 1;
                return Err("no route leads to some neighbours yet".to_owned());
            }
        }
        // Peers know the limit from the time when the port opened, and join packets beyond it.
        // Packets longer than the present MTU go through the kernel (`Routes`).
        let local = self.config.bind;
        let promised = mtu::mtu_for(payload_max, local.ip());
        let interface = interface.map(|found| InterfaceInfo { mtu: promised, ..found.clone() });
        let udp_socket = self.udp_socket.as_fd();
        let (found, reasons) = open_best(&self.config, interface.as_ref(), (local, udp_socket));
        let (Some(xdp), Some(interface)) = (found, interface) else { return Err(reasons) };
        log::debug!("{local}: AF_XDP again: {reasons}");
        // In any case: the interface may have been away between two attempts.
        self.memberships.renew(interface.index);
        Ok(Reopened { xdp, interface })
    }
}
