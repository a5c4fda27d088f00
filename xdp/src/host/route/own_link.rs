// SPDX-License-Identifier: MIT OR Apache-2.0
//! The own interface: its link-layer address, its MTU, its carrier, and whether it is still usable.
//!
//! In: notifications, and questions of the route table. Out: the MTU and the carrier, or the reason
//! why the interface is unusable. Caller: the route table. Bound: one request to the kernel a
//! question. The answers about a link and about addresses wait for the kernel's lock of all
//! interfaces (RTNL), which others hold for seconds at times; a notification needs no lock. So the
//! table asks when it is made and after lost notifications, at no other time.

use std::net::IpAddr;

use crate::headers::MacAddress;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::host::interfaces::{InterfaceInfo, has_address, local_ip};
use crate::host::netlink::Netlink;
use crate::mtu;

pub(super) const DOWN: &str = "the interface is down";
const ADDRESS_GONE: &str = "its address has left the interface";

/// The interface of an endpoint.
#[derive(Debug)]
pub(super) struct OwnLink {
    own: IpAddr,
    /// Whether the interface has the address; else the loopback interface has it.
    has_own: bool,
    interface: u32,
    mac: MacAddress,
    mtu: u32,
    has_carrier: bool,
    len_max: usize,
    removed: bool,
}

impl OwnLink {
    /// The interface by which packets for the address `own` come, as it was when it was listed.
    pub(super) fn new(own: IpAddr, interface: &InterfaceInfo) -> Self {
        let InterfaceInfo { index, mac, mtu, up, .. } = *interface;
        let has_own = interface.owns(own);
        let len_max = mtu::payload_max(mtu, own);
        Self { own, has_own, interface: index, mac, mtu, has_carrier: up, len_max, removed: false }
    }

    /// The own address.
    pub(super) const fn own(&self) -> IpAddr {
        self.own
    }

    /// The interface's index.
    pub(super) const fn interface(&self) -> u32 {
        self.interface
    }

    /// The interface's link-layer address when the table was made.
    pub(super) const fn mac(&self) -> MacAddress {
        self.mac
    }

    /// The interface's MTU in bytes.
    pub(super) const fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The longest packet that fits in the MTU.
    pub(super) fn payload_max(&self) -> usize {
        mtu::payload_max(self.mtu, self.own)
    }

    /// Whether the interface has a carrier.
    pub(super) const fn has_carrier(&self) -> bool {
        self.has_carrier
    }

    /// The longest packet that the interface takes: none without a carrier.
    #[inline]
    pub(super) const fn len_max(&self) -> usize {
        self.len_max
    }

