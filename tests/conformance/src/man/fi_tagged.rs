// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_tagged(3)`: messages with tags.

use anyhow::{Result, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Completion, Context, Event, Mem, Tagged};
use crate::group::Group;
use crate::runner::tests;
use crate::world::{Setup, World, refused};

tests! { "fi_tagged":
    an_equal_tag_matches
    another_tag_does_not_match
    ignored_bits_may_differ
    ignoring_everything_matches_anything
    tags_have_all_bits_of_the_format
    untagged_receives_do_not_match_tagged_messages
    receives_match_in_posting_order
    messages_match_in_sending_order
    unexpected_messages_match_by_tag
    directed_receives_match_by_peer_and_tag
    tsendv_and_trecvv_gather_and_scatter
    tsendmsg_and_trecvmsg_carry_tag_and_data
    tinject_frees_its_buffer
    tinject_beyond_the_limit_is_refused
    tsenddata_carries_data
    tinjectdata_carries_data
    completions_tell_the_senders_tag
    truncation_is_reported
    every_length_arrives_whole
    cancel_ends_a_receive
    cancel_of_an_unknown_context_is_no_error
    cancel_takes_one_of_many
    peek_of_nothing_is_no_message
    peek_finds_a_message_and_leaves_it
    peek_tells_length_tag_data_and_source
    peek_finds_long_messages
    peek_respects_the_ignore_mask
    peek_respects_the_peer
    peek_with_claim_takes_it_out_of_matching
    claim_receives_the_claimed_message
    claim_of_several_messages_at_once
    peek_with_discard_drops_it
    claim_with_discard_drops_it
}

const TAGGED: u64 = abi::FI_TAGGED;

/// Section `fi_tsend`: a receive with that tag gets the message.
fn an_equal_tag_matches(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    let (from, into) = (Mem::pattern(77, 1), Mem::zeroed(77));
    let (send, receive) = (Context::new(), Context::new());
    group.post(|| group.b().ep.trecv(into, FI_ADDR_UNSPEC, 42, 0, receive))?;
    group.post(|| group.a().ep.tsend(from, group.to_b(), 42, send))?;
    let sent = group.done(group.a(), send)?;
    let received = group.done(group.b(), receive)?;
    ensure!(received.len == 77 && received.tag == 42, "{received:?}");
    ensure!(into.bytes() == from.bytes(), "other bytes arrived");
    let (send, receive) = (abi::FI_SEND | TAGGED, abi::FI_RECV | TAGGED);
    ensure!(sent.flags & send == send, "{sent:?}");
    ensure!(received.flags & receive == receive, "{received:?}");
    group.close()
}

/// Section `fi_tsend`: receives with another tag do not get the message.
fn another_tag_does_not_match(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    let receive = Context::new();
    group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 1, 0, receive))?;
    group.post(|| group.a().ep.tsend(Mem::zeroed(8), group.to_b(), 2, Context::new()))?;
    group.run(crate::world::NO_EVENT_TIME)?;
    group.expect_no_event(group.b())?;
    group.post(|| group.a().ep.tsend(Mem::zeroed(8), group.to_b(), 1, Context::new()))?;
    group.done(group.b(), receive)?;
    let late = Context::new();
    group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 2, 0, late))?;
    group.done(group.b(), late)?;
    group.close()
}

/// Section `fi_trecv`, ignore: bits that are set there are not compared.
fn ignored_bits_may_differ(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    let (masked, exact) = (Context::new(), Context::new());
    group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 0x10, 0x0f, masked))?;
    group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 0x25, 0, exact))?;
    group.post(|| group.a().ep.tsend(Mem::zeroed(8), group.to_b(), 0x25, Context::new()))?;
    ensure!(group.done(group.b(), exact)?.tag == 0x25, "tag");
    group.post(|| group.a().ep.tsend(Mem::zeroed(8), group.to_b(), 0x1a, Context::new()))?;
    ensure!(group.done(group.b(), masked)?.tag == 0x1a, "the sender's tag is told");
    group.close()
}

