// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hops, and what notifications change, on the loopback interface and in namespaces of their own.

use super::*;
use crate::host::netns::enter_new;
use crate::host::route::lookup::Neighbour;
use ofi_xdp_core::{PeerId, WantedPort};

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

fn to(slot: u32, ip: &str) -> Destination {
    let address = PeerAddress::new(ip.parse().unwrap(), 7);
    Destination { peer: PeerId::new(slot, 0), address }
}

fn routes() -> Routes {
    let own = SocketAddr::from(([127, 0, 0, 1], 7000));
    let loopback = crate::host::interfaces::interfaces()
        .unwrap()
        .into_iter()
        .find(|interface| interface.loopback)
        .unwrap();
    // An MTU from some time ago.
    let loopback = InterfaceInfo { mtu: 68, ..loopback };
    let mut routes = Routes::new(Netlink::open().unwrap(), own, &loopback, 4).unwrap();
    // The kernel may have own addresses in its table.
    routes.neighbours.clear();
    routes
}

/// A table with one peer and [`MAC`] as its next hop.
fn known(stale: bool, gateway: bool) -> (Routes, Destination) {
    let mut routes = routes();
    let peer = to(1, "198.18.0.2");
    let check = if stale { NeighbourCheck::Next } else { NeighbourCheck::Fresh };
    let neighbour = Neighbour { mac: Some(MAC), check };
    routes.neighbours.insert(peer.address.ip(), Some(neighbour));
    let source = SourcePort::new(7000);
    let address = peer.address;
    routes.peers[1] = PeerRoute { address, generation: 1, neighbour: 0, source, gateway };
    (routes, peer)
}

fn ip(arguments: &str) {
    let words = arguments.split_whitespace();
    let status = std::process::Command::new("ip").args(words).status();
    assert!(status.unwrap().success(), "{arguments}");
}

/// The answer to a request about a link or an address waits for a lock that others hold for
/// long.
#[test]
fn root_a_changed_link_or_address_is_known_from_its_notification_alone() {
    if !enter_new() {
        return;
    }
    ip("link set lo up");
    let mut routes = routes();
    assert_eq!(routes.refresh(), Ok(()));
    let requests = routes.netlink.requests();
    for mtu in [1500, 9000] {
        ip(&format!("link set lo mtu {mtu}"));
        assert_eq!((routes.refresh(), routes.mtu()), (Ok(()), mtu));
    }
    // Another interface is none of ours.
    ip("link add other0 type veth");
    ip("link set other0 mtu 700");
    assert_eq!((routes.refresh(), routes.mtu()), (Ok(()), 9000));
    ip("link del other0");
    assert_eq!(routes.refresh(), Ok(()));
    // Neither is another address of ours. The last one of several changes counts.
    ip("addr add 198.18.0.1/32 dev lo");
    ip("addr del 198.18.0.1/32 dev lo");
    ip("addr del 127.0.0.1/8 dev lo");
    ip("addr add 127.0.0.1/8 dev lo");
    assert_eq!(routes.refresh(), Ok(()));
    ip("addr del 127.0.0.1/8 dev lo");
    assert_eq!(routes.refresh(), Err("its address has left the interface"));
    ip("link set lo down");
    ip("link set lo up");
    assert_eq!(routes.refresh(), Ok(()));
    ip("link set lo down");
    assert_eq!(routes.refresh(), Err("the interface is down"));
    assert_eq!(routes.netlink.requests(), requests);
}

/// An interface may come back from another namespace with its index and address.
#[test]
fn root_an_interface_that_was_removed_is_unusable_though_its_index_is_back() {
    if !enter_new() {
        return;
    }
    let make = || {
        ip("link add own0 index 77 address 02:00:00:00:00:01 type veth peer name other0");
        ip("addr add 198.18.0.1/24 dev own0");
        ip("link set other0 up");
        ip("link set own0 up");
    };
    make();
    let own = SocketAddr::from(([198, 18, 0, 1], 7000));
    let interfaces = crate::host::interfaces::interfaces().unwrap();
    let interface = interfaces.iter().find(|one| one.name == "own0").unwrap();
    let mut routes = Routes::new(Netlink::open().unwrap(), own, interface, 4).unwrap();
    assert_eq!(routes.refresh(), Ok(()));
    ip("link del own0");
    make();
    assert_eq!(routes.refresh(), Err("the interface is down"));
}

