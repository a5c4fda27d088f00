// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_msg(3)`: messages.

use anyhow::{Result, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Context, Mem, Message};
use crate::group::Group;
use crate::runner::tests;
use crate::world::{Setup, World, refused};

tests! { "fi_msg":
    send_and_recv_move_bytes
    zero_length_messages_arrive
    receives_without_a_buffer_take_empty_messages
    every_length_arrives_whole
    sendv_gathers
    sendv_of_the_iov_limit
    sendv_beyond_the_iov_limit_is_refused
    sendmsg_with_data
    sendmsg_without_the_flag_has_no_data
    inject_buffer_is_free_at_once
    inject_of_the_limit
    inject_beyond_the_limit_is_refused
    inject_completes_at_the_receiver_only
    senddata_carries_eight_bytes
    injectdata_carries_data
    recv_of_a_longer_message_is_truncated
    recv_of_a_shorter_message_tells_its_length
    recvv_scatters
    recvmsg_receives
    directed_recv_takes_only_that_peers
    unexpected_messages_wait
    unexpected_long_messages_wait
    inject_flag_frees_the_buffer
    more_is_only_a_hint
    fence_waits_for_earlier_operations
    messages_of_one_peer_match_in_order
    long_and_short_messages_match_in_order
    both_directions_at_once
    send_to_oneself
    send_and_recv_with_null_context
    many_outstanding
}

/// Section `fi_send`, `fi_recv`: the bytes of the buffer arrive in the posted buffer, with one
/// completion on each side and the context that was given.
fn send_and_recv_move_bytes(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (from, into) = (Mem::pattern(100, 1), Mem::zeroed(200));
    let (sent, received) = group.exchange(from, into)?;
    ensure!(into.bytes()[..100] == from.bytes(), "other bytes arrived");
    ensure!(into.bytes()[100..].iter().all(|byte| *byte == 0), "bytes beyond the message");
    ensure!(received.len == 100, "the receive tells {} bytes", received.len);
    ensure!(sent.flags & abi::FI_SEND != 0 && received.flags & abi::FI_RECV != 0, "flags");
    group.expect_no_event(group.a())?;
    group.close()
}

/// Section `fi_send`: a message may be empty; it completes like any other.
fn zero_length_messages_arrive(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let into = Mem::pattern(8, 3);
    let (_, received) = group.exchange(Mem::null(), into)?;
    ensure!(received.len == 0, "{} bytes", received.len);
    ensure!(into.bytes() == Mem::pattern(8, 3).bytes(), "the buffer was touched");
    let (_, received) = group.exchange(Mem::zeroed(0), Mem::null())?;
    ensure!(received.len == 0, "{} bytes", received.len);
    group.close()
}

/// Section `fi_recv`: a receive without a buffer, whatever its length, takes an empty message
/// (fabtests' `fi_shared_ctx`).
fn receives_without_a_buffer_take_empty_messages(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (_, received) = group.exchange(Mem::zeroed(0), Mem::absent(256))?;
    ensure!(received.len == 0, "{} bytes", received.len);
    group.close()
}

/// Section `fi_send`: up to `max_msg_size`, at lengths near which implementations change their
/// method: 1, a cache line, the MTU, inject size, pages, rendezvous, megabytes.
fn every_length_arrives_whole(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let inject = group.info.tx().inject_size;
    let most = group.info.ep().max_msg_size;
    let marks = [1, 64, inject, 1400, 1472, 4096, 9000, 16384, 32768, 65536, 1 << 20, 5_000_000];
    for mark in marks {
        for len in [mark.saturating_sub(1), mark, mark + 1] {
            if len > most {
                continue;
            }
            let (from, into) = (Mem::pattern(len, len as u8), Mem::zeroed(len + 8));
            let (_, received) = group.exchange(from, into)?;
            ensure!(received.len == len, "{len} bytes became {}", received.len);
            ensure!(into.bytes()[..len] == from.bytes(), "{len} bytes: other bytes arrived");
            ensure!(into.bytes()[len..] == [0; 8], "{len} bytes: bytes beyond the message");
        }
    }
    group.close()
}

