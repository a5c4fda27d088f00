// SPDX-License-Identifier: MIT OR Apache-2.0
//! Netlink: requests to the kernel's rtnetlink(7), and its notifications.
//!
//! In: typed requests. Out: typed answers. Callers: `interfaces.rs`, the routes, the self-test,
//! `xdp-broker`; always off the data path. The kernel answers in the calling thread, before the
//! send returns, so no call waits for another process. Bounds: an answer ends with its
//! `NLMSG_DONE`; a dump is made up to [`DUMP_TRIES`] times; one call of [`Monitor::next`] takes one
//! datagram.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};

use netlink_packet_core::{
    DecodeError, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REPLACE, NLM_F_REQUEST,
    NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload, Parseable as _,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use super::decode::decode;

/// Maximum length of a datagram from the kernel, for a buffer of this size (`netlink_recvmsg`,
/// `NLMSG_GOODSIZE`).
const DATAGRAM_BYTES: usize = 32 * 1024;

/// Types below this one are netlink's own (linux/netlink.h).
const NLMSG_MIN_TYPE: u16 = 0x10;

/// Number of attempts to read a table that does not change meanwhile. The last one counts anyway.
const DUMP_TRIES: u32 = 3;

/// Maximum number of notifications that one call of [`AddressMonitor::has_changed`] takes.
const CHANGES_MAX: usize = 1024;

type Payload = NetlinkPayload<RouteNetlinkMessage>;

/// A socket for requests.
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
    /// Whether the table changed while the present dump was made, so that it may lack objects.
    interrupted: bool,
}

impl std::fmt::Debug for Netlink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Netlink").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Netlink {
    /// A socket in the calling thread's network namespace.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        let buffer = Vec::with_capacity(DATAGRAM_BYTES);
        Ok(Self { socket, sequence: 0, buffer, interrupted: false })
    }

    /// Requests so far.
    #[cfg(test)]
    pub(crate) const fn requests(&self) -> u32 {
        self.sequence
    }

    /// What `sink` makes of all objects that match `request`, which it is handed one by one: a host
    /// has thousands of some kinds. It begins with a default value, anew if the kernel's table
    /// changed meanwhile.
    pub(crate) fn dump<T: Default>(
        &mut self,
        request: RouteNetlinkMessage,
        mut sink: impl FnMut(&mut T, RouteNetlinkMessage) -> io::Result<()>,
    ) -> io::Result<T> {
        for _ in 1..DUMP_TRIES {
            let found = self.dump_once(request.clone(), &mut sink)?;
            if !self.interrupted {
                return Ok(found);
            }
        }
        self.dump_once(request, &mut sink)
    }

    /// As [`Self::dump`], even if the table changes meanwhile. The sink is not called again after
    /// an error. The rest of the dump is read: until its end the kernel refuses another (`EBUSY`,
    /// `__netlink_dump_start`).
    fn dump_once<T: Default>(
        &mut self,
        request: RouteNetlinkMessage,
        sink: &mut impl FnMut(&mut T, RouteNetlinkMessage) -> io::Result<()>,
    ) -> io::Result<T> {
        self.send(request, NLM_F_REQUEST | NLM_F_DUMP)?;
        self.interrupted = false;
        let (mut found, mut result) = (T::default(), Ok(()));
        let mut done = None;
        // bound: the kernel's last message
        while done != Some(true) {
            done = self.receive(|answer| {
                if result.is_ok() {
                    result = sink(&mut found, answer);
                }
            })?;
        }
        result.map(|()| found)
    }

    /// The one object that matches `request`; `None` if there is none.
    pub(crate) fn ask(
        &mut self,
        request: RouteNetlinkMessage,
    ) -> io::Result<Option<RouteNetlinkMessage>> {
        let mut found = None;
        self.send(request, NLM_F_REQUEST)?;
        match self.receive_one(|answer| found = Some(answer)) {
            Ok(()) => Ok(found),
            // ENOENT: no such neighbour. ENETUNREACH, EHOSTUNREACH: no route. ENODEV: no interface.
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::HostUnreachable => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Changes the existing object that `request` names.
    pub(crate) fn change(&mut self, request: RouteNetlinkMessage) -> io::Result<()> {
        self.send(request, NLM_F_REQUEST | NLM_F_REPLACE | NLM_F_ACK)?;
        self.receive_one(drop)
    }

    fn send(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
        message.finalize();
        self.buffer.clear();
        self.buffer.resize(message.buffer_len(), 0);
        message.serialize(&mut self.buffer);
        self.socket.send(&self.buffer, 0).map(drop)
    }

    /// Takes an answer of one message. After an error the rest of a former answer is before it.
    fn receive_one(&mut self, mut sink: impl FnMut(RouteNetlinkMessage)) -> io::Result<()> {
        // bound: the datagrams of a former answer that the kernel has made
        while self.receive(&mut sink)?.is_none() {}
        Ok(())
    }

    /// Takes one datagram; returns whether it ended the answer. `None`: it is of a former answer.
    /// Objects that are not understood are left out.
    fn receive(&mut self, mut sink: impl FnMut(RouteNetlinkMessage)) -> io::Result<Option<bool>> {
        self.buffer.clear();
        self.socket.recv(&mut self.buffer, 0)?;
        let mut done = None;
        let Self { sequence, buffer, interrupted, .. } = self;
        parse(buffer, |header, payload| {
            if header.sequence_number != *sequence {
                return Ok(());
            }
            let done = done.get_or_insert(false);
            *interrupted |= header.flags & NLM_F_DUMP_INTR != 0;
            match payload {
                Ok(NetlinkPayload::InnerMessage(inner)) => sink(inner),
                Ok(NetlinkPayload::Done(_)) => *done = true,
                Ok(NetlinkPayload::Error(error)) if error.code.is_some() => {
                    return Err(error.to_io());
                }
                Ok(_) => {}
                // It may be the end of the answer.
                Err(error) if header.message_type < NLMSG_MIN_TYPE => {
                    return Err(io::Error::other(error));
                }
                Err(error) => log::debug!("an object of the kernel's is left out: {error}"),
            }
            Ok(())
        })?;
        Ok(done)
    }
}

// linux/rtnetlink.h, `enum rtnetlink_groups`.
const RTNLGRP_LINK: u32 = 1;
const RTNLGRP_NEIGH: u32 = 3;
const RTNLGRP_IPV4_IFADDR: u32 = 5;
const RTNLGRP_IPV4_ROUTE: u32 = 7;
const RTNLGRP_IPV4_RULE: u32 = 8;
const RTNLGRP_IPV6_IFADDR: u32 = 9;
const RTNLGRP_IPV6_ROUTE: u32 = 11;
const RTNLGRP_IPV6_RULE: u32 = 19;
/// The kernel removes routes with their nexthop object without a notification.
const RTNLGRP_NEXTHOP: u32 = 32;
/// Types of notifications to that group: `RTM_NEWNEXTHOP`, `RTM_DELNEXTHOP`, and the same of
/// buckets.
const NEXTHOP_TYPES: [u16; 4] = [104, 105, 116, 117];

/// A socket for notifications about neighbours, links, addresses, routes and rules.
pub(crate) struct Monitor {
    socket: Socket,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").finish_non_exhaustive()
    }
}

