// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_msg(3)`, `FI_MULTI_RECV`: one buffer for several messages.

use anyhow::{Result, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Completion, Context, Mem, Message, Tagged};
use crate::group::Group;
use crate::runner::tests;
use crate::world::{Setup, World};

tests! { "fi_multi_recv":
    messages_follow_each_other_in_the_buffer
    the_buffer_is_given_back_once
    it_is_given_back_when_too_little_is_left
    the_next_buffer_takes_over
    a_message_too_long_for_the_rest
    long_messages_fit
    unexpected_messages_fill_it
    the_release_is_reported_with_selective_completion
    a_cancelled_buffer_is_given_back
    data_and_source_are_reported
    tagged_buffers_answer
}

const CAPS: u64 = abi::FI_MSG | abi::FI_MULTI_RECV;

/// Two nodes; the second gives a buffer back when less than `least` bytes are left in it.
fn pair(world: &World, setup: &Setup, least: usize) -> Result<Group> {
    let mut group = world.closed_group(setup)?;
    let value = least.to_ne_bytes();
    group.b().ep.setopt(abi::FI_OPT_ENDPOINT, abi::FI_OPT_MIN_MULTI_RECV, &value)?;
    group.enable()?;
    group.exchange_names()?;
    Ok(group)
}

/// Posts `into` at the second node.
fn post(group: &Group, into: Mem, context: Context, flags: u64) -> Result<()> {
    let message = Message::new(into, FI_ADDR_UNSPEC, context);
    group.post(|| group.b().ep.recvmsg(&message, abi::FI_MULTI_RECV | flags))
}

/// Sends `len` bytes and waits for the send.
fn send(group: &Group, len: usize, seed: u8) -> Result<()> {
    let context = Context::new();
    let from = Mem::pattern(len, seed);
    group.post(|| group.a().ep.send(from, group.to_b(), context))?;
    group.done(group.a(), context)?;
    Ok(())
}

/// Whether the buffer was given back with this event.
fn released(event: &Completion) -> bool {
    event.flags & abi::FI_MULTI_RECV != 0
}

/// Checks an event's bytes, at the address in the event.
fn check(into: Mem, event: &Completion, len: usize, seed: u8) -> Result<()> {
    ensure!(event.len == len, "{event:?}, not {len} bytes");
    if len == 0 {
        return Ok(());
    }
    let offset = (event.buf as usize).wrapping_sub(into.ptr() as usize);
    ensure!(offset + len <= into.len(), "{event:?} is outside the buffer");
    let there = into.part(offset, len).bytes();
    ensure!(there == Mem::pattern(len, seed).bytes(), "other bytes at {offset}");
    Ok(())
}

/// The messages lie one behind the other, and each event has the address of its message.
fn messages_follow_each_other_in_the_buffer(world: &World) -> Result<()> {
    let group = pair(world, &Setup::caps(CAPS), 64)?;
    let (into, context) = (Mem::zeroed(4096), Context::new());
    post(&group, into, context, 0)?;
    let mut ranges = Vec::new();
    for (seed, len) in [10, 100, 1, 1000, 0, 64].into_iter().enumerate() {
        send(&group, len, seed as u8)?;
        let event = group.done(group.b(), context)?;
        check(into, &event, len, seed as u8)?;
        ensure!(!released(&event), "given back too early: {event:?}");
        if len > 0 {
            ranges.push((event.buf as usize, len));
        }
    }
    let apart = ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0);
    ensure!(apart, "messages overlap: {ranges:x?}");
    group.close()
}

/// Receives messages of `len` until the buffer of `room` is released; returns their number.
fn fill(group: &Group, room: usize, len: usize) -> Result<usize> {
    let (into, context) = (Mem::zeroed(room), Context::new());
    post(group, into, context, 0)?;
    let mut count = 0;
    loop {
        if count * len + len <= room {
            send(group, len, count as u8)?;
        }
        let event = group.done(group.b(), context)?;
        // The release may be an event of its own, without a message.
        let message = event.flags & abi::FI_RECV != 0 && event.len == len;
        if message {
            check(into, &event, len, count as u8)?;
            count += 1;
        }
        if released(&event) {
            return Ok(count);
        }
        ensure!(message && count * len <= room, "{count} messages and no release: {event:?}");
    }
}

