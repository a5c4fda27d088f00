// SPDX-License-Identifier: MIT OR Apache-2.0
//! The random application: the operations of each node, and their times.
//!
//! In: one random stream and the scenario's weights. Out: posts, noted by the [`Oracle`]. In the
//! liveness phase it only receives, until each message that was sent has found a receive.

mod oracle;
mod post;
mod state;

pub use oracle::{Access, Detail, Op, Oracle, Recv, Remote, Send, State};
pub use state::{App, CELLS, Region};

use crate::invariants::{Checked, delivery, rma};
use crate::net::address;
use crate::world::{Event, World};
use ofi_xdp_core::{Access as Rights, Context, RegionRequest};
use ofi_xdp_test_kit::memory::CANARY;
use ofi_xdp_test_kit::rng::fill_pattern;

/// Bytes of a region that are read and never written.
const FIXED_LEN: u64 = 24 << 10;
/// The largest region.
const REGION_LEN_MAX: u64 = 400_000;
/// Receives of each kind that wait in the liveness phase.
const DRAIN: usize = 1;
/// The longest pause between two looks in the liveness phase, in nanoseconds.
const DRAIN_PAUSE_MAX: u64 = 20_000_000;

impl World {
    /// Plans the first call of each node.
    pub fn plan_app(&mut self) {
        for node in 0..self.scenario.nodes {
            let at = self.app.rng.below(self.scenario.pace_us * 1000 + 1);
            self.schedule_at(self.now + at, Event::App(node));
        }
    }

    /// A node's application has its turn.
    pub(crate) fn app_event(&mut self, node: u32) -> Checked {
        if self.app.draining {
            return self.drain_event(node);
        }
        if self.app.left == 0 {
            return Ok(());
        }
        let at = self.now + self.app.rng.interval(self.scenario.pace_us * 1000);
        self.schedule_at(at, Event::App(node));
        let state = &self.nodes[node as usize];
        if state.down || state.paused_until > self.now {
            return Ok(());
        }
        self.app.left -= 1;
        self.act(node)?;
        if !self.app.rng.chance(self.scenario.ring_full.poll_late) {
            self.collect(node)?;
        }
        self.after_post(node)
    }

    fn act(&mut self, node: u32) -> Checked {
        let app = &self.scenario.app;
        let weights = [
            app.send,
            app.recv,
            app.cancel,
            app.remove_peer,
            app.write,
            app.read,
            app.atomic,
            app.register,
        ];
        let total: u32 = weights.iter().sum();
        let mut lot = self.app.rng.below(u64::from(total.max(1))) as u32;
        let choice = weights.iter().position(|&weight| {
            let hit = lot < weight;
            lot = lot.saturating_sub(weight);
            hit
        });
        match choice {
            Some(0) => self.send_something(node),
            Some(1) => self.receive_something(node),
            Some(2) => self.cancel_something(node),
            Some(3) => self.remove_a_peer(node),
            Some(kind @ 4..=6) => self.reach_out(node, kind),
            Some(7) => return self.register_anew(node),
            _ => {}
        }
        Ok(())
    }

    /// A node to send to; rarely the node itself.
    fn partner(&mut self, node: u32) -> u32 {
        let nodes = self.scenario.nodes;
        let rng = &mut self.app.rng;
        if self.scenario.app.incast && node != 0 {
            return 0;
        }
        if rng.chance(0.02) {
            return node;
        }
        (node + 1 + rng.below(u64::from(nodes) - 1) as u32) % nodes
    }

    fn some_len(&mut self) -> u64 {
        let max = self.scenario.app.len_max;
        let rng = &mut self.app.rng;
        let len = match rng.below(10) {
            0 => rng.below(9),
            1..=4 => rng.within(8, 200),
            5..=7 => rng.within(200, 6000),
            _ => rng.magnitude(1000, max.max(1000)),
        };
        len.min(max)
    }

    fn cancel_something(&mut self, node: u32) {
        let life = self.nodes[node as usize].life;
        let posted = self.oracle.posted(node, life);
        if posted.is_empty() {
            return;
        }
        let id = posted[self.app.rng.index(posted.len())];
        let engine = &mut self.nodes[node as usize].engine;
        let cancelled = engine.with_mut(|engine| engine.cancel(Context(id)));
        if let Some(Op { detail: Detail::Recv(recv), .. }) = self.oracle.op_mut(Context(id)) {
            recv.cancelled |= cancelled;
        }
    }

    fn remove_a_peer(&mut self, node: u32) {
        let other = self.partner(node);
        if other == node {
            return;
        }
        self.oracle.excuse(node, other, self.now);
        *self.oracle.removed_peers.entry(node).or_default() += 1;
        self.nodes[node as usize].engine.with_mut(|engine| {
            if let Some(peer) = engine.find(&address(other)) {
                let _ = engine.remove_peer(peer);
            }
        });
    }

