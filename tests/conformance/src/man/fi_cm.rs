// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_cm(3)`, and the parts of `fi_endpoint(3)` and `fi_eq(3)` on connected endpoints.

mod many;
mod passive;

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use self::many::{
    connections_with_one_queue_are_apart, connections_with_several_queues_are_apart,
    messages_are_read_before_the_end_of_another_connection,
};
use self::passive::{
    a_full_backlog_makes_room_by_acceptance, a_name_can_be_given, a_name_in_use_is_refused,
    a_passive_endpoint_has_a_name, a_passive_endpoint_listens_once,
    a_passive_endpoint_of_a_service_listens_on_all_addresses,
    an_endpoint_takes_the_name_of_a_passive_one, closing_an_endpoint_for_a_request_rejects_it,
    listening_needs_an_event_queue, many_requests_are_reported_once_each,
    requests_beyond_the_backlog_are_refused,
};
use crate::abi;
use crate::connected::{
    DATA, Listener, Pair, Side, error, event, ignore_empty, nothing_more, offer, queue, until,
};
use crate::fi::{Answer, Context, Errno, Fabric, Fid as _, Mem, Remote};
use crate::group::cq_attr;
use crate::peer::{Behaviour, Peer};
use crate::runner::tests;
use crate::world::{Setup, World, refused};

tests! { "fi_cm":
    a_connection_opens_and_ends
    requests_and_answers_carry_data
    data_of_the_announced_size_passes
    data_that_is_too_long_is_cut
    the_request_names_its_peer
    names_of_a_connection
    a_rejection_brings_its_data
    a_request_can_be_rejected_without_data
    a_port_without_a_listener_refuses
    an_endpoint_connects_once
    connecting_needs_an_event_queue
    connecting_enables_the_endpoint
    transfers_before_the_connection_are_refused
    messages_pass_in_both_directions
    tagged_messages_pass
    writes_bring_their_data
    reads_pass
    shutdown_is_reported_once_to_each_side
    shutdown_of_an_opening_connection_is_reported
    an_acceptance_is_reported_before_the_next_request
    closing_notifies_the_peer
    a_peer_that_is_killed_is_noticed
    shutdown_without_a_connection_is_refused
    receives_are_flushed_at_the_end
    transfers_after_the_end_are_refused
    a_passive_endpoint_has_a_name
    a_passive_endpoint_of_a_service_listens_on_all_addresses
    a_name_can_be_given
    a_name_in_use_is_refused
    listening_needs_an_event_queue
    a_passive_endpoint_listens_once
    an_endpoint_takes_the_name_of_a_passive_one
    many_requests_are_reported_once_each
    requests_beyond_the_backlog_are_refused
    a_full_backlog_makes_room_by_acceptance
    closing_an_endpoint_for_a_request_rejects_it
    connections_with_one_queue_are_apart
    connections_with_several_queues_are_apart
    messages_are_read_before_the_end_of_another_connection
    connections_outlive_their_passive_endpoint
    closing_a_passive_endpoint_rejects_its_requests
    the_descriptor_of_the_queue_shows_a_request
    datagram_endpoints_do_not_connect
}

/// How long a provider may need to notice that a peer without traffic was killed, in ms. The peer
/// time-out and the connect time-out of xdp are 10 s.
const SILENCE_MS: i32 = 15_000;
/// Sections `fi_connect` and `fi_accept`: both sides learn of the connection, and of its end.
fn a_connection_opens_and_ends(world: &World) -> Result<()> {
    let (listener, fabric, eq, active) = Pair::asked(world, &[])?;
    let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
    ensure!(request.fid == listener.pep.fid(), "the object of a request is {:?}", request.fid);
    let info = request.info.context("no fi_info")?;
    ensure!(!info.entry().handle.is_null(), "no handle");
    let passive = Side::open(&listener.fabric, &listener.eq, info)?;
    passive.ep.accept().context("fi_accept")?;
    let queues = [&active.cq, &passive.cq];
    let connected = event(&eq, abi::FI_CONNECTED, &queues)?;
    ensure!(connected.fid == active.ep.fid() && connected.info.is_none(), "{connected:?}");
    let connected = event(&listener.eq, abi::FI_CONNECTED, &queues)?;
    ensure!(connected.fid == passive.ep.fid() && connected.info.is_none(), "{connected:?}");
    active.ep.shutdown().context("fi_shutdown")?;
    let ended = event(&listener.eq, abi::FI_SHUTDOWN, &queues)?;
    ensure!(ended.fid == passive.ep.fid(), "{ended:?}");
    Pair { listener, fabric, eq, active, passive }.close()
}

