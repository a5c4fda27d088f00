// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bound `AF_XDP` socket as the subject of the self-test.

use std::io;
use std::thread;
use std::time::Duration;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use ofi_xdp_core::frame::MacAddress;

use super::{Outcome, Stands, Subject};
use crate::device::InterfaceFacts;
use crate::frame::Frame;
use crate::netlink::Netlink;
use crate::rings::Rings;
use crate::umem::FrameMemory;

/// Frames come from `free` and go back there.
pub(crate) struct BoundSocket<'a> {
    pub(crate) rings: &'a mut Rings,
    pub(crate) memory: &'a FrameMemory,
    pub(crate) free: &'a mut Vec<Frame>,
    pub(crate) mac: MacAddress,
    pub(crate) index: u32,
}

impl Subject for BoundSocket<'_> {
    fn send(&mut self) -> io::Result<()> {
        let Some(mut frame) = self.free.pop() else {
            return Err(io::Error::other("there is no frame to send"));
        };
        let bytes = super::frame(self.mac);
        self.memory.write(&mut frame, |buffer| {
            let room = buffer.iter_mut().zip(bytes);
            (room.map(|(byte, value)| *byte = value).count(), ())
        });
        self.rings.send(frame).map_err(|frame| {
            self.free.push(frame);
            io::Error::other("the tx ring is full")
        })
    }

    fn has_sent(&mut self) -> io::Result<bool> {
        self.rings.wake_tx()?;
        Ok(self.rings.reclaim(self.free) > 0)
    }

    fn is_up(&self) -> bool {
        link_is_up(self.index)
    }

    fn pause(&mut self, time: Duration) {
        thread::sleep(time);
    }
}

/// Whether the kernel says that interface `index` has a carrier; `true` if it does not tell.
pub(super) fn link_is_up(index: u32) -> bool {
    let mut request = LinkMessage::default();
    request.header.index = index;
    let answer =
        Netlink::open().and_then(|mut netlink| netlink.ask(RouteNetlinkMessage::GetLink(request)));
    match answer {
        Ok(Some(RouteNetlinkMessage::NewLink(link))) => {
            link.header.flags.contains(LinkFlags::LowerUp)
        }
        _ => true,
    }
}

/// Tests a socket on `interface`, and logs what a link that is down leaves open.
pub(crate) fn test(interface: &InterfaceFacts, mut subject: BoundSocket<'_>) -> Result<(), Stands> {
    match super::run(&mut subject)? {
        Outcome::Works(time) => {
            log::debug!("{}: self-test: it moves after {time:?}", interface.name);
        }
        Outcome::Down => {
            log::info!("{}: the link is down, so the driver could not be tested", interface.name);
        }
    }
    Ok(())
}
