// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the checkers. Each test breaks an invariant on purpose, and the checker must name it.

use ofi_xdp_core::{Completion, Context, OpError, OpKind, PeerId};
use ofi_xdp_sim::app::{Access, Detail, Oracle, Recv, Region, Remote, Send};
use ofi_xdp_sim::invariants::delivery::Identified;
use ofi_xdp_sim::invariants::protocol::{Observer, Sender};
use ofi_xdp_sim::invariants::{Checked, delivery, liveness};
use ofi_xdp_sim::run::drain;
use ofi_xdp_sim::scenario::Scenario;
use ofi_xdp_sim::wire::View;
use ofi_xdp_sim::world::World;
use ofi_xdp_test_kit::rng::fill_pattern;

fn broken(checked: Checked) -> u8 {
    checked.expect_err("must be seen").0
}

fn done(context: u64, kind: OpKind, len: u64) -> Completion {
    Completion {
        context: Context(context),
        kind,
        peer: PeerId::NONE,
        len,
        overflow: 0,
        tag: 0,
        data: None,
        slice: None,
        ends_buffer: false,
        outcome: Ok(()),
    }
}

/// Node 0 sends 16 bytes, twice, to node 1, which posts two receives.
fn oracle() -> Oracle {
    let mut oracle = Oracle::default();
    oracle.strict = true;
    let send = Send { to: 1, to_life: 0, len: 16, tag: None, data: None, deliveries: 0 };
    let recv = Recv { from: None, len: 16, tag: None, got: None, cancelled: false };
    for _ in 0..2 {
        oracle.post(0, 0, 0, true, Detail::Send(send));
    }
    for _ in 0..2 {
        oracle.post(1, 0, 0, true, Detail::Recv(recv));
    }
    oracle
}

#[test]
fn a_second_delivery_is_seen() {
    let mut oracle = oracle();
    assert_eq!(delivery::once(&oracle, 1, 3, 1, Some(0)), Ok(()));
    oracle.deliver((1, 0), (3, 1), true);
    assert_eq!(broken(delivery::once(&oracle, 1, 4, 1, Some(0))), 1);
    assert_eq!(broken(delivery::once(&oracle, 1, 4, 99, Some(0))), 1, "no such message");
    assert_eq!(broken(delivery::once(&oracle, 1, 4, 2, Some(2))), 1, "another sender");
}

#[test]
fn a_wrong_order_is_seen() {
    let mut oracle = oracle();
    oracle.deliver((1, 0), (3, 2), true);
    assert_eq!(broken(delivery::order(&oracle, 1, 0, 4, 1)), 2);
}

#[test]
fn the_life_of_the_receiver_decides_between_messages_that_look_alike() {
    let mut oracle = Oracle::default();
    let empty = Send { to: 1, to_life: 0, len: 0, tag: None, data: None, deliveries: 0 };
    let former = oracle.post(0, 0, 0, true, Detail::Send(empty));
    let present = oracle.post(0, 0, 0, true, Detail::Send(Send { to_life: 1, ..empty }));
    let got = done(3, OpKind::Recv { tagged: false }, 0);
    let identify =
        |oracle: &Oracle, life| delivery::identify(oracle, (1, life), Some(0), &got, &[], false);
    let certain = |send| Some(Identified { send, is_certain: true });
    assert_eq!(identify(&oracle, 0), certain(former));
    assert_eq!(identify(&oracle, 1), certain(present));
    oracle.end(former, Err(OpError::Reset));
    let unsure = Identified { send: present, is_certain: false };
    assert_eq!(identify(&oracle, 1), Some(unsure), "the other one may have arrived");
    oracle.deliver((1, 1), (3, present), false);
    assert!(oracle.received(1, 1).is_empty(), "its order is not judged");
}

#[test]
fn wrong_bytes_are_seen() {
    let oracle = oracle();
    let mut bytes = vec![0; 16];
    fill_pattern(1, 0, &mut bytes);
    let whole = done(3, OpKind::Recv { tagged: false }, 16);
    assert_eq!(delivery::contents(&oracle, &whole, 1, &bytes), Ok(()));
    bytes[15] ^= 1;
    assert_eq!(broken(delivery::contents(&oracle, &whole, 1, &bytes)), 3);
    let short = done(3, OpKind::Recv { tagged: false }, 15);
    bytes[15] ^= 1;
    assert_eq!(broken(delivery::contents(&oracle, &short, 1, &bytes)), 3);
}

