// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_trigger(3)`: deferred work queues, triggered operations.

mod calls;
mod setup;

use anyhow::{Result, ensure};

use self::calls::{
    a_call_that_cannot_begin_ends_in_error, a_cancelled_call_ends_and_never_begins,
    a_triggered_atomic_is_on_no_tagged_buffer, a_triggered_call_reads_no_injected_buffer_later,
    an_alias_triggers_by_default, calls_of_an_endpoint_end_with_it, triggered,
    triggered_operations_begin_in_order, triggered_operations_need_the_capability,
    triggered_operations_of_every_kind_wait, triggered_sends_wait_and_complete,
};
use self::setup::{CAPS, close, expect, expose, queue, to_b, trigger_able};
use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{
    Answer, Atomic, Cntr, Context, Errno, Fid, Mem, Message, Rma, Tagged, Value, When, Work,
};
use crate::group::Group;
use crate::runner::tests;
use crate::world::{Setup, World, not_offered, optional, refused};

tests! { "fi_trigger":
    deferred_work_waits_for_its_threshold
    a_condition_that_is_met_begins_at_once
    errors_of_the_counter_count_too
    works_begin_in_the_order_of_their_thresholds
    works_of_one_threshold_begin_in_order_of_submission
    deferred_work_makes_no_completion
    deferred_work_makes_a_completion_if_asked_for
    deferred_receives_receive
    deferred_tagged_messages_match
    deferred_writes_and_reads_move_bytes
    deferred_atomics_change_and_fetch
    a_failed_work_counts_as_an_error
    counters_are_set_and_added_to
    a_receive_triggers_a_send
    a_chain_of_works_runs_to_its_end
    waiting_for_the_completion_counter_is_progress
    a_poll_set_returns_the_counter_of_ended_work
    more_works_than_the_endpoint_has_room_for
    cancelled_work_never_begins
    flushed_work_never_begins
    flush_of_one_counter_leaves_the_others
    calls_are_not_flushed
    queued_work_keeps_its_objects_busy
    a_completion_counter_of_counter_work_is_refused
    triggered_sends_wait_and_complete
    triggered_operations_of_every_kind_wait
    triggered_operations_begin_in_order
    a_triggered_call_reads_no_injected_buffer_later
    a_cancelled_call_ends_and_never_begins
    calls_of_an_endpoint_end_with_it
    a_call_that_cannot_begin_ends_in_error
    a_triggered_atomic_is_on_no_tagged_buffer
    triggered_operations_need_the_capability
    an_alias_triggers_by_default
}

/// Waits until a counter of the first node is at `value`.
fn reaches(group: &Group, cntr: &Cntr, value: u64) -> Result<()> {
    let what = format!("a counter at {value}");
    group.until(&what, || Ok((cntr.read() == value).then_some(())))
}

/// Section "Deferred work queues": an operation starts when values and errors reach the threshold;
/// its end is counted once.
fn deferred_work_waits_for_its_threshold(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    let (into, context) = expect(&group, 100)?;
    let from = Mem::pattern(100, 3);
    let when = When::at(&cntr, 2).counted(&ends);
    queue(&group, &Work::send(when, &group.a().ep, &to_b(&group, from), 0))?;
    group.expect_no_event(group.b())?;
    cntr.add(1)?;
    group.expect_no_event(group.b())?;
    ensure!(ends.read() == 0, "counted before it has begun");
    cntr.add(1)?;
    group.done(group.b(), context)?;
    ensure!(into.bytes() == from.bytes(), "other bytes");
    reaches(&group, &ends, 1)?;
    group.expect_no_event(group.a())?;
    ensure!((ends.read(), cntr.read()) == (1, 2), "{} {}", ends.read(), cntr.read());
    close(&group, [&cntr, &ends])
}

/// `fi_trigger(3)`: work with a condition that is met "will be initiated immediately".
fn a_condition_that_is_met_begins_at_once(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    for threshold in [0, 5] {
        cntr.set(5)?;
        let (_, context) = expect(&group, 8)?;
        let when = When::at(&cntr, threshold).counted(&ends);
        let message = to_b(&group, Mem::zeroed(8));
        queue(&group, &Work::send(when, &group.a().ep, &message, 0))?;
        group.done(group.b(), context)?;
    }
    reaches(&group, &ends, 2)?;
    close(&group, [&cntr, &ends])
}