/// Sections `fi_connect` and `fi_accept`, `param`: data go with the request and the answer.
fn requests_and_answers_carry_data(world: &World) -> Result<()> {
    let (listener, fabric, eq, active) = Pair::asked(world, b"a question")?;
    let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
    ensure!(request.data == b"a question", "{:?}", request.data);
    let passive = Side::open(&listener.fabric, &listener.eq, request.info.context("no info")?)?;
    passive.ep.accept_with(b"an answer").context("fi_accept")?;
    let connected = event(&eq, abi::FI_CONNECTED, &[&active.cq, &passive.cq])?;
    ensure!(connected.data == b"an answer", "{:?}", connected.data);
    Pair { listener, fabric, eq, active, passive }.close()
}

/// "NOTES": as many bytes as `FI_OPT_CM_DATA_SIZE` says can be exchanged.
fn data_of_the_announced_size_passes(world: &World) -> Result<()> {
    let size = Listener::silent(world)?.pep.data_size().context("fi_getopt")?;
    ensure!(size >= 24, "{size} bytes, and ofi_rxm needs 24");
    let data: Vec<u8> = (0..size.min(DATA)).map(|index| index as u8).collect();
    let (listener, fabric, eq, active) = Pair::asked(world, &data)?;
    let of_endpoint = active.ep.number(abi::FI_OPT_CM_DATA_SIZE).context("fi_getopt")?;
    ensure!(of_endpoint == size, "{of_endpoint} and {size}");
    let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
    ensure!(request.data == data, "{} bytes", request.data.len());
    let passive = Side::open(&listener.fabric, &listener.eq, request.info.context("no info")?)?;
    passive.ep.accept_with(&data).context("fi_accept")?;
    let connected = event(&eq, abi::FI_CONNECTED, &[&active.cq, &passive.cq])?;
    ensure!(connected.data == data, "{} bytes", connected.data.len());
    Pair { listener, fabric, eq, active, passive }.close()
}

/// "NOTES": data that do not fit are truncated.
fn data_that_is_too_long_is_cut(world: &World) -> Result<()> {
    let data = [7; DATA];
    let (listener, fabric, eq, active) = match Pair::asked(world, &data) {
        // Some providers refuse it.
        Err(error) if error.downcast_ref() == Some(&Errno(abi::FI_EINVAL)) => return Ok(()),
        asked => asked?,
    };
    let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
    let size = listener.pep.data_size().context("fi_getopt")?;
    ensure!(request.data == data[..size.min(DATA)], "{} bytes", request.data.len());
    listener.pep.reject(&request.info.context("no info")?, &[]).context("fi_reject")?;
    error(&eq)?;
    active.close()?;
    eq.close().context("fi_close of an event queue")?;
    fabric.close().context("fi_close of a fabric")?;
    listener.close()
}

/// `fi_eq(3)`, `FI_CONNREQ`: the `fi_info` of a request has all members that an endpoint for it
/// needs.
fn the_request_names_its_peer(world: &World) -> Result<()> {
    let (listener, fabric, eq, active) = Pair::asked(world, &[])?;
    let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
    let info = request.info.context("no info")?;
    let asked_from = active.ep.getname(64).0.context("fi_getname")?;
    ensure!(info.dest_addr()[..2] == asked_from[..2], "another address family");
    ensure!(info.provider_name() == listener.info.provider_name(), "{}", info.provider_name());
    ensure!(info.ep().type_ == abi::FI_EP_MSG, "endpoint type {}", info.ep().type_);
    ensure!(info.caps() & abi::FI_MSG != 0, "capabilities {:x}", info.caps());
    listener.pep.reject(&info, &[]).context("fi_reject")?;
    error(&eq)?;
    active.close()?;
    eq.close().context("fi_close of an event queue")?;
    fabric.close().context("fi_close of a fabric")?;
    listener.close()
}

