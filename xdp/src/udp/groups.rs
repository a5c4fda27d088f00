// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast groups: a kernel socket for each group that a port receives from.
//!
//! The main socket is bound to an address of its host, so the kernel gives it no packet to a group.
//! The XDP program leaves these packets to the kernel, as they are not to the endpoint's address.
//! A group's socket is bound to the address of the group; other sockets of the host may be, too.
//! Packets to a group leave by the main socket.
//!
//! In: groups. Out: their packets, marked. Caller: the UDP port. Bound: [`GROUPS_MAX`].

use std::io;
use std::net::{SocketAddr, SocketAddrV6};
use std::num::NonZeroU32;
use std::os::fd::{AsFd as _, BorrowedFd};

use nix::errno::Errno;
use ofi_xdp_core::Datagram;
use socket2::{Domain, InterfaceIndexOrAddress, SockRef, Socket, Type};

use super::gro::Received;
use super::socket::KernelSocket;
use crate::fork::UninheritedFd;

/// Most groups that a port receives from.
pub(super) const GROUPS_MAX: usize = 64;

/// The sockets of groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    sockets: Vec<(SocketAddr, KernelSocket)>,
    /// The socket that is polled first in the next call.
    first: usize,
    /// Whether the groups go before the port's own address in the next call.
    goes_first: bool,
}

impl Groups {
    /// Receives from `group`, with its port, on the interface with this index.
    ///
    /// # Errors
    /// `ENOBUFS` beyond [`GROUPS_MAX`]; `EADDRINUSE` for a group that was joined before; those of
    /// the system calls.
    pub(super) fn join(&mut self, group: SocketAddr, interface: u32) -> io::Result<&KernelSocket> {
        if self.sockets.iter().any(|(joined, _)| *joined == group) {
            return Err(Errno::EADDRINUSE.into());
        }
        if self.sockets.len() >= GROUPS_MAX {
            return Err(Errno::ENOBUFS.into());
        }
        let socket = open(group, interface)?;
        self.sockets.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let last = self.sockets.len();
        self.sockets.push((group, socket));
        let added = self.sockets.get(last).ok_or(Errno::ENOMEM)?;
        Ok(&added.1)
    }

    /// Receives from `group` no more, which it does on the interface with this index.
    pub(super) fn leave(&mut self, group: SocketAddr, interface: u32) {
        for (_, socket) in self.sockets.extract_if(.., |(joined, _)| *joined == group) {
            // Another thread may have the socket, too. On a removed interface none is a member.
            let _ = leave(&SockRef::from(&socket.socket), group, interface);
        }
    }

    /// The memberships, for another thread. Without a descriptor one is left out.
    pub(super) fn memberships(&self) -> Vec<GroupMembership> {
        let membership = |(group, socket): &(SocketAddr, KernelSocket)| {
            let socket = UninheritedFd::duplicate(socket.socket.as_fd()).ok()?;
            Some(GroupMembership { group: *group, socket })
        };
        self.sockets.iter().filter_map(membership).collect()
    }

    /// All sockets.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|(_, socket)| socket.socket.as_fd())
    }

    /// Whether the groups go first in this call: every second one, if there are any.
    #[inline]
    pub(super) fn go_first(&mut self) -> bool {
        self.goes_first = !self.goes_first && !self.sockets.is_empty();
        self.goes_first
    }

    /// Hands at most `budget` packets to `sink`, and returns how many. One system call a group.
    #[inline]
    pub(super) fn receive(
        &mut self,
        budget: u16,
        received: &mut Received,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> u16 {
        if self.sockets.is_empty() { 0 } else { self.receive_any(budget, received, sink) }
    }

    #[cold]
    fn receive_any(
        &mut self,
        budget: u16,
        received: &mut Received,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> u16 {
        let mut count = 0;
        for _ in 0..self.sockets.len() {
            if count >= budget || received.is_left() {
                break;
            }
            self.first = (self.first + 1) % self.sockets.len();
            let Some((_, socket)) = self.sockets.get_mut(self.first) else { break };
            if socket.fetch(received) {
                received.to_group = true;
                count += received.deliver(budget - count, sink);
            }
        }
        count
    }
}

/// A socket that receives what is sent to a group, on one interface alone.
fn open(group: SocketAddr, interface: u32) -> io::Result<KernelSocket> {
    let socket = Socket::new(Domain::for_address(group), Type::DGRAM, None)?;
    // Members of one host share the address.
    socket.set_reuse_address(true)?;
    match group {
        SocketAddr::V4(v4) => {
            socket.bind(&group.into())?;
            let interface = InterfaceIndexOrAddress::Index(interface);
            socket.join_multicast_v4_n(v4.ip(), &interface)?;
            // Not what others have joined on other interfaces.
            socket.set_multicast_all_v4(false)?;
        }
        SocketAddr::V6(v6) => {
            let scoped = SocketAddrV6::new(*v6.ip(), v6.port(), 0, interface);
            socket.bind(&SocketAddr::from(scoped).into())?;
            socket.join_multicast_v6(v6.ip(), interface)?;
            socket.set_multicast_all_v6(false)?;
        }
    }
    KernelSocket::prepare(socket.into(), group)
}

/// The membership of a group's socket.
#[derive(Debug)]
pub(crate) struct GroupMembership {
    group: SocketAddr,
    socket: UninheritedFd,
}

impl GroupMembership {
    /// Receives on the interface with the index `new` instead of `old`, which was removed: the
    /// kernel has ended the membership there. Waits for the lock of all interfaces.
    pub(crate) fn renew(&self, old: u32, new: u32) {
        let socket = SockRef::from(&self.socket);
        // One on an interface that is gone still counts for the socket. Without it the group was
        // left since, or joined elsewhere.
        if leave(&socket, self.group, old).is_ok()
            && let Err(error) = self.join(&socket, new)
        {
            log::warn!("{}: packets to the group come no more: {error}", self.group);
        }
    }

    fn join(&self, socket: &Socket, new: u32) -> io::Result<()> {
        match self.group {
            SocketAddr::V4(v4) => {
                socket.join_multicast_v4_n(v4.ip(), &InterfaceIndexOrAddress::Index(new))
            }
            SocketAddr::V6(v6) => {
                let joined = socket.join_multicast_v6(v6.ip(), new);
                // The address of a link-local group binds its socket to the interface. To bind it
                // to another one takes CAP_NET_RAW.
                let bound = socket.device_index_v6()?;
                if bound.is_some_and(|bound| bound.get() != new) {
                    socket.bind_device_by_index_v6(NonZeroU32::new(new))?;
                }
                joined
            }
        }
    }
}

/// Ends the membership of a socket on an interface.
fn leave(socket: &Socket, group: SocketAddr, interface: u32) -> io::Result<()> {
    match group {
        SocketAddr::V4(v4) => {
            socket.leave_multicast_v4_n(v4.ip(), &InterfaceIndexOrAddress::Index(interface))
        }
        SocketAddr::V6(v6) => socket.leave_multicast_v6(v6.ip(), interface),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_membership_is_renewed_unless_the_group_was_left() {
        let lo = nix::net::if_::if_nametoindex("lo").unwrap();
        let group = SocketAddr::new([239, 255, 72, 3].into(), 0);
        for leaves in [false, true] {
            let mut groups = Groups::default();
            groups.join(group, lo).unwrap();
            let memberships = groups.memberships();
            if leaves {
                groups.leave(group, lo);
            }
            memberships[0].renew(lo, lo);
            let is_member = leave(&SockRef::from(&memberships[0].socket), group, lo).is_ok();
            assert_eq!(is_member, !leaves);
        }
    }
}
