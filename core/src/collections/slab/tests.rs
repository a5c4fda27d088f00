// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slab against a set, the list against a `VecDeque`.

use super::*;
use crate::collections::list::{Link, Links, List};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::vec;
use std::vec::Vec;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Index(u32);

impl SlotIndex for Index {
    const NONE: Self = Self(u32::MAX);

    fn from_number(number: u32) -> Self {
        Self(number)
    }

    fn number(self) -> u32 {
        self.0
    }
}

#[derive(Clone, Debug, Default)]
struct Item {
    value: u32,
    links: Links<Index>,
}

impl Link<Index> for Item {
    fn link(&mut self) -> &mut Links<Index> {
        &mut self.links
    }
}

#[derive(Clone, Copy, Debug)]
enum SlabStep {
    Alloc(u32),
    Release(usize),
}

fn slab_step() -> impl Strategy<Value = SlabStep> {
    prop_oneof![
        3 => any::<u32>().prop_map(SlabStep::Alloc),
        2 => any::<usize>().prop_map(SlabStep::Release),
    ]
}

proptest! {
    #[test]
    fn slab_is_a_map_with_generations(
        capacity in prop::sample::select(vec![0usize, 1, 3, 8, 80, 100]),
        all_begun: bool,
        steps in prop::collection::vec(slab_step(), 0..100),
    ) {
        let slots = Slots::with_room(capacity).unwrap();
        let slots = if all_begun { slots.begin_all() } else { slots };
        let mut slab = Slab::<Item, Index>::new(slots);
        let mut model = BTreeMap::new();
        let mut generations = vec![0u32; capacity];
        let mut most = 0;
        for step in steps {
            match step {
                SlabStep::Alloc(value) => {
                    let number = slab.alloc(Item { value, ..Item::default() });
                    prop_assert_eq!(number.is_some(), model.len() < capacity);
                    if let Some(number) = number {
                        prop_assert!(model.insert(number, value).is_none(), "slot given out twice");
                    }
                }
                SlabStep::Release(which) if !model.is_empty() => {
                    let number = *model.keys().nth(which % model.len()).unwrap();
                    model.remove(&number);
                    slab.release(number);
                    generations[number.number() as usize] += 1;
                }
                SlabStep::Release(_) => {}
            }
            prop_assert_eq!(slab.used() as usize, model.len());
            prop_assert_eq!(slab.has_free(0), model.len() < capacity);
            prop_assert!(slab.is_sound());
            most = most.max(model.len());
            prop_assert!(all_begun || slab.slots.len() < most + BEGIN as usize, "few more begin");
            for number in (0..capacity as u32).map(Index) {
                prop_assert_eq!(slab.is_used(number), model.contains_key(&number));
            }
            for (&number, &value) in &model {
                prop_assert_eq!(slab.generation(number), generations[number.0 as usize]);
                prop_assert_eq!(slab[number].value, value);
            }
        }
    }

    #[test]
    fn a_shuffled_slab_gives_each_slot_once(capacity in 1usize..40, seed: u64) {
        let give = |seed: u64| {
            let mut state = seed;
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state >> 20
            };
            let mut slab = Slab::<Item, Index>::new(Slots::with_room(capacity).unwrap());
            slab.begin_shuffled(1, &mut random);
            slab.begin_shuffled(capacity as u32 - 1, random);
            assert!(slab.is_sound());
            let mut order = Vec::new();
            while let Some(slot) = slab.alloc(Item::default()) {
                order.push((slot, slab.generation(slot)));
            }
            let (first, _) = order[0];
            slab.release_last(first);
            assert_eq!(slab.alloc(Item::default()), Some(first));
            order
        };
        let order = give(seed);
        let mut sorted: Vec<_> = order.iter().map(|entry| entry.0.0).collect();
        sorted.sort_unstable();
        prop_assert!(sorted.into_iter().eq(0..capacity as u32));
        if capacity > 12 {
            prop_assert_ne!(order, give(seed ^ 1 << 63 ^ 1), "another seed, another order");
        }
    }

    #[test]
    fn list_is_a_queue(steps in prop::collection::vec((0u8..5, 0u32..8), 0..100)) {
        let mut slab = Slab::<Item, Index>::new(Slots::with_room(8).unwrap());
        for _ in 0..8 {
            slab.alloc(Item::default()).unwrap();
        }
        let [mut list, mut other] = [List::default(); 2];
        let [mut model, mut others]: [VecDeque<Index>; 2] = Default::default();
        for (what, number) in steps {
            let number = Index(number);
            if others.contains(&number) {
                other.remove(&mut slab, number);
                others.retain(|&n| n != number);
            }
            let position = model.iter().position(|&n| n == number);
            match (what, position) {
                (0, None) => {
                    list.push_back(&mut slab, number);
                    model.push_back(number);
                }
                (1, Some(at)) => {
                    list.remove(&mut slab, number);
                    model.remove(at);
                }
                (2, _) => prop_assert_eq!(list.pop_front(&mut slab), model.pop_front()),
                (3, None) => {
                    let at = number.0 as usize % (model.len() + 1);
                    let before = model.get(at).copied().unwrap_or(Index::NONE);
                    list.insert_before(&mut slab, number, before);
                    model.insert(at, number);
                }
                (4, Some(at)) => {
                    let last = at + number.0 as usize % (model.len() - at);
                    list.move_run(&mut slab, (number, model[last]), &mut other);
                    others.extend(model.drain(at..=last));
                }
                _ => {}
            }
            for (list, model) in [(list, &model), (other, &others)] {
                let mut seen = Vec::new();
                let (mut at, mut before) = (list.head(), Index::NONE);
                while at.is_some() {
                    seen.push(at);
                    prop_assert_eq!(List::prev(&mut slab, at), before);
                    before = at;
                    at = List::next(&mut slab, at);
                }
                prop_assert_eq!(&seen, &Vec::from(model.clone()));
                prop_assert_eq!(list.tail(), before);
                prop_assert_eq!(list.is_empty(), model.is_empty());
            }
        }
    }
}