/// Section `fi_trecv`: with all bits ignored every message matches.
fn ignoring_everything_matches_anything(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    for tag in [0, 1, 0xffff_ffff] {
        let receive = Context::new();
        group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 7, u64::MAX, receive))?;
        group.post(|| group.a().ep.tsend(Mem::zeroed(8), group.to_b(), tag, Context::new()))?;
        ensure!(group.done(group.b(), receive)?.tag == tag, "tag {tag}");
        group.next(group.a())?;
    }
    group.close()
}

/// `fi_endpoint(3)`, `mem_tag_format`: every bit that the format has is the application's.
fn tags_have_all_bits_of_the_format(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    let format = group.info.ep().mem_tag_format;
    // Bits to the right of the highest set one.
    let all = u64::MAX >> format.leading_zeros();
    for bit in (0..64).map(|bit| 1_u64 << bit).filter(|bit| bit & all != 0) {
        let (right, wrong) = (Context::new(), Context::new());
        group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 0, 0, wrong))?;
        group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, bit, 0, right))?;
        group.post(|| group.a().ep.tsend(Mem::zeroed(8), group.to_b(), bit, Context::new()))?;
        ensure!(group.done(group.b(), right)?.tag == bit, "bit {bit:#x}");
        group.post(|| group.a().ep.tsend(Mem::zeroed(8), group.to_b(), 0, Context::new()))?;
        group.done(group.b(), wrong)?;
        group.take(group.a(), 2)?;
    }
    group.close()
}

/// Section DESCRIPTION: tagged and untagged messages do not meet.
fn untagged_receives_do_not_match_tagged_messages(world: &World) -> Result<()> {
    let group = world.pair(TAGGED | abi::FI_MSG)?;
    let (tagged, plain) = (Context::new(), Context::new());
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, plain))?;
    group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 0, u64::MAX, tagged))?;
    group.post(|| group.a().ep.tsend(Mem::zeroed(8), group.to_b(), 0, Context::new()))?;
    let received = group.done(group.b(), tagged)?;
    ensure!(received.flags & abi::FI_MSG == 0, "{received:?}");
    group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::new()))?;
    let received = group.done(group.b(), plain)?;
    ensure!(received.flags & abi::FI_TAGGED == 0, "{received:?}");
    group.close()
}

/// `fi_msg(3)`, `fi_recv`: of receives that match, the first posted is taken.
fn receives_match_in_posting_order(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    let receives: Vec<Context> = (0..20).map(|_| Context::new()).collect();
    for (index, context) in receives.iter().enumerate() {
        // Exact and wildcard receives in turn: their common posting order counts.
        let ignore = if index % 2 == 0 { 0 } else { u64::MAX };
        group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 5, ignore, *context))?;
    }
    for context in &receives {
        group.post(|| group.a().ep.tsend(Mem::zeroed(8), group.to_b(), 5, Context::new()))?;
        group.done(group.b(), *context)?;
    }
    group.close()
}

/// `fi_endpoint(3)`, `FI_ORDER_SAS`: of messages that match, the first sent is taken.
fn messages_match_in_sending_order(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    for index in 0..20_u8 {
        let len = if index % 3 == 0 { 60_000 } else { 4 };
        let from = Mem::pattern(len, index);
        group.post(|| group.a().ep.tsend(from, group.to_b(), 5, Context::new()))?;
    }
    group.run(std::time::Duration::from_millis(30))?;
    for index in 0..20_u8 {
        let (into, receive) = (Mem::zeroed(60_000), Context::new());
        group.post(|| group.b().ep.trecv(into, FI_ADDR_UNSPEC, 5, 0, receive))?;
        let len = group.done(group.b(), receive)?.len;
        let wanted = Mem::pattern(len, index).bytes();
        ensure!(into.bytes()[..len] == wanted, "message {index} came later");
    }
    group.close()
}

