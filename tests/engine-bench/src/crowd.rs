// SPDX-License-Identifier: MIT OR Apache-2.0
//! One engine among many peers: messages of 8 bytes to each in turn, a packet each.
//!
//! In: how many peers. Out: what a message costs the one engine, and what memory it has for a peer.
//! The peers are engines too, as small as they can be; what they do is not in the time, which is
//! measured around the calls of the one engine alone. What they leave in the caches is.

use std::collections::VecDeque;
use std::time::{Duration, Instant as Clock};

use anyhow::{Context as _, Result, ensure};
use ofi_xdp_core::{
    AtomicAccess, Budget, Common, Config, Context, Datagram, Engine, Gather, Identity, Instant,
    Memory, OpId, PeerAddress, PeerId, Placement, Port, PortError, PortLimits, RecvId, RecvRequest,
    SendRequest, Storage, Transmit, Transmitted, UnexpectedId, drive,
};

use crate::line::{PAYLOAD_MAX, limits};
use crate::record::Record;

/// Messages that are posted before the engine is driven and its peers get them.
const BURST: usize = 64;
/// Messages of one measurement.
const MESSAGES: usize = 200_000;
/// Most operations under way.
const OPERATIONS: u32 = 16 << 10;
/// How far one drive moves time, and how far a pause, in which peers acknowledge.
const STEP_NANOS: u64 = 500;
const PAUSE_NANOS: u64 = 1_000_000;
/// Pauses without progress after which something is wrong.
const PATIENCE: u32 = 1000;
/// Bytes in a message.
const LEN: u64 = 8;
/// Where everybody listens.
const PORT: u16 = 7000;

/// Memory that is nowhere: what is copied does not matter here.
#[derive(Debug)]
struct Nowhere;

impl Memory for Nowhere {
    type Buffer = ();

    fn attach_op(&mut self, _: OpId, (): ()) {}
    fn attach_recv(&mut self, _: RecvId, (): ()) {}
    fn attach_part(&mut self, _: RecvId, _: RecvId, _: u64) {}

    fn gather(&mut self, _: Gather, into: &mut [u8]) {
        into.fill(7);
    }

    fn place(&mut self, _: Placement, _: &[u8]) {}
    fn deliver(&mut self, _: UnexpectedId, _: RecvId, _: u64) {}
    fn atomic(&mut self, _: AtomicAccess<'_>) {}
}

/// A packet under way.
#[derive(Debug)]
struct Packet {
    /// Who sends it, and who gets it: 0 is the one engine.
    from: usize,
    to: usize,
    len: usize,
    bytes: Box<[u8; PAYLOAD_MAX]>,
}

/// Packets under way, and buffers that are free: nothing is allocated while measuring.
#[derive(Debug, Default)]
struct Wire {
    under_way: VecDeque<Packet>,
    #[expect(clippy::vec_box, reason = "they go to packets and come back without a copy")]
    free: Vec<Box<[u8; PAYLOAD_MAX]>>,
}

/// One engine's end of the wire.
#[derive(Debug)]
struct End<'a> {
    me: usize,
    incoming: &'a mut VecDeque<Packet>,
    wire: &'a mut Wire,
}

