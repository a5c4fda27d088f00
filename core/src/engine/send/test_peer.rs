// SPDX-License-Identifier: MIT OR Apache-2.0
//! An engine with one connected peer that sends nothing, for tests of the sender.

use crate::engine::{Engine, Identity};
use crate::peer::slots::PeerSlot;
use crate::wire::Handshake;
use crate::*;
use std::boxed::Box;
use zerocopy::FromZeros;

/// Memory of any size, without contents.
pub(super) struct Boundless;

impl Memory for Boundless {
    type Buffer = ();

    fn attach_op(&mut self, _: OpId, (): ()) {}
    fn attach_recv(&mut self, _: RecvId, (): ()) {}
    fn attach_slice(&mut self, _: RecvId, _: RecvId, _: u64) {}
    fn gather(&mut self, _: Gather, _: &mut [u8]) {}
    fn place(&mut self, _: Placement, _: &[u8]) {}
    fn deliver(&mut self, _: UnexpectedId, _: RecvId, _: u64) {}
    fn atomic(&mut self, _: AtomicAccess<'_>) {}
}

/// An engine, and its peer. The port of each takes `port_packets` packets with `payload_max` bytes.
pub(super) fn connected(
    congestion: Congestion,
    payload_max: usize,
    port_packets: u16,
) -> (Engine<'static>, PeerId) {
    let config = Config {
        peers: 2,
        connections: 2,
        sends: 2,
        recvs: 2,
        regions: 1,
        congestion,
        ..Config::new(|crc, _| crc)
    };
    let storage = Box::leak(Box::new(StorageBox::new(&config).unwrap())).lend();
    let receive_max = payload_max;
    let coverage = ChecksumCoverage::Whole;
    let limits = PortLimits { payload_max, receive_max, port_packets, coverage };
    let mut engine = Engine::new(&config, storage, Identity { key: 2 }, limits).unwrap();
    let id = engine.insert_peer(PeerAddress::from_v4([192, 0, 2, 1], 7000)).unwrap();
    let peer = &mut engine.cx.table[PeerSlot::of(id)];
    let mut handshake = Handshake::new_zeroed();
    handshake.receive_max = (payload_max as u16).into();
    handshake.port_packets = port_packets.into();
    peer.connect(1, &handshake, 1);
    peer.establish();
    (engine, id)
}