/// One event has the flag, the last one.
fn the_buffer_is_given_back_once(world: &World) -> Result<()> {
    let group = pair(world, &Setup::caps(CAPS), 100)?;
    for _ in 0..3 {
        let count = fill(&group, 1000, 100)?;
        ensure!((9..=10).contains(&count), "{count} messages of 100 in 1000 bytes");
        group.expect_no_event(group.b())?;
    }
    group.close()
}

/// `fi_endpoint(3)`, `FI_OPT_MIN_MULTI_RECV`: the rest is less than that.
fn it_is_given_back_when_too_little_is_left(world: &World) -> Result<()> {
    let group = pair(world, &Setup::caps(CAPS), 600)?;
    let count = fill(&group, 1000, 100)?;
    ensure!(count == 5, "{count} messages of 100 until less than 600 of 1000 are left");
    group.close()
}

/// Of two buffers the second is filled when the first is given back, and no message is lost.
fn the_next_buffer_takes_over(world: &World) -> Result<()> {
    let group = pair(world, &Setup::caps(CAPS), 128)?;
    let buffers: Vec<(Mem, Context)> =
        (0..3).map(|_| (Mem::zeroed(1024), Context::new())).collect();
    for (into, context) in &buffers {
        post(&group, *into, *context, 0)?;
    }
    for seed in 0..20 {
        send(&group, 100, seed)?;
        let event = loop {
            let event = group.next(group.b())?;
            if event.flags & abi::FI_RECV != 0 && event.len == 100 {
                break event;
            }
            ensure!(released(&event), "{event:?}");
        };
        let own = buffers.iter().find(|(_, context)| context.ptr() == event.context);
        let Some((into, _)) = own else { anyhow::bail!("nobody's context: {event:?}") };
        check(*into, &event, 100, seed)?;
    }
    group.close()
}

/// A message that is longer than the rest goes to the next buffer, or is truncated.
fn a_message_too_long_for_the_rest(world: &World) -> Result<()> {
    let group = pair(world, &Setup::caps(CAPS), 16)?;
    let (first, second) = ((Mem::zeroed(256), Context::new()), (Mem::zeroed(4096), Context::new()));
    post(&group, first.0, first.1, 0)?;
    post(&group, second.0, second.1, 0)?;
    send(&group, 200, 1)?;
    check(first.0, &group.done(group.b(), first.1)?, 200, 1)?;
    let from = Mem::pattern(500, 2);
    group.post(|| group.a().ep.send(from, group.to_b(), Context::new()))?;
    loop {
        match group.event(group.b())? {
            crate::fi::Event::Failed(error) => {
                ensure!(error.err.0 == abi::FI_ETRUNC, "{error:?}");
                break;
            }
            crate::fi::Event::Done(event) if event.len == 500 => {
                check(second.0, &event, 500, 2)?;
                break;
            }
            crate::fi::Event::Done(event) => ensure!(released(&event), "{event:?}"),
        }
    }
    group.close()
}

/// Rendezvous messages are received, too, and short ones behind them.
fn long_messages_fit(world: &World) -> Result<()> {
    let group = pair(world, &Setup::caps(CAPS), 64)?;
    let (into, context) = (Mem::zeroed(1 << 20), Context::new());
    post(&group, into, context, 0)?;
    let lens = [100, 200_000, 5, 400_000, 9];
    for (seed, len) in lens.into_iter().enumerate() {
        let from = Mem::pattern(len, seed as u8);
        group.post(|| group.a().ep.send(from, group.to_b(), Context::new()))?;
    }
    let mut events = group.take(group.b(), lens.len())?;
    // They may complete in another order than they match.
    events.sort_by_key(|event| event.buf as usize);
    for (seed, len) in lens.into_iter().enumerate() {
        check(into, &events[seed], len, seed as u8)?;
    }
    group.close()
}