/// Parts of one pattern, so that a gap or a swap shows.
fn parts(lens: &[usize], seed: u8) -> (Vec<Mem>, Vec<u8>) {
    let whole = Mem::pattern(lens.iter().sum(), seed);
    let mut at = 0;
    let mut part = |len: &usize| {
        // The parts are apart from each other in memory.
        let part = Mem::of(&whole.part(at, *len).bytes());
        at += len;
        part
    };
    (lens.iter().map(&mut part).collect(), whole.bytes())
}

/// Section `fi_sendv`: the parts are sent as one message, in order.
fn sendv_gathers(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    for lens in [&[10, 20][..], &[1, 1], &[0, 7], &[3000, 5], &[100_000, 200_000]] {
        let (parts, whole) = parts(lens, 4);
        let into = Mem::zeroed(whole.len());
        let (send, receive) = (Context::new(), Context::new());
        group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, receive))?;
        group.post(|| group.a().ep.sendv(&parts, group.to_b(), send))?;
        group.done(group.a(), send)?;
        ensure!(group.done(group.b(), receive)?.len == whole.len(), "{lens:?}: length");
        ensure!(into.bytes() == whole, "{lens:?}: other bytes arrived");
    }
    group.close()
}

/// Section `fi_sendv`: as many parts as `tx_attr.iov_limit` says.
fn sendv_of_the_iov_limit(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let limit = group.info.tx().iov_limit;
    let lens: Vec<usize> = (0..limit.min(64)).map(|index| 100 + index * 33).collect();
    let (parts, whole) = parts(&lens, 9);
    let (into, receive) = (Mem::zeroed(whole.len()), Context::new());
    group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.a().ep.sendv(&parts, group.to_b(), Context::new()))?;
    group.done(group.b(), receive)?;
    ensure!(into.bytes() == whole, "other bytes arrived");
    group.close()
}

/// `fi_endpoint(3)`, `iov_limit`: a call with more parts is refused, and sends nothing.
fn sendv_beyond_the_iov_limit_is_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let limit = group.info.tx().iov_limit;
    // A provider that must connect first does so here.
    group.exchange(Mem::zeroed(1), Mem::zeroed(1))?;
    let (parts, _) = parts(&vec![8; limit + 1], 9);
    let answer = group.a().ep.sendv(&parts, group.to_b(), Context::new());
    refused(answer, &[abi::FI_EINVAL, abi::FI_EMSGSIZE, abi::FI_EOPNOTSUPP], "one part too many")?;
    group.expect_no_event(group.b())?;
    group.close()
}

/// Section `fi_sendmsg`: with `FI_REMOTE_CQ_DATA` the message carries `msg->data`.
fn sendmsg_with_data(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (from, into) = (Mem::pattern(50, 2), Mem::zeroed(50));
    let (send, receive) = (Context::new(), Context::new());
    group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, receive))?;
    let mut message = Message::new(from, group.to_b(), send);
    message.data = 0x0102_0304;
    group.post(|| group.a().ep.sendmsg(&message, abi::FI_REMOTE_CQ_DATA | abi::FI_COMPLETION))?;
    group.done(group.a(), send)?;
    let received = group.done(group.b(), receive)?;
    ensure!(received.flags & abi::FI_REMOTE_CQ_DATA != 0, "no FI_REMOTE_CQ_DATA: {received:?}");
    ensure!(received.data == 0x0102_0304, "data {:#x}", received.data);
    ensure!(into.bytes() == from.bytes(), "other bytes arrived");
    group.close()
}

/// Section `fi_sendmsg`: `msg->data` is sent only if the flag says so.
fn sendmsg_without_the_flag_has_no_data(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let receive = Context::new();
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    let mut message = Message::new(Mem::zeroed(8), group.to_b(), Context::new());
    message.data = 77;
    group.post(|| group.a().ep.sendmsg(&message, 0))?;
    let received = group.done(group.b(), receive)?;
    ensure!(received.flags & abi::FI_REMOTE_CQ_DATA == 0, "FI_REMOTE_CQ_DATA: {received:?}");
    group.close()
}

