// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams with a forged source, over a raw socket (raw(7), `IPPROTO_RAW`: the sender writes the
//! IP header).
//!
//! In: a source, a target and the payload. Out: an IPv4 packet. Caller: the attacks of unknown
//! sources.

use std::net::SocketAddrV4;

use anyhow::Context;
use socket2::{Domain, Protocol, Socket, Type};

use crate::attacks::Counts;

/// Length of an IPv4 header without options, and of a UDP header.
const IP_LEN: usize = 20;
const UDP_LEN: usize = 8;
/// The protocol number that lets the sender write the IP header.
const IPPROTO_RAW: i32 = 255;
const TTL: u8 = 64;
const UDP: u8 = 17;

/// A sender of datagrams from any address.
#[derive(Debug)]
pub(crate) struct Forger(Socket);

impl Forger {
    /// Needs `CAP_NET_RAW`.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(IPPROTO_RAW)))
            .context("no raw socket: it needs CAP_NET_RAW")?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Sends a datagram `from` an address that need not be the host's own. A full buffer loses it.
    pub(crate) fn send(
        &self,
        from: SocketAddrV4,
        to: SocketAddrV4,
        payload: &[u8],
        counts: &mut Counts,
    ) {
        let udp_len = (UDP_LEN + payload.len()) as u16;
        let mut packet = Vec::with_capacity(IP_LEN + UDP_LEN + payload.len());
        // The kernel writes the total length, the identification and the checksum.
        packet.extend_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, TTL, UDP, 0, 0]);
        packet.extend_from_slice(&from.ip().octets());
        packet.extend_from_slice(&to.ip().octets());
        packet.extend_from_slice(&from.port().to_be_bytes());
        packet.extend_from_slice(&to.port().to_be_bytes());
        packet.extend_from_slice(&udp_len.to_be_bytes());
        // No UDP checksum (RFC 768).
        packet.extend_from_slice(&[0, 0]);
        packet.extend_from_slice(payload);
        if self.0.send_to(&packet, &to.into()).is_ok() {
            counts.sent(payload.len());
        }
    }
}
