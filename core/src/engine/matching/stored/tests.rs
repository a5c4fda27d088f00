// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queue against a model: a list in order of acceptance, searched from its head.

use super::*;
use crate::collections::slots::Slots;
use crate::wire::Envelope;
use crate::{Context, TagMatch};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const SIZE: u32 = 128;

#[derive(Clone, Copy, Debug)]
enum Step {
    Store {
        from: u32,
        tag: Option<u64>,
    },
    /// A receive: the first message that it matches leaves.
    Match {
        from: Option<u32>,
        tag: Option<TagMatch>,
    },
    /// A receive whose search goes on in the next steps.
    Wait {
        from: Option<u32>,
        tag: Option<TagMatch>,
    },
    Remove {
        index: usize,
    },
    /// A view is made for a kind of receives.
    View {
        directed: bool,
        ignore: u64,
    },
    /// A message out of order is stored, or found and taken out.
    OutOfOrder {
        from: u32,
        msn: u32,
    },
    /// The messages of a peer.
    Walk {
        from: u32,
    },
    /// A peer is removed.
    Disown {
        from: u32,
    },
}

/// Masks of more kinds than there are views, with and without a source.
fn masks() -> impl Strategy<Value = u64> {
    let some = (0u32..5).prop_map(|n| 1 << n);
    prop_oneof![4 => Just(0), 2 => Just(1 << 63), 2 => Just(!0), 3 => some]
}

fn step() -> impl Strategy<Value = Step> {
    let rule = || {
        let rule = (0u64..6, masks()).prop_map(|(tag, ignore)| TagMatch { tag, ignore });
        (prop::option::of(0u32..3), prop::option::weighted(0.9, rule))
    };
    let tag = prop::option::weighted(0.9, 0u64..6);
    prop_oneof![
        12 => (0u32..3, tag).prop_map(|(from, tag)| Step::Store { from, tag }),
        8 => rule().prop_map(|(from, tag)| Step::Match { from, tag }),
        4 => rule().prop_map(|(from, tag)| Step::Wait { from, tag }),
        2 => (0..SIZE as usize).prop_map(|index| Step::Remove { index }),
        1 => (any::<bool>(), masks())
            .prop_map(|(directed, ignore)| Step::View { directed, ignore }),
        3 => (0u32..2, 0u32..20).prop_map(|(from, msn)| Step::OutOfOrder { from, msn }),
        1 => (0u32..3).prop_map(|from| Step::Walk { from }),
        1 => (0u32..3).prop_map(|from| Step::Disown { from }),
    ]
}

fn peer(number: u32) -> PeerId {
    PeerId::new(number, 1)
}

fn message(from: u32, tag: Option<u64>, msn: u32) -> Unexpected {
    let envelope = Envelope { tag, msn: Msn(msn), ..Envelope::default() };
    Unexpected { peer: peer(from), envelope, ..Unexpected::default() }
}

fn request(from: Option<u32>, tag: Option<TagMatch>) -> RecvRequest {
    RecvRequest { from: from.map(peer), len: 0, context: Context(0), tag, signal: true }
}

/// The message that a search finds, however many calls it takes.
fn found_message(
    queue: &mut StoredQueue<'_>,
    pool: &mut UnexpectedPool<'_>,
    request: &RecvRequest,
    mut skips: impl FnMut(&Unexpected) -> bool,
) -> StoredSlot {
    let mut at = StoredSlot::NONE;
    loop {
        if let Search::Ended(slot) = queue.find(pool, request, &mut at, &mut skips) {
            return slot;
        }
    }
}

