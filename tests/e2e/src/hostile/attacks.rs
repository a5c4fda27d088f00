// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attacks: those of unknown sources, which forge addresses and know no secret, and those of
//! peers that lie.
//!
//! In: the addresses. Out: a step, which is called every few milliseconds and says whether the
//! attack is under way. Each step is bounded by the constants here: an attacker keeps its own rate
//! low. So the losses of a good peer come from the target and not from a lack of processor time.

use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::Context;
use clap::ValueEnum;
use ofi_xdp_core::wire::{Ack, Flags, PacketKind, Token};
use ofi_xdp_core::{PeerId, Psn};
use ofi_xdp_test_kit::records::{handshake, segment, tagged, tagged_announcement, tagged_segment};
use ofi_xdp_test_kit::rng::Rng;
use zerocopy::{FromZeros, IntoBytes};

use crate::forged::Forger;
use crate::liar::Liar;
use crate::liars::{crowd, readable};
use crate::packets::{Head, hello};
use crate::requests::requests;
use crate::restart::restart;

/// Packets of a step: 4,000 a second at most.
pub(crate) const STEP_PACKETS: u32 = 8;
/// Connections of one attacker: nearly all of an endpoint; a process may open 1,024 files.
const CONNECTIONS: usize = 1_000;
/// Connections that are opened in a step.
const STEP_CONNECTIONS: usize = 16;
/// Messages that no receive matches: as many as the storage of an endpoint has slots.
const UNMATCHED: u32 = 6_800;
/// Messages in one packet.
const COALESCED: u32 = 40;
/// Segments of messages that never grow: as many as an endpoint has assemblies.
const SEGMENTS: u32 = 1_024;
/// Liars with a long message each: more than an endpoint has slots for reads of such messages.
const PULLS: u64 = 40;
/// Length of a message that is announced: several reads.
const PULL_LEN: u64 = 1 << 20;
/// Liars with a message of which one half comes twice.
const HALVES: u64 = 8;
/// Bytes in a half of a message.
const HALF_LEN: usize = 100;
/// The tag of the receives of the echo (`misbehave echo`).
const WANTED: u64 = 7;
/// A tag that no receive of the tests matches.
const UNWANTED: u64 = 0xbad;
/// The first number of an out-of-order message: the ones before it never come.
const AHEAD: u32 = 2;

/// An attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Attack {
    /// Packets of every kind, from the address of the target's peer, with guessed secrets
    Blind,
    /// Hellos from ever new ports of the attacker's host
    Hellos,
    /// An address that has proven nothing asks for answers of any kind
    Amplify,
    /// Connections with a packet that never comes; they answer pings
    Holes,
    /// Messages of which one byte of two comes
    Segments,
    /// Messages with a tag that no receive wants
    Unmatched,
    /// Packets of messages that may not be matched yet
    OutOfOrder,
    /// Hellos of the next connection of the target's peer, from its address, with all secrets that
    /// the target and the peer disclose
    Restart,
    /// Long messages that are announced; the requests for their bytes are acknowledged only
    Pulls,
    /// Messages of which the first half comes twice, and the second one never
    Halves,
    /// Packets of connection management from forged addresses
    Requests,
}

/// The packets of an attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received: u64,
    pub(crate) received_bytes: u64,
}

impl Counts {
    pub(crate) fn sent(&mut self, len: usize) {
        self.sent += 1;
        self.sent_bytes += len as u64;
    }

    pub(crate) fn received(&mut self, len: usize) {
        self.received += 1;
        self.received_bytes += len as u64;
    }
}

/// One step of an attack; returns whether the attack is under way.
pub(crate) type Step = Box<dyn FnMut(&mut Counts) -> anyhow::Result<bool>>;

impl Attack {
    /// Opens the sockets.
    pub(crate) fn prepare(
        self,
        local: Ipv4Addr,
        target: SocketAddrV4,
        peer: Option<SocketAddrV4>,
    ) -> anyhow::Result<Step> {
        Ok(match self {
            Self::Blind => blind(target, peer.context("a blind attack needs --peer")?)?,
            Self::Hellos => hellos(local, target)?,
            Self::Amplify => amplify(local, target)?,
            Self::Holes => holes(local, target),
            Self::Segments => lie(local, target, SEGMENTS, |liar, number, counts| {
                liar.data(&segment(number, 2, 0, &[1]), counts);
            })?,
            Self::Unmatched => {
                lie(local, target, UNMATCHED / COALESCED, |liar, number, counts| {
                    liar.data(&messages(number * COALESCED), counts);
                })?
            }
            Self::OutOfOrder => lie(local, target, u32::MAX, |liar, _, counts| {
                liar.data(&messages(AHEAD), counts);
            })?,
            Self::Restart => {
                restart(local, target, peer.context("a forged restart needs --peer")?)?
            }
            Self::Requests => requests(target)?,
            Self::Pulls => crowd(local, target, PULLS, |liar, counts| {
                liar.data(&tagged_announcement(0, WANTED, PULL_LEN, 1), counts);
            })?,
            Self::Halves => crowd(local, target, HALVES, |liar, counts| {
                for _ in 0..2 {
                    let total = 2 * HALF_LEN as u64;
                    let half = tagged_segment(0, WANTED, total, 0, &[0xff; HALF_LEN]);
                    liar.data(&half, counts);
                }
            })?,
        })
    }
}

/// The records of [`COALESCED`] empty messages that no receive matches, from number `first` on.
fn messages(first: u32) -> Vec<u8> {
    (first..first + COALESCED).flat_map(|number| tagged(number, UNWANTED)).collect()
}