/// Section `fi_getname / fi_getpeer`: both names of a connection; the accepting endpoint has the
/// name of the passive one.
fn names_of_a_connection(world: &World) -> Result<()> {
    let pair = Pair::open(world)?;
    let listens = pair.listener.name()?;
    ensure!(pair.active.ep.getpeer().context("fi_getpeer")? == listens, "another peer");
    ensure!(pair.passive.ep.getname(64).0.context("fi_getname")? == listens, "another name");
    let peer = pair.passive.ep.getpeer().context("fi_getpeer")?;
    ensure!(peer == pair.active.ep.getname(64).0.context("fi_getname")?, "another peer");
    pair.close()
}

/// Section `fi_accept / fi_reject`: a rejection is an error event with data.
fn a_rejection_brings_its_data(world: &World) -> Result<()> {
    let (listener, fabric, eq, active) = Pair::asked(world, &[])?;
    let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
    listener.pep.reject(&request.info.context("no info")?, b"full").context("fi_reject")?;
    let error = error(&eq)?;
    ensure!(error.err == Errno(abi::FI_ECONNREFUSED), "{error:?}");
    ensure!(error.fid == active.ep.fid() && error.err_data == b"full", "{error:?}");
    nothing_more(&eq)?;
    active.close()?;
    eq.close().context("fi_close of an event queue")?;
    fabric.close().context("fi_close of a fabric")?;
    listener.close()
}

/// Section `fi_accept / fi_reject`: data are optional.
fn a_request_can_be_rejected_without_data(world: &World) -> Result<()> {
    let (listener, fabric, eq, active) = Pair::asked(world, b"may I")?;
    let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
    listener.pep.reject(&request.info.context("no info")?, &[]).context("fi_reject")?;
    let error = error(&eq)?;
    ensure!(error.err == Errno(abi::FI_ECONNREFUSED) && error.err_data.is_empty(), "{error:?}");
    active.close()?;
    eq.close().context("fi_close of an event queue")?;
    fabric.close().context("fi_close of a fabric")?;
    listener.close()
}

/// Section `fi_accept / fi_reject`: an attempt that fails is an error event.
fn a_port_without_a_listener_refuses(world: &World) -> Result<()> {
    let listener = Listener::open(world)?;
    let name = listener.name()?;
    listener.close()?;
    let info = offer(world)?;
    let fabric = Fabric::open(&info, Context::null()).context("fi_fabric")?;
    let eq = queue(&fabric)?;
    let active = Side::open(&fabric, &eq, info)?;
    // Some providers return the error at once.
    match active.ep.connect(&name) {
        Err(Errno(abi::FI_ECONNREFUSED)) => {}
        answer => {
            answer.context("fi_connect")?;
            let error = error(&eq)?;
            ensure!(error.err == Errno(abi::FI_ECONNREFUSED), "{error:?}");
        }
    }
    active.close()?;
    eq.close().context("fi_close of an event queue")?;
    fabric.close().context("fi_close of a fabric")
}

/// Section `fi_connect`: "may only be called once in an endpoint's lifetime".
fn an_endpoint_connects_once(world: &World) -> Result<()> {
    let pair = Pair::open(world)?;
    let errors = [abi::FI_EOPBADSTATE, abi::FI_EINVAL, abi::FI_EISCONN, abi::FI_EBUSY];
    refused(pair.active.ep.connect(&pair.listener.name()?), &errors, "a second fi_connect")?;
    refused(pair.passive.ep.accept(), &errors, "a second fi_accept")?;
    pair.close()
}

/// `fi_endpoint(3)`, `fi_ep_bind`: a connected endpoint needs an event queue.
fn connecting_needs_an_event_queue(world: &World) -> Result<()> {
    let listener = Listener::open(world)?;
    let info = offer(world)?;
    let domain = listener.fabric.domain(&info, Context::null()).context("fi_domain")?;
    let cq = domain.cq(&mut cq_attr(&Setup::default()), Context::null()).context("fi_cq_open")?;
    let ep = domain.endpoint(&info, Context::null()).context("fi_endpoint")?;
    ep.bind(&cq, abi::FI_TRANSMIT | abi::FI_RECV).context("fi_ep_bind")?;
    let errors = [abi::FI_ENOEQ, abi::FI_EINVAL, abi::FI_EOPBADSTATE];
    refused(ep.connect(&listener.name()?), &errors, "fi_connect without an event queue")?;
    ep.close().context("fi_close")?;
    cq.close().context("fi_close")?;
    domain.close().context("fi_close")?;
    listener.close()
}

