// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other side of a network, without engines: peers that receive messages and acknowledge them.
//!
//! In: packets of the one engine, by its port. Out: the packets that engines would answer with, and
//! their times of arrival. A peer here is 32 bytes. Ten thousand engines in this process would take
//! the caches from the measured one, which no other host does. The measured engine sees exactly the
//! packets of the network. Therefore the packets are real: each is parsed and compared with the
//! expected one, each answer is sealed. Acknowledgments are sent when an engine would send them
//! (`docs/PROTOCOL.md` §4.3). A packet that asks for it, or is the 16th, is acknowledged at once.
//! All others share one acknowledgment after 10 µs.

use std::collections::VecDeque;

use anyhow::{Context as _, Result, ensure};
use ofi_xdp_core::wire::{
    Ack, Body, Flags, Header, Packet, PacketKind, ReceiverStatus, Record, Token, seal,
};
use ofi_xdp_core::{
    ChecksumCoverage, Datagram, Instant, PeerId, Port, PortError, PortLimits, Psn, Transmit,
    Transmitted, WantedPort,
};
use ofi_xdp_test_kit::packet::{address, node_of};
use ofi_xdp_test_kit::queue::limits;
use ofi_xdp_test_kit::records::handshake;
use ofi_xdp_test_kit::ring::PAYLOAD_MAX;
use zerocopy::IntoBytes as _;

/// A peer acknowledges so long after a packet, or after so many packets.
const ACK_DELAY_NANOS: u64 = 10_000;
const ACK_EVERY_PACKETS: u32 = 16;
/// A tick of the clock on the wire.
const TICK_NANOS: u64 = 64;
/// The number of every peer's first packet.
const BASE: Psn = Psn(1);

/// A packet buffer. Buffers are used in turn, so a measurement allocates nothing.
type Buffer = Box<[u8; PAYLOAD_MAX]>;

/// A packet under way.
#[derive(Debug)]
struct Flight {
    /// When it was sent, or when it arrives.
    at: u64,
    /// Which peer's it is.
    peer: usize,
    len: usize,
    bytes: Buffer,
}

/// The one engine's end of the network.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    now: u64,
    to_peers: VecDeque<Flight>,
    to_one: VecDeque<Flight>,
    free: Vec<Buffer>,
}

impl Wire {
    /// Moves time on: packets that have arrived by then can be received.
    pub(crate) fn set_time(&mut self, now: u64) {
        self.now = now;
    }

    fn buffer(&mut self) -> Buffer {
        self.free.pop().unwrap_or_else(|| Box::new([0; PAYLOAD_MAX]))
    }
}

