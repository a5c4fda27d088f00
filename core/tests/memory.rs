// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of an engine: the bytes of one peer, and of a table of a million peers.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail, and tells its figures"
)]

use ofi_xdp_core::*;

#[test]
fn a_million_peers_with_65536_connections_fit_their_budget() {
    const PEERS: u32 = 1 << 20;
    const ACTIVE: u32 = 1 << 16;
    let config = Config {
        peers: PEERS,
        connections: ACTIVE,
        responders: ACTIVE + 4096,
        ..Config::new(|crc, _| crc)
    };
    let bytes = config.storage_bytes();
    for (name, bytes) in bytes.by_name() {
        println!("{name:>20} {:>10} KiB", bytes >> 10);
    }
    let all: usize = bytes.by_name().map(|(_, bytes)| bytes).sum();
    println!("{:>20} {:>10} KiB", "all", all >> 10);
    // An idle peer: its slot, and two entries of the index.
    assert!(bytes.peers <= 80 * PEERS as usize);
    assert!(bytes.index <= 8 * PEERS as usize);
    // A peer with traffic: its connection, its timer, a slot for an answer.
    assert!(bytes.connections <= 320 * ACTIVE as usize);
    // 16 bytes for each packet in flight, in chunks of 32, two for each connection.
    assert!(bytes.chunks <= (2 * ACTIVE as usize + 64) * (32 * 16 + 8));
    assert!(all <= 256 << 20, "{all} bytes");
}
