// SPDX-License-Identifier: MIT OR Apache-2.0
//! A node: an engine, its memory, its clock, and the packets that wait at its port.

use crate::clock::Clock;
use crate::net::PacketId;
use crate::scenario::{Control, Pools, Scenario};
use ofi_xdp_core::rss::{HashFields, KEY, KEY_LEN, Rss};
use ofi_xdp_core::{
    ChecksumCoverage, Config, Congestion, EngineBox, Identity, Order, PortLimits, Psn,
};
use ofi_xdp_test_kit::card::HostCard;
use ofi_xdp_test_kit::memory::CheckedMemory;
use ofi_xdp_test_kit::queue::limits;
use ofi_xdp_test_kit::rng::Rng;
use std::collections::VecDeque;
use std::time::Duration;

/// No event wakes this node.
pub const NEVER: u64 = u64::MAX;

/// An engine in memory of its own.
fn engine(config: &Config, identity: Identity, limits: PortLimits) -> EngineBox {
    EngineBox::new(config, identity, limits).expect("capacities and port of a scenario go together")
}

/// A node.
#[derive(Debug)]
pub struct Node {
    /// The engine of the present life.
    pub engine: EngineBox,
    /// Its memory.
    pub memory: CheckedMemory,
    /// Its clock, which lives on.
    pub clock: Clock,
    /// Packets that have arrived.
    pub inbox: VecDeque<PacketId>,
    /// When it runs next.
    pub wake_at: u64,
    /// It does not run before this.
    pub paused_until: u64,
    /// It is away after it was killed.
    pub down: bool,
    /// How often it was killed.
    pub life: u32,
    /// The limits of its port.
    pub limits: PortLimits,
    /// Its card, if that has several receive queues.
    pub card: Option<HostCard>,
    /// Its engines' capacities.
    pub config: Config,
}

/// The queues of cards.
static QUEUES: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
/// The keys of cards, one after the other.
static KEYS: [[u8; KEY_LEN]; 2] = [KEY, [0x5a; KEY_LEN]];

/// The card of a node.
fn card(scenario: &Scenario, number: u32) -> Option<HostCard> {
    let queues = scenario.cards.queues;
    let table = QUEUES.get(..usize::from(queues)).filter(|_| queues > 1)?;
    let rss = Rss { key: &KEYS[0], table, fields: HashFields::Ports };
    let mut card = HostCard::new(rss, number % u32::from(queues), queues);
    card.names = scenario.cards.names;
    Some(card)
}

impl Node {
    /// Changes the key of the card at `now`, if that is due.
    pub fn change_key(&mut self, scenario: &Scenario, now: u64) {
        let changes = now.checked_div(scenario.cards.every_us * 1000).unwrap_or(0);
        if let Some(card) = &mut self.card {
            card.rss.key = &KEYS[changes as usize % KEYS.len()];
        }
    }

    /// A node of a scenario, in its first life.
    #[must_use]
    pub fn new(scenario: &Scenario, number: u32, config: Config, rng: &mut Rng) -> Self {
        let mtu = &scenario.mtu;
        let payload_max = match mtu.len() {
            0 => 1472,
            len => usize::from(mtu[number as usize % len]),
        };
        let by_kernel = number.checked_rem(scenario.kernel_nodes) == Some(0);
        let coverage = if by_kernel { ChecksumCoverage::Head } else { ChecksumCoverage::Whole };
        let (receive_max, port_packets) = (65_535, 1024);
        let limits = PortLimits { receive_max, port_packets, coverage, ..limits(payload_max) };
        let faults = &scenario.clock;
        let ppm = rng.below(2 * u64::from(faults.ppm) + 1) as i64 - i64::from(faults.ppm);
        // Shortly before the 32 bits of 64 ns wrap, or anywhere.
        let start =
            if faults.near_wrap { (64 << 32) - rng.below(2_000_000) } else { rng.next() >> 22 };
        let engine = engine(&config, identity(rng), limits);
        Self {
            engine,
            memory: CheckedMemory::collecting(&config),
            clock: Clock::new(start, ppm),
            inbox: VecDeque::new(),
            wake_at: NEVER,
            paused_until: 0,
            down: false,
            life: 0,
            limits,
            card: card(scenario, number),
            config,
        }
    }

