// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets outside the stream of a connection: handshake, cookie, reset (`docs/PROTOCOL.md` §5).
//!
//! In: answers that the handshake asks for. Out: sealed packets, before any peer's turn. They are
//! not retransmitted: whoever misses one asks again. Bound: [`ANSWERS_MAX`] wait at a time.

use super::Engine;
use crate::peer::{Peer, State};
use crate::serial::Psn;
use crate::slab::NIL;
use crate::time::Tick;
use crate::wire::{HEADER_LEN, Handshake, Header, PacketKind, Pressure, ResetBody, seal};
use crate::{Destination, Instant, PeerAddress, PeerId, Transmit};
use zerocopy::IntoBytes;

/// Answers that can wait to be sent.
pub(super) const ANSWERS_MAX: usize = 32;

/// A packet to be sent that needs no more state than this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// A handshake packet of our own connection.
    Hello(PeerId),
    /// Agreement to the peer's.
    HelloAck(PeerId),
    /// "Prove that you are there": to the sender of a hello, who calls itself `cid` and
    /// `incarnation`.
    Retry { to: PeerAddress, cid: PeerId, incarnation: u64, cookie: u64 },
    /// "I know no such connection", to the sender of a packet with this token and number.
    Reset { to: PeerAddress, token: u32, psn: Psn },
    /// "This connection ends here", with what was received and what went wrong.
    Close { to: PeerAddress, cid: PeerId, token: u32, psn: Psn, msn: u16, errors: u8 },
}

impl Answer {
    /// The farewell to a peer whose numbers are up to date.
    pub(super) fn close(peer: &Peer) -> Self {
        Self::Close {
            to: peer.address,
            cid: PeerId::from_bits(peer.remote_cid),
            token: peer.token,
            psn: peer.expected_psn,
            msn: peer.expected_msn.0 as u16,
            errors: peer.errors_issued,
        }
    }
}

impl Engine<'_> {
    /// Queues an answer; where the queue is full it is dropped, and the peer will ask again.
    pub(super) fn answer(&mut self, answer: Answer) {
        let _ = self.answers.push_back(answer);
    }

    /// Whether [`Self::transmit_answer`] may have something to write.
    #[inline]
    pub(super) fn has_answer(&self) -> bool {
        !self.answers.is_empty() || self.closing.is_some()
    }

    /// Writes the next queued answer, if there is one.
    pub(super) fn transmit_answer(&mut self, now: Instant, packet: &mut [u8]) -> Option<Transmit> {
        // bound: ANSWERS_MAX
        while let Some(answer) = self.answers.pop_front() {
            let sent = match answer {
                Answer::Hello(id) => self.put_hello(id, PacketKind::Hello, now, packet),
                Answer::HelloAck(id) => self.put_hello(id, PacketKind::HelloAck, now, packet),
                Answer::Retry { to, cid, incarnation, cookie } => {
                    let header =
                        Header::new(PacketKind::Retry, cid, 0).with_sent_at(Tick::of(now).bits());
                    let mut body = self.handshake();
                    body.dst_incarnation = incarnation.into();
                    body.cookie = cookie.into();
                    self.put_answer(&header, body.as_bytes(), to, packet)
                }
                Answer::Reset { to, token, psn } => {
                    let header = Header::new(PacketKind::Reset, PeerId::NONE, token)
                        .with_psn(psn)
                        .with_sent_at(Tick::of(now).bits());
                    let body = ResetBody { src_incarnation: self.identity.incarnation.into() };
                    self.put_answer(&header, body.as_bytes(), to, packet)
                }
                Answer::Close { to, cid, token, psn, msn, errors } => {
                    let mut header = Header::new(PacketKind::Close, cid, token)
                        .with_received(psn, msn, Pressure::default())
                        .with_sent_at(Tick::of(now).bits());
                    header.err_count = errors;
                    self.put_answer(&header, &[], to, packet)
                }
            };
            if sent.is_some() {
                return sent;
            }
        }
        self.transmit_close(now, packet)
    }

    /// A handshake body that tells only who this engine is.
    fn handshake(&self) -> Handshake {
        Handshake {
            src_incarnation: self.identity.incarnation.into(),
            dst_incarnation: 0.into(),
            src_cid: PeerId::NONE.bits().into(),
            psn_base: 0.into(),
            receive_max: u16::try_from(self.limits.receive_max).unwrap_or(u16::MAX).into(),
            window: self.limits.window_packets.max(1).into(),
            features: 0.into(),
            epoch: 0.into(),
            cookie: 0.into(),
        }
    }

    fn put_hello(
        &self,
        id: PeerId,
        kind: PacketKind,
        now: Instant,
        packet: &mut [u8],
    ) -> Option<Transmit> {
        let number = self.peer_number(id)?;
        let peer = &self.peers[number];
        let hello = kind == PacketKind::Hello;
        let proposed = if peer.active == NIL { 0 } else { self.actives[peer.active].proposed };
        let due = match peer.state {
            State::HelloSent => hello,
            State::Accepted => !hello || proposed != 0,
            State::Established => !hello,
            State::Closed | State::Removed => false,
        };
        if !due {
            return None;
        }
        let remote = if hello { PeerId::NONE } else { PeerId::from_bits(peer.remote_cid) };
        let token = if hello { 0 } else { peer.token };
        let header = Header::new(kind, remote, token).with_sent_at(Tick::of(now).bits());
        let mut body = self.handshake();
        body.src_cid = id.bits().into();
        body.epoch = if hello { proposed } else { peer.epoch }.into();
        let (mut base, mut expected, mut cookie) = (peer.next_psn, peer.expected_psn, 0);
        if peer.active != NIL {
            let state = &self.actives[peer.active];
            // Nothing before it is missing there; and all of it, where nothing was received yet.
            (base, expected, cookie) = (state.first_psn, state.window.next(), state.cookie);
        }
        body.psn_base = base.0.into();
        body.cookie = if hello { cookie } else { expected.0.into() }.into();
        if !hello {
            body.dst_incarnation = peer.remote_incarnation.into();
        }
        let sent = self.put_answer(&header, body.as_bytes(), peer.address, packet)?;
        Some(Transmit { to: Destination { peer: id, ..sent.to }, ..sent })
    }

    pub(super) fn put_answer(
        &self,
        header: &Header,
        body: &[u8],
        to: PeerAddress,
        packet: &mut [u8],
    ) -> Option<Transmit> {
        let len = HEADER_LEN + body.len();
        let packet = packet.get_mut(..len)?;
        let (head, rest) = packet.split_at_mut_checked(HEADER_LEN)?;
        head.copy_from_slice(header.as_bytes());
        rest.copy_from_slice(body);
        seal(packet, self.config.checksum);
        let to = Destination { peer: PeerId::NONE, address: to };
        Some(Transmit { len, to, receive_max: u16::MAX })
    }
}
