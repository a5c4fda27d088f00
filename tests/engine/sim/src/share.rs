// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares of a bottleneck: of streams of the engine among themselves, and beside cross traffic.
//!
//! In: a bottleneck and its streams. Out: the bytes of each that passed it in a time. The numbers
//! are the same on every machine. Callers: the command `shares`, the corpus.

use crate::cross::Cross;
use crate::invariants::{Violation, broken};
use crate::measure::finish;
use crate::scenario::{Link, Pools, Scenario};
use crate::world::World;

/// A bottleneck, and its streams.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    /// Bits per second.
    pub rate: u64,
    /// The round trip of a stream, in microseconds.
    pub round_trip_us: u64,
    /// The round trip of every second stream is so many times as long.
    pub far: u64,
    /// The longest wait in its queue, in microseconds.
    pub queue_us: u64,
    /// The largest packet.
    pub payload_max: u16,
    /// Streams of the engine, each from a node of its own.
    pub streams: u32,
    /// Streams of cross traffic.
    pub cross: u32,
    /// Whether the streams connect beside cross traffic: they never see the queue empty.
    pub late: bool,
    /// Time from the start of cross traffic to that of the streams, in microseconds.
    pub lead_us: u64,
    /// Time from there to the measurement.
    pub warm_up_us: u64,
    /// Duration of the measurement.
    pub time_us: u64,
    /// Time from the start of a stream to that of the next one, in microseconds.
    pub apart_us: u64,
    /// Bytes of a message.
    pub message: u64,
}

/// The shares that were measured.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// Bytes per second of each stream of the engine.
    pub own: Vec<f64>,
    /// Bytes per second of each stream of cross traffic.
    pub cross: Vec<f64>,
    /// Bytes per second of the bottleneck, headers excluded.
    pub rate: f64,
    /// Packets of the engine that were sent again.
    pub again: u64,
    /// The mean wait in the queue of the bottleneck, in microseconds.
    pub wait_us: f64,
}

impl Shares {
    /// The part of the link that is used.
    #[must_use]
    pub fn used(&self) -> f64 {
        self.own.iter().chain(&self.cross).sum::<f64>() / self.rate
    }

    /// The smallest share divided by the equal one: of the engine's streams, and of the others.
    #[must_use]
    pub fn least(&self) -> (f64, f64) {
        let all = self.own.len() + self.cross.len();
        let equal = self.own.iter().chain(&self.cross).sum::<f64>() / all as f64;
        let least = |shares: &[f64]| shares.iter().copied().fold(f64::MAX, f64::min) / equal;
        (least(&self.own), least(&self.cross))
    }

    /// The largest of the engine's shares divided by the smallest.
    #[must_use]
    pub fn spread(&self) -> f64 {
        let most = self.own.iter().copied().fold(0.0, f64::max);
        most / self.own.iter().copied().fold(f64::MAX, f64::min)
    }
}

/// Seeds over which equal streams are measured.
const SHARE_SEEDS: std::ops::RangeInclusive<u64> = 1..=9;
/// The largest share of equal streams divided by the smallest: at the median of the seeds, and at
/// any of them.
const SPREAD_MEDIAN: f64 = 1.1;
const SPREAD_MAX: f64 = 1.25;

/// Seeds over which streams that begin one after another are measured.
const LATE_SEEDS: std::ops::RangeInclusive<u64> = 1..=3;
/// The largest of their shares divided by the smallest.
const LATE_SPREAD_MAX: f64 = 3.0;

/// Rates of the bottleneck beside other traffic, in bits per second.
pub const BESIDE_RATES: [u64; 3] = [200_000_000, 1_000_000_000, 5_000_000_000];
/// Queues there, in microseconds.
pub const BESIDE_QUEUES: [u64; 3] = [1_000, 10_000, 100_000];
/// Rates of the bottleneck of the engine's streams, in bits per second.
pub const RATES: [u64; 2] = [25_000_000_000, 100_000_000_000];
/// Round trips there, in microseconds.
pub const ROUND_TRIPS: [u64; 3] = [100, 1_000, 10_000];
/// Numbers of streams there.
pub const STREAMS: [u32; 4] = [1, 2, 8, 64];

