// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_cq(3)`: completion queues.

mod setup;
mod waiting;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use self::setup::arrived;
pub(crate) use self::setup::readable;
use self::waiting::{
    signal_is_not_a_completion, signal_wakes_a_reader, sread_ends_with_its_time,
    sread_of_no_wait_object_is_refused, sread_returns_existing_entries, sread_wakes_for_an_arrival,
    sread_with_a_threshold, sreadfrom_tells_the_source, wait_fd_becomes_readable,
};
use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Completion, Context, Errno, Fid, Mem, Message};
use crate::group::{Group, cq_attr};
use crate::runner::tests;
use crate::world::{EVENT_TIMEOUT, Setup, World, refused};

tests! { "fi_cq":
    queues_of_every_size_open
    an_unspecified_format_is_chosen
    format_context_tells_the_context
    format_msg_tells_flags_and_length
    format_data_tells_the_data
    format_tagged_tells_the_tag
    read_gives_no_more_than_asked
    read_returns_existing_completions
    an_empty_queue_says_try_again
    read_of_nothing_makes_progress
    readfrom_tells_the_source
    readfrom_of_an_unknown_source_is_not_available
    readerr_without_an_error_says_try_again
    readerr_finds_an_error_by_itself
    readerr_leaves_completions_before_an_error
    an_error_is_announced_until_it_is_read
    completions_before_an_error_are_read_first
    completions_behind_an_error_wait
    readerr_with_a_buffer
    strerror_is_text
    strerror_fills_the_buffer
    sread_ends_with_its_time
    sread_returns_existing_entries
    sread_wakes_for_an_arrival
    sread_of_no_wait_object_is_refused
    sread_with_a_threshold
    sreadfrom_tells_the_source
    signal_wakes_a_reader
    signal_is_not_a_completion
    wait_fd_becomes_readable
    two_endpoints_share_a_queue
    small_queues_lose_nothing
    errors_of_a_small_queue_are_not_lost
    selective_completion_reports_requested_operations
    selective_completion_follows_op_flags
    selective_completion_tells_every_error
    selective_completion_of_receives
    inject_complete_completes
    transmit_complete_completes
    delivery_complete_completes
    match_complete_waits_for_a_receive
    source_errors_carry_the_address
    queue_in_use_is_busy
}

/// Section `fi_cq_open`, size: from the smallest to those that applications ask for.
fn queues_of_every_size_open(world: &World) -> Result<()> {
    for cq_size in [1, 8, 100, 1024, 12_288, 131_072] {
        let group = world.group(&Setup { cq_size, ..Setup::default() })?;
        group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
        group.close()?;
    }
    Ok(())
}

/// Section `fi_cq_open`, format: `FI_CQ_FORMAT_UNSPEC` is replaced by one of them.
fn an_unspecified_format_is_chosen(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let mut attr = cq_attr(&Setup { format: abi::FI_CQ_FORMAT_UNSPEC, ..Setup::default() });
    let cq = group.a().domain.cq(&mut attr, Context::null())?;
    ensure!(cq.class() == abi::FI_CLASS_CQ as usize, "class {}", cq.class());
    refused(cq.read(1), &[abi::FI_EAGAIN], "an empty queue")?;
    cq.close()?;
    group.close()
}

/// Two completions of a tagged message with data, in a format.
fn in_format(world: &World, format: abi::fi_cq_format) -> Result<[Completion; 2]> {
    let group = world.group(&Setup { format, ..Setup::caps(abi::FI_TAGGED) })?;
    let (send, receive) = (Context::new(), Context::new());
    let into = Mem::zeroed(32);
    group.post(|| group.b().ep.trecv(into, FI_ADDR_UNSPEC, 9, 0, receive))?;
    group.post(|| group.a().ep.tsenddata(Mem::zeroed(20), 55, group.to_b(), 9, send))?;
    let both = [group.done(group.a(), send)?, group.done(group.b(), receive)?];
    group.close()?;
    Ok(both)
}

/// Section `fi_cq_open`, `FI_CQ_FORMAT_CONTEXT`.
fn format_context_tells_the_context(world: &World) -> Result<()> {
    in_format(world, abi::FI_CQ_FORMAT_CONTEXT).map(|_| ())
}

