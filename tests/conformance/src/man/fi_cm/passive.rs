// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passive endpoints: names, listening, the backlog.

use anyhow::{Context as _, Result, ensure};

use crate::abi;
use crate::connected::{Listener, Pair, Side, error, event, hints, nothing_more, offer, queue};
use crate::fi::{Context, Errno, Fabric, Fid as _, getinfo};
use crate::world::{World, not_offered, refused};

/// The port of an address of IP.
fn port(name: &[u8]) -> Result<u16> {
    let port = name.get(2..4).context("a short address")?;
    Ok(u16::from_be_bytes(port.try_into()?))
}

/// Section `fi_getname`: an endpoint that listens has a name with a port.
pub(super) fn a_passive_endpoint_has_a_name(world: &World) -> Result<()> {
    let listener = Listener::open(world)?;
    ensure!(port(&listener.name()?)? != 0, "no port");
    refused(listener.pep.getname(4), &[abi::FI_ETOOSMALL], "too little room")?;
    listener.close()
}

/// `fi_getinfo(3)`, `node`: without a node, a passive endpoint of a service is reached by every
/// address of the host. The request has an endpoint at the address that was asked.
pub(super) fn a_passive_endpoint_of_a_service_listens_on_all_addresses(
    world: &World,
) -> Result<()> {
    let vacant = Listener::open(world)?;
    let service = port(&vacant.name()?)?.to_string();
    vacant.close()?;
    let found = getinfo(abi::VERSION, None, Some(&service), abi::FI_SOURCE, Some(&hints(world, 0)));
    let info = found.context("fi_getinfo")?.remove(0);
    let fabric = Fabric::open(&info, Context::null()).context("fi_fabric")?;
    let eq = queue(&fabric)?;
    let pep = fabric.passive_ep(&info).context("fi_passive_ep")?;
    pep.bind(&eq, 0).context("fi_pep_bind")?;
    pep.listen().context("fi_listen")?;
    let mut name = pep.getname(64).context("fi_getname")?;
    ensure!(name[4..8] == [0; 4], "{name:?}");
    // The loopback interface is not the one of the first offer, where there is another.
    name[4..8].copy_from_slice(&[127, 0, 0, 1]);
    let (asking, queue, active) = Pair::ask(world, &name, 0, &[])?;
    let request = event(&eq, abi::FI_CONNREQ, &[])?.info.context("no info")?;
    ensure!(request.src_addr()[4..8] == [127, 0, 0, 1], "{:?}", request.src_addr());
    // An endpoint of a domain on the asked interface, or on that of the offer.
    let domain = fabric.domain(&info, Context::null()).context("fi_domain of the offer")?;
    let unused = domain.endpoint(&request, Context::null()).context("fi_endpoint")?;
    let passive = Side::open(&fabric, &eq, request)?;
    passive.ep.accept().context("fi_accept")?;
    unused.close().context("fi_close of an endpoint that has not accepted")?;
    domain.close().context("fi_close of a domain")?;
    event(&queue, abi::FI_CONNECTED, &[&active.cq, &passive.cq])?;
    event(&eq, abi::FI_CONNECTED, &[&active.cq, &passive.cq])?;
    active.close()?;
    passive.close()?;
    queue.close().context("fi_close of an event queue")?;
    asking.close().context("fi_close of a fabric")?;
    pep.close().context("fi_close of a passive endpoint")?;
    eq.close().context("fi_close of an event queue")?;
    fabric.close().context("fi_close of a fabric")
}

/// Section `fi_setname`: port 0 is any.
pub(super) fn a_name_can_be_given(world: &World) -> Result<()> {
    let info = offer(world)?;
    let fabric = Fabric::open(&info, Context::null()).context("fi_fabric")?;
    let mut name = info.src_addr();
    name[2..4].fill(0);
    let pep = fabric.passive_ep(&info).context("fi_passive_ep")?;
    pep.setname(&name).context("fi_setname")?;
    let given = pep.getname(64).context("fi_getname")?;
    ensure!(port(&given)? != 0 && given[4..] == name[4..], "{given:?}");
    pep.close().context("fi_close")?;
    fabric.close().context("fi_close")
}

/// Section `fi_setname`: an address has one owner.
pub(super) fn a_name_in_use_is_refused(world: &World) -> Result<()> {
    let listener = Listener::open(world)?;
    let other = Listener::silent(world)?;
    let errors = [abi::FI_EADDRINUSE, abi::FI_EINVAL];
    refused(other.pep.setname(&listener.name()?), &errors, "an address in use")?;
    other.close()?;
    listener.close()
}

