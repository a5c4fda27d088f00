// SPDX-License-Identifier: MIT OR Apache-2.0
//! Goodput of the protocol on virtual links: the table, and the targets.
//!
//! In: nothing. Out: numbers that are the same on every machine. Only the link
//! takes time: this measures the protocol, not the processor.

use crate::invariants::Violation;
use crate::net::address;
use crate::scenario::{Link, Loss, Pools, Scenario};
use crate::world::World;
use serde::Serialize;
use std::fmt::Write as _;

/// 10 Gb/s in bytes per second.
const RATE: u64 = 1_250_000_000;
/// Losses of the table.
const LOSSES: [f64; 5] = [0.0, 1e-4, 1e-3, 1e-2, 1e-1];
/// Round trips of the table, in microseconds.
const ROUND_TRIPS: [u64; 3] = [10, 100, 1000];
/// Lengths of messages of the table.
const SIZES: [u64; 4] = [64, 4 << 10, 64 << 10, 1 << 20];
/// Virtual time that a measurement may take, in nanoseconds.
const TIME_LIMIT: u64 = 600_000_000_000;

/// One stream of messages.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Stream {
    /// From the first post to the last completion, in nanoseconds.
    pub time_ns: u64,
    /// Bytes per second.
    pub goodput: u64,
    /// Data packets sent for the first time.
    pub needed: u64,
    /// Data packets sent again.
    pub again: u64,
    /// Packets of both sides.
    pub all: u64,
    /// Time-outs.
    pub timeouts: u64,
}

fn scenario(loss: f64, round_trip_us: u64, nodes: u32) -> Scenario {
    let link = Link {
        delay_ns: round_trip_us * 500,
        rate: RATE,
        queue: 2 << 20,
        ecn: 512 << 10,
        tx_ring: 2048,
    };
    Scenario {
        nodes,
        ops: 1000,
        pools: Pools::Large,
        link,
        loss: Loss { iid: loss, ..Loss::default() },
        app: crate::scenario::App { len_max: 1 << 20, ..Default::default() },
        ..Scenario::default()
    }
}

/// Sends `count` messages of `len` bytes from node 0 to node 1.
fn stream(
    scenario: &Scenario,
    len: u64,
    count: u64,
    lose: Option<u64>,
) -> Result<Stream, Violation> {
    let mut world = World::new(1, scenario);
    // The connection is there before the clock starts.
    world.recv(1, None, 8, None);
    world.send(0, 1, 8);
    finish(&mut world)?;
    let before = counts(&world);
    let start = world.now;
    world.net.lose_one = lose;
    for _ in 0..count {
        world.recv(1, None, len, None);
        if !world.send(0, 1, len) {
            return Err(Violation { invariant: 25, what: "a post was refused".into(), at: start });
        }
    }
    let time_ns = finish(&mut world)? - start;
    let after = counts(&world);
    let [needed, again, all, timeouts] = std::array::from_fn(|i| after[i] - before[i]);
    let goodput = (u128::from(len * count) * 1_000_000_000 / u128::from(time_ns.max(1))) as u64;
    Ok(Stream { time_ns, goodput, needed, again, all, timeouts })
}

fn counts(world: &World) -> [u64; 4] {
    world.nodes.iter().fold([0; 4], |sum, node| {
        let stats = node.engine.with(|engine| *engine.stats());
        let own =
            [stats.data_packets_sent, stats.retransmissions, stats.packets_sent, stats.timeouts];
        std::array::from_fn(|i| sum[i] + own[i])
    })
}

/// Lets everything posted end; returns when the last operation did.
pub(crate) fn finish(world: &mut World) -> Result<u64, Violation> {
    for node in 0..world.scenario.nodes {
        let found = world.after_post(node);
        found.map_err(|(invariant, what)| Violation { invariant, what, at: world.now })?;
    }
    let until = world.now + TIME_LIMIT;
    let receives = |world: &World| {
        world.nodes.iter().any(|node| node.engine.with(|engine| engine.posted_receives() > 0))
    };
    // bound: virtual time
    while world.oracle.open > 0 || receives(world) {
        if !world.step(until)? {
            let what = format!("{} operations did not end", world.oracle.open);
            return Err(Violation { invariant: 25, what, at: world.now });
        }
    }
    Ok(world.now)
}

