// SPDX-License-Identifier: MIT OR Apache-2.0
//! One engine, and a peer made by hand that sends any packet.
//!
//! In: packets and receives of a case. Out: the state of the engine. Caller: `worst.rs`, which
//! measures one call. Bound: the packets of the case.

use anyhow::{Context as _, Result, ensure};
use ofi_xdp_core::wire::{self, Ack, Body, Handshake, Header, Packet, PacketKind, Token};
use ofi_xdp_core::{
    Access, ChecksumCoverage, Common, Config, Context, Datagram, DropReason, Engine, Identity,
    Instant, Peek, PeerAddress, PeerId, Psn, RecvRequest, RegionRequest, Remote, SendRequest,
    StorageBox, TagMatch, WantedPort, WriteRequest,
};
use ofi_xdp_test_kit::counted::{Arena, Buffer, Nowhere};
use ofi_xdp_test_kit::queue::limits;
use ofi_xdp_test_kit::records::{PACKET_MAX, handshake};
use zerocopy::IntoBytes as _;

/// Bytes of application memory; all receives have the same.
const ARENA_LEN: usize = 4096;
/// The first packet of the puppet, and its name for the connection.
const BASE: Psn = Psn(1000);
const CID: PeerId = PeerId::from_bits(9);
/// The largest packet that the puppet receives: short ones, because a case may take many.
const RECEIVE_MAX: u16 = 256;
/// A round trip, in nanoseconds.
pub(crate) const ROUND_TRIP: u64 = 1_000_000;
/// The target of the engine's writes.
const SOMEWHERE: Remote = Remote { key: 1, address: 0 };

/// See the module.
#[derive(Debug)]
pub(crate) struct Puppet {
    engine: Engine<'static>,
    memory: Arena,
    now: Instant,
    cid: PeerId,
    token: Token,
    ack: Psn,
    /// Errors that the puppet has issued.
    pub(crate) errors: u8,
    /// The number of the next packet.
    pub(crate) psn: Psn,
    /// The engine's name for the puppet.
    pub(crate) peer: PeerId,
}

fn address() -> PeerAddress {
    PeerAddress::from_v4([198, 18, 0, 2], 7000)
}