/// Section `fi_cq_open`, `FI_CQ_FORMAT_MSG`: flags and length, too.
fn format_msg_tells_flags_and_length(world: &World) -> Result<()> {
    let [sent, received] = in_format(world, abi::FI_CQ_FORMAT_MSG)?;
    ensure!(received.len == 20, "{received:?}");
    ensure!(received.flags & (abi::FI_TAGGED | abi::FI_RECV) != 0, "{received:?}");
    ensure!(sent.flags & abi::FI_SEND != 0 && sent.flags & abi::FI_RECV == 0, "{sent:?}");
    Ok(())
}

/// Section `fi_cq_open`, `FI_CQ_FORMAT_DATA`: the data, too.
fn format_data_tells_the_data(world: &World) -> Result<()> {
    let [_, received] = in_format(world, abi::FI_CQ_FORMAT_DATA)?;
    ensure!(received.data == 55 && received.len == 20, "{received:?}");
    ensure!(received.flags & abi::FI_REMOTE_CQ_DATA != 0, "{received:?}");
    Ok(())
}

/// Section `fi_cq_open`, `FI_CQ_FORMAT_TAGGED`: the tag, too.
fn format_tagged_tells_the_tag(world: &World) -> Result<()> {
    let [_, received] = in_format(world, abi::FI_CQ_FORMAT_TAGGED)?;
    ensure!((received.tag, received.data, received.len) == (9, 55, 20), "{received:?}");
    Ok(())
}

/// Section `fi_cq_read`, count: never more entries than that.
fn read_gives_no_more_than_asked(world: &World) -> Result<()> {
    let group = arrived(world, &Setup::default(), 10)?;
    let mut lens = Vec::new();
    while lens.iter().sum::<usize>() < 10 {
        let taken = group.until("completions", || match group.b().cq.read(3) {
            Err(Errno(abi::FI_EAGAIN)) => Ok(None),
            answer => Ok(Some(answer?)),
        })?;
        ensure!((1..=3).contains(&taken.len()), "{} entries", taken.len());
        lens.push(taken.len());
    }
    ensure!(lens.iter().sum::<usize>() == 10, "{lens:?}");
    group.close()
}

/// Section `fi_cq_read`: several at once where there are several.
fn read_returns_existing_completions(world: &World) -> Result<()> {
    let group = arrived(world, &Setup::default(), 10)?;
    std::thread::sleep(Duration::from_millis(30));
    let _ = group.b().cq.progress();
    let mut taken = 0;
    let mut calls = 0;
    let end = Instant::now() + EVENT_TIMEOUT;
    while taken < 10 {
        ensure!(Instant::now() < end, "{taken} of 10");
        if let Ok(some) = group.b().cq.read(64) {
            (taken, calls) = (taken + some.len(), calls + 1);
        }
    }
    ensure!(calls < 10, "one entry for each of {calls} calls, where ten were there");
    group.close()
}

/// Section `fi_cq_read`: `-FI_EAGAIN`.
fn an_empty_queue_says_try_again(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    refused(group.a().cq.read(1), &[abi::FI_EAGAIN], "an empty queue")?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    refused(group.a().cq.read(1), &[abi::FI_EAGAIN], "a queue that was emptied")?;
    group.close()
}

