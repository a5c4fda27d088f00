// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggered calls: `FI_TRIGGER` with a data call (section "Triggered operations").

use anyhow::{Result, ensure};

use super::setup::{close, expect, expose, queue, to_b, trigger_able};
use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{
    Answer, Atomic, Cntr, Context, Errno, Fid, Mem, Message, Remote, Rma, Tagged, Value, When, Work,
};
use crate::group::{Group, Node};
use crate::world::{World, not_offered, refused};

/// `FI_TRIGGER` in the flags of a call; not offered if it is not supported.
pub(super) fn triggered(answer: Answer) -> Result<()> {
    match answer {
        Err(Errno(abi::FI_ENOSYS | abi::FI_EOPNOTSUPP)) => not_offered("FI_TRIGGER"),
        answer => Ok(answer?),
    }
}

/// `fi_trigger(3)`, "Completion based triggers": the operation is deferred, and then has its usual
/// effect.
pub(super) fn triggered_sends_wait_and_complete(world: &World) -> Result<()> {
    let (group, cntr, spare) = trigger_able(world)?;
    let (_, receive) = expect(&group, 8)?;
    let context = Context::triggered(&cntr, 2);
    let message = Message::new(Mem::zeroed(8), group.to_b(), context);
    triggered(group.a().ep.sendmsg(&message, abi::FI_TRIGGER | abi::FI_COMPLETION))?;
    cntr.add(1)?;
    group.expect_no_event(group.a())?;
    cntr.add(1)?;
    group.done(group.a(), context)?;
    group.done(group.b(), receive)?;
    close(&group, [&cntr, &spare])
}

/// The completions of a node, by context.
fn contexts(group: &Group, node: &Node, count: usize) -> Result<Vec<*mut std::ffi::c_void>> {
    Ok(group.take(node, count)?.iter().map(|done| done.context).collect())
}

/// `FI_TRIGGER` in the other calls with flags.
pub(super) fn triggered_operations_of_every_kind_wait(world: &World) -> Result<()> {
    let (group, cntr, spare) = trigger_able(world)?;
    let there = expose(&group, Mem::zeroed(8))?;
    let remote = there.remote(group.to_b());
    let flags = abi::FI_TRIGGER | abi::FI_COMPLETION;
    let ep = &group.a().ep;
    let when = |threshold| Context::triggered(&cntr, threshold);
    let [receive, trecv, tsend, write, read, add] = [1, 2, 3, 4, 5, 6].map(when);
    triggered(ep.recvmsg(&Message::new(Mem::zeroed(8), FI_ADDR_UNSPEC, receive), flags))?;
    triggered(ep.trecvmsg(&Tagged::new(Mem::zeroed(8), FI_ADDR_UNSPEC, 1, trecv), flags))?;
    triggered(ep.tsendmsg(&Tagged::new(Mem::zeroed(8), group.to_b(), 2, tsend), flags))?;
    triggered(ep.writemsg(&Rma::new(Mem::pattern(8, 1), remote, write), flags))?;
    triggered(ep.readmsg(&Rma::new(Mem::zeroed(8), remote, read), flags))?;
    let sum = Atomic { datatype: abi::FI_UINT64, op: abi::FI_SUM, at: remote, context: add };
    triggered(ep.atomicmsg(&sum, &[Value { mem: Mem::pattern(8, 1), count: 1 }], flags))?;
    let into = Context::new();
    group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 2, 0, into))?;
    let (plain, tagged) = (Context::new(), Context::new());
    group.post(|| group.b().ep.send(Mem::zeroed(8), group.to_a(), plain))?;
    group.post(|| group.b().ep.tsend(Mem::zeroed(8), group.to_a(), 1, tagged))?;
    group.expect_no_event(group.a())?;
    for context in [receive, trecv, tsend, write, read, add] {
        cntr.add(1)?;
        group.done(group.a(), context)?;
    }
    let seen = contexts(&group, group.b(), 3)?;
    ensure!([into, plain, tagged].iter().all(|one| seen.contains(&one.ptr())), "{seen:?}");
    there.mr.close()?;
    close(&group, [&cntr, &spare])
}

