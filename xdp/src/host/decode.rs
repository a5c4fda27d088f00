// SPDX-License-Identifier: MIT OR Apache-2.0
//! One message of rtnetlink(7), whatever its attributes that are not read.
//!
//! In: the bytes of a message. Out: its payload. Caller: `netlink.rs`. Bound: the attributes of the
//! message. An alias or a label need not be UTF-8, which the crate demands. Such a message is
//! decoded again, with the attributes alone that this crate reads.

use netlink_packet_core::{DecodeError, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;

// linux/rtnetlink.h.
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
/// Bytes of a message's header (`struct nlmsghdr`).
const HEADER: usize = 16;
/// Bytes of `struct ifinfomsg`, and the attributes of a link that are read
/// (`linux/if_link.h`): address, name, MTU, kind, receive queues, device and its bus.
const LINK: (usize, &[u16]) = (16, &[1, 3, 4, 18, 32, 56, 57]);
/// Bytes of `struct ifaddrmsg`, and the attributes of an address that are read
/// (`linux/if_addr.h`): the address of the other end, and the own one.
const ADDRESS: (usize, &[u16]) = (8, &[1, 2]);
/// A type of attribute that no kernel has; the upper two bits are flags.
const UNREAD: u16 = 0x3FFF;

/// The payload of the message at the start of `bytes`, which has this `header`.
pub(super) fn decode(
    bytes: &[u8],
    header: &NetlinkHeader,
) -> Result<NetlinkPayload<RouteNetlinkMessage>, DecodeError> {
    let error = match NetlinkMessage::deserialize(bytes) {
        Ok(message) => return Ok(message.payload),
        Err(error) => error,
    };
    let (body, read) = match header.message_type {
        RTM_NEWLINK | RTM_DELLINK => LINK,
        RTM_NEWADDR | RTM_DELADDR => ADDRESS,
        _ => return Err(error),
    };
    let Some(message) = bytes.get(..header.length as usize) else { return Err(error) };
    let mut message = message.to_vec();
    rename_unread(message.get_mut(HEADER + body..).unwrap_or_default(), read);
    NetlinkMessage::deserialize(&message).map(|message| message.payload)
}

/// Gives all attributes but those of the types `read` the type [`UNREAD`].
fn rename_unread(mut attributes: &mut [u8], read: &[u16]) {
    // bound: each round takes at least the length of an attribute's header.
    while let Some(&mut [a, b, ref mut kind @ ..]) = attributes.first_chunk_mut::<4>() {
        if !read.contains(&(u16::from_ne_bytes(*kind) & UNREAD)) {
            *kind = UNREAD.to_ne_bytes();
        }
        let length = usize::from(u16::from_ne_bytes([a, b])).next_multiple_of(4);
        attributes = attributes.get_mut(length.max(4)..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_are_read_keep_their_type() {
        let mut attributes = vec![5, 0, 2, 0x80, 9, 0, 0, 0, 5, 0, 3, 0, 0xE9, 0, 0, 0, 8, 0, 1, 0];
        let expected = vec![5, 0, 2, 0x80, 9, 0, 0, 0, 5, 0, 0xFF, 0x3F, 0xE9, 0, 0, 0, 8, 0, 1, 0];
        rename_unread(&mut attributes, ADDRESS.1);
        assert_eq!(attributes, expected);
        for length in 0..4 {
            let mut short = vec![length, 0, 7, 0];
            rename_unread(&mut short, ADDRESS.1);
            assert_eq!(short, [length, 0, 0xFF, 0x3F]);
        }
    }
}
