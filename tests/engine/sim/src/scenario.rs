// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parameters of a run: size, application, link, and one knob or more for each class of faults.
//!
//! In: a file (TOML), a name, or a seed ([`Scenario::swarm`]). Out: plain numbers that the world
//! reads. Everything is off by default, so a printed scenario shows the faults that are on. Times
//! are in microseconds unless their names say otherwise, rates of packets are probabilities.

mod draw;

use serde::{Deserialize, Serialize};

pub use draw::FaultClass;

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
    /// The engines' peer time-out.
    pub peer_timeout_ms: u64,
    /// The choices of the application.
    pub app: App,
    /// The link without faults.
    pub link: Link,
    /// Capacities of the engines.
    pub pools: Pools,
    /// Orders promised beyond that of messages: the bits of the engine's `Order`.
    pub order: u16,
    /// Longer messages are read by their receiver, in bytes.
    pub eager_max: u32,
    /// Congestion control.
    pub congestion: Control,
    /// Largest packet of each node in turn, in bytes; empty: 1472 for all.
    pub mtu: Vec<u16>,
    /// A hop that passes shorter packets only.
    pub hop: Hop,
    /// Cards with several receive queues.
    #[serde(skip_serializing_if = "Cards::is_off")]
    pub cards: Cards,
    /// Every so many-th node sends by kernel sockets, so that the UDP checksum protects its long
    /// packets; 0: none does.
    #[serde(skip_serializing_if = "is_zero")]
    pub kernel_nodes: u32,
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
    /// Packets of a forger that knows the connection's secrets.
    pub malicious: Malicious,
    /// Nodes that do not get to run.
    pub pause: Pause,
}

/// The application, as weights of its choices.
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
    /// All nodes send to node 0 only.
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
    ManyNodes,
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
    /// Every packet with a running number that `every` divides.
    EveryNth,
    /// Handshake packets.
    Handshake,
    /// Retransmissions.
    Retransmission,
}

/// A hop that drops longer packets silently. It does so after the faults, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Hop {
    /// The longest packet that passes, in bytes; 0: no such hop.
    pub passes: u16,
    /// From this time on.
    pub from_us: u64,
    /// Until this time; 0: for ever.
    pub until_us: u64,
}

impl Hop {
    /// Whether the hop drops a packet of `len` bytes at `now`, in nanoseconds.
    #[must_use]
    pub const fn drops(&self, len: usize, now: u64) -> bool {
        let lasts = self.until_us == 0 || now < self.until_us * 1000;
        self.passes > 0 && len > self.passes as usize && now >= self.from_us * 1000 && lasts
    }
}

/// Cards with several receive queues. A packet of another queue than the port's arrives all the
/// same, and the port wants another source port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Cards {
    /// Queues of each card; 0 or 1: one.
    pub queues: u16,
    /// Whether the ports know their card's hash, and name source ports.
    pub names: bool,
    /// The keys change once in so many microseconds; 0: never.
    pub every_us: u64,
}

impl Cards {
    /// Whether each card has one queue.
    #[must_use]
    pub const fn is_off(&self) -> bool {
        self.queues <= 1
    }
}

/// Loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Loss {
    /// Of each packet, independently.
    pub iid: f64,
    /// The probability that a good path turns bad with a packet (Gilbert), ...
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
    /// A node is cut off from all others.
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
    /// Of each progress call: the application does not poll its completions.
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
    /// A progress call after an arrival comes up to so late.
    pub late_us: u64,
    /// All nodes call at multiples of this time only, for arrivals and timers; 0: at any time.
    pub step_us: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form of serde's predicates")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            nodes: 3,
            ops: 60,
            pace_us: 40,
            safety_us: 2_000,
            peer_timeout_ms: 10_000,
            app: App::default(),
            link: Link::default(),
            pools: Pools::default(),
            order: 0,
            eager_max: 128 << 10,
            congestion: Control::default(),
            mtu: Vec::new(),
            hop: Hop::default(),
            cards: Cards::default(),
            kernel_nodes: 0,
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

impl Scenario {
    /// Whether a failure needs an excuse: a network that can be bad for the whole peer time-out is
    /// one.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        let loss = &self.loss;
        let corrupt = &self.corrupt;
        let damage = corrupt.flip + corrupt.truncate + corrupt.extend + corrupt.zero;
        let bursts = loss.burst_enter > 0.0 && loss.burst_leave < 0.4;
        let lossy = loss.iid + damage > 0.0
            || loss.burst_enter > 0.0
            || loss.target.is_some()
            || self.hop.passes > 0
            || self.link.rate > 0;
        let scarce = matches!(self.pools, Pools::Minimum | Pools::ManyNodes);
        // A handshake with a cookie crosses the network four times; where hellos cross, six times.
        // Hosts take some time, too.
        let handshake_us = 8 * (self.link.delay_ns / 1000 + self.reorder.jitter_us);
        let slow = handshake_us.max(self.duplicate.later_us * 2) > self.peer_timeout_ms * 1000;
        self.malicious.rate == 0.0
            && !bursts
            && !scarce
            && !slow
            && self.stale.every_us == 0
            && (!lossy || self.peer_timeout_ms >= 10_000)
    }

    /// As TOML, only the values that differ from the default.
    ///
    /// # Errors
    /// Never in practice: numbers and names only.
    pub fn to_toml(&self) -> anyhow::Result<String> {
        let all = toml::Table::try_from(self)?;
        let usual = toml::Table::try_from(Self::default())?;
        Ok(toml::to_string(&difference(&all, &usual))?)
    }
}

/// The entries of `table` that are not in `usual`.
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
}
