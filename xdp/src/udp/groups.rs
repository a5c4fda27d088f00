// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast groups: a kernel socket for each group that a port receives from.
//!
//! The main socket is bound to an address of its host, so the kernel gives it no packet to a group.
//! The XDP program leaves these packets to the kernel, as they are not to the endpoint's address.
//! A group's socket is bound to the address of the group; other sockets of the host may be, too.
//! Packets to a group leave by the main socket.
//!
//! The kernel ends memberships with their interface. The recovery thread joins the groups again,
//! once `AF_XDP` is back. The kernel counts the members of a group on an interface. If no attempt
//! sees the interface away, the count of two ports that are members may be one too low after that.
//!
//! In: groups. Out: their packets, marked. Callers: the UDP port; the recovery thread, which has
//! the memberships. Bound: [`GROUPS_MAX`].

use std::io;
use std::net::{SocketAddr, SocketAddrV6};
use std::num::NonZeroU32;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use ofi_xdp_core::Datagram;
use rustix::net::netdevice::index_to_name_inlined;
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
    /// One for each socket.
    memberships: Memberships,
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
        let mut memberships = self.memberships.lock();
        let socket = open(group, interface)?;
        let copy = UninheritedFd::duplicate(socket.socket.as_fd())?;
        memberships.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.sockets.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let last = self.sockets.len();
        memberships.push(GroupMembership { group, socket: copy, interface });
        self.sockets.push((group, socket));
        let added = self.sockets.get(last).ok_or(Errno::ENOMEM)?;
        Ok(&added.1)
    }

    /// Receives from `group` no more.
    pub(super) fn leave(&mut self, group: SocketAddr) {
        let mut memberships = self.memberships.lock();
        memberships.extract_if(.., |one| one.group == group).for_each(|one| one.end());
        self.sockets.retain(|(joined, _)| *joined != group);
    }

    /// The memberships, for another thread as well.
    pub(super) const fn memberships(&self) -> &Memberships {
        &self.memberships
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

/// The memberships of a port, which two threads share.
#[derive(Clone, Default, Debug)]
pub(crate) struct Memberships(Arc<Mutex<Vec<GroupMembership>>>);

/// The membership of a group's socket.
#[derive(Debug)]
struct GroupMembership {
    group: SocketAddr,
    socket: UninheritedFd,
    /// Index of the interface where it was joined last.
    interface: u32,
}

impl Memberships {
    fn lock(&self) -> MutexGuard<'_, Vec<GroupMembership>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends those on an interface that is away. The kernel has ended them there, and the socket
    /// does not know. Once the interface is back, the end of this one would count as that of
    /// another member (`ip_mc_dec_group`, net/ipv4/igmp.c).
    pub(crate) fn end_without_interface(&self) {
        self.each(|one| {
            if one.lacks_interface() {
                one.end();
            }
        });
    }

    /// Joins all groups anew, on the interface with this index. Waits for the lock of all
    /// interfaces.
    pub(crate) fn renew(&self, interface: u32) {
        // All end first: the kernel counts the members of a group together.
        self.each(|one| one.end());
        self.each(|one| {
            one.interface = interface;
            if let Err(error) = one.begin() {
                log::warn!("{}: packets to the group come no more: {error}", one.group);
            }
        });
    }

    /// Does something to each membership. Another thread gets the list between two of them: each
    /// may wait for the lock of all interfaces. The last one is first, so that one that is left
    /// meanwhile keeps no other from its turn.
    fn each(&self, mut change: impl FnMut(&mut GroupMembership)) {
        let count = self.lock().len();
        for at in (0..count).rev() {
            if let Some(one) = self.lock().get_mut(at) {
                change(one);
            }
        }
    }

    /// As [`Self::renew`], if a group was joined on another interface.
    pub(super) fn follow(&self, interface: u32) {
        let differs = self.lock().iter().any(|one| one.interface != interface);
        if differs {
            self.renew(interface);
        }
    }
}

impl GroupMembership {
    fn lacks_interface(&self) -> bool {
        let name = index_to_name_inlined(&self.socket, self.interface);
        name.is_err_and(|error| error == rustix::io::Errno::NODEV)
    }

    /// Ends it, if the socket has it.
    fn end(&self) {
        let socket = SockRef::from(&self.socket);
        let _ = match self.group {
            SocketAddr::V4(v4) => {
                let interface = InterfaceIndexOrAddress::Index(self.interface);
                socket.leave_multicast_v4_n(v4.ip(), &interface)
            }
            SocketAddr::V6(v6) => socket.leave_multicast_v6(v6.ip(), self.interface),
        };
    }

    /// Begins it anew.
    fn begin(&self) -> io::Result<()> {
        let (socket, new) = (SockRef::from(&self.socket), self.interface);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::netns::enter_new;

    /// Runs `ip`, and returns its output.
    fn ip(command: &str) -> String {
        let mut process = std::process::Command::new("ip");
        let output = process.args(command.split(' ')).output().unwrap();
        assert!(output.status.success(), "{command}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_membership_is_renewed_unless_the_group_was_left() {
        let lo = nix::net::if_::if_nametoindex("lo").unwrap();
        let group = SocketAddr::new([239, 255, 72, 3].into(), 0);
        for leaves in [false, true] {
            let mut groups = Groups::default();
            groups.join(group, lo).unwrap();
            let copy = groups.descriptors().next().unwrap().try_clone_to_owned().unwrap();
            let memberships = groups.memberships().clone();
            if leaves {
                groups.leave(group);
            }
            memberships.renew(lo);
            let SocketAddr::V4(v4) = group else { unreachable!() };
            let lo = InterfaceIndexOrAddress::Index(lo);
            let left = SockRef::from(&copy).leave_multicast_v4_n(v4.ip(), &lo);
            assert_eq!(left.is_ok(), !leaves);
        }
    }

    /// Members in two processes renew one after the other.
    #[test]
    fn root_members_that_end_while_the_interface_is_away_are_counted_each() {
        if !enter_new() {
            return;
        }
        for group in ["239.255.72.3", "ff02::7:72"] {
            for back in [77, 78] {
                ip("link add own0 index 77 type veth peer name other0");
                ip("link set own0 up");
                let address = SocketAddr::new(group.parse().unwrap(), 7000);
                let mut members = [Groups::default(), Groups::default()];
                for member in &mut members {
                    member.join(address, 77).unwrap();
                }
                ip("link del own0");
                members.iter().for_each(|one| one.memberships().end_without_interface());
                ip(&format!("link add own0 index {back} type veth peer name other0"));
                ip("link set own0 up");
                members.iter().for_each(|one| one.memberships().renew(back));
                let is_member = || ip("maddr show dev own0").contains(group);
                members[0].leave(address);
                assert!(is_member(), "the other one is");
                members[1].leave(address);
                assert!(!is_member());
                ip("link del own0");
            }
        }
    }

    #[test]
    fn root_a_group_that_was_joined_elsewhere_follows_the_interface() {
        if !enter_new() {
            return;
        }
        ip("link add own0 index 77 type veth peer name other0 index 78");
        ip("link set own0 up");
        ip("link set other0 up");
        let group = SocketAddr::new([239, 255, 72, 3].into(), 7000);
        let mut groups = Groups::default();
        groups.join(group, 77).unwrap();
        for index in [78, 78, 77] {
            groups.memberships().follow(index);
            let is_member = |name| ip(&format!("maddr show dev {name}")).contains("239.255.72.3");
            assert_eq!([is_member("own0"), is_member("other0")], [index == 77, index == 78]);
        }
    }
}