/// `fi_domain(3)`, resource management: messages wait for a receive with their tag, in any order of
/// the receives.
fn unexpected_messages_match_by_tag(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    for tag in 0..30_u64 {
        let from = Mem::pattern(500, tag as u8);
        group.post(|| group.a().ep.tsend(from, group.to_b(), tag, Context::new()))?;
    }
    group.run(std::time::Duration::from_millis(30))?;
    for tag in (0..30_u64).rev() {
        let (into, receive) = (Mem::zeroed(500), Context::new());
        group.post(|| group.b().ep.trecv(into, FI_ADDR_UNSPEC, tag, 0, receive))?;
        ensure!(group.done(group.b(), receive)?.tag == tag, "tag {tag}");
        ensure!(into.bytes() == Mem::pattern(500, tag as u8).bytes(), "message {tag}");
    }
    group.close()
}

/// Section `fi_trecv` with `FI_DIRECTED_RECV`: peer and tag must match.
fn directed_receives_match_by_peer_and_tag(world: &World) -> Result<()> {
    let setup = Setup { nodes: 3, ..Setup::caps(TAGGED | abi::FI_DIRECTED_RECV) };
    let group = world.group(&setup)?;
    let [a, b, c] = [0, 1, 2].map(|index| &group.nodes[index]);
    for sender in [a, c] {
        group.post(|| sender.ep.tsend(Mem::of(&[9]), sender.peers[1], 1, Context::new()))?;
    }
    group.run(std::time::Duration::from_millis(30))?;
    let receives = [Context::new(), Context::new(), Context::new()];
    group.post(|| b.ep.trecv(Mem::zeroed(1), b.peers[0], 2, 0, receives[0]))?;
    group.post(|| b.ep.trecv(Mem::zeroed(1), b.peers[2], 1, 0, receives[1]))?;
    group.done(b, receives[1])?;
    group.post(|| b.ep.trecv(Mem::zeroed(1), b.peers[0], 1, 0, receives[2]))?;
    group.done(b, receives[2])?;
    group.post(|| a.ep.tsend(Mem::of(&[9]), a.peers[1], 2, Context::new()))?;
    group.done(b, receives[0])?;
    group.close()
}

/// Section `fi_tsendv`, `fi_trecvv`: several buffers on both sides.
fn tsendv_and_trecvv_gather_and_scatter(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    let from = [Mem::pattern(300, 1), Mem::pattern(5, 2), Mem::pattern(70_000, 3)];
    let into = [Mem::zeroed(1), Mem::zeroed(70_000), Mem::zeroed(304)];
    let (send, receive) = (Context::new(), Context::new());
    group.post(|| group.b().ep.trecvv(&into, FI_ADDR_UNSPEC, 3, 0, receive))?;
    group.post(|| group.a().ep.tsendv(&from, group.to_b(), 3, send))?;
    group.done(group.a(), send)?;
    group.done(group.b(), receive)?;
    let bytes = |parts: &[Mem]| parts.iter().flat_map(|part| part.bytes()).collect::<Vec<u8>>();
    ensure!(bytes(&from) == bytes(&into), "other bytes arrived");
    group.close()
}

/// Section `fi_tsendmsg`, `fi_trecvmsg`: the structures' fields have the meaning of the arguments.
fn tsendmsg_and_trecvmsg_carry_tag_and_data(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    let (from, into) = (Mem::pattern(64, 8), Mem::zeroed(64));
    let (send, receive) = (Context::new(), Context::new());
    let mut wanted = Tagged::new(into, FI_ADDR_UNSPEC, 0xf0, receive);
    wanted.ignore = 0x0f;
    group.post(|| group.b().ep.trecvmsg(&wanted, 0))?;
    let mut message = Tagged::new(from, group.to_b(), 0xf7, send);
    message.data = 1234;
    group.post(|| group.a().ep.tsendmsg(&message, abi::FI_REMOTE_CQ_DATA))?;
    group.done(group.a(), send)?;
    let received = group.done(group.b(), receive)?;
    ensure!((received.tag, received.data, received.len) == (0xf7, 1234, 64), "{received:?}");
    ensure!(received.flags & abi::FI_REMOTE_CQ_DATA != 0, "{received:?}");
    ensure!(into.bytes() == from.bytes(), "other bytes arrived");
    group.close()
}

