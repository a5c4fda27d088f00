// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_join(3)`: multicast groups, with `FI_MULTICAST` of `fi_msg(3)` and `fi_cq(3)`.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use anyhow::{Context as _, Result, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::connected::queue;
use crate::fi::{Answer, Context, Eq, EqEvent, Fid as _, Mc, Mem, Message};
use crate::group::{Group, Node};
use crate::runner::tests;
use crate::world::{EVENT_TIMEOUT, Setup, World, refused};

tests! { "fi_join":
    a_join_is_reported
    a_datagram_to_a_group_reaches_every_member
    completions_name_datagrams_to_groups
    the_flag_may_be_the_default_of_an_endpoint
    injected_datagrams_reach_a_group
    members_that_only_send_receive_nothing
    members_that_only_receive_receive
    nothing_arrives_after_leaving
    groups_of_an_endpoint_are_apart
    datagrams_to_one_endpoint_still_arrive
    a_group_and_its_flag_belong_together
    a_group_keeps_its_endpoint_open
    joining_needs_an_event_queue
    joining_needs_an_enabled_endpoint
    an_address_that_is_no_group_is_refused
    unknown_flags_of_a_join_are_refused
    a_second_join_of_a_group_is_an_error
    other_endpoints_do_not_join
    sockets_are_members_too
}

fn setup(caps: u64) -> Setup {
    let caps = abi::FI_MSG | abi::FI_MULTICAST | caps;
    Setup { ep_type: abi::FI_EP_DGRAM, caps, order: 0, ..Setup::default() }
}

/// Nodes with an event queue each.
struct Members {
    group: Group,
    eqs: Vec<Eq>,
}

impl Members {
    fn open(world: &World, setup: &Setup) -> Result<Self> {
        let mut group = world.closed_group(setup)?;
        let queue = |node: &Node| -> Result<Eq> {
            let eq = queue(&group.fabric)?;
            node.ep.bind(&eq, 0).context("fi_ep_bind of the event queue")?;
            Ok(eq)
        };
        let eqs = group.nodes.iter().map(queue).collect::<Result<_>>()?;
        group.enable()?;
        group.exchange_names()?;
        Ok(Self { group, eqs })
    }

    /// The address of a group for this test alone: its port is that of the first node.
    fn name(&self, number: u8) -> Result<Vec<u8>> {
        let mut name = self.group.a().name()?;
        if name.len() < 28 {
            name[4..8].copy_from_slice(&[239, 255, 71, number]);
        } else {
            name[8..24].fill(0);
            name[8..10].copy_from_slice(&[0xff, 0x02]);
            name[23] = number;
        }
        Ok(name)
    }

    fn try_join(
        &self,
        node: usize,
        name: &[u8],
        flags: u64,
        context: Context,
    ) -> Result<Answer<Mc>> {
        self.group.nodes[node].here(|| self.group.nodes[node].ep.join(name, flags, context))
    }

    /// Joins, and waits for the event.
    fn join(&self, node: usize, name: &[u8], flags: u64) -> Result<Mc> {
        let mc = self.try_join(node, name, flags, Context::null())?.context("fi_join")?;
        let EqEvent { event, fid, .. } = self.eqs[node].sread(8000).context("fi_eq_sread")?;
        ensure!((event, fid) == (abi::FI_JOIN_COMPLETE, mc.fid()), "event {event} of {fid:?}");
        Ok(mc)
    }

    /// All nodes join.
    fn join_all(&self, name: &[u8]) -> Result<Vec<Mc>> {
        (0..self.group.nodes.len()).map(|node| self.join(node, name, 0)).collect()
    }

    /// Sends to a group.
    fn send(&self, node: usize, mem: Mem, to: &Mc, context: Context) -> Result<()> {
        let message = Message::new(mem, to.address(), context);
        let ep = &self.group.nodes[node].ep;
        self.group.post(|| ep.sendmsg(&message, abi::FI_MULTICAST))
    }

    fn receive(&self, node: usize, into: Mem) -> Result<()> {
        let ep = &self.group.nodes[node].ep;
        self.group.post(|| ep.recv(into, FI_ADDR_UNSPEC, Context::null()))
    }

    fn close(&self, groups: &[Mc]) -> Result<()> {
        groups.iter().try_for_each(|mc| mc.close().context("fi_close of a group"))?;
        self.group.nodes.iter().try_for_each(|node| node.ep.close().context("fi_close"))?;
        self.eqs.iter().try_for_each(|eq| eq.close().context("fi_close of an event queue"))?;
        self.group.close_rest()
    }
}

/// Two nodes in one group.
fn pair(world: &World, caps: u64) -> Result<(Members, Vec<Mc>)> {
    let members = Members::open(world, &setup(caps))?;
    let groups = members.join_all(&members.name(1)?)?;
    Ok((members, groups))
}