/// Section `fi_cq_read`: with a count of zero the call only drives progress.
fn read_of_nothing_makes_progress(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::new()))?;
    for _ in 0..200 {
        for node in &group.nodes {
            if let Err(errno) = node.cq.progress() {
                ensure!(errno.0 == abi::FI_EAGAIN, "{errno}");
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    ensure!(group.b().cq.read(1).is_ok_and(|taken| taken.len() == 1), "nothing was received");
    group.close()
}

/// Section `fi_cq_readfrom` with `FI_SOURCE`: the sender, as the address vector has it.
fn readfrom_tells_the_source(world: &World) -> Result<()> {
    let setup = Setup { nodes: 3, ..Setup::caps(abi::FI_MSG | abi::FI_SOURCE) };
    let group = world.group(&setup)?;
    let [a, b, c] = [0, 1, 2].map(|index| &group.nodes[index]);
    for (sender, from) in [(a, b.peers[0]), (c, b.peers[2]), (a, b.peers[0])] {
        group.post(|| b.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
        group.post(|| sender.ep.send(Mem::zeroed(8), sender.peers[1], Context::new()))?;
        let received = group.next(b)?;
        ensure!(received.from == from, "{:#x} instead of {from:#x}", received.from);
    }
    group.close()
}

/// Section `fi_cq_readfrom`: `FI_ADDR_NOTAVAIL` for one that is not in the vector.
fn readfrom_of_an_unknown_source_is_not_available(world: &World) -> Result<()> {
    let setup = Setup { introduced: false, ..Setup::caps(abi::FI_MSG | abi::FI_SOURCE) };
    let group = world.group(&setup)?;
    let to_b = group.a().av.insert(&group.b().name()?)?;
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    group.post(|| group.a().ep.send(Mem::zeroed(8), to_b, Context::new()))?;
    let received = group.next(group.b())?;
    ensure!(received.from == FI_ADDR_UNSPEC, "from {:#x}", received.from);
    group.close()
}

/// Section `fi_cq_readerr`: no error, nothing to read.
fn readerr_without_an_error_says_try_again(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let answer = group.a().cq.readerr(0).map(|error| error.err);
    refused(answer, &[abi::FI_EAGAIN], "no error")?;
    group.close()
}

/// Ends `count` receives of the first node in an error, leaving the errors unread.
fn errors(group: &Group, count: usize) -> Result<Vec<Context>> {
    let contexts: Vec<Context> = (0..count).map(|_| Context::new()).collect();
    for context in &contexts {
        group.post(|| group.a().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, *context))?;
        group.a().ep.cancel(context.ptr())?;
    }
    Ok(contexts)
}

/// Section `fi_cq_readerr`: it retrieves an error, whether or not `fi_cq_read` has reported it. An
/// application that sees a failure in a counter calls only this.
fn readerr_finds_an_error_by_itself(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let contexts = errors(&group, 2)?;
    let short = Context::new();
    group.post(|| group.a().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, short))?;
    group.post(|| group.b().ep.send(Mem::zeroed(100), group.to_a(), Context::new()))?;
    let canceled = contexts.iter().map(|context| (*context, abi::FI_ECANCELED));
    for (context, errno) in canceled.chain([(short, abi::FI_ETRUNC)]) {
        let end = Instant::now() + EVENT_TIMEOUT;
        let error = loop {
            match group.a().cq.readerr(0) {
                Err(Errno(abi::FI_EAGAIN)) => ensure!(Instant::now() < end, "no {errno}"),
                answer => break answer?,
            }
            let _ = group.b().cq.progress();
        };
        ensure!(error.context == context.ptr() && error.err.0 == errno, "{error:?}");
    }
    refused(group.a().cq.read(1), &[abi::FI_EAGAIN], "all errors were read")?;
    group.close()
}

/// The first node's queue with a receive that ended well in it, of this context, and behind it two
/// errors.
fn errors_behind(group: &Group, receive: Context) -> Result<Vec<Context>> {
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.post(|| group.a().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.b().ep.send(Mem::zeroed(8), group.to_a(), Context::new()))?;
    // The first node's queue is not read, so its entries stay there.
    let end = Instant::now() + EVENT_TIMEOUT;
    while let Err(errno) = group.b().cq.read(1) {
        ensure!(errno.0 == abi::FI_EAGAIN && Instant::now() < end, "{errno}");
        let _ = group.a().cq.progress();
    }
    for _ in 0..50 {
        let _ = group.a().cq.progress();
    }
    errors(group, 2)
}

/// Section `fi_cq_readerr`: a success before the error is at the head (RETURN VALUES, "topmost"),
/// where no error is to be read, and is not lost.
fn readerr_leaves_completions_before_an_error(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (a, receive) = (group.a(), Context::new());
    let failed = errors_behind(&group, receive)?;
    for _ in 0..3 {
        let answer = a.cq.readerr(0).map(|error| error.context);
        refused(answer, &[abi::FI_EAGAIN], "a completion is before the error")?;
    }
    ensure!(a.cq.progress() == Ok(0), "nothing is there to be read");
    let taken = a.cq.read(8)?;
    ensure!(taken.len() == 1 && taken[0].context == receive.ptr(), "{taken:?}");
    for context in failed {
        let error = a.cq.readerr(0)?;
        ensure!(error.context == context.ptr(), "{error:?} instead of {context:?}");
    }
    refused(a.cq.read(1), &[abi::FI_EAGAIN], "everything was read")?;
    group.close()
}

/// Section `fi_cq_read`: `-FI_EAVAIL` as long as the error is not read.
fn an_error_is_announced_until_it_is_read(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let context = errors(&group, 1)?[0];
    for _ in 0..3 {
        refused(group.a().cq.read(1), &[abi::FI_EAVAIL], "an error is there")?;
    }
    let error = group.a().cq.readerr(0)?;
    ensure!(error.context == context.ptr() && error.err.0 == abi::FI_ECANCELED, "{error:?}");
    refused(group.a().cq.read(1), &[abi::FI_EAGAIN], "the error was read")?;
    group.close()
}

/// Section `fi_cq_read`: a success before the error can be read before it.
fn completions_before_an_error_are_read_first(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    errors_behind(&group, Context::new())?;
    // The man page lets a provider announce the error at once; either way both are there.
    let (mut good, mut bad) = (0, 0);
    let end = Instant::now() + EVENT_TIMEOUT;
    while good + bad < 3 {
        ensure!(Instant::now() < end, "{good} completions and {bad} errors");
        match group.a().cq.read(8) {
            Ok(taken) => good += taken.len(),
            Err(Errno(abi::FI_EAVAIL)) => bad += group.a().cq.readerr(0).map(|_| 1)?,
            Err(errno) => ensure!(errno.0 == abi::FI_EAGAIN, "{errno}"),
        }
    }
    ensure!((good, bad) == (1, 2), "{good} completions and {bad} errors");
    group.close()
}

/// Section `fi_cq_read`: an error does not lose a later success.
fn completions_behind_an_error_wait(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    errors(&group, 3)?;
    let receive = Context::new();
    group.post(|| group.a().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.b().ep.send(Mem::zeroed(8), group.to_a(), Context::new()))?;
    for _ in 0..3 {
        group.error(group.a())?;
    }
    group.done(group.a(), receive)?;
    group.close()
}

/// Section `fi_cq_readerr`, `err_data_size`: with a buffer of the application's, at most that much.
fn readerr_with_a_buffer(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    errors(&group, 1)?;
    refused(group.a().cq.read(1), &[abi::FI_EAVAIL], "an error is there")?;
    let error = group.a().cq.readerr(64)?;
    ensure!(error.err.0 == abi::FI_ECANCELED && error.err_data.len() <= 64, "{error:?}");
    group.close()
}

/// Section `fi_cq_strerror`: an error as text.
fn strerror_is_text(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    errors(&group, 1)?;
    refused(group.a().cq.read(1), &[abi::FI_EAVAIL], "an error is there")?;
    let error = group.a().cq.readerr(0)?;
    let (text, _) = group.a().cq.strerror(error.prov_errno, 0);
    ensure!(!text.is_empty(), "nothing");
    group.close()
}

/// Section `fi_cq_strerror`: the buffer gets as much text as fits, with a zero byte, and nothing is
/// written beyond.
fn strerror_fills_the_buffer(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (text, buffer) = group.a().cq.strerror(abi::FI_ECANCELED, 6);
    ensure!(!text.is_empty(), "nothing");
    ensure!(buffer.contains(&0), "no zero byte in {buffer:?}");
    group.close()
}

/// `fi_endpoint(3)`, `fi_ep_bind`: one queue for several endpoints.
fn two_endpoints_share_a_queue(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let a = group.a();
    let second = a.domain.endpoint(&group.info, Context::null())?;
    second.bind(&a.cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
    second.bind(&a.av, 0)?;
    second.enable()?;
    let to_second = group.b().av.insert(&second.getname(crate::group::NAME_ROOM).0?)?;
    for (ep, peer) in [(&a.ep, group.to_a()), (&second, to_second)] {
        let receive = Context::new();
        group.post(|| ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
        group.post(|| group.b().ep.send(Mem::zeroed(8), peer, Context::new()))?;
        group.done(a, receive)?;
    }
    second.close()?;
    group.close()
}

/// Section `fi_cq_open`, size, with resource management: a queue of 8 and hundreds of operations.
fn small_queues_lose_nothing(world: &World) -> Result<()> {
    let group = world.group(&Setup { cq_size: 8, ..Setup::default() })?;
    let count = 300;
    let (mut posted, mut sent) = (0, 0);
    // Receives are posted first, as many as the endpoint takes, without reads.
    while posted < count
        && group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()).is_ok()
    {
        posted += 1;
    }
    ensure!(posted > 0, "no receive is taken");
    while sent < posted {
        group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::new()))?;
        sent += 1;
    }
    group.take(group.b(), posted)?;
    group.take(group.a(), sent)?;
    group.close()
}