/// `fi_trigger(3)`: the condition is of "success plus error counter values".
fn errors_of_the_counter_count_too(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    let (_, context) = expect(&group, 8)?;
    let when = When::at(&cntr, 2).counted(&ends);
    queue(&group, &Work::send(when, &group.a().ep, &to_b(&group, Mem::zeroed(8)), 0))?;
    cntr.add(1)?;
    cntr.adderr(1)?;
    group.done(group.b(), context)?;
    reaches(&group, &ends, 1)?;
    close(&group, [&cntr, &ends])
}

/// Queues sends of one byte, which is `value`, and says in which order the bytes arrive after one
/// step of the counter.
fn order(world: &World, works: &[(u64, u8)]) -> Result<Vec<u8>> {
    let (group, cntr, ends) = trigger_able(world)?;
    let receives = works.iter().map(|_| expect(&group, 1)).collect::<Result<Vec<_>>>()?;
    for &(threshold, value) in works {
        let message = to_b(&group, Mem::of(&[value]));
        let when = When::at(&cntr, threshold).counted(&ends);
        queue(&group, &Work::send(when, &group.a().ep, &message, 0))?;
    }
    group.expect_no_event(group.b())?;
    cntr.add(100)?;
    group.take(group.b(), works.len())?;
    reaches(&group, &ends, works.len() as u64)?;
    close(&group, [&cntr, &ends])?;
    Ok(receives.iter().map(|(into, _)| into.byte(0)).collect())
}

/// Section "Completion based triggers": "even if the counter increments by a value greater than
/// 1".
fn works_begin_in_the_order_of_their_thresholds(world: &World) -> Result<()> {
    let order = order(world, &[(30, 3), (10, 1), (40, 4), (20, 2)])?;
    ensure!(order == [1, 2, 3, 4], "{order:?}");
    Ok(())
}

/// `fi_trigger(3)`: works of one threshold begin "in the order in which they were submitted".
fn works_of_one_threshold_begin_in_order_of_submission(world: &World) -> Result<()> {
    let order = order(world, &[(5, 9), (5, 3), (5, 7), (5, 1), (5, 5)])?;
    ensure!(order == [9, 3, 7, 1, 5], "{order:?}");
    Ok(())
}

/// Section "Deferred work queues": no entry in the queue, and nothing in the endpoint's counter.
fn deferred_work_makes_no_completion(world: &World) -> Result<()> {
    let mut group = world.closed_group(&Setup::caps(CAPS | abi::FI_TRIGGER))?;
    let cntr = || optional(group.a().domain.cntr(), "fi_cntr_open");
    let (cntr, ends, own) = (cntr()?, cntr()?, cntr()?);
    group.a().ep.bind(&own, abi::FI_SEND)?;
    group.enable()?;
    group.exchange_names()?;
    let (_, context) = expect(&group, 8)?;
    let when = When::at(&cntr, 1).counted(&ends);
    queue(&group, &Work::send(when, &group.a().ep, &to_b(&group, Mem::zeroed(8)), 0))?;
    cntr.add(1)?;
    group.done(group.b(), context)?;
    reaches(&group, &ends, 1)?;
    group.expect_no_event(group.a())?;
    ensure!(own.read() == 0, "the endpoint's counter is at {}", own.read());
    // The next operation writes a completion as usual.
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    reaches(&group, &own, 1)?;
    group.a().ep.close()?;
    [cntr, ends, own].iter().try_for_each(Fid::close)?;
    Ok(())
}

/// `fi_trigger(3)`: deferred work makes a completion "by specifying the `FI_COMPLETION` flag".
fn deferred_work_makes_a_completion_if_asked_for(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    let (_, receive) = expect(&group, 8)?;
    let message = to_b(&group, Mem::zeroed(8));
    let when = When::at(&cntr, 1).counted(&ends);
    queue(&group, &Work::send(when, &group.a().ep, &message, abi::FI_COMPLETION))?;
    group.expect_no_event(group.a())?;
    cntr.add(1)?;
    let done = group.done(group.a(), message.context)?;
    ensure!(done.flags & abi::FI_SEND != 0, "{done:?}");
    group.done(group.b(), receive)?;
    reaches(&group, &ends, 1)?;
    close(&group, [&cntr, &ends])
}

