// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_eq(3)` and `fi_poll(3)`: event queues, poll sets, waiting.

use anyhow::{Context as _, Result, ensure};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::connected::{Pair, Side, ignore_empty, nothing_more, until};
use crate::fi::{Cntr, Context, Eq, Errno, Fid, Mem};
use crate::group::{Group, eq_attr};
use crate::runner::tests;
use crate::world::{Setup, World, optional, refused};

tests! { "fi_eq":
    an_empty_queue_says_try_again
    written_events_are_read
    events_come_in_order
    peek_leaves_the_event
    writing_needs_the_flag
    too_little_room_is_reported
    a_connection_event_needs_room_for_its_structure_alone
    readerr_without_an_error_says_try_again
    sread_ends_with_its_time
    sread_returns_existing_entries
    sread_wakes_for_a_write
    sread_of_two_threads_waits_for_an_event_each
    strerror_is_text
    events_are_all_kept
    wait_fd_can_be_had
    poll_set_names_ready_objects
    poll_set_keeps_changes_that_had_no_room
    poll_sets_share_a_counter
    poll_set_without_events_is_empty
    poll_set_forgets_deleted_objects
    wait_sets_answer
    trywait_says_whether_one_may_wait
}

/// A fabric with its event queue.
fn queue(world: &World, wait: abi::fi_wait_obj) -> Result<(Group, Eq)> {
    let group = world.group(&Setup { nodes: 1, ..Setup::default() })?;
    let eq = optional(group.fabric.eq(&mut eq_attr(wait), Context::null()), "fi_eq_open")?;
    Ok((group, eq))
}

fn close(group: &Group, eq: &Eq) -> Result<()> {
    eq.close().context("fi_close of an event queue")?;
    group.close()
}

/// Section `fi_eq_read`: nothing there.
fn an_empty_queue_says_try_again(world: &World) -> Result<()> {
    let (group, eq) = queue(world, abi::FI_WAIT_NONE)?;
    ensure!(eq.class() == abi::FI_CLASS_EQ as usize, "class {}", eq.class());
    refused(eq.read(64, 0), &[abi::FI_EAGAIN], "an empty queue")?;
    close(&group, &eq)
}

/// Section `fi_eq_write`: a written event is read, whole.
fn written_events_are_read(world: &World) -> Result<()> {
    let (group, eq) = queue(world, abi::FI_WAIT_NONE)?;
    let context = Context::new();
    let len = eq.write(abi::FI_NOTIFY, context.ptr(), 0x1234_5678_9abc)?;
    let event = eq.read(64, 0)?;
    ensure!(event.event == abi::FI_NOTIFY && event.context == context.ptr(), "{event:?}");
    ensure!(event.data == 0x1234_5678_9abc && event.len == len, "{event:?}");
    ensure!(event.fid == eq.fid(), "{event:?}");
    refused(eq.read(64, 0), &[abi::FI_EAGAIN], "a queue that was emptied")?;
    close(&group, &eq)
}

/// Section DESCRIPTION: first in, first out.
fn events_come_in_order(world: &World) -> Result<()> {
    let (group, eq) = queue(world, abi::FI_WAIT_NONE)?;
    for data in 0..10 {
        eq.write(abi::FI_NOTIFY, std::ptr::null_mut(), data)?;
    }
    for data in 0..10 {
        ensure!(eq.read(64, 0)?.data == data, "event {data}");
    }
    close(&group, &eq)
}

/// Section `fi_eq_read`, `FI_PEEK`: a peek does not remove the event.
fn peek_leaves_the_event(world: &World) -> Result<()> {
    let (group, eq) = queue(world, abi::FI_WAIT_NONE)?;
    refused(eq.read(64, abi::FI_PEEK), &[abi::FI_EAGAIN], "an empty queue")?;
    eq.write(abi::FI_NOTIFY, std::ptr::null_mut(), 5)?;
    for _ in 0..3 {
        ensure!(eq.read(64, abi::FI_PEEK)?.data == 5, "another event");
    }
    ensure!(eq.read(64, 0)?.data == 5, "another event");
    refused(eq.read(64, 0), &[abi::FI_EAGAIN], "a queue that was emptied")?;
    close(&group, &eq)
}