/// Errors that do not fit into a small queue are kept, too.
fn errors_of_a_small_queue_are_not_lost(world: &World) -> Result<()> {
    let group = world.group(&Setup { cq_size: 8, ..Setup::default() })?;
    let contexts = errors(&group, 20)?;
    let mut seen = Vec::new();
    for _ in &contexts {
        seen.push(group.error(group.a())?.context);
    }
    ensure!(contexts.iter().all(|context| seen.contains(&context.ptr())), "one is missing");
    group.close()
}

fn selective(tx_op_flags: u64) -> Setup {
    Setup { bind: abi::FI_SELECTIVE_COMPLETION, tx_op_flags, ..Setup::default() }
}

/// `fi_endpoint(3)`, `FI_SELECTIVE_COMPLETION`: an entry only where `FI_COMPLETION` is asked for.
fn selective_completion_reports_requested_operations(world: &World) -> Result<()> {
    let group = world.group(&selective(0))?;
    for _ in 0..3 {
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    }
    let (silent, signalled) = (Context::new(), Context::new());
    group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), silent))?;
    let message = Message::new(Mem::zeroed(8), group.to_b(), silent);
    group.post(|| group.a().ep.sendmsg(&message, 0))?;
    let message = Message::new(Mem::zeroed(8), group.to_b(), signalled);
    group.post(|| group.a().ep.sendmsg(&message, abi::FI_COMPLETION))?;
    group.done(group.a(), signalled)?;
    group.expect_no_event(group.a())?;
    group.close()
}