/// The answer to a request about a neighbour waits for that lock, too.
#[test]
fn root_a_neighbour_is_known_from_the_start_or_asked_for_by_a_thread() {
    if !enter_new() {
        return;
    }
    ip("link add own0 type veth peer name other0");
    ip("link set other0 up");
    ip("link set own0 up");
    ip("addr add 198.18.0.1/24 dev own0");
    ip("neigh add 198.18.0.2 lladdr 02:00:00:00:00:09 dev own0");
    let own = SocketAddr::from(([198, 18, 0, 1], 7000));
    let interfaces = crate::host::interfaces::interfaces().unwrap();
    let interface = interfaces.iter().find(|one| one.name == "own0").unwrap();
    let mut routes = Routes::new(Netlink::open().unwrap(), own, interface, 4).unwrap();
    let (peer, requests) = (to(1, "198.18.0.2"), routes.netlink.requests());
    let mac = |routes: &mut Routes| routes.hop(peer, 64).map(|hop| hop.mac);
    assert_eq!(mac(&mut routes), Some(MAC), "known when the table was made");
    routes.forget();
    assert_eq!(mac(&mut routes), None);
    let answered = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        routes.refresh().unwrap();
        mac(&mut routes)
    });
    assert_eq!(answered, Some(MAC));
    assert_eq!(routes.netlink.requests() - requests, 2, "the route");
}

/// Routing daemons change next hops at any time.
#[test]
fn root_a_nexthop_that_changes_costs_no_request_and_no_neighbour() {
    if !enter_new() {
        return;
    }
    ip("link set lo up");
    let (mut routes, peer) = known(false, false);
    assert_eq!(routes.refresh(), Ok(()));
    let (requests, generation) = (routes.netlink.requests(), routes.generation);
    ip("nexthop add id 9 blackhole");
    ip("nexthop del id 9");
    assert_eq!((routes.refresh(), routes.netlink.requests()), (Ok(()), requests));
    assert_eq!(routes.neighbours.find(peer.address.ip()), 0);
    assert!(routes.neighbours.get_mut(0).is_some(), "it is known");
    assert_ne!(routes.generation, generation);
    let generation = routes.generation;
    // The kernel removes routes after the notification.
    assert_eq!(routes.refresh(), Ok(()));
    assert_ne!(routes.generation, generation);
}

#[test]
fn our_own_address_is_the_kernels() {
    let mut routes = routes();
    assert_eq!(routes.hop(to(0, "127.0.0.1"), 64), None);
    assert_eq!(routes.peers[0].neighbour, KERNEL);
    assert_eq!(routes.peers[0].generation, routes.generation, "asked once");
}

#[test]
fn unknown_peers_and_slots_beyond_the_table_are_the_kernels() {
    let mut routes = routes();
    assert_eq!(routes.hop(to(4, "198.18.0.2"), 64), None);
    let unknown = Destination { peer: PeerId::NONE, ..to(0, "198.18.0.2") };
    assert_eq!(routes.hop(unknown, 64), None);
    assert!(routes.neighbours.is_empty());
}

#[test]
fn a_stale_neighbour_gets_one_packet_through_the_kernel() {
    let (mut routes, peer) = known(true, true);
    assert_eq!(routes.hop(peer, 64), None);
    let hop = Some(Hop { mac: MAC, gateway: true, source: 7000 });
    assert_eq!((routes.hop(peer, 64), routes.hop(peer, 64)), (hop, hop));
}

#[test]
fn a_neighbour_gets_another_packet_if_the_kernel_refused_one_to_it() {
    let (mut routes, peer) = known(true, false);
    assert_eq!(routes.hop(peer, 64), None);
    routes.kernel_refused(to(1, "198.18.0.3"));
    assert!(routes.hop(peer, 64).is_some(), "it was to another peer");
    routes.kernel_refused(peer);
    assert!(routes.hop(peer, 64).is_some(), "the refused packet comes again");
    assert_eq!(routes.hop(peer, 64), None);
    assert!(routes.hop(peer, 64).is_some());
    routes.kernel_refused(to(9, "198.18.0.2"));
}

#[test]
fn a_source_port_outlives_a_changed_route_and_not_a_changed_peer() {
    let (mut routes, peer) = known(false, false);
    let advice = PathAdvice::Wanted { source: 7000, wanted: WantedPort::other(4) };
    assert!(routes.advise(Instant::ZERO, peer, advice));
    let hop = routes.hop(peer, 64).unwrap();
    assert_ne!(hop.source, 7000);
    assert!(!routes.advise(Instant::ZERO, to(1, "198.18.0.3"), advice), "another peer");
    routes.invalidate_peers();
    routes.hop(peer, 64);
    assert_eq!(routes.peers[1].source.port(), hop.source);
    routes.hop(to(1, "198.18.0.3"), 64);
    assert_eq!(routes.peers[1].source.port(), 7000);
}

#[test]
fn packets_longer_than_the_mtu_take_the_kernels_path() {
    let (mut routes, peer) = known(false, false);
    let most = routes.payload_max();
    assert!(routes.hop(peer, most).is_some());
    assert_eq!(routes.hop(peer, most + 1), None);
}

#[test]
fn a_reused_slot_is_looked_up_again() {
    let (mut routes, peer) = known(false, false);
    assert!(routes.hop(peer, 64).is_some());
    assert_eq!(routes.hop(to(1, "127.0.0.1"), 64), None, "the old tenant's hop is not used");
}