/// `fi_trigger(3)`: in the order of the thresholds.
pub(super) fn triggered_operations_begin_in_order(world: &World) -> Result<()> {
    let (group, cntr, spare) = trigger_able(world)?;
    let receives = (0..3).map(|_| expect(&group, 1)).collect::<Result<Vec<_>>>()?;
    for (threshold, value) in [(3, 30), (1, 10), (2, 20)] {
        let context = Context::triggered(&cntr, threshold);
        let message = Message::new(Mem::of(&[value]), group.to_b(), context);
        triggered(group.a().ep.sendmsg(&message, abi::FI_TRIGGER | abi::FI_COMPLETION))?;
    }
    cntr.add(3)?;
    group.take(group.b(), 3)?;
    group.take(group.a(), 3)?;
    let order: Vec<u8> = receives.iter().map(|(into, _)| into.byte(0)).collect();
    ensure!(order == [10, 20, 30], "{order:?}");
    close(&group, [&cntr, &spare])
}

/// `fi_msg(3)`, `FI_INJECT`: the buffer is the application's when the call returns. A call that is
/// put off has it copied, or is refused.
pub(super) fn a_triggered_call_reads_no_injected_buffer_later(world: &World) -> Result<()> {
    let (group, cntr, spare) = trigger_able(world)?;
    let (into, _) = expect(&group, 1)?;
    let context = Context::triggered(&cntr, 1);
    let mem = Mem::of(&[7]);
    let message = Message::new(mem, group.to_b(), context);
    let flags = abi::FI_TRIGGER | abi::FI_INJECT | abi::FI_COMPLETION;
    match group.a().ep.sendmsg(&message, flags) {
        Err(Errno(abi::FI_EBADFLAGS | abi::FI_EINVAL)) => return close(&group, [&cntr, &spare]),
        answer => triggered(answer)?,
    }
    mem.write(0, &[8]);
    cntr.add(1)?;
    group.next(group.b())?;
    group.done(group.a(), context)?;
    ensure!(into.byte(0) == 7, "{} was sent", into.byte(0));
    close(&group, [&cntr, &spare])
}

/// Calls of every kind that wait for `cntr`, and their contexts.
fn calls(group: &Group, cntr: &Cntr, remote: Remote) -> Result<[Context; 6]> {
    let (flags, ep) = (abi::FI_TRIGGER | abi::FI_COMPLETION, &group.a().ep);
    let contexts = [1, 1, 1, 2, 2, 2].map(|threshold| Context::triggered(cntr, threshold));
    let [recv, trecv, send, tsend, write, fetch] = contexts;
    triggered(ep.recvmsg(&Message::new(Mem::zeroed(8), FI_ADDR_UNSPEC, recv), flags))?;
    triggered(ep.trecvmsg(&Tagged::new(Mem::zeroed(8), FI_ADDR_UNSPEC, 1, trecv), flags))?;
    triggered(ep.sendmsg(&Message::new(Mem::zeroed(8), group.to_b(), send), flags))?;
    triggered(ep.tsendmsg(&Tagged::new(Mem::zeroed(8), group.to_b(), 2, tsend), flags))?;
    triggered(ep.writemsg(&Rma::new(Mem::pattern(8, 1), remote, write), flags))?;
    let (datatype, op) = (abi::FI_UINT64, abi::FI_SUM);
    let sum = Atomic { datatype, op, at: remote, context: fetch };
    let [value, found] = [1, 0].map(|seed| Value { mem: Mem::pattern(8, seed), count: 1 });
    triggered(ep.fetch_atomicmsg(&sum, &[value], &[found], flags))?;
    Ok(contexts)
}