/// `fi_endpoint(3)`: the endpoint's default flags hold for calls without flags.
fn selective_completion_follows_op_flags(world: &World) -> Result<()> {
    let group = world.group(&selective(abi::FI_COMPLETION))?;
    let send = Context::new();
    group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), send))?;
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    group.done(group.a(), send)?;
    group.close()
}

/// `fi_endpoint(3)`: errors are reported with any flags.
fn selective_completion_tells_every_error(world: &World) -> Result<()> {
    let group = world.group(&selective(0))?;
    let receive = Context::new();
    let message = Message::new(Mem::zeroed(8), FI_ADDR_UNSPEC, receive);
    group.post(|| group.b().ep.recvmsg(&message, 0))?;
    group.b().ep.cancel(receive.ptr())?;
    let error = group.error(group.b())?;
    ensure!(error.context == receive.ptr(), "{error:?}");
    group.close()
}

/// `FI_SELECTIVE_COMPLETION` for receives.
fn selective_completion_of_receives(world: &World) -> Result<()> {
    let group = world.group(&selective(0))?;
    let (silent, signalled) = (Context::new(), Context::new());
    let into = Mem::zeroed(8);
    group.post(|| group.b().ep.recvmsg(&Message::new(into, FI_ADDR_UNSPEC, silent), 0))?;
    let flags = abi::FI_COMPLETION;
    group.post(|| {
        group.b().ep.recvmsg(&Message::new(Mem::zeroed(8), FI_ADDR_UNSPEC, signalled), flags)
    })?;
    group.post(|| group.a().ep.inject(Mem::of(&[1; 8]), group.to_b()))?;
    group.post(|| group.a().ep.inject(Mem::of(&[2; 8]), group.to_b()))?;
    group.done(group.b(), signalled)?;
    ensure!(into.bytes() == [1; 8], "the first message is not there");
    group.expect_no_event(group.b())?;
    group.close()
}