/// `fi_endpoint(3)`, `fi_enable`: connecting enables an endpoint.
fn connecting_enables_the_endpoint(world: &World) -> Result<()> {
    let listener = Listener::open(world)?;
    let info = offer(world)?;
    let active = Side::open(&listener.fabric, &listener.eq, info)?;
    active.ep.connect(&listener.name()?).context("fi_connect")?;
    let mem = Mem::zeroed(8);
    active.ep.recv(mem, 0, Context::null()).context("fi_recv after fi_connect")?;
    let request = event(&listener.eq, abi::FI_CONNREQ, &[&active.cq])?;
    listener.pep.reject(&request.info.context("no info")?, &[]).context("fi_reject")?;
    error(&listener.eq)?;
    active.close()?;
    listener.close()
}

/// Section `fi_accept`: transfers begin with `FI_CONNECTED`.
fn transfers_before_the_connection_are_refused(world: &World) -> Result<()> {
    let listener = Listener::open(world)?;
    let active = Side::open(&listener.fabric, &listener.eq, offer(world)?)?;
    active.ep.enable().context("fi_enable")?;
    let errors = [abi::FI_ENOTCONN, abi::FI_EOPBADSTATE, abi::FI_EAGAIN];
    refused(active.ep.send(Mem::zeroed(8), 0, Context::null()), &errors, "fi_send")?;
    active.close()?;
    listener.close()
}

fn checked(pair: &Pair, from: &Side, to: &Side, text: &[u8]) -> Result<()> {
    let (out, into) = (Mem::zeroed(text.len()), Mem::zeroed(text.len()));
    out.write(0, text);
    to.ep.recv(into, abi::FI_ADDR_UNSPEC, Context::null()).context("fi_recv")?;
    // The address has no meaning on a connected endpoint (fi_endpoint(3)).
    from.ep.send(out, 77, Context::null()).context("fi_send")?;
    let received = pair.completion(to)?;
    ensure!(received.len == text.len() && into.bytes() == text, "{received:?}");
    pair.completion(from)?;
    Ok(())
}

/// `fi_msg(3)`: messages pass, short and long.
fn messages_pass_in_both_directions(world: &World) -> Result<()> {
    let posted_first = Mem::zeroed(5);
    let pair =
        Pair::with(world, |ep| ep.recv(posted_first, 0, Context::null()).context("fi_recv"))?;
    let hello = Mem::zeroed(5);
    hello.write(0, b"hello");
    pair.active.ep.send(hello, 0, Context::null()).context("fi_send")?;
    pair.completion(&pair.passive)?;
    ensure!(posted_first.bytes() == b"hello", "a receive that was posted before the connection");
    pair.completion(&pair.active)?;
    for len in [0, 1, 1000, 10_000, 1 << 20] {
        let text: Vec<u8> = (0..len).map(|index: usize| (index % 251) as u8).collect();
        checked(&pair, &pair.active, &pair.passive, &text)?;
        checked(&pair, &pair.passive, &pair.active, &text)?;
    }
    pair.close()
}

/// `fi_tagged(3)` on a connection.
fn tagged_messages_pass(world: &World) -> Result<()> {
    let pair = Pair::of(world, abi::FI_TAGGED, |_| Ok(()))?;
    let (out, into) = (Mem::zeroed(4), Mem::zeroed(4));
    out.write(0, b"text");
    pair.passive.ep.trecv(into, 0, 9, 0, Context::null()).context("fi_trecv")?;
    pair.active.ep.tsend(out, 0, 9, Context::null()).context("fi_tsend")?;
    let received = pair.completion(&pair.passive)?;
    ensure!(received.tag == 9 && into.bytes() == b"text", "{received:?}");
    pair.completion(&pair.active)?;
    pair.close()
}

/// A region of the accepting side, and its address for the other one.
fn exposed(pair: &Pair, mem: Mem, access: u64) -> Result<(crate::fi::Mr, Remote)> {
    let mr = pair.passive.domain.mr(mem, access, 5).context("fi_mr_reg")?;
    let mode = pair.passive.info.domain().mr_mode;
    if mode & abi::FI_MR_ENDPOINT != 0 {
        mr.bind(&pair.passive.ep, 0).context("fi_mr_bind")?;
        mr.enable().context("fi_mr_enable")?;
    }
    let absolute = mode & abi::FI_MR_VIRT_ADDR != 0;
    let remote =
        Remote { peer: 0, address: if absolute { mem.address() } else { 0 }, key: mr.key() };
    Ok((mr, remote))
}

