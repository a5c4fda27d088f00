// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run is about: size, application, link, and one knob or more for each class of faults.
//!
//! In: a file (TOML), a name, or a seed ([`Scenario::swarm`]). Out: plain numbers that the world
//! reads. Everything off is the default, so a printed scenario shows what is on. Times are in
//! microseconds unless their names say otherwise, rates of packets are probabilities.

use crate::rng::Rng;
use serde::{Deserialize, Serialize};

/// A run's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Engines, 2 to 10,000.
    pub nodes: u32,
    /// Operations that the application posts in all.
    pub ops: u32,
    /// Mean time between two operations of one node.
    pub pace_us: u64,
    /// How long the safety phase lasts at least; it goes on until all operations are posted.
    pub safety_us: u64,
    /// The engines' death time.
    pub death_ms: u64,
    /// What the application does.
    pub app: App,
    /// The link without faults.
    pub link: Link,
    /// Capacities of the engines.
    pub pools: Pools,
    /// Orders promised beyond that of messages: the bits of the engine's `Order`.
    pub order: u16,
    /// Longer messages are pulled by their receiver, in bytes.
    pub eager_max: u32,
    /// Congestion control.
    pub congestion: Control,
    /// Largest packet of each node in turn, in bytes; empty: 1472 for all.
    pub mtu: Vec<u16>,
    /// Packets lost.
    pub loss: Loss,
    /// Packets repeated.
    pub duplicate: Duplicate,
    /// Packets overtaking one another.
    pub reorder: Reorder,
    /// Packets damaged.
    pub corrupt: Corrupt,
    /// Nodes that do not reach each other.
    pub partition: Partition,
    /// Nodes that are killed and come back.
    pub restart: Restart,
    /// Old packets that turn up again.
    pub stale: Stale,
    /// Clocks that misbehave.
    pub clock: ClockFaults,
    /// Ports without room.
    pub ring_full: RingFull,
    /// Packets made by somebody who knows the connection's secrets.
    pub malicious: Malicious,
    /// Nodes that do not get to run.
    pub pause: Pause,
}

/// What the application does, as weights of its choices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct App {
    /// Weight of sends.
    pub send: u32,
    /// Weight of receives.
    pub recv: u32,
    /// Weight of cancelling a receive.
    pub cancel: u32,
    /// Weight of removing a peer.
    pub remove_peer: u32,
    /// Weight of writes.
    pub write: u32,
    /// Weight of reads.
    pub read: u32,
    /// Weight of atomics.
    pub atomic: u32,
    /// Weight of taking a region back and registering another.
    pub register: u32,
    /// The longest message, write or read, in bytes.
    pub len_max: u64,
    /// Everybody talks to node 0 only.
    pub incast: bool,
}

/// A link between each two nodes: out of the sender's port, through a switch, into the receiver's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Link {
    /// One way, in nanoseconds.
    pub delay_ns: u64,
    /// Bytes per second of each port; 0: any number.
    pub rate: u64,
    /// Bytes that wait at most in the switch for one receiver; beyond, packets are lost.
    pub queue: u64,
    /// Bytes waiting from which packets are marked Congestion Experienced; 0: never.
    pub ecn: u64,
    /// Packets that the sender's port holds; when they wait, it is full.
    pub tx_ring: u32,
}

/// Capacities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Pools {
    /// Enough for the default application, not for ever.
    #[default]
    Small,
    /// One or two of everything.
    Minimum,
    /// For measurements.
    Large,
    /// Little of everything, so that thousands of nodes fit.
    Crowd,
}

/// Congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// By delay.
    #[default]
    Delay,
    /// A window of 32 packets.
    Fixed,
    /// Off.
    Off,
}

/// Which packets a targeted loss is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossTarget {
    /// Acknowledgments of their own.
    AckOnly,
    /// The first data packet of a connection, first transmission.
    First,
    /// Data packets that ask for an acknowledgment: the last of a burst among them.
    Last,
    /// Every packet whose running number divides by `every`.
    EveryNth,
    /// Handshake packets.
    Handshake,
    /// Retransmissions.
    Retransmission,
}

/// Loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Loss {
    /// Of each packet, independently.
    pub iid: f64,
    /// Of a good path turning bad with a packet (Gilbert), ...
    pub burst_enter: f64,
    /// ... of a bad one turning good, ...
    pub burst_leave: f64,
    /// ... and of a packet being lost on a bad one.
    pub burst_loss: f64,
    /// Packets to aim at.
    pub target: Option<LossTarget>,
    /// How many of those are lost: one in so many.
    pub every: u32,
}

/// Duplication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Duplicate {
    /// Of each packet.
    pub rate: f64,
    /// The copy comes so much later at most.
    pub later_us: u64,
}

/// Reordering.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Reorder {
    /// Extra delay of each packet at most.
    pub jitter_us: u64,
    /// Paths that packets are spread over; each is `jitter_us` longer than the one before. 0: one.
    pub paths: u32,
}

/// Corruption; each rate of each packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Corrupt {
    /// A few bits flip.
    pub flip: f64,
    /// The end is cut off.
    pub truncate: f64,
    /// Something is appended.
    pub extend: f64,
    /// A part becomes zero.
    pub zero: f64,
}

/// Partitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Partition {
    /// Mean time between two; 0: none.
    pub every_us: u64,
    /// Longest.
    pub length_us: u64,
    /// One direction of one pair only.
    pub one_way: bool,
    /// A node is cut off from everybody.
    pub isolate: bool,
    /// It comes and goes this many times within its length.
    pub flaps: u32,
}