/// Section `fi_join`: the result is an event of the queue, with the context of the call.
fn a_join_is_reported(world: &World) -> Result<()> {
    let members = Members::open(world, &setup(0))?;
    let context = Context::new();
    let mc = members.try_join(0, &members.name(1)?, 0, context)?.context("fi_join")?;
    let event = members.eqs[0].sread(8000).context("fi_eq_sread")?;
    ensure!(event.event == abi::FI_JOIN_COMPLETE, "{event:?}");
    ensure!((event.fid, event.context) == (mc.fid(), context.ptr()), "{event:?}");
    ensure!(mc.address() != FI_ADDR_UNSPEC, "fi_mc_addr");
    members.close(&[mc])
}

/// Section `fi_join`: members initiate transfers, and receive them.
fn a_datagram_to_a_group_reaches_every_member(world: &World) -> Result<()> {
    let members = Members::open(world, &Setup { nodes: 4, ..setup(0) })?;
    let groups = members.join_all(&members.name(1)?)?;
    let from = Mem::pattern(100, 7);
    let into: Vec<Mem> = (0..4).map(|_| Mem::zeroed(200)).collect();
    (1..4).try_for_each(|node| members.receive(node, into[node]))?;
    members.send(0, from, &groups[0], Context::null())?;
    for (node, into) in members.group.nodes.iter().zip(&into).skip(1) {
        let received = members.group.next(node)?;
        ensure!(received.len == 100 && into.bytes()[..100] == from.bytes(), "other bytes arrived");
    }
    members.close(&groups)
}

/// `fi_cq(3)`, `FI_MULTICAST`: of sends, and with `FI_SOURCE` of receives; not of others.
fn completions_name_datagrams_to_groups(world: &World) -> Result<()> {
    let (members, groups) = pair(world, abi::FI_SOURCE)?;
    let group = &members.group;
    members.receive(1, Mem::zeroed(8))?;
    members.send(0, Mem::zeroed(8), &groups[0], Context::null())?;
    let (sent, received) = (group.next(group.a())?, group.next(group.b())?);
    let kinds = [abi::FI_SEND, abi::FI_RECV].map(|kind| kind | abi::FI_MSG | abi::FI_MULTICAST);
    ensure!([sent.flags, received.flags] == kinds, "{sent:?}, {received:?}");
    ensure!(received.from == group.to_a() && received.data == 0, "{received:?}");
    let (sent, received) = group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    ensure!((sent.flags | received.flags) & abi::FI_MULTICAST == 0, "{sent:?}, {received:?}");
    members.close(&groups)
}

/// `fi_endpoint(3)`, operation flags: every transfer is to a group then.
fn the_flag_may_be_the_default_of_an_endpoint(world: &World) -> Result<()> {
    let setup = Setup { tx_op_flags: abi::FI_MULTICAST, ..setup(0) };
    let members = Members::open(world, &setup)?;
    let groups = members.join_all(&members.name(1)?)?;
    let (group, from, into) = (&members.group, Mem::pattern(9, 3), Mem::zeroed(9));
    members.receive(1, into)?;
    group.post(|| group.a().ep.send(from, groups[0].address(), Context::null()))?;
    group.next(group.b())?;
    ensure!(into.bytes() == from.bytes(), "other bytes arrived");
    members.close(&groups)
}

/// `fi_inject` has no flags of its own, and takes those of the endpoint.
fn injected_datagrams_reach_a_group(world: &World) -> Result<()> {
    let setup = Setup { tx_op_flags: abi::FI_MULTICAST, ..setup(0) };
    let members = Members::open(world, &setup)?;
    let groups = members.join_all(&members.name(1)?)?;
    let (group, from, into) = (&members.group, Mem::pattern(9, 3), Mem::zeroed(9));
    members.receive(1, into)?;
    group.post(|| group.a().ep.inject(from, groups[0].address()))?;
    group.next(group.b())?;
    ensure!(into.bytes() == from.bytes(), "other bytes arrived");
    members.close(&groups)
}

/// Section FLAGS, `FI_SEND`.
fn members_that_only_send_receive_nothing(world: &World) -> Result<()> {
    let members = Members::open(world, &setup(0))?;
    let name = members.name(1)?;
    let groups = [members.join(0, &name, abi::FI_SEND)?, members.join(1, &name, abi::FI_SEND)?];
    members.receive(1, Mem::zeroed(8))?;
    members.send(0, Mem::zeroed(8), &groups[0], Context::null())?;
    members.group.next(members.group.a())?;
    members.group.expect_no_event(members.group.b())?;
    members.close(&groups)
}

