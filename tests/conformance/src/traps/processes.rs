// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers in processes of their own that end, and start again at their address.

use anyhow::{Context as _, Result, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Context, Mem};
use crate::group::Group;
use crate::peer::{Behaviour, GREETING, Peer};
use crate::world::{Setup, World, not_offered};

/// A server that is started again has the address it had.
pub(super) fn a_peer_that_restarts_at_its_address_is_reached(world: &World) -> Result<()> {
    if world.node.is_none() {
        return not_offered("addresses of IP");
    }
    let group = world.group(&Setup { nodes: 1, ..Setup::default() })?;
    let (a, port) = (group.a(), 21_000 + (std::process::id() % 20_000) as u16);
    for round in 0..3 {
        let mut peer = Peer::start(world, Behaviour::Echo, Some(port))?;
        peer.exchange_names(&a.name()?)?;
        let there = a.av.insert(&peer.name)?;
        let name = &peer.name;
        ensure!(name[2..4] == port.to_be_bytes(), "round {round}: it is at {name:?}");
        round_trip(&group, there)?;
        peer.kill()?;
        a.av.remove(&[there])?;
        group.expect_no_event(a)?;
    }
    Ok(())
}

/// The address of a client that has ended is removed. The next client at that address has sent
/// messages, one of which waits for its receive, when its address is inserted and used.
pub(super) fn a_peer_that_restarts_at_its_address_may_speak_first(world: &World) -> Result<()> {
    if world.node.is_none() {
        return not_offered("addresses of IP");
    }
    let group = world.group(&Setup { nodes: 1, ..Setup::default() })?;
    let (a, port) = (group.a(), 21_000 + (std::process::id() % 20_000) as u16);
    for round in 0..3 {
        let receive = |len| -> Result<()> {
            let context = Context::new();
            group.post(|| a.ep.recv(Mem::zeroed(len), FI_ADDR_UNSPEC, context))?;
            group.done(a, context).map(drop).with_context(|| format!("round {round}, {len} bytes"))
        };
        let mut peer = Peer::start(world, Behaviour::Greet, Some(port))?;
        peer.exchange_names(&a.name()?)?;
        receive(8)?;
        // Both sides have acknowledged all packets.
        group.expect_no_event(a)?;
        let there = a.av.insert(&peer.name)?;
        group.post(|| a.ep.send(Mem::zeroed(8), there, Context::new()))?;
        group.next(a)?;
        receive(GREETING)?;
        peer.ended().with_context(|| format!("round {round}"))?;
        a.av.remove(&[there])?;
    }
    Ok(())
}

/// Messages that the peer received before its end count as received.
pub(super) fn a_peer_that_exits_without_closing(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (a, mut peer) = (group.a(), Peer::start(world, Behaviour::Leave, None)?);
    peer.exchange_names(&a.name()?)?;
    let there = a.av.insert(&peer.name)?;
    group.post(|| a.ep.send(Mem::zeroed(8), there, Context::new()))?;
    group.next(a)?;
    peer.ended()?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.close()
}

/// Sends 8 bytes to an echo and waits for them.
pub(super) fn round_trip(group: &Group, there: u64) -> Result<()> {
    let (a, into) = (group.a(), Mem::zeroed(8));
    let (send, receive) = (Context::new(), Context::new());
    group.post(|| a.ep.recv(into, FI_ADDR_UNSPEC, receive))?;
    group.post(|| a.ep.send(Mem::pattern(8, 7), there, send))?;
    let both: Vec<_> = group.take(a, 2)?.iter().map(|one| one.context).collect();
    ensure!(both.contains(&send.ptr()) && both.contains(&receive.ptr()), "{both:?}");
    ensure!(into.bytes() == Mem::pattern(8, 7).bytes(), "other bytes came back");
    Ok(())
}
