// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that come by another queue than the one that the broker has granted.

use ofi_xdp_core::{Port as _, WantedPort};
use ofi_xdp_datapath::{HybridPort, Mode};

use crate::common::{Hosts, V4, config, eventually, learn_hops, now, packet, send, skipped, to};
use crate::{Broker, open_bare, policy};

/// In native mode a veth pair delivers a frame on the queue that it was sent by.
#[test]
fn root_another_source_port_is_wanted_for_packets_that_come_by_another_queue() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    hosts.unlink();
    hosts.relink([[4, 4]; 2]);
    eventually("the link is up", || hosts.link(0).contains("LOWER_UP"));
    let broker = Broker::start(&hosts, &policy(&[0], ""));
    let mut client = open_bare(&hosts, &broker, Mode::Copy);
    assert_eq!(client.status().queues.as_slice(), [0], "{}", client.status());
    for (queue, is_wanted) in [(0, false), (2, true)] {
        let mut config = config(V4[1], Mode::Copy);
        config.queue = Some(queue);
        let mut peer = hosts.on(1, || HybridPort::open(&config).unwrap());
        learn_hops(&mut peer, &mut client);
        let before = *client.stats();
        send(&mut peer, to(0, client.local_addr()), &packet(7, 64));
        peer.flush().unwrap();
        let mut wanted = None;
        eventually("the packet is there", || {
            let sink = &mut |got: ofi_xdp_core::Datagram<'_>| wanted = Some(got.wanted);
            client.receive(now(), 1, sink).unwrap() > 0
        });
        let context = format!("queue {queue}: {:?}", client.stats());
        assert_eq!(wanted != Some(WantedPort::KEEP), is_wanted, "{context}");
        let others = client.stats().other_queue - before.other_queue;
        assert_eq!(others, u64::from(is_wanted), "{context}");
    }
}