/// Section `fi_inject`: the buffer is the application's again as soon as the call returns.
fn inject_buffer_is_free_at_once(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let from = Mem::zeroed(32);
    for round in 0..20 {
        from.write(0, &[round; 32]);
        group.post(|| group.a().ep.inject(from, group.to_b()))?;
        from.write(0, &[0xff; 32]);
    }
    for round in 0..20 {
        let (into, receive) = (Mem::zeroed(32), Context::new());
        group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, receive))?;
        group.done(group.b(), receive)?;
        ensure!(into.bytes() == [round; 32], "message {round} has bytes of later");
    }
    group.close()
}

/// Section `fi_inject`, `fi_endpoint(3)` `inject_size`: messages of that length are taken.
fn inject_of_the_limit(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let limit = group.info.tx().inject_size;
    let (from, into, receive) = (Mem::pattern(limit, 5), Mem::zeroed(limit), Context::new());
    group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.a().ep.inject(from, group.to_b()))?;
    ensure!(group.done(group.b(), receive)?.len == limit, "length");
    ensure!(into.bytes() == from.bytes(), "other bytes arrived");
    group.close()
}

/// Section `fi_inject`: longer ones are refused, and nothing is sent.
fn inject_beyond_the_limit_is_refused(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    // So that a provider that connects first has done so.
    group.exchange(Mem::zeroed(1), Mem::zeroed(1))?;
    let from = Mem::zeroed(group.info.tx().inject_size + 1);
    let errors = [abi::FI_EINVAL, abi::FI_EMSGSIZE, abi::FI_ETOOSMALL];
    refused(group.a().ep.inject(from, group.to_b()), &errors, "inject_size + 1")?;
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    group.expect_no_event(group.b())?;
    group.close()
}

/// Section `fi_inject`: no completion is written for it at the sender.
pub(crate) fn inject_completes_at_the_receiver_only(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let receive = Context::new();
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.a().ep.inject(Mem::zeroed(8), group.to_b()))?;
    group.done(group.b(), receive)?;
    group.expect_no_event(group.a())?;
    group.close()
}

/// Section `fi_senddata`: `cq_data_size` bytes of data arrive with the message, in host order.
fn senddata_carries_eight_bytes(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let size = group.info.domain().cq_data_size;
    ensure!((1..=8).contains(&size), "cq_data_size {size}");
    let mask = u64::MAX >> (64 - 8 * size);
    for data in [0, 1, 0x8899_aabb_ccdd_eeff & mask, mask] {
        let receive = Context::new();
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
        let send = Context::new();
        group.post(|| group.a().ep.senddata(Mem::zeroed(3), data, group.to_b(), send))?;
        group.done(group.a(), send)?;
        let received = group.done(group.b(), receive)?;
        ensure!(received.flags & abi::FI_REMOTE_CQ_DATA != 0, "no flag: {received:?}");
        ensure!((received.data, received.len) == (data, 3), "{data:#x}: {received:?}");
    }
    group.close()
}

/// Section `fi_injectdata`: as senddata, without a completion at the sender.
fn injectdata_carries_data(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let receive = Context::new();
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.a().ep.injectdata(Mem::zeroed(3), 99, group.to_b()))?;
    let received = group.done(group.b(), receive)?;
    ensure!((received.data, received.len) == (99, 3), "{received:?}");
    ensure!(received.flags & abi::FI_REMOTE_CQ_DATA != 0, "no flag: {received:?}");
    group.expect_no_event(group.a())?;
    group.close()
}