impl Bottleneck {
    /// One stream beside streams of cross traffic, at a round trip of 1 ms.
    #[must_use]
    pub const fn beside(rate: u64, queue_us: u64, cross: u32, time_us: u64) -> Self {
        Self {
            rate,
            round_trip_us: 1_000,
            far: 1,
            queue_us,
            payload_max: 1_472,
            streams: 1,
            cross,
            late: false,
            lead_us: 500_000,
            warm_up_us: 500_000,
            time_us,
            apart_us: 0,
            message: 1 << 20,
        }
    }

    /// Streams of the engine alone.
    #[must_use]
    pub const fn among(rate: u64, round_trip_us: u64, streams: u32, far: u64) -> Self {
        let longest = round_trip_us * far;
        Self {
            rate,
            round_trip_us,
            far,
            queue_us: 2_000 + longest,
            payload_max: 8_972,
            streams,
            cross: 0,
            late: false,
            lead_us: 0,
            warm_up_us: 50 * longest,
            time_us: 50 * longest,
            apart_us: 0,
            message: 256 << 10,
        }
    }

    fn scenario(&self) -> Scenario {
        let rate = self.rate / 8;
        let link = Link {
            delay_ns: self.round_trip_us * 500,
            rate,
            queue: rate * self.queue_us / 1_000_000,
            ecn: 0,
            tx_ring: 2048,
        };
        Scenario {
            nodes: self.streams + 1,
            // Bounds the steps of a run.
            ops: 1_000_000,
            pools: Pools::Large,
            eager_max: u32::MAX,
            mtu: vec![self.payload_max],
            link,
            ..Scenario::default()
        }
    }

    /// Messages that each stream keeps posted: twice as many as fit the path.
    fn posted(&self) -> u32 {
        let path = self.rate / 8 * (self.round_trip_us * self.far + self.queue_us) / 1_000_000;
        (2 * path / self.message + 2).min(900) as u32
    }

    /// Measures, with the first seed.
    ///
    /// # Errors
    /// A violation.
    pub fn measure(&self) -> Result<Shares, Violation> {
        self.measure_with(1)
    }

    /// Measures, with this seed.
    ///
    /// # Errors
    /// A violation.
    pub fn measure_with(&self, seed: u64) -> Result<Shares, Violation> {
        let mut world = World::new(seed, &self.scenario());
        for node in (2..=self.streams).step_by(2) {
            world.net.farther[node as usize] = (self.far - 1) * self.round_trip_us * 500;
        }
        if !self.late {
            for node in 1..=self.streams {
                world.recv(0, Some(node), 8, None);
                world.send(node, 0, 8);
            }
            finish(&mut world)?;
        }
        world.net.port_rate = 5 * self.rate / 8;
        if self.cross > 0 {
            world.start_cross(Cross::new(self.cross, 0));
            world.run_until(world.now + self.lead_us * 1_000)?;
        }
        world.log = Some(Vec::new());
        // Streams that start together take turns: the receiver's slots may not suffice for all.
        let together = if self.apart_us == 0 { self.streams } else { 1 };
        for first in (1..=self.streams).step_by(together as usize) {
            for _ in 0..self.posted() {
                for node in first..first + together {
                    self.post(&mut world, node)?;
                }
            }
            self.run(&mut world, self.apart_us)?;
        }
        self.run(&mut world, self.warm_up_us)?;
        let before = (world.net.passed.clone(), world.cross.passed.clone());
        let wait_us = self.run(&mut world, self.time_us)?;
        let rate = |now: &[u64], before: &[u64]| -> Vec<f64> {
            let seconds = self.time_us as f64 / 1e6;
            now.iter().zip(before).map(|(now, before)| (now - before) as f64 / seconds).collect()
        };
        let len = f64::from(self.payload_max);
        Ok(Shares {
            own: rate(&world.net.passed[1..], &before.0[1..]),
            cross: rate(&world.cross.passed, &before.1),
            rate: self.rate as f64 / 8.0 * len / (len + 66.0),
            again: world.nodes.iter().map(|n| n.engine.with(|e| e.stats().retransmissions)).sum(),
            wait_us,
        })
    }

