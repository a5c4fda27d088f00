// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wheel against a map of deadlines, from any starting time.

use super::*;
use crate::peer::slots::ConnSlot;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;

const OWNERS: u32 = 6;

#[derive(Clone, Copy, Debug)]
enum Step {
    Arm(u32, u64),
    Disarm(u32),
    Pass(u64),
}

fn slot(owner: u32) -> ConnSlot {
    ConnSlot::from_number(owner)
}

/// Distances of every order of magnitude, up to minutes.
fn distance() -> impl Strategy<Value = u64> {
    (0u32..38, any::<u64>()).prop_map(|(bits, value)| value & ((1u64 << bits) - 1))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..OWNERS, distance()).prop_map(|(owner, d)| Step::Arm(owner, d)),
        1 => (0..OWNERS).prop_map(Step::Disarm),
        3 => distance().prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn wheel_is_a_map_of_deadlines(
        start in 0u64..(1 << 62),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut slots = vec![TimerSlot::default(); OWNERS as usize];
        let mut wheel = Wheel::<ConnSlot>::new(&mut slots);
        let mut now = Instant::from_nanos(start);
        prop_assert_eq!(wheel.expire(now), None);
        let mut model: BTreeMap<u32, Instant> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Arm(owner, d) => {
                    wheel.arm(slot(owner), now.after_nanos(d), now);
                    model.insert(owner, now.after_nanos(d));
                }
                Step::Disarm(owner) => {
                    wheel.disarm(slot(owner));
                    model.remove(&owner);
                }
                Step::Pass(d) => {
                    now = now.after_nanos(d);
                    while let Some(owner) = wheel.expire(now) {
                        let deadline = model.remove(&owner.number());
                        prop_assert!(deadline.is_some(), "fired without being armed");
                        prop_assert!(deadline <= Some(now), "fired early");
                    }
                    prop_assert!(model.values().all(|&d| d > now), "due but not fired");
                }
            }
            let earliest = model.values().min().copied();
            prop_assert_eq!(wheel.next_deadline().is_some(), earliest.is_some());
            prop_assert!(wheel.next_deadline() <= earliest, "told too late");
            if matches!(step, Step::Pass(_)) && earliest.is_some() {
                prop_assert!(wheel.next_deadline() > Some(now), "told again and again");
            }
            for owner in 0..OWNERS {
                prop_assert_eq!(wheel.deadline(slot(owner)), model.get(&owner).copied());
            }
        }
    }
}

#[test]
fn the_past_fires_at_once_and_the_far_future_fires_at_last() {
    let mut slots = vec![TimerSlot::default(); 2];
    let mut wheel = Wheel::new(&mut slots);
    let now = Instant::from_nanos(1 << 50);
    assert_eq!(wheel.expire(now), None);
    wheel.arm(slot(0), Instant::ZERO, now);
    wheel.arm(slot(1), now.after_nanos(3_600_000_000_000), now);
    assert_eq!(wheel.expire(now), Some(slot(0)));
    assert_eq!(wheel.expire(now), None);
    assert_eq!(wheel.expire(now.after_nanos(3_599_999_999_999)), None);
    assert_eq!(wheel.expire(now.after_nanos(3_600_000_000_000)), Some(slot(1)));
}

#[test]
fn a_clock_that_stood_still_for_hours_does_not_take_the_future_for_the_past() {
    // From 4.9 hours on the last level has come round.
    for hours in [2, 3, 5, 6, 24, 24 * 365] {
        let mut slots = vec![TimerSlot::default(); 2];
        let mut wheel = Wheel::new(&mut slots);
        let before = Instant::from_nanos(1 << 50);
        assert_eq!(wheel.expire(before), None);
        wheel.arm(slot(0), before.after_nanos(1_000_000), before);
        // A timer is set before those that are due by now are asked for.
        let now = before.after_nanos(hours * 3_600_000_000_000);
        wheel.arm(slot(1), now.after_nanos(1_000_000), now);
        assert_eq!(wheel.expire(now), Some(slot(0)));
        assert_eq!(wheel.expire(now), None);
        assert_eq!(wheel.expire(now.after_nanos(999_999)), None);
        assert_eq!(wheel.expire(now.after_nanos(1_000_000)), Some(slot(1)));
    }
}