/// The messages of a peer that a walk of its chain finds.
fn of(queue: &mut StoredQueue<'_>, pool: &mut UnexpectedPool<'_>, from: u32) -> Vec<StoredSlot> {
    let mut found = Vec::new();
    let mut slot = queue.first_of(pool, peer(from));
    while slot.is_some() {
        found.push(slot);
        slot = StoredQueue::next_of(pool, slot);
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn a_receive_finds_the_message_that_was_stored_first(
        secret: [u64; 2],
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let storage = Slots::with_room(SIZE as usize).unwrap();
        let mut pool = UnexpectedPool::new(storage, [SIZE, 0, 0, 0]).unwrap();
        // Few bins, so that keys share them.
        let mut chains = vec![List::default(); 4 * TABLES];
        let mut queue = StoredQueue::new(&mut chains, secret);
        let mut model = Vec::<StoredSlot>::new();
        let mut out_of_order = Vec::<(u32, u32, StoredSlot)>::new();
        let mut serial = 0;
        let mut waiting = None;
        for step in steps {
            if let Some(request) = waiting {
                let mut at = *queue.search_at();
                let search = queue.find(&mut pool, &request, &mut at, |_| false);
                *queue.search_at() = at;
                if let Search::Ended(found) = search {
                    let mut fitting = model.iter().copied().filter(|&slot| {
                        let message = pool.message(slot);
                        request.takes(message.peer, &message.envelope)
                    });
                    prop_assert_eq!(found, fitting.next().unwrap_or(StoredSlot::NONE));
                    waiting = None;
                    *queue.search_at() = StoredSlot::NONE;
                }
            }
            match step {
                Step::Wait { from, tag } => {
                    if waiting.is_none() {
                        waiting = Some(request(from, tag));
                    }
                }
                Step::Store { from, tag } => {
                    let Some(slot) = pool.alloc(0, message(from, tag, serial)) else { continue };
                    serial += 1;
                    queue.push(&mut pool, slot);
                    model.push(slot);
                }
                Step::Match { from, tag } => {
                    let request = request(from, tag);
                    let at = model.iter().position(|&slot| {
                        let message = pool.message(slot);
                        request.takes(message.peer, &message.envelope)
                    });
                    let found = found_message(&mut queue, &mut pool, &request, |_| false);
                    prop_assert_eq!(found, at.map_or(StoredSlot::NONE, |at| model[at]));
                    if let Some(at) = at {
                        // The next one, if the first is excluded.
                        let first = pool.message(found).envelope.msn;
                        let next = model[at + 1..].iter().position(|&slot| {
                            let message = pool.message(slot);
                            request.takes(message.peer, &message.envelope)
                        });
                        let skips = |stored: &Unexpected| stored.envelope.msn == first;
                        let second = found_message(&mut queue, &mut pool, &request, skips);
                        let next = next.map_or(StoredSlot::NONE, |next| model[at + 1 + next]);
                        prop_assert_eq!(second, next);
                        queue.remove(&mut pool, found);
                        pool.release(found);
                        model.remove(at);
                    }
                }
                Step::Remove { index } => {
                    if index < model.len() {
                        let slot = model.remove(index);
                        queue.remove(&mut pool, slot);
                        pool.release(slot);
                    }
                }
                Step::View { directed, ignore } => {
                    queue.add_view(&mut pool, MatchKind { tagged: true, directed, ignore });
                }
                Step::OutOfOrder { from, msn } => {
                    let found = queue.find_out_of_order(&mut pool, from + 1, Msn(msn));
                    let known = out_of_order.iter().position(|&(f, m, _)| (f, m) == (from, msn));
                    let expected = known.map_or(StoredSlot::NONE, |at| out_of_order[at].2);
                    prop_assert_eq!(found, expected);
                    if let Some(at) = known {
                        out_of_order.remove(at);
                        queue.remove_out_of_order(&mut pool, found);
                        pool.release(found);
                    } else if let Some(slot) = pool.alloc(0, message(from, None, msn)) {
                        pool.message(slot).batch = from + 1;
                        queue.push_out_of_order(&mut pool, slot);
                        out_of_order.push((from, msn, slot));
                    }
                }
                Step::Walk { from } => {
                    let mut expected = model.clone();
                    expected.retain(|&slot| pool.message(slot).peer == peer(from));
                    let mut found = of(&mut queue, &mut pool, from);
                    expected.sort();
                    found.sort();
                    prop_assert_eq!(found, expected);
                }
                Step::Disown { from } => {
                    let mut count = 0;
                    let mut slot = queue.first_of(&mut pool, peer(from));
                    while slot.is_some() {
                        queue.disown(&mut pool, slot);
                        prop_assert_eq!(pool.message(slot).peer, PeerId::NONE);
                        count += 1;
                        slot = queue.first_of(&mut pool, peer(from));
                    }
                    prop_assert!(count <= model.len());
                    prop_assert!(model.iter().all(|&slot| pool.message(slot).peer != peer(from)));
                }
            }
        }
        for slot in model {
            queue.remove(&mut pool, slot);
        }
        prop_assert_eq!(queue.binned, 0);
        prop_assert!(queue.is_empty());
        prop_assert!(queue.views.is_empty(4));
    }
}
