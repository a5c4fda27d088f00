// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the congestion window.

use super::*;
use proptest::prelude::*;

fn ticks(microseconds: u32) -> u32 {
    microseconds * 1000 / TICK_NANOS as u32
}

const fn microseconds(ticks: u32) -> u32 {
    ((ticks as u64 * TICK_NANOS + 500) / 1000) as u32
}

fn rtt(microseconds: u32) -> Rtt {
    let mut rtt = Rtt::default();
    rtt.sample(ticks(microseconds));
    rtt.lower_least(ticks(microseconds));
    rtt
}

/// A new window, on a path with this round trip in microseconds.
fn begin(round_trip: u32) -> (Rtt, Tick, CongestionWindow) {
    let now = Tick::default();
    (rtt(round_trip), now, CongestionWindow::new(now))
}

/// One delay throughout a round trip.
fn measure(window: &mut CongestionWindow, delay: u32, marks: u16, rtt: &Rtt, now: &mut Tick) {
    for _ in 0..2 {
        *now = now.plus(rtt.smoothed() / 2);
        window.measured(ticks(delay), ticks(delay), 0, marks, rtt, *now);
    }
}

proptest! {
    #[test]
    fn the_window_stays_in_bounds_and_shrinks_once_an_answer(
        steps in prop::collection::vec(
            (0u32..5_000, 1u32..4_000, any::<bool>(), any::<u16>()),
            1..200,
        ),
    ) {
        let (rtt, mut now, mut window) = begin(20);
        let mut reduced = now;
        let mut answered = true;
        for (delay, packets, lost, marks) in steps {
            now = now.plus(ticks(5));
            let before = window.packets;
            answered |= now.since(reduced) >= ticks(delay);
            window.measured(ticks(delay), ticks(delay), 0, marks, &rtt, now);
            window.acknowledged(packets, 16, &rtt, now);
            if lost {
                window.lost(now, &rtt, now);
            }
            prop_assert!(window.is_sound());
            if window.packets < before {
                prop_assert!(answered, "no packet that was sent after the last reduction");
                let drains = window.signs.contains(Signs::DRAINING);
                prop_assert!(window.packets >= before / 2 || drains && window.packets >= ONE);
                (reduced, answered) = (now, false);
            }
        }
    }
}

#[test]
fn the_window_doubles_then_follows_the_delay() {
    let (rtt, mut now, mut window) = begin(20);
    measure(&mut window, 20, 0, &rtt, &mut now);
    window.acknowledged(16, 0, &rtt, now);
    assert_eq!(window.packets(), 32, "start");
    now = now.plus(ticks(400));
    measure(&mut window, 400, 0, &rtt, &mut now);
    window.acknowledged(1, 31, &rtt, now);
    assert_eq!(window.packets(), 16, "far too slow: half");
    measure(&mut window, 20, 0, &rtt, &mut now);
    window.acknowledged(16, 0, &rtt, now);
    assert_eq!(window.packets(), 20, "no queue: a quarter more");
    let target = microseconds(window.target(&rtt));
    assert_eq!(target, 125, "100 µs, and 250 µs for one packet in 100 µs");
    measure(&mut window, 115, 0, &rtt, &mut now);
    window.acknowledged(20, 0, &rtt, now);
    assert_eq!(window.packets(), 22, "near the target: little");
    window.lost(now, &rtt, now.plus(ticks(30)));
    assert_eq!(window.packets(), 11, "a loss beside a delay is the network's");
    now = now.plus(ticks(60));
    measure(&mut window, 20, 0, &rtt, &mut now);
    assert!(window.signs.contains(Signs::ANSWERED), "it may shrink again");
    window.lost(now, &rtt, now);
    assert_eq!(window.packets(), 11, "a loss without delay is the link's");
    measure(&mut window, 20, 1, &rtt, &mut now);
    window.acknowledged(11, 0, &rtt, now);
    assert_eq!(window.packets(), 11, "a mark: no growth");
    now = now.plus(ticks(10));
    window.measured(ticks(900), ticks(900), 0, 1, &rtt, now);
    window.acknowledged(11, 0, &rtt, now);
    assert_eq!(window.packets(), 11, "a delay for less than half a round trip: no growth");
}

#[test]
fn a_window_of_a_path_that_is_not_known_grows_and_keeps_its_size_after_losses() {
    let (mut now, path) = (Tick::default(), Rtt::default());
    let mut window = CongestionWindow::new(now);
    window.timed_out(2, now);
    for packets in 2..5 {
        measure(&mut window, 5_000, 0, &path, &mut now);
        window.acknowledged(4, 0, &path, now);
        window.lost(now, &path, now);
        assert_eq!(window.packets(), packets, "a quarter for each packet");
    }
}

#[test]
fn a_window_shrinks_again_when_a_later_packet_has_been_answered() {
    let (rtt, mut now, mut window) = begin(100);
    window.signs.remove(Signs::FRESH);
    for _ in 0..4 {
        now = now.plus(ticks(100));
        window.measured(ticks(2_000), ticks(2_000), 0, 0, &rtt, now);
        window.acknowledged(1, 15, &rtt, now);
        assert_eq!(window.packets(), 8, "these packets were sent before");
    }
    now = now.plus(ticks(1_800));
    window.measured(ticks(2_000), ticks(2_000), 0, 0, &rtt, now);
    window.acknowledged(1, 7, &rtt, now);
    assert_eq!(window.packets(), 4);
}

