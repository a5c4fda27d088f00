// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multi-receive buffers of a shared context.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::shared::{CAPS, Shared};
use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Context, Errno, Event, Fid, Mem, Message, Tagged};
use crate::group::{NAME_ROOM, cq_attr};
use crate::world::{NO_EVENT_TIME, Setup, World, optional};

/// `fi_msg(3)`, `FI_MULTI_RECV`: one behind the other, whichever endpoint they come to, and given
/// back once.
pub(super) fn a_multi_receive_buffer_serves_every_endpoint(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS | abi::FI_MULTI_RECV, 2)?;
    let (into, context) = (Mem::zeroed(1000), Context::new());
    shared.recv_many(into, 100, context)?;
    let mut ends = Vec::new();
    for index in 0..10_u8 {
        shared.send(Mem::pattern(95, index), usize::from(index % 2))?;
        let done = shared.done(context).with_context(|| format!("message {index}"))?;
        let offset = (done.buf as usize).wrapping_sub(into.ptr() as usize);
        ensure!(done.len == 95 && offset + 95 <= 1000, "{done:?}");
        let there = into.part(offset, 95).bytes();
        ensure!(there == Mem::pattern(95, index).bytes(), "bytes of {index}");
        ends.push(done.flags & abi::FI_MULTI_RECV != 0);
        if ends[usize::from(index)] {
            break;
        }
    }
    // After 950 bytes fewer than 100 are left.
    ensure!(ends.len() == 10 && ends[9], "given back: {ends:?}");
    // Stored messages fill the next buffer.
    for index in 0..4_u8 {
        shared.send(Mem::pattern(300, index), usize::from(index % 2))?;
    }
    shared.progress_a_while()?;
    let context = Context::new();
    let message = Message::new(Mem::zeroed(1000), FI_ADDR_UNSPEC, context);
    shared.group.post(|| shared.srx.recvmsg(&message, abi::FI_MULTI_RECV))?;
    // 100 bytes are left after three of them, not fewer than the least: the fourth is truncated.
    // Queues keep no order between endpoints, so it need not be reported last.
    let (mut flags, mut truncated) = (Vec::new(), 0);
    for _ in 0..4 {
        flags.push(match shared.event()? {
            Event::Done(done) => done.flags,
            Event::Failed(error) => {
                ensure!(error.err.0 == abi::FI_ETRUNC && error.olen == 200, "{error:?}");
                truncated += 1;
                error.flags
            }
        });
    }
    let released: Vec<bool> = flags.iter().map(|it| it & abi::FI_MULTI_RECV != 0).collect();
    ensure!(truncated == 1 && released == [false, false, false, true], "{truncated} {released:?}");
    shared.close()
}

/// A multi-receive buffer outlives the endpoint that it waits for: another endpoint returns it, if
/// need be one that is opened later.
pub(super) fn a_multi_receive_buffer_outlives_its_endpoints(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS | abi::FI_MULTI_RECV, 1)?;
    let unread = shared.group.b().domain.cq(&mut cq_attr(&Setup::default()), Context::null())?;
    for another in [true, false] {
        let context = Context::new();
        shared.recv_many(Mem::zeroed(200), 100, context)?;
        let ep = shared.unbound()?;
        ep.bind(&unread, abi::FI_TRANSMIT | abi::FI_RECV)?;
        shared.enable(ep)?;
        shared.send(Mem::zeroed(100), shared.eps.len() - 1)?;
        shared.send(Mem::zeroed(100), 0)?;
        ensure!(shared.done(context)?.flags & abi::FI_MULTI_RECV == 0, "given back too early");
        if !another {
            shared.close_endpoint(0)?;
        }
        shared.close_endpoint(shared.eps.len() - 1)?;
        if !another {
            let ep = shared.unbound()?;
            ep.bind(&shared.cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
            shared.enable(ep)?;
        }
        shared.given_back(context)?;
        shared.expect_no_event()?;
    }
    unread.close()?;
    shared.close()
}