/// Section `fi_eq_open`, `FI_WRITE`: only then may the application write.
fn writing_needs_the_flag(world: &World) -> Result<()> {
    let group = world.group(&Setup { nodes: 1, ..Setup::default() })?;
    let mut attr = eq_attr(abi::FI_WAIT_NONE);
    attr.flags = 0;
    let eq = group.fabric.eq(&mut attr, Context::null())?;
    let answer = eq.write(abi::FI_NOTIFY, std::ptr::null_mut(), 5);
    refused(answer, &[abi::FI_EINVAL, abi::FI_EPERM, abi::FI_ENOSYS, abi::FI_EACCES], "a write")?;
    close(&group, &eq)
}

/// Section `fi_eq_read`: `-FI_ETOOSMALL` where the event does not fit, and it stays.
fn too_little_room_is_reported(world: &World) -> Result<()> {
    let (group, eq) = queue(world, abi::FI_WAIT_NONE)?;
    eq.write(abi::FI_NOTIFY, std::ptr::null_mut(), 5)?;
    refused(eq.read(4, 0), &[abi::FI_ETOOSMALL], "room for 4 bytes")?;
    ensure!(eq.read(64, 0)?.data == 5, "the event is gone");
    close(&group, &eq)
}

/// Section `fi_eq_cm_entry`: data are limited to the room for them. An application that expects
/// none brings none.
fn a_connection_event_needs_room_for_its_structure_alone(world: &World) -> Result<()> {
    let (listener, fabric, eq, active) = Pair::asked(world, b"a question")?;
    let request = until("request", || match listener.eq.read_cm(0) {
        Err(Errno(abi::FI_EAGAIN)) => Ok(None),
        found => Ok(Some(found.context("fi_eq_read")?)),
    })?;
    ensure!(request.event == abi::FI_CONNREQ, "event {}", request.event);
    ensure!(request.data.is_empty(), "{:?}", request.data);
    nothing_more(&listener.eq)?;
    let passive = Side::open(&listener.fabric, &listener.eq, request.info.context("no info")?)?;
    passive.ep.accept_with(b"an answer").context("fi_accept")?;
    let connected = until("FI_CONNECTED", || {
        active.cq.progress().map(drop).or_else(ignore_empty)?;
        passive.cq.progress().map(drop).or_else(ignore_empty)?;
        match eq.read_cm(2) {
            Err(Errno(abi::FI_EAGAIN)) => Ok(None),
            found => Ok(Some(found.context("fi_eq_read")?)),
        }
    })?;
    ensure!(connected.data == b"an", "{:?}", connected.data);
    Pair { listener, fabric, eq, active, passive }.close()
}

/// Section `fi_eq_readerr`: no error, nothing to read.
fn readerr_without_an_error_says_try_again(world: &World) -> Result<()> {
    let (group, eq) = queue(world, abi::FI_WAIT_NONE)?;
    let answer = eq.readerr().map(|error| (error.fid, error.context, error.data, error.err));
    refused(answer, &[abi::FI_EAGAIN], "no error")?;
    close(&group, &eq)
}

/// Section `fi_eq_sread`: it waits as long as the argument says.
fn sread_ends_with_its_time(world: &World) -> Result<()> {
    let (group, eq) = queue(world, abi::FI_WAIT_UNSPEC)?;
    let start = Instant::now();
    let answer = eq.sread(100);
    refused(answer, &[abi::FI_EAGAIN, abi::FI_ETIMEDOUT], "nothing in 100 ms")?;
    let took = start.elapsed();
    ensure!(took >= Duration::from_millis(90), "it waited {took:?}");
    ensure!(took < Duration::from_secs(4), "it waited {took:?}");
    close(&group, &eq)
}

/// Section `fi_eq_sread`: an event that is there is returned at once.
fn sread_returns_existing_entries(world: &World) -> Result<()> {
    let (group, eq) = queue(world, abi::FI_WAIT_UNSPEC)?;
    eq.write(abi::FI_NOTIFY, std::ptr::null_mut(), 6)?;
    ensure!(eq.sread(5000)?.data == 6, "another event");
    close(&group, &eq)
}

/// Section `fi_eq_sread`: an event of another thread ends the wait.
fn sread_wakes_for_a_write(world: &World) -> Result<()> {
    let (group, eq) = queue(world, abi::FI_WAIT_UNSPEC)?;
    let start = Instant::now();
    let event = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(80));
            eq.write(abi::FI_NOTIFY, std::ptr::null_mut(), 7)
        });
        eq.sread(6000)
    })?;
    ensure!(event.data == 7 && start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    close(&group, &eq)
}

