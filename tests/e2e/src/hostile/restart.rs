// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hellos under the address of a good peer, which propose its next connection
//! (`docs/PROTOCOL.md` §5.2).
//!
//! In: the addresses. Out: a step of an attack. The attacker asks at its own address for
//! both values: the peer answers each hello with an incarnation, and the target each proposal of
//! the next connection with a cookie. The forged hello repeats both. Caller: the attacks. Bound:
//! [`STEP_PACKETS`] packets a step, and those that answer them.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, UdpSocket};

use anyhow::Context;
use ofi_xdp_core::wire::{Body, Packet, PacketKind};
use ofi_xdp_core::{ChecksumCoverage, PeerId, Psn};
use ofi_xdp_test_kit::records::handshake;

use crate::attacks::{Counts, STEP_PACKETS, Step};
use crate::forged::Forger;
use crate::packets::hello;

/// The incarnation under which the attacker asks the peer.
const OWN_INCARNATION: u64 = 0x0bad;

/// The attacker, and the values that it has learned.
struct Impostor {
    /// Its own address.
    socket: UdpSocket,
    forger: Forger,
    target: SocketAddrV4,
    peer: SocketAddrV4,
    /// The peer's incarnation, as the peer tells it.
    incarnation: Option<u64>,
    /// The epoch that it proposes to the target.
    epoch: u16,
    /// An epoch, and the cookie for it that the target has given to the attacker's own address.
    cookie: Option<(u16, u64)>,
    /// Whether the target has answered.
    answered: bool,
}

/// Forged hellos of `peer` to `target`. The attack is under way when the peer has told an
/// incarnation, and the target has answered a hello with it.
pub(crate) fn restart(
    local: Ipv4Addr,
    target: SocketAddrV4,
    peer: SocketAddrV4,
) -> anyhow::Result<Step> {
    let socket = UdpSocket::bind((local, 0)).context("no socket for an impostor")?;
    socket.set_nonblocking(true)?;
    let forger = Forger::new()?;
    let (incarnation, epoch, cookie, answered) = (None, 1, None, false);
    let mut impostor =
        Impostor { socket, forger, target, peer, incarnation, epoch, cookie, answered };
    Ok(Box::new(move |counts| {
        impostor.learn(counts);
        if let Some(incarnation) = impostor.incarnation {
            impostor.forge(incarnation, counts);
            impostor.ask(target, incarnation, counts);
        } else {
            impostor.ask(peer, OWN_INCARNATION, counts);
        }
        Ok(impostor.answered)
    }))
}

impl Impostor {
    /// Says hello under its own address.
    fn ask(&self, to: SocketAddrV4, incarnation: u64, counts: &mut Counts) {
        let packet = proposal(incarnation, self.epoch, 0);
        if self.socket.send_to(&packet, to).is_ok() {
            counts.sent(packet.len());
        }
    }

    /// Reads the answers.
    fn learn(&mut self, counts: &mut Counts) {
        let mut bytes = [0; 2048];
        // bound: packets that have arrived, at most as many as the socket holds
        while let Ok((len, from)) = self.socket.recv_from(&mut bytes) {
            counts.received(len);
            let bytes = bytes.get(..len).unwrap_or_default();
            let Ok(packet) = Packet::parse(bytes, ChecksumCoverage::Head, crc32c::crc32c_append)
            else {
                continue;
            };
            let Body::Handshake(body) = packet.body else { continue };
            let epoch = packet.header.dst_cid().bits() as u16;
            if from.ip() == IpAddr::V4(*self.peer.ip()) {
                self.incarnation = Some(body.src_incarnation.get());
                continue;
            }
            self.answered = true;
            if packet.header.kind() == Some(PacketKind::Retry) {
                self.cookie = Some((epoch, body.cookie.get()));
            } else {
                // The target has agreed to a connection. It gives a cookie for the next one.
                self.epoch = after(epoch);
            }
        }
    }

    /// Proposes connections under the peer's address: one with the cookie, others with none.
    fn forge(&mut self, incarnation: u64, counts: &mut Counts) {
        if let Some((epoch, cookie)) = self.cookie.take() {
            let packet = proposal(incarnation, epoch, cookie);
            self.forger.send(self.peer, self.target, &packet, counts);
            self.epoch = after(epoch);
        }
        let mut epoch = self.epoch;
        for _ in 0..STEP_PACKETS {
            self.forger.send(self.peer, self.target, &proposal(incarnation, epoch, 0), counts);
            epoch = after(epoch);
        }
    }
}

/// The next epoch; none is 0.
fn after(epoch: u16) -> u16 {
    epoch.wrapping_add(1).max(1)
}

/// The hello that proposes connection `epoch`. The answer repeats the cid, which is the epoch.
fn proposal(incarnation: u64, epoch: u16, cookie: u64) -> Vec<u8> {
    let cid = PeerId::from_bits(epoch.into());
    let mut body = handshake(incarnation, epoch, cid, Psn(0));
    body.cookie = cookie.into();
    hello(&body, 0)
}
