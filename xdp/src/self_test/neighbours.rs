// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's neighbours on an interface, as witnesses of the self-test.
//!
//! A neighbour that is set to `NUD_PROBE` is asked at once, and set to `NUD_REACHABLE` by its
//! answer and by nothing else (net/core/neighbour.c, `__neigh_update`, `neigh_timer_handler`;
//! rtnetlink(7)). One that does not answer is given up by the kernel after some seconds, and asked
//! for anew by the next packet.

use std::io;
use std::thread;
use std::time::Duration;

use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::hearing::{self, Verdict, WITNESSES_MAX, Witnesses};
use super::socket::link_is_up;
use crate::device::InterfaceFacts;
use crate::facts::XskMode;
use crate::netlink::Netlink;
use crate::xsk_port::{XskError, XskPort};

/// See the module.
struct Neighbours {
    netlink: Netlink,
    interface: u32,
    asked: Vec<(AddressFamily, NeighbourAddress)>,
}

impl Neighbours {
    /// Those of `interface`, who was heard lately first; none if there are none.
    fn of(interface: u32) -> io::Result<Self> {
        let mut netlink = Netlink::open()?;
        let all = netlink.dump(RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()))?;
        let mut known: Vec<_> =
            all.iter().filter_map(|message| candidate(message, interface)).collect();
        known.sort_by_key(|(rank, ..)| *rank);
        known.truncate(WITNESSES_MAX);
        let asked = known.into_iter().map(|(_, family, address)| (family, address)).collect();
        Ok(Self { netlink, interface, asked })
    }

    fn message(&self, at: usize, state: NeighbourState) -> Option<NeighbourMessage> {
        let (family, address) = self.asked.get(at)?.clone();
        let mut message = NeighbourMessage::default();
        message.header.family = family;
        message.header.ifindex = self.interface;
        message.header.state = state;
        message.attributes.push(NeighbourAttribute::Destination(address));
        Some(message)
    }
}

/// A neighbour that can be asked, and how good a witness it is (less is better).
fn candidate(
    message: &RouteNetlinkMessage,
    interface: u32,
) -> Option<(u8, AddressFamily, NeighbourAddress)> {
    let RouteNetlinkMessage::NewNeighbour(message) = message else { return None };
    let rank = match message.header.state {
        NeighbourState::Reachable => 0,
        NeighbourState::Delay | NeighbourState::Probe => 1,
        NeighbourState::Stale => 2,
        _ => return None,
    };
    let address = message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(address) => Some(address.clone()),
        _ => None,
    });
    (message.header.ifindex == interface).then_some((rank, message.header.family, address?))
}

impl Witnesses for Neighbours {
    fn ask(&mut self) -> io::Result<()> {
        for at in 0..self.asked.len() {
            // The change to `NUD_PROBE` is what asks, so it must be in another state before.
            for state in [NeighbourState::Delay, NeighbourState::Probe] {
                let Some(message) = self.message(at, state) else { continue };
                match self.netlink.change(RouteNetlinkMessage::NewNeighbour(message)) {
                    // It is gone.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    result => result?,
                }
            }
        }
        Ok(())
    }

    fn has_answered(&mut self) -> io::Result<bool> {
        for at in 0..self.asked.len() {
            let Some(message) = self.message(at, NeighbourState::None) else { continue };
            let answer = self.netlink.ask(RouteNetlinkMessage::GetNeighbour(message))?;
            if let Some(RouteNetlinkMessage::NewNeighbour(message)) = answer
                && message.header.state == NeighbourState::Reachable
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_up(&self) -> bool {
        link_is_up(self.interface)
    }

    fn pause(&mut self, time: Duration) {
        thread::sleep(time);
    }
}

/// Opens a port on `interface` by `open`, and tests whether it hears. In generic mode packets come
/// from the driver as they do to everybody: there is nothing to test.
pub(crate) fn open_hearing(
    interface: &InterfaceFacts,
    mode: XskMode,
    mut open: impl FnMut() -> Result<XskPort, XskError>,
) -> Result<XskPort, XskError> {
    if mode == XskMode::Skb {
        return open();
    }
    let (port, verdict) = match Neighbours::of(interface.index) {
        Ok(neighbours) if neighbours.asked.is_empty() => {
            (open()?, Verdict::Unknown("it knows no neighbour".to_owned()))
        }
        Ok(mut neighbours) => hearing::open(&mut neighbours, open)?,
        Err(error) => (open()?, Verdict::Unknown(format!("read its neighbours: {error}"))),
    };
    match verdict {
        Verdict::Hears => log::info!("{}: self-test: a neighbour's answer came in", interface.name),
        Verdict::Unknown(why) => {
            log::info!("{}: self-test: it sends; not known to hear: {why}", interface.name);
        }
    }
    Ok(port)
}
