// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender's reaction to silence and to holes, and its limit of packets in flight
//! (`docs/PROTOCOL.md` §4.1, §4.5). The round trip is a millisecond.

use crate::puppet::*;
use crate::world::*;
use ofi_xdp_core::wire::{Flags, PacketKind};
use ofi_xdp_core::*;

/// Posts `count` messages, each in a packet of its own.
fn send_packets(puppet: &mut Puppet, count: u64) {
    for context in 0..count {
        puppet.send(context, pattern(context, 1400));
    }
}

/// Posts `count` writes, each too long to share a packet.
fn write_packets(puppet: &mut Puppet, count: u64, request: impl Fn(u64, &mut Common)) {
    let peer = puppet.world.peer(0, PUPPET);
    for context in 0..count {
        let now = puppet.world.time();
        let mut common = Common::new(peer, Context(context));
        request(context, &mut common);
        let remote = Remote { key: 1, address: 0 };
        let request = WriteRequest { common, len: 1000, remote, data: None };
        let Node { engine, memory, .. } = &mut puppet.world.nodes[0];
        engine.post_write(now, request, vec![0; 1000].into(), memory).unwrap();
        puppet.drive();
    }
}

#[test]
fn packets_in_flight_fit_the_memory_of_the_peer() {
    for capacity in [1, 2, 5] {
        let mut puppet = Puppet::unconnected(&small());
        puppet.port_packets = capacity;
        puppet = puppet.connect();
        send_packets(&mut puppet, 8);
        let sent = puppet.sent_data();
        assert_eq!(sent.len(), usize::from(capacity));
        let ack = puppet.ack(puppet.first.plus(1), &[]);
        puppet.deliver(ack);
        let sent = puppet.sent_data();
        assert_eq!(sent.len(), 1, "one more for each that has arrived");
        assert_eq!(sent[0].psn(), puppet.first.plus(u32::from(capacity)));
    }
}

/// Sends three packets and lets one and a half round trips pass. Returns the probe.
fn probe(puppet: &mut Puppet) -> Seen {
    send_packets(puppet, 3);
    puppet.sent();
    puppet.pass(1500 * MICRO - 10 * MICRO);
    assert!(puppet.sent().is_empty());
    puppet.pass(20 * MICRO);
    let mut probe = puppet.sent();
    assert_eq!(probe.len(), 1);
    assert!(probe[0].has(Flags::ACK_REQUEST));
    probe.remove(0)
}

/// Answers a probe that was just sent, after a round trip, and acknowledges nothing.
fn answer(puppet: &mut Puppet) {
    let echo = puppet.newest_sent_at();
    puppet.pass(MILLI);
    let ack = puppet.ack_echoing(echo, 0);
    puppet.deliver(ack);
}

/// A connection on which three packets were lost and have gone again, all of them acknowledged.
fn lossy() -> Puppet {
    let mut puppet = Puppet::connected(&small());
    probe(&mut puppet);
    answer(&mut puppet);
    puppet.pass(MILLI);
    puppet.head.accepted = 3;
    acknowledge_all(&mut puppet, 3);
    puppet.sent();
    puppet
}

/// Acknowledges everything, `packets` since the connection began.
fn acknowledge_all(puppet: &mut Puppet, packets: u32) {
    puppet.head.ack = puppet.first.plus(packets);
    let ack = puppet.ack(puppet.head.ack, &[]);
    puppet.deliver(ack);
}

#[test]
fn a_late_peer_gets_probes_without_payload() {
    let mut puppet = Puppet::connected(&small());
    assert_eq!(probe(&mut puppet).kind(), PacketKind::Ping);
    // More than three time-outs, of which the first takes some 3 ms.
    puppet.pass(40 * MILLI);
    let asked = puppet.sent();
    assert!(asked.iter().filter(|packet| packet.kind() == PacketKind::Ping).count() >= 3);
    assert!(!asked.iter().any(Seen::is_data));
    puppet.head.accepted = 3;
    acknowledge_all(&mut puppet, 3);
    let stats = *puppet.engine().stats();
    assert_eq!(stats.tail_probes, 1);
    assert_eq!((stats.retransmissions, stats.losses_by_ack), (0, 0));
    assert_eq!(puppet.ends().len(), 3);
}

#[test]
fn the_answer_to_a_probe_shows_what_was_lost_before_it() {
    let mut puppet = Puppet::connected(&small());
    probe(&mut puppet);
    answer(&mut puppet);
    let again: Vec<_> = puppet.sent_data().iter().map(Seen::psn).collect();
    assert_eq!(again, [0, 1, 2].map(|n| puppet.first.plus(n)));
    let stats = *puppet.engine().stats();
    assert_eq!((stats.losses_by_ack, stats.timeouts), (3, 0));
}