    /// The region of a node, registered if there was none.
    pub fn region_of(&mut self, node: u32) -> Option<usize> {
        if let Some(number) = self.app.regions[node as usize] {
            return Some(number);
        }
        let state = &mut self.nodes[node as usize];
        if state.down {
            return None;
        }
        let len = (FIXED_LEN + CELLS * 8 + 3 * self.scenario.app.len_max).min(REGION_LEN_MAX);
        let address = self.app.rng.next() >> 8;
        let access = Rights::READ | Rights::WRITE;
        let request = RegionRequest { key: None, address, len, access };
        let (id, key) = state.engine.with_mut(|engine| engine.register_region(&request)).ok()?;
        let number = self.oracle.regions.len();
        let (node, life) = (node, state.life);
        let region = Region {
            node,
            life,
            id,
            key,
            address,
            len,
            fixed: FIXED_LEN,
            alive: true,
            next: FIXED_LEN + CELLS * 8,
        };
        let mut bytes = vec![CANARY; len as usize];
        fill_pattern(region.id_of_contents(number), 0, &mut bytes[..FIXED_LEN as usize]);
        bytes[FIXED_LEN as usize..region.writable() as usize].fill(0);
        state.memory.add_region(id, bytes);
        self.oracle.regions.push(region);
        self.app.regions[node as usize] = Some(number);
        Some(number)
    }

    fn register_anew(&mut self, node: u32) -> Checked {
        self.deregister(node, false)?;
        self.region_of(node);
        Ok(())
    }

    /// Deregisters a node's region and checks its contents.
    fn deregister(&mut self, node: u32, at_rest: bool) -> Checked {
        let Some(number) = self.app.regions[node as usize].take() else { return Ok(()) };
        let region = &mut self.oracle.regions[number];
        region.alive = false;
        let state = &mut self.nodes[node as usize];
        let known = state.engine.with_mut(|engine| engine.deregister_region(region.id));
        let bytes = state.memory.take_region(region.id);
        match (known, bytes) {
            (Ok(()), Some(bytes)) => rma::region_contents(&self.oracle, number, &bytes, at_rest),
            _ => crate::invariants::broken(19, format!("region {number} was not known")),
        }
    }

    /// Ends the safety phase: posted messages are received, and no other operation starts.
    ///
    /// # Errors
    /// An invariant is broken.
    pub fn begin_draining(&mut self) -> Checked {
        self.app.draining = true;
        for node in 0..self.scenario.nodes {
            self.cancel_receives(node)?;
            let life = self.nodes[node as usize].life;
            if !self.oracle.anything_goes {
                delivery::passed_over(&self.oracle, node, life)?;
            }
            self.schedule_at(self.now, Event::App(node));
        }
        Ok(())
    }

    /// Takes back every receive that still waits.
    ///
    /// # Errors
    /// An invariant is broken.
    pub fn cancel_receives(&mut self, node: u32) -> Checked {
        let state = &mut self.nodes[node as usize];
        let pending = |id: &&u64| self.oracle.op(**id).is_some_and(|op| op.state == State::Pending);
        for &id in self.oracle.posted(node, state.life).iter().filter(pending) {
            state.engine.with_mut(|engine| engine.cancel(Context(id)));
        }
        self.collect(node)
    }

    fn drain_event(&mut self, node: u32) -> Checked {
        if self.app.finished || self.is_drained() {
            return Ok(());
        }
        self.drain(node)?;
        self.app.pause = (self.app.pause + self.app.pause / 16).min(DRAIN_PAUSE_MAX);
        self.schedule_at(self.now + self.app.pause, Event::App(node));
        Ok(())
    }

    /// Keeps receives for everything posted.
    pub(crate) fn drain(&mut self, node: u32) -> Checked {
        let mut posted = false;
        for tagged in [false, true] {
            // bound: DRAIN receives
            while self.waiting(node, tagged) < DRAIN && self.post_drain(node, tagged) {
                posted = true;
                self.collect(node)?;
            }
        }
        if posted {
            self.wake(node, self.now + 100);
        }
        Ok(())
    }

    /// Receives of a kind that a node has posted and that have not ended. A receive for particular
    /// tags or for one source does not count: the safety phase left only those of them that a
    /// message has matched.
    fn waiting(&self, node: u32, tagged: bool) -> usize {
        let life = self.nodes[node as usize].life;
        let posted = self.oracle.posted(node, life);
        let recent = &posted[posted.len().saturating_sub(4 * DRAIN + 8)..];
        let counts = |id: &&u64| {
            self.oracle.recv(**id).is_some_and(|(op, recv)| {
                op.state == State::Pending && recv.tag.is_some() == tagged
            })
        };
        recent.iter().filter(counts).count()
    }

    /// Whether each posted operation has ended, and no message is stored or in flight. A message in
    /// flight may be one whose sender has already ended.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let at_rest = |node: &crate::node::Node| {
            node.engine.with(|engine| !engine.has_work() && engine.stored_messages() == 0)
        };
        let silent = self.oracle.open == 0 && self.packets.under_way() == 0;
        silent && self.nodes.iter().all(at_rest)
    }

    /// Checks the contents of every region at the end of a run.
    ///
    /// # Errors
    /// An invariant is broken.
    pub fn check_regions(&mut self) -> Checked {
        (0..self.scenario.nodes).try_for_each(|node| self.deregister(node, true))
    }
}