/// Messages that were there before the buffer.
fn unexpected_messages_fill_it(world: &World) -> Result<()> {
    let group = pair(world, &Setup::caps(CAPS), 64)?;
    for seed in 0..10 {
        let from = Mem::pattern(100, seed);
        group.post(|| group.a().ep.send(from, group.to_b(), Context::new()))?;
    }
    group.run(std::time::Duration::from_millis(30))?;
    let (into, context) = (Mem::zeroed(4096), Context::new());
    post(&group, into, context, 0)?;
    for seed in 0..10 {
        check(into, &group.done(group.b(), context)?, 100, seed)?;
    }
    group.close()
}

/// Although no completion was requested, the release of the buffer is reported.
fn the_release_is_reported_with_selective_completion(world: &World) -> Result<()> {
    let setup = Setup { bind: abi::FI_SELECTIVE_COMPLETION, ..Setup::caps(CAPS) };
    let group = pair(world, &setup, 600)?;
    let (into, context) = (Mem::zeroed(1000), Context::new());
    post(&group, into, context, 0)?;
    for _ in 0..5 {
        group.post(|| group.a().ep.inject(Mem::zeroed(100), group.to_b()))?;
    }
    let event = group.done(group.b(), context)?;
    ensure!(released(&event), "{event:?}");
    group.expect_no_event(group.b())?;
    group.close()
}

/// `fi_endpoint(3)`, `fi_cancel`: the error entry of a cancelled buffer has the flag.
fn a_cancelled_buffer_is_given_back(world: &World) -> Result<()> {
    let group = pair(world, &Setup::caps(CAPS), 64)?;
    let (into, context) = (Mem::zeroed(4096), Context::new());
    post(&group, into, context, 0)?;
    send(&group, 100, 1)?;
    check(into, &group.done(group.b(), context)?, 100, 1)?;
    group.b().ep.cancel(context.ptr())?;
    let error = group.error(group.b())?;
    ensure!(error.err.0 == abi::FI_ECANCELED && error.context == context.ptr(), "{error:?}");
    ensure!(error.flags & abi::FI_MULTI_RECV != 0, "the buffer is not given back: {error:?}");
    group.close()
}

/// The events have the fields of other receives.
fn data_and_source_are_reported(world: &World) -> Result<()> {
    let group = pair(world, &Setup::caps(CAPS | abi::FI_SOURCE), 64)?;
    let (into, context) = (Mem::zeroed(4096), Context::new());
    post(&group, into, context, 0)?;
    let from = Mem::pattern(40, 3);
    group.post(|| group.a().ep.senddata(from, 44, group.to_b(), Context::new()))?;
    let event = group.done(group.b(), context)?;
    check(into, &event, 40, 3)?;
    ensure!(event.data == 44 && event.flags & abi::FI_REMOTE_CQ_DATA != 0, "{event:?}");
    ensure!(event.from == group.to_a(), "from {:#x}", event.from);
    group.close()
}

/// `fi_tagged(3)`: with tagged messages it has the same effect, or is refused.
fn tagged_buffers_answer(world: &World) -> Result<()> {
    let group = world.pair(CAPS | abi::FI_TAGGED)?;
    let (into, context) = (Mem::zeroed(65_536), Context::new());
    let message = Tagged::new(into, FI_ADDR_UNSPEC, 1, context);
    if let Err(errno) = group.b().ep.trecvmsg(&message, abi::FI_MULTI_RECV) {
        ensure!(errno.0 != abi::FI_EAGAIN, "{errno}");
        return group.close();
    }
    group.post(|| group.a().ep.tsend(Mem::pattern(100, 1), group.to_b(), 1, Context::new()))?;
    check(into, &group.done(group.b(), context)?, 100, 1)?;
    group.close()
}
