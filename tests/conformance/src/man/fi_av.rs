// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_av(3)`: address vectors.

use anyhow::{Context as _, Result, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Av, Context, Fid, Mem};
use crate::group::{Group, NAME_ROOM, av_attr};
use crate::runner::tests;
use crate::world::{Setup, World, not_offered, optional, refused};

tests! { "fi_av":
    a_table_counts_from_zero
    a_map_gives_addresses
    types_left_open_are_chosen
    insert_without_addresses_back
    insert_of_several_at_once
    insert_of_nothing
    insert_of_a_bad_address_is_not_counted
    sync_errors_are_reported_one_by_one
    insert_with_an_event_queue
    insertsvc_resolves
    insertsvc_of_an_unknown_name
    insertsym_counts_up
    lookup_gives_the_address
    lookup_with_little_room
    lookup_of_an_unknown_peer_is_refused
    straddr_is_text
    straddr_with_little_room
    remove_and_insert_again
    remove_of_an_unknown_peer_is_refused
    remove_of_several_at_once
    removed_places_are_not_found
    a_removed_peer_may_still_send
    a_removed_peer_that_sends_is_inserted_again
    the_same_address_twice
    two_vectors_are_independent
    endpoints_share_a_vector
    vector_in_use_is_busy
    vectors_grow
    shared_vectors_have_a_name
    read_only_needs_a_shared_vector
    padding_of_addresses_does_not_count
}

fn vector(group: &Group, kind: abi::fi_av_type) -> Result<Av> {
    group.a().domain.av(&mut av_attr(kind), Context::null()).context("fi_av_open")
}

/// A name that is the first node's with another port (or, without ports, its own).
fn other(group: &Group, number: u16) -> Result<Vec<u8>> {
    let mut name = group.a().name()?;
    if group.info.entry().addr_format == abi::FI_SOCKADDR_IN {
        name[2..4].copy_from_slice(&(40_000 + number).to_be_bytes());
        Ok(name)
    } else {
        not_offered("addresses of IP")
    }
}

/// Section `fi_av_open`, `FI_AV_TABLE`: indices from 0, in the order of insertion.
fn a_table_counts_from_zero(world: &World) -> Result<()> {
    let group = world.group(&Setup { av_type: abi::FI_AV_TABLE, ..Setup::default() })?;
    ensure!(group.a().peers == [0, 1] && group.b().peers == [0, 1], "{:?}", group.a().peers);
    let av = vector(&group, abi::FI_AV_TABLE)?;
    for index in 0..100 {
        let peer = av.insert(&other(&group, index)?)?;
        ensure!(peer == u64::from(index), "{peer} for insertion {index}");
    }
    av.close()?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.close()
}

/// Section `fi_av_open`, `FI_AV_MAP`: addresses of the provider's choice, one for each.
fn a_map_gives_addresses(world: &World) -> Result<()> {
    let group = world.group(&Setup { av_type: abi::FI_AV_MAP, ..Setup::default() })?;
    let peers = &group.a().peers;
    ensure!(peers[0] != peers[1] && !peers.contains(&FI_ADDR_UNSPEC), "{peers:?}");
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.close()
}

/// Section `fi_av_open`: `FI_AV_UNSPEC` is replaced by the type that was chosen.
fn types_left_open_are_chosen(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let mut attr = av_attr(abi::FI_AV_UNSPEC);
    let av = group.a().domain.av(&mut attr, Context::null())?;
    av.insert(&group.b().name()?)?;
    ensure!(av.class() == abi::FI_CLASS_AV as usize, "class {}", av.class());
    av.close()?;
    group.close()
}

/// Section `fi_av_insert`: the caller may want no indices of a table.
fn insert_without_addresses_back(world: &World) -> Result<()> {
    let group = world.group(&Setup { av_type: abi::FI_AV_TABLE, ..Setup::default() })?;
    let av = vector(&group, abi::FI_AV_TABLE)?;
    let name = group.b().name()?;
    ensure!(av.insert_blind(&name, 1)? == 1, "not inserted");
    ensure!(av.lookup(0, NAME_ROOM)?.0 == name, "index 0 is another");
    av.close()?;
    group.close()
}