/// A socket for notifications about the addresses of all interfaces.
#[derive(Debug)]
pub struct AddressMonitor(Monitor);

impl AddressMonitor {
    /// A socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// Those of netlink; a sandbox may forbid it.
    pub fn open() -> io::Result<Self> {
        Monitor::with_groups(&[RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR]).map(Self)
    }

    /// Whether any address has changed since the last call, or may have.
    pub fn has_changed(&mut self) -> bool {
        let mut changed = false;
        // bound: CHANGES_MAX; the next call takes the others.
        for _ in 0..CHANGES_MAX {
            if self.0.next(|_| {}) == MonitorResult::Nothing {
                break;
            }
            changed = true;
        }
        changed
    }
}

/// Result of [`Monitor::next`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MonitorResult {
    /// No notification.
    Nothing,
    /// Notifications, which went to the sink.
    Changes,
    /// Notifications, which went to the sink, except for those of nexthop objects:
    /// `netlink-packet-route` does not know them.
    Nexthops,
    /// Notifications were lost because they came too fast, or were not understood. All state must
    /// be requested again.
    Lost,
}

impl Monitor {
    /// A socket in the calling thread's network namespace. It receives notifications from now on.
    pub(crate) fn open() -> io::Result<Self> {
        Self::with_groups(&[
            RTNLGRP_LINK,
            RTNLGRP_NEIGH,
            RTNLGRP_IPV4_IFADDR,
            RTNLGRP_IPV4_ROUTE,
            RTNLGRP_IPV4_RULE,
            RTNLGRP_IPV6_IFADDR,
            RTNLGRP_IPV6_ROUTE,
            RTNLGRP_IPV6_RULE,
            RTNLGRP_NEXTHOP,
        ])
    }

    fn with_groups(groups: &[u32]) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        for group in groups {
            socket.add_membership(*group)?;
        }
        socket.set_non_blocking(true)?;
        Ok(Self { socket, buffer: Vec::with_capacity(DATAGRAM_BYTES) })
    }

    /// Takes one notification without waiting. One system call when there is none.
    pub(crate) fn next(&mut self, mut sink: impl FnMut(RouteNetlinkMessage)) -> MonitorResult {
        self.buffer.clear();
        match self.socket.recv(&mut self.buffer, 0) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return MonitorResult::Nothing;
            }
            // ENOBUFS: the socket's buffer overflowed (netlink(7)).
            Err(_) => return MonitorResult::Lost,
        }
        let mut result = MonitorResult::Changes;
        let parsed = parse(&self.buffer, |header, payload| {
            match payload {
                Ok(NetlinkPayload::InnerMessage(inner)) => sink(inner),
                Ok(_) => {}
                Err(_) if NEXTHOP_TYPES.contains(&header.message_type) => {
                    result = MonitorResult::Nexthops;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
            Ok(())
        });
        if parsed.is_ok() { result } else { MonitorResult::Lost }
    }

    /// Readable when [`Self::next`] has a result.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Hands each message of one datagram to `sink`: its header, and its payload if that is understood.
/// Addresses are not only of IP.
fn parse(
    mut bytes: &[u8],
    mut sink: impl FnMut(NetlinkHeader, Result<Payload, DecodeError>) -> io::Result<()>,
) -> io::Result<()> {
    // bound: each round takes at least the length of a header.
    while !bytes.is_empty() {
        let header = NetlinkBuffer::new_checked(bytes)
            .and_then(|buffer| NetlinkHeader::parse(&buffer))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let payload = decode(bytes, &header);
        let length = (header.length as usize).next_multiple_of(4);
        bytes = bytes.get(length.max(16)..).unwrap_or(&[]);
        sink(header, payload)?;
    }
    Ok(())
}

/// The address family of `ip` in rtnetlink.
pub(crate) const fn family(ip: IpAddr) -> AddressFamily {
    match ip {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

#[cfg(test)]
mod tests;
