// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that the kernel refuses to send because they are longer than an MTU (`EMSGSIZE`).
//!
//! In: such a packet. Out: its fragments, where the MTU of the endpoint's own interface has become
//! smaller than when the port opened: peers know the former limit. A packet that only exceeds the
//! MTU of another interface, by which the route leads, is lost: the engine finds the MTU of the
//! path by packets that are lost. All other packets keep Don't Fragment for the same reason.
//! Caller: the UDP port. Bound: a few system calls a packet.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use nix::errno::Errno;
use ofi_xdp_core::PeerAddress;

use super::socket::KernelSocket;
use crate::ethtool::ioctl::interface_mtu;
use crate::mtu;

/// Sends packets in fragments where that is right.
#[derive(Debug)]
pub(super) struct LongPackets {
    local: SocketAddr,
    /// Index of the interface; `None` where the address is on none.
    interface: Option<u32>,
    /// Whether the log has told of fragments.
    is_logged: bool,
}

impl LongPackets {
    /// Those of a port at `local`, on no interface yet.
    pub(super) const fn new(local: SocketAddr) -> Self {
        Self { local, interface: None, is_logged: false }
    }

    /// Follows the MTU of the interface with this index.
    pub(super) const fn set_interface(&mut self, index: u32) {
        self.interface = Some(index);
    }

    /// That index.
    pub(super) const fn interface(&self) -> Option<u32> {
        self.interface
    }

    /// Whether the interface's present MTU is too small for packets of `len` bytes.
    fn exceeds_own_mtu(&self, source: &KernelSocket, len: usize) -> bool {
        let mtu = self.interface.map(|index| interface_mtu(source.socket.as_fd(), index));
        mtu.and_then(Result::ok).is_some_and(|mtu| len > mtu::payload_max(mtu, self.local.ip()))
    }

    /// Sends a packet that the kernel has refused.
    ///
    /// # Errors
    /// `EMSGSIZE`: it is for the path search. Those of `send_to(2)` and `setsockopt(2)`.
    #[cold]
    pub(super) fn send(
        &mut self,
        source: &KernelSocket,
        packet: &[u8],
        to: PeerAddress,
    ) -> io::Result<usize> {
        if !self.exceeds_own_mtu(source, packet.len()) {
            return Err(Errno::EMSGSIZE.into());
        }
        if !self.is_logged {
            self.is_logged = true;
            // A port that was notified of the MTU has logged a warning already.
            let local = self.local;
            log::info!("{local}: the MTU is too small for some packets, which go in fragments");
        }
        let is_ipv4 = self.local.is_ipv4();
        source.permit_fragments(is_ipv4, true)?;
        let sent = source.socket.send_to(packet, to.socket_addr());
        source.permit_fragments(is_ipv4, false)?;
        sent
    }
}