/// Section `fi_av_insert`: an array of addresses, each with its result.
fn insert_of_several_at_once(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let av = vector(&group, group.info.domain().av_type)?;
    let names = (0..10).map(|index| other(&group, index)).collect::<Result<Vec<_>>>()?;
    let (count, peers) = av.insert_all(&names.concat(), 10, 0, Context::null().ptr())?;
    ensure!(count == 10, "{count} of 10");
    for (peer, name) in peers.iter().zip(&names) {
        ensure!(av.lookup(*peer, NAME_ROOM)?.0 == *name, "peer {peer} is another");
    }
    av.close()?;
    group.close()
}

/// Section `fi_av_insert`: no address is no error.
fn insert_of_nothing(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    match group.a().av.insert_all(&[0; 64], 0, 0, Context::null().ptr()) {
        Ok((count, _)) => ensure!(count == 0, "{count}"),
        Err(errno) => ensure!(errno.0 == abi::FI_EINVAL, "{errno}"),
    }
    group.close()
}

/// Section `fi_av_insert`: an invalid address gets `FI_ADDR_NOTAVAIL`, and the count leaves it out.
fn insert_of_a_bad_address_is_not_counted(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let good = other(&group, 1)?;
    let bad = vec![0xff; good.len()];
    let packed = [good.clone(), bad, good].concat();
    let av = &group.a().av;
    match av.insert_all(&packed, 3, 0, Context::null().ptr()) {
        Ok((count, peers)) => {
            ensure!(count == 2, "{count} of 2 good ones");
            ensure!(peers[1] == FI_ADDR_UNSPEC && peers[0] != FI_ADDR_UNSPEC, "{peers:?}");
        }
        Err(errno) => ensure!(errno.0 == abi::FI_EINVAL, "{errno}"),
    }
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.close()
}

/// Section FLAGS, `FI_SYNC_ERR`: the context is an array of results, one for each address.
fn sync_errors_are_reported_one_by_one(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let good = other(&group, 1)?;
    let packed = [good.clone(), vec![0xff; good.len()], good].concat();
    let mut results = [77_i32; 3];
    let flags = abi::FI_SYNC_ERR;
    let answer = group.a().av.insert_all(&packed, 3, flags, results.as_mut_ptr().cast());
    let (count, peers) = match answer {
        Err(crate::fi::Errno(abi::FI_ENOSYS | abi::FI_EBADFLAGS | abi::FI_EINVAL)) => {
            return not_offered("FI_SYNC_ERR");
        }
        answer => answer?,
    };
    ensure!(count == 2 && peers[1] == FI_ADDR_UNSPEC, "{count}, {peers:?}");
    ensure!(results[0] == 0 && results[1] != 0 && results[2] == 0, "{results:?}");
    group.close()
}

/// Section `fi_av_open`, `FI_EVENT`: insertion ends with an event `FI_AV_COMPLETE`.
fn insert_with_an_event_queue(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let attr = &mut crate::group::eq_attr(abi::FI_WAIT_UNSPEC);
    let eq = group.fabric.eq(attr, Context::null())?;
    let mut attr = av_attr(group.info.domain().av_type);
    attr.flags = abi::FI_EVENT;
    let av = optional(group.a().domain.av(&mut attr, Context::null()), "FI_EVENT of a vector")?;
    optional(av.bind(&eq, 0), "an event queue of a vector")?;
    let context = Context::new();
    let name = group.b().name()?;
    let (count, _) = av.insert_all(&name, 1, 0, context.ptr())?;
    ensure!(count == 0, "an asynchronous insertion answers {count}");
    let event = group.until("FI_AV_COMPLETE", || match eq.read(64, 0) {
        Err(crate::fi::Errno(abi::FI_EAGAIN)) => Ok(None),
        answer => Ok(Some(answer?)),
    })?;
    ensure!(event.event == abi::FI_AV_COMPLETE, "{event:?}");
    ensure!(event.context == context.ptr() && event.data == 1, "{event:?}");
    ensure!(event.fid == av.fid(), "{event:?}");
    av.close()?;
    eq.close()?;
    group.close()
}