#[test]
fn an_acknowledgment_that_was_held_answers_a_packet_from_before_the_reduction() {
    let (rtt, mut now, mut window) = begin(100);
    window.signs.remove(Signs::FRESH);
    let mut sample = |after, age| {
        now = now.plus(ticks(after));
        window.measured(ticks(age), ticks(300), 0, 0, &rtt, now);
        window.acknowledged(1, 15, &rtt, now);
        window.packets()
    };
    let reduced = sample(300, 300);
    assert!(reduced < 16);
    assert_eq!(sample(310, 350), reduced, "it was sent before the reduction, and held for 50 µs");
    assert!(sample(50, 350) < reduced);
}

#[test]
fn a_window_that_competes_from_one_packet_on_has_its_plateau_then() {
    let (mut rtt, mut now, mut window) = begin(1_000);
    // Hosts that look late: nothing is drained.
    rtt.sample(ticks(100_000));
    now = now.plus(60 * ticks(1_000_000));
    window.timed_out(2, now);
    for _ in 0..40 {
        if window.signs.contains(Signs::COMPETING) {
            break;
        }
        now = now.plus(ticks(5_000));
        measure(&mut window, 5_000, 0, &rtt, &mut now);
        window.acknowledged(1, 0, &rtt, now);
    }
    for packets in [1, 2, 3] {
        assert_eq!(window.packets(), packets, "half a packet in a round trip");
        measure(&mut window, 5_000, 0, &rtt, &mut now);
        window.acknowledged(window.packets(), 0, &rtt, now);
    }
}

#[test]
fn senders_of_one_rate_have_one_target_whatever_their_round_trips() {
    let target = |round_trip: u32, packets: u32| {
        let window = CongestionWindow { packets, ..CongestionWindow::new(Tick::default()) };
        microseconds(window.target(&rtt(round_trip))) - round_trip
    };
    for packets in [1, 4, 64] {
        let (near, far) = (target(100, packets * ONE), target(1_000, 10 * packets * ONE));
        assert!(near.abs_diff(far) <= 1, "{packets}: {near} {far}");
        assert!(near > target(100, 2 * packets * ONE), "{packets}: a faster one has less");
    }
    assert_eq!(target(100, LEAST), 50 + 1_000, "the most");
}

proptest! {
    #[test]
    fn the_mean_of_a_rounded_window_is_the_window(packets in ONE..40 * ONE) {
        let mut window = CongestionWindow { packets, ..CongestionWindow::new(Tick::default()) };
        let mut sum = 0;
        for half in 0..256 {
            window.half_from = Tick::default().plus(half * 1_571);
            sum += window.room(Congestion::Delay, 0, 0, window.half_from);
        }
        let mean = f64::from(sum) / 256.0;
        prop_assert!((mean - f64::from(packets) / f64::from(ONE)).abs() < 0.1, "{mean}");
    }
}

#[test]
fn a_window_below_one_packet_paces_the_sender() {
    let (rtt, mut now, mut window) = begin(20);
    for halves in 0..5 {
        let delay = 9_000 >> halves;
        now = now.plus(ticks(delay));
        measure(&mut window, delay, 0, &rtt, &mut now);
        window.acknowledged(1, 0, &rtt, now);
    }
    assert_eq!(window.packets, FLOOR, "delay alone leaves one packet");
    for marks in 1..16 {
        now = now.plus(ticks(9_000));
        measure(&mut window, 9_000, marks, &rtt, &mut now);
        window.acknowledged(1, 0, &rtt, now);
    }
    assert!(window.packets < ONE && window.is_sound());
    assert!(window.allows(Congestion::Delay, 0, 0, now.plus(ticks(9_000))));
    assert!(!window.allows(Congestion::Delay, 1, 0, now.plus(ticks(9_000))));
    window.sent(&rtt, now);
    assert!(!window.allows(Congestion::Delay, 0, 0, now));
    assert!(window.paced_until(Congestion::Delay, now).is_some());
    assert!(window.allows(Congestion::Off, 200, 0, now));
    assert!(window.allows(Congestion::Fixed(3), 2, 7, now));
    assert!(!window.allows(Congestion::Fixed(3), 3, 0, now));
}

