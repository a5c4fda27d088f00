// SPDX-License-Identifier: MIT OR Apache-2.0
//! One engine among many peers: messages of 8 bytes to each in turn, a packet each.
//!
//! In: the number of peers, and their delay. Out: the cost of a message in the one engine, and its
//! memory for a peer. The peers are not engines. They are the packets that a network would bring
//! from them (`remote.rs`): engines of other hosts would not be in this host's caches. One peer and
//! ten thousand are measured in the same way, by the same clock. A message is posted, the engine is
//! driven, and finished operations are polled. Two things differ. One is the interval between two
//! messages to a peer. The other is that one peer acknowledges 16 packets at once, and each of ten
//! thousand acknowledges one.

use std::time::{Duration, Instant as Clock};

use anyhow::{Context as _, Result, ensure};
use ofi_xdp_core::{
    Budget, Common, Config, Context, Engine, Identity, Instant, PeerId, SendRequest, StorageBox,
    drive,
};
use ofi_xdp_test_kit::counted::Nowhere;
use ofi_xdp_test_kit::packet::address;
use ofi_xdp_test_kit::queue::limits;
use ofi_xdp_test_kit::ring::PAYLOAD_MAX;

use crate::record::Record;
use crate::remote::{Remote, Wire};

/// The number of peers in the target, and a number of which all fit the caches.
const MANY: usize = 10_000;
const FEW: usize = 100;
/// Messages that are posted before the network delivers. Packets that arrive meanwhile are in
/// flight by then.
const BURST: usize = 32;
/// Peers that say hello at once: each of their packets is answered.
const STRANGERS: usize = 16;
/// Messages of one measurement.
const MESSAGES: usize = 200_000;
/// Messages before it.
const WARM_UP: usize = 10_000;
/// Most operations under way.
const OPERATIONS: u32 = 16 << 10;
/// The time that a drive adds: that of a message.
const STEP_NANOS: u64 = 200;
/// The time that a packet travels: on one switch, and far more than in a cluster. With the second,
/// a peer's state has left the caches when its acknowledgment arrives.
const SHORT_DELAY_NANOS: u64 = 5_000;
const FAR_NANOS: u64 = 500_000;
/// Drives after which a missing event is an error.
const DRIVES_MAX: u32 = 100_000;
/// Bytes in a message.
const LEN: u64 = 8;

// A burst ends before its acknowledgments arrive.
const _: () = assert!(BURST as u64 * STEP_NANOS <= 2 * SHORT_DELAY_NANOS);

/// The memory of an engine for its peers, in bytes.
#[derive(Clone, Copy, Debug)]
struct PeerBytes {
    /// For all peers in the table: their slots, and the index of addresses.
    known: usize,
    /// In addition, for all peers with a connection: state, timers, and packet records.
    active: usize,
}

/// An engine in memory of its own, and the bytes of that memory for peers.
fn engine(config: &Config) -> Result<(Engine<'static>, PeerBytes)> {
    // A process measures once: its storage lives as long as it does.
    let storage = Box::leak(Box::new(StorageBox::new(config).expect("memory"))).lend();
    let bytes = config.storage_bytes();
    let bytes = PeerBytes {
        known: bytes.peers + bytes.index,
        active: bytes.connections + bytes.timers + bytes.chunks,
    };
    let identity = Identity { key: 1 };
    Ok((Engine::new(config, storage, identity, limits(PAYLOAD_MAX))?, bytes))
}

/// The one engine, and its peers.
#[derive(Debug)]
struct ManyPeers {
    one: Engine<'static>,
    /// The one engine's names for its peers.
    names: Vec<PeerId>,
    wire: Wire,
    remote: Remote,
    now: u64,
    /// Time spent in the one engine.
    spent: Duration,
    posted: usize,
    sent: usize,
}

impl ManyPeers {
    /// `count` connected peers, at a distance of `delay`. Also returns the bytes that the one
    /// engine has for each: while they are idle, and in all.
    fn new(count: usize, delay: u64) -> Result<(Self, [f64; 2])> {
        // A quarter of the slots is reserved for unknown peers.
        let many = u32::try_from(count)? * 4 / 3 + 8;
        let base = Config::new(ofi_xdp_checksum::crc32c);
        let config =
            Config { peers: many, connections: many, responders: many, sends: OPERATIONS, ..base };
        let (mut one, bytes) = engine(&config)?;
        let insert = |number| one.insert_peer(address(number as u32));
        let names = (0..count).map(insert).collect::<Result<Vec<_>, _>>()?;
        let (wire, remote) = (Wire::default(), Remote::new(count, delay));
        let (now, spent) = (1 << 20, Duration::ZERO);
        let mut many_peers = Self { one, names, wire, remote, now, spent, posted: 0, sent: 0 };
        for first in (0..count).step_by(STRANGERS) {
            let end = count.min(first + STRANGERS);
            many_peers.wire.set_time(many_peers.now);
            (first..end).for_each(|peer| many_peers.remote.hello(peer, &mut many_peers.wire));
            many_peers.run_until(|many_peers| many_peers.one.stats().handshakes == end as u64)?;
        }
        // Windows and queues reach their final sizes.
        many_peers.messages(count.max(WARM_UP), Pace::Packets)?;
        let each = |bytes: usize| bytes as f64 / f64::from(many);
        Ok((many_peers, [each(bytes.known), each(bytes.known + bytes.active)]))
    }