/// `FI_OP_RECV`: a receive that is posted later, also where its message is there already.
fn deferred_receives_receive(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    for round in 1..=2_u64 {
        let into = Mem::zeroed(70);
        let message = Message::new(into, FI_ADDR_UNSPEC, Context::new());
        let when = When::at(&cntr, round).counted(&ends);
        queue(&group, &Work::recv(when, &group.a().ep, &message, 0))?;
        if round == 2 {
            cntr.add(1)?;
        }
        let (from, send) = (Mem::pattern(70, round as u8), Context::new());
        group.post(|| group.b().ep.send(from, group.to_a(), send))?;
        group.done(group.b(), send)?;
        if round == 1 {
            cntr.add(1)?;
        }
        reaches(&group, &ends, round)?;
        ensure!(into.bytes() == from.bytes(), "other bytes");
    }
    group.expect_no_event(group.a())?;
    close(&group, [&cntr, &ends])
}

/// `FI_OP_TSEND`, `FI_OP_TRECV`.
fn deferred_tagged_messages_match(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    let when = When::at(&cntr, 1).counted(&ends);
    let (back, from) = (Mem::zeroed(20), Mem::pattern(20, 1));
    let receive = Tagged::new(back, FI_ADDR_UNSPEC, 8, Context::new());
    let send = Tagged::new(from, group.to_b(), 7, Context::new());
    let ep = &group.a().ep;
    queue(&group, &Work::tagged(when, abi::FI_OP_TRECV, ep, &receive, 0))?;
    queue(&group, &Work::tagged(when, abi::FI_OP_TSEND, ep, &send, 0))?;
    let (into, context) = (Mem::zeroed(20), Context::new());
    group.post(|| group.b().ep.trecv(into, FI_ADDR_UNSPEC, 7, 0, context))?;
    cntr.add(1)?;
    ensure!(group.done(group.b(), context)?.tag == 7, "tag");
    ensure!(into.bytes() == from.bytes(), "other bytes");
    let answer = Context::new();
    group.post(|| group.b().ep.tsend(into, group.to_a(), 8, answer))?;
    group.done(group.b(), answer)?;
    reaches(&group, &ends, 2)?;
    ensure!(back.bytes() == from.bytes(), "other bytes came back");
    close(&group, [&cntr, &ends])
}

/// `FI_OP_WRITE`, `FI_OP_READ`.
fn deferred_writes_and_reads_move_bytes(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    let there = expose(&group, Mem::zeroed(5000))?;
    let remote = there.remote(group.to_b());
    let (from, back) = (Mem::pattern(5000, 9), Mem::zeroed(5000));
    let ep = &group.a().ep;
    let write = Rma::new(from, remote, Context::new());
    let read = Rma::new(back, remote, Context::new());
    let first = When::at(&cntr, 1).counted(&ends);
    queue(&group, &Work::rma(first, abi::FI_OP_WRITE, ep, &write, 0))?;
    // The end of the write triggers the read.
    let second = When::at(&ends, 1).counted(&cntr);
    queue(&group, &Work::rma(second, abi::FI_OP_READ, ep, &read, 0))?;
    group.expect_no_event(group.a())?;
    ensure!(there.mem.bytes() == [0; 5000], "written too early");
    cntr.add(1)?;
    reaches(&group, &cntr, 2)?;
    ensure!(there.mem.bytes() == from.bytes() && back.bytes() == from.bytes(), "bytes");
    there.mr.close()?;
    close(&group, [&cntr, &ends])
}