#[test]
fn a_competing_window_follows_losses_until_the_queue_drains() {
    let (rtt, mut now, mut window) = begin(1_000);
    window.signs.remove(Signs::FRESH);
    measure(&mut window, 1_000, 0, &rtt, &mut now);
    window.acknowledged(240, 0, &rtt, now);
    let before = window.packets();
    let mut reduce = |window: &mut CongestionWindow, rounds| {
        for _ in 0..rounds {
            now = now.plus(ticks(1_000));
            measure(window, 2_000, 0, &rtt, &mut now);
            window.acknowledged(window.packets(), 0, &rtt, now);
        }
        now
    };
    reduce(&mut window, 1);
    assert!(window.packets() < before, "it is reduced");
    reduce(&mut window, 12);
    let back = before..2 * before;
    assert!(back.contains(&window.packets()), "the queue lasted: it takes its place again");
    let now = reduce(&mut window, 20).plus(ticks(2_000));
    assert!(window.packets() > before, "and grows in spite of the delay");
    let before = window.packets;
    window.lost(now, &rtt, now);
    assert_eq!(window.packets, before - before / 10 * 3);
    let mut now = now.plus(ticks(2_000));
    measure(&mut window, 1_000, 0, &rtt, &mut now);
    let before = window.packets;
    window.acknowledged(1, 0, &rtt, now);
    measure(&mut window, 2_000, 0, &rtt, &mut now);
    window.acknowledged(1, 0, &rtt, now);
    assert!(window.packets < before, "the queue has drained: the delay counts again");
}

#[test]
fn a_window_near_its_target_does_not_compete() {
    let (rtt, mut now, mut window) = begin(100);
    measure(&mut window, 100, 0, &rtt, &mut now);
    for _ in 0..40 {
        let delay = microseconds(window.target(&rtt)) + 20;
        now = now.plus(ticks(delay));
        measure(&mut window, delay, 0, &rtt, &mut now);
        window.acknowledged(1, 15, &rtt, now);
    }
    assert!(window.packets() <= 8 && window.reductions == 1);
    for _ in 0..20 {
        let least = microseconds(rtt.least());
        let delay = least + (microseconds(window.target(&rtt)) - least) / 2 * 3;
        now = now.plus(ticks(delay));
        measure(&mut window, delay, 0, &rtt, &mut now);
        window.acknowledged(1, 15, &rtt, now);
    }
    assert!(window.reductions > 10, "the queue is too long, but not long");
    assert!(!window.signs.contains(Signs::COMPETING));
}

#[test]
fn a_window_that_comes_back_ends_the_row_of_reductions() {
    let (rtt, mut now, mut window) = begin(1_000);
    window.signs.remove(Signs::FRESH);
    for excess in [100, 100, -300, -300] {
        let delay = microseconds(window.target(&rtt)).saturating_add_signed(excess);
        now = now.plus(ticks(delay));
        window.measured(ticks(delay), ticks(delay), 0, 0, &rtt, now);
        // The other half of the round trip had a longer delay: no sign of a drained queue.
        window.delays[0] = (ticks(3_000) / DELAY_TICKS) as u16;
        window.acknowledged(16, 0, &rtt, now);
    }
    assert_eq!(window.reductions, 0);
}

#[test]
fn a_queue_has_drained_after_half_a_round_trip_without_delay() {
    let (rtt, mut now, mut window) = begin(1_000);
    for _ in 0..2 {
        measure(&mut window, 2_000, 0, &rtt, &mut now);
        window.acknowledged(16, 0, &rtt, now);
    }
    assert!(window.reductions > 0);
    let mut sample = |window: &mut CongestionWindow, delay| {
        now = now.plus(ticks(500));
        window.measured(ticks(delay), ticks(delay), 0, 0, &rtt, now);
        window.acknowledged(8, 8, &rtt, now);
    };
    sample(&mut window, 2_000);
    sample(&mut window, 1_000);
    assert!(window.reductions > 0, "one low sample");
    sample(&mut window, 1_000);
    assert_eq!(window.reductions, 0);
}

#[test]
fn pressure_takes_its_share() {
    let window = CongestionWindow::new(Tick::default());
    assert!(window.allows(Congestion::Delay, 7, 4, Tick::default()));
    assert!(!window.allows(Congestion::Delay, 8, 4, Tick::default()));
}

#[test]
fn a_window_that_falls_below_one_packet_has_a_pace_and_no_plateau() {
    let (rtt, now, mut window) = begin(1_000);
    window.signs = Signs::COMPETING | Signs::ANSWERED;
    window.delays = [(ticks(3_000) / DELAY_TICKS) as u16; 2];
    window.lost(now, &rtt, now);
    assert!(window.next_at.since(now) > ticks(1_000_000), "a plateau, seconds ahead");
    assert!(window.allows(Congestion::Delay, 0, 7, now), "occupancy is no pace");
    window.signs = Signs::ANSWERED;
    window.packets = ONE;
    window.lost(now, &rtt, now);
    assert!(window.is_pace());
    assert!(window.allows(Congestion::Delay, 0, 0, now));
}

#[test]
fn losses_of_one_round_trip_shrink_the_window_once() {
    let (rtt, start, mut window) = begin(1_000);
    let at = |microseconds| start.plus(ticks(microseconds));
    window.delays = [(ticks(3_000) / DELAY_TICKS) as u16; 2];
    window.lost(start, &rtt, at(3_000));
    assert_eq!(window.packets(), 8);
    window.signs.insert(Signs::ANSWERED);
    window.lost(at(2_900), &rtt, at(6_100));
    assert_eq!(window.packets(), 8, "it was sent before that");
    window.lost(at(3_000), &rtt, at(6_100));
    assert_eq!(window.packets(), 4);
}