/// `fi_endpoint(3)`, `fi_cancel`: "search for the operation and, if it is still pending, complete
/// it as having been canceled".
pub(super) fn a_cancelled_call_ends_and_never_begins(world: &World) -> Result<()> {
    let (group, cntr, spare) = trigger_able(world)?;
    let there = expose(&group, Mem::zeroed(8))?;
    let kinds = [
        abi::FI_RECV | abi::FI_MSG,
        abi::FI_RECV | abi::FI_TAGGED,
        abi::FI_SEND | abi::FI_MSG,
        abi::FI_SEND | abi::FI_TAGGED,
        abi::FI_WRITE | abi::FI_RMA,
        abi::FI_ATOMIC,
    ];
    // A stored message does not match a receive that has not started.
    group.post(|| group.b().ep.send(Mem::zeroed(8), group.to_a(), Context::new()))?;
    group.next(group.b())?;
    let contexts = calls(&group, &cntr, there.remote(group.to_b()))?;
    for (context, kind) in contexts.into_iter().zip(kinds) {
        group.a().ep.cancel(context.ptr())?;
        let error = group.error(group.a())?;
        let seen = (error.context, error.err.0, error.flags & kind);
        ensure!(seen == (context.ptr(), abi::FI_ECANCELED, kind), "{error:?}");
    }
    cntr.add(9)?;
    group.expect_no_event(group.a())?;
    group.expect_no_event(group.b())?;
    ensure!(there.mem.bytes() == [0; 8], "a cancelled one has begun");
    there.mr.close()?;
    close(&group, [&cntr, &spare])
}

/// `fi_endpoint(3)`, `fi_close`: "Outstanding operations posted to the endpoint when `fi_close` is
/// called will be discarded". The counter that they waited for can be closed, too. An endpoint that
/// another object keeps open loses no operation.
pub(super) fn calls_of_an_endpoint_end_with_it(world: &World) -> Result<()> {
    let (group, cntr, spare) = trigger_able(world)?;
    let there = expose(&group, Mem::zeroed(8))?;
    let contexts = calls(&group, &cntr, there.remote(group.to_b()))?;
    let when = When::at(&spare, 1);
    queue(&group, &Work::send(when, &group.a().ep, &to_b(&group, Mem::zeroed(8)), 0))?;
    refused(group.a().ep.close(), &[abi::FI_EBUSY], "an endpoint with queued work")?;
    cntr.add(1)?;
    group.done(group.a(), contexts[2])?;
    group.a().domain.flush_work(Some(&Work::cntr(when, abi::FI_OP_CNTR_ADD, &cntr, 1)))?;
    group.a().ep.close()?;
    cntr.close()?;
    spare.close()?;
    ensure!(there.mem.bytes() == [0; 8], "a discarded one has begun");
    there.mr.close()?;
    Ok(group.b().ep.close()?)
}

/// A call returned success, so its end is reported. Here its peer is removed before the call
/// starts.
pub(super) fn a_call_that_cannot_begin_ends_in_error(world: &World) -> Result<()> {
    let (group, cntr, spare) = trigger_able(world)?;
    let context = Context::triggered(&cntr, 1);
    let message = Message::new(Mem::zeroed(8), group.to_b(), context);
    triggered(group.a().ep.sendmsg(&message, abi::FI_TRIGGER | abi::FI_COMPLETION))?;
    group.a().av.remove(&[group.to_b()])?;
    cntr.add(1)?;
    let error = group.error(group.a())?;
    ensure!(error.context == context.ptr(), "{error:?}");
    group.expect_no_event(group.a())?;
    close(&group, [&cntr, &spare])
}

