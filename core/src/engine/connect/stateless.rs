// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets outside of the stream of a connection: handshake, cookie, reset, close
//! (`docs/PROTOCOL.md` §5), answers to probes (§11.1).
//!
//! In: queued packets. Out: sealed packets, before the packets of any connection. They are not
//! retransmitted: a peer that misses one asks again. Bound:
//! [`STATELESS_QUEUE_MAX`] packets wait at a time.

use crate::collections::slab::SlotIndex;
use crate::engine::connect::ConnectionTable;
use crate::engine::connect::packet::{STATELESS_QUEUE_MAX, StatelessPacket};
use crate::engine::ctx::Ctx;
use crate::peer::State;
use crate::wire::{
    HEADER_LEN, Handshake, Header, PacketKind, ProbeBody, ReceiverStatus, Token, seal,
};
use crate::{Destination, PeerAddress, PeerId, Transmit};
use zerocopy::IntoBytes;

impl ConnectionTable<'_> {
    /// Queues a packet; if the queue is full it is dropped, and the peer will ask again.
    pub(crate) fn queue_stateless(&mut self, packet: StatelessPacket) {
        let _ = self.stateless.push_back(packet);
        self.has_stateless = true;
    }

    /// Whether a notice has room beside the answer to the packet that causes it.
    pub(crate) fn has_room_for_notice(&self) -> bool {
        self.stateless.len() + 2 <= STATELESS_QUEUE_MAX
    }

    /// Queues the answer to a probe of `size` bytes. One answer is enough for the probes of a round
    /// that arrive together.
    pub(crate) fn acknowledge_probe(&mut self, of: PeerId, in_round: u16, of_size: u16) {
        if let Some(StatelessPacket::ProbeAck { peer, round, size }) = self.stateless.back_mut()
            && (*peer, *round) == (of, in_round)
        {
            *size = of_size.max(*size);
            return;
        }
        let (peer, round, size) = (of, in_round, of_size);
        self.queue_stateless(StatelessPacket::ProbeAck { peer, round, size });
    }

    /// Whether a packet is queued, or peers are to be notified of the close.
    #[inline(always)]
    pub(crate) const fn has_stateless(&self) -> bool {
        self.has_stateless
    }

    /// Records that a packet was taken out of the queue, or that there was none.
    pub(crate) fn stateless_taken(&mut self) {
        self.has_stateless = !self.stateless.is_empty() || self.closing.is_some();
    }
}