/// How many messages make a measurement: enough bytes, few enough slots.
fn count_for(len: u64) -> u64 {
    ((8 << 20) / len).clamp(8, 1000)
}

/// The table of goodput over loss, round trip and length, as Markdown.
///
/// # Errors
/// A violation in one of its runs.
pub fn goodput_table() -> Result<String, Violation> {
    let mut text = String::from(
        "# Goodput over loss, round trip and message length\n\n\
         In MB/s, on a virtual link of 10 Gb/s (1,250 MB/s) with packets of 1,472 bytes, one\n\
         sender, one receiver, up to 1,000 messages posted at once (8 MB at most).\n\
         Made by `ofi-xdp-sim table --write`; the numbers are the same on every machine.\n\n\
         | round trip | length | 0 | 1e-4 | 1e-3 | 1e-2 | 1e-1 |\n|---|---|---|---|---|---|---|\n",
    );
    for round_trip in ROUND_TRIPS {
        for len in SIZES {
            let _ = write!(text, "| {round_trip} µs | {len} |");
            for loss in LOSSES {
                let row = stream(&scenario(loss, round_trip, 2), len, count_for(len), None)?;
                let _ = write!(text, " {} |", row.goodput / 1_000_000);
            }
            text.push('\n');
        }
    }
    Ok(text)
}

/// The simulator's targets.
#[derive(Clone, Debug, Serialize)]
pub struct Targets {
    /// Goodput at a loss of 1e-3, of the lossless one. At least 0.8.
    pub goodput_1e3: f64,
    /// Goodput at a loss of 1e-2. At least 0.5.
    pub goodput_1e2: f64,
    /// Longest extra time for one packet lost in 64 KiB, in nanoseconds. At most two round trips
    /// and 100 µs.
    pub one_lost_extra_ns: u64,
    /// The bound of it.
    pub one_lost_allowed_ns: u64,
    /// Time-outs for it. None.
    pub one_lost_timeouts: u64,
    /// Data packets sent for each that is needed, without loss. At most 1.05.
    pub packets_lossless: f64,
    /// Data packets sent for each that is needed, at a loss of 10 %. At most 3.
    pub packets_lossy: f64,
    /// Acknowledgments and data packets for each data packet that is needed, without loss.
    pub all_packets_lossless: f64,
    /// Share of the link that 64 senders use, each with 1 MiB by rendezvous to one receiver: at
    /// least 0.9.
    pub incast_share: f64,
    /// The slowest sender's time divided by the fastest one's.
    pub incast_spread: f64,
    /// The smallest share of an incast with the longest eager messages.
    pub pushed_incast_share: f64,
    /// The slowest sender's time divided by the fastest one's, in that incast.
    pub pushed_incast_spread: f64,
    /// The targets that were missed.
    pub missed: Vec<String>,
}

fn ratio(one: u64, other: u64) -> f64 {
    one as f64 / other.max(1) as f64
}

