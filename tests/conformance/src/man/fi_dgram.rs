// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_endpoint(3)`, `FI_EP_DGRAM`: unreliable datagrams. Where the protocol is `FI_PROTO_UDP`, a
//! datagram is the payload of one UDP packet, so that a socket may be at the other end.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Context, Mem, Message};
use crate::group::{Group, Node};
use crate::runner::tests;
use crate::world::{EVENT_TIMEOUT, Setup, World, not_offered, refused};

tests! { "fi_dgram":
    a_datagram_has_the_bytes_that_were_sent
    empty_datagrams_arrive
    datagrams_of_the_greatest_length_arrive_and_longer_ones_are_refused
    longer_datagrams_are_truncated
    a_datagram_waits_for_a_receive
    the_source_of_a_datagram_is_named
    other_operations_than_messages_are_refused
    levels_that_need_an_acknowledgment_are_refused
    injected_datagrams_arrive
    datagrams_that_are_announced_keep_their_bounds
    a_datagram_that_announces_another_one_leaves_alone_with_progress
    datagrams_leave_without_another_call
    a_socket_receives_the_bytes_alone
    any_bytes_of_a_socket_arrive
}

fn setup(caps: u64) -> Setup {
    Setup { ep_type: abi::FI_EP_DGRAM, caps, order: 0, ..Setup::default() }
}

fn pair(world: &World) -> Result<Group> {
    world.group(&setup(abi::FI_MSG))
}

/// Section `FI_EP_DGRAM`: messages keep their bounds and their bytes.
fn a_datagram_has_the_bytes_that_were_sent(world: &World) -> Result<()> {
    let group = pair(world)?;
    ensure!(group.info.ep().type_ == abi::FI_EP_DGRAM, "endpoint type");
    let (from, into) = (Mem::pattern(100, 1), Mem::zeroed(200));
    let (_, received) = group.exchange(from, into)?;
    ensure!(into.bytes()[..100] == from.bytes(), "other bytes arrived");
    ensure!(into.bytes()[100..].iter().all(|byte| *byte == 0), "bytes beyond the datagram");
    ensure!(received.len == 100, "the receive tells {} bytes", received.len);
    group.expect_no_event(group.a())?;
    group.close()
}

/// A UDP packet may be without payload.
fn empty_datagrams_arrive(world: &World) -> Result<()> {
    let group = pair(world)?;
    let (_, received) = group.exchange(Mem::null(), Mem::zeroed(8))?;
    ensure!(received.len == 0, "{} bytes", received.len);
    group.close()
}

/// Section `max_msg_size`: the greatest length of a message.
fn datagrams_of_the_greatest_length_arrive_and_longer_ones_are_refused(
    world: &World,
) -> Result<()> {
    let group = pair(world)?;
    let most = group.info.ep().max_msg_size;
    let (from, into) = (Mem::pattern(most, 1), Mem::zeroed(most));
    let (_, received) = group.exchange(from, into)?;
    ensure!((received.len, into.bytes()) == (most, from.bytes()), "other bytes arrived");
    let longer = group.a().ep.send(Mem::zeroed(most + 1), group.to_b(), Context::null());
    refused(longer, &[abi::FI_EMSGSIZE], "a datagram beyond max_msg_size")?;
    group.close()
}

/// `fi_cq(3)`: a message that is longer than its buffer is an error of the receive.
fn longer_datagrams_are_truncated(world: &World) -> Result<()> {
    let group = pair(world)?;
    let into = Mem::zeroed(8);
    group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, Context::null()))?;
    let from = Mem::pattern(20, 1);
    group.post(|| group.a().ep.send(from, group.to_b(), Context::null()))?;
    let error = group.error(group.b())?;
    ensure!(error.err.0 == abi::FI_ETRUNC, "{error:?}");
    ensure!(into.bytes() == from.bytes()[..8], "other bytes arrived");
    group.next(group.a())?;
    group.close()
}

/// The packet that comes before its receive is posted is not lost while there is room.
fn a_datagram_waits_for_a_receive(world: &World) -> Result<()> {
    let group = pair(world)?;
    let from = Mem::pattern(20, 1);
    group.post(|| group.a().ep.send(from, group.to_b(), Context::null()))?;
    group.next(group.a())?;
    group.expect_no_event(group.b())?;
    let into = Mem::zeroed(20);
    group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, Context::null()))?;
    ensure!(group.next(group.b())?.len == 20 && into.bytes() == from.bytes(), "other bytes");
    group.close()
}

