// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random scenarios: each class of faults on or off, its strength random. Also smaller scenarios,
//! for the search for the smallest one that still fails.
//!
//! In: a seed, or a scenario. Out: scenarios. Called by `swarm`, and by tests that want a scenario
//! of every kind.

use super::{
    App, Cards, ClockFaults, Control, Corrupt, Duplicate, Hop, Link, Loss, LossTarget, Malicious,
    Partition, Pause, Pools, Reorder, Restart, RingFull, Scenario, Stale,
};
use ofi_xdp_test_kit::rng::Rng;

/// A class of faults that a run can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the scenario's fields")]
pub enum FaultClass {
    Loss,
    Duplicate,
    Reorder,
    Corrupt,
    Partition,
    Restart,
    Stale,
    Clock,
    RingFull,
    Memory,
    Malicious,
    Pause,
    Mtu,
    Queue,
    Hop,
}

impl FaultClass {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Loss,
        Self::Duplicate,
        Self::Reorder,
        Self::Corrupt,
        Self::Partition,
        Self::Restart,
        Self::Stale,
        Self::Clock,
        Self::RingFull,
        Self::Memory,
        Self::Malicious,
        Self::Pause,
        Self::Mtu,
        Self::Queue,
        Self::Hop,
    ];

    /// `scenario` without this class.
    #[must_use]
    pub fn without(self, scenario: &Scenario) -> Scenario {
        let mut s = scenario.clone();
        match self {
            Self::Loss => s.loss = Loss::default(),
            Self::Duplicate => s.duplicate = Duplicate::default(),
            Self::Reorder => s.reorder = Reorder::default(),
            Self::Corrupt => s.corrupt = Corrupt::default(),
            Self::Partition => s.partition = Partition::default(),
            Self::Restart => {
                s.restart = Restart::default();
                s.app.remove_peer = 0;
            }
            Self::Stale => s.stale = Stale::default(),
            Self::Clock => s.clock = ClockFaults::default(),
            Self::RingFull => {
                s.ring_full = RingFull::default();
                s.app.write = App::default().write;
            }
            Self::Memory => s.pools = Pools::Small,
            Self::Malicious => s.malicious = Malicious::default(),
            Self::Pause => s.pause = Pause::default(),
            Self::Mtu => s.mtu = Vec::new(),
            Self::Hop => s.hop = Hop::default(),
            Self::Queue => s.link = Link { delay_ns: s.link.delay_ns, ..Link::default() },
        }
        s
    }

    /// Whether `scenario` has this class.
    #[must_use]
    pub fn is_in(self, scenario: &Scenario) -> bool {
        self.without(scenario) != *scenario
    }
}

impl Scenario {
    /// A random scenario: each class of faults is on or off, its strength random.
    #[must_use]
    pub fn swarm(seed: u64) -> Self {
        let rng = &mut Rng::new(seed, "scenario");
        let mut s = Self {
            nodes: rng.within(2, 5) as u32,
            ops: rng.within(20, 90) as u32,
            pace_us: rng.magnitude(2, 200),
            safety_us: rng.magnitude(500, 20_000),
            // The shortest ends within the faults, others where a process stands still often.
            peer_timeout_ms: rng.pick(&[5, 200, 1_000, 10_000]),
            ..Self::default()
        };
        s.link.delay_ns = rng.magnitude(500, 200_000);
        s.app.len_max = rng.pick(&[200, 5_000, 60_000, 200_000]);
        s.app.recv = rng.pick(&[3, 9, 12]);
        s.app.incast = rng.chance(0.1);
        let some = (rng.next() & 0xff) as u16;
        s.order = rng.pick(&[0, 0xff, some]);
        s.eager_max = rng.pick(&[1_000, 8_000, 32_000, u32::MAX]);
        s.congestion = rng.pick(&[Control::Delay, Control::Delay, Control::Fixed, Control::Off]);
        for class in FaultClass::ALL {
            let often = if class == FaultClass::Malicious { 0.08 } else { 0.3 };
            if rng.chance(often) {
                s.turn_on(class, rng);
            }
        }
        if rng.chance(0.06) {
            // Long paths. With a shorter time-out each loss on the path would end the peer.
            s.link.delay_ns = rng.pick(&[3_000_000, 20_000_000, 40_000_000]);
            s.peer_timeout_ms = 10_000;
        }
        if rng.chance(0.2) {
            let every_us = rng.pick(&[0, s.safety_us / 3 + 1]);
            s.cards = Cards { queues: rng.pick(&[2, 4, 16]), names: rng.chance(0.3), every_us };
        }
        s.kernel_nodes = rng.pick(&[0, 0, 1, 2]);
        s
    }

