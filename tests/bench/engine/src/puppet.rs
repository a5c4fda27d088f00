// SPDX-License-Identifier: MIT OR Apache-2.0
//! One engine, and a peer made by hand that sends any packet.
//!
//! In: packets and receives of a case. Out: the state of the engine. Caller: `worst.rs`, which
//! measures one call. Bound: the packets of the case.

use anyhow::{Context as _, Result, ensure};
use ofi_xdp_core::wire::{self, Body, Header, Packet, PacketKind, Token};
use ofi_xdp_core::{
    ChecksumCoverage, Common, Config, Context, Datagram, Engine, Identity, Instant, Peek,
    PeerAddress, PeerId, Psn, RecvRequest, SendRequest, StorageBox, TagMatch, WantedPort,
};
use ofi_xdp_test_kit::counted::{Arena, Buffer};
use ofi_xdp_test_kit::queue::limits;
use ofi_xdp_test_kit::records::{PACKET_MAX, handshake};
use zerocopy::IntoBytes as _;

/// Bytes of application memory; all receives have the same.
const ARENA_LEN: usize = 4096;
/// The first packet of the puppet, and its name for the connection.
const BASE: Psn = Psn(1000);
const CID: PeerId = PeerId::from_bits(9);

/// See the module.
#[derive(Debug)]
pub(crate) struct Puppet {
    engine: Engine<'static>,
    memory: Arena,
    now: Instant,
    cid: PeerId,
    token: Token,
    ack: Psn,
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
            psn: BASE,
            peer,
        };
        let body = handshake(0xc0_ffee, 1, CID, BASE);
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
        if kind == PacketKind::Data {
            header = header.with_psn(self.psn);
        }
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(body);
        wire::seal(&mut bytes, ofi_xdp_checksum::crc32c);
        bytes
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

    /// Messages accepted, stored ones among them, and receives that wait.
    pub(crate) fn counts(&self) -> (i64, i64, i64) {
        let engine = &self.engine;
        let accepted = engine.stats().messages_accepted as i64;
        (accepted, engine.stored_messages().into(), engine.posted_receives().into())
    }
}