impl Port for End<'_> {
    fn receive(
        &mut self,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> Result<u16, PortError> {
        let mut count = 0;
        while count < budget
            && let Some(packet) = self.incoming.pop_front()
        {
            let bytes = &packet.bytes[..packet.len];
            sink(Datagram { from: address(packet.from), bytes, congestion_experienced: false });
            self.wire.free.push(packet.bytes);
            count += 1;
        }
        Ok(count)
    }

    fn transmit(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Result<Transmitted, PortError> {
        let mut bytes = self.wire.free.pop().unwrap_or_else(|| Box::new([0; PAYLOAD_MAX]));
        match fill(&mut bytes[..]) {
            Some(sent) => {
                let to = number(sent.to.address);
                self.wire.under_way.push_back(Packet { from: self.me, to, len: sent.len, bytes });
                Ok(Transmitted::Sent)
            }
            None => {
                self.wire.free.push(bytes);
                Ok(Transmitted::Nothing)
            }
        }
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn limits(&self) -> PortLimits {
        limits()
    }
}

/// The address of engine `number`: 10.x.y.z, and back.
fn address(number: usize) -> PeerAddress {
    let [_, x, y, z] = u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes();
    PeerAddress::from_v4([10, x, y, z], PORT)
}

fn number(address: PeerAddress) -> usize {
    let [.., x, y, z] = address.octets();
    u32::from_be_bytes([0, x, y, z]) as usize
}

/// An engine in memory of its own, and the bytes of it that are there for the sake of peers.
fn engine(config: &Config, number: usize) -> Result<(Engine<'static>, usize)> {
    // A process measures once: its storage lives as long as it does.
    fn lend<T: Clone + Default>(count: usize) -> &'static mut [T] {
        vec![T::default(); count].leak()
    }
    let sizes = config.sizes();
    let storage = Storage {
        peers: lend(sizes.peers),
        index: lend(sizes.index),
        actives: lend(sizes.actives),
        timers: lend(sizes.timers),
        extents: lend(sizes.extents),
        ops: lend(sizes.ops),
        recvs: lend(sizes.recvs),
        assemblies: lend(sizes.assemblies),
        unexpected: lend(sizes.unexpected),
        regions: lend(sizes.regions),
        region_index: lend(sizes.region_index),
    };
    // Of the two extents that there are for a peer it takes one, unless it has a large window.
    let bytes = size_of_val(&*storage.peers)
        + size_of_val(&*storage.index)
        + size_of_val(&*storage.actives)
        + size_of_val(&*storage.timers)
        + size_of_val(&*storage.extents) / 2;
    let word = number as u64 + 1;
    let identity = Identity { incarnation: word, seed: word };
    Ok((Engine::new(config, storage, identity, limits())?, bytes))
}

/// The one engine, and its peers.
#[derive(Debug)]
struct Crowd {
    one: Engine<'static>,
    peers: Vec<Engine<'static>>,
    /// The one engine's names for them.
    names: Vec<PeerId>,
    wire: Wire,
    /// Packets for the one engine.
    incoming: VecDeque<Packet>,
    now: u64,
    /// Time spent in the one engine.
    spent: Duration,
    sent: usize,
}

impl Crowd {
    /// `count` peers that are connected; and the bytes that the one engine has for each.
    fn new(count: usize) -> Result<(Self, f64)> {
        // A quarter of the places is kept for strangers.
        let many = u32::try_from(count)? * 4 / 3 + 8;
        let base = Config::new(ofi_xdp_checksum::crc32c);
        let ours = Config {
            peers: many,
            active_peers: many,
            responders: many,
            sends: OPERATIONS,
            ..base.clone()
        };
        let theirs = Config {
            peers: 2,
            active_peers: 2,
            sends: 1,
            recvs: BURST as u32,
            parts: 1,
            assemblies: 1,
            unexpected: [0; 4],
            regions: 0,
            responders: 2,
            pulls: 1,
            events: 8,
            ..base
        };
        let (mut one, bytes) = engine(&ours, 0)?;
        let (mut peers, mut names) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for number in 1..=count {
            let (mut peer, _) = engine(&theirs, number)?;
            for _ in 0..BURST {
                post_receive(&mut peer)?;
            }
            peers.push(peer);
            names.push(one.insert_peer(address(number))?);
        }
        let (wire, incoming) = (Wire::default(), VecDeque::new());
        let (now, spent) = (1 << 20, Duration::ZERO);
        let mut crowd = Self { one, peers, names, wire, incoming, now, spent, sent: 0 };
        crowd.messages(count, Pace::Packets)?;
        Ok((crowd, bytes as f64 / f64::from(many)))
    }

    /// Drives the one engine, on the clock.
    fn drive_one(&mut self) -> Result<()> {
        let start = Clock::now();
        self.now += STEP_NANOS;
        let Self { one, wire, incoming, .. } = self;
        let mut end = End { me: 0, incoming, wire };
        let now = Instant::from_nanos(self.now);
        drive(one, &mut end, &mut Nowhere, now, Budget::PROGRESS)?;
        while let Some(completion) = one.poll_send_completion() {
            completion.outcome.context("a message")?;
            self.sent += 1;
        }
        self.spent += start.elapsed();
        Ok(())
    }

    /// Hands out what is under way; with `everybody` all peers are driven, also those without a
    /// packet: then they acknowledge.
    fn drive_peers(&mut self, everybody: bool) -> Result<()> {
        let mut for_one = VecDeque::new();
        let mut incoming = VecDeque::new();
        // bound: packets under way; a peer sends only to the one engine
        while let Some(packet) = self.wire.under_way.pop_front() {
            let to = packet.to;
            if to == 0 {
                for_one.push_back(packet);
                continue;
            }
            incoming.push_back(packet);
            self.drive_peer(to - 1, &mut incoming)?;
        }
        if everybody {
            for peer in 0..self.peers.len() {
                self.drive_peer(peer, &mut incoming)?;
            }
            for_one.append(&mut self.wire.under_way);
        }
        self.incoming.append(&mut for_one);
        Ok(())
    }

    fn drive_peer(&mut self, peer: usize, incoming: &mut VecDeque<Packet>) -> Result<()> {
        let engine = &mut self.peers[peer];
        let mut end = End { me: peer + 1, incoming, wire: &mut self.wire };
        let now = Instant::from_nanos(self.now);
        drive(engine, &mut end, &mut Nowhere, now, Budget::PROGRESS)?;
        while let Some(completion) = engine.poll_recv_completion() {
            completion.outcome.context("a receive")?;
            post_receive(engine)?;
        }
        Ok(())
    }

    /// Sends `count` messages to the peers in turn, and waits until all have arrived.
    fn messages(&mut self, count: usize, pace: Pace) -> Result<()> {
        let most = self.peers.len().clamp(BURST, OPERATIONS as usize / 2);
        let (mut posted, mut idle) = (0, 0);
        self.sent = 0;
        while self.sent < count {
            let before = self.sent;
            while posted < count && posted - self.sent < most {
                let burst = BURST.min(count - posted).min(most - (posted - self.sent));
                self.post(posted, burst, pace)?;
                posted += burst;
                self.drive_one()?;
                self.drive_peers(false)?;
            }
            self.now += PAUSE_NANOS;
            self.drive_peers(true)?;
            // bound: packets that wait, a budget a call
            loop {
                self.drive_one()?;
                if self.incoming.is_empty() {
                    break;
                }
            }
            idle = if self.sent == before { idle + 1 } else { 0 };
            ensure!(idle < PATIENCE, "{} of {count} messages arrived", self.sent);
        }
        Ok(())
    }

    /// Posts messages to the next peers, on the clock.
    fn post(&mut self, first: usize, count: usize, pace: Pace) -> Result<()> {
        for number in first..first + count {
            let start = Clock::now();
            let peer = self.names[number % self.names.len()];
            let more = pace == Pace::Coalesced && number + 1 < first + count;
            let common = Common { more, ..Common::new(peer, Context(number as u64)) };
            let request = SendRequest { common, len: LEN, tag: None, data: None };
            let now = Instant::from_nanos(self.now);
            let posted = self.one.post_send(now, request, (), &mut Nowhere);
            posted.with_context(|| {
                format!("message {number} to one of {} peers", self.names.len())
            })?;
            self.spent += start.elapsed();
            // With one peer, what waits for company would share a packet.
            if pace == Pace::Packets && self.names.len() < BURST {
                self.drive_one()?;
            }
        }
        Ok(())
    }
}

/// How messages leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pace {
    /// A packet each.
    Packets,
    /// As many in a packet as are for the same peer.
    Coalesced,
}

