// SPDX-License-Identifier: MIT OR Apache-2.0
//! The capacities of an engine, by the kind of its endpoints.
//!
//! In: the usual capacities, and those of the endpoint's attributes. Out: those of an engine for
//! datagrams, for transmit contexts, or for connected endpoints, which share it. Called by
//! `enable`. Bound: constant.

use ofi_xdp_core::{Config, LinkShare};

/// Slots for the one peer of a connected endpoint, and for packets to a former one.
const PEERS_CONNECTED: u32 = 4;
/// Slots for the peers of endpoints that were closed a moment ago, on a shared runtime.
const PEERS_CLOSED: u32 = 8 << 10;
/// Most operations of a side on a shared runtime.
const OPERATIONS_MAX: u32 = 64 << 10;
/// Most completions of remote writes on a shared runtime: at least 16 are kept for each endpoint,
/// twice as many as one packet can bring.
const EVENTS_MAX: u32 = 512 << 10;

/// The capacities for datagrams: no connections, and storage for messages of one packet.
pub(super) const fn carry_datagrams(config: &mut Config) {
    config.datagrams = true;
    config.connections = 1;
    config.port_packets = 1;
    config.reorder_pages = 0;
    config.assemblies = 1;
    config.unexpected = [1024, 512, 256, 1];
    config.responders = 1;
    config.rendezvous_reads = 1;
    config.events = 8;
    config.pieced = 1;
}

/// The capacities of a transmit context, which receives no messages.
pub(super) const fn transmit_only(config: &mut Config) {
    (config.recvs, config.slices, config.assemblies) = (1, 1, 1);
    config.unexpected = [1; 4];
}

/// The capacities for so many connected endpoints, with a share of each pool for each endpoint.
pub(super) fn serve_connections(config: &mut Config, room: u32) {
    config.named_peers_only = true;
    // The slot of a closed endpoint is not used again for a while.
    config.peers = if room == 1 { PEERS_CONNECTED } else { room + PEERS_CLOSED };
    // The last quarter is for connections that peers open.
    config.connections = PEERS_CONNECTED.max(room + room / 2);
    config.responders = 256 + config.connections;
    config.assemblies = 256.max(room.min(4096));
    let links = &mut config.links;
    (config.sends, links.sends) = shared(config.sends, room, OPERATIONS_MAX);
    (config.recvs, links.recvs) = shared(config.recvs, room, OPERATIONS_MAX);
    (config.slices, links.slices) = shared(config.slices, room, OPERATIONS_MAX);
    (config.events, links.events) = shared(config.events, room, EVENTS_MAX);
    // One host has half of them, and may be the only one.
    config.unexpected = [1024, 512, 128, 32].map(|slots| slots * (2 * room).min(16));
}

/// The slots of a pool in which each of `room` endpoints may have `each`, until all together have
/// `most`; and the share of each endpoint. Where there are fewer slots than they may have, half of
/// them is kept, an equal part for each endpoint.
fn shared(each: u32, room: u32, most: u32) -> (u32, LinkShare) {
    let wanted = each.saturating_mul(room);
    let slots = wanted.clamp(each, most.max(each));
    let kept = if slots == wanted { each } else { (slots / 2 / room).max(1) };
    (slots, LinkShare { kept, most: each })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_of_connected_endpoints_have_what_is_kept_for_each() {
        for room in [1, 16, 64, 256, 1024, 4096, 16 << 10] {
            for each in [1, 1024, 64 << 10] {
                let (slots, LinkShare { kept, most }) = shared(each, room, OPERATIONS_MAX);
                assert_eq!(most, each);
                assert!(kept > 0 && kept <= each && kept * room <= slots);
                let all = slots == each * room;
                assert!(all || kept * room <= slots / 2, "half of the slots are for all");
            }
            let events = shared(1024, room, EVENTS_MAX).1;
            assert!(events.kept >= 16, "more than a packet in order needs");
            let mut config = Config::new(ofi_xdp_checksum::crc32c);
            serve_connections(&mut config, room);
            assert!(config.sends <= OPERATIONS_MAX && config.links.slices.kept > 0);
        }
    }
}