/// Section `fi_recv`, `fi_cq(3)` `olen`: a message that does not fit ends the receive with
/// `FI_ETRUNC`. `olen` is the part that did not fit. No byte beyond the buffer is written.
fn recv_of_a_longer_message_is_truncated(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    for (len, room) in [(100, 60), (5000, 100), (100_000, 1000), (9, 0)] {
        let whole = Mem::zeroed(room + 16);
        let (into, receive, send) = (whole.part(0, room), Context::new(), Context::new());
        group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, receive))?;
        group.post(|| group.a().ep.send(Mem::pattern(len, 1), group.to_b(), send))?;
        let error = group.error(group.b())?;
        ensure!(error.err.0 == abi::FI_ETRUNC, "{len} into {room}: {error:?}");
        ensure!(error.context == receive.ptr(), "{len} into {room}: context {error:?}");
        ensure!(error.olen == len - room, "{len} into {room}: olen {}", error.olen);
        ensure!(whole.bytes()[room..].iter().all(|byte| *byte == 0), "bytes beyond the buffer");
        // The send may succeed or fail, but it ends.
        group.event(group.a())?;
    }
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.close()
}

/// Section `fi_recv`: a longer buffer is no error; the completion has the message's length.
fn recv_of_a_shorter_message_tells_its_length(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (_, received) = group.exchange(Mem::pattern(33, 1), Mem::zeroed(4096))?;
    ensure!(received.len == 33, "{} bytes", received.len);
    group.close()
}

/// Section `fi_recvv`: the message fills the parts in order.
fn recvv_scatters(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let limit = group.info.rx().iov_limit.min(8);
    for scale in [1, 37, 40_000] {
        let parts: Vec<Mem> = (1..=limit).map(|index| Mem::zeroed(index * scale)).collect();
        let room: usize = parts.iter().map(|part| part.len()).sum();
        let len = room - scale / 2;
        let (from, receive) = (Mem::pattern(len, 6), Context::new());
        group.post(|| group.b().ep.recvv(&parts, FI_ADDR_UNSPEC, receive))?;
        let send = Context::new();
        group.post(|| group.a().ep.send(from, group.to_b(), send))?;
        ensure!(group.done(group.b(), receive)?.len == len, "length");
        group.done(group.a(), send)?;
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.bytes()).collect();
        ensure!(whole[..len] == from.bytes(), "other bytes arrived");
        ensure!(whole[len..].iter().all(|byte| *byte == 0), "bytes beyond the message");
    }
    group.close()
}

/// Section `fi_recvmsg`: like recv, with flags.
fn recvmsg_receives(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (from, into) = (Mem::pattern(64, 8), Mem::zeroed(64));
    let receive = Context::new();
    let message = Message::new(into, FI_ADDR_UNSPEC, receive);
    group.post(|| group.b().ep.recvmsg(&message, abi::FI_COMPLETION))?;
    group.post(|| group.a().ep.send(from, group.to_b(), Context::new()))?;
    ensure!(group.done(group.b(), receive)?.len == 64, "length");
    ensure!(into.bytes() == from.bytes(), "other bytes arrived");
    group.close()
}

/// Section `fi_recv`, `src_addr` with `FI_DIRECTED_RECV`: only messages of that peer match.
fn directed_recv_takes_only_that_peers(world: &World) -> Result<()> {
    let caps = abi::FI_MSG | abi::FI_DIRECTED_RECV;
    let group = world.group(&Setup { nodes: 3, ..Setup::caps(caps) })?;
    let [a, b, c] = [0, 1, 2].map(|index| &group.nodes[index]);
    let (from_a, from_c, from_any) = (Context::new(), Context::new(), Context::new());
    let into = [Mem::zeroed(1), Mem::zeroed(1), Mem::zeroed(1)];
    group.post(|| b.ep.recv(into[0], b.peers[2], from_c))?;
    group.post(|| b.ep.recv(into[1], b.peers[0], from_a))?;
    group.post(|| b.ep.recv(into[2], FI_ADDR_UNSPEC, from_any))?;
    group.post(|| a.ep.send(Mem::of(&[1]), a.peers[1], Context::new()))?;
    group.done(b, from_a)?;
    group.post(|| a.ep.send(Mem::of(&[2]), a.peers[1], Context::new()))?;
    group.done(b, from_any)?;
    group.post(|| c.ep.send(Mem::of(&[3]), c.peers[1], Context::new()))?;
    group.done(b, from_c)?;
    ensure!(into.map(|mem| mem.byte(0)) == [3, 1, 2], "{:?}", into.map(Mem::bytes));
    group.close()
}