#[test]
fn a_probe_shows_no_loss_of_a_later_packet() {
    let mut puppet = Puppet::connected(&small());
    probe(&mut puppet);
    let echo = puppet.newest_sent_at();
    puppet.pass(100 * MICRO);
    puppet.send(3, pattern(3, 1400));
    assert_eq!(puppet.sent_data().len(), 1);
    puppet.pass(2 * MILLI);
    let ack = puppet.ack_echoing(echo, 0);
    puppet.deliver(ack);
    assert_eq!(puppet.sent_data().len(), 0);
}

#[test]
fn an_old_answer_shows_no_loss() {
    let mut puppet = Puppet::connected(&small());
    // The packets that it does not acknowledge left at the same tick.
    let echo = puppet.newest_sent_at();
    probe(&mut puppet);
    let ack = puppet.ack_echoing(echo, 0);
    puppet.deliver(ack);
    puppet.pass(MILLI);
    assert_eq!(puppet.sent_data().len(), 0);
}

#[test]
fn packets_that_went_again_at_one_tick_overtake_each_other_never() {
    let mut puppet = Puppet::connected(&small());
    probe(&mut puppet);
    answer(&mut puppet);
    assert_eq!(puppet.sent_data().len(), 3);
    // More than a round trip and a reordering window.
    puppet.pass(2 * MILLI);
    acknowledge_all(&mut puppet, 1);
    assert_eq!(puppet.sent_data().len(), 0);
    assert_eq!(puppet.engine().stats().losses_by_ack, 3);
}

#[test]
fn where_packets_are_lost_the_probe_repeats_the_last_one() {
    let mut puppet = lossy();
    let probe = probe(&mut puppet);
    assert!(probe.is_data() && probe.has(Flags::RETRANSMISSION));
    assert_eq!(probe.psn(), puppet.first.plus(5));
    let stats = *puppet.engine().stats();
    assert_eq!((stats.tail_probes, stats.timeouts), (2, 0));
}

#[test]
fn after_a_needless_retransmission_probes_have_no_payload() {
    let mut puppet = lossy();
    puppet.head.flags = Flags::DUPLICATES_SEEN;
    acknowledge_all(&mut puppet, 3);
    assert_eq!(probe(&mut puppet).kind(), PacketKind::Ping);
}

#[test]
fn a_packet_counts_as_lost_a_reordering_window_after_a_round_trip() {
    let mut puppet = Puppet::connected(&small());
    send_packets(&mut puppet, 2);
    puppet.sent();
    // The second packet has arrived: the first one may be late. It has a quarter of the round trip.
    puppet.pass(MILLI);
    let ack = puppet.ack(puppet.first, &[1]);
    puppet.deliver(ack);
    puppet.pass(250 * MICRO - 10 * MICRO);
    assert_eq!(puppet.sent_data().len(), 0);
    // No other packet arrives: the engine must check again by itself, long before a time-out.
    puppet.pass(20 * MICRO);
    let again = puppet.sent_data();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].psn(), puppet.first);
    let stats = *puppet.engine().stats();
    assert_eq!((stats.losses_by_ack, stats.tail_probes, stats.timeouts), (1, 0, 0));
}

#[test]
fn a_packet_that_is_only_late_is_not_retransmitted() {
    let mut puppet = Puppet::connected(&small());
    send_packets(&mut puppet, 2);
    puppet.pass(MILLI);
    puppet.sent();
    let ack = puppet.ack(puppet.first, &[1]);
    puppet.deliver(ack);
    puppet.pass(200 * MICRO);
    puppet.head.accepted = 2;
    let ack = puppet.ack(puppet.first.plus(2), &[]);
    puppet.deliver(ack);
    puppet.pass(10 * MILLI);
    assert_eq!(puppet.sent_data().len(), 0);
    assert_eq!(puppet.ends(), [(0, Ok(())), (1, Ok(()))]);
}

#[test]
fn a_peer_that_misses_what_it_has_acknowledged_loses_the_connection() {
    // The second packet arrived, and is the next one; also the other way round.
    for late in [false, true] {
        let mut puppet = Puppet::connected(&small());
        send_packets(&mut puppet, 3);
        puppet.pass(MILLI);
        puppet.sent();
        let beyond = puppet.ack(puppet.first, &[1]);
        puppet.head.accepted = 1;
        let next = puppet.ack(puppet.first.plus(1), &[]);
        let [one, other] = if late { [next, beyond] } else { [beyond, next] };
        puppet.deliver(one);
        assert_eq!(puppet.engine().connections(), 1);
        puppet.deliver(other);
        assert_eq!(puppet.engine().stats().dropped(DropReason::ContradictoryAck), 1);
        assert_eq!(puppet.engine().connections(), 0);
        let reset = Err(OpError::Reset);
        assert_eq!(puppet.ends(), [(0, Ok(())), (1, reset), (2, reset)]);
        assert_eq!(puppet.sent().pop().unwrap().kind(), PacketKind::Reset);
    }
}