/// Sends with a completion level, as default and by flag.
fn level(world: &World, level: u64) -> Result<()> {
    let group = world.group(&Setup { tx_op_flags: level, ..Setup::default() })?;
    for len in [1, 100, 100_000] {
        let (from, into) = (Mem::pattern(len, 1), Mem::zeroed(len));
        group.exchange(from, into)?;
        ensure!(into.bytes() == from.bytes(), "{len}: other bytes arrived");
        let (send, receive) = (Context::new(), Context::new());
        let message = Message::new(from, group.to_b(), send);
        group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, receive))?;
        group.post(|| group.a().ep.sendmsg(&message, level | abi::FI_COMPLETION))?;
        group.done(group.a(), send)?;
        group.done(group.b(), receive)?;
    }
    group.close()
}

/// Section COMPLETION SEMANTICS, `FI_INJECT_COMPLETE`.
pub(crate) fn inject_complete_completes(world: &World) -> Result<()> {
    level(world, abi::FI_INJECT_COMPLETE)
}

/// Section COMPLETION SEMANTICS, `FI_TRANSMIT_COMPLETE`.
fn transmit_complete_completes(world: &World) -> Result<()> {
    level(world, abi::FI_TRANSMIT_COMPLETE)
}

/// Section COMPLETION SEMANTICS, `FI_DELIVERY_COMPLETE`.
fn delivery_complete_completes(world: &World) -> Result<()> {
    level(world, abi::FI_DELIVERY_COMPLETE)
}

/// Section COMPLETION SEMANTICS, `FI_MATCH_COMPLETE`: not before a receive has matched.
fn match_complete_waits_for_a_receive(world: &World) -> Result<()> {
    let setup = Setup { tx_op_flags: abi::FI_MATCH_COMPLETE, ..Setup::default() };
    let group = world.group(&setup)?;
    let (send, receive) = (Context::new(), Context::new());
    let message = Message::new(Mem::zeroed(8), group.to_b(), send);
    let flags = abi::FI_MATCH_COMPLETE | abi::FI_COMPLETION;
    group.post(|| group.a().ep.sendmsg(&message, flags))?;
    group.expect_no_event(group.a())?;
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    group.done(group.a(), send)?;
    group.done(group.b(), receive)?;
    group.close()
}

/// Section `fi_cq_readerr` with `FI_SOURCE_ERR`: the sender is not in the vector. Its message is an
/// error entry with the address, which can be inserted.
fn source_errors_carry_the_address(world: &World) -> Result<()> {
    let caps = abi::FI_MSG | abi::FI_SOURCE | abi::FI_SOURCE_ERR;
    let group = world.group(&Setup { introduced: false, ..Setup::caps(caps) })?;
    let to_b = group.a().av.insert(&group.b().name()?)?;
    let (into, receive) = (Mem::zeroed(8), Context::new());
    group.post(|| group.b().ep.recv(into, FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.a().ep.send(Mem::of(&[5; 8]), to_b, Context::new()))?;
    let error = group.error(group.b())?;
    ensure!(error.err.0 == abi::FI_EADDRNOTAVAIL, "{error:?}");
    ensure!(error.context == receive.ptr() && into.bytes() == [5; 8], "{error:?}");
    let name = group.a().name()?;
    ensure!(error.err_data.starts_with(&name), "{:?}, not {name:?}", error.err_data);
    group.close()
}

/// Section `fi_close`: a queue that an endpoint uses cannot be closed.
fn queue_in_use_is_busy(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    refused(group.a().cq.close(), &[abi::FI_EBUSY], "a queue that is bound")?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    let cq = group.a().domain.cq(&mut cq_attr(&Setup::default()), Context::null())?;
    cq.close()?;
    group.close()
}
