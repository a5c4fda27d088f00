// SPDX-License-Identifier: MIT OR Apache-2.0
//! The world: nodes, network and application on virtual time, one event after the other.
//!
//! In: a seed and a scenario. Out: the first violation, or none. Events stand in a binary heap by
//! time and by the order of their making, so a run is the same whenever it is repeated. Bound:
//! [`liveness::steps`].

use crate::app::{App, Oracle};
use crate::coverage::{Coverage, Transition};
use crate::cross::{Cross, CrossEvent, CrossPacket};
use crate::invariants::protocol::{Observer, Sender};
use crate::invariants::{Checked, Violation, broken, liveness, resources};
use crate::net::{Hop, Net, Origin, PacketId, PacketPool, address};
use crate::node::{NEVER, Node, config};
use crate::scenario::Scenario;
use crate::trace::Trace;
use crate::wire::{self, View};
use ofi_xdp_core::{Budget, Completion, Datagram, Instant, WantedPort, drive};
use ofi_xdp_test_kit::queue::QueuePort;
use ofi_xdp_test_kit::rng::Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The least time between two progress calls of a node.
const TICK: u64 = 100;

/// The engine is audited after every so many progress calls: an audit costs more than a call.
const AUDIT_EVERY: u64 = 8;

/// One of so many tampered packets is ingested between two digests of the whole engine.
const DIGEST_EVERY: u64 = 16;

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// A packet reaches the switch.
    Switch(PacketId),
    /// A packet reaches its receiver.
    Arrival(PacketId),
    /// The next event of a packet of cross traffic.
    Cross(CrossEvent, CrossPacket),
    /// A node makes a progress call.
    Wake(u32),
    /// A node's application does something.
    App(u32),
    /// A path is cut or healed.
    Cut(u32, u32, bool),
    /// A killed node comes back.
    Up(u32),
    /// A fault of a class comes.
    Partition,
    /// See [`Event::Partition`].
    Restart,
    /// See [`Event::Partition`].
    Clock,
    /// See [`Event::Partition`].
    Pause,
    /// See [`Event::Partition`].
    Stale,
}

/// All of it.
#[derive(Debug)]
pub struct World {
    /// The parameters of the run.
    pub scenario: Scenario,
    /// Nanoseconds since the beginning.
    pub now: u64,
    /// The engines.
    pub nodes: Vec<Node>,
    /// Packets under way.
    pub packets: PacketPool,
    /// Their way.
    pub net: Net,
    /// Cross traffic.
    pub cross: Cross,
    /// The application of the nodes.
    pub app: App,
    /// The required results.
    pub oracle: Oracle,
    /// The observer of the wire.
    pub observer: Observer,
    /// The transitions that occurred.
    pub coverage: Coverage,
    /// The recording.
    pub trace: Trace,
    /// Random faults, and lives of nodes.
    pub faults: Rng,
    /// The random order of the nodes.
    pub schedule: Rng,
    /// Progress calls so far.
    pub steps: u64,
    suspects: u64,
    /// Completions, where a scenario wants to see them.
    pub log: Option<Vec<(u32, Completion)>>,
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    hops: Vec<(u64, Hop, PacketId)>,
    cross_out: Vec<(u64, CrossEvent, CrossPacket)>,
    out: Vec<PacketId>,
    /// Hellos under way, by path: two ways at once is a crossing.
    hellos: BTreeMap<(u32, u32), u64>,
}

impl World {
    /// The world of a seed, before anything has happened.
    #[must_use]
    pub fn new(seed: u64, scenario: &Scenario) -> Self {
        let faults = &mut Rng::new(seed, "faults");
        let config = config(scenario);
        let node = |number| Node::new(scenario, number, config.clone(), faults);
        let nodes = (0..scenario.nodes).map(node).collect();
        let mut oracle = Oracle::default();
        oracle.strict = scenario.is_strict();
        oracle.anything_goes = scenario.malicious.rate > 0.0;
        Self {
            scenario: scenario.clone(),
            now: 0,
            nodes,
            packets: PacketPool::default(),
            net: Net::new(seed, scenario.nodes),
            cross: Cross::default(),
            app: App::new(seed, scenario),
            oracle,
            observer: Observer::default(),
            coverage: Coverage::default(),
            trace: Trace::default(),
            faults: faults.clone(),
            schedule: Rng::new(seed, "schedule"),
            steps: 0,
            suspects: 0,
            log: None,
            heap: BinaryHeap::new(),
            sequence: 0,
            hops: Vec::new(),
            cross_out: Vec::new(),
            out: Vec::new(),
            hellos: BTreeMap::new(),
        }
    }