impl Puppet {
    /// A connection with a peer, which the application has named or not.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub(crate) fn new(config: &Config, is_named: bool) -> Result<Self> {
        // A process measures once: its storage lives as long as it does.
        let storage = Box::leak(Box::new(StorageBox::new(config)?)).lend();
        let identity = Identity { key: 7 };
        let mut engine = Engine::new(config, storage, identity, limits(PACKET_MAX.into()))?;
        let peer = if is_named { engine.insert_peer(address())? } else { PeerId::NONE };
        let mut puppet = Self {
            engine,
            memory: Arena::new(ARENA_LEN, config),
            now: Instant::from_nanos(1 << 30),
            cid: PeerId::NONE,
            token: Token(0),
            ack: Psn(0),
            errors: 0,
            psn: BASE,
            peer,
        };
        let body = Handshake {
            receive_max: RECEIVE_MAX.into(),
            port_packets: u16::MAX.into(),
            ..handshake(0xc0_ffee, 1, CID, BASE)
        };
        let hello = puppet.sealed(PacketKind::Hello, body.as_bytes());
        puppet.ingest(&hello);
        let mut packet = [0; PACKET_MAX as usize];
        let Self { engine, memory, now, .. } = &mut puppet;
        let sent = engine.burst(*now).transmit(&mut packet, memory).context("no answer")?;
        let answer = packet.get(..sent.len).context("a packet")?;
        let parsed = Packet::parse(answer, ChecksumCoverage::Head, ofi_xdp_checksum::crc32c)?;
        let Body::Handshake(body) = parsed.body else { anyhow::bail!("no handshake: {parsed:?}") };
        puppet.cid = PeerId::from_bits(body.src_cid.get());
        puppet.ack = Psn(body.psn_base.get());
        let upper = u64::from(parsed.header.psn().0);
        puppet.token = Token(upper << 32 | u64::from(parsed.header.token()));
        puppet.pass(1_000_000);
        let ping = puppet.sealed(PacketKind::Ping, &[]);
        puppet.ingest(&ping);
        ensure!(puppet.engine.stats().handshakes == 1, "no connection");
        Ok(puppet)
    }

    /// Lets time pass, in which the engine sends nothing.
    pub(crate) fn pass(&mut self, nanos: u64) {
        self.now = self.now.after_nanos(nanos);
    }

    /// A packet with the next number, which stays the next one.
    pub(crate) fn sealed(&self, kind: PacketKind, body: &[u8]) -> Vec<u8> {
        let mut header = Header::new(kind, self.cid, self.token)
            .with_received(self.ack, 0, wire::ReceiverStatus::default())
            .with_sent_at((self.now.as_nanos() / 64) as u32);
        header.err_count = self.errors;
        if kind == PacketKind::Data {
            header = header.with_psn(self.psn);
        }
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(body);
        wire::seal(&mut bytes, ofi_xdp_checksum::crc32c);
        bytes
    }

    /// Acknowledges `count` more packets, sent a [`ROUND_TRIP`] ago.
    pub(crate) fn acknowledge(&mut self, count: u32) {
        self.ack = self.ack.plus(count);
        let ack = self.ack_with(0, &[]);
        self.ingest(&ack);
    }

    /// An acknowledgment of packet `number` behind the oldest one under way, and of no other.
    pub(crate) fn sack(&self, number: u32) -> Vec<u8> {
        // The bitmap begins with number 1.
        let (word, bit) = ((number - 1) / 64, (number - 1) % 64);
        self.ack_with(word as u16, &(1u64 << bit).to_le_bytes())
    }

    /// An acknowledgment with a part of the bitmap, from a word on.
    fn ack_with(&self, sack_offset: u16, bitmap: &[u8]) -> Vec<u8> {
        let echo = self.now.as_nanos().saturating_sub(ROUND_TRIP) / 64;
        let ack = Ack {
            echo: (echo as u32).into(),
            hold: 0.into(),
            wait: 0.into(),
            congestion_marks: 0.into(),
            sack_offset: sack_offset.into(),
            sack_words: (bitmap.len() / 8) as u8,
            responder_credit: 1,
            reserved: 0.into(),
            received: 1.into(),
        };
        let mut body = ack.as_bytes().to_vec();
        body.extend_from_slice(bitmap);
        self.sealed(PacketKind::Ack, &body)
    }

    /// The next packet, with `records`. It takes a number.
    pub(crate) fn data(&mut self, records: &[u8]) -> Vec<u8> {
        let packet = self.sealed(PacketKind::Data, records);
        self.psn = self.psn.plus(1);
        packet
    }

    /// Gives a packet to the engine.
    pub(crate) fn ingest(&mut self, bytes: &[u8]) {
        let datagram = Datagram {
            coverage: ChecksumCoverage::Whole,
            to_group: false,
            from: address(),
            bytes,
            congestion_experienced: false,
            wanted: WantedPort::KEEP,
        };
        self.engine.ingest(self.now, datagram, &mut self.memory);
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// When no slot is free.
    pub(crate) fn recv(&mut self, from: Option<PeerId>, tag: Option<TagMatch>) -> Result<()> {
        let request = RecvRequest { from, len: 64, context: Context(1), tag, signal: true };
        self.engine.post_recv(request, Buffer(0), &mut self.memory)?;
        Ok(())
    }

    /// Posts a message of 8 bytes to the puppet.
    ///
    /// # Errors
    /// When no slot is free.
    pub(crate) fn send(&mut self) -> Result<()> {
        let common = Common::new(self.peer, Context(1));
        let request = SendRequest { common, len: 8, tag: None, data: None };
        self.engine.post_send(self.now, request, Buffer(0), &mut self.memory)?;
        Ok(())
    }

    /// Posts a write of `len` bytes to the puppet.
    ///
    /// # Errors
    /// When no slot is free.
    pub(crate) fn write(&mut self, len: u64) -> Result<()> {
        let common = Common::new(self.peer, Context(1));
        let request = WriteRequest { common, len, remote: SOMEWHERE, data: None };
        self.engine.post_write(self.now, request, Buffer(0), &mut self.memory)?;
        Ok(())
    }

    /// Sends up to `most` packets, and returns how many.
    pub(crate) fn transmit(&mut self, most: u32) -> u32 {
        let mut packet = [0; PACKET_MAX as usize];
        let mut burst = self.engine.burst(self.now);
        (0..most).take_while(|_| burst.transmit(&mut packet, &mut Nowhere).is_some()).count() as u32
    }

    /// Registers the memory of the arena, for the puppet to write to.
    ///
    /// # Errors
    /// When no slot is free.
    pub(crate) fn region(&mut self) -> Result<Remote> {
        let access = Access::WRITE;
        let request = RegionRequest { key: None, address: 0, len: ARENA_LEN as u64, access };
        let (_, key) = self.engine.register_region(&request)?;
        Ok(Remote { key, address: 0 })
    }

    /// Claims the oldest stored message, with a context.
    ///
    /// # Errors
    /// When no slot is free.
    pub(crate) fn claim(&mut self, context: u64) -> Result<()> {
        let request =
            RecvRequest { from: None, len: 0, context: Context(context), tag: None, signal: true };
        self.engine.peek(request, Peek::Claim, &mut self.memory)?;
        ensure!(self.engine.poll_recv_completion().is_some(), "no message to claim");
        Ok(())
    }

    /// Ends the searches of the receives, as progress calls do. Each takes a bounded number of
    /// steps.
    pub(crate) fn end_searches(&mut self) {
        while self.engine.has_searches() {
            self.engine.resume_matching(&mut self.memory);
        }
    }

    /// Packets of the puppet that had no effect.
    pub(crate) fn dropped(&self) -> u64 {
        DropReason::ALL.iter().map(|&reason| self.engine.stats().dropped(reason)).sum()
    }

    /// Messages accepted, stored ones among them, and receives that wait.
    pub(crate) fn counts(&self) -> (i64, i64, i64) {
        let engine = &self.engine;
        let accepted = engine.stats().messages_accepted as i64;
        (accepted, engine.stored_messages().into(), engine.posted_receives().into())
    }
}