/// A packet of any kind, without a secret in it.
fn guess(rng: &mut Rng) -> Vec<u8> {
    const KINDS: [PacketKind; 8] = [
        PacketKind::Hello,
        PacketKind::HelloAck,
        PacketKind::Retry,
        PacketKind::Data,
        PacketKind::Ack,
        PacketKind::Reset,
        PacketKind::Ping,
        PacketKind::Close,
    ];
    let kind = KINDS[rng.next() as usize % KINDS.len()];
    let head = Head {
        kind,
        flags: Flags::empty(),
        // Slots are few: some guesses name a connection that exists.
        cid: PeerId::from_bits(rng.next() as u32),
        token: Token(rng.next()),
        psn: Psn(rng.next() as u32),
        ack: Psn(rng.next() as u32),
        sent_at: rng.next() as u32,
    };
    match kind {
        PacketKind::Hello | PacketKind::HelloAck | PacketKind::Retry => {
            let mut body = handshake(rng.next(), rng.next() as u16 | 1, head.cid, head.psn);
            body.cookie = rng.next().into();
            let cid = if kind == PacketKind::Hello { PeerId::NONE } else { head.cid };
            Head { cid, ..head }.packet(body.as_bytes())
        }
        PacketKind::Data => head.packet(&tagged(0, UNWANTED)),
        PacketKind::Ack => {
            let mut body = Ack::new_zeroed();
            body.responder_credit = 1;
            head.packet(body.as_bytes())
        }
        _ => head.packet(&[]),
    }
}

fn blind(target: SocketAddrV4, peer: SocketAddrV4) -> anyhow::Result<Step> {
    let (forger, mut rng) = (Forger::new()?, Rng::new(1, "attack"));
    Ok(Box::new(move |counts| {
        for _ in 0..STEP_PACKETS {
            forger.send(peer, target, &guess(&mut rng), counts);
        }
        Ok(true)
    }))
}

fn hellos(local: Ipv4Addr, target: SocketAddrV4) -> anyhow::Result<Step> {
    let (forger, mut rng, mut port) = (Forger::new()?, Rng::new(2, "attack"), 1_024_u16);
    Ok(Box::new(move |counts| {
        for _ in 0..STEP_PACKETS {
            let body = handshake(rng.next() | 1, 1, PeerId::from_bits(port.into()), Psn(0));
            forger.send(SocketAddrV4::new(local, port), target, &hello(&body, 0), counts);
            port = port.checked_add(1).unwrap_or(1_024);
        }
        Ok(true)
    }))
}

fn amplify(local: Ipv4Addr, target: SocketAddrV4) -> anyhow::Result<Step> {
    let socket = std::net::UdpSocket::bind((local, 0))?;
    socket.set_nonblocking(true)?;
    let mut rng = Rng::new(3, "attack");
    Ok(Box::new(move |counts| {
        for _ in 0..STEP_PACKETS {
            let packet = guess(&mut rng);
            if socket.send_to(&packet, target).is_ok() {
                counts.sent(packet.len());
            }
        }
        let mut bytes = [0; 2048];
        // bound: packets that have arrived, at most as many as the socket holds
        while let Ok((len, _)) = socket.recv_from(&mut bytes) {
            counts.received(len);
        }
        Ok(true)
    }))
}

fn holes(local: Ipv4Addr, target: SocketAddrV4) -> Step {
    let mut liars: Vec<Liar> = Vec::new();
    Box::new(move |counts| {
        for _ in 0..STEP_CONNECTIONS.min(CONNECTIONS - liars.len()) {
            let liar = Liar::new(local, target, liars.len() as u64 + 1)?;
            liar.hello(counts);
            liars.push(liar);
        }
        for index in readable(&liars)? {
            let Some(liar) = liars.get_mut(index) else { continue };
            let before = liar.is_connected();
            liar.answer(counts)?;
            if !before && liar.is_connected() {
                liar.skip();
                liar.data(&tagged(0, UNWANTED), counts);
            }
        }
        Ok(liars.len() == CONNECTIONS)
    })
}

/// A liar with one connection, which sends a packet `count` times and answers pings for ever.
fn lie(
    local: Ipv4Addr,
    target: SocketAddrV4,
    count: u32,
    send: fn(&mut Liar, u32, &mut Counts),
) -> anyhow::Result<Step> {
    let mut liar = Liar::new(local, target, 7)?;
    let (mut number, mut step) = (0, 0_u32);
    Ok(Box::new(move |counts| {
        liar.answer(counts)?;
        if !liar.is_connected() {
            // One hello in 100 ms.
            if step.is_multiple_of(50) {
                liar.hello(counts);
            }
            step += 1;
            return Ok(false);
        }
        for _ in 0..STEP_PACKETS.min(count - number) {
            send(&mut liar, number, counts);
            number += 1;
        }
        // An attack without an end is under way from its first packet on.
        Ok(number == count || count == u32::MAX)
    }))
}

#[cfg(test)]
mod tests {
    use ofi_xdp_core::ChecksumCoverage;
    use ofi_xdp_core::wire::HEADER_LEN;

    use super::*;

    #[test]
    fn guesses_are_sound_packets() {
        let mut rng = Rng::new(9, "attack");
        for _ in 0..1000 {
            let packet = guess(&mut rng);
            assert!(packet.len() >= HEADER_LEN, "{packet:?}");
            let parsed = ofi_xdp_core::wire::Packet::parse(
                &packet,
                ChecksumCoverage::Head,
                crc32c::crc32c_append,
            );
            assert!(parsed.is_ok(), "{parsed:?}");
        }
    }

    #[test]
    fn coalesced_messages_fit_a_packet() {
        assert!(HEADER_LEN + messages(0).len() <= 1472);
    }
}