    /// Requests the interface's addresses. An error is the reason why the interface is unusable:
    /// packets for the endpoint's former address are another host's.
    #[cold]
    pub(super) fn ask_address(&self, netlink: &mut Netlink) -> Result<(), &'static str> {
        // All of 127.0.0.0/8 is local, although one address is listed. Without an answer nothing
        // is known.
        let owner = self.has_own.then_some(self.interface);
        if self.own.is_loopback() || has_address(netlink, owner, self.own).unwrap_or(true) {
            return Ok(());
        }
        Err(ADDRESS_GONE)
    }

    /// Takes a notification that an address has come or gone. An error is the reason why the
    /// interface is unusable; `None`: it is about another address. One that the interface has with
    /// another prefix, too, counts as gone; `AF_XDP` comes back then.
    #[cold]
    pub(super) fn address_changed(
        &self,
        message: &AddressMessage,
        gone: bool,
    ) -> Option<Result<(), &'static str>> {
        // The loopback interface has the address that this one lacks.
        let is_owner = !self.has_own || message.header.index == self.interface;
        (is_owner && local_ip(message) == Some(self.own)).then_some(if gone {
            Err(ADDRESS_GONE)
        } else {
            Ok(())
        })
    }

    /// Whether a notification is about this interface: not about another one, and not about its
    /// part in a bridge.
    pub(super) fn is_meant(&self, link: &LinkMessage) -> bool {
        let header = &link.header;
        header.index == self.interface && header.interface_family == AddressFamily::Unspec
    }

    /// Requests the interface's state. An error is the reason why the interface is unusable. The
    /// answer is newer than all notifications read so far.
    #[cold]
    pub(super) fn ask_link(&mut self, netlink: &mut Netlink) -> Result<(), &'static str> {
        let mut request = LinkMessage::default();
        request.header.index = self.interface;
        let answer = netlink.ask(RouteNetlinkMessage::GetLink(request));
        // Without an answer the interface is gone.
        let Ok(Some(RouteNetlinkMessage::NewLink(link))) = answer else {
            return Err(DOWN);
        };
        self.changed(&link)
    }

    /// The interface was removed.
    #[cold]
    pub(super) const fn remove(&mut self) {
        self.removed = true;
    }

    /// Whether the interface was removed. Another one may have its index since.
    pub(super) const fn was_removed(&self) -> bool {
        self.removed
    }

    /// Takes the interface's state from a message of the kernel. An error is the reason why the
    /// interface is unusable.
    #[cold]
    pub(super) fn changed(&mut self, link: &LinkMessage) -> Result<(), &'static str> {
        if !link.header.flags.contains(LinkFlags::Up) {
            return Err(DOWN);
        }
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::Mtu(mtu) => self.mtu = *mtu,
                LinkAttribute::Address(address) if *address != self.mac.0 => {
                    return Err("its link-layer address has changed");
                }
                _ => {}
            }
        }
        self.has_carrier = link.header.flags.contains(LinkFlags::LowerUp);
        self.len_max = if self.has_carrier { self.payload_max() } else { 0 };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::interfaces::interfaces;

    /// The loopback interface, with an MTU from some time ago.
    fn loopback() -> (OwnLink, Netlink) {
        let loopback = interfaces().unwrap().into_iter().find(|one| one.loopback).unwrap();
        let own = IpAddr::from([127, 0, 0, 1]);
        (OwnLink::new(own, &InterfaceInfo { mtu: 68, ..loopback }), Netlink::open().unwrap())
    }

    #[test]
    fn a_query_returns_the_present_state_of_an_interface() {
        let (mut link, mut netlink) = loopback();
        assert_eq!(link.payload_max(), 40);
        assert_eq!(link.ask_link(&mut netlink), Ok(()));
        assert_ne!(link.mtu(), 68);
        assert_eq!(link.payload_max(), mtu::payload_max(link.mtu(), link.own()));
        link.mac = MacAddress([2, 0, 0, 0, 0, 9]);
        assert_eq!(link.ask_link(&mut netlink), Err("its link-layer address has changed"));
        link.interface = 0x7fff_0000;
        assert_eq!(link.ask_link(&mut netlink), Err("the interface is down"));
    }

    /// Drivers drop the carrier for a moment while a socket opens on another queue (`ice_qp_dis`),
    /// so a lost one is no end.
    #[test]
    fn an_interface_without_a_carrier_takes_no_packet() {
        let (mut link, _) = loopback();
        let mut message = LinkMessage::default();
        for (flags, len_max) in [
            (LinkFlags::Up | LinkFlags::LowerUp, 40),
            (LinkFlags::Up, 0),
            (LinkFlags::Up | LinkFlags::LowerUp, 40),
        ] {
            message.header.flags = flags;
            assert_eq!(link.changed(&message), Ok(()));
            assert_eq!((link.len_max(), link.has_carrier()), (len_max, len_max > 0));
            assert_eq!(link.payload_max(), 40);
        }
    }

    #[test]
    fn the_part_of_an_interface_in_a_bridge_is_not_meant() {
        let (link, _) = loopback();
        let mut message = LinkMessage::default();
        message.header.index = link.interface;
        assert!(link.is_meant(&message));
        message.header.interface_family = AddressFamily::Bridge;
        assert!(!link.is_meant(&message));
    }

    #[test]
    fn an_address_is_asked_for() {
        let (mut link, mut netlink) = loopback();
        assert_eq!(link.ask_address(&mut netlink), Ok(()));
        link.own = IpAddr::from([203, 0, 113, 1]);
        let gone = Err("its address has left the interface");
        assert_eq!(link.ask_address(&mut netlink), gone);
    }
}