    /// Drives the one engine as a progress call does, and polls its completions.
    fn drive(&mut self) -> Result<()> {
        self.now += STEP_NANOS;
        self.wire.set_time(self.now);
        let now = Instant::from_nanos(self.now);
        drive(&mut self.one, &mut self.wire, &mut Nowhere, now, Budget::PROGRESS)?;
        while let Some(completion) = self.one.poll_send_completion() {
            completion.outcome.context("a message")?;
            self.sent += 1;
        }
        Ok(())
    }

    /// Sends `count` messages to the peers in turn.
    fn messages(&mut self, count: usize, pace: Pace) -> Result<()> {
        let end = self.posted + count;
        while self.posted < end {
            let burst = BURST.min(end - self.posted);
            let start = Clock::now();
            for left in (0..burst).rev() {
                let more = pace == Pace::Coalesced && left > 0;
                self.post(more)?;
                if !more {
                    self.drive()?;
                }
            }
            self.spent += start.elapsed();
            self.remote.serve(&mut self.wire)?;
        }
        Ok(())
    }

    /// Posts a message to the next peer.
    fn post(&mut self, more: bool) -> Result<()> {
        let peer = self.names[self.posted % self.names.len()];
        let common = Common { more, ..Common::new(peer, Context(self.posted as u64)) };
        let request = SendRequest { common, len: LEN, tag: None, data: None };
        let now = Instant::from_nanos(self.now);
        let posted = self.one.post_send(now, request, (), &mut Nowhere);
        posted.with_context(|| format!("message {} to {} peers", self.posted, self.names.len()))?;
        self.posted += 1;
        Ok(())
    }

    /// Lets time pass until `done`.
    fn run_until(&mut self, done: impl Fn(&Self) -> bool) -> Result<()> {
        for _ in 0..DRIVES_MAX {
            if done(self) {
                return Ok(());
            }
            self.drive()?;
            self.remote.serve(&mut self.wire)?;
        }
        anyhow::bail!("{} of {} messages, {:?}", self.sent, self.posted, self.one.stats())
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

/// Measures with one peer and with ten thousand, or `only` one of the cases.
///
/// # Errors
/// When the engines stand still.
pub(crate) fn measure(quick: bool, only: Option<&str>) -> Result<Vec<Record>> {
    let (rounds, messages) = if quick { (3, MESSAGES / 4) } else { (7, MESSAGES) };
    let mut records = Vec::new();
    for (count, delay, pace, mode) in [
        (1, SHORT_DELAY_NANOS, Pace::Packets, "1 peer"),
        (1, SHORT_DELAY_NANOS, Pace::Coalesced, "1 peer, coalesced"),
        (FEW, SHORT_DELAY_NANOS, Pace::Packets, "100 peers"),
        (MANY, SHORT_DELAY_NANOS, Pace::Packets, "10000 peers"),
        (MANY, FAR_NANOS, Pace::Packets, "10000 peers, 1 ms away"),
    ] {
        if only.is_some_and(|only| only != mode) {
            continue;
        }
        let (mut many_peers, [idle, active]) = ManyPeers::new(count, delay)?;
        let mut rates = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            many_peers.spent = Duration::ZERO;
            let packets = many_peers.one.stats().data_packets_sent;
            many_peers.messages(messages, pace)?;
            let packets = many_peers.one.stats().data_packets_sent - packets;
            let alone = packets == messages as u64;
            ensure!(alone == (pace == Pace::Packets), "{packets} packets, {messages} messages");
            rates.push(messages as f64 / many_peers.spent.as_secs_f64().max(1e-9));
        }
        let record = |metric, values: &[f64]| Record {
            suite: "scale",
            ..Record::new((mode, LEN), metric, values)
        };
        records.push(record(("message_rate", "1/s"), &rates));
        if count == MANY && delay == SHORT_DELAY_NANOS {
            records.push(record(("idle_peer_memory", "B"), &[idle]));
            records.push(record(("active_peer_memory", "B"), &[active]));
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
            let (mut many_peers, [idle, active]) =
                ManyPeers::new(count, SHORT_DELAY_NANOS).unwrap();
            let (sent, posted) = (many_peers.sent, many_peers.posted);
            many_peers.messages(1000, pace).unwrap();
            many_peers.run_until(|many_peers| !many_peers.one.has_work()).unwrap();
            assert_eq!((many_peers.sent, many_peers.posted), (many_peers.posted, posted + 1000));
            assert!(sent > 0 && many_peers.spent > Duration::ZERO && active > idle && idle > 0.0);
            let retransmissions = many_peers.one.stats().retransmissions;
            assert_eq!(retransmissions, 0, "nothing is lost");
        }
    }
}
