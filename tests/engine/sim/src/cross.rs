// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cross traffic: streams of a loss-driven transport through the switch's port to a node.
//!
//! In: the time at which each of their packets reaches the switch, passes it or is lost. Out: the
//! next events. [`World`](crate::world::World) calls. Bound: the window of a stream. The model is
//! TCP with CUBIC (RFC 9438), by these rules:
//!
//! 1. A stream always has something to send. Each acknowledgment lets it send while fewer packets
//!    than its window are in flight.
//! 2. Before the first loss the window doubles each round trip. The doubling also ends when a round
//!    trip exceeds the least one by an eighth, within 4 to 16 ms (`HyStart`).
//! 3. A loss is known when the packet behind the lost one is acknowledged. The first loss of a
//!    window reduces it to 0.7.
//! 4. Between losses the window follows CUBIC's curve with C = 0.4, and grows at least by 0.53
//!    packets in a round trip.
//! 5. Delay and marks change nothing else.

use crate::net::Net;
use crate::scenario::Scenario;

/// Bytes of a packet with its IP and UDP headers, as long as the engine's own.
const LEN: usize = 1_472;
/// The first window (RFC 6928).
const INITIAL: f64 = 10.0;
/// RFC 9438 §4.1, §4.6, and the growth of §4.3.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
const RENO: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Rule 2.
const HYSTART: [u64; 2] = [4_000_000, 16_000_000];

/// The event of a packet of a stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CrossEvent {
    /// It reaches the switch.
    Switch,
    /// Its acknowledgment arrives.
    Acked,
    /// Its loss is known.
    Lost,
}

/// A packet: its stream, and when it was sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CrossPacket {
    /// The stream.
    pub stream: u32,
    /// When it was sent, in nanoseconds.
    pub sent_at: u64,
}

/// One stream.
#[derive(Clone, Debug)]
struct Cubic {
    window: f64,
    in_flight: u32,
    is_starting: bool,
    /// The window at the last loss, when that was, and the time back to it in seconds.
    w_max: f64,
    reduced_at: u64,
    k: f64,
    least: u64,
}

/// All streams to one node.
#[derive(Clone, Debug, Default)]
pub struct Cross {
    to: u32,
    streams: Vec<Cubic>,
    /// Bytes that have passed the switch, by stream.
    pub passed: Vec<u64>,
}

impl Cross {
    /// `count` streams to node `to`.
    #[must_use]
    pub fn new(count: u32, to: u32) -> Self {
        let stream = Cubic {
            window: INITIAL,
            in_flight: 0,
            is_starting: true,
            w_max: 0.0,
            reduced_at: 0,
            k: 0.0,
            least: u64::MAX,
        };
        Self { to, streams: vec![stream; count as usize], passed: vec![0; count as usize] }
    }

    /// The packets that the streams may send at `now`, with the times at which they reach the
    /// switch.
    pub fn send(
        &mut self,
        scenario: &Scenario,
        now: u64,
        only: Option<u32>,
        out: &mut Vec<(u64, CrossEvent, CrossPacket)>,
    ) {
        for (number, stream) in (0..).zip(&mut self.streams) {
            if only.is_some_and(|only| only != number) {
                continue;
            }
            // bound: the window
            while f64::from(stream.in_flight) + 1.0 <= stream.window.max(1.0) {
                stream.in_flight += 1;
                let packet = CrossPacket { stream: number, sent_at: now };
                out.push((now + scenario.link.delay_ns / 2, CrossEvent::Switch, packet));
            }
        }
    }

    /// Something happens to a packet at `now`: the next events.
    pub fn happen(
        &mut self,
        scenario: &Scenario,
        net: &mut Net,
        now: u64,
        (event, packet): (CrossEvent, CrossPacket),
        out: &mut Vec<(u64, CrossEvent, CrossPacket)>,
    ) {
        let back = scenario.link.delay_ns.div_ceil(2) + scenario.link.delay_ns;
        let stream = &mut self.streams[packet.stream as usize];
        match event {
            CrossEvent::Switch => {
                let left = net.pass(scenario, now, self.to, LEN);
                let next = if left.is_some() { CrossEvent::Acked } else { CrossEvent::Lost };
                if left.is_some() {
                    self.passed[packet.stream as usize] += LEN as u64;
                }
                out.push((left.unwrap_or_else(|| net.free_at(self.to)) + back, next, packet));
                return;
            }
            CrossEvent::Acked => stream.acked(now, now - packet.sent_at),
            CrossEvent::Lost => stream.lost(now, packet.sent_at),
        }
        self.send(scenario, now, Some(packet.stream), out);
    }
}

impl Cubic {
    /// Rules 2 and 4.
    fn acked(&mut self, now: u64, round_trip: u64) {
        self.in_flight -= 1;
        self.least = self.least.min(round_trip);
        let [low, high] = HYSTART;
        if self.is_starting && round_trip < self.least + (self.least / 8).clamp(low, high) {
            self.window += 1.0;
            return;
        }
        if self.is_starting {
            self.is_starting = false;
            (self.w_max, self.reduced_at, self.k) = (self.window, now, 0.0);
        }
        let next = (now + round_trip - self.reduced_at) as f64 / 1e9 - self.k;
        let curve = (C * next * next * next + self.w_max).clamp(self.window, 1.5 * self.window);
        let step = ((curve - self.window) / self.window).max(RENO / self.window);
        self.window += step;
    }

    /// Rule 3.
    fn lost(&mut self, now: u64, sent_at: u64) {
        self.in_flight -= 1;
        self.is_starting = false;
        if sent_at <= self.reduced_at && self.reduced_at > 0 {
            return;
        }
        self.w_max = self.window;
        self.window = (self.window * BETA).max(1.0);
        self.reduced_at = now;
        self.k = cube_root((self.w_max - self.window) / C);
    }
}

/// By Newton's method: the same number on every machine.
fn cube_root(of: f64) -> f64 {
    let mut root = of.max(1.0);
    for _ in 0..60 {
        root = (2.0 * root + of / (root * root)) / 3.0;
    }
    root
}