/// Section FLAGS, `FI_RECV`.
fn members_that_only_receive_receive(world: &World) -> Result<()> {
    let members = Members::open(world, &setup(0))?;
    let name = members.name(1)?;
    let groups = [members.join(0, &name, abi::FI_SEND)?, members.join(1, &name, abi::FI_RECV)?];
    members.receive(1, Mem::zeroed(8))?;
    members.send(0, Mem::zeroed(8), &groups[0], Context::null())?;
    ensure!(members.group.next(members.group.b())?.len == 8, "another length");
    members.close(&groups)
}

/// Section `fi_close`: it ends the membership. A later join is a new one.
fn nothing_arrives_after_leaving(world: &World) -> Result<()> {
    let (members, mut groups) = pair(world, 0)?;
    groups.pop().context("two groups")?.close().context("fi_close of a group")?;
    members.receive(1, Mem::zeroed(8))?;
    members.send(0, Mem::zeroed(8), &groups[0], Context::null())?;
    members.group.next(members.group.a())?;
    members.group.expect_no_event(members.group.b())?;
    groups.push(members.join(1, &members.name(1)?, 0)?);
    members.send(0, Mem::zeroed(8), &groups[0], Context::null())?;
    members.group.next(members.group.b())?;
    members.close(&groups)
}

/// Section `fi_mc_addr`: the address of one group.
fn groups_of_an_endpoint_are_apart(world: &World) -> Result<()> {
    let members = Members::open(world, &setup(0))?;
    let (one, two) = (members.name(1)?, members.name(2)?);
    let groups = [members.join(0, &one, 0)?, members.join(0, &two, 0)?, members.join(1, &two, 0)?];
    ensure!(groups[0].address() != groups[1].address(), "two groups have one address");
    let into = Mem::zeroed(8);
    members.receive(1, into)?;
    members.send(0, Mem::pattern(8, 1), &groups[0], Context::null())?;
    members.group.expect_no_event(members.group.b())?;
    let from = Mem::pattern(8, 2);
    members.send(0, from, &groups[1], Context::null())?;
    members.group.next(members.group.b())?;
    ensure!(into.bytes() == from.bytes(), "the datagram of another group");
    members.close(&groups)
}

/// The address vector is as before.
fn datagrams_to_one_endpoint_still_arrive(world: &World) -> Result<()> {
    let (members, groups) = pair(world, 0)?;
    let (from, into) = (Mem::pattern(50, 5), Mem::zeroed(50));
    members.group.exchange(from, into)?;
    ensure!(into.bytes() == from.bytes(), "other bytes arrived");
    members.close(&groups)
}

/// `fi_msg(3)`, `FI_MULTICAST`: it must be used with the address of a group, and with no other.
fn a_group_and_its_flag_belong_together(world: &World) -> Result<()> {
    let (members, groups) = pair(world, 0)?;
    let (group, errors) = (&members.group, [abi::FI_EINVAL, abi::FI_EBADFLAGS]);
    let mem = Mem::zeroed(8);
    let bare = group.a().ep.send(mem, groups[0].address(), Context::null());
    refused(bare, &errors, "a group without FI_MULTICAST")?;
    let message = Message::new(mem, group.to_b(), Context::null());
    let flagged = group.a().ep.sendmsg(&message, abi::FI_MULTICAST);
    refused(flagged, &errors, "FI_MULTICAST without a group")?;
    members.close(&groups)
}

/// Section `fi_close`: the groups of an endpoint end before it.
fn a_group_keeps_its_endpoint_open(world: &World) -> Result<()> {
    let (members, groups) = pair(world, 0)?;
    refused(members.group.a().ep.close(), &[abi::FI_EBUSY], "fi_close of the endpoint")?;
    members.close(&groups)
}

/// Section `fi_join`: the queue is bound before.
fn joining_needs_an_event_queue(world: &World) -> Result<()> {
    let group = world.group(&setup(0))?;
    let members = Members { group, eqs: Vec::new() };
    let joined = members.try_join(0, &members.name(1)?, 0, Context::null())?;
    refused(joined, &[abi::FI_ENOEQ], "fi_join without an event queue")?;
    members.group.close()
}

/// `fi_endpoint(3)`, `fi_enable`.
fn joining_needs_an_enabled_endpoint(world: &World) -> Result<()> {
    let group = world.closed_group(&setup(0))?;
    let eq = queue(&group.fabric)?;
    group.a().ep.bind(&eq, 0).context("fi_ep_bind of the event queue")?;
    let members = Members { group, eqs: vec![eq] };
    let joined = members.try_join(0, &members.name(1)?, 0, Context::null())?;
    refused(joined, &[abi::FI_EOPBADSTATE], "fi_join before fi_enable")?;
    members.close(&[])
}