/// Section `fi_recv`, `fi_domain(3)` resource management: a message before its receive is kept.
fn unexpected_messages_wait(world: &World) -> Result<()> {
    unexpected(world, 40, 100)
}

/// Unexpected messages that are longer than an eager message.
fn unexpected_long_messages_wait(world: &World) -> Result<()> {
    unexpected(world, 6, 300_000)
}

fn unexpected(world: &World, count: u8, len: usize) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    for index in 0..count {
        let from = Mem::pattern(len, index);
        group.post(|| group.a().ep.send(from, group.to_b(), Context::new()))?;
    }
    group.run(std::time::Duration::from_millis(50))?;
    for index in 0..count {
        let (into, receive) = (Mem::zeroed(len), Context::new());
        group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, receive))?;
        group.done(group.b(), receive)?;
        ensure!(into.bytes() == Mem::pattern(len, index).bytes(), "message {index}");
    }
    group.take(group.a(), count.into())?;
    group.close()
}

/// Section FLAGS, `FI_INJECT`: the buffer is free at once, but there is a completion.
fn inject_flag_frees_the_buffer(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (from, into) = (Mem::pattern(16, 1), Mem::zeroed(16));
    let (send, receive) = (Context::new(), Context::new());
    let message = Message::new(from, group.to_b(), send);
    group.post(|| group.a().ep.sendmsg(&message, abi::FI_INJECT | abi::FI_COMPLETION))?;
    from.write(0, &[0xee; 16]);
    group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, receive))?;
    group.done(group.a(), send)?;
    group.done(group.b(), receive)?;
    ensure!(into.bytes() == Mem::pattern(16, 1).bytes(), "bytes of later");
    group.close()
}

/// Section FLAGS, `FI_MORE`: more will follow, but a posted operation must not wait for it.
fn more_is_only_a_hint(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let receive = [Context::new(), Context::new()];
    for context in receive {
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, context))?;
    }
    let send = [Context::new(), Context::new()];
    for (context, flags) in send.into_iter().zip([abi::FI_MORE, 0]) {
        let message = Message::new(Mem::zeroed(8), group.to_b(), context);
        group.post(|| group.a().ep.sendmsg(&message, flags | abi::FI_COMPLETION))?;
    }
    group.take(group.a(), 2)?;
    group.done(group.b(), receive[0])?;
    group.done(group.b(), receive[1])?;
    group.close()
}

/// Section FLAGS, `FI_FENCE`: the operation starts when all earlier ones to that peer are done.
fn fence_waits_for_earlier_operations(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG | abi::FI_FENCE)?;
    let (first, second) = (Context::new(), Context::new());
    for _ in 0..2 {
        let into = Mem::zeroed(200_000);
        group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, Context::new()))?;
    }
    let long = Message::new(Mem::zeroed(200_000), group.to_b(), first);
    group.post(|| group.a().ep.sendmsg(&long, abi::FI_COMPLETION))?;
    let fenced = Message::new(Mem::zeroed(8), group.to_b(), second);
    group.post(|| group.a().ep.sendmsg(&fenced, abi::FI_FENCE | abi::FI_COMPLETION))?;
    group.done(group.a(), first)?;
    group.done(group.a(), second)?;
    let lens: Vec<usize> = group.take(group.b(), 2)?.iter().map(|one| one.len).collect();
    ensure!(lens == [200_000, 8], "{lens:?}");
    group.close()
}

fn ordered(world: &World, lens: &[usize]) -> Result<Group> {
    let group = world.pair(abi::FI_MSG)?;
    let most = lens.iter().copied().max().unwrap_or_default();
    let receives: Vec<(Context, Mem)> =
        lens.iter().map(|_| (Context::new(), Mem::zeroed(most))).collect();
    for (context, into) in &receives {
        group.post(|| group.b().ep.recv(*into, FI_ADDR_UNSPEC, *context))?;
    }
    for (index, len) in lens.iter().enumerate() {
        let from = Mem::pattern(*len, index as u8);
        group.post(|| group.a().ep.send(from, group.to_b(), Context::new()))?;
    }
    let taken = group.take(group.b(), lens.len())?;
    for (index, (context, into)) in receives.iter().enumerate() {
        let one = taken.iter().find(|one| one.context == context.ptr());
        ensure!(one.is_some_and(|one| one.len == lens[index]), "receive {index}: {one:?}");
        let wanted = Mem::pattern(lens[index], index as u8).bytes();
        ensure!(into.bytes()[..lens[index]] == wanted, "receive {index} has another message");
    }
    group.take(group.a(), lens.len())?;
    Ok(group)
}