/// `fi_cq(3)`, `fi_cq_readfrom`: the source, also of a node to which nothing was sent.
fn the_source_of_a_datagram_is_named(world: &World) -> Result<()> {
    let group = world.group(&setup(abi::FI_MSG | abi::FI_SOURCE))?;
    let (_, received) = group.exchange(Mem::pattern(8, 1), Mem::zeroed(8))?;
    ensure!(received.from == group.to_a(), "{received:?}");
    group.close()
}

/// Section `FI_EP_DGRAM`: what is not offered is not done.
fn other_operations_than_messages_are_refused(world: &World) -> Result<()> {
    let group = pair(world)?;
    ensure!(group.info.domain().cq_data_size == 0, "remote CQ data needs a header");
    let errors = [abi::FI_ENOSYS, abi::FI_EOPNOTSUPP, abi::FI_EINVAL];
    let (ep, to, none) = (&group.a().ep, group.to_b(), Context::null());
    refused(ep.senddata(Mem::zeroed(8), 1, to, none), &errors, "fi_senddata")?;
    refused(ep.tsend(Mem::zeroed(8), to, 1, none), &errors, "fi_tsend")?;
    refused(ep.trecv(Mem::zeroed(8), to, 1, 0, none), &errors, "fi_trecv")?;
    group.expect_no_event(group.b())?;
    group.close()
}

/// `fi_msg(3)`, `FI_MORE`: a provider may send such a series at once. Messages keep their bounds.
fn datagrams_that_are_announced_keep_their_bounds(world: &World) -> Result<()> {
    const COUNT: usize = 30;
    let group = pair(world)?;
    let length = |number: usize| if number + 1 < COUNT { 1000 } else { 999 };
    let buffers: Vec<Mem> = (0..COUNT).map(|_| Mem::zeroed(1200)).collect();
    for into in &buffers {
        group.post(|| group.b().ep.recv(*into, FI_ADDR_UNSPEC, Context::null()))?;
    }
    for number in 0..COUNT {
        let from = Mem::pattern(length(number), number as u8);
        let message = Message::new(from, group.to_b(), Context::null());
        let more = if number + 1 < COUNT { abi::FI_MORE } else { 0 };
        group.post(|| group.a().ep.sendmsg(&message, more | abi::FI_COMPLETION))?;
    }
    group.take(group.a(), COUNT)?;
    group.take(group.b(), COUNT)?;
    // Datagrams have no order.
    for number in 0..COUNT {
        let wanted = Mem::pattern(length(number), number as u8);
        let is_there = |into: &&Mem| into.bytes()[..length(number)] == *wanted.bytes();
        ensure!(buffers.iter().filter(is_there).count() == 1, "datagram {number}");
    }
    group.close()
}

/// `fi_msg(3)`, `FI_MORE`: a hint. Without another post progress sends the message.
fn a_datagram_that_announces_another_one_leaves_alone_with_progress(world: &World) -> Result<()> {
    let group = pair(world)?;
    let (from, into) = (Mem::pattern(20, 1), Mem::zeroed(20));
    group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, Context::null()))?;
    let message = Message::new(from, group.to_b(), Context::null());
    group.post(|| group.a().ep.sendmsg(&message, abi::FI_MORE | abi::FI_COMPLETION))?;
    group.next(group.a())?;
    ensure!(group.next(group.b())?.len == 20 && into.bytes() == from.bytes(), "other bytes");
    group.close()
}

/// `fi_domain(3)`, `FI_PROGRESS_AUTO`: nothing waits for a call, also where no completion was read.
fn datagrams_leave_without_another_call(world: &World) -> Result<()> {
    const COUNT: usize = 5;
    let progress = abi::FI_PROGRESS_AUTO;
    let group = world.group(&Setup { progress, ..setup(abi::FI_MSG) })?;
    let into: Vec<Mem> = (0..COUNT).map(|_| Mem::zeroed(8)).collect();
    for into in &into {
        group.post(|| group.b().ep.recv(*into, FI_ADDR_UNSPEC, Context::null()))?;
    }
    for number in 0..COUNT {
        let from = Mem::pattern(8, number as u8);
        group.a().ep.send(from, group.to_b(), Context::null())?;
    }
    let (end, mut came) = (Instant::now() + EVENT_TIMEOUT, 0);
    while came < COUNT {
        ensure!(Instant::now() < end, "{came} of {COUNT} datagrams have left");
        match group.b().cq.read(COUNT) {
            Ok(events) => came += events.len(),
            Err(errno) => ensure!(errno.0 == abi::FI_EAGAIN, "{errno}"),
        }
    }
    group.take(group.a(), COUNT)?;
    group.close()
}