/// `FI_OP_ATOMIC`, `FI_OP_FETCH_ATOMIC`, `FI_OP_COMPARE_ATOMIC`.
fn deferred_atomics_change_and_fetch(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    let word = |value: u64| Value { mem: Mem::of(&value.to_ne_bytes()), count: 1 };
    let value = |at: Value| u64::from_ne_bytes(at.mem.bytes().try_into().expect("8 bytes"));
    let there = expose(&group, word(100).mem)?;
    let at = there.remote(group.to_b());
    let ep = &group.a().ep;
    let atomic = |op| Atomic { datatype: abi::FI_UINT64, op, at, context: Context::new() };
    let [ten, fetched, old, new, swapped] = [10, 0, 115, 7, 0].map(word);
    let step = |threshold| When::at(&cntr, threshold).counted(&ends);
    queue(&group, &Work::atomic(step(1), ep, &atomic(abi::FI_SUM), [&[ten], &[], &[]], 0))?;
    cntr.add(1)?;
    reaches(&group, &ends, 1)?;
    let five = word(5);
    queue(&group, &Work::atomic(step(2), ep, &atomic(abi::FI_SUM), [&[five], &[], &[fetched]], 0))?;
    cntr.add(1)?;
    reaches(&group, &ends, 2)?;
    let swap = atomic(abi::FI_CSWAP);
    queue(&group, &Work::atomic(step(3), ep, &swap, [&[new], &[old], &[swapped]], 0))?;
    cntr.add(1)?;
    reaches(&group, &ends, 3)?;
    let seen = (value(fetched), value(swapped), value(Value { mem: there.mem, count: 1 }));
    ensure!(seen == (110, 115, 7), "{seen:?}");
    there.mr.close()?;
    close(&group, [&cntr, &ends])
}

/// A work with an operation that ends in an error: the completion counter counts the error.
fn a_failed_work_counts_as_an_error(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    let there = expose(&group, Mem::zeroed(8))?;
    let mut remote = there.remote(group.to_b());
    remote.key ^= 0x55;
    let write = Rma::new(Mem::zeroed(8), remote, Context::new());
    let when = When::at(&cntr, 1).counted(&ends);
    queue(&group, &Work::rma(when, abi::FI_OP_WRITE, &group.a().ep, &write, 0))?;
    cntr.add(1)?;
    group.until("an error", || Ok((ends.readerr() == 1).then_some(())))?;
    ensure!(ends.read() == 0, "it counts as done");
    there.mr.close()?;
    close(&group, [&cntr, &ends])
}

/// `FI_OP_CNTR_SET`, `FI_OP_CNTR_ADD`.
fn counters_are_set_and_added_to(world: &World) -> Result<()> {
    let (group, cntr, other) = trigger_able(world)?;
    queue(&group, &Work::cntr(When::at(&cntr, 1), abi::FI_OP_CNTR_ADD, &other, 5))?;
    queue(&group, &Work::cntr(When::at(&cntr, 2), abi::FI_OP_CNTR_SET, &other, 100))?;
    queue(&group, &Work::cntr(When::at(&cntr, 3), abi::FI_OP_CNTR_ADD, &other, 7))?;
    ensure!(other.read() == 0, "too early");
    for value in [5, 100, 107] {
        cntr.add(1)?;
        reaches(&group, &other, value)?;
    }
    close(&group, [&cntr, &other])
}

/// `fi_trigger(3)`: a counter that counts the endpoint's receives triggers the answer.
fn a_receive_triggers_a_send(world: &World) -> Result<()> {
    let mut group = world.closed_group(&Setup::caps(CAPS | abi::FI_TRIGGER))?;
    let cntr = || optional(group.a().domain.cntr(), "fi_cntr_open");
    let (received, ends) = (cntr()?, cntr()?);
    group.a().ep.bind(&received, abi::FI_RECV)?;
    group.enable()?;
    group.exchange_names()?;
    let (into, context) = (Mem::zeroed(8), Context::new());
    group.post(|| group.a().ep.recv(into, FI_ADDR_UNSPEC, context))?;
    let when = When::at(&received, 1).counted(&ends);
    // The answer is the received message: its buffer is not read before.
    queue(&group, &Work::send(when, &group.a().ep, &to_b(&group, into), 0))?;
    let (back, answer) = expect(&group, 8)?;
    group.post(|| group.b().ep.send(Mem::pattern(8, 6), group.to_a(), Context::new()))?;
    group.done(group.a(), context)?;
    group.next(group.b())?;
    group.next(group.b())?;
    ensure!(back.bytes() == Mem::pattern(8, 6).bytes(), "other bytes for {answer:?}");
    reaches(&group, &ends, 1)?;
    group.a().ep.close()?;
    [received, ends].iter().try_for_each(Fid::close)?;
    Ok(())
}

