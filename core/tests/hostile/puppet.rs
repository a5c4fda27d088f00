// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer made by hand: it has all the knowledge of a peer, and sends any packet.
//!
//! In: a test's packets, and time. Out: the packets that the engine sends back, parsed, and its
//! completions. Between two calls nothing happens; the clock stands still.

use crate::world::*;
use ofi_xdp_core::wire::{
    self, Ack, Body, Flags, Handshake, Header, Packet, PacketKind, ReceiverStatus, Token,
};
use ofi_xdp_core::*;
use std::time::Duration;
use zerocopy::IntoBytes;

pub use ofi_xdp_test_kit::records::*;

/// The puppet's address; the engine's is `address(0)`.
pub const PUPPET: usize = 1;
/// The address of a good peer.
pub const GOOD: usize = 2;
/// The number of the puppet's first packet, and its identifier of the connection.
pub const BASE: Psn = Psn(u32::MAX - 1);
pub const CID: PeerId = PeerId::from_bits(0x0300_0009);
pub const INCARNATION: u64 = 0x00c0_ffee;
/// Nanoseconds in a tick of the clock on the wire.
pub const TICK: u64 = 64;
pub const MICRO: u64 = 1_000;
pub const MILLI: u64 = 1_000_000;

/// The fields of a header; a test changes those that must be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub kind: PacketKind,
    pub flags: Flags,
    pub cid: PeerId,
    pub token: Token,
    pub psn: Psn,
    pub ack: Psn,
    pub accepted: u16,
    pub receiver_status: ReceiverStatus,
    pub sent_at: u32,
    pub rnr_epoch: u8,
    pub errors: u8,
}

impl Head {
    /// The packet with `body`, sealed.
    pub fn packet(&self, body: &[u8]) -> Vec<u8> {
        let mut header = Header::new(self.kind, self.cid, self.token)
            .with_flags(self.flags)
            .with_received(self.ack, self.accepted, self.receiver_status)
            .with_sent_at(self.sent_at);
        // Other kinds have the upper half of the token in its place.
        if matches!(self.kind, PacketKind::Data | PacketKind::Piece | PacketKind::Reset) {
            header = header.with_psn(self.psn);
        }
        header.rnr_epoch = self.rnr_epoch;
        header.err_count = self.errors;
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(body);
        wire::seal(&mut bytes, crc32c::crc32c_append);
        bytes
    }
}

/// A packet that the engine sent.
#[derive(Clone, Debug)]
pub struct Seen(pub Vec<u8>);

impl Seen {
    pub fn parsed(&self) -> Packet<'_> {
        Packet::parse(&self.0, ChecksumCoverage::Head, crc32c::crc32c_append).unwrap()
    }

    pub fn kind(&self) -> PacketKind {
        self.parsed().header.kind().unwrap()
    }

    pub fn psn(&self) -> Psn {
        self.parsed().header.psn()
    }

    /// The token of a packet other than one with records.
    pub fn token(&self) -> Token {
        let parsed = self.parsed();
        Token(u64::from(parsed.header.psn().0) << 32 | u64::from(parsed.header.token()))
    }

    pub fn has(&self, flag: Flags) -> bool {
        self.parsed().header.flags().contains(flag)
    }

    pub fn is_data(&self) -> bool {
        self.kind() == PacketKind::Data
    }

    pub fn handshake(&self) -> Handshake {
        let packet = self.parsed();
        let Body::Handshake(handshake) = packet.body else { panic!("no handshake: {packet:?}") };
        *handshake
    }

    /// Calls `each` for each record.
    pub fn records(&self, mut each: impl FnMut(wire::Record<'_>)) {
        if let Body::Data(records) = self.parsed().body {
            records.for_each(&mut each);
        }
    }

    pub fn reads(&self) -> Vec<wire::ReadRequestRecord> {
        let mut found = Vec::new();
        self.records(|record| {
            if let wire::Record::ReadRequest(request) = record {
                found.push(request);
            }
        });
        found
    }
}

/// One engine, and its peer.
pub struct Puppet {
    pub world: World,
    /// The fields of each packet of the puppet, unless a test changes them. `head.psn` is the
    /// number of the next data packet.
    pub head: Head,
    /// The engine's incarnation, and the number of its first packet.
    pub incarnation: u64,
    pub first: Psn,
    /// The number of packets that the puppet can receive at once.
    pub port_packets: u16,
    /// The least coverage of its packets' checksums.
    pub coverage: ChecksumCoverage,
}

impl Puppet {
    /// An engine that has received no packet of the puppet.
    pub fn unconnected(config: &Config) -> Self {
        Self::among(1, config)
    }

    /// An engine that has received no packet of the puppet, and a good peer, [`GOOD`].
    pub fn beside_good_peer(config: &Config) -> Self {
        Self::among(GOOD + 1, config)
    }