/// `fi_atomic(3)`, `FI_TAGGED`: a queued operation is no atomic on the region with the tag as its
/// key.
pub(super) fn a_triggered_atomic_is_on_no_tagged_buffer(world: &World) -> Result<()> {
    let (group, cntr, spare) = trigger_able(world)?;
    let there = expose(&group, Mem::zeroed(8))?;
    let (at, context) = (there.remote(group.to_b()), Context::triggered(&cntr, 1));
    let sum = Atomic { datatype: abi::FI_UINT64, op: abi::FI_SUM, at, context };
    let (value, domain) = (Value { mem: Mem::of(&[1; 8]), count: 1 }, &group.a().domain);
    if domain.query_atomic(sum.datatype, sum.op, abi::FI_TAGGED).is_ok() {
        return not_offered("a refusal of FI_TAGGED");
    }
    let errors = [abi::FI_EOPNOTSUPP, abi::FI_EBADFLAGS, abi::FI_EINVAL, abi::FI_ENOSYS];
    let flags = abi::FI_TAGGED | abi::FI_TRIGGER;
    refused(group.a().ep.atomicmsg(&sum, &[value], flags), &errors, "a triggered call")?;
    let when = When::at(&cntr, 1);
    let work = Work::atomic(when, &group.a().ep, &sum, [&[value], &[], &[]], abi::FI_TAGGED);
    refused(domain.queue_work(&work), &errors, "deferred work")?;
    cntr.add(1)?;
    group.expect_no_event(group.a())?;
    ensure!(there.mem.bytes() == [0; 8], "the region was changed");
    there.mr.close()?;
    close(&group, [&cntr, &spare])
}

/// Section DESCRIPTION: "an endpoint must be created with the `FI_TRIGGER` capability".
pub(super) fn triggered_operations_need_the_capability(world: &World) -> Result<()> {
    let (group, cntr, spare) = trigger_able(world)?;
    let info = group.info.dup();
    info.set(|info| info.caps &= !abi::FI_TRIGGER);
    info.set_tx(|tx| tx.caps &= !abi::FI_TRIGGER);
    info.set_rx(|rx| rx.caps &= !abi::FI_TRIGGER);
    let ep = group.a().domain.endpoint(&info, Context::null())?;
    ep.bind(&group.a().cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
    ep.bind(&group.a().av, 0)?;
    ep.enable()?;
    let context = Context::triggered(&cntr, 1);
    let message = Message::new(Mem::zeroed(8), group.to_b(), context);
    let errors = [abi::FI_EBADFLAGS, abi::FI_EINVAL, abi::FI_ENOSYS, abi::FI_EOPNOTSUPP];
    refused(ep.sendmsg(&message, abi::FI_TRIGGER), &errors, "FI_TRIGGER")?;
    ep.close()?;
    close(&group, [&cntr, &spare])
}

/// `fi_endpoint(3)`, `fi_ep_alias`: calls without flags of their own take those of the alias.
pub(super) fn an_alias_triggers_by_default(world: &World) -> Result<()> {
    let (group, cntr, spare) = trigger_able(world)?;
    let there = expose(&group, Mem::zeroed(8))?;
    let alias = match group.a().ep.alias(abi::FI_TRANSMIT | abi::FI_TRIGGER | abi::FI_COMPLETION) {
        Err(Errno(abi::FI_ENOSYS | abi::FI_EOPNOTSUPP | abi::FI_EINVAL)) => {
            return not_offered("fi_ep_alias with FI_TRIGGER");
        }
        alias => alias?,
    };
    let into = Context::new();
    group.post(|| group.b().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 2, 0, into))?;
    let [write, tsend, fetch] = [1, 2, 3].map(|threshold| Context::triggered(&cntr, threshold));
    let at = there.remote(group.to_b());
    triggered(alias.write(Mem::pattern(8, 1), at, write))?;
    triggered(alias.tsend(Mem::zeroed(8), group.to_b(), 2, tsend))?;
    let read = Atomic { datatype: abi::FI_UINT64, op: abi::FI_ATOMIC_READ, at, context: fetch };
    let found = Value { mem: Mem::zeroed(8), count: 1 };
    triggered(alias.fetch_atomicv(&read, &[], &[found]))?;
    group.expect_no_event(group.a())?;
    for context in [write, tsend, fetch] {
        cntr.add(1)?;
        group.done(group.a(), context)?;
    }
    ensure!(found.mem.bytes() == Mem::pattern(8, 1).bytes(), "{:?}", found.mem.bytes());
    group.done(group.b(), into)?;
    alias.close()?;
    there.mr.close()?;
    close(&group, [&cntr, &spare])
}