/// `fi_trigger(3)`: works that trigger one another.
fn a_chain_of_works_runs_to_its_end(world: &World) -> Result<()> {
    let (group, cntr, spare) = trigger_able(world)?;
    let works: Vec<Work> = (1..=100_u64)
        .map(|step| {
            let when = When::at(&cntr, step);
            if step % 10 == 0 {
                Work::send(when.counted(&cntr), &group.a().ep, &to_b(&group, Mem::zeroed(8)), 0)
            } else {
                Work::cntr(when, abi::FI_OP_CNTR_ADD, &cntr, 1)
            }
        })
        .collect();
    for _ in 0..10 {
        expect(&group, 8)?;
    }
    works.iter().rev().try_for_each(|work| queue(&group, work))?;
    cntr.add(1)?;
    reaches(&group, &cntr, 101)?;
    group.take(group.b(), 10)?;
    close(&group, [&cntr, &spare])
}

/// `fi_cntr(3)`, `fi_cntr_wait`: deferred work makes progress while an application waits for its
/// end.
fn waiting_for_the_completion_counter_is_progress(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    for _ in 0..5 {
        expect(&group, 100)?;
    }
    for threshold in 1..=5 {
        let when = When::at(if threshold == 1 { &cntr } else { &ends }, threshold.max(2) - 1);
        let message = to_b(&group, Mem::zeroed(100));
        queue(&group, &Work::send(when.counted(&ends), &group.a().ep, &message, 0))?;
    }
    cntr.add(1)?;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| ends.wait(5, 8000));
        group.take(group.b(), 5)?;
        let waited = waiter.join().expect("no panic");
        Ok::<_, anyhow::Error>(waited?)
    })?;
    ensure!(ends.read() == 5, "{}", ends.read());
    close(&group, [&cntr, &ends])
}

/// `fi_poll(3)`, `fi_poll`: a counter that has changed is returned, also if it is a completion
/// counter, which the application has not added to itself.
fn a_poll_set_returns_the_counter_of_ended_work(world: &World) -> Result<()> {
    let (group, cntr, spare) = trigger_able(world)?;
    let context = Context::new();
    let ends = group.a().domain.cntr_named(context)?;
    let set = optional(group.a().domain.poll_set(0), "fi_poll_open")?;
    set.add(&ends)?;
    let (_, receive) = expect(&group, 8)?;
    let when = When::at(&cntr, 1).counted(&ends);
    queue(&group, &Work::send(when, &group.a().ep, &to_b(&group, Mem::zeroed(8)), 0))?;
    cntr.add(1)?;
    let ready = group.until("a counter that is named", || {
        let ready = set.poll(4)?;
        Ok((!ready.is_empty()).then_some(ready))
    })?;
    ensure!(ready == [context.ptr()], "{ready:?}");
    group.done(group.b(), receive)?;
    set.close()?;
    ends.close()?;
    close(&group, [&cntr, &spare])
}

/// Work that is due and finds no room is posted later, in order.
fn more_works_than_the_endpoint_has_room_for(world: &World) -> Result<()> {
    const COUNT: u64 = 2000;
    let (group, cntr, ends) = trigger_able(world)?;
    let mut queued = 0;
    for threshold in 1..=COUNT {
        let message = to_b(&group, Mem::of(&threshold.to_ne_bytes()));
        let when = When::at(&cntr, threshold).counted(&ends);
        match group.a().domain.queue_work(&Work::send(when, &group.a().ep, &message, 0)) {
            Err(Errno(abi::FI_ENOSYS | abi::FI_EOPNOTSUPP)) => return not_offered("FI_QUEUE_WORK"),
            // The queue may have a bound.
            Err(Errno(abi::FI_EAGAIN)) => break,
            answer => answer?,
        }
        queued = threshold;
    }
    ensure!(queued > 0, "nothing was queued");
    cntr.add(COUNT)?;
    for number in 1..=queued {
        let (into, context) = expect(&group, 8)?;
        group.done(group.b(), context)?;
        ensure!(into.bytes() == number.to_ne_bytes(), "message {number} is another");
    }
    reaches(&group, &ends, queued)?;
    close(&group, [&cntr, &ends])
}

/// Whether a command of the queue is supported.
fn command(answer: Answer, what: &str) -> Result<()> {
    match answer {
        Err(Errno(abi::FI_ENOSYS | abi::FI_EOPNOTSUPP)) => not_offered(what),
        answer => Ok(answer?),
    }
}