/// Section `fi_eq_sread`: a thread that finds its event taken by another one goes on waiting. The
/// next event comes when the last one is taken; until then one thread has no event to return with.
fn sread_of_two_threads_waits_for_an_event_each(world: &World) -> Result<()> {
    const EVENTS: usize = 4_000;
    const END: u64 = u64::MAX;
    let (group, eq) = queue(world, abi::FI_WAIT_UNSPEC)?;
    let (taken, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let read = || {
        while eq.sread(-1).inspect_err(|_| failed.store(true, Ordering::Release))?.data != END {
            taken.fetch_add(1, Ordering::Release);
        }
        Ok::<_, Errno>(())
    };
    let write = |data| eq.write(abi::FI_NOTIFY, std::ptr::null_mut(), data);
    let answers = std::thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        for event in 1..=EVENTS {
            write(0)?;
            while taken.load(Ordering::Acquire) < event && !failed.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            if failed.load(Ordering::Acquire) {
                break;
            }
        }
        write(END)?;
        write(END)?;
        Ok::<_, Errno>(readers.map(|reader| reader.join().expect("no panic")))
    })?;
    let after = taken.load(Ordering::Relaxed);
    for answer in answers {
        answer.with_context(|| format!("after {after} events"))?;
    }
    close(&group, &eq)
}

/// Section `fi_eq_strerror`: an error as text.
fn strerror_is_text(world: &World) -> Result<()> {
    let (group, eq) = queue(world, abi::FI_WAIT_NONE)?;
    ensure!(!eq.strerror(abi::FI_ECANCELED).is_empty(), "nothing");
    close(&group, &eq)
}

/// Section DESCRIPTION, size: a minimum; written events are not lost.
fn events_are_all_kept(world: &World) -> Result<()> {
    let (group, eq) = queue(world, abi::FI_WAIT_NONE)?;
    let mut written = 0;
    while written < 100 && eq.write(abi::FI_NOTIFY, std::ptr::null_mut(), written).is_ok() {
        written += 1;
    }
    ensure!(written >= 16, "a queue of 16 takes {written}");
    for data in 0..written {
        ensure!(eq.read(64, 0)?.data == data, "event {data}");
    }
    close(&group, &eq)
}

/// Section `fi_control`, `FI_GETWAIT`: a descriptor that is readable when there is something to
/// read.
fn wait_fd_can_be_had(world: &World) -> Result<()> {
    let (group, eq) = queue(world, abi::FI_WAIT_FD)?;
    let mut fd = -1_i32;
    optional(eq.control(abi::FI_GETWAIT, (&raw mut fd).cast()), "FI_WAIT_FD of an event queue")?;
    ensure!(fd >= 0, "descriptor {fd}");
    eq.write(abi::FI_NOTIFY, std::ptr::null_mut(), 1)?;
    ensure!(super::fi_cq::readable(fd, 3000)?, "it does not become readable");
    ensure!(eq.read(64, 0)?.data == 1, "another event");
    close(&group, &eq)
}