    /// Puts an event into the heap.
    pub fn schedule_at(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.heap.push(Reverse((at, self.sequence, event)));
    }

    /// Makes sure that a node runs at `at` at the latest.
    pub fn wake(&mut self, node: u32, at: u64) {
        let state = &mut self.nodes[node as usize];
        let at = at.max(state.paused_until).max(self.now);
        if at < state.wake_at {
            state.wake_at = at;
            self.schedule_at(at, Event::Wake(node));
        }
    }

    /// The time of a node's clock.
    #[must_use]
    pub fn local(&self, node: u32) -> Instant {
        Instant::from_nanos(self.nodes[node as usize].clock.read(self.now))
    }

    /// Lets the next event happen, unless it comes after `until`. Returns whether one did.
    ///
    /// # Errors
    /// A violation.
    pub fn step(&mut self, until: u64) -> Result<bool, Violation> {
        let Some(&Reverse((at, _, event))) = self.heap.peek() else { return Ok(false) };
        if at > until {
            return Ok(false);
        }
        self.heap.pop();
        self.now = at;
        self.happen(event).map_err(|(invariant, what)| Violation { invariant, what, at })?;
        Ok(true)
    }

    /// Lets everything happen up to `until`.
    ///
    /// # Errors
    /// A violation.
    pub fn run_until(&mut self, until: u64) -> Result<(), Violation> {
        // bound: `liveness::steps`
        while self.step(until)? {}
        self.now = self.now.max(until);
        Ok(())
    }

    /// Lets everything happen until nothing is left to happen, or until `until`.
    ///
    /// # Errors
    /// A violation.
    pub fn run_until_silent(&mut self, until: u64) -> Result<(), Violation> {
        // bound: `liveness::steps`
        while self.step(until)? {}
        Ok(())
    }