/// Measures the targets.
///
/// # Errors
/// A violation in one of the runs.
pub fn targets() -> Result<Targets, Violation> {
    const ROUND_TRIP_US: u64 = 50;
    let bulk = |loss| stream(&scenario(loss, ROUND_TRIP_US, 2), 64 << 10, 256, None);
    let (clean, rare, often, heavy) = (bulk(0.0)?, bulk(1e-3)?, bulk(1e-2)?, bulk(1e-1)?);
    let (extra, timeouts) = one_lost(ROUND_TRIP_US)?;
    let (share, spread) = incast(64, 1 << 20)?;
    let (pushed_share, pushed_spread) = incast(64, Scenario::default().eager_max.into())?;
    let mut targets = Targets {
        goodput_1e3: ratio(rare.goodput, clean.goodput),
        goodput_1e2: ratio(often.goodput, clean.goodput),
        one_lost_extra_ns: extra,
        one_lost_allowed_ns: 2 * ROUND_TRIP_US * 1000 + 100_000,
        one_lost_timeouts: timeouts,
        packets_lossless: ratio(clean.needed + clean.again, clean.needed),
        packets_lossy: ratio(heavy.needed + heavy.again, heavy.needed),
        all_packets_lossless: ratio(clean.all, clean.needed),
        incast_share: share,
        incast_spread: spread,
        pushed_incast_share: pushed_share,
        pushed_incast_spread: pushed_spread,
        missed: Vec::new(),
    };
    let t = &targets;
    let checks = [
        ("goodput at 1e-3 is below 0.8", t.goodput_1e3 >= 0.8),
        ("goodput at 1e-2 is below 0.5", t.goodput_1e2 >= 0.5),
        ("one lost packet takes too long", t.one_lost_extra_ns <= t.one_lost_allowed_ns),
        ("one lost packet makes a time-out", t.one_lost_timeouts == 0),
        ("more than 1.05 packets without loss", t.packets_lossless <= 1.05),
        ("more than 3 packets at 10 % loss", t.packets_lossy <= 3.0),
        ("incast uses less than 0.9 of the link", t.incast_share >= 0.9),
        ("a sender starves in the incast", t.incast_spread <= 3.0),
        ("pushed incast uses less than 0.9 of the link", t.pushed_incast_share >= 0.9),
        ("a sender starves in the pushed incast", t.pushed_incast_spread <= 3.0),
    ];
    let missed = checks.iter().filter(|(_, met)| !met).map(|(what, _)| (*what).to_owned());
    targets.missed = missed.collect();
    Ok(targets)
}

/// The worst of losing each packet of 64 KiB in turn: extra time, and time-outs.
fn one_lost(round_trip_us: u64) -> Result<(u64, u64), Violation> {
    let scenario = scenario(0.0, round_trip_us, 2);
    let clean = stream(&scenario, 64 << 10, 1, None)?;
    let (mut extra, mut timeouts) = (0, 0);
    for lost in 0..clean.needed {
        let one = stream(&scenario, 64 << 10, 1, Some(lost))?;
        extra = extra.max(one.time_ns.saturating_sub(clean.time_ns));
        timeouts += one.timeouts;
    }
    Ok((extra, timeouts))
}

/// `senders` nodes send `len` bytes each to node 0 at once: share of the link, and the slowest
/// sender's time divided by the fastest one's.
fn incast(senders: u32, len: u64) -> Result<(f64, f64), Violation> {
    let mut world = World::new(1, &scenario(0.0, 20, senders + 1));
    for node in 1..=senders {
        world.recv(0, None, len, None);
        world.send(node, 0, len);
    }
    world.log = Some(Vec::new());
    let start = world.now;
    let mut ends = Vec::new();
    for node in 0..=senders {
        let found = world.after_post(node);
        found.map_err(|(invariant, what)| Violation { invariant, what, at: world.now })?;
    }
    let until = world.now + TIME_LIMIT;
    // bound: virtual time
    while ends.len() < senders as usize && world.step(until)? {
        let log = world.log.as_mut().map(std::mem::take).unwrap_or_default();
        ends.extend(log.iter().filter(|(node, _)| *node == 0).map(|_| world.now - start));
    }
    let (first, last) = (ends.first().copied().unwrap_or(0), ends.last().copied().unwrap_or(0));
    if ends.len() < senders as usize {
        let what = format!("{} of {senders} arrived at {}", ends.len(), address(0));
        return Err(Violation { invariant: 27, what, at: world.now });
    }
    let wire = f64::from(senders) * len as f64 * 1e9 / RATE as f64 * (1408.0 + 122.0) / 1408.0;
    Ok((wire / last.max(1) as f64, ratio(last, first)))
}