/// Section `fi_av_insertsvc`: node and service as text.
fn insertsvc_resolves(world: &World) -> Result<()> {
    let Some(node) = world.other_node() else { return not_offered("addresses of IP") };
    let group = world.pair(abi::FI_MSG)?;
    let name = group.b().name()?;
    let port = u16::from_be_bytes([name[2], name[3]]).to_string();
    let (count, peer) = optional(group.a().av.insertsvc(node, &port), "fi_av_insertsvc")?;
    ensure!(count == 1, "{count}");
    let receive = Context::new();
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.a().ep.send(Mem::zeroed(8), peer, Context::new()))?;
    group.done(group.b(), receive)?;
    group.close()
}

/// Section `fi_av_insertsvc`: a name that cannot be resolved is refused.
fn insertsvc_of_an_unknown_name(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    match group.a().av.insertsvc("no-such-host.invalid", "1") {
        Ok((count, peer)) => ensure!(count == 0 || peer == FI_ADDR_UNSPEC, "{count}, {peer:#x}"),
        Err(errno) => ensure!(errno.0 != abi::FI_EAGAIN, "{errno}"),
    }
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.close()
}

/// Section `fi_av_insertsym`: nodes and services counted up, services first.
fn insertsym_counts_up(world: &World) -> Result<()> {
    let Some(node) = &world.node else { return not_offered("addresses of IP") };
    let group = world.pair(abi::FI_MSG)?;
    let answer = group.a().av.insertsym(node, 1, "5000", 4);
    let (count, peers) = optional(answer, "fi_av_insertsym")?;
    ensure!(count == 4, "{count} of 4");
    for (index, peer) in peers.iter().enumerate() {
        let name = group.a().av.lookup(*peer, NAME_ROOM)?.0;
        ensure!(name[2..4] == (5000 + index as u16).to_be_bytes(), "{index}: {name:?}");
    }
    group.close()
}

/// Section `fi_av_lookup`: the address as it was inserted.
fn lookup_gives_the_address(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (name, len) = group.a().av.lookup(group.to_b(), NAME_ROOM)?;
    ensure!(name == group.b().name()? && len == name.len(), "{name:?}");
    group.close()
}

/// Section `fi_av_lookup`: with too little room, its beginning and its whole length.
fn lookup_with_little_room(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let whole = group.b().name()?;
    let (begin, len) = group.a().av.lookup(group.to_b(), 6)?;
    ensure!(len == whole.len(), "length {len}");
    ensure!(begin[..6] == whole[..6], "{begin:?}");
    group.close()
}

/// Section `fi_av_lookup`: an address of no peer.
fn lookup_of_an_unknown_peer_is_refused(world: &World) -> Result<()> {
    let group = world.group(&Setup { av_type: abi::FI_AV_TABLE, ..Setup::default() })?;
    let answer = group.a().av.lookup(99, NAME_ROOM);
    refused(answer, &[abi::FI_EINVAL, abi::FI_ENOENT, abi::FI_EADDRNOTAVAIL], "index 99")?;
    group.close()
}

/// Section `fi_av_straddr`: an address as text.
fn straddr_is_text(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let name = group.b().name()?;
    let (text, len) = group.a().av.straddr(&name, 128);
    ensure!(!text.is_empty() && len > text.len(), "{text:?}, {len}");
    if let Some(node) = world.other_node() {
        let port = u16::from_be_bytes([name[2], name[3]]).to_string();
        ensure!(text.contains(node) && text.contains(&port), "{text}");
    }
    group.close()
}

/// Section `fi_av_straddr`: a text that does not fit is truncated, and its length is reported.
fn straddr_with_little_room(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let name = group.b().name()?;
    let (whole, _) = group.a().av.straddr(&name, 128);
    let (text, len) = group.a().av.straddr(&name, 8);
    ensure!(whole.starts_with(&text) && text.len() == 7, "{text:?} of {whole:?}");
    ensure!(len == whole.len() + 1, "{len} bytes are said to be needed for {whole:?}");
    group.close()
}

