// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an engine takes: the promise per peer, and a table of a million of them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail, and tells its figures"
)]

use ofi_xdp_core::*;

/// Bytes of each slice of an engine's storage.
fn bytes(config: &Config) -> Vec<(&'static str, usize)> {
    let sizes = config.sizes();
    vec![
        ("peers", sizes.peers * size_of::<Slot<Peer>>()),
        ("index", sizes.index * size_of::<u32>()),
        ("active peers", sizes.actives * size_of::<Slot<Active>>()),
        ("timers", sizes.timers * size_of::<TimerSlot>()),
        ("packets under way", sizes.extents * size_of::<Slot<Extent>>()),
        ("operations", sizes.ops * size_of::<Slot<TxOp>>()),
        ("receives", sizes.recvs * size_of::<Slot<RecvOp>>()),
        ("assemblies", sizes.assemblies * size_of::<Slot<Assembly>>()),
        ("stored messages", sizes.unexpected * size_of::<Slot<Unexpected>>()),
        ("regions", sizes.regions * size_of::<Slot<Region>>() + sizes.region_index * 4),
    ]
}

#[test]
fn a_million_peers_of_which_65536_are_active_fit_their_budget() {
    const PEERS: u32 = 1 << 20;
    const ACTIVE: u32 = 1 << 16;
    let config = Config {
        peers: PEERS,
        active_peers: ACTIVE,
        responders: ACTIVE + 4096,
        ..Config::new(|crc, _| crc)
    };
    let parts = bytes(&config);
    for (name, bytes) in &parts {
        println!("{name:>20} {:>10} KiB", bytes >> 10);
    }
    let of = |name| parts.iter().find(|part| part.0 == name).unwrap().1;
    let all: usize = parts.iter().map(|part| part.1).sum();
    println!("{:>20} {:>10} KiB", "all", all >> 10);
    // A peer that says nothing: its slot, and two entries of the index.
    assert!(of("peers") <= 80 * PEERS as usize);
    assert!(of("index") <= 8 * PEERS as usize);
    // A peer with traffic: its state, its timer, a slot for an answer.
    assert!(of("active peers") <= 320 * ACTIVE as usize);
    // 16 bytes for each packet under way, in stretches of 32, two for each active peer.
    assert!(of("packets under way") <= (2 * ACTIVE as usize + 64) * (32 * 16 + 8));
    assert!(all <= 256 << 20, "{all} bytes");
}