    fn among(nodes: usize, config: &Config) -> Self {
        let mut world = World::new(nodes, 77, config, Faults::NONE);
        world.link.tap = Some(Vec::new());
        world.link.cut.push(address(PUPPET));
        let head = Head {
            kind: PacketKind::Data,
            flags: Flags::empty(),
            cid: PeerId::NONE,
            token: Token(0),
            psn: BASE,
            ack: Psn(0),
            accepted: 0,
            receiver_status: ReceiverStatus::default(),
            sent_at: 0,
            rnr_epoch: 0,
            errors: 0,
        };
        let coverage = ChecksumCoverage::Whole;
        Self { world, head, incarnation: 0, first: Psn(0), port_packets: 256, coverage }
    }

    /// A connection, made by the puppet, with a round trip of a millisecond.
    pub fn connected(config: &Config) -> Self {
        Self::unconnected(config).connect()
    }

    pub fn connect(mut self) -> Self {
        self.deliver(self.hello(INCARNATION, 1, 0));
        let answer = self.sent().pop().unwrap();
        self.agreed(&answer);
        self.pass(MILLI);
        let head = self.now(PacketKind::Ping);
        self.deliver(head.packet(&[]));
        assert_eq!(self.engine().stats().handshakes, 1);
        self.sent();
        self
    }

    /// Takes over the fields of a `HELLO_ACK`.
    pub fn agreed(&mut self, answer: &Seen) {
        assert_eq!(answer.kind(), PacketKind::HelloAck);
        let body = answer.handshake();
        self.head.cid = PeerId::from_bits(body.src_cid.get());
        self.head.token = answer.token();
        self.incarnation = body.src_incarnation.get();
        self.first = Psn(body.psn_base.get());
        self.head.ack = self.first;
    }