#[test]
fn a_packet_that_was_late_gives_later_ones_more_time() {
    let mut puppet = Puppet::connected(&small());
    send_packets(&mut puppet, 2);
    puppet.pass(1300 * MICRO);
    let overtaken = puppet.ack(puppet.first, &[1]);
    puppet.ingest(&overtaken);
    assert_eq!(puppet.engine().stats().losses_by_ack, 1);
    puppet.head.accepted = 2;
    let arrived = puppet.ack(puppet.first.plus(2), &[]);
    puppet.deliver(arrived);
    assert_eq!(puppet.sent_data().len(), 2, "each was sent once");
    send_packets(&mut puppet, 2);
    puppet.pass(MILLI);
    let overtaken = puppet.ack(puppet.first.plus(2), &[1]);
    puppet.deliver(overtaken);
    puppet.sent();
    // The smoothed round trip is 1.04 ms. To a quarter of 1 ms comes a sixteenth of the rest.
    puppet.pass(310 * MICRO);
    assert_eq!(puppet.sent_data().len(), 0);
    puppet.pass(290 * MICRO);
    assert_eq!(puppet.sent_data().len(), 1);
}

#[test]
fn a_barrier_is_retransmitted_with_its_packet() {
    let config = Config { order: Order::WAW, ..small() };
    let mut puppet = Puppet::connected(&config);
    write_packets(&mut puppet, 3, |_, _| {});
    let barriers: Vec<_> = puppet.sent_data().iter().map(|p| p.has(Flags::BARRIER)).collect();
    assert_eq!(barriers, [false, true, true]);
    puppet.pass(1300 * MICRO);
    let ack = puppet.ack(puppet.first, &[2]);
    puppet.deliver(ack);
    let again = puppet.sent_data();
    assert_eq!(again.len(), 2);
    assert_eq!(again[0].psn(), puppet.first);
    assert_eq!(again[1].psn(), puppet.first.plus(1));
    assert!(!again[0].has(Flags::BARRIER) && again[1].has(Flags::BARRIER));
}

#[test]
fn a_fence_holds_later_operations_until_all_earlier_ones_ended() {
    let mut puppet = Puppet::connected(&small());
    write_packets(&mut puppet, 4, |context, common| common.fence = context == 2);
    assert_eq!(puppet.sent_data().len(), 2);
    let ack = puppet.ack(puppet.first, &[1]);
    puppet.deliver(ack);
    assert_eq!(puppet.sent_data().len(), 0);
    let ack = puppet.ack(puppet.first.plus(2), &[]);
    puppet.deliver(ack);
    assert_eq!(puppet.sent_data().len(), 2);
}

#[test]
fn operations_with_a_silent_peer_end_by_the_peer_timeout() {
    let config = Config { peer_timeout: std::time::Duration::from_millis(100), ..small() };
    let mut puppet = Puppet::connected(&config);
    puppet.send(5, vec![0; 8]);
    puppet.pass(99 * MILLI);
    assert_eq!(puppet.ends(), []);
    puppet.pass(2 * MILLI);
    assert_eq!(puppet.ends(), [(5, Err(OpError::TimedOut))]);
}

#[test]
fn a_silent_peer_gets_probes_at_growing_intervals() {
    let mut puppet = Puppet::connected(&small());
    puppet.send(5, vec![0; 100_000]);
    let ack = puppet.ack(puppet.first.plus(1), &[]);
    puppet.head.accepted = 1;
    puppet.deliver(ack);
    puppet.sent();
    let asked = |puppet: &mut Puppet, millis: u64| {
        puppet.pass(millis * MILLI);
        let packets = puppet.sent();
        assert!(packets.iter().all(|packet| packet.kind() == PacketKind::Ping));
        packets.len()
    };
    // A quarter of the peer time-out; then a time-out of some 3 ms, which doubles each time.
    assert_eq!(asked(&mut puppet, 2_499), 0);
    assert_eq!(asked(&mut puppet, 2), 1);
    assert_eq!(asked(&mut puppet, 50), 4);
    // In the end, an eighth of that quarter.
    assert_eq!(asked(&mut puppet, 1_000), 3 + 2);
    assert_eq!(asked(&mut puppet, 1_250), 4);
    // An answer restarts the schedule.
    let ack = puppet.ack(puppet.head.ack, &[]);
    puppet.deliver(ack);
    assert_eq!(asked(&mut puppet, 2_499), 0);
    assert_eq!(asked(&mut puppet, 7_502), 31);
    assert_eq!(puppet.ends(), [(5, Err(OpError::TimedOut))]);
}