fn post_receive(engine: &mut Engine<'_>) -> Result<()> {
    let context = Context(0);
    let request = RecvRequest { from: None, len: LEN, context, tag: None, signal: true };
    engine.post_recv(request, (), &mut Nowhere).context("a peer's receive")?;
    Ok(())
}

/// Measures with one peer and with ten thousand.
///
/// # Errors
/// When the engines stand still.
pub(crate) fn measure(quick: bool) -> Result<Vec<Record>> {
    let (rounds, messages) = if quick { (3, MESSAGES / 4) } else { (7, MESSAGES) };
    let mut records = Vec::new();
    for (count, pace, mode) in [
        (1, Pace::Packets, "1 peer"),
        (1, Pace::Coalesced, "1 peer, coalesced"),
        (10_000, Pace::Packets, "10000 peers"),
    ] {
        let (mut crowd, bytes) = Crowd::new(count)?;
        let mut rates = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            crowd.spent = Duration::ZERO;
            crowd.messages(messages, pace)?;
            rates.push(messages as f64 / crowd.spent.as_secs_f64().max(1e-9));
        }
        let record = |metric, values: &[f64]| Record {
            suite: "scale",
            ..Record::new((mode, LEN), metric, values)
        };
        records.push(record(("message_rate", "1/s"), &rates));
        if count > 1 {
            records.push(record(("active_peer_memory", "B"), &[bytes]));
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_gets_its_messages() {
        for (count, pace) in [(1, Pace::Packets), (1, Pace::Coalesced), (300, Pace::Packets)] {
            let (mut crowd, bytes) = Crowd::new(count).unwrap();
            crowd.messages(1000, pace).unwrap();
            assert_eq!(crowd.sent, 1000);
            assert!(crowd.spent > Duration::ZERO && bytes > 0.0);
        }
    }

    #[test]
    fn addresses_are_numbers() {
        for count in [0, 1, 255, 256, 70_000] {
            assert_eq!(number(address(count)), count);
        }
    }
}