/// Section `fi_tinject`: as `fi_inject`, with a tag.
fn tinject_frees_its_buffer(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    let (from, into, receive) = (Mem::pattern(24, 1), Mem::zeroed(24), Context::new());
    group.post(|| group.a().ep.tinject(from, group.to_b(), 6))?;
    from.write(0, &[0; 24]);
    group.post(|| group.b().ep.trecv(into, FI_ADDR_UNSPEC, 6, 0, receive))?;
    group.done(group.b(), receive)?;
    ensure!(into.bytes() == Mem::pattern(24, 1).bytes(), "bytes of later");
    group.expect_no_event(group.a())?;
    group.close()
}

/// `fi_endpoint(3)`, `inject_size`: longer ones are refused.
fn tinject_beyond_the_limit_is_refused(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    group.post(|| group.a().ep.tinject(Mem::zeroed(1), group.to_b(), 0))?;
    let from = Mem::zeroed(group.info.tx().inject_size + 1);
    let errors = [abi::FI_EINVAL, abi::FI_EMSGSIZE, abi::FI_ETOOSMALL];
    refused(group.a().ep.tinject(from, group.to_b(), 6), &errors, "inject_size + 1")?;
    group.close()
}

/// Section `fi_tsenddata`: data with the message.
fn tsenddata_carries_data(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    let (send, receive) = (Context::new(), Context::new());
    group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 6, 0, receive))?;
    group.post(|| group.a().ep.tsenddata(Mem::zeroed(5), 0xabcd, group.to_b(), 6, send))?;
    group.done(group.a(), send)?;
    let received = group.done(group.b(), receive)?;
    ensure!((received.tag, received.data, received.len) == (6, 0xabcd, 5), "{received:?}");
    ensure!(received.flags & abi::FI_REMOTE_CQ_DATA != 0, "{received:?}");
    group.close()
}

/// Section `fi_tinjectdata`: the same without a completion at the sender.
fn tinjectdata_carries_data(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    let receive = Context::new();
    group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 6, 0, receive))?;
    group.post(|| group.a().ep.tinjectdata(Mem::zeroed(5), 0xabcd, group.to_b(), 6))?;
    let received = group.done(group.b(), receive)?;
    ensure!((received.tag, received.data, received.len) == (6, 0xabcd, 5), "{received:?}");
    group.expect_no_event(group.a())?;
    group.close()
}

/// `fi_cq(3)`, tag: the tag of the message, not that of the receive; also for messages that waited.
fn completions_tell_the_senders_tag(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    group.post(|| group.a().ep.tsend(Mem::zeroed(8), group.to_b(), 0xcafe, Context::new()))?;
    group.run(std::time::Duration::from_millis(20))?;
    let receive = Context::new();
    group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 0, u64::MAX, receive))?;
    ensure!(group.done(group.b(), receive)?.tag == 0xcafe, "tag");
    group.close()
}

/// `fi_cq(3)`, olen: a message that does not fit, posted before and after its arrival.
fn truncation_is_reported(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    for (receive_first, len) in [(true, 100), (false, 100), (true, 90_000), (false, 90_000)] {
        let (receive, send) = (Context::new(), Context::new());
        let post =
            || group.post(|| group.b().ep.trecv(Mem::zeroed(40), FI_ADDR_UNSPEC, 3, 0, receive));
        if receive_first {
            post()?;
        }
        group.post(|| group.a().ep.tsend(Mem::zeroed(len), group.to_b(), 3, send))?;
        if !receive_first {
            group.run(std::time::Duration::from_millis(20))?;
            post()?;
        }
        let error = group.error(group.b())?;
        ensure!(error.err.0 == abi::FI_ETRUNC && error.context == receive.ptr(), "{error:?}");
        ensure!(error.olen == len - 40, "olen {}", error.olen);
        group.event(group.a())?;
    }
    group.close()
}