/// Section `fi_listen`: requests are events.
pub(super) fn listening_needs_an_event_queue(world: &World) -> Result<()> {
    let info = offer(world)?;
    let fabric = Fabric::open(&info, Context::null()).context("fi_fabric")?;
    let pep = fabric.passive_ep(&info).context("fi_passive_ep")?;
    let errors = [abi::FI_ENOEQ, abi::FI_EINVAL, abi::FI_EOPBADSTATE];
    refused(pep.listen(), &errors, "fi_listen without an event queue")?;
    pep.close().context("fi_close")?;
    fabric.close().context("fi_close")
}

/// Section `fi_listen`: it changes the state of the endpoint.
pub(super) fn a_passive_endpoint_listens_once(world: &World) -> Result<()> {
    let listener = Listener::open(world)?;
    let errors = [abi::FI_EOPBADSTATE, abi::FI_EINVAL, abi::FI_EBUSY];
    refused(listener.pep.listen(), &errors, "a second fi_listen")?;
    listener.close()
}

/// `fi_endpoint(3)`, `fi_endpoint`: a passive endpoint as the handle gives its address away.
pub(super) fn an_endpoint_takes_the_name_of_a_passive_one(world: &World) -> Result<()> {
    let listener = Listener::open(world)?;
    let named = Listener::silent(world)?;
    let mut name = named.info.src_addr();
    name[2..4].fill(0);
    named.pep.setname(&name).context("fi_setname")?;
    let name = named.name()?;
    let hints = hints(world, 0);
    hints.set(|info| info.handle = named.pep.fid());
    let offers = getinfo(abi::VERSION, world.node.as_deref(), None, abi::FI_SOURCE, Some(&hints));
    let info = offers.context("fi_getinfo")?.remove(0);
    ensure!(info.entry().handle == named.pep.fid(), "another handle");
    let active = Side::open(&named.fabric, &named.eq, info)?;
    named.pep.close().context("fi_close of the passive endpoint")?;
    ensure!(active.ep.getname(64).0.context("fi_getname")? == name, "another name");
    active.ep.connect(&listener.name()?).context("fi_connect")?;
    let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
    let info = request.info.context("no info")?;
    ensure!(info.dest_addr() == name, "the request comes from {:?}", info.dest_addr());
    listener.pep.reject(&info, &[]).context("fi_reject")?;
    error(&named.eq)?;
    active.close()?;
    named.eq.close().context("fi_close")?;
    named.fabric.close().context("fi_close")?;
    listener.close()
}

/// Section `fi_listen`: every request is an event.
pub(super) fn many_requests_are_reported_once_each(world: &World) -> Result<()> {
    const MANY: usize = 24;
    let listener = Listener::open(world)?;
    let name = listener.name()?;
    let info = offer(world)?;
    let fabric = Fabric::open(&info, Context::null()).context("fi_fabric")?;
    let eq = queue(&fabric)?;
    let open = |index: usize| -> Result<Side> {
        let side = Side::open(&fabric, &eq, info.dup())?;
        side.ep.connect_with(&name, &[index as u8]).context("fi_connect")?;
        Ok(side)
    };
    let sides = (0..MANY).map(open).collect::<Result<Vec<_>>>()?;
    let mut asked = std::collections::BTreeSet::new();
    for _ in 0..MANY {
        let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
        ensure!(asked.insert(request.data.clone()), "{:?} came twice", request.data);
        listener.pep.reject(&request.info.context("no info")?, &[]).context("fi_reject")?;
    }
    nothing_more(&listener.eq)?;
    for _ in 0..MANY {
        error(&eq)?;
    }
    sides.iter().try_for_each(Side::close)?;
    eq.close().context("fi_close")?;
    fabric.close().context("fi_close")?;
    listener.close()
}

/// A listener with room for so many requests.
fn with_backlog(world: &World, backlog: usize) -> Result<Listener> {
    let listener = Listener::silent(world)?;
    if listener.pep.set_backlog(backlog.try_into()?).is_err() {
        listener.close()?;
        return not_offered("FI_BACKLOG");
    }
    listener.pep.listen().context("fi_listen")?;
    Ok(listener)
}

/// Section `fi_listen`: the number of outstanding requests is limited by the backlog.
pub(super) fn requests_beyond_the_backlog_are_refused(world: &World) -> Result<()> {
    let listener = with_backlog(world, 1)?;
    let name = listener.name()?;
    let eq = queue(&listener.fabric)?;
    let open = || -> Result<Side> {
        let side = Side::open(&listener.fabric, &eq, offer(world)?)?;
        side.ep.connect(&name).context("fi_connect")?;
        Ok(side)
    };
    let first = open()?;
    let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
    let second = open()?;
    let refused = error(&eq)?;
    ensure!(refused.fid == second.ep.fid(), "{refused:?}");
    ensure!(refused.err == Errno(abi::FI_ECONNREFUSED), "{refused:?}");
    // The number of the provider is its own affair; ours tells a full backlog from no listener.
    if second.info.provider_name() == "xdp" {
        ensure!(Errno(refused.prov_errno) == Errno(abi::FI_EAGAIN), "{refused:?}");
    }
    listener.pep.reject(&request.info.context("no info")?, &[]).context("fi_reject")?;
    error(&eq)?;
    first.close()?;
    second.close()?;
    eq.close().context("fi_close")?;
    listener.close()
}

