// SPDX-License-Identifier: MIT OR Apache-2.0
//! The map and the engine follow insertions and removals in the vector.

use std::net::SocketAddr;
use std::time::Duration;

use ofi_xdp_core::{ChecksumCoverage, Config, Identity, Instant, PortLimits};

use super::*;
use ofi_xdp_core::EngineBox;

const PEERS: u32 = 8;

fn engine() -> EngineBox {
    let config = Config { peers: PEERS, ..Config::new(ofi_xdp_checksum::crc32c) };
    let limits = PortLimits {
        payload_max: 1472,
        receive_max: 1472,
        port_packets: 64,
        coverage: ChecksumCoverage::Whole,
    };
    EngineBox::new(&config, Identity { key: 1 }, limits).unwrap()
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// A vector, a map and an engine without a peer.
fn with_map(test: impl FnOnce(&AddressTable, &mut PeerMap, &mut Engine<'_>)) {
    let av = AddressTable::new(0);
    let mut map = PeerMap::new(PEERS as usize, 0, &av).unwrap();
    engine().with_mut(|engine| test(&av, &mut map, engine));
}

/// A shared vector, a map and an engine, and the vector of another process. `address(1)` is at 0
/// and `address(9)` at 1; the map knows both.
fn with_shared_map(
    name: &str,
    test: impl FnOnce(&AddressTable, &AddressTable, &mut PeerMap, &mut Engine<'_>),
) {
    let name = format!("{name}/{}", std::process::id());
    let open = || AddressTable::open_shared("127.0.0.1", &name, false, 0).unwrap();
    let (av, others) = (open(), open());
    let mut map = PeerMap::new(PEERS as usize, 0, &av).unwrap();
    engine().with_mut(|engine| {
        for (port, index) in [(1, 0), (9, 1)] {
            assert_eq!(av.insert(address(port)), Ok(index));
            map.peer(engine, &av, index).unwrap();
        }
        test(&av, &others, &mut map, engine);
    });
}

#[test]
fn both_directions_agree() {
    with_map(|av, map, engine| {
        for port in 1..=4 {
            let index = av.insert(address(port)).unwrap();
            let peer = map.peer(engine, av, index).unwrap();
            assert_eq!(engine.peer_address(peer), Some(address(port).into()));
            assert_eq!(map.source(engine, av, peer), index);
        }
        assert_eq!(map.peer(engine, av, 4), Err(Error::Invalid));
        assert_eq!(map.peer(engine, av, ADDR_NONE), Err(Error::Invalid));
    });
}

#[test]
fn a_peer_that_spoke_first_is_known_once_it_is_inserted() {
    with_map(|av, map, engine| {
        let peer = engine.insert_peer(address(9).into()).unwrap();
        assert_eq!(map.source(engine, av, peer), ADDR_NONE);
        let index = av.insert(address(9)).unwrap();
        assert_eq!(map.source(engine, av, peer), index);
        assert_eq!(map.peer(engine, av, index), Ok(peer));
    });
}

#[test]
fn a_peer_is_named_once_it_is_inserted_and_an_unused_address_takes_no_slot() {
    with_map(|av, map, engine| {
        let peer = engine.insert_peer(address(9).into()).unwrap();
        for port in 1..=200 {
            av.insert(address(port)).unwrap();
        }
        for _ in 0..200_usize.div_ceil(NAMED_PER_CALL) {
            assert!(map.has_changed(engine, av));
            map.name_known(engine, av);
        }
        assert!(!map.has_changed(engine, av));
        assert_eq!(map.known[8].peer, peer);
        assert_eq!(map.source(engine, av, peer), 8);
        let in_table = (1..=200).filter(|&port| engine.find(&address(port).into()).is_some());
        assert_eq!(in_table.count(), 1);
        // Another address takes a free index.
        av.remove(3).unwrap();
        let spoke = engine.insert_peer(address(300).into()).unwrap();
        assert_eq!(av.insert(address(300)), Ok(3));
        map.name_known(engine, av);
        assert_eq!(map.known[3].peer, spoke);
    });
}

#[test]
fn a_newcomer_is_named_if_the_vector_has_its_address() {
    with_map(|av, map, engine| {
        let index = av.insert(address(1)).unwrap();
        map.name_newcomer(engine, av, &address(2).into());
        assert_eq!(engine.find(&address(2).into()), None);
        map.name_newcomer(engine, av, &address(1).into());
        let peer = engine.find(&address(1).into()).unwrap();
        assert_eq!(map.peer(engine, av, index), Ok(peer));
        // Its removal lets the peer go.
        av.remove(index).unwrap();
        map.sync(engine, av);
        map.name_newcomer(engine, av, &address(1).into());
        assert!(map.retired.len() == 1 && map.is_retired(engine, peer));
    });
}

#[test]
fn an_address_that_is_inserted_again_keeps_its_peer_until_it_is_used() {
    with_map(|av, map, engine| {
        let index = av.insert(address(1)).unwrap();
        let peer = map.peer(engine, av, index).unwrap();
        av.remove(index).unwrap();
        map.sync(engine, av);
        assert_eq!(av.insert(address(1)), Ok(index));
        map.name_known(engine, av);
        assert_eq!(engine.find(&address(1).into()), Some(peer));
        assert_ne!(map.peer(engine, av, index), Ok(peer));
    });
}

#[test]
fn all_addresses_are_learned_those_at_free_indices_too() {
    with_map(|av, map, engine| {
        let indices = [1, 2].map(|port| av.insert(address(port)).unwrap());
        map.learn_all(engine, av);
        av.remove(indices[0]).unwrap();
        map.learn_all(engine, av);
        assert_eq!(av.insert(address(3)), Ok(indices[0]));
        map.learn_all(engine, av);
        assert!(engine.find(&address(3).into()).is_some());
    });
}

#[test]
fn a_removed_address_is_forgotten_and_may_come_back() {
    with_map(|av, map, engine| {
        let index = av.insert(address(1)).unwrap();
        let peer = map.peer(engine, av, index).unwrap();
        av.remove(index).unwrap();
        map.sync(engine, av);
        assert_eq!(map.peer(engine, av, index), Err(Error::Invalid));
        assert_eq!(map.source(engine, av, peer), ADDR_NONE);
        // Another address takes the index, and the first one comes back at another.
        let taken = av.insert(address(2)).unwrap();
        assert_eq!(taken, index);
        assert_ne!(map.peer(engine, av, taken).unwrap(), peer);
        let back = av.insert(address(1)).unwrap();
        // It is a new peer: the address may belong to a new process.
        let anew = map.peer(engine, av, back).unwrap();
        assert_ne!(anew, peer);
        assert_eq!(map.source(engine, av, anew), back);
    });
}

#[test]
fn removed_peers_make_room_for_new_ones() {
    with_map(|av, map, engine| {
        let mut now = Instant::ZERO;
        let kept = av.insert(address(1)).unwrap();
        let stays = map.peer(engine, av, kept).unwrap();
        for port in 2..100 {
            let index = av.insert(address(port)).unwrap();
            if map.peer(engine, av, index) == Err(Error::Again) {
                // A recently used slot is free after a while.
                now = now.after_nanos(200_000_000);
                engine.advance(now);
                map.peer(engine, av, index).unwrap();
            }
            av.remove(index).unwrap();
            map.sync(engine, av);
            assert!(map.retired.len() <= PEERS as usize + 1);
        }
        assert_eq!(map.peer(engine, av, kept), Ok(stays));
        assert!(engine.peer_address(stays).is_some());
    });
}

/// Fills the engine's table with peers that leave the vector, and inserts as many others.
fn replace_all(av: &AddressTable, map: &mut PeerMap, engine: &mut Engine<'_>) -> Vec<fi_addr_t> {
    let insert = |port: u32| av.insert(address(port as u16)).unwrap();
    for port in 1..=PEERS {
        map.peer(engine, av, insert(port)).unwrap();
    }
    (0..PEERS).for_each(|index| av.remove(index.into()).unwrap());
    map.sync(engine, av);
    (1..=PEERS).map(|port| insert(PEERS + port)).collect()
}

/// More than the time in which a slot is in quarantine.
const QUARANTINE: Duration = Duration::from_millis(200);

#[test]
fn peers_that_make_room_together_delay_the_new_ones_once() {
    with_map(|av, map, engine| {
        let indices = replace_all(av, map, engine);
        assert_eq!(map.peer(engine, av, indices[0]), Err(Error::Again));
        engine.advance(Instant::ZERO.after(QUARANTINE));
        indices.iter().for_each(|&index| assert!(map.peer(engine, av, index).is_ok()));
    });
}

#[test]
fn addresses_that_meet_slots_in_quarantine_are_learned_after_it() {
    with_map(|av, map, engine| {
        replace_all(av, map, engine);
        map.learn_all(engine, av);
        assert!(map.has_changed(engine, av), "they are to be learned");
        engine.advance(Instant::ZERO.after(QUARANTINE));
        map.learn_all(engine, av);
        for port in PEERS + 1..=2 * PEERS {
            assert!(engine.find(&address(port as u16).into()).is_some());
        }
        assert!(!map.has_changed(engine, av));
        // Those without room are not asked for again.
        av.insert(address(99)).unwrap();
        map.learn_all(engine, av);
        assert!(!map.has_changed(engine, av));
    });
}

#[test]
fn a_full_table_is_an_error() {
    with_map(|av, map, engine| {
        for port in 1..=PEERS {
            let index = av.insert(address(port as u16)).unwrap();
            map.peer(engine, av, index).unwrap();
        }
        let index = av.insert(address(99)).unwrap();
        assert_eq!(map.peer(engine, av, index), Err(Error::NoMemory));
    });
}

#[test]
fn an_own_change_brings_the_changes_of_others() {
    // Even a change that fails, or that changes only a count.
    type Change = fn(&AddressTable);
    let changes: [(&str, Change); 4] = [
        ("insert", |av| assert_eq!(av.insert(address(3)), Ok(2))),
        ("again", |av| assert_eq!(av.insert(address(9)), Ok(1))),
        ("remove", |av| assert_eq!(av.remove(1), Ok(()))),
        ("fail", |av| assert_eq!(av.remove(7), Err(Error::Invalid))),
    ];
    for (name, change) in changes {
        with_shared_map(name, |av, others, map, engine| {
            let unknown_source = engine.insert_peer(address(2).into()).unwrap();
            assert_eq!(map.source(engine, av, unknown_source), ADDR_NONE);
            others.remove(0).unwrap();
            assert_eq!(others.insert(address(2)), Ok(0));
            change(av);
            map.sync(engine, av);
            assert_eq!(av.lookup(0), Ok(address(2)), "{name}");
            assert_eq!(map.peer(engine, av, 0), Ok(unknown_source), "{name}");
            assert_eq!(map.source(engine, av, unknown_source), 0, "{name}");
        });
    }
}

#[test]
fn a_source_that_others_have_inserted_is_known_after_an_own_change() {
    with_shared_map("source", |av, others, map, engine| {
        let unknown_source = engine.insert_peer(address(2).into()).unwrap();
        assert_eq!(map.source(engine, av, unknown_source), ADDR_NONE);
        assert_eq!(others.insert(address(2)), Ok(2));
        assert_eq!(av.remove(7), Err(Error::Invalid));
        map.sync(engine, av);
        assert_eq!(map.source(engine, av, unknown_source), 2);
    });
}

#[test]
fn a_lookup_sees_the_changes_of_others_and_so_do_endpoints_then() {
    with_shared_map("lookup", |av, others, map, engine| {
        others.remove(0).unwrap();
        assert_eq!(others.insert(address(2)), Ok(0));
        assert_eq!(av.lookup(0), Ok(address(2)));
        map.sync(engine, av);
        let peer = map.peer(engine, av, 0).unwrap();
        assert_eq!(engine.peer_address(peer), Some(address(2).into()));
        others.remove(0).unwrap();
        assert_eq!(av.lookup(0), Err(Error::Invalid));
    });
}

#[test]
fn a_sweep_reads_no_file() {
    with_shared_map("sweep", |av, others, map, engine| {
        av.remove(0).unwrap();
        others.remove(1).unwrap();
        let removals = av.removals();
        map.sync(engine, av);
        assert_eq!(av.removals(), removals);
        assert_eq!(map.peer(engine, av, 0), Err(Error::Invalid));
        map.sync(engine, av);
        assert_eq!(map.peer(engine, av, 1), Err(Error::Invalid));
    });
}

#[test]
fn a_peer_stays_while_a_group_that_was_joined_names_it() {
    with_map(|av, map, engine| {
        let index = av.insert(address(1)).unwrap();
        let peer = map.peer(engine, av, index).unwrap();
        let group = map.admit_group(address(1).into()).unwrap();
        map.join_group(engine, group, address(1).into()).unwrap();
        av.remove(index).unwrap();
        map.sync(engine, av);
        let back = av.insert(address(1)).unwrap();
        assert_eq!(map.peer(engine, av, back), Ok(peer));
        assert_eq!(map.peer(engine, av, group), Ok(peer));
        assert_eq!(engine.find(&address(1).into()), Some(peer));
    });
}

/// A receive context of a scalable endpoint and an address of its own name one peer.
#[test]
fn a_peer_is_named_as_long_as_an_address_names_it() {
    let av = AddressTable::new(0).with_context_bits(4);
    let mut map = PeerMap::new(PEERS as usize, 0, &av).unwrap();
    engine().with_mut(|engine| {
        let [first, second] = [1, 2].map(|port| av.insert(address(port)).unwrap());
        let context = 1 << 60 | first;
        let peer = map.peer(engine, &av, second).unwrap();
        assert_eq!(map.peer(engine, &av, context), Ok(peer));
        for (index, is_named) in [(second, true), (first, false)] {
            av.remove(index).unwrap();
            map.sync(engine, &av);
            assert_eq!((map.is_named(peer), map.is_retired(engine, peer)), (is_named, true));
        }
        let back = av.insert(address(2)).unwrap();
        let anew = map.peer(engine, &av, back).unwrap();
        assert!(anew != peer && map.is_named(anew) && !map.is_retired(engine, anew));
        assert_eq!(map.retired.len(), 0);
    });
}
