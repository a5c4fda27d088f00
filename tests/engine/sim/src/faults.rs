// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults of nodes: partitions, restarts, clocks, pauses, old packets. (Faults
//! of packets on the network are in [`net`](crate::net).)
//!
//! In: fault events, which come at random while the safety phase lasts. Out: changed nodes, and
//! excuses for the oracle.

use crate::world::{Event, World};

impl World {
    /// Plans the first fault of each class.
    pub fn plan_faults(&mut self) {
        for event in [Event::Partition, Event::Restart, Event::Clock, Event::Pause, Event::Stale] {
            self.plan_fault(event);
        }
    }

    fn plan_fault(&mut self, event: Event) {
        let s = &self.scenario;
        let mean = match event {
            Event::Partition => s.partition.every_us,
            Event::Restart => s.restart.every_us,
            Event::Clock => s.clock.every_us,
            Event::Pause => s.pause.every_us,
            Event::Stale => s.stale.every_us,
            _ => 0,
        };
        if mean > 0 {
            let at = self.now + self.faults.interval(mean * 1000);
            self.schedule_at(at, event);
        }
    }

    /// A fault event happens.
    pub(crate) fn fault(&mut self, event: Event) {
        match event {
            Event::Cut(from, to, on) => {
                if self.net.faulty {
                    self.net.cut(from, to, on);
                    self.oracle.excuse(from, to, self.now);
                }
                return;
            }
            Event::Up(node) => return self.up(node),
            _ if !self.net.faulty => return,
            Event::Partition => self.partition(),
            Event::Restart => {
                let count = if self.scenario.restart.both { 2 } else { 1 };
                for _ in 0..count {
                    let node = self.faults.below(u64::from(self.scenario.nodes)) as u32;
                    self.restart(node);
                }
            }
            Event::Clock => self.clock_fault(),
            Event::Pause => self.pause(),
            Event::Stale => self.inject_stale(),
            _ => {}
        }
        self.plan_fault(event);
    }

    fn partition(&mut self) {
        self.net.counts.partitions += 1;
        let nodes = u64::from(self.scenario.nodes);
        let one = self.faults.below(nodes) as u32;
        let other = (one + 1 + self.faults.below(nodes - 1) as u32) % self.scenario.nodes;
        let settings = self.scenario.partition.clone();
        let length = self.faults.magnitude(1_000, settings.length_us * 1_000);
        let mut paths = vec![(one, other)];
        if settings.isolate {
            paths = (0..self.scenario.nodes).filter(|&n| n != one).map(|n| (one, n)).collect();
        }
        if !settings.one_way {
            paths.extend(paths.clone().iter().map(|&(from, to)| (to, from)));
        }
        let periods = 2 * u64::from(settings.flaps) + 1;
        for (from, to) in paths {
            for period in 0..=periods {
                let at = self.now + length * period / periods;
                self.schedule_at(at, Event::Cut(from, to, period % 2 == 0));
            }
        }
        self.trace.note(self.now, &format!("partition of {one} for {length} ns"));
    }

    /// Kills a node. It comes back at once or later.
    pub fn restart(&mut self, node: u32) {
        if self.nodes[node as usize].down {
            return;
        }
        self.net.counts.restarts += 1;
        self.trace.note(self.now, &format!("restart of {node}"));
        self.bury(node);
        self.nodes[node as usize].down = true;
        self.oracle.vanish(node);
        for region in self.oracle.regions.iter_mut().filter(|region| region.node == node) {
            region.alive = false;
        }
        self.app.reborn(node);
        self.oracle.excuse_node(node, self.scenario.nodes, self.now);
        let away = self.scenario.restart.away_us * 1000;
        let at = self.now + if away > 0 { self.faults.below(away) } else { 0 };
        self.schedule_at(at, Event::Up(node));
    }

    /// Adds the counters of an engine to the totals before its end; its packets end with it.
    pub fn bury(&mut self, node: u32) {
        let state = &mut self.nodes[node as usize];
        state.engine.with(|engine| self.coverage.stats(engine.stats()));
        for id in state.inbox.drain(..) {
            self.packets.release(id);
        }
    }

    fn up(&mut self, node: u32) {
        if !self.nodes[node as usize].down {
            return;
        }
        self.nodes[node as usize].reincarnate(&mut self.faults);
        self.oracle.excuse_node(node, self.scenario.nodes, self.now);
        self.oracle.removed_peers.remove(&node);
        self.app.reborn(node);
    }

    fn clock_fault(&mut self) {
        self.net.counts.clock_faults += 1;
        let node = self.faults.below(u64::from(self.scenario.nodes)) as u32;
        let settings = &self.scenario.clock;
        let clock = &mut self.nodes[node as usize].clock;
        if self.faults.chance(0.5) {
            clock.stall(self.now, self.faults.magnitude(100, settings.stall_us * 1000));
        } else {
            clock.jump(self.now, self.faults.magnitude(100, settings.jump_us * 1000));
        }
        self.oracle.excuse_node(node, self.scenario.nodes, self.now);
        self.nodes[node as usize].wake_at = crate::node::NEVER;
        self.wake(node, self.now);
    }

    fn pause(&mut self) {
        self.net.counts.pauses += 1;
        let node = self.faults.below(u64::from(self.scenario.nodes)) as u32;
        let length = self.faults.magnitude(1_000, self.scenario.pause.length_us * 1000);
        let state = &mut self.nodes[node as usize];
        state.paused_until = state.paused_until.max(self.now + length);
        let end = state.paused_until;
        if length > self.scenario.peer_timeout_ms * 250_000 {
            self.oracle.excuse_node(node, self.scenario.nodes, end);
        }
    }

    fn inject_stale(&mut self) {
        let Some(id) = self.net.replay(&mut self.packets) else { return };
        // A copy is not faster than the link: the packet may have been recorded just now.
        let delay = self.scenario.link.delay_ns;
        let later = delay + self.faults.below(delay + 1);
        self.schedule_at(self.now + later, Event::Arrival(id));
    }

    /// The safety phase is over: there are no faults any more.
    pub fn end_faults(&mut self) {
        self.net.heal();
        for node in 0..self.scenario.nodes {
            self.up(node);
            if self.oracle.strict {
                self.oracle.excuse_node(node, self.scenario.nodes, self.now);
            }
            self.nodes[node as usize].paused_until = 0;
            self.nodes[node as usize].wake_at = crate::node::NEVER;
            self.wake(node, self.now);
        }
    }
}