    /// Posts a message of a node, and its receive.
    fn post(&self, world: &mut World, node: u32) -> Result<(), Violation> {
        world.recv(0, Some(node), self.message, None);
        let posted = world.send(node, 0, self.message);
        let found = world.after_post(node);
        found.map_err(|(invariant, what)| Violation { invariant, what, at: world.now })?;
        if posted {
            return Ok(());
        }
        Err(Violation { invariant: 25, what: "a post was refused".into(), at: world.now })
    }

    /// Lets time pass; each message that ends is followed by another. Returns the mean wait in the
    /// queue, in microseconds.
    fn run(&self, world: &mut World, time_us: u64) -> Result<f64, Violation> {
        let until = world.now + time_us * 1_000;
        let (mut waits, mut steps) = (0, 0);
        // bound: virtual time
        while world.step(until)? {
            waits += world.net.free_at(0).saturating_sub(world.now);
            steps += 1;
            if world.log.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let log = world.log.as_mut().map(std::mem::take).unwrap_or_default();
            for (node, _) in log.iter().filter(|(node, _)| *node > 0) {
                self.post(world, *node)?;
            }
        }
        world.now = until;
        Ok(waits as f64 / 1_000.0 / f64::from(steps.max(1)))
    }
}

/// 33: beside cross traffic each stream has at least a quarter of an equal share.
///
/// # Errors
/// The invariant is broken.
pub fn beside_cross_traffic() -> Result<(), Violation> {
    for (cross, late) in [(1, false), (1, true), (4, false), (4, true)] {
        let small = Bottleneck {
            late,
            lead_us: 300_000,
            warm_up_us: 300_000,
            ..Bottleneck::beside(500_000_000, 10_000, cross, 700_000)
        };
        let shares = small.measure()?;
        let (own, other) = shares.least();
        check_shares(33, shares.used() >= 0.95 && own >= 0.25 && other >= 0.25, &shares)?;
    }
    Ok(())
}

/// 34: streams of the engine have equal shares once they have drained the queue of their starts,
/// and use the bottleneck.
///
/// # Errors
/// The invariant is broken.
pub fn equal_shares() -> Result<(), Violation> {
    for streams in [2, 8] {
        let equal = Bottleneck::among(25_000_000_000, 100, streams, 1);
        let bottleneck = Bottleneck { warm_up_us: 10_000, ..equal };
        let mut all =
            SHARE_SEEDS.map(|seed| bottleneck.measure_with(seed)).collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|one, other| one.spread().total_cmp(&other.spread()));
        for shares in &all {
            check_shares(34, shares.used() >= 0.95 && shares.spread() <= SPREAD_MAX, shares)?;
        }
        let median = &all[all.len() / 2];
        check_shares(34, median.spread() <= SPREAD_MEDIAN, median)?;
    }
    Ok(())
}

/// 36: streams that begin one after another leave no longer queue than streams that begin together,
/// and each has a share.
///
/// # Errors
/// The invariant is broken.
pub fn late_streams() -> Result<(), Violation> {
    for (streams, wait_us) in [(2, 150.0), (8, 250.0)] {
        let late = Bottleneck {
            late: true,
            apart_us: 10_000,
            warm_up_us: 20_000,
            ..Bottleneck::among(25_000_000_000, 100, streams, 1)
        };
        for seed in LATE_SEEDS {
            let shares = late.measure_with(seed)?;
            let is_met = shares.used() >= 0.95
                && shares.spread() <= LATE_SPREAD_MAX
                && shares.wait_us <= wait_us;
            check_shares(36, is_met, &shares)?;
        }
    }
    Ok(())
}

fn check_shares(invariant: u8, is_met: bool, shares: &Shares) -> Result<(), Violation> {
    let found = if is_met { Ok(()) } else { broken(invariant, format!("{shares:?}")) };
    found.map_err(|(invariant, what)| Violation { invariant, what, at: 0 })
}