/// `fi_poll(3)`, `fi_poll`: the contexts of queues with something to read.
fn poll_set_names_ready_objects(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (a, context) = (group.a(), Context::new());
    let set = optional(a.domain.poll_set(0), "fi_poll_open")?;
    let cq = a.domain.cq(&mut crate::group::cq_attr(&Setup::default()), context)?;
    set.add(&cq)?;
    let ep = a.domain.endpoint(&group.info, Context::null())?;
    ep.bind(&cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
    ep.bind(&a.av, 0)?;
    ep.enable()?;
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    group.post(|| ep.send(Mem::zeroed(8), group.to_b(), Context::new()))?;
    let ready = group.until("a ready queue", || {
        let ready = set.poll(4)?;
        Ok(if ready.is_empty() { None } else { Some(ready) })
    })?;
    ensure!(ready == [context.ptr()], "{ready:?}");
    cq.read(1)?;
    for object in [&ep as &dyn Fid, &set, &cq] {
        object.close()?;
    }
    group.close()
}

/// A pair and two counters with contexts, of the first node's sends and receives, one of each done.
fn counted(world: &World) -> Result<(Group, [(Cntr, Context); 2])> {
    let mut group = world.closed_group(&Setup::default())?;
    let open = |flags| {
        let context = Context::new();
        let cntr = optional(group.a().domain.cntr_named(context), "fi_cntr_open")?;
        optional(group.a().ep.bind(&cntr, flags), "fi_ep_bind of a counter")?;
        anyhow::Ok((cntr, context))
    };
    let counters = [open(abi::FI_SEND)?, open(abi::FI_RECV)?];
    group.enable()?;
    group.exchange_names()?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    let (receive, send) = (Context::new(), Context::new());
    group.post(|| group.a().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    group.post(|| group.b().ep.send(Mem::zeroed(8), group.to_a(), send))?;
    group.done(group.a(), receive)?;
    Ok((group, counters))
}

fn close_counted(group: &Group, counters: &[(Cntr, Context)]) -> Result<()> {
    group.a().ep.close()?;
    counters.iter().try_for_each(|(cntr, _)| Ok(cntr.close()?))
}

/// `fi_poll(3)`: a counter that has changed is returned, in the next call if this one has no room
/// for it.
fn poll_set_keeps_changes_that_had_no_room(world: &World) -> Result<()> {
    let (group, counters) = counted(world)?;
    let set = optional(group.a().domain.poll_set(0), "fi_poll_open")?;
    for (cntr, _) in &counters {
        set.add(cntr)?;
    }
    ensure!(set.poll(0)?.is_empty(), "more than there is room for");
    let mut ready = Vec::new();
    for _ in 0..counters.len() {
        let one = set.poll(1)?;
        ensure!(one.len() == 1, "{one:?} after {ready:?}");
        ready.extend(one);
    }
    for (_, context) in &counters {
        ensure!(ready.contains(&context.ptr()), "{context:?} is not in {ready:?}");
    }
    set.close()?;
    close_counted(&group, &counters)
}

/// A change that one set has returned is still to be returned by another set.
fn poll_sets_share_a_counter(world: &World) -> Result<()> {
    let (group, counters) = counted(world)?;
    let (cntr, context) = &counters[0];
    for _ in 0..2 {
        let set = optional(group.a().domain.poll_set(0), "fi_poll_open")?;
        set.add(cntr)?;
        let ready = set.poll(4)?;
        ensure!(ready == [context.ptr()], "{ready:?}");
        set.close()?;
    }
    close_counted(&group, &counters)
}

/// `fi_poll(3)`: without anything to read, no member is returned.
fn poll_set_without_events_is_empty(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let set = optional(group.a().domain.poll_set(0), "fi_poll_open")?;
    ensure!(set.poll(4)?.is_empty(), "an empty set names something");
    set.add(&group.a().cq)?;
    ensure!(set.poll(4)?.is_empty(), "an empty queue is named");
    set.close()?;
    group.close()
}

/// Section `fi_poll_del`: it is not watched any more, and may be closed.
fn poll_set_forgets_deleted_objects(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let set = optional(group.a().domain.poll_set(0), "fi_poll_open")?;
    let attr = &mut crate::group::cq_attr(&Setup::default());
    let cq = group.a().domain.cq(attr, Context::null())?;
    set.add(&cq)?;
    set.del(&cq)?;
    cq.close()?;
    ensure!(set.poll(4)?.is_empty(), "something is named");
    set.close()?;
    group.close()
}

/// `fi_poll(3)`, `fi_wait_open`: there, or refused.
fn wait_sets_answer(world: &World) -> Result<()> {
    let group = world.group(&Setup { nodes: 1, ..Setup::default() })?;
    let mut attr = abi::fi_wait_attr { wait_obj: abi::FI_WAIT_UNSPEC, flags: 0 };
    let set = optional(group.fabric.wait_set(&mut attr), "wait sets")?;
    refused(set.wait(50), &[abi::FI_ETIMEDOUT, abi::FI_EAGAIN], "nothing to wait for")?;
    set.close()?;
    group.close()
}

/// `fi_poll(3)`, `fi_trywait`: an application may wait only if there is nothing to read.
fn trywait_says_whether_one_may_wait(world: &World) -> Result<()> {
    let group = world.group(&Setup { wait: abi::FI_WAIT_FD, ..Setup::default() })?;
    let b = group.b();
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    // The work that the first message left ends soon.
    group.until("a queue that one may wait for", || Ok(group.fabric.trywait(&[&b.cq]).ok()))?;
    group.post(|| b.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    let send = Context::new();
    group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), send))?;
    let end = Instant::now() + crate::world::EVENT_TIMEOUT;
    while group.fabric.trywait(&[&b.cq]).is_ok() {
        ensure!(Instant::now() < end, "fi_trywait allows to wait though a message has arrived");
        let _ = group.a().cq.progress();
        if super::fi_cq::readable(b.cq.wait_fd()?, 100)? {
            break;
        }
    }
    group.next(b)?;
    group.close()
}