/// A multi-receive buffer waits for the end of a close. The close takes long, because no peer
/// answers the packets of the closing endpoint.
pub(super) fn a_multi_receive_buffer_waits_for_the_end_of_a_close(world: &World) -> Result<()> {
    let mut shared = Shared::open(world, CAPS | abi::FI_MULTI_RECV, 1)?;
    let unread = shared.group.b().domain.cq(&mut cq_attr(&Setup::default()), Context::null())?;
    for _ in 0..2 {
        let ep = shared.unbound()?;
        ep.bind(&unread, abi::FI_TRANSMIT | abi::FI_RECV)?;
        shared.enable(ep)?;
    }
    let absent = shared.group.b().av.insert(&shared.eps[2].getname(NAME_ROOM).0?)?;
    shared.close_endpoint(2)?;
    let context = Context::new();
    shared.recv_many(Mem::zeroed(200), 100, context)?;
    shared.send(Mem::zeroed(100), 1)?;
    shared.send(Mem::zeroed(100), 0)?;
    shared.to.remove(1);
    let leaving = shared.eps.remove(1);
    shared.group.post(|| leaving.send(Mem::zeroed(8), absent, Context::new()))?;
    let closed = std::thread::scope(|scope| {
        let closes = scope.spawn(|| leaving.close());
        std::thread::sleep(NO_EVENT_TIME);
        let closing = !closes.is_finished();
        let flags = shared.done(context)?.flags;
        ensure!(!closing || flags & abi::FI_MULTI_RECV == 0, "given back before the close is over");
        Ok(closes.join())
    })?;
    closed.map_err(|_| anyhow::anyhow!("fi_close has panicked"))??;
    shared.given_back(context)?;
    shared.expect_no_event()?;
    unread.close()?;
    shared.close()
}

/// The last message of a multi-receive buffer comes to an endpoint with a counter alone. An
/// endpoint with a queue returns the buffer, as it does for all ends without an endpoint.
pub(super) fn a_multi_receive_buffer_is_given_back_to_an_endpoint_with_a_queue(
    world: &World,
) -> Result<()> {
    let setup = Setup { wait: abi::FI_WAIT_UNSPEC, ..Setup::caps(CAPS | abi::FI_MULTI_RECV) };
    let mut shared = Shared::with(world, &setup, 0, |_| {})?;
    let cntr = optional(shared.group.b().domain.cntr(), "fi_cntr_open")?;
    let counted = shared.unbound()?;
    counted.bind(&cntr, abi::FI_RECV)?;
    // Another queue: a sleeper at the first one would make progress of both.
    counted.bind(&shared.group.b().cq, abi::FI_TRANSMIT)?;
    shared.enable(counted)?;
    let ep = shared.unbound()?;
    ep.bind(&shared.cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
    shared.enable(ep)?;
    let context = Context::new();
    shared.recv_many(Mem::zeroed(200), 100, context)?;
    shared.send(Mem::zeroed(100), 1)?;
    ensure!(shared.done(context)?.flags & abi::FI_MULTI_RECV == 0, "given back too early");
    let (last, sent) = (Mem::zeroed(100), Context::new());
    let read = std::thread::scope(|scope| {
        let reads = scope.spawn(|| {
            let began = Instant::now();
            (shared.cq.sread(1, 4000), began.elapsed())
        });
        std::thread::sleep(NO_EVENT_TIME);
        let to = shared.to[0];
        let posted = shared.group.post(|| shared.group.a().ep.send(last, to, sent));
        posted.and_then(|()| shared.sent(sent))?;
        Ok::<_, anyhow::Error>(reads.join())
    })?;
    let (read, slept) = read.map_err(|_| anyhow::anyhow!("the reader has panicked"))?;
    ensure!(slept < Duration::from_secs(3), "the reader was not woken");
    match read {
        Err(Errno(abi::FI_EAVAIL)) => {}
        read => {
            let read = read.context("a sleeping reader")?;
            shared.inbox.extend(read.into_iter().map(Event::Done));
        }
    }
    shared.given_back(context)?;
    ensure!(cntr.read() == 1, "counted: {}", cntr.read());
    shared.recv_many(Mem::zeroed(200), 100, context)?;
    optional(shared.srx.cancel(context.ptr()), "fi_cancel of a shared context")?;
    shared.given_back(context)?;
    let peek = Tagged::peek(FI_ADDR_UNSPEC, 5, 0, Context::new());
    optional(shared.srx.trecvmsg(&peek, abi::FI_PEEK), "FI_PEEK of a shared context")?;
    ensure!(shared.error()?.err.0 == abi::FI_ENOMSG, "a peek for nothing");
    shared.expect_no_event()?;
    shared.eps.iter().try_for_each(Fid::close)?;
    shared.eps.clear();
    cntr.close()?;
    shared.close()
}