/// Restarts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Restart {
    /// Mean time between two; 0: none.
    pub every_us: u64,
    /// Two nodes at once.
    pub both: bool,
    /// How long a node stays away at most.
    pub away_us: u64,
    /// After exactly this step (progress call of any node) node 0 restarts; 0: never.
    pub at_step: u64,
}

/// Old packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Stale {
    /// Of each packet: it is recorded.
    pub record: f64,
    /// Mean time between two injections; 0: none.
    pub every_us: u64,
}

/// Clocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct ClockFaults {
    /// Each node's rate is off by up to so many millionths.
    pub ppm: u32,
    /// Mean time between two faults; 0: none.
    pub every_us: u64,
    /// Longest standstill.
    pub stall_us: u64,
    /// Farthest jump ahead.
    pub jump_us: u64,
    /// Clocks on the wire begin shortly before they wrap.
    pub near_wrap: bool,
}

/// Ports without room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct RingFull {
    /// Of each packet that is offered.
    pub full: f64,
    /// Of each progress call: receives fewer packets than there are.
    pub short_receive: f64,
    /// Of each progress call: the application does not look at its completions.
    pub poll_late: f64,
}

/// Forged packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Malicious {
    /// Of each packet: a mutation of it follows, with a right checksum.
    pub rate: f64,
}

/// Scheduling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Pause {
    /// Mean time between two; 0: none.
    pub every_us: u64,
    /// Longest.
    pub length_us: u64,
    /// A progress call comes up to so late.
    pub late_us: u64,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            nodes: 3,
            ops: 60,
            pace_us: 40,
            safety_us: 2_000,
            death_ms: 10_000,
            app: App::default(),
            link: Link::default(),
            pools: Pools::default(),
            order: 0,
            eager_max: 32 << 10,
            congestion: Control::default(),
            mtu: Vec::new(),
            loss: Loss::default(),
            duplicate: Duplicate::default(),
            reorder: Reorder::default(),
            corrupt: Corrupt::default(),
            partition: Partition::default(),
            restart: Restart::default(),
            stale: Stale::default(),
            clock: ClockFaults::default(),
            ring_full: RingFull::default(),
            malicious: Malicious::default(),
            pause: Pause::default(),
        }
    }
}

impl Default for App {
    fn default() -> Self {
        Self {
            send: 10,
            recv: 9,
            cancel: 1,
            remove_peer: 0,
            write: 4,
            read: 3,
            atomic: 4,
            register: 1,
            len_max: 200_000,
            incast: false,
        }
    }
}

impl Default for Link {
    fn default() -> Self {
        Self { delay_ns: 5_000, rate: 0, queue: 1 << 20, ecn: 0, tx_ring: 2048 }
    }
}

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
}

impl FaultClass {
    /// All of them.
    pub const ALL: [Self; 14] = [
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
    /// A scenario by lot: each class of faults is on or off, its strength random.
    #[must_use]
    pub fn swarm(seed: u64) -> Self {
        let rng = &mut Rng::new(seed, "scenario");
        let mut s = Self {
            nodes: rng.within(2, 5) as u32,
            ops: rng.within(20, 90) as u32,
            pace_us: rng.magnitude(2, 200),
            safety_us: rng.magnitude(500, 20_000),
            death_ms: rng.pick(&[200, 1_000, 10_000]),
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
                    length_us: rng.magnitude(10, self.death_ms * 3_000),
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
                }
            }
            FaultClass::Mtu => {
                self.mtu = (0..3).map(|_| rng.pick(&[256, 576, 1452, 1472, 3470])).collect();
            }
            FaultClass::Queue => {
                self.link.rate = rng.magnitude(10_000_000, 12_500_000_000);
                self.link.queue = rng.magnitude(4_000, 1_000_000);
                self.link.ecn = self.link.queue / rng.pick(&[2, 8]);
                self.link.tx_ring = rng.pick(&[2, 64, 2048]);
            }
        }
    }

    /// The same with fewer operations and nodes, if there are any to do without.
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

    /// As TOML, only what differs from the default.
    ///
    /// # Errors
    /// Never in practice: numbers and names only.
    pub fn to_toml(&self) -> anyhow::Result<String> {
        let all = toml::Table::try_from(self)?;
        let usual = toml::Table::try_from(Self::default())?;
        Ok(toml::to_string(&difference(&all, &usual))?)
    }
}

/// What of `table` is not in `usual`.
fn difference(table: &toml::Table, usual: &toml::Table) -> toml::Table {
    let differs = |(key, value): (&String, &toml::Value)| match (value, usual.get(key)) {
        (value, Some(other)) if value == other => None,
        (toml::Value::Table(inner), Some(toml::Value::Table(other))) => {
            Some((key.clone(), toml::Value::Table(difference(inner, other))))
        }
        _ => Some((key.clone(), value.clone())),
    };
    table.iter().filter_map(differs).collect()
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
    fn a_scenario_survives_its_file() {
        for seed in 0..50 {
            let scenario = Scenario::swarm(seed);
            let text = scenario.to_toml().unwrap();
            assert_eq!(toml::from_str::<Scenario>(&text).unwrap(), scenario, "{text}");
        }
        assert_eq!(Scenario::default().to_toml().unwrap(), "");
    }

    #[test]
    fn every_class_is_met_and_can_be_left_out() {
        for class in FaultClass::ALL {
            let with = (0..200).map(Scenario::swarm).find(|s| class.is_in(s)).unwrap();
            assert!(!class.is_in(&class.without(&with)), "{class:?}");
        }
    }
}
