// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection managers on virtual time, with a link between them that loses, repeats and reorders
//! packets.
//!
//! In: calls of agents, faults, the time to play to. Out: the events of each agent with their data,
//! and sent packets. Callers: core's tests and the simulator. Bound: the packets under way.

use crate::rng::Rng;
use ofi_xdp_core::cm::{CONNECT_PACKET_MAX, ConnectEvent, REPLIES_MAX};
use ofi_xdp_core::{Agent, AgentBox, AgentConfig, Instant, PeerAddress};

/// The faults of the link.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkFaults {
    /// Packets lost, in a hundred.
    pub loss: f64,
    /// Packets that arrive twice, in a hundred.
    pub repeats: f64,
    /// The longest delay beyond the least one, in nanoseconds. Packets with different delays change
    /// their order.
    pub jitter: u64,
}

/// The least delay of the link.
const DELAY_NANOS: u64 = 100_000;

#[derive(Debug)]
struct Node {
    agent: AgentBox,
    /// Whether it takes part: a process that has died does not.
    is_alive: bool,
    events: Vec<(ConnectEvent, Vec<u8>)>,
}

/// A packet under way, or one that has arrived.
#[derive(Clone, Debug)]
pub struct Flight {
    /// When it arrives.
    pub at: Instant,
    /// Its source.
    pub from: PeerAddress,
    /// Its destination.
    pub to: PeerAddress,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Agents and the link between them.
#[derive(Debug)]
pub struct Agents {
    /// The present time.
    pub now: Instant,
    /// The faults of the link.
    pub faults: LinkFaults,
    /// All packets that agents have sent since it was cleared, those that were lost included.
    pub sent: Vec<Flight>,
    config: AgentConfig,
    nodes: Vec<Node>,
    flights: Vec<Flight>,
    rng: Rng,
}

impl Agents {
    /// So many agents, none of which listens.
    ///
    /// # Panics
    /// Without memory for them.
    #[must_use]
    pub fn new(count: usize, config: AgentConfig, seed: u64) -> Self {
        let mut world = Self {
            now: Instant::from_nanos(3_000_000_000),
            faults: LinkFaults::default(),
            sent: Vec::new(),
            config,
            nodes: Vec::new(),
            flights: Vec::new(),
            rng: Rng::new(seed, "agents"),
        };
        for _ in 0..count {
            let node = world.fresh();
            world.nodes.push(node);
        }
        world
    }

    fn fresh(&mut self) -> Node {
        let key = u128::from(self.rng.next()) << 64 | u128::from(self.rng.next());
        let agent = AgentBox::new(&self.config, key).expect("memory for an agent");
        Node { agent, is_alive: true, events: Vec::new() }
    }

    /// The address of an agent.
    #[must_use]
    pub const fn address(&self, node: usize) -> PeerAddress {
        PeerAddress::from_v4([198, 18, 0, node as u8 + 1], 7000)
    }

    fn node_of(&self, address: PeerAddress) -> Option<usize> {
        (0..self.nodes.len()).find(|&node| self.address(node) == address)
    }

    /// Calls an agent, with the time.
    pub fn call<R>(&mut self, node: usize, f: impl FnOnce(&mut Agent<'_>, Instant) -> R) -> R {
        let now = self.now;
        self.nodes[node].agent.with_mut(|agent| f(agent, now))
    }

    /// The events of an agent since the last call, with their data.
    pub fn take_events(&mut self, node: usize) -> Vec<(ConnectEvent, Vec<u8>)> {
        std::mem::take(&mut self.nodes[node].events)
    }

    /// The process of an agent dies.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].is_alive = false;
    }

    /// A new process has the address of an agent.
    pub fn restart(&mut self, node: usize) {
        self.nodes[node] = self.fresh();
    }

    /// Puts a packet on the link.
    pub fn send(&mut self, from: PeerAddress, to: PeerAddress, bytes: &[u8]) {
        let flight = Flight { at: self.now, from, to, bytes: bytes.to_vec() };
        self.sent.push(flight.clone());
        let copies = 1 + u64::from(self.rng.percent(self.faults.repeats));
        for _ in 0..copies {
            if !self.rng.percent(self.faults.loss) {
                let delay = DELAY_NANOS + self.rng.within(0, self.faults.jitter);
                self.flights.push(Flight { at: self.now.after_nanos(delay), ..flight.clone() });
            }
        }
    }

    /// Plays for this time.
    pub fn play(&mut self, nanos: u64) {
        let end = self.now.after_nanos(nanos);
        self.step();
        // bound: agents send a bounded number of packets in a time
        while let Some(next) = self.next_time().filter(|&next| next <= end) {
            self.now = self.now.max(next);
            self.step();
        }
        self.now = end;
    }

    fn next_time(&self) -> Option<Instant> {
        let timers = self.nodes.iter().filter(|node| node.is_alive);
        let timers = timers.filter_map(|node| node.agent.with(|agent| agent.poll_at()));
        timers.chain(self.flights.iter().map(|flight| flight.at)).min()
    }

    /// Delivers the packets that have arrived, and lets each agent act.
    fn step(&mut self) {
        let now = self.now;
        let mut due: Vec<Flight> = self.flights.extract_if(.., |flight| flight.at <= now).collect();
        due.sort_by_key(|flight| flight.at);
        for part in due.chunks(REPLIES_MAX) {
            for Flight { from, to, bytes, .. } in part {
                let Some(node) = self.node_of(*to).filter(|&node| self.nodes[node].is_alive) else {
                    continue;
                };
                // Dropped packets are counted, and are no error.
                let _ = self.call(node, |agent, now| agent.ingest(now, *from, bytes));
            }
            self.transmit();
        }
        self.transmit();
    }

    fn transmit(&mut self) {
        for node in 0..self.nodes.len() {
            if !self.nodes[node].is_alive {
                continue;
            }
            let mut packet = [0; CONNECT_PACKET_MAX];
            while let Some((to, len)) =
                self.call(node, |agent, now| agent.poll_transmit(now, &mut packet))
            {
                self.send(self.address(node), to, &packet[..len]);
            }
            while let Some(event) = self.call(node, |agent, _| agent.poll_event()) {
                let data = self.call(node, |agent, _| agent.data(event.id()).to_vec());
                self.nodes[node].events.push((event, data));
            }
        }
    }
}