    /// Turns a class of faults on, as strong as `rng` says.
    fn turn_on(&mut self, class: FaultClass, rng: &mut Rng) {
        let span = self.safety_us;
        match class {
            FaultClass::Loss => self.loss = Loss::swarm(rng),
            FaultClass::Duplicate => {
                let later_us = rng.pick(&[1, 100, 10_000, 1_000_000, 10_000_000]);
                self.duplicate = Duplicate { rate: rng.unit() / 2.0, later_us };
            }
            FaultClass::Reorder => {
                let jitter_us = rng.magnitude(1, self.link.delay_ns / 50 + 2);
                self.reorder = Reorder { jitter_us, paths: rng.pick(&[0, 0, 2, 4]) };
            }
            FaultClass::Corrupt => {
                let mut rate = || if rng.chance(0.5) { rng.unit() / 20.0 } else { 0.0 };
                let (flip, truncate, extend, zero) = (rate(), rate(), rate(), rate());
                self.corrupt = Corrupt { flip, truncate, extend, zero };
            }
            FaultClass::Partition => {
                self.partition = Partition {
                    every_us: span / 2 + 100,
                    length_us: rng.magnitude(10, self.peer_timeout_ms * 3_000),
                    one_way: rng.chance(0.3),
                    isolate: rng.chance(0.3),
                    flaps: rng.pick(&[0, 0, 5]),
                }
            }
            FaultClass::Restart => {
                self.app.remove_peer = rng.pick(&[0, 1]);
                self.restart = Restart {
                    every_us: span / 3 + 50,
                    both: rng.chance(0.2),
                    away_us: rng.pick(&[0, 10, 1_000, 100_000]),
                    at_step: 0,
                }
            }
            FaultClass::Stale => {
                self.stale = Stale { record: 0.2, every_us: rng.magnitude(20, 2_000) };
            }
            FaultClass::Clock => {
                self.clock = ClockFaults {
                    ppm: rng.pick(&[0, 100, 500]),
                    every_us: span / 3 + 50,
                    stall_us: rng.magnitude(1, 100_000),
                    jump_us: rng.magnitude(1, 3_600_000_000),
                    near_wrap: rng.chance(0.5),
                }
            }
            FaultClass::RingFull => {
                let poll_late = rng.pick(&[0.0, 0.5, 1.0]);
                self.app.write = rng.pick(&[4, 30]);
                self.ring_full =
                    RingFull { full: rng.unit() * 0.8, short_receive: rng.unit(), poll_late };
            }
            FaultClass::Memory => self.pools = Pools::Minimum,
            FaultClass::Malicious => self.malicious = Malicious { rate: rng.unit() / 10.0 },
            FaultClass::Pause => {
                self.pause = Pause {
                    every_us: span / 3 + 50,
                    length_us: rng.magnitude(1, 5_000_000),
                    late_us: rng.pick(&[0, 1, 20, 500]),
                    step_us: 0,
                }
            }
            FaultClass::Mtu => {
                self.mtu = (0..3).map(|_| rng.pick(&[256, 576, 1452, 1472, 3470])).collect();
            }
            FaultClass::Hop => {
                let until_us = rng.pick(&[0, span / 2, 20_000_000]);
                let passes = rng.pick(&[1216, 1280, 1300, 1400, 1472]);
                self.hop = Hop { passes, from_us: rng.below(span / 2 + 1), until_us };
                self.mtu = vec![rng.pick(&[1472, 3470, 8972])];
            }
            FaultClass::Queue => {
                self.link.rate = rng.magnitude(10_000_000, 12_500_000_000);
                self.link.queue = rng.magnitude(4_000, 1_000_000);
                self.link.ecn = self.link.queue / rng.pick(&[2, 8]);
                self.link.tx_ring = rng.pick(&[2, 64, 2048]);
            }
        }
    }

    /// A copy with fewer operations and nodes, if that is possible.
    #[must_use]
    pub fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        if self.ops > 1 {
            all.push(Self { ops: self.ops / 2, ..self.clone() });
            all.push(Self { ops: self.ops - 1, ..self.clone() });
        }
        if self.nodes > 2 {
            all.push(Self { nodes: self.nodes.div_ceil(2).max(2), ..self.clone() });
        }
        if self.app.len_max > 100 {
            let app = App { len_max: self.app.len_max / 8, ..self.app.clone() };
            all.push(Self { app, ..self.clone() });
        }
        all
    }
}

impl Loss {
    fn swarm(rng: &mut Rng) -> Self {
        let mut loss = Self::default();
        match rng.below(4) {
            0 => loss.iid = rng.unit() * 0.3,
            1 => loss.iid = rng.unit() * 0.02,
            2 => {
                loss.burst_enter = rng.unit() * 0.05;
                loss.burst_leave = 0.05 + rng.unit() * 0.5;
                loss.burst_loss = 0.5 + rng.unit() * 0.5;
            }
            _ => {
                loss.target = Some(rng.pick(&[
                    LossTarget::AckOnly,
                    LossTarget::First,
                    LossTarget::Last,
                    LossTarget::EveryNth,
                    LossTarget::Handshake,
                    LossTarget::Retransmission,
                ]));
                loss.every = rng.within(2, 9) as u32;
            }
        }
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_met_and_can_be_left_out() {
        for class in FaultClass::ALL {
            let with = (0..200).map(Scenario::swarm).find(|s| class.is_in(s)).unwrap();
            assert!(!class.is_in(&class.without(&with)), "{class:?}");
        }
    }
}
