// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source ports: packets find the queue of their port (`docs/PROTOCOL.md` §13).

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::rss::{HashFields, KEY, Rss};
use ofi_xdp_core::*;
use std::time::Duration;
use world::*;

const TABLES: [[u32; 8]; 2] = [[0, 1, 2, 3, 0, 1, 2, 3], [2, 3, 0, 1, 1, 0, 3, 2]];
const QUEUES: u16 = 4;

fn card(queue: u32) -> HostCard {
    HostCard::new(Rss { key: &KEY, table: &TABLES[0], fields: HashFields::Ports }, queue, QUEUES)
}

/// Four hosts on cards of four queues; the port of each has another queue than its packets.
fn world(seed: u64, faults: Faults) -> World {
    let mut world = World::new(4, seed, &small(), faults);
    for (number, node) in world.nodes.iter_mut().enumerate() {
        let mut card = card(0);
        let own = card.rss.queue(address((number + 1) % 4), address(number));
        card.queue = (own + 1) % u32::from(QUEUES);
        node.card = Some(card);
    }
    world
}

/// Each host sends a message to each other one, until all have arrived, `rounds` times.
fn all_to_all(world: &mut World, rounds: u64) {
    for round in 0..rounds {
        for from in 0..4 {
            for to in (0..4).filter(|&to| to != from) {
                let context = (from as u64) << 32 | round;
                world.recv(to, context, 64);
                world.send(from, to, context, pattern(context, 64));
            }
        }
        let all = |world: &World| world.nodes.iter().all(|node| node.completions.len() == 6);
        assert!(world.run_until(Duration::from_secs(1), all), "round {round}");
        for node in 0..4 {
            for done in world.completions(node) {
                assert_eq!(done.outcome, Ok(()), "{done:?}");
            }
        }
    }
}

/// The part of packets that has arrived by the right queue since the last call.
fn share(world: &mut World) -> f64 {
    let (mut direct, mut all) = (0, 0);
    for node in &mut world.nodes {
        let card = node.card.as_mut().unwrap();
        direct += card.direct;
        all += card.direct + card.misdirected;
        (card.direct, card.misdirected) = (0, 0);
    }
    direct as f64 / all as f64
}

fn changes(world: &World) -> u64 {
    world.nodes.iter().map(|node| node.card.as_ref().unwrap().changes).sum()
}

fn losses(world: &World) -> u64 {
    let lost =
        |node: &Node| node.engine.stats().losses_by_ack + node.engine.stats().retransmissions;
    world.nodes.iter().map(lost).sum()
}

#[test]
fn packets_find_the_queue_of_their_port_and_stay_there() {
    for seed in 0..4 {
        let mut world = world(seed, Faults::NONE);
        all_to_all(&mut world, 1);
        assert!(share(&mut world) < 0.7, "they do not by chance");
        all_to_all(&mut world, 40);
        share(&mut world);
        let before = changes(&world);
        all_to_all(&mut world, 100);
        let share = share(&mut world);
        assert!(share >= 0.99, "seed {seed}: {share}, {} changes", changes(&world));
        assert!(changes(&world) <= before + 2, "seed {seed}: ports that work stay");
        assert_eq!(losses(&world), 0, "a change loses nothing");
    }
}

#[test]
fn a_named_port_is_found_at_once() {
    let mut world = world(1, Faults::NONE);
    world.nodes.iter_mut().for_each(|node| node.card.as_mut().unwrap().names = true);
    all_to_all(&mut world, 10);
    share(&mut world);
    assert!(changes(&world) <= 12, "{}: one for each direction", changes(&world));
    all_to_all(&mut world, 100);
    assert_eq!(share(&mut world), 1.0);
    assert!(changes(&world) <= 12);
}

#[test]
fn another_table_under_way_moves_them_again() {
    for seed in 10..14 {
        let mut world = world(seed, Faults { jitter: 1_000, ..Faults::NONE });
        all_to_all(&mut world, 60);
        // The ports that were found have been right for a while.
        world.now += 2_000_000_000;
        all_to_all(&mut world, 1);
        let before = losses(&world);
        for node in &mut world.nodes {
            node.card.as_mut().unwrap().rss.table = &TABLES[1];
        }
        all_to_all(&mut world, 60);
        share(&mut world);
        all_to_all(&mut world, 100);
        let share = share(&mut world);
        assert!(share >= 0.99, "seed {seed}: {share}, {} changes", changes(&world));
        assert_eq!(losses(&world), before, "a change loses nothing");
    }
}

#[test]
fn a_card_that_no_port_satisfies_costs_little() {
    // The table names one queue, which is not the port's.
    let mut world = world(3, Faults::NONE);
    for node in &mut world.nodes {
        let card = node.card.as_mut().unwrap();
        (card.rss.table, card.queue) = (&[0], 1);
    }
    all_to_all(&mut world, 400);
    let requests: u64 = world.nodes.iter().map(|node| node.engine.stats().port_requests).sum();
    // Twelve directions, 16 tries each and the return; repetitions are few.
    let most = 12 * (u64::from(WantedPort::other(QUEUES).tries_max()) + 1);
    assert!(changes(&world) <= most, "{} changes", changes(&world));
    assert!(requests <= 2 * most, "{requests} requests");
    assert_eq!(share(&mut world), 0.0);
}

#[test]
fn a_sender_that_keeps_its_port_is_asked_seldom() {
    let mut world = world(4, Faults::NONE);
    world.nodes.iter_mut().for_each(|node| node.card.as_mut().unwrap().keeps = true);
    all_to_all(&mut world, 1000);
    assert_eq!(changes(&world), 0);
    let sum = |of: fn(&Stats) -> u64| -> u64 {
        world.nodes.iter().map(|node| of(node.engine.stats())).sum()
    };
    let (requests, packets) = (sum(|stats| stats.port_requests), sum(|stats| stats.packets_sent));
    assert!(requests > 0 && requests < packets / 50, "{requests} of {packets}");
}

#[test]
fn losses_and_repeated_packets_do_not_hinder_it() {
    for seed in 0..4 {
        let faults =
            Faults { loss: 2.0, duplicate: 2.0, corrupt: 1.0, delay: 2_000, jitter: 4_000 };
        let mut world = world(seed, faults);
        all_to_all(&mut world, 100);
        share(&mut world);
        all_to_all(&mut world, 200);
        let share = share(&mut world);
        assert!(share >= 0.95, "seed {seed}: {share}, {} changes", changes(&world));
    }
}

#[test]
fn a_connection_after_another_begins_from_the_own_port() {
    for seed in 0..4 {
        let mut world = world(seed, Faults::NONE);
        all_to_all(&mut world, 40);
        assert!(changes(&world) > 0, "seed {seed}");
        for round in 0..2 {
            for (one, other) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
                let gone = world.peer(one, other);
                world.nodes[one].engine.remove_peer(gone).unwrap();
                world.run(Duration::from_millis(1));
                // The side that was notified connects anew, from a slot whose packets had another
                // source port.
                world.recv(one, round, 64);
                world.send(other, one, round, pattern(round, 64));
                world.run(Duration::from_millis(1));
                let source = world.completions(one).first().map(|done| done.peer).unwrap();
                let engine = &world.nodes[one].engine;
                assert_eq!(engine.peer_address(source), Some(address(other)), "seed {seed}");
                let sent = world.completions(other);
                assert!(matches!(sent.as_slice(), [done] if done.outcome == Ok(())), "{sent:?}");
            }
        }
    }
}