/// Section `fi_join`: the address is that of a group.
fn an_address_that_is_no_group_is_refused(world: &World) -> Result<()> {
    let members = Members::open(world, &setup(0))?;
    let own = members.group.a().name()?;
    let joined = members.try_join(0, &own, 0, Context::null())?;
    refused(joined, &[abi::FI_EINVAL, abi::FI_EADDRNOTAVAIL], "the endpoint's own address")?;
    let mut other = members.name(1)?;
    let family = if other.len() < 28 { 10_u16 } else { 2 };
    other.resize(28, 0);
    other[..2].copy_from_slice(&family.to_ne_bytes());
    let joined = members.try_join(0, &other, 0, Context::null())?;
    refused(joined, &[abi::FI_EINVAL, abi::FI_ENOSYS], "an address of another family")?;
    members.close(&[])
}

/// Section FLAGS: other bits are reserved.
fn unknown_flags_of_a_join_are_refused(world: &World) -> Result<()> {
    let members = Members::open(world, &setup(0))?;
    let joined = members.try_join(0, &members.name(1)?, abi::FI_MORE, Context::null())?;
    refused(joined, &[abi::FI_EBADFLAGS, abi::FI_EINVAL], "FI_MORE")?;
    members.close(&[])
}

/// Section `fi_join`: a failure is an error event of the group's object.
fn a_second_join_of_a_group_is_an_error(world: &World) -> Result<()> {
    let members = Members::open(world, &setup(0))?;
    let (name, context) = (members.name(1)?, Context::new());
    let first = members.join(0, &name, 0)?;
    let second = members.try_join(0, &name, 0, context)?.context("fi_join")?;
    refused(members.eqs[0].sread(8000), &[abi::FI_EAVAIL], "fi_eq_sread")?;
    let error = members.eqs[0].readerr().context("fi_eq_readerr")?;
    ensure!(error.err.0 == abi::FI_EADDRINUSE, "{error:?}");
    ensure!((error.fid, error.context) == (second.fid(), context.ptr()), "{error:?}");
    second.close().context("fi_close of a group that was not joined")?;
    let into = Mem::zeroed(8);
    members.receive(0, into)?;
    members.send(0, Mem::pattern(8, 1), &first, Context::null())?;
    members.group.take(members.group.a(), 2).context("the first membership")?;
    members.close(&[first])
}

/// `fi_getinfo(3)`, `FI_MULTICAST`: a capability that is asked for.
fn other_endpoints_do_not_join(world: &World) -> Result<()> {
    let _offered = world.offer(&setup(0))?;
    let without = Setup { caps: abi::FI_MSG, ..setup(0) };
    let members = Members::open(world, &without)?;
    let joined = members.try_join(0, &members.name(1)?, 0, Context::null())?;
    refused(joined, &[abi::FI_ENOSYS, abi::FI_EOPNOTSUPP, abi::FI_EINVAL], "fi_join")?;
    members.close(&[])
}

/// `FI_PROTO_UDP`: programs without libfabric are members of the group.
fn sockets_are_members_too(world: &World) -> Result<()> {
    let (members, groups) = pair(world, 0)?;
    let name = members.name(1)?;
    if members.group.info.ep().protocol != abi::FI_PROTO_UDP || name.len() >= 28 {
        return crate::world::not_offered("FI_PROTO_UDP over IPv4");
    }
    let group = IpAddr::from([239, 255, 71, 1]);
    let port = u16::from_be_bytes([name[2], name[3]]);
    let own = members.group.b().name()?;
    let own = Ipv4Addr::new(own[4], own[5], own[6], own[7]);
    // Beside the second node.
    let open = || -> Result<UdpSocket> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context("bind")?;
        socket.set_read_timeout(Some(EVENT_TIMEOUT))?;
        socket.join_multicast_v4(&Ipv4Addr::new(239, 255, 71, 2), &own).context("join")?;
        Ok(socket)
    };
    let socket = members.group.b().here(open)??;
    let into = Mem::zeroed(3);
    members.receive(0, into)?;
    let from = members.group.b().here(|| UdpSocket::bind((own, 0)))?.context("bind")?;
    from.send_to(b"all", (group, port)).context("sendto")?;
    members.group.next(members.group.a())?;
    ensure!(into.bytes() == b"all", "other bytes arrived");
    let mut other = members.name(2)?;
    other[2..4].copy_from_slice(&socket.local_addr()?.port().to_be_bytes());
    let mc = members.join(0, &other, abi::FI_SEND)?;
    members.send(0, Mem::pattern(30, 9), &mc, Context::null())?;
    let mut bytes = [0; 100];
    let (len, _) = socket.recv_from(&mut bytes).context("recvfrom")?;
    ensure!(bytes[..len] == Mem::pattern(30, 9).bytes(), "other bytes arrived");
    mc.close().context("fi_close of a group")?;
    members.close(&groups)
}