impl Ctx<'_> {
    /// Writes the next queued packet, if there is one.
    pub(crate) fn transmit_stateless(&mut self, packet: &mut [u8]) -> Option<Transmit> {
        // bound: STATELESS_QUEUE_MAX
        while let Some(queued) = self.table.stateless.pop_front() {
            let sent = match queued {
                StatelessPacket::Hello(id) => self.put_hello(id, PacketKind::Hello, packet),
                StatelessPacket::HelloAck(id) => self.put_hello(id, PacketKind::HelloAck, packet),
                StatelessPacket::Retry { to, cid, incarnation, cookie } => {
                    let header = Header::new(PacketKind::Retry, cid, Token(0))
                        .with_sent_at(self.timers.tick().bits());
                    let mut body = self.handshake(&to);
                    body.dst_incarnation = incarnation.into();
                    body.cookie = cookie.into();
                    self.seal_stateless(&header, body.as_bytes(), to, packet)
                }
                StatelessPacket::Reset { to, cid, token, psn, ack } => {
                    let token = Token(token.into());
                    let header = Header::new(PacketKind::Reset, cid, token)
                        .with_psn(psn)
                        .with_received(ack, 0, ReceiverStatus::default())
                        .with_sent_at(self.timers.tick().bits());
                    self.seal_stateless(&header, &[], to, packet)
                }
                StatelessPacket::Close { to, cid, token, psn, msn, errors } => {
                    let mut header = Header::new(PacketKind::Close, cid, token)
                        .with_received(psn, msn, ReceiverStatus::default())
                        .with_sent_at(self.timers.tick().bits());
                    header.err_count = errors;
                    self.seal_stateless(&header, &[], to, packet)
                }
                StatelessPacket::ProbeAck { peer, round, size } => {
                    self.put_probe_ack(peer, (round, size), packet)
                }
            };
            if sent.is_some() {
                return sent;
            }
        }
        None
    }

    /// A handshake body with the facts about this engine that the peer at `to` sees.
    fn handshake(&self, to: &PeerAddress) -> Handshake {
        Handshake {
            src_incarnation: self.incarnation(to).into(),
            dst_incarnation: 0.into(),
            src_cid: PeerId::NONE.bits().into(),
            psn_base: 0.into(),
            receive_max: u16::try_from(self.limits.receive_max).unwrap_or(u16::MAX).into(),
            port_packets: self.limits.port_packets.max(1).into(),
            name_port: self.config.name_port.into(),
            epoch: 0.into(),
            cookie: 0.into(),
        }
    }

    fn put_hello(&self, id: PeerId, kind: PacketKind, packet: &mut [u8]) -> Option<Transmit> {
        let slot = self.table.peer_slot(id)?;
        let peer = &self.table.peers[slot];
        let hello = kind == PacketKind::Hello;
        let proposed = if peer.connection().is_none() {
            0
        } else {
            self.table.connections[peer.connection()].hello().proposed()
        };
        let due = match peer.state() {
            State::HelloSent => hello,
            State::Accepted => !hello || proposed != 0,
            State::Established => !hello,
            State::Closed | State::Removed => false,
        };
        if !due {
            return None;
        }
        // The other side of a connected endpoint may have more connections with this address.
        let is_named = !hello || self.config.named_peers_only;
        let remote = if is_named { peer.remote_cid() } else { PeerId::NONE };
        let token = if hello { Token(0) } else { peer.token() };
        let header = Header::new(kind, remote, token).with_sent_at(self.timers.tick().bits());
        let mut body = self.handshake(&peer.address());
        body.src_cid = id.bits().into();
        body.epoch = if hello { proposed } else { peer.epoch() }.into();
        let (mut base, mut expected, mut cookie) = (peer.next_psn(), peer.expected_psn(), 0);
        if peer.connection().is_some() {
            let state = &self.table.connections[peer.connection()];
            // Nothing before it is missing there; nothing at all, if nothing was received yet.
            (base, expected, cookie) = (
                state.tx().first_psn(),
                state.rx().receive_window().next(),
                state.hello().cookie(),
            );
        }
        body.psn_base = base.0.into();
        body.cookie = if hello { cookie } else { expected.0.into() }.into();
        // Without the slot of its peer, by which the port knows the source port of a connection.
        // The receiver finds a peer without a connection by the endpoint's own port (§13).
        self.seal_stateless(&header, body.as_bytes(), peer.address(), packet)
    }

    fn put_probe_ack(
        &self,
        id: PeerId,
        (round, size): (u16, u16),
        packet: &mut [u8],
    ) -> Option<Transmit> {
        let peer = &self.table.peers[self.table.peer_slot(id)?];
        if !peer.is_established() || peer.connection().is_none() {
            return None;
        }
        let state = &self.table.connections[peer.connection()];
        let (rx, status) = (state.rx(), ReceiverStatus::default());
        let cid = peer.remote_cid();
        let mut header = Header::new(PacketKind::ProbeAck, cid, peer.token())
            .with_received(rx.receive_window().next(), rx.expected_msn().0 as u16, status)
            .with_sent_at(self.timers.tick().bits());
        header.err_count = state.errors().issued();
        let body = ProbeBody { round: round.into(), size: size.into(), reserved: 0.into() };
        let sent = self.seal_stateless(&header, body.as_bytes(), peer.address(), packet)?;
        Some(Transmit { to: Destination { peer: id, ..sent.to }, ..sent })
    }

    fn seal_stateless(
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