/// `fi_endpoint(3)`, `fi_close`: an endpoint that was opened for a request takes the request with
/// it, and leaves its room to others. The handle can be rejected yet, as `ofi_rxm` does.
pub(super) fn closing_an_endpoint_for_a_request_rejects_it(world: &World) -> Result<()> {
    let listener = with_backlog(world, 1)?;
    let name = listener.name()?;
    for handle_ends in [true, false, false, true] {
        let (fabric, eq, active) = Pair::ask(world, &name, 0, &[])?;
        let info = event(&listener.eq, abi::FI_CONNREQ, &[])?.info.context("no info")?;
        let domain = listener.fabric.domain(&info, Context::null()).context("fi_domain")?;
        let passive = domain.endpoint(&info, Context::null()).context("fi_endpoint")?;
        passive.close().context("fi_close of the endpoint for the request")?;
        domain.close().context("fi_close of a domain")?;
        let refused = error(&eq)?;
        ensure!(refused.err == Errno(abi::FI_ECONNREFUSED), "{refused:?}");
        if handle_ends {
            listener.pep.reject(&info, b"late").context("fi_reject after fi_close")?;
        }
        active.close()?;
        eq.close().context("fi_close of an event queue")?;
        fabric.close().context("fi_close of a fabric")?;
    }
    let (fabric, eq, active) = Pair::ask(world, &name, 0, &[])?;
    let info = event(&listener.eq, abi::FI_CONNREQ, &[])?.info.context("no info")?;
    let passive = Side::open(&listener.fabric, &listener.eq, info)?;
    passive.ep.accept().context("fi_accept")?;
    event(&eq, abi::FI_CONNECTED, &[&active.cq, &passive.cq])?;
    Pair { listener, fabric, eq, active, passive }.close()
}

/// Section `fi_listen`: a listener that reads no event has a bounded number of requests; further
/// ones are refused, until it accepts.
pub(super) fn a_full_backlog_makes_room_by_acceptance(world: &World) -> Result<()> {
    const BACKLOG: usize = 16;
    const MANY: usize = 64;
    let listener = with_backlog(world, BACKLOG)?;
    let (name, info) = (listener.name()?, offer(world)?);
    let fabric = Fabric::open(&info, Context::null()).context("fi_fabric")?;
    let eq = queue(&fabric)?;
    let ask = || -> Result<Side> {
        let side = Side::open(&fabric, &eq, info.dup())?;
        side.ep.connect(&name).context("fi_connect")?;
        Ok(side)
    };
    let mut waiting = (0..MANY).map(|_| ask()).collect::<Result<Vec<_>>>()?;
    for _ in BACKLOG..MANY {
        let refused = error(&eq)?;
        ensure!(refused.err == Errno(abi::FI_ECONNREFUSED), "{refused:?}");
        let side = waiting.iter().position(|side| side.ep.fid() == refused.fid);
        waiting.swap_remove(side.context("the event of another endpoint")?).close()?;
    }
    nothing_more(&eq)?;
    // In two rounds, of which the second one asks when the first one has been accepted.
    for _ in 0..2 {
        let request = |_| event(&listener.eq, abi::FI_CONNREQ, &[])?.info.context("no info");
        let requests = (0..BACKLOG).map(request).collect::<Result<Vec<_>>>()?;
        nothing_more(&listener.eq)?;
        let mut accepted = Vec::new();
        for info in requests {
            let side = Side::open(&listener.fabric, &listener.eq, info)?;
            side.ep.accept().context("fi_accept")?;
            event(&listener.eq, abi::FI_CONNECTED, &[])?;
            event(&eq, abi::FI_CONNECTED, &[])?;
            accepted.push(side);
        }
        let next = (0..BACKLOG).map(|_| ask()).collect::<Result<Vec<_>>>()?;
        let before = std::mem::replace(&mut waiting, next);
        accepted.iter().chain(&before).try_for_each(Side::close)?;
    }
    waiting.iter().try_for_each(Side::close)?;
    eq.close().context("fi_close")?;
    fabric.close().context("fi_close")?;
    listener.close()
}