/// Section `fi_av_remove`: a peer may be removed and inserted again.
fn remove_and_insert_again(world: &World) -> Result<()> {
    let mut group = world.pair(abi::FI_MSG)?;
    for _ in 0..5 {
        group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
        group.a().av.remove(&[group.to_b()])?;
        let name = group.b().name()?;
        let peer = group.a().av.insert(&name)?;
        group.nodes[0].peers[1] = peer;
    }
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.close()
}

/// Section `fi_av_remove`: an address that was not inserted cannot be removed.
fn remove_of_an_unknown_peer_is_refused(world: &World) -> Result<()> {
    let group = world.group(&Setup { av_type: abi::FI_AV_TABLE, ..Setup::default() })?;
    refused(group.a().av.remove(&[99]), &[abi::FI_EINVAL, abi::FI_ENOENT], "index 99")?;
    group.a().av.remove(&[group.to_b()])?;
    let again = group.a().av.remove(&[group.to_b()]);
    refused(again, &[abi::FI_EINVAL, abi::FI_ENOENT], "the same peer again")?;
    group.close()
}

/// Section `fi_av_remove`: an array of addresses.
fn remove_of_several_at_once(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let av = vector(&group, group.info.domain().av_type)?;
    let names = (0..5).map(|index| other(&group, index)).collect::<Result<Vec<_>>>()?;
    let (_, peers) = av.insert_all(&names.concat(), 5, 0, Context::null().ptr())?;
    av.remove(&peers)?;
    for peer in peers {
        ensure!(av.lookup(peer, NAME_ROOM).is_err(), "peer {peer} is still there");
    }
    av.close()?;
    group.close()
}

/// Section `fi_av_remove`: nothing is sent to a removed peer.
fn removed_places_are_not_found(world: &World) -> Result<()> {
    let group = world.group(&Setup { av_type: abi::FI_AV_TABLE, ..Setup::default() })?;
    let gone = group.to_b();
    group.a().av.remove(&[gone])?;
    ensure!(group.a().av.lookup(gone, NAME_ROOM).is_err(), "it is still found");
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    // The call or the completion is an error.
    if group.a().ep.send(Mem::zeroed(8), gone, Context::new()).is_ok() {
        group.error(group.a())?;
    }
    group.expect_no_event(group.b())?;
    group.close()
}

/// Section `fi_av_remove`: only the local name ends; the peer's messages still arrive.
fn a_removed_peer_may_still_send(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    let own = group.to_a();
    group.b().av.remove(&[own])?;
    let receive = Context::new();
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::new()))?;
    group.done(group.b(), receive)?;
    group.next(group.a())?;
    group.close()
}

/// Section `fi_av_remove`: the operations of a peer that sends after its removal go on when it
/// is inserted and used again.
fn a_removed_peer_that_sends_is_inserted_again(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.b().av.remove(&[group.to_a()])?;
    // The message waits for its receive.
    let (len, long) = (8 << 20, Context::new());
    group.post(|| group.a().ep.send(Mem::pattern(len, 3), group.to_b(), long))?;
    group.expect_no_event(group.b())?;
    let again = group.b().av.insert(&group.a().name()?)?;
    let receive = Context::new();
    group.post(|| group.a().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.b().ep.send(Mem::zeroed(8), again, Context::new()))?;
    group.done(group.a(), receive)?;
    group.next(group.b())?;
    let (into, receive) = (Mem::zeroed(len), Context::new());
    group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, receive))?;
    group.done(group.b(), receive)?;
    group.done(group.a(), long)?;
    ensure!(into.bytes() == Mem::pattern(len, 3).bytes(), "other bytes have come");
    group.close()
}

/// Section `fi_av_insert`: an address may be inserted twice; both names lead to the peer.
fn the_same_address_twice(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let again = group.a().av.insert(&group.b().name()?)?;
    for peer in [group.to_b(), again] {
        let receive = Context::new();
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
        group.post(|| group.a().ep.send(Mem::zeroed(8), peer, Context::new()))?;
        group.done(group.b(), receive)?;
    }
    group.close()
}