/// `FI_CANCEL_WORK`: work that has not begun never begins.
fn cancelled_work_never_begins(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    let (into, context) = expect(&group, 1)?;
    let works = [1, 2].map(|value| {
        let message = to_b(&group, Mem::of(&[value]));
        Work::send(When::at(&cntr, 1).counted(&ends), &group.a().ep, &message, 0)
    });
    works.iter().try_for_each(|work| queue(&group, work))?;
    command(group.a().domain.cancel_work(&works[0]), "FI_CANCEL_WORK")?;
    cntr.add(1)?;
    group.done(group.b(), context)?;
    ensure!(into.byte(0) == 2, "the cancelled one was sent");
    reaches(&group, &ends, 1)?;
    let gone = group.a().domain.cancel_work(&works[0]);
    refused(gone, &[abi::FI_ENOENT, abi::FI_EINVAL], "what was cancelled before")?;
    close(&group, [&cntr, &ends])
}

/// `FI_FLUSH_WORK`: everything that has not begun.
fn flushed_work_never_begins(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    for threshold in 1..=3 {
        let work = Work::cntr(When::at(&cntr, threshold), abi::FI_OP_CNTR_ADD, &ends, 1);
        queue(&group, &work)?;
    }
    command(group.a().domain.flush_work(None), "FI_FLUSH_WORK")?;
    cntr.add(10)?;
    group.expect_no_event(group.a())?;
    ensure!(ends.read() == 0, "{}", ends.read());
    // Nothing to flush is no error.
    group.a().domain.flush_work(None)?;
    close(&group, [&cntr, &ends])
}

/// `fi_poll(3)`: "requests waiting on a specific `triggering_cntr`".
fn flush_of_one_counter_leaves_the_others(world: &World) -> Result<()> {
    let (group, cntr, other) = trigger_able(world)?;
    let ends = group.a().domain.cntr()?;
    let flushed = Work::cntr(When::at(&cntr, 1), abi::FI_OP_CNTR_ADD, &ends, 1);
    let left = Work::cntr(When::at(&other, 1), abi::FI_OP_CNTR_ADD, &ends, 10);
    queue(&group, &flushed)?;
    queue(&group, &left)?;
    command(group.a().domain.flush_work(Some(&flushed)), "FI_FLUSH_WORK")?;
    cntr.add(1)?;
    other.add(1)?;
    reaches(&group, &ends, 10)?;
    ends.close()?;
    close(&group, [&cntr, &other])
}

/// A call with `FI_TRIGGER` has returned success, so its end is reported: it is no deferred work.
fn calls_are_not_flushed(world: &World) -> Result<()> {
    let (group, cntr, spare) = trigger_able(world)?;
    let (_, received) = expect(&group, 8)?;
    let context = Context::triggered(&cntr, 1);
    let message = Message::new(Mem::pattern(8, 3), group.to_b(), context);
    triggered(group.a().ep.sendmsg(&message, abi::FI_TRIGGER | abi::FI_COMPLETION))?;
    command(group.a().domain.flush_work(None), "FI_FLUSH_WORK")?;
    cntr.add(1)?;
    group.done(group.a(), context)?;
    group.done(group.b(), received)?;
    close(&group, [&cntr, &spare])
}

/// Objects that queued work names are in use.
fn queued_work_keeps_its_objects_busy(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    let when = When::at(&cntr, 1).counted(&ends);
    let message = to_b(&group, Mem::zeroed(8));
    queue(&group, &Work::send(when, &group.a().ep, &message, 0))?;
    refused(group.a().ep.close(), &[abi::FI_EBUSY], "the endpoint")?;
    refused(cntr.close(), &[abi::FI_EBUSY], "the triggering counter")?;
    refused(ends.close(), &[abi::FI_EBUSY], "the completion counter")?;
    group.a().domain.flush_work(None)?;
    close(&group, [&cntr, &ends])
}

/// Section "Deferred work queues": `completion_cntr` must be NULL for counter operations.
fn a_completion_counter_of_counter_work_is_refused(world: &World) -> Result<()> {
    let (group, cntr, ends) = trigger_able(world)?;
    let when = When::at(&cntr, 1).counted(&ends);
    let work = Work::cntr(when, abi::FI_OP_CNTR_ADD, &ends, 1);
    let answer = group.a().domain.queue_work(&work);
    refused(answer, &[abi::FI_EINVAL, abi::FI_ENOSYS], "a completion counter")?;
    close(&group, [&cntr, &ends])
}
