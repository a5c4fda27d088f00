// SPDX-License-Identifier: MIT OR Apache-2.0
//! A retransmitted packet equals the first one, wherever in its operation it is. One engine, and a
//! connected peer that receives probes alone.

use crate::engine::Engine;
use crate::engine::send::test_peer::{Boundless, connected};
use crate::peer::operation::TxKind;
use crate::peer::slots::{OpSlot, PeerSlot};
use crate::wire::{Body, Flags, Packet, Record};
use crate::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

const PAYLOAD_MAX: usize = 1472;
const LEN: u64 = 1 << 42;
const KEY: Remote = Remote { key: 7, address: 1 << 45 };

/// Where the parts in the packets of an engine begin, by packet number: first transmissions, and
/// retransmissions.
#[derive(Debug, Default)]
struct Sent {
    first: BTreeMap<u32, u64>,
    again: BTreeMap<u32, u64>,
}

impl Sent {
    fn take(&mut self, engine: &mut Engine<'_>, now: Instant) {
        let mut packet = [0; PAYLOAD_MAX];
        let mut burst = engine.burst(now);
        while let Some(sent) = burst.transmit(&mut packet, &mut Boundless) {
            let packet =
                Packet::parse(&packet[..sent.len], ChecksumCoverage::Head, |crc, _| crc).unwrap();
            let Body::Data(records) = packet.body else { continue };
            let again = packet.header.flags().contains(Flags::RETRANSMISSION);
            let into = if again { &mut self.again } else { &mut self.first };
            records.for_each(|record| {
                let address = match record {
                    Record::Write(write) => write.remote.address,
                    Record::ReadRequest(request) => {
                        assert_eq!(request.remote.address - KEY.address, request.offset);
                        request.remote.address
                    }
                    other => panic!("{other:?}"),
                };
                into.insert(packet.header.psn().0, address - KEY.address);
            });
        }
    }
}

/// Posts a read or a write of which everything before `start` is done, and loses its packets.
fn sent_again(start: u64, read: bool) -> Sent {
    let (mut engine, id) = connected(Congestion::Delay, PAYLOAD_MAX, 255);
    let mut now = Instant::from_nanos(1 << 40);
    let common = Common::new(id, Context(0));
    let memory = &mut Boundless;
    let op = if read {
        engine.post_read(now, ReadRequest { common, len: LEN, remote: KEY }, (), memory)
    } else {
        let request = WriteRequest { common, len: LEN, remote: KEY, data: None };
        engine.post_write(now, request, (), memory)
    };
    let op = &mut engine.sender.ops[OpSlot::of(op.unwrap())];
    assert_eq!(read, matches!(op.kind, TxKind::Read { .. }));
    op.sent = start;
    op.missing = op.missing.saturating_sub(start);
    let mut sent = Sent::default();
    for _ in 0..200 {
        sent.take(&mut engine, now);
        now = now.after_nanos(1_000_000);
        engine.advance(now);
        // A probe has arrived, and no packet before it.
        let Engine { cx, sender, .. } = &mut engine;
        let (conn, tick) = (cx.table[PeerSlot::of(id)].connection(), cx.timers.tick());
        sender.probe_arrived(cx, conn, tick);
        sender.detect_losses(cx, conn);
    }
    sent
}

/// A multiple of 256 GiB, or a little less.
fn far(step: u64) -> impl Strategy<Value = u64> {
    (0u64..8, 0u64..40).prop_map(move |(far, back)| (far << 38).saturating_sub(back * step))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn retransmitted_parts_of_a_write_equal_the_first_ones(start in far(1408)) {
        let Sent { first, again } = sent_again(start / 64 * 64, false);
        prop_assert!(first.len() > 1 && !again.is_empty());
        for (psn, offset) in again {
            prop_assert_eq!(first.get(&psn), Some(&offset));
        }
    }

    #[test]
    fn retransmitted_parts_of_a_read_equal_the_first_ones(start in far(4 << 20)) {
        let Sent { first, again } = sent_again(start, true);
        prop_assert_eq!(first.values().copied().collect::<Vec<_>>(), [start]);
        prop_assert_eq!(first, again);
    }
}