/// `fi_rma(3)`: remote CQ data come with a completion at the target, behind the bytes.
fn writes_bring_their_data(world: &World) -> Result<()> {
    let pair = Pair::open(world)?;
    let (out, into) = (Mem::zeroed(4096), Mem::zeroed(4096));
    out.write(0, &[3; 4096]);
    let (mr, remote) = exposed(&pair, into, abi::FI_REMOTE_WRITE)?;
    pair.active.ep.writedata(out, 0x1122, remote, Context::null()).context("fi_writedata")?;
    let arrived = pair.completion(&pair.passive)?;
    ensure!(arrived.flags & abi::FI_REMOTE_CQ_DATA != 0 && arrived.data == 0x1122, "{arrived:?}");
    ensure!(into.bytes().iter().all(|&byte| byte == 3), "not all bytes");
    pair.completion(&pair.active)?;
    mr.close().context("fi_close of a region")?;
    pair.close()
}

/// `fi_rma(3)`: reads.
fn reads_pass(world: &World) -> Result<()> {
    let pair = Pair::open(world)?;
    let (into, from) = (Mem::zeroed(20_000), Mem::zeroed(20_000));
    from.write(0, &[9; 20_000]);
    let (mr, remote) = exposed(&pair, from, abi::FI_REMOTE_READ)?;
    pair.active.ep.read(into, remote, Context::null()).context("fi_read")?;
    pair.completion(&pair.active)?;
    ensure!(into.bytes().iter().all(|&byte| byte == 9), "not all bytes");
    mr.close().context("fi_close of a region")?;
    pair.close()
}

/// Section `fi_shutdown`: each side has one event, whichever side ends the connection.
fn shutdown_is_reported_once_to_each_side(world: &World) -> Result<()> {
    let pair = Pair::open(world)?;
    pair.active.ep.shutdown().context("fi_shutdown")?;
    let queues = [&pair.active.cq, &pair.passive.cq];
    event(&pair.listener.eq, abi::FI_SHUTDOWN, &queues)?;
    // fabtests' cm_data waits for the event on both sides.
    event(&pair.eq, abi::FI_SHUTDOWN, &queues)?;
    let again = pair.passive.ep.shutdown();
    ensure!(matches!(again, Ok(()) | Err(Errno(abi::FI_ENOTCONN))), "{again:?}");
    nothing_more(&pair.eq)?;
    nothing_more(&pair.listener.eq)?;
    pair.close()
}

/// Section `fi_shutdown`: the listener accepts, and ends the connection while it opens. The other
/// side learns both.
fn shutdown_of_an_opening_connection_is_reported(world: &World) -> Result<()> {
    let (listener, fabric, eq, active) = Pair::asked(world, &[])?;
    let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
    let passive = Side::open(&listener.fabric, &listener.eq, request.info.context("no info")?)?;
    passive.ep.accept().context("fi_accept")?;
    passive.ep.shutdown().context("fi_shutdown")?;
    event(&eq, abi::FI_CONNECTED, &[&active.cq, &passive.cq])?;
    event(&eq, abi::FI_SHUTDOWN, &[&active.cq, &passive.cq])?;
    nothing_more(&eq)?;
    Pair { listener, fabric, eq, active, passive }.close()
}

/// `fi_eq(3)`: events come in order. An initiator that asks again when it has `FI_CONNECTED` finds
/// that the listener has it, too (fabtests' `fi_multi_ep` counts on it).
fn an_acceptance_is_reported_before_the_next_request(world: &World) -> Result<()> {
    const MANY: usize = 50;
    let (listener, fabric, eq, first) = Pair::asked(world, &[])?;
    let mut sides = vec![first];
    for _ in 0..MANY {
        let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
        let passive = Side::open(&listener.fabric, &listener.eq, request.info.context("no info")?)?;
        passive.ep.accept().context("fi_accept")?;
        event(&eq, abi::FI_CONNECTED, &[])?;
        let next = Side::open(&fabric, &eq, offer(world)?)?;
        next.ep.connect(&listener.name()?).context("fi_connect")?;
        event(&listener.eq, abi::FI_CONNECTED, &[])?;
        sides.extend([passive, next]);
    }
    event(&listener.eq, abi::FI_CONNREQ, &[])?;
    sides.iter().try_for_each(Side::close)?;
    eq.close().context("fi_close of an event queue")?;
    fabric.close().context("fi_close of a fabric")?;
    listener.close()
}