/// Section `fi_tsend`: lengths near which implementations change their method.
fn every_length_arrives_whole(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    for len in [0, 1, 8, 1024, 1025, 1472, 4096, 16_384, 32_768, 32_769, 65_537, 1 << 20] {
        let (from, into) = (Mem::pattern(len, 2), Mem::zeroed(len));
        let (send, receive) = (Context::new(), Context::new());
        group.post(|| group.b().ep.trecv(into, FI_ADDR_UNSPEC, len as u64, 0, receive))?;
        group.post(|| group.a().ep.tsend(from, group.to_b(), len as u64, send))?;
        group.done(group.a(), send)?;
        ensure!(group.done(group.b(), receive)?.len == len, "length {len}");
        ensure!(into.bytes() == from.bytes(), "{len}: other bytes arrived");
    }
    group.close()
}

/// `fi_endpoint(3)`, `fi_cancel`: the receive ends with `FI_ECANCELED` and takes no message.
fn cancel_ends_a_receive(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    let (cancelled, kept) = (Context::new(), Context::new());
    group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 1, 0, cancelled))?;
    group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 1, 0, kept))?;
    group.b().ep.cancel(cancelled.ptr())?;
    let error = group.error(group.b())?;
    ensure!(error.err.0 == abi::FI_ECANCELED && error.context == cancelled.ptr(), "{error:?}");
    group.post(|| group.a().ep.tsend(Mem::zeroed(8), group.to_b(), 1, Context::new()))?;
    group.done(group.b(), kept)?;
    group.close()
}

/// `fi_endpoint(3)`: it returns zero whether it finds a receive or not.
fn cancel_of_an_unknown_context_is_no_error(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    // fi_endpoint(3) requires 0; several providers answer -FI_ENOENT.
    let answer = group.b().ep.cancel(Context::new().ptr());
    ensure!(answer.is_ok() || answer == Err(crate::fi::Errno(abi::FI_ENOENT)), "{answer:?}");
    group.expect_no_event(group.b())?;
    group.close()
}

/// `fi_endpoint(3)`: of several receives with one context, one is cancelled.
fn cancel_takes_one_of_many(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    let context = Context::new();
    for _ in 0..2 {
        group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 1, 0, context))?;
    }
    group.b().ep.cancel(context.ptr())?;
    ensure!(group.error(group.b())?.err.0 == abi::FI_ECANCELED, "error");
    group.post(|| group.a().ep.tsend(Mem::zeroed(8), group.to_b(), 1, Context::new()))?;
    group.done(group.b(), context)?;
    group.close()
}

/// Posts a peek at the second node, and gives its event.
fn post_peek(group: &Group, peek: &Tagged, flags: u64) -> Result<Event> {
    let flags = abi::FI_PEEK | flags;
    match group.b().ep.trecvmsg(peek, flags) {
        Err(crate::fi::Errno(abi::FI_ENOSYS | abi::FI_EOPNOTSUPP | abi::FI_EBADFLAGS)) => {
            return crate::world::not_offered("FI_PEEK");
        }
        Err(crate::fi::Errno(abi::FI_EAGAIN)) => {
            group.post(|| group.b().ep.trecvmsg(peek, flags))?;
        }
        answer => answer?,
    }
    let event = group.event(group.b())?;
    let context = match &event {
        Event::Done(done) => done.context,
        Event::Failed(error) => error.context,
    };
    ensure!(context == peek.context.ptr(), "the peek's event was expected, not {event:?}");
    Ok(event)
}

/// Peeks until the message is found: a peek sees only messages that have arrived.
fn found(group: &Group, peek: &Tagged, flags: u64) -> Result<Completion> {
    let end = std::time::Instant::now() + crate::world::EVENT_TIMEOUT;
    loop {
        match post_peek(group, peek, flags)? {
            Event::Done(completion) => return Ok(completion),
            Event::Failed(error) => ensure!(error.err.0 == abi::FI_ENOMSG, "{error:?}"),
        }
        ensure!(std::time::Instant::now() < end, "the message is never found");
        group.step()?;
    }
}