impl Port for Wire {
    fn receive(
        &mut self,
        _now: Instant,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> Result<u16, PortError> {
        let mut count = 0;
        while count < budget
            && let Some(packet) = self.to_one.pop_front_if(|packet| packet.at <= self.now)
        {
            let bytes = &packet.bytes[..packet.len];
            sink(Datagram {
                coverage: ChecksumCoverage::Whole,
                to_group: false,
                from: address(packet.peer as u32),
                bytes,
                congestion_experienced: false,
                wanted: WantedPort::KEEP,
            });
            self.free.push(packet.bytes);
            count += 1;
        }
        Ok(count)
    }

    fn transmit(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Result<Transmitted, PortError> {
        let mut bytes = self.buffer();
        match fill(&mut bytes[..]) {
            Some(Transmit { len, to, .. }) => {
                let (at, peer) = (self.now, node_of(&to.address) as usize);
                self.to_peers.push_back(Flight { at, peer, len, bytes });
                Ok(Transmitted::Sent)
            }
            None => {
                self.free.push(bytes);
                Ok(Transmitted::Nothing)
            }
        }
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn limits(&self) -> PortLimits {
        limits(PAYLOAD_MAX)
    }
}

/// A peer's state of its connection with the one engine.
#[derive(Clone, Copy, Debug)]
struct Peer {
    /// The one engine's name for it.
    cid: PeerId,
    token: Token,
    /// The next packet and message.
    psn: Psn,
    msn: u32,
    received: u32,
    /// The time in the newest packet, and when that arrived, in ticks.
    sent_at: u32,
    arrived: u32,
    /// Packets that are not acknowledged.
    owed: u32,
}

impl Peer {
    /// One without a connection.
    const UNKNOWN: Self = Self {
        cid: PeerId::NONE,
        token: Token(0),
        psn: Psn(0),
        msn: 0,
        received: 0,
        sent_at: 0,
        arrived: 0,
        owed: 0,
    };
}

/// A packet that a peer must acknowledge, and the time at which that is due, if no earlier
/// acknowledgment covers it.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: u64,
    peer: usize,
    /// It is the peer's packet of this number, by arrival.
    received: u32,
}

/// All peers, and the network before them.
#[derive(Debug)]
pub(crate) struct Remote {
    peers: Vec<Peer>,
    /// How long a packet travels.
    delay: u64,
    /// Acknowledgments that are owed, in the order of time.
    due: VecDeque<Due>,
}

impl Remote {
    /// `count` peers, from which a packet takes `delay` nanoseconds.
    pub(crate) fn new(count: usize, delay: u64) -> Self {
        Self { peers: vec![Peer::UNKNOWN; count], delay, due: VecDeque::new() }
    }

    /// A peer says hello.
    pub(crate) fn hello(&self, peer: usize, wire: &mut Wire) {
        let header = Header::new(PacketKind::Hello, PeerId::NONE, Token(0));
        let body = handshake(peer as u64 + 1, 1, PeerId::from_bits(peer as u32), BASE);
        self.send(peer, wire.now, header, body.as_bytes(), wire);
    }

    /// Processes the packets of the one engine, and answers them. Afterwards all packets that
    /// arrive within the delay of the path are in flight.
    pub(crate) fn serve(&mut self, wire: &mut Wire) -> Result<()> {
        // bound: packets under way
        while let Some(packet) = wire.to_peers.pop_front() {
            let at = packet.at + self.delay;
            self.acknowledge_until(at, wire);
            let (peer, bytes) = (packet.peer, &packet.bytes[..packet.len]);
            self.ingest(peer, at, bytes, wire).with_context(|| format!("at peer {peer}"))?;
            wire.free.push(packet.bytes);
        }
        self.acknowledge_until(wire.now + self.delay, wire);
        Ok(())
    }

    fn ingest(&mut self, number: usize, at: u64, bytes: &[u8], wire: &mut Wire) -> Result<()> {
        let packet = Packet::parse(bytes, ChecksumCoverage::Head, ofi_xdp_checksum::crc32c);
        let Packet { header, body } = packet.ok().context("a packet that is not sound")?;
        let peer = self.peers.get_mut(number).context("no such peer")?;
        match body {
            Body::Handshake(agreed) => {
                peer.cid = PeerId::from_bits(agreed.src_cid.get());
                peer.token = Token(u64::from(header.psn().0) << 32 | u64::from(header.token()));
                peer.psn = Psn(agreed.psn_base.get());
                let ping = Header::new(PacketKind::Ping, peer.cid, peer.token);
                let ping = ping.with_received(peer.psn, 0, ReceiverStatus::default());
                self.send(number, at, ping, &[], wire);
            }
            Body::Data(records) => {
                ensure!(header.psn() == peer.psn, "packet {:?} out of turn", header.psn());
                for record in records {
                    let Record::Message(message) = record else { anyhow::bail!("{record:?}") };
                    ensure!(message.envelope.msn.0 == peer.msn, "a message out of turn");
                    peer.msn += 1;
                }
                peer.psn = peer.psn.plus(1);
                peer.received += 1;
                (peer.sent_at, peer.arrived) = (header.sent_at(), (at / TICK_NANOS) as u32);
                peer.owed += 1;
                let at_once = header.flags().contains(Flags::ACK_REQUEST);
                if at_once || peer.owed == ACK_EVERY_PACKETS {
                    self.acknowledge(number, at, wire);
                } else if peer.owed == 1 {
                    let (at, received) = (at + ACK_DELAY_NANOS, peer.received);
                    self.due.push_back(Due { at, peer: number, received });
                }
            }
            // It has heard the question that the handshake ends with.
            Body::Ack(..) => {}
            other => anyhow::bail!("{other:?}"),
        }
        Ok(())
    }

    /// Sends the acknowledgments that are due.
    fn acknowledge_until(&mut self, end: u64, wire: &mut Wire) {
        // bound: peers that owe an acknowledgment
        while let Some(due) = self.due.pop_front_if(|due| due.at <= end) {
            let Peer { received, owed, .. } = self.peers[due.peer];
            if owed > 0 && received - owed + 1 == due.received {
                self.acknowledge(due.peer, due.at, wire);
            }
        }
    }

    fn acknowledge(&mut self, number: usize, at: u64, wire: &mut Wire) {
        let peer = &mut self.peers[number];
        peer.owed = 0;
        let header = Header::new(PacketKind::Ack, peer.cid, peer.token)
            .with_received(peer.psn, peer.msn as u16, ReceiverStatus::default())
            .with_sent_at((at / TICK_NANOS) as u32);
        let body = Ack {
            echo: peer.sent_at.into(),
            hold: ((at / TICK_NANOS) as u32 - peer.arrived).into(),
            wait: 0.into(),
            congestion_marks: 0.into(),
            sack_offset: 0.into(),
            sack_words: 0,
            responder_credit: 1,
            reserved: 0.into(),
            received: peer.received.into(),
        };
        self.send(number, at, header, body.as_bytes(), wire);
    }

    /// Sends a packet of a peer at this time.
    fn send(&self, peer: usize, at: u64, header: Header, body: &[u8], wire: &mut Wire) {
        let mut bytes = wire.buffer();
        let (head, rest) = bytes.split_at_mut(size_of::<Header>());
        head.copy_from_slice(header.as_bytes());
        rest[..body.len()].copy_from_slice(body);
        let len = head.len() + body.len();
        seal(&mut bytes[..len], ofi_xdp_checksum::crc32c);
        wire.to_one.push_back(Flight { at: at + self.delay, peer, len, bytes });
    }
}
