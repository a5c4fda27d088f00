// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transmit test on a bound `AF_XDP` socket.
//!
//! In: rings and memory of the socket. Out: the result of the test. Caller: `af_xdp/open.rs`.
//! Bounds: those of `transmit_test.rs`.

use std::io;
use std::thread;
use std::time::Duration;

use crate::headers::MacAddress;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkFlags, LinkMessage};

use super::transmit_test::{self, Outcome, TestedSocket};
use crate::error::SelfTestError;
use crate::host::interfaces::InterfaceInfo;
use crate::host::netlink::Netlink;
use crate::xsk::rings::Rings;
use crate::xsk::umem::UmemChunk;
use crate::xsk::umem::UmemMapping;

/// A socket under test. Its frame comes from `free` and returns there.
pub(crate) struct BoundSocket<'a> {
    pub(crate) rings: &'a mut Rings,
    pub(crate) memory: &'a UmemMapping,
    pub(crate) free: &'a mut Vec<UmemChunk>,
    pub(crate) mac: MacAddress,
    pub(crate) index: u32,
}

impl TestedSocket for BoundSocket<'_> {
    fn send(&mut self) -> io::Result<()> {
        let Some(mut frame) = self.free.pop() else {
            return Err(io::Error::other("there is no frame to send"));
        };
        let bytes = transmit_test::frame(self.mac);
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

/// Whether interface `index` has a carrier according to the kernel; `true` if the kernel does not
/// tell.
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

/// Tests a socket on `interface`, and logs the result.
pub(crate) fn test(
    interface: &InterfaceInfo,
    mut subject: BoundSocket<'_>,
) -> Result<(), SelfTestError> {
    match transmit_test::run(&mut subject)? {
        Outcome::Works(time) => {
            log::debug!("{}: self-test: a frame left after {time:?}", interface.name);
        }
        Outcome::Down => {
            log::info!("{}: the link is down, so the driver could not be tested", interface.name);
        }
    }
    Ok(())
}