/// Section `fi_shutdown`: the close of an endpoint is reported to its peer, and not to itself.
fn closing_notifies_the_peer(world: &World) -> Result<()> {
    let pair = Pair::open(world)?;
    pair.active.close()?;
    let ended = event(&pair.listener.eq, abi::FI_SHUTDOWN, &[&pair.passive.cq])?;
    ensure!(ended.fid == pair.passive.ep.fid(), "{ended:?}");
    nothing_more(&pair.listener.eq)?;
    nothing_more(&pair.eq)?;
    pair.passive.close()?;
    pair.eq.close().context("fi_close of an event queue")?;
    pair.fabric.close().context("fi_close of a fabric")?;
    pair.listener.close()
}

/// Section `fi_shutdown`: the end is reported also if the other side could not say so, and no data
/// flow.
fn a_peer_that_is_killed_is_noticed(world: &World) -> Result<()> {
    let listener = Listener::open(world)?;
    let mut peer = Peer::start(world, Behaviour::Connect, None)?;
    peer.exchange_names(&listener.name()?)?;
    let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
    let passive = Side::open(&listener.fabric, &listener.eq, request.info.context("no info")?)?;
    passive.ep.accept().context("fi_accept")?;
    event(&listener.eq, abi::FI_CONNECTED, &[])?;
    peer.kill()?;
    let (ended, _) = listener.eq.sread_cm(SILENCE_MS).context("fi_eq_sread")?;
    ensure!(ended == abi::FI_SHUTDOWN, "event {ended}");
    nothing_more(&listener.eq)?;
    passive.close()?;
    listener.close()
}

/// Section `fi_shutdown`: there must be a connection.
fn shutdown_without_a_connection_is_refused(world: &World) -> Result<()> {
    let listener = Listener::open(world)?;
    let active = Side::open(&listener.fabric, &listener.eq, offer(world)?)?;
    let errors = [abi::FI_ENOTCONN, abi::FI_EOPBADSTATE, abi::FI_EINVAL];
    let answer = active.ep.shutdown();
    // Some providers have nothing to do.
    if answer.is_err() {
        refused(answer, &errors, "fi_shutdown")?;
    }
    active.close()?;
    listener.close()
}

/// The error of the next completion of `side`.
fn failure(pair: &Pair, side: &Side) -> Result<Errno> {
    until("completion in error", || {
        for cq in [&pair.active.cq, &pair.passive.cq] {
            cq.progress().map(drop).or_else(ignore_empty)?;
        }
        match side.cq.read(1) {
            Err(Errno(abi::FI_EAVAIL)) => Ok(Some(side.cq.readerr(0)?.err)),
            Err(Errno(abi::FI_EAGAIN)) => Ok(None),
            answer => bail!("{answer:?} in place of an error"),
        }
    })
}

/// Section `fi_shutdown`: operations that are outstanding are cancelled.
fn receives_are_flushed_at_the_end(world: &World) -> Result<()> {
    let pair = Pair::open(world)?;
    pair.active.ep.recv(Mem::zeroed(8), 0, Context::null()).context("fi_recv")?;
    pair.passive.ep.recv(Mem::zeroed(8), 0, Context::null()).context("fi_recv")?;
    pair.passive.ep.recv(Mem::zeroed(8), 0, Context::null()).context("fi_recv")?;
    pair.active.ep.shutdown().context("fi_shutdown")?;
    for (side, count) in [(&pair.active, 1), (&pair.passive, 2)] {
        for _ in 0..count {
            let errno = failure(&pair, side)?;
            ensure!([abi::FI_ECANCELED, abi::FI_ENOTCONN].contains(&errno.0), "{errno}");
        }
    }
    pair.close()
}

/// Section `fi_shutdown`: nothing is sent after the end.
fn transfers_after_the_end_are_refused(world: &World) -> Result<()> {
    let pair = Pair::open(world)?;
    pair.active.ep.shutdown().context("fi_shutdown")?;
    event(&pair.listener.eq, abi::FI_SHUTDOWN, &[&pair.active.cq, &pair.passive.cq])?;
    let errors = [abi::FI_ENOTCONN, abi::FI_EOPBADSTATE, abi::FI_EAGAIN];
    for side in [&pair.active, &pair.passive] {
        refused(side.ep.send(Mem::zeroed(8), 0, Context::null()), &errors, "fi_send")?;
    }
    pair.close()
}