#[test]
fn a_wrong_end_is_seen() {
    let mut oracle = oracle();
    let sent = done(1, OpKind::Send { tagged: false }, 16);
    assert_eq!(delivery::ends_once(&oracle, 0, 0, &sent), Ok(()));
    assert_eq!(broken(delivery::ends_once(&oracle, 1, 0, &sent)), 9, "another node's");
    let failed = Completion { outcome: Err(OpError::Reset), ..sent };
    assert_eq!(broken(delivery::failure_is_excused(&oracle, 0, 1, &failed)), 9);
    oracle.excuse(0, 1, 5);
    assert_eq!(delivery::failure_is_excused(&oracle, 0, 1, &failed), Ok(()));
    assert_eq!(broken(liveness::ended(&oracle, 1)), 25);
    oracle.end(1, Ok(()));
    assert_eq!(broken(delivery::ends_once(&oracle, 0, 0, &sent)), 9, "twice");
    assert_eq!(broken(delivery::all_arrived(&oracle, &[0, 0], &[1, 0])), 1, "never received");
    assert_eq!(delivery::all_arrived(&oracle, &[0, 0], &[0, 1]), Ok(()), "an orphan, put out");
}

#[test]
fn a_lost_message_fails_a_run() {
    let mut world = World::new(1, &Scenario { nodes: 2, ops: 0, ..Scenario::default() });
    world.send(0, 1, 100);
    world.after_post(0).unwrap();
    world.run_until(1_000_000).unwrap();
    // The oracle has a message that was never posted to the engine.
    let send = Send { to: 1, to_life: 0, len: 9, tag: None, data: None, deliveries: 0 };
    let ghost = world.oracle.post(0, 0, 0, true, Detail::Send(send));
    world.oracle.end(ghost, Ok(()));
    assert_eq!(drain(&mut world).unwrap_err().invariant, 1);
}

/// A packet of a connection, as small as they get.
fn packet(kind: u8, flags: u8, psn: u32, ack: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    (bytes[0], bytes[1], bytes[2], bytes[8]) = (0x10, kind, flags, 1);
    bytes[12..16].copy_from_slice(&psn.to_le_bytes());
    bytes[16..20].copy_from_slice(&ack.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn wrong_packets_are_seen() {
    let sender = |now| Sender { from: 0, to: 1, now, timers: 0, round_trip_min: 100 };
    let mut observer = Observer::default();
    let mut observe = |now, bytes: &[u8]| observer.observe(sender(now), &View::new(bytes).unwrap());
    let record = [[0x10, 0, 0, 0, 5, 0, 0, 0], [0; 8]].concat();
    assert_eq!(observe(0, &packet(0x10, 0, 7, 50, &record)), Ok(()));
    assert_eq!(observe(200, &packet(0x10, 2, 7, 50, &record)), Ok(()), "sent again");
    assert_eq!(broken(observe(250, &packet(0x10, 2, 7, 50, &record))), 17, "too soon");
    let other = [[0x10, 0, 0, 0, 6, 0, 0, 0], [0; 8]].concat();
    assert_eq!(broken(observe(900, &packet(0x10, 2, 7, 50, &other))), 18, "other records");
    assert_eq!(broken(observe(900, &packet(0x10, 0, 9, 50, &record))), 10, "a gap");
    assert_eq!(broken(observe(900, &packet(0x01, 0, 0, 49, &[0; 16]))), 11, "back");
}

#[test]
fn wrong_memory_is_seen() {
    use ofi_xdp_sim::invariants::rma;
    let mut world = World::new(1, &Scenario { nodes: 2, ops: 0, ..Scenario::default() });
    let Some(number) = world.region_of(1) else { panic!("no region") };
    let region: Region = world.oracle.regions[number].clone();
    let bytes = world.nodes[1].memory.region(region.id).unwrap().to_vec();
    let check =
        |world: &World, bytes: &[u8]| rma::region_contents(&world.oracle, number, bytes, true);
    assert_eq!(check(&world, &bytes), Ok(()));
    let mut touched = bytes.clone();
    touched[10] ^= 1;
    assert_eq!(broken(check(&world, &touched)), 3, "what is only read");
    let mut touched = bytes.clone();
    *touched.last_mut().unwrap() ^= 1;
    assert_eq!(broken(check(&world, &touched)), 3, "what nobody wrote");
    let mut counted = bytes.clone();
    counted[region.cell(0) as usize] = 2;
    assert_eq!(broken(check(&world, &counted)), 7, "additions that nobody asked for");
    let remote = Remote {
        access: Access::Write,
        to: 1,
        to_life: 0,
        region: number,
        offset: region.writable(),
        len: 8,
        data: Some(1),
        wrong: None,
        superseded: false,
        events: 0,
        former: None,
    };
    let id = world.oracle.post(0, 0, 0, true, Detail::Remote(remote));
    world.oracle.end(id, Ok(()));
    assert_eq!(broken(check(&world, &bytes)), 8, "success, but not placed");
    assert_eq!(broken(rma::all_data_reported(&world.oracle, &[0, 0])), 5, "data that never came");
}