/// `fi_endpoint(3)`, `FI_ORDER_SAS`: messages match receives in the order in which they were sent.
fn messages_of_one_peer_match_in_order(world: &World) -> Result<()> {
    ordered(world, &[16; 60])?.close()
}

/// Messages match in order, also where short ones could overtake long ones.
fn long_and_short_messages_match_in_order(world: &World) -> Result<()> {
    ordered(world, &[100_000, 1, 3000, 500_000, 2, 9000, 0, 40_000])?.close()
}

/// Section `fi_send`: two endpoints may send to each other at the same time, the first messages
/// between them included.
fn both_directions_at_once(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let len = 70_000;
    let into = [Mem::zeroed(len), Mem::zeroed(len)];
    let receives = [Context::new(), Context::new()];
    for (index, node) in group.nodes.iter().enumerate() {
        group.post(|| node.ep.recv(into[index], FI_ADDR_UNSPEC, receives[index]))?;
    }
    for (index, node) in group.nodes.iter().enumerate() {
        let from = Mem::pattern(len, index as u8);
        group.post(|| node.ep.send(from, node.peers[1 - index], Context::new()))?;
    }
    for (index, node) in group.nodes.iter().enumerate() {
        let taken = group.take(node, 2)?;
        ensure!(taken.iter().any(|one| one.context == receives[index].ptr()), "{taken:?}");
        let wanted = Mem::pattern(len, 1 - index as u8).bytes();
        ensure!(into[index].bytes() == wanted, "other bytes arrived");
    }
    group.close()
}

/// `fi_getinfo(3)`, `FI_LOCAL_COMM`: an endpoint reaches itself by its own address.
fn send_to_oneself(world: &World) -> Result<()> {
    let group = world.group(&Setup { nodes: 1, ..Setup::default() })?;
    let (a, len) = (group.a(), 50_000);
    let (send, receive) = (Context::new(), Context::new());
    let into = Mem::zeroed(len);
    group.post(|| a.ep.recv(into, FI_ADDR_UNSPEC, receive))?;
    group.post(|| a.ep.send(Mem::pattern(len, 1), a.peers[0], send))?;
    let contexts: Vec<_> = group.take(a, 2)?.iter().map(|one| one.context).collect();
    ensure!(contexts.contains(&send.ptr()) && contexts.contains(&receive.ptr()), "{contexts:?}");
    ensure!(into.bytes() == Mem::pattern(len, 1).bytes(), "other bytes arrived");
    group.close()
}

/// Section `fi_send`: without mode `FI_CONTEXT` a context may have any value, also NULL.
fn send_and_recv_with_null_context(world: &World) -> Result<()> {
    let group = world.group(&Setup { mode: 0, ..Setup::default() })?;
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::null()))?;
    group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::null()))?;
    group.done(group.a(), Context::null())?;
    group.done(group.b(), Context::null())?;
    group.close()
}

/// `fi_endpoint(3)`, `size`: as many operations as the contexts hold may be outstanding, and
/// each completes.
fn many_outstanding(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let count = group.info.rx().size.min(group.info.tx().size).min(1000);
    for _ in 0..count {
        group.post(|| group.b().ep.recv(Mem::zeroed(64), FI_ADDR_UNSPEC, Context::new()))?;
    }
    for _ in 0..count {
        group.post(|| group.a().ep.send(Mem::zeroed(64), group.to_b(), Context::new()))?;
    }
    group.take(group.a(), count)?;
    group.take(group.b(), count)?;
    group.expect_no_event(group.b())?;
    group.close()
}