/// Checks that a peek finds nothing.
fn nothing(group: &Group, peek: &Tagged) -> Result<()> {
    match post_peek(group, peek, 0)? {
        Event::Failed(error) if error.err.0 == abi::FI_ENOMSG => Ok(()),
        event => anyhow::bail!("a peek for nothing gave {event:?}"),
    }
}

/// Sends a message with data and waits a little, so that it is there.
fn unexpected(group: &Group, len: usize, tag: u64) -> Result<()> {
    let from = Mem::pattern(len, tag as u8);
    let send = Context::new();
    group.post(|| group.a().ep.tsenddata(from, tag + 1, group.to_b(), tag, send))?;
    group.run(std::time::Duration::from_millis(20))
}

/// Receives `tag` and checks its bytes.
fn receive(group: &Group, len: usize, tag: u64) -> Result<()> {
    let (into, receive) = (Mem::zeroed(len), Context::new());
    group.post(|| group.b().ep.trecv(into, FI_ADDR_UNSPEC, tag, 0, receive))?;
    ensure!(group.done(group.b(), receive)?.len == len, "length");
    ensure!(into.bytes() == Mem::pattern(len, tag as u8).bytes(), "other bytes arrived");
    Ok(())
}

/// Section FLAGS, `FI_PEEK`: without a message, an error event `FI_ENOMSG`.
fn peek_of_nothing_is_no_message(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    nothing(&group, &Tagged::peek(FI_ADDR_UNSPEC, 1, 0, Context::new()))?;
    group.close()
}

/// Section FLAGS: a message that is found can still be received.
fn peek_finds_a_message_and_leaves_it(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    nothing(&group, &Tagged::peek(FI_ADDR_UNSPEC, 1, 0, Context::new()))?;
    unexpected(&group, 10, 1)?;
    for _ in 0..3 {
        found(&group, &Tagged::peek(FI_ADDR_UNSPEC, 1, 0, Context::new()), 0)?;
    }
    receive(&group, 10, 1)?;
    nothing(&group, &Tagged::peek(FI_ADDR_UNSPEC, 1, 0, Context::new()))?;
    group.close()
}

/// Section FLAGS: the event has the fields of the message's completion.
fn peek_tells_length_tag_data_and_source(world: &World) -> Result<()> {
    let group = world.pair(TAGGED | abi::FI_SOURCE)?;
    unexpected(&group, 10, 7)?;
    let peek = Tagged::peek(FI_ADDR_UNSPEC, 0, u64::MAX, Context::new());
    let one = found(&group, &peek, 0)?;
    ensure!((one.len, one.tag, one.data) == (10, 7, 8), "{one:?}");
    ensure!(one.from == group.to_a(), "from {:#x}", one.from);
    receive(&group, 10, 7)?;
    group.close()
}

/// A peek finds a long message before its bytes have arrived.
fn peek_finds_long_messages(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    unexpected(&group, 3_000_000, 1)?;
    let peek = Tagged::peek(FI_ADDR_UNSPEC, 1, 0, Context::new());
    let one = found(&group, &peek, 0)?;
    ensure!(one.len == 3_000_000, "{one:?}");
    receive(&group, 3_000_000, 1)?;
    group.close()
}

/// Section FLAGS: tag and ignore match as in a receive.
fn peek_respects_the_ignore_mask(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    unexpected(&group, 10, 0x23)?;
    found(&group, &Tagged::peek(FI_ADDR_UNSPEC, 0x20, 0x0f, Context::new()), 0)?;
    nothing(&group, &Tagged::peek(FI_ADDR_UNSPEC, 0x20, 0x0c, Context::new()))?;
    receive(&group, 10, 0x23)?;
    group.close()
}

/// Section FLAGS: with `FI_DIRECTED_RECV` the peer matches, too.
fn peek_respects_the_peer(world: &World) -> Result<()> {
    let group = world.pair(TAGGED | abi::FI_DIRECTED_RECV)?;
    unexpected(&group, 10, 1)?;
    found(&group, &Tagged::peek(group.to_a(), 1, 0, Context::new()), 0)?;
    nothing(&group, &Tagged::peek(group.b().peers[1], 1, 0, Context::new()))?;
    receive(&group, 10, 1)?;
    group.close()
}

