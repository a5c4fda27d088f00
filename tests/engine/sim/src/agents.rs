// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection managers under every fault of the link: requests, acceptances, rejections,
//! cancellations, deaths and restarts in random order.
//!
//! In: a seed. Out: counts of events, or the first rule that did not hold. Caller: the tests.
//! Bound: [`STEPS`] steps. The rules:
//!
//! 1. An exchange has no event after its end, and each event once.
//! 2. A request is reported to a listener once, and is one that was made, with its data.
//! 3. An initiator is connected only by an acceptance of its request, with its data.
//! 4. A listener is established only after the initiator was connected.
//! 5. In the end each request that was not given up has ended at both sides, and agents that live
//!    keep nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use ofi_xdp_core::cm::{ConnectEvent, RejectReason, RequestId};
use ofi_xdp_core::{AgentConfig, PeerAddress};
use ofi_xdp_test_kit::agents::{Agents, LinkFaults};
use ofi_xdp_test_kit::rng::Rng;

const NODES: usize = 4;
/// Steps of the application.
const STEPS: u64 = 120;
const SECOND: u64 = 1_000_000_000;
/// More than there are requests: a late packet never finds its request forgotten.
const CONFIG: AgentConfig = AgentConfig {
    connect_timeout: Duration::from_secs(10),
    connects: 256,
    backlog: 256,
    checksum: crc32c::crc32c_append,
};

/// The state of one side's exchange, as its application knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    /// No final event.
    Open,
    /// Listener: accepted.
    Accepted,
    /// Initiator connected, listener established.
    Up,
    /// Ended otherwise.
    Down,
    /// The application gave it up, or its process died.
    Left,
}

/// A request that an application made.
#[derive(Debug)]
struct Attempt {
    to: usize,
    initiator: Side,
    /// By the lives of the listener.
    listeners: BTreeMap<u64, Side>,
}

/// Counts of the events of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcomes {
    /// Connections that both sides know.
    pub up: u64,
    /// Requests that were rejected.
    pub rejected: u64,
    /// Requests that ended at the listener.
    pub gone: u64,
    /// Acceptances that failed.
    pub failed: u64,
    /// Requests that timed out.
    pub timed_out: u64,
}

impl Outcomes {
    /// Adds the counts of another run.
    pub const fn add(&mut self, other: Self) {
        self.up += other.up;
        self.rejected += other.rejected;
        self.gone += other.gone;
        self.failed += other.failed;
        self.timed_out += other.timed_out;
    }
}

struct Run {
    agents: Agents,
    rng: Rng,
    lives: [u64; NODES],
    is_alive: [bool; NODES],
    attempts: Vec<Attempt>,
    /// The request of each exchange, by node, life and identifier.
    names: BTreeMap<(usize, u64, RequestId), usize>,
    /// Requests that wait for their application.
    waiting: Vec<(usize, RequestId)>,
    /// Exchanges with a final event that are not released.
    ended: Vec<(usize, RequestId)>,
    outcomes: Outcomes,
}

type Checked = Result<(), String>;

fn hold(holds: bool, rule: &str, of: impl std::fmt::Debug) -> Checked {
    if holds { Ok(()) } else { Err(format!("{rule}: {of:?}")) }
}

/// Plays one run.
///
/// # Errors
/// The rule that did not hold.
pub fn run(seed: u64) -> Result<Outcomes, String> {
    let mut rng = Rng::new(seed, "connections");
    let mut agents = Agents::new(NODES, CONFIG, seed);
    let rough = rng.below(3);
    agents.faults = LinkFaults {
        loss: [0.0, 10.0, 40.0][rough as usize],
        repeats: [0.0, 10.0, 40.0][rng.index(3)],
        jitter: [0, 1_000_000, 400_000_000][rng.index(3)],
    };
    let mut run = Run {
        agents,
        rng,
        lives: [0; NODES],
        is_alive: [true; NODES],
        attempts: Vec::new(),
        names: BTreeMap::new(),
        waiting: Vec::new(),
        ended: Vec::new(),
        outcomes: Outcomes::default(),
    };
    for node in 0..NODES {
        run.listen(node);
    }
    for _ in 0..STEPS {
        run.step()?;
    }
    run.settle()?;
    run.check_end()?;
    Ok(run.outcomes)
}

impl Run {
    fn listen(&mut self, node: usize) {
        let backlog = [0, 2, 256, 256][self.rng.index(4)];
        self.agents.call(node, |agent, _| agent.set_listening(backlog));
    }

    fn step(&mut self) -> Checked {
        match self.rng.below(100) {
            0..45 => self.connect(),
            45..70 => self.decide(),
            70..80 => self.give_up(),
            80..84 => self.die(),
            84..90 => self.restart(),
            _ => self.release(),
        }
        let pause = [0, 200_000, 30_000_000, SECOND][self.rng.index(4)];
        self.play(pause)
    }