/// `fi_endpoint(3)`: an accepted endpoint does not depend on the passive one.
fn connections_outlive_their_passive_endpoint(world: &World) -> Result<()> {
    let pair = Pair::open(world)?;
    pair.listener.pep.close().context("fi_close of the passive endpoint")?;
    checked(&pair, &pair.active, &pair.passive, b"still here")?;
    pair.active.close()?;
    pair.passive.close()?;
    pair.eq.close().context("fi_close")?;
    pair.fabric.close().context("fi_close")?;
    pair.listener.eq.close().context("fi_close")?;
    pair.listener.fabric.close().context("fi_close")
}

/// `fi_endpoint(3)`, `fi_close`: requests end with their passive endpoint, both those whose event
/// was read and those whose event was not. One for which an endpoint was opened is that endpoint's.
fn closing_a_passive_endpoint_rejects_its_requests(world: &World) -> Result<()> {
    let (listener, fabric, eq, first) = Pair::asked(world, &[])?;
    let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
    let taken = Side::open(&listener.fabric, &listener.eq, request.info.context("no info")?)?;
    let ask = || -> Result<Side> {
        let side = Side::open(&fabric, &eq, offer(world)?)?;
        side.ep.connect(&listener.name()?).context("fi_connect")?;
        Ok(side)
    };
    let read = ask()?;
    event(&listener.eq, abi::FI_CONNREQ, &[])?;
    let unread = ask()?;
    // It stays: there is no room for it.
    until("request", || match listener.eq.read(0, abi::FI_PEEK) {
        Err(Errno(abi::FI_ETOOSMALL)) => Ok(Some(())),
        Err(Errno(abi::FI_EAGAIN)) => Ok(None),
        answer => bail!("{answer:?} in place of a lack of room"),
    })?;
    listener.pep.close().context("fi_close of the passive endpoint")?;
    let mut refused = [error(&eq)?, error(&eq)?];
    refused.sort_by_key(|error| error.fid == unread.ep.fid());
    for (error, side) in refused.iter().zip([&read, &unread]) {
        ensure!(error.fid == side.ep.fid(), "{error:?}");
        ensure!(error.err == Errno(abi::FI_ECONNREFUSED), "{error:?}");
        side.close()?;
    }
    nothing_more(&listener.eq)?;
    taken.ep.accept().context("fi_accept")?;
    for queue in [&eq, &listener.eq] {
        event(queue, abi::FI_CONNECTED, &[&first.cq, &taken.cq])?;
    }
    first.close()?;
    taken.close()?;
    eq.close().context("fi_close")?;
    fabric.close().context("fi_close")?;
    listener.eq.close().context("fi_close")?;
    listener.fabric.close().context("fi_close")
}

/// `fi_eq(3)`, `FI_WAIT_FD`: an application may sleep for requests.
fn the_descriptor_of_the_queue_shows_a_request(world: &World) -> Result<()> {
    let (listener, fabric, eq, active) = Pair::asked(world, &[])?;
    let ms = i32::try_from(Duration::from_secs(8).as_millis())?;
    let (event, info) = listener.eq.sread_cm(ms).context("fi_eq_sread")?;
    ensure!(event == abi::FI_CONNREQ, "event {event}");
    listener.pep.reject(&info.context("no info")?, &[]).context("fi_reject")?;
    error(&eq)?;
    active.close()?;
    eq.close().context("fi_close")?;
    fabric.close().context("fi_close")?;
    listener.close()
}

/// `fi_endpoint(3)`: connection management is for endpoints that connect.
fn datagram_endpoints_do_not_connect(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let name = group.b().name()?;
    let errors = [abi::FI_ENOSYS, abi::FI_EINVAL, abi::FI_EOPNOTSUPP];
    let answers: [Answer; 3] =
        [group.a().ep.connect(&name), group.a().ep.accept(), group.a().ep.shutdown()];
    for answer in answers {
        refused(answer, &errors, "connection management of FI_EP_RDM")?;
    }
    group.close()
}
