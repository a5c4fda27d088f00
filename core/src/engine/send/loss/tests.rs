// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loss detection against the rule of RFC 8985, packet by packet. One engine, and a connected peer
//! of which the test says what it has received.

use crate::engine::Engine;
use crate::engine::send::test_peer::{Boundless, connected};
use crate::peer::packet_record::{TxFlags, TxPacket};
use crate::peer::slots::{ConnSlot, PeerSlot};
use crate::*;
use core::ops::Range;
use proptest::prelude::*;
use std::vec::Vec;

const PAYLOAD_MAX: usize = 256;

/// An engine in the middle of a long write.
struct Writer {
    engine: Engine<'static>,
    conn: ConnSlot,
    now: Instant,
}

impl Writer {
    fn new() -> Self {
        let (mut engine, id) = connected(Congestion::Fixed(400), PAYLOAD_MAX, 1024);
        let now = Instant::from_nanos(1 << 40);
        let remote = Remote { key: 7, address: 0 };
        let common = Common::new(id, Context(0));
        let request = WriteRequest { common, len: 1 << 30, remote, data: None };
        engine.post_write(now, request, (), &mut Boundless).unwrap();
        let conn = engine.cx.table[PeerSlot::of(id)].connection();
        Self { engine, conn, now }
    }

    fn pass(&mut self, nanos: u64) {
        self.now = self.now.after_nanos(nanos);
        self.engine.advance_clock(self.now);
    }

    fn transmit(&mut self, most: u32) {
        let mut packet = [0; PAYLOAD_MAX];
        let mut burst = self.engine.burst(self.now);
        for _ in 0..most {
            if burst.transmit(&mut packet, &mut Boundless).is_none() {
                return;
            }
        }
    }

    /// The peer has received the packets in a part of the window, but for some.
    fn receive(&mut self, part: Range<u32>, but: u32) {
        let Engine { cx, sender, .. } = &mut self.engine;
        let state = &mut cx.table[self.conn];
        let first = state.tx().first_psn();
        for number in part.filter(|number| but == 0 || number % but != 0) {
            let acked = |record: &mut TxPacket| {
                record.flags = record.flags.union(TxFlags::ACKED).difference(TxFlags::LOST);
            };
            let psn = first.plus(number);
            let before = state.tx().change_record(&mut sender.in_flight, psn, acked).unwrap();
            if before.flags.contains(TxFlags::ACKED) {
                continue;
            }
            if before.flags.contains(TxFlags::LOST) {
                state.tx_mut().lost_packet_arrived();
            }
            state.tx_mut().packet_sacked(psn);
            state.path_mut().acked(before.sent_at);
            state.path_mut().sample(cx.timers.tick().since(before.sent_at));
        }
    }

    fn under_way(&self) -> u32 {
        self.engine.cx.table[self.conn].tx().under_way()
    }

    fn records(&self) -> Vec<TxPacket> {
        let tx = self.engine.cx.table[self.conn].tx();
        tx.psns().map(|psn| *tx.record(&self.engine.sender.in_flight, psn).unwrap()).collect()
    }

    /// The packets that are lost by the rule, and when the next one is.
    fn expected(&self) -> (Vec<bool>, Option<u32>) {
        let state = &self.engine.cx.table[self.conn];
        let now = self.engine.cx.timers.tick();
        let rule = state.path().loss_rule(now);
        let end = state.tx().overtaken_end().since(state.tx().first_psn());
        let mut next = None;
        let is_lost = (0..).zip(self.records()).map(|(number, record)| {
            let gone = record.flags.intersects(TxFlags::ACKED | TxFlags::LOST);
            let lost_at = rule.lost_at(record.counts_from()).filter(|_| !gone && number < end);
            let is_due = lost_at.is_some_and(|at| at.has_come(now));
            if let Some(at) = lost_at.filter(|_| !is_due) {
                let ticks = at.since(now);
                next = Some(next.map_or(ticks, |least: u32| least.min(ticks)));
            }
            record.flags.contains(TxFlags::LOST) || is_due
        });
        (is_lost.collect(), next)
    }

    fn detect(&mut self) {
        let Engine { cx, sender, .. } = &mut self.engine;
        sender.detect_losses(cx, self.conn);
    }

    /// How the losses are that were found, as [`Self::expected`] gives them.
    fn found(&self) -> (Vec<bool>, Option<u32>) {
        let lost = self.records().into_iter().map(|record| record.flags.contains(TxFlags::LOST));
        let now = self.engine.cx.timers.tick();
        let next = self.engine.cx.table[self.conn].path().loss_at();
        (lost.collect(), next.map(|at| at.since(now)))
    }
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Transmit(u32),
    /// From a part of the window on, so many packets, but for every so many-th one.
    Receive(f64, u32, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u64..400_000).prop_map(Step::Pass),
        (1u32..200).prop_map(Step::Transmit),
        (0.0..1.0, 1u32..100, 0u32..5)
            .prop_map(|(from, count, but)| { Step::Receive(from, count, but) }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_packets_that_are_found_lost_are_those_of_the_rule(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut writer = Writer::new();
        writer.transmit(300);
        for step in steps {
            match step {
                Step::Pass(nanos) => writer.pass(nanos),
                Step::Transmit(most) => writer.transmit(most),
                Step::Receive(from, count, but) => {
                    let window = writer.under_way();
                    let from = (f64::from(window) * from) as u32;
                    writer.receive(from..window.min(from + count), but);
                }
            }
            let (lost, next) = writer.expected();
            writer.detect();
            let found = writer.found();
            prop_assert_eq!(found.0, lost);
            // A check that is too early finds nothing.
            prop_assert!(next.is_none_or(|next| found.1.is_some_and(|at| at <= next)));
        }
    }
}