    fn connect(&mut self) {
        let (node, to) = (self.rng.index(NODES), self.rng.index(NODES));
        if !self.is_alive[node] {
            return;
        }
        let number = self.attempts.len();
        let (address, data) = (self.agents.address(to), (number as u64).to_le_bytes());
        let port = port_of(number);
        let id = self.agents.call(node, |agent, now| agent.connect(now, address, port, &data));
        let id = id.expect("room for each request");
        let listeners = BTreeMap::new();
        self.attempts.push(Attempt { to, initiator: Side::Open, listeners });
        self.names.insert((node, self.lives[node], id), number);
    }

    /// Accepts or rejects a request that waits.
    fn decide(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let (node, id) = self.waiting.swap_remove(self.rng.index(self.waiting.len()));
        let (number, life) = (self.names[&(node, self.lives[node], id)], self.lives[node]);
        let accepts = self.rng.percent(75.0);
        let data = (number as u64 | life << 32).to_le_bytes();
        let local = PeerAddress::from_v4([198, 18, 9, node as u8], port_of(number));
        let result = self.agents.call(node, |agent, now| {
            if accepts { agent.accept(now, id, local, &data) } else { agent.reject(now, id, &data) }
        });
        result.expect("a request that waits can be answered");
        let side = if accepts { Side::Accepted } else { Side::Left };
        self.attempts[number].listeners.insert(life, side);
    }

    /// An application closes one side, in any state.
    fn give_up(&mut self) {
        let of_living = |&(node, life, _): &(usize, u64, RequestId)| {
            self.is_alive[node] && self.lives[node] == life
        };
        let all: Vec<_> = self.names.keys().copied().filter(of_living).collect();
        if all.is_empty() {
            return;
        }
        let key = all[self.rng.index(all.len())];
        let (node, life, id) = key;
        self.agents.call(node, |agent, now| agent.cancel(now, id));
        let side = self.side(key);
        if matches!(*side, Side::Open | Side::Accepted | Side::Up) {
            *side = Side::Left;
        }
        let is_other = |&(at, other): &(usize, RequestId)| (at, other) != (node, id);
        self.waiting.retain(is_other);
        self.ended.retain(is_other);
        debug_assert_eq!(life, self.lives[node]);
        // No event of it may follow.
        self.names.remove(&key);
    }

    fn die(&mut self) {
        let node = self.rng.index(NODES);
        self.agents.kill(node);
        self.is_alive[node] = false;
        self.leave(node);
    }

    fn restart(&mut self) {
        let node = self.rng.index(NODES);
        self.leave(node);
        self.agents.restart(node);
        self.lives[node] += 1;
        self.is_alive[node] = true;
        self.listen(node);
    }

    /// The end of a process.
    fn leave(&mut self, node: usize) {
        let life = self.lives[node];
        let all: Vec<_> = self.names.keys().copied().collect();
        for key in all.into_iter().filter(|key| (key.0, key.1) == (node, life)) {
            let side = self.side(key);
            if *side != Side::Down {
                *side = Side::Left;
            }
        }
        self.waiting.retain(|&(at, _)| at != node);
        self.ended.retain(|&(at, _)| at != node);
    }

    fn release(&mut self) {
        for (node, id) in std::mem::take(&mut self.ended) {
            self.agents.call(node, |agent, now| agent.release(now, id));
            self.names.remove(&(node, self.lives[node], id));
        }
    }

    fn side(&mut self, (node, life, id): (usize, u64, RequestId)) -> &mut Side {
        let attempt = &mut self.attempts[self.names[&(node, life, id)]];
        if !is_listeners(id) {
            return &mut attempt.initiator;
        }
        attempt.listeners.get_mut(&life).expect("a listener's exchange has begun")
    }

    fn play(&mut self, nanos: u64) -> Checked {
        // Small parts, so that the rules are checked in the order of events at all nodes.
        for _ in 0..4 {
            self.agents.play(nanos / 4);
            self.take_events()?;
        }
        Ok(())
    }

    /// Reads all events, those of initiators first: a listener's may follow from them.
    fn take_events(&mut self) -> Checked {
        let mut all = Vec::new();
        for node in 0..NODES {
            let events = self.agents.take_events(node);
            all.extend(events.into_iter().map(|(event, data)| (node, event, data)));
        }
        all.sort_by_key(|(_, event, _)| is_listeners(event.id()));
        all.into_iter().try_for_each(|(node, event, data)| self.on_event(node, event, &data))
    }