    pub fn engine(&mut self) -> &mut Engine<'static> {
        &mut self.world.nodes[0].engine
    }

    /// The digest of the engine's state.
    pub fn digest(&mut self) -> u64 {
        let now = self.world.time();
        self.engine().digest(now)
    }

    /// The usual header of a packet that is sent now.
    pub fn now(&self, kind: PacketKind) -> Head {
        Head { kind, sent_at: (self.world.now / TICK) as u32, ..self.head }
    }

    /// The time of the newest packet, on the wire's clock: just now, by [`Self::connect`].
    pub fn newest_sent_at(&self) -> u32 {
        (self.world.now / TICK) as u32
    }

    /// The next data packet; it takes a number.
    pub fn data(&mut self, records: &[u8]) -> Vec<u8> {
        let packet = self.now(PacketKind::Data).packet(records);
        self.head.psn = self.head.psn.plus(1);
        packet
    }

    /// An acknowledgment of all packets before `ack` and of those in a bitmap. It echoes no time,
    /// so that no round trip is measured.
    pub fn ack(&self, ack: Psn, sack: &[u64]) -> Vec<u8> {
        self.ack_granting(1, ack, sack)
    }

    /// An acknowledgment of no packet, with the time that it echoes and the time that the puppet
    /// has held it.
    pub fn ack_echoing(&self, echo: u32, hold: u32) -> Vec<u8> {
        let body =
            Ack { echo: echo.into(), hold: hold.into(), received: 1.into(), ..Self::ack_body(1) };
        let head = Head { ack: self.first, psn: Psn(0), ..self.now(PacketKind::Ack) };
        head.packet(body.as_bytes())
    }

    /// What the engine has measured: round trip, the least one, window.
    pub fn path(&mut self) -> (Duration, Duration, u32) {
        let report = self.engine().peer_reports().next().unwrap();
        (report.round_trip, report.round_trip_least, report.congestion_window)
    }

    fn ack_body(credit: u8) -> Ack {
        Ack {
            echo: 0.into(),
            hold: 0.into(),
            wait: 0.into(),
            congestion_marks: 0.into(),
            sack_offset: 0.into(),
            sack_words: 0,
            responder_credit: credit,
            reserved: 0.into(),
            received: 0.into(),
        }
    }

    /// An acknowledgment that also permits `credit` requests.
    pub fn ack_granting(&self, credit: u8, ack: Psn, sack: &[u64]) -> Vec<u8> {
        let body = Ack { sack_words: sack.len() as u8, ..Self::ack_body(credit) };
        let mut bytes = body.as_bytes().to_vec();
        sack.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        Head { ack, ..self.now(PacketKind::Ack) }.packet(&bytes)
    }

    /// A handshake body of the puppet.
    pub fn handshake(&self, incarnation: u64, epoch: u16, cookie: u64) -> Handshake {
        Handshake {
            port_packets: self.port_packets.into(),
            cookie: cookie.into(),
            ..handshake(incarnation, epoch, CID, self.head.psn)
        }
    }

    pub fn hello(&self, incarnation: u64, epoch: u16, cookie: u64) -> Vec<u8> {
        let body = self.handshake(incarnation, epoch, cookie);
        let head = Head { cid: PeerId::NONE, token: Token(0), ..self.now(PacketKind::Hello) };
        head.packet(body.as_bytes())
    }

    /// A `RETRY` of the puppet as `incarnation`, in answer to a hello of the engine.
    pub fn retry(&self, incarnation: u64, epoch: u16, cookie: u64) -> Vec<u8> {
        let body = Handshake {
            dst_incarnation: self.incarnation.into(),
            ..self.handshake(incarnation, epoch, cookie)
        };
        self.now(PacketKind::Retry).packet(body.as_bytes())
    }

    /// A `HELLO_ACK` of the puppet as `incarnation`, which repeats the engine's first number.
    pub fn agreement(&self, incarnation: u64, epoch: u16, echo: Psn) -> Vec<u8> {
        let body = self.handshake(incarnation, epoch, echo.0.into());
        let token = Token::new(incarnation, self.incarnation, epoch);
        let head = Head { token, ..self.now(PacketKind::HelloAck) };
        head.packet(body.as_bytes())
    }

    /// The cookie that the engine gives to a hello.
    pub fn cookie(&mut self, incarnation: u64, epoch: u16) -> u64 {
        self.sent();
        self.deliver(self.hello(incarnation, epoch, 0));
        let retry = self.sent().pop().unwrap();
        assert_eq!(retry.kind(), PacketKind::Retry);
        retry.handshake().cookie.get()
    }

    pub fn reset(&self, token: Token, psn: Psn) -> Vec<u8> {
        let head = Head { cid: PeerId::NONE, token, psn, ..self.now(PacketKind::Reset) };
        Head { ack: self.head.psn, ..head }.packet(&[])
    }

    /// Gives the engine a packet of the puppet, without a further step.
    pub fn ingest(&mut self, bytes: &[u8]) {
        self.ingest_from(PUPPET, bytes);
    }

    pub fn ingest_from(&mut self, node: usize, bytes: &[u8]) {
        self.ingest_at(address(node), bytes);
    }

    pub fn ingest_at(&mut self, from: PeerAddress, bytes: &[u8]) {
        let now = self.world.time();
        let Node { engine, memory, .. } = &mut self.world.nodes[0];
        let datagram = Datagram {
            coverage: self.coverage,
            from,
            bytes,
            congestion_experienced: false,
            wanted: WantedPort::KEEP,
            to_group: false,
        };
        engine.ingest(now, datagram, memory);
    }

    /// Gives the engine a packet, and lets it react at once.
    pub fn deliver(&mut self, bytes: Vec<u8>) {
        self.ingest(&bytes);
        self.drive();
    }

    pub fn drive(&mut self) {
        self.world.drive(0, Budget::PROGRESS);
        self.world.audit();
    }

    /// Checks that the engine refuses a packet for `reason`, and that the packet leaves no trace.
    pub fn refused(&mut self, bytes: &[u8], reason: DropReason) {
        self.refused_from(PUPPET, bytes, reason);
    }

    pub fn refused_from(&mut self, node: usize, bytes: &[u8], reason: DropReason) {
        let now = self.world.time();
        let engine = self.engine();
        let before = (engine.digest(now), engine.stats().dropped(reason) + 1);
        self.ingest_from(node, bytes);
        let engine = self.engine();
        let after = (engine.digest(now), engine.stats().dropped(reason));
        assert_eq!(after, before, "state and count after a packet to be refused: {reason}");
    }

    /// Lets time pass, from timer to timer.
    pub fn pass(&mut self, nanos: u64) {
        let end = self.world.now + nanos;
        while self.world.now < end {
            let timer = self.engine().poll_at().map_or(end, Instant::as_nanos);
            self.world.now = timer.clamp(self.world.now + 1, end);
            self.drive();
        }
    }

    /// The packets that the engine has sent since the last call.
    pub fn sent(&mut self) -> Vec<Seen> {
        let tap = self.world.link.tap.as_mut().unwrap();
        std::mem::take(tap).into_iter().map(|(_, _, bytes)| Seen(bytes)).collect()
    }

    /// The data packets among [`Self::sent`].
    pub fn sent_data(&mut self) -> Vec<Seen> {
        self.sent().into_iter().filter(Seen::is_data).collect()
    }

    /// Posts a message to the puppet, and lets it go out.
    pub fn send(&mut self, context: u64, bytes: Vec<u8>) {
        self.world.send(0, PUPPET, context, bytes);
        self.drive();
    }

    /// The ends of operations and receives since the last call.
    pub fn ends(&mut self) -> Vec<(u64, Result<(), OpError>)> {
        self.world.completions(0).iter().map(|c| (c.context.0, c.outcome)).collect()
    }
}
