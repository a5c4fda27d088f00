// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queue against a model: a list in posting order, searched from its head.

use super::*;
use crate::PeerId;
use crate::collections::slots::Slots;
use crate::peer::operation::RecvOp;
use crate::peer::slots::RecvSlot;
use crate::{Context, RecvRequest};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const SIZE: usize = 128;

#[derive(Clone, Copy, Debug)]
enum Step {
    Post {
        from: Option<u32>,
        tag: Option<TagMatch>,
    },
    /// A message: the first receive that it matches leaves.
    Match {
        from: u32,
        tag: Option<u64>,
    },
    /// A receive leaves, and comes back if it says so.
    Remove {
        index: usize,
        restored: bool,
    },
}

/// Masks of more kinds than have bins, with and without a source.
fn masks() -> impl Strategy<Value = u64> {
    let some = (0u32..7).prop_map(|n| 1 << n);
    prop_oneof![4 => Just(0), 2 => Just(1 << 63), 2 => Just(!0), 3 => some]
}

fn step() -> impl Strategy<Value = Step> {
    let rule = (0u64..6, masks()).prop_map(|(tag, ignore)| TagMatch { tag, ignore });
    let tag = prop::option::weighted(0.9, rule);
    let from = prop::option::weighted(0.5, 0u32..3);
    let message = prop::option::weighted(0.9, 0u64..6);
    prop_oneof![
        6 => (from, tag).prop_map(|(from, tag)| Step::Post { from, tag }),
        4 => (0u32..3, message).prop_map(|(from, tag)| Step::Match { from, tag }),
        1 => (0..SIZE, any::<bool>())
            .prop_map(|(index, restored)| Step::Remove { index, restored }),
    ]
}

fn peer(number: u32) -> PeerId {
    PeerId::new(number, 1)
}

fn receive(from: Option<u32>, tag: Option<TagMatch>) -> RecvOp {
    let from = from.map(peer);
    let request = RecvRequest { from, len: 0, context: Context(0), tag, signal: true };
    RecvOp { request, ..RecvOp::default() }
}

/// The receives of a queue, in order.
fn listed(
    queue: &PostedQueue<'_, RecvSlot>,
    slots: &mut Slab<'_, RecvOp, RecvSlot>,
) -> Vec<RecvSlot> {
    let mut found = Vec::new();
    for tagged in [false, true] {
        let mut slot = queue.first(tagged);
        while slot.is_some() {
            found.push(slot);
            slot = List::next(slots, slot);
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn a_message_finds_the_receive_that_was_posted_first(
        secret: [u64; 2],
        binned: bool,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let storage = Slots::with_room(SIZE).unwrap();
        let mut slots: Slab<'_, RecvOp, RecvSlot> = Slab::new(storage);
        // Few bins, so that keys share them.
        let mut chains = vec![List::default(); 8];
        let mut entries = vec![BinEntry::default(); SIZE];
        let mut queue = PostedQueue::new((&mut chains, &mut entries), secret);
        let mut model: Vec<RecvSlot> = Vec::new();
        for step in steps {
            match step {
                Step::Post { from, tag } => {
                    let Some(slot) = slots.alloc(receive(from, tag)) else { continue };
                    // With many used slots in the pool, each receive gets a bin at once.
                    let used = slots.used() + if binned { UNBINNED_MAX } else { 0 };
                    queue.push(&mut slots, (slot, tag.is_some()), used);
                    model.push(slot);
                }
                Step::Match { from, tag } => {
                    let message = (peer(from), tag);
                    let at = model.iter().position(|&slot| matches(slots[slot].wanted(), message));
                    let found = queue.find(&mut slots, message.0, tag);
                    prop_assert_eq!(found, at.map_or(RecvSlot::NONE, |at| model[at]));
                    if let Some(at) = at {
                        queue.remove(&mut slots, found, tag.is_some());
                        slots.release(found);
                        model.remove(at);
                    }
                }
                Step::Remove { index, restored } => {
                    let Some(&slot) = model.get(index) else { continue };
                    let tagged = slots[slot].request.tag.is_some();
                    queue.remove(&mut slots, slot, tagged);
                    if restored {
                        let alike = |slot: RecvSlot| slots[slot].request.tag.is_some() == tagged;
                        let mut later = model[index + 1..].iter().copied();
                        let before = later.find(|&other| alike(other));
                        let before = before.unwrap_or(RecvSlot::NONE);
                        queue.restore(&mut slots, (slot, tagged), before);
                    } else {
                        slots.release(slot);
                        model.remove(index);
                    }
                }
            }
            let mut expected = model.clone();
            expected.sort_by_key(|&slot| slots[slot].request.tag.is_some());
            prop_assert_eq!(listed(&queue, &mut slots), expected);
        }
        // Nothing is left in a chain when all receives have left.
        for slot in model {
            let tagged = slots[slot].request.tag.is_some();
            queue.remove(&mut slots, slot, tagged);
        }
        let counts = queue.kinds.iter().map(|kind| kind.1).sum::<u32>();
        prop_assert_eq!((queue.binned, counts, queue.kinds_end), (0, 0, 0));
        prop_assert!(queue.others.is_empty());
        prop_assert!((0..8).all(|bin| queue.bins.chain(bin).is_empty()));
    }
}

#[test]
fn a_search_that_goes_far_takes_few_steps() {
    let storage = Slots::with_room(10_000).unwrap();
    let mut slots: Slab<'_, RecvOp, RecvSlot> = Slab::new(storage);
    let mut chains = vec![List::default(); 16_384];
    let mut entries = vec![BinEntry::default(); 10_000];
    let mut queue = PostedQueue::new((&mut chains, &mut entries), [9, 7]);
    for tag in 0..10_000 {
        let slot = slots.alloc(receive(Some(0), Some(TagMatch { tag, ignore: 0 }))).unwrap();
        let used = slots.used();
        queue.push(&mut slots, (slot, true), used);
        assert!(used - queue.binned <= UNBINNED_MAX, "a search walks no more than these");
    }
    while queue.binned < 10_000 {
        let before = queue.binned;
        assert!(queue.find(&mut slots, peer(0), Some(9_999)).is_some());
        assert_eq!(queue.binned, before + BINNED_PER_SEARCH);
    }
    let longest = (0..16_384).map(|bin| {
        let (mut steps, mut slot) = (0, queue.bins.chain(bin).head());
        while slot.is_some() {
            steps += 1;
            slot = List::next(&mut queue.entries, slot);
        }
        steps
    });
    assert!(longest.max().unwrap() < 12);
}