    fn on_event(&mut self, node: usize, event: ConnectEvent, data: &[u8]) -> Checked {
        let (life, id) = (self.lives[node], event.id());
        let key = (node, life, id);
        if let ConnectEvent::Requested { data_address, .. } = event {
            return self.on_requested(key, data_address, data);
        }
        hold(self.names.contains_key(&key), "1: an event of a known exchange", (node, event))?;
        let number = self.names[&key];
        let before = *self.side(key);
        let fits = match event {
            ConnectEvent::Established { .. } | ConnectEvent::AcceptFailed { .. } => {
                before == Side::Accepted
            }
            _ => before == Side::Open,
        };
        hold(fits, "1: one final event", (node, event, before))?;
        self.ended.push((node, id));
        self.waiting.retain(|&other| other != (node, id));
        let after = match event {
            ConnectEvent::Connected { peer, .. } => {
                self.check_connected(number, peer, data)?;
                Side::Up
            }
            ConnectEvent::Established { peer, .. } => {
                let attempt = &self.attempts[number];
                let holds = matches!(attempt.initiator, Side::Up | Side::Left);
                hold(holds, "4: established after connected", (number, attempt))?;
                hold(peer.port() == port_of(number), "3: the port", (number, peer))?;
                self.outcomes.up += 1;
                Side::Up
            }
            ConnectEvent::Rejected { reason, .. } => {
                let is_rejected = reason == RejectReason::Rejected;
                hold(is_rejected || data.is_empty(), "3: data of a rejection", (reason, data))?;
                self.outcomes.rejected += 1;
                Side::Down
            }
            ConnectEvent::RequestGone { .. } => {
                self.outcomes.gone += 1;
                Side::Down
            }
            ConnectEvent::AcceptFailed { .. } => {
                self.outcomes.failed += 1;
                Side::Down
            }
            _ => {
                self.outcomes.timed_out += 1;
                Side::Down
            }
        };
        *self.side(key) = after;
        Ok(())
    }

    fn on_requested(
        &mut self,
        (node, life, id): (usize, u64, RequestId),
        data_address: PeerAddress,
        data: &[u8],
    ) -> Checked {
        let number = u64::from_le_bytes(data.try_into().map_err(|_| "2: data")?) as usize;
        let attempt = self.attempts.get_mut(number).ok_or("2: a request that was made")?;
        hold(attempt.to == node, "2: at its listener", (node, number))?;
        hold(data_address.port() == port_of(number), "2: the port", (number, data_address))?;
        let is_first = attempt.listeners.insert(life, Side::Open).is_none();
        hold(is_first, "2: requested once", (node, number, id))?;
        self.names.insert((node, life, id), number);
        self.waiting.push((node, id));
        Ok(())
    }

    fn check_connected(&self, number: usize, peer: PeerAddress, data: &[u8]) -> Checked {
        let word = u64::from_le_bytes(data.try_into().map_err(|_| "3: data")?);
        let (of, life) = (word as u32 as usize, word >> 32);
        let attempt = &self.attempts[number];
        let accepted = attempt.listeners.get(&life);
        let expected = PeerAddress::from_v4([198, 18, 9, attempt.to as u8], port_of(number));
        let holds = of == number
            && peer == expected
            && matches!(accepted, Some(Side::Accepted | Side::Left | Side::Down));
        hold(holds, "3: connected by an acceptance", (number, peer, attempt))
    }

    /// A link without faults, and applications that answer everything.
    fn settle(&mut self) -> Checked {
        self.agents.faults = LinkFaults::default();
        for node in 0..NODES {
            if !self.is_alive[node] {
                self.agents.restart(node);
                self.lives[node] += 1;
                self.is_alive[node] = true;
            }
        }
        for _ in 0..40 {
            self.play(SECOND)?;
            while !self.waiting.is_empty() {
                self.decide();
            }
            self.release();
        }
        Ok(())
    }

    fn check_end(&mut self) -> Checked {
        for (number, attempt) in self.attempts.iter().enumerate() {
            let is_over = |side: &Side| !matches!(side, Side::Open | Side::Accepted);
            let all = std::iter::once(&attempt.initiator).chain(attempt.listeners.values());
            hold(all.into_iter().all(is_over), "5: no half-open connection", (number, attempt))?;
        }
        self.agents.play(40 * SECOND);
        for node in 0..NODES {
            let kept = self.agents.call(node, |agent, _| agent.requests());
            hold(kept == (0, 0), "5: nothing is kept", (node, kept))?;
            hold(self.agents.take_events(node).is_empty(), "1: no event after the end", node)?;
        }
        Ok(())
    }
}

/// The data port of a request.
const fn port_of(number: usize) -> u16 {
    10_000 + number as u16
}

/// Slots of listeners come after those of initiators.
const fn is_listeners(id: RequestId) -> bool {
    id.bits() as u32 >= CONFIG.connects
}