    /// When the next event comes.
    #[must_use]
    pub fn next_event(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    fn happen(&mut self, event: Event) -> Checked {
        match event {
            Event::Switch(id) => {
                let packet = self.packets.at(id);
                match self.net.enqueue(&self.scenario, self.now, packet) {
                    Some(at) => self.schedule_at(at, Event::Arrival(id)),
                    None => self.packets.release(id),
                }
            }
            Event::Arrival(id) => self.arrive(id),
            Event::Cross(event, packet) => {
                let (net, out) = (&mut self.net, &mut self.cross_out);
                self.cross.happen(&self.scenario, net, self.now, (event, packet), out);
                self.plan_cross();
            }
            Event::Wake(node) => {
                let state = &mut self.nodes[node as usize];
                if state.wake_at == self.now {
                    state.wake_at = NEVER;
                    if state.paused_until > self.now {
                        self.wake(node, 0);
                    } else if !state.down {
                        return self.progress(node);
                    }
                }
            }
            Event::App(node) => return self.app_event(node),
            fault => self.fault(fault),
        }
        Ok(())
    }

    /// Starts cross traffic.
    pub fn start_cross(&mut self, cross: Cross) {
        self.cross = cross;
        self.cross.send(&self.scenario, self.now, None, &mut self.cross_out);
        self.plan_cross();
    }

    fn plan_cross(&mut self) {
        let mut out = std::mem::take(&mut self.cross_out);
        for (at, event, packet) in out.drain(..) {
            self.schedule_at(at, Event::Cross(event, packet));
        }
        self.cross_out = out;
    }

    fn arrive(&mut self, id: PacketId) {
        let (from, to) = (self.packets.at(id).from, self.packets.at(id).to);
        if self.packets.at(id).bytes.get(1) == Some(&wire::HELLO) {
            self.hellos.remove(&(from, to));
        }
        match self.nodes.get_mut(to as usize) {
            Some(node) if !node.down => {
                node.inbox.push_back(id);
                let late = self.scenario.pause.late_us * 1000;
                let late = if late > 0 { self.schedule.below(late) } else { 0 };
                self.wake(to, self.in_step(self.now + late));
            }
            _ => self.packets.release(id),
        }
    }

    /// A progress call, as `fi_cq_read` makes it.
    fn progress(&mut self, node: u32) -> Checked {
        self.steps += 1;
        liveness::steps(self.steps, &self.scenario)?;
        let forced = self.scenario.restart.at_step;
        let clean = self.ingest_suspects(node)?;
        self.call_drive(node, Budget::PROGRESS, clean)?;
        let busy_elsewhere =
            self.net.faulty && self.schedule.chance(self.scenario.ring_full.poll_late);
        if busy_elsewhere {
            self.wake(node, self.now + 5_000);
        } else {
            self.collect(node)?;
        }
        if self.steps == forced {
            self.restart(node);
            return Ok(());
        }
        let local = self.local(node);
        let state = &mut self.nodes[node as usize];
        let active = state.config.connections;
        let audited = self.steps.is_multiple_of(AUDIT_EVERY);
        let path = 2 * self.scenario.link.delay_ns;
        let is_measurable =
            self.scenario.clock.every_us == 0 && self.scenario.malicious.rate == 0.0;
        state.engine.with_mut(|engine| {
            if audited {
                resources::audit(engine)?;
                if is_measurable {
                    resources::round_trips(engine, address(node), path)?;
                }
            }
            resources::timers(engine, local, active)
        })?;
        if self.app.draining && !self.app.finished && self.oracle.open > 0 {
            self.drain(node)?;
        }
        self.plan(node);
        Ok(())
    }

    /// When this node runs again.
    fn plan(&mut self, node: u32) {
        let state = &self.nodes[node as usize];
        let (busy, poll_at) =
            state.engine.with(|engine| (engine.wants_transmit(), engine.poll_at()));
        let timer = poll_at.map(|at| state.clock.world_time(at.as_nanos()).max(self.now + TICK));
        let again = !state.inbox.is_empty();
        if busy {
            let drained = self.net.drains_at(node).saturating_sub(self.now);
            let pause = if drained > 0 { drained.min(2_000) } else { 1_000 };
            self.wake(node, self.now + pause.max(TICK));
        }
        if again {
            self.wake(node, self.now + TICK);
        }
        if let Some(at) = timer {
            self.wake(node, self.in_step(at));
        }
    }

    /// The first time from `at` on at which nodes poll.
    fn in_step(&self, at: u64) -> u64 {
        match self.scenario.pause.step_us * 1000 {
            0 => at,
            step => at.next_multiple_of(step),
        }
    }

    /// 13: packets that were tampered with are ingested one by one, before the rest. Those that are
    /// refused must change nothing. Returns the number of valid ones that follow.
    fn ingest_suspects(&mut self, node: u32) -> Result<u16, (u8, String)> {
        let local = self.local(node);
        let state = &mut self.nodes[node as usize];
        // bound: packets that have arrived
        while let Some(&id) = state.inbox.front() {
            let packet = self.packets.at(id);
            if matches!(packet.origin, Origin::Sent | Origin::Copy) {
                break;
            }
            state.inbox.pop_front();
            let datagram = Datagram {
                coverage: packet.coverage(),
                to_group: false,
                from: address(packet.from),
                bytes: &packet.bytes,
                congestion_experienced: packet.marked,
                wanted: WantedPort::KEEP,
            };
            let memory = &mut state.memory;
            self.suspects += 1;
            let looked_at = self.suspects.is_multiple_of(DIGEST_EVERY);
            let unchanged = state.engine.with_mut(|engine| {
                if !looked_at {
                    engine.ingest(local, datagram, memory);
                    return Ok(());
                }
                resources::refused_without_trace(engine, local, |engine| {
                    engine.ingest(local, datagram, memory);
                })
            });
            self.packets.release(id);
            unchanged?;
        }
        let sound =
            |&id: &PacketId| matches!(self.packets.at(id).origin, Origin::Sent | Origin::Copy);
        Ok(state.inbox.iter().copied().take_while(sound).count().min(1 << 15) as u16)
    }

    /// Calls the production loop, and gives its packets to the network.
    fn call_drive(&mut self, node: u32, budget: Budget, receive_max: u16) -> Checked {
        let local = self.local(node);
        let faulty = self.net.faulty;
        let full = &self.scenario.ring_full;
        let short = faulty && self.schedule.chance(full.short_receive);
        let mut room = self.net.room(&self.scenario, node, self.now);
        let mut out = std::mem::take(&mut self.out);
        let state = &mut self.nodes[node as usize];
        state.change_key(&self.scenario, self.now);
        let Node { engine, memory, inbox, limits, card, .. } = state;
        let full = if faulty { full.full } else { 0.0 };
        let mut port = QueuePort {
            node,
            limits: *limits,
            inbox,
            packets: &mut self.packets,
            out: &mut out,
            receive_max: if short { receive_max.min(1) } else { receive_max },
            card: card.as_mut(),
            room: || {
                let is_full = room == 0 || self.schedule.chance(full);
                self.net.counts.ring_full += u64::from(is_full);
                room = room.saturating_sub(1);
                !is_full
            },
        };
        // A node that is not late by its scenario sleeps until a packet wakes it.
        let sleeps = self.scenario.pause == crate::scenario::Pause::default();
        let (progress, timers) = engine.with_mut(|engine| {
            if sleeps && budget.rx_packets > 0 {
                engine.awake(local);
            }
            let progress = drive(engine, &mut port, memory, local, budget);
            (progress, engine.stats().tail_probes + engine.stats().timeouts)
        });
        let progress = progress.map_err(|error| (23, error.to_string()))?;
        resources::budget(progress, budget)?;
        if let Some(found) = memory.violation.take() {
            return broken(found.invariant as u8, format!("node {node}: {}", found.what));
        }
        for id in out.drain(..) {
            self.leave(id, timers)?;
        }
        self.out = out;
        Ok(())
    }

    /// A packet leaves its sender.
    fn leave(&mut self, id: PacketId, timers: u64) -> Checked {
        let packet = self.packets.at(id);
        let (from, to) = (packet.from, packet.to);
        self.trace.record(self.now, from, to, &packet.bytes);
        let Some(view) = View::new(&packet.bytes) else {
            return broken(18, "a packet without a header");
        };
        self.coverage.packet(&view);
        if view.kind == wire::HELLO {
            self.hellos.insert((from, to), self.now);
            let crossed = self.hellos.contains_key(&(to, from));
            self.coverage.add_count(Transition::CrossedHello, u64::from(crossed));
        }
        if !self.oracle.anything_goes {
            // Clocks that jump make the sender's round trips short, and a full port lets a probe
            // and a retransmission leave together. In all other cases the limit is one round trip.
            let trusted = self.scenario.clock.every_us == 0
                && self.scenario.ring_full.full == 0.0
                && self.scenario.link.tx_ring > 64;
            let round_trip_min = u64::from(trusted) * self.scenario.link.delay_ns * 19 / 10;
            let sender = Sender {
                from,
                to,
                now: self.now,
                timers,
                round_trip_min: round_trip_min.saturating_sub(500),
            };
            self.observer.observe(sender, &view)?;
        }
        let mut hops = std::mem::take(&mut self.hops);
        self.net.submit(&self.scenario, self.now, id, &mut self.packets, &mut hops);
        for (at, hop, id) in hops.drain(..) {
            let event = match hop {
                Hop::Switch => Event::Switch(id),
                Hop::Arrival => Event::Arrival(id),
            };
            self.schedule_at(at, event);
        }
        self.hops = hops;
        Ok(())
    }

    /// The progress that a posting call makes after the post.
    ///
    /// # Errors
    /// An invariant is broken.
    pub fn after_post(&mut self, node: u32) -> Checked {
        if self.nodes[node as usize].paused_until > self.now {
            return Ok(());
        }
        self.call_drive(node, Budget::POST, 0)?;
        self.wake(node, self.now + TICK);
        Ok(())
    }
}