/// Section DESCRIPTION: addresses of one vector are not in another.
fn two_vectors_are_independent(world: &World) -> Result<()> {
    let group = world.group(&Setup { av_type: abi::FI_AV_TABLE, ..Setup::default() })?;
    let av = vector(&group, abi::FI_AV_TABLE)?;
    ensure!(av.insert(&other(&group, 7)?)? == 0, "index of the other vector");
    ensure!(av.lookup(1, NAME_ROOM).is_err(), "peer of the other vector");
    av.close()?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.close()
}

/// Section DESCRIPTION: endpoints of a domain may share one.
fn endpoints_share_a_vector(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let a = group.a();
    let second = a.domain.endpoint(&group.info, Context::null())?;
    second.bind(&a.cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
    second.bind(&a.av, 0)?;
    second.enable()?;
    for ep in [&a.ep, &second] {
        let (send, receive) = (Context::new(), Context::new());
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
        group.post(|| ep.send(Mem::zeroed(8), group.to_b(), send))?;
        group.done(group.b(), receive)?;
        group.done(a, send)?;
    }
    second.close()?;
    group.close()
}

/// Section `fi_close`: a vector that an endpoint uses cannot be closed.
fn vector_in_use_is_busy(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    refused(group.a().av.close(), &[abi::FI_EBUSY], "a vector that is bound")?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.close()
}

/// Section `fi_av_open`, count: a hint, not a limit.
fn vectors_grow(world: &World) -> Result<()> {
    let group = world.group(&Setup { av_type: abi::FI_AV_TABLE, ..Setup::default() })?;
    let mut attr = av_attr(abi::FI_AV_TABLE);
    attr.count = 2;
    let av = group.a().domain.av(&mut attr, Context::null())?;
    for index in 0..3000 {
        let peer = av.insert(&other(&group, index)?)?;
        ensure!(peer == u64::from(index), "{peer} for insertion {index}");
    }
    ensure!(av.lookup(2999, NAME_ROOM)?.0 == other(&group, 2999)?, "the last one");
    av.close()?;
    group.close()
}

/// Section `fi_av_open`, name: a vector that processes share.
fn shared_vectors_have_a_name(world: &World) -> Result<()> {
    let setup = Setup { av_type: abi::FI_AV_TABLE, ..Setup::caps(abi::FI_MSG | abi::FI_SHARED_AV) };
    let group = world.group(&setup)?;
    let name = std::ffi::CString::new(format!("conformance-{}", std::process::id()))?;
    let mut attr = av_attr(abi::FI_AV_TABLE);
    (attr.name, attr.count) = (name.as_ptr(), 8);
    let first = optional(group.a().domain.av(&mut attr, Context::null()), "a named vector")?;
    let peer = first.insert(&other(&group, 3)?)?;
    let mut attr = av_attr(abi::FI_AV_TABLE);
    (attr.name, attr.flags) = (name.as_ptr(), abi::FI_READ);
    let second = group.a().domain.av(&mut attr, Context::null())?;
    ensure!(second.lookup(peer, NAME_ROOM)?.0 == other(&group, 3)?, "not shared");
    ensure!(second.insert(&other(&group, 4)?).is_err(), "FI_READ lets one insert");
    second.close()?;
    first.close()?;
    group.close()
}

/// Section `fi_av_open`, `FI_READ`: a vector for reading must be there already.
fn read_only_needs_a_shared_vector(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let mut attr = av_attr(abi::FI_AV_TABLE);
    (attr.name, attr.flags) = (c"conformance-nowhere".as_ptr(), abi::FI_READ);
    ensure!(group.a().domain.av(&mut attr, Context::null()).is_err(), "it was opened");
    group.close()
}

/// Section DESCRIPTION, address formats: bytes of a socket address without a meaning may differ.
fn padding_of_addresses_does_not_count(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG | abi::FI_SOURCE)?;
    if group.info.entry().addr_format != abi::FI_SOCKADDR_IN {
        return not_offered("addresses of IP");
    }
    let own = group.to_a();
    group.b().av.remove(&[own])?;
    let mut name = group.a().name()?;
    name[8..].fill(0x5a);
    let peer = group.b().av.insert(&name)?;
    let receive = Context::new();
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::new()))?;
    let from = group.done(group.b(), receive)?.from;
    ensure!(from == peer, "from {from:#x}, not {peer:#x}");
    group.close()
}