    /// A node that numbers the packets of each connection from `psn` on.
    #[must_use]
    pub fn with_first_psn(scenario: &Scenario, psn: u32, rng: &mut Rng) -> Self {
        let mut node = Self::new(scenario, 0, config(scenario), rng);
        node.engine.with_mut(|engine| engine.number_packets_from(Psn(psn)));
        node
    }

    /// A node with room for many peers, few of them active.
    #[must_use]
    pub fn with_many_peers(scenario: &Scenario, peers: u32, active: u32, rng: &mut Rng) -> Self {
        let config = Config { peers, connections: active, ..config(scenario) };
        Self::new(scenario, 0, config, rng)
    }

    /// The next life: nothing is left of the one before.
    pub fn reincarnate(&mut self, rng: &mut Rng) {
        self.engine = engine(&self.config, identity(rng), self.limits);
        self.memory = CheckedMemory::collecting(&self.config);
        self.life += 1;
        self.down = false;
    }
}

fn identity(rng: &mut Rng) -> Identity {
    Identity { key: u128::from(rng.next()) << 64 | u128::from(rng.next()) }
}

/// Capacities of a scenario's engines.
#[must_use]
pub fn config(scenario: &Scenario) -> Config {
    let all = Config {
        peer_timeout: Duration::from_millis(scenario.peer_timeout_ms),
        order: Order::from_bits_truncate(scenario.order),
        eager_max: scenario.eager_max,
        congestion: match scenario.congestion {
            Control::Delay => Congestion::Delay,
            Control::Fixed => Congestion::Fixed(32),
            Control::Off => Congestion::Off,
        },
        path_retry: Duration::from_secs(1),
        ..Config::new(crc32c::crc32c_append)
    };
    let peers = scenario.nodes + 1;
    match scenario.pools {
        Pools::Small => Config {
            peers,
            connections: (scenario.nodes + 3).min(64),
            sends: 64,
            recvs: 64,
            assemblies: 16,
            unexpected: [32, 8, 4, 2],
            regions: 4,
            responders: 80,
            rendezvous_reads: 4,
            // Records out of order leave room for as many as a packet can carry.
            events: 16,
            ..all
        },
        Pools::Minimum => Config {
            peers,
            connections: scenario.nodes.min(8) + 1,
            sends: 2,
            recvs: 3,
            assemblies: 1,
            unexpected: [1, 0, 0, 0],
            regions: 1,
            responders: scenario.nodes.min(8) + 1,
            rendezvous_reads: 1,
            pieced: 1,
            // As many as a packet can carry.
            events: 8,
            ..all
        },
        Pools::ManyNodes => Config {
            peers: peers.min(128),
            connections: 16,
            sends: 16,
            recvs: 16,
            assemblies: 4,
            unexpected: [8, 4, 0, 0],
            regions: 1,
            responders: 16,
            rendezvous_reads: 1,
            events: 8,
            port_packets: 64,
            reorder_pages: 1,
            pieced: 0,
            ..all
        },
        Pools::Large => Config {
            peers,
            // A quarter is reserved for peers that connect to this node.
            connections: 2 * peers,
            sends: 1024,
            recvs: 1024,
            assemblies: 256,
            unexpected: [64, 64, 64, 64],
            regions: 16,
            responders: (2 * peers).max(256),
            rendezvous_reads: 32,
            events: 1024,
            // Worlds of thousands of nodes have little memory for each.
            port_packets: if peers > 64 { 1 << 10 } else { 64 << 10 },
            reorder_pages: if peers > 64 { 4 } else { 32 },
            ..all
        },
    }
}