/// Section `FI_DELIVERY_COMPLETE`: no provider can keep it without an acknowledgment.
fn levels_that_need_an_acknowledgment_are_refused(world: &World) -> Result<()> {
    let _offered = world.offer(&setup(abi::FI_MSG))?;
    let tx_op_flags = abi::FI_DELIVERY_COMPLETE;
    let hints = world.hints(&Setup { tx_op_flags, ..setup(abi::FI_MSG) });
    refused(world.offers(abi::VERSION, &hints), &[abi::FI_ENODATA], "FI_DELIVERY_COMPLETE")
}

/// Section `fi_inject`: no completion, and the buffer is free at once.
fn injected_datagrams_arrive(world: &World) -> Result<()> {
    let group = pair(world)?;
    let (from, into) = (Mem::pattern(20, 1), Mem::zeroed(20));
    group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, Context::null()))?;
    group.post(|| group.a().ep.inject(from, group.to_b()))?;
    group.next(group.b())?;
    ensure!(into.bytes() == from.bytes(), "other bytes arrived");
    group.expect_no_event(group.a())?;
    group.close()
}

/// A group of datagrams that are UDP packets, and a socket beside its second node.
fn with_socket(world: &World) -> Result<(Group, UdpSocket)> {
    let group = pair(world)?;
    if group.info.ep().protocol != abi::FI_PROTO_UDP {
        return not_offered("FI_PROTO_UDP");
    }
    let mut address = socket_address(group.b())?;
    address.set_port(0);
    let bind = || UdpSocket::bind(address).context("bind");
    let socket = world.other.as_ref().map_or_else(bind, |host| host.run(bind))?;
    socket.set_read_timeout(Some(EVENT_TIMEOUT))?;
    Ok((group, socket))
}

/// The address of an endpoint, as the kernel lays it out.
fn socket_address(node: &Node) -> Result<SocketAddr> {
    let name = node.name()?;
    let port = u16::from_be_bytes(name.get(2..4).context("no port")?.try_into()?);
    let ip: IpAddr = if name.len() < 28 {
        <[u8; 4]>::try_from(name.get(4..8).context("no address")?)?.into()
    } else {
        Ipv6Addr::from(<[u8; 16]>::try_from(name.get(8..24).context("no address")?)?).into()
    };
    Ok(SocketAddr::new(ip, port))
}

/// `name` with the port of a socket: its address for the address vector.
fn name_of(node: &Node, socket: &UdpSocket) -> Result<Vec<u8>> {
    let mut name = node.name()?;
    name[2..4].copy_from_slice(&socket.local_addr()?.port().to_be_bytes());
    Ok(name)
}

/// `FI_PROTO_UDP`: a program without libfabric reads what was sent.
fn a_socket_receives_the_bytes_alone(world: &World) -> Result<()> {
    let (group, socket) = with_socket(world)?;
    let name = name_of(group.b(), &socket)?;
    let to = group.a().av.insert(&name).context("fi_av_insert")?;
    for len in [1, 31, 32, 1000] {
        let from = Mem::pattern(len, 7);
        group.post(|| group.a().ep.send(from, to, Context::null()))?;
        group.next(group.a())?;
        let mut bytes = [0; 2000];
        let (received, source) = socket.recv_from(&mut bytes).context("recvfrom")?;
        ensure!(bytes[..received] == *from.bytes(), "{len}: other bytes arrived");
        ensure!(source == socket_address(group.a())?, "from {source}");
    }
    group.close()
}

/// `FI_PROTO_UDP`: every packet is a datagram, whatever its bytes are.
fn any_bytes_of_a_socket_arrive(world: &World) -> Result<()> {
    let (group, socket) = with_socket(world)?;
    let to = socket_address(group.a())?;
    for first in [0, 0x20, 0x2f, 0xff] {
        for len in [0, 1, 31, 32, 72, 1400] {
            let mut bytes = vec![0x5a; len];
            bytes.iter_mut().take(1).for_each(|byte| *byte = first);
            let into = Mem::zeroed(1400);
            group.post(|| group.a().ep.recv(into, FI_ADDR_UNSPEC, Context::null()))?;
            socket.send_to(&bytes, to).context("sendto")?;
            let received = group.next(group.a())?;
            ensure!(received.len == len, "{} of {len} bytes", received.len);
            ensure!(into.bytes()[..len] == bytes, "other bytes arrived");
        }
    }
    group.close()
}