/// Section FLAGS, `FI_CLAIM` with `FI_PEEK`: no other receive gets the message any more.
fn peek_with_claim_takes_it_out_of_matching(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    unexpected(&group, 10, 1)?;
    let peek = Tagged::peek(FI_ADDR_UNSPEC, 1, 0, Context::new());
    found(&group, &peek, abi::FI_CLAIM)?;
    nothing(&group, &Tagged::peek(FI_ADDR_UNSPEC, 1, 0, Context::new()))?;
    let receive = Context::new();
    group.post(|| group.b().ep.trecv(Mem::zeroed(99), FI_ADDR_UNSPEC, 1, 0, receive))?;
    group.expect_no_event(group.b())?;
    unexpected(&group, 20, 1)?;
    ensure!(group.done(group.b(), receive)?.len == 20, "the claimed message was received");
    claimed(&group, &peek, 10, 1)?;
    group.close()
}

/// Receives the message that `peek` has claimed.
fn claimed(group: &Group, peek: &Tagged, len: usize, seed: u8) -> Result<()> {
    let into = Mem::zeroed(len);
    let mut message = peek.clone();
    message.parts = vec![into];
    group.post(|| group.b().ep.trecvmsg(&message, abi::FI_CLAIM))?;
    ensure!(group.done(group.b(), peek.context)?.len == len, "length");
    ensure!(into.bytes() == Mem::pattern(len, seed).bytes(), "other bytes arrived");
    Ok(())
}

/// Section FLAGS, `FI_CLAIM`: with the context of the peek the message is received.
fn claim_receives_the_claimed_message(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    for len in [0, 10, 20_000, 300_000] {
        unexpected(&group, len, 1)?;
        let peek = Tagged::peek(FI_ADDR_UNSPEC, 1, 0, Context::new());
        ensure!(found(&group, &peek, abi::FI_CLAIM)?.len == len, "length {len}");
        claimed(&group, &peek, len, 1)?;
    }
    group.close()
}

/// Section FLAGS: the context selects one of several claimed messages.
fn claim_of_several_messages_at_once(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    let mut peeks = Vec::new();
    for tag in 1..=4 {
        unexpected(&group, 100 * tag as usize, tag)?;
        let peek = Tagged::peek(FI_ADDR_UNSPEC, tag, 0, Context::new());
        found(&group, &peek, abi::FI_CLAIM)?;
        peeks.push(peek);
    }
    for peek in peeks.iter().rev() {
        claimed(&group, peek, 100 * peek.tag as usize, peek.tag as u8)?;
    }
    group.close()
}

/// Section FLAGS, `FI_DISCARD` with `FI_PEEK`: the message is dropped, and its event describes it.
fn peek_with_discard_drops_it(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    for len in [10, 100_000] {
        unexpected(&group, len, 1)?;
        unexpected(&group, 5, 1)?;
        let peek = Tagged::peek(FI_ADDR_UNSPEC, 1, 0, Context::new());
        found(&group, &peek, abi::FI_DISCARD)?;
        receive(&group, 5, 1)?;
        nothing(&group, &Tagged::peek(FI_ADDR_UNSPEC, 1, 0, Context::new()))?;
        group.take(group.a(), 2)?;
    }
    group.close()
}

/// `FI_DISCARD` drops a claimed message.
fn claim_with_discard_drops_it(world: &World) -> Result<()> {
    let group = world.pair(TAGGED)?;
    unexpected(&group, 10, 1)?;
    let peek = Tagged::peek(FI_ADDR_UNSPEC, 1, 0, Context::new());
    found(&group, &peek, abi::FI_CLAIM)?;
    group.post(|| group.b().ep.trecvmsg(&peek, abi::FI_CLAIM | abi::FI_DISCARD))?;
    group.done(group.b(), peek.context)?;
    nothing(&group, &Tagged::peek(FI_ADDR_UNSPEC, 1, 0, Context::new()))?;
    unexpected(&group, 12, 1)?;
    receive(&group, 12, 1)?;
    group.close()
}
