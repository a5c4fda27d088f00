// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive test with the kernel's neighbours of an interface.
//!
//! The kernel solicits a neighbour that is set to `NUD_PROBE` at once. Only the answer sets it to
//! `NUD_REACHABLE` (net/core/neighbour.c, `__neigh_update`, `neigh_timer_handler`; rtnetlink(7)).
//! The kernel gives a silent neighbour up after some seconds, and the next packet solicits it
//! again.
//!
//! In: an interface. Out: whether a neighbour has answered. Caller: `af_xdp/open.rs`. Bounds: those
//! of `receive_test.rs`.

use std::io;
use std::thread;
use std::time::Duration;

use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::bound_socket::link_is_up;
use super::receive_test::{self, NEIGHBOURS_MAX, NeighbourTest, ReceiveTest};
use crate::error::SelfTestError;
use crate::host::interfaces::InterfaceInfo;
use crate::host::memory::push;
use crate::host::netlink::Netlink;
use crate::tier::status::XskMode;

/// The neighbours of an interface in the kernel's table.
struct KernelNeighbours {
    netlink: Netlink,
    interface: u32,
    neighbours: Vec<(AddressFamily, NeighbourAddress)>,
}

impl KernelNeighbours {
    /// The neighbours of `interface`, the most recently heard ones first.
    fn of(interface: u32) -> io::Result<Self> {
        let mut netlink = Netlink::open()?;
        let request = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        let mut known = netlink.dump(request, |known: &mut Vec<_>, message| {
            match candidate(&message, interface) {
                Some(found) => push(known, found),
                None => Ok(()),
            }
        })?;
        // The stable sort would allocate.
        known.sort_unstable_by_key(|(rank, ..)| *rank);
        known.truncate(NEIGHBOURS_MAX);
        let neighbours = known.into_iter().map(|(_, family, address)| (family, address)).collect();
        Ok(Self { netlink, interface, neighbours })
    }

    fn message(&self, at: usize, state: NeighbourState) -> Option<NeighbourMessage> {
        let (family, address) = self.neighbours.get(at)?.clone();
        let mut message = NeighbourMessage::default();
        message.header.family = family;
        message.header.ifindex = self.interface;
        message.header.state = state;
        message.attributes.push(NeighbourAttribute::Destination(address));
        Some(message)
    }
}

/// A usable neighbour with its rank; lower ranks answer more likely.
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

impl NeighbourTest for KernelNeighbours {
    fn solicit(&mut self) -> io::Result<()> {
        for at in 0..self.neighbours.len() {
            // The change to `NUD_PROBE` triggers the solicitation, so the neighbour must have
            // another state before.
            for state in [NeighbourState::Delay, NeighbourState::Probe] {
                let Some(message) = self.message(at, state) else { continue };
                match self.netlink.change(RouteNetlinkMessage::NewNeighbour(message)) {
                    // The neighbour is gone.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    result => result?,
                }
            }
        }
        Ok(())
    }

    fn has_answered(&mut self) -> io::Result<bool> {
        for at in 0..self.neighbours.len() {
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

/// Opens a port on `interface` by `open`, and tests whether it receives. In generic mode the driver
/// delivers packets as without `AF_XDP`, so there is nothing to test.
pub(crate) fn open_with_receive_test<T, E: From<SelfTestError>>(
    interface: &InterfaceInfo,
    mode: XskMode,
    mut open: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    if mode == XskMode::Skb {
        return open();
    }
    let (port, result) = match KernelNeighbours::of(interface.index) {
        Ok(neighbours) if neighbours.neighbours.is_empty() => {
            (open()?, ReceiveTest::Inconclusive("it knows no neighbour".to_owned()))
        }
        Ok(mut neighbours) => receive_test::open(&mut neighbours, open)?,
        Err(error) => (open()?, ReceiveTest::Inconclusive(format!("read its neighbours: {error}"))),
    };
    match result {
        ReceiveTest::Received => {
            log::info!("{}: self-test: a neighbour's answer came in", interface.name);
        }
        ReceiveTest::Inconclusive(why) => {
            log::info!(
                "{}: self-test: it sends; the receive test is inconclusive: {why}",
                interface.name
            );
        }
    }
    Ok(port)
}
