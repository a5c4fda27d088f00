// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting while other threads act. Threads share a queue or a counter, objects change under
//! sleepers, applications make no further call, completions are never read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Answer, Context, Fid as _, Mem, Message, Remote};
use crate::group::{Group, Node, cq_attr};
use crate::runner::tests;
use crate::world::{EVENT_TIMEOUT, Setup, World, optional};

tests! { "waiting":
    an_endpoint_that_comes_later_is_waited_for_too
    a_computing_application_with_wait_objects_makes_progress
    a_wait_set_that_was_waited_for_makes_progress
    a_read_of_a_counter_wakes_its_waiters
    readers_of_one_queue_all_wake
    counters_of_one_endpoint_let_each_other_sleep
    a_side_without_a_queue_takes_events_for_ever
    a_side_without_a_queue_fails_for_ever
    a_forked_child_keeps_no_thread_busy
}

/// Long enough for a thread to have gone to sleep.
const ASLEEP: Duration = Duration::from_millis(60);

/// Repeats a call while it answers `-FI_EAGAIN`; of the two nodes `a` alone makes progress.
fn alone<T>(a: &Node, mut call: impl FnMut() -> Answer<T>) -> Result<T> {
    let end = Instant::now() + EVENT_TIMEOUT;
    loop {
        match call() {
            Err(errno) if errno.0 == abi::FI_EAGAIN => {}
            answer => return answer.context("a call"),
        }
        ensure!(Instant::now() < end, "-FI_EAGAIN for {EVENT_TIMEOUT:?}");
        let _ = a.cq.progress();
    }
}

/// `fi_cq(3)`, `fi_cq_sread`: a thread that sleeps on a queue waits for all endpoints that are
/// bound to it. They may be enabled while it sleeps.
fn an_endpoint_that_comes_later_is_waited_for_too(world: &World) -> Result<()> {
    let group = world.closed_group(&Setup { wait: abi::FI_WAIT_UNSPEC, ..Setup::default() })?;
    let (a, b) = (group.a(), group.b());
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| b.cq.sread(1, 6000));
        std::thread::sleep(ASLEEP);
        group.enable()?;
        let to_b = a.av.insert(&b.name()?)?;
        let _to_a = b.av.insert(&a.name()?)?;
        b.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::null())?;
        alone(a, || a.ep.send(Mem::zeroed(8), to_b, Context::null()))?;
        while !sleeper.is_finished() {
            let _ = a.cq.progress();
        }
        let events = sleeper.join().expect("no panic").context("the sleeper")?;
        ensure!(events[0].flags & abi::FI_RECV != 0, "{events:?}");
        Ok(())
    })?;
    group.close()
}

/// A message with `FI_DELIVERY_COMPLETE`: the receiver makes no call for it.
fn is_delivered_without_calls(group: &Group) -> Result<()> {
    let a = group.a();
    let message = Message::new(Mem::zeroed(100_000), group.to_b(), Context::new());
    alone(a, || a.ep.sendmsg(&message, abi::FI_DELIVERY_COMPLETE | abi::FI_COMPLETION))?;
    alone(a, || a.cq.read(1)).map(drop)
}

/// `fi_domain(3)`, `FI_PROGRESS_AUTO`; `fi_poll(3)`, `fi_trywait`: it says that one may wait, not
/// that one does.
fn a_computing_application_with_wait_objects_makes_progress(world: &World) -> Result<()> {
    let (progress, wait) = (abi::FI_PROGRESS_AUTO, abi::FI_WAIT_FD);
    let group = world.group(&Setup { progress, wait, ..Setup::default() })?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    let b = group.b();
    b.ep.recv(Mem::zeroed(100_000), FI_ADDR_UNSPEC, Context::null())?;
    group.until("a queue that one may wait for", || Ok(group.fabric.trywait(&[&b.cq]).ok()))?;
    is_delivered_without_calls(&group)?;
    group.close()
}

/// Progress goes on after `fi_wait`: its return ends the wait for every member.
fn a_wait_set_that_was_waited_for_makes_progress(world: &World) -> Result<()> {
    let group = world.group(&Setup { progress: abi::FI_PROGRESS_AUTO, ..Setup::default() })?;
    let mut attr = abi::fi_wait_attr { wait_obj: abi::FI_WAIT_UNSPEC, flags: 0 };
    let set = optional(group.fabric.wait_set(&mut attr), "fi_wait_open")?;
    let b = group.b();
    let mut cq = cq_attr(&Setup::default());
    (cq.wait_obj, cq.wait_set) = (abi::FI_WAIT_SET, set.raw());
    let cq = b.domain.cq(&mut cq, Context::null())?;
    let ep = b.endpoint(&group.info)?;
    ep.bind(&cq, abi::FI_TRANSMIT | abi::FI_RECV)?;
    ep.bind(&b.av, 0)?;
    ep.enable()?;
    let to_ep = group.a().av.insert(&ep.getname(crate::group::NAME_ROOM).0?)?;
    ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::null())?;
    let answer = set.wait(50);
    ensure!(answer.is_err_and(|errno| errno.0 == abi::FI_ETIMEDOUT), "{answer:?}");
    let a = group.a();
    let message = Message::new(Mem::zeroed(8), to_ep, Context::new());
    alone(a, || a.ep.sendmsg(&message, abi::FI_DELIVERY_COMPLETE | abi::FI_COMPLETION))?;
    alone(a, || a.cq.read(1))?;
    ep.close()?;
    cq.close()?;
    set.close()?;
    group.close()
}

/// `fi_cntr(3)`, `fi_cntr_wait`, beside `fi_domain(3)`, `FI_THREAD_SAFE`: a value that another
/// thread's read has seen wakes the threads that wait for it.
fn a_read_of_a_counter_wakes_its_waiters(world: &World) -> Result<()> {
    let mut group = world.closed_group(&Setup::default())?;
    let cntr = optional(group.a().domain.cntr(), "fi_cntr_open")?;
    optional(group.a().ep.bind(&cntr, abi::FI_RECV), "fi_ep_bind of a counter")?;
    group.enable()?;
    group.exchange_names()?;
    let (a, b, to_a) = (group.a(), group.b(), group.to_a());
    let rounds = 20;
    for _ in 0..rounds {
        a.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::null())?;
    }
    let (done, cntr) = (AtomicBool::new(false), &cntr);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                cntr.read();
            }
        });
        let result = (1..=rounds).try_for_each(|round| {
            let waiter = scope.spawn(move || cntr.wait(round, 3000));
            std::thread::sleep(Duration::from_millis(5));
            alone(b, || b.ep.send(Mem::zeroed(8), to_a, Context::null()))?;
            while !waiter.is_finished() {
                let _ = b.cq.progress();
            }
            waiter.join().expect("no panic").with_context(|| format!("the wait for {round}"))
        });
        done.store(true, Ordering::Relaxed);
        result
    })?;
    a.ep.close()?;
    cntr.close()?;
    Ok(())
}

/// `fi_cq(3)`, `fi_cq_sread`: of several that sleep on a queue each wakes for a completion.
fn readers_of_one_queue_all_wake(world: &World) -> Result<()> {
    let group = world.group(&Setup { wait: abi::FI_WAIT_UNSPEC, ..Setup::default() })?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    let (a, b) = (group.a(), group.b());
    for round in 0..30 {
        std::thread::scope(|scope| {
            let readers = [(); 3].map(|()| scope.spawn(|| b.cq.sread(1, 3000)));
            std::thread::sleep(Duration::from_millis(4));
            for _ in &readers {
                b.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::null())?;
                alone(a, || a.ep.send(Mem::zeroed(8), group.to_b(), Context::null()))?;
            }
            while !readers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                let _ = a.cq.progress();
            }
            for (index, reader) in readers.into_iter().enumerate() {
                let events = reader.join().expect("no panic");
                events.with_context(|| format!("round {round}, reader {index}"))?;
            }
            anyhow::Ok(())
        })?;
    }
    group.close()
}

/// `fi_cntr(3)`, `fi_cntr_wait`: a thread that waits for a value that does not come sleeps, also
/// beside others.
fn counters_of_one_endpoint_let_each_other_sleep(world: &World) -> Result<()> {
    let group = world.closed_group(&Setup::default())?;
    let ep = &group.a().ep;
    let open = || optional(group.a().domain.cntr(), "fi_cntr_open");
    let (sends, receives) = (open()?, open()?);
    optional(ep.bind(&sends, abi::FI_SEND), "fi_ep_bind of a counter")?;
    optional(ep.bind(&receives, abi::FI_RECV), "fi_ep_bind of a counter")?;
    group.enable()?;
    let before = crate::process::processor_time();
    let time = Duration::from_millis(500);
    std::thread::scope(|scope| {
        let waits = [&sends, &receives].map(|cntr| scope.spawn(|| cntr.wait(1, 500)));
        for wait in waits {
            let answer = wait.join().expect("no panic");
            ensure!(answer.is_err_and(|errno| errno.0 == abi::FI_ETIMEDOUT), "{answer:?}");
        }
        Ok(())
    })?;
    let used = crate::process::processor_time().saturating_sub(before);
    ensure!(used < time / 4, "{used:?} of processor time in {time:?} of sleep");
    ep.close()?;
    sends.close()?;
    receives.close()?;
    Ok(())
}

/// Far more than the slots that an endpoint has for operations.
const MANY: u64 = 5000;

/// `fi_endpoint(3)`, `fi_ep_bind`: an endpoint that receives no messages needs no queue for its
/// receives. The remote CQ data of writes is dropped then, and delays no other event.
fn a_side_without_a_queue_takes_events_for_ever(world: &World) -> Result<()> {
    let group = world.group(&Setup::caps(abi::FI_RMA))?;
    let (a, b) = (group.a(), group.b());
    let ep = b.endpoint(&group.info)?;
    ep.bind(&b.cq, abi::FI_TRANSMIT)?;
    ep.bind(&b.av, 0)?;
    optional(ep.enable(), "an endpoint without a queue for receives")?;
    let to_ep = a.av.insert(&ep.getname(crate::group::NAME_ROOM).0?)?;
    let region = b.expose(&group.info, Mem::zeroed(64), abi::FI_REMOTE_WRITE, 1)?;
    let remote = region.remote(to_ep);
    let mut ended = 0;
    for data in 0..MANY {
        group.post(|| a.ep.writedata(Mem::zeroed(8), data, remote, Context::null()))?;
        if data % 64 == 63 {
            ended += group.take(a, 64)?.len();
        }
    }
    group.take(a, MANY as usize - ended)?;
    ep.close()?;
    region.mr.close()?;
    group.close()
}

/// Failed operations of a side without a queue: a counter counts them, and their slots are free
/// again.
fn a_side_without_a_queue_fails_for_ever(world: &World) -> Result<()> {
    let group = world.group(&Setup::caps(abi::FI_RMA))?;
    let a = group.a();
    let ep = a.endpoint(&group.info)?;
    let cntr = optional(a.domain.cntr(), "fi_cntr_open")?;
    ep.bind(&cntr, abi::FI_WRITE)?;
    ep.bind(&a.av, 0)?;
    optional(ep.enable(), "an endpoint with a counter alone")?;
    let remote = Remote { peer: group.to_b(), address: 0, key: 4711 };
    for done in 0..MANY {
        group
            .post(|| {
                cntr.readerr();
                ep.write(Mem::zeroed(8), remote, Context::null())
            })
            .with_context(|| format!("after {done} failures"))?;
    }
    group.until("every failure", || Ok((cntr.readerr() == MANY).then_some(())))?;
    ep.close()?;
    cntr.close()?;
    group.close()
}

/// `fabric(7)`, forks: a child that lives on holds descriptors that its parent closes. Packets
/// for them keep no thread of the parent awake.
fn a_forked_child_keeps_no_thread_busy(world: &World) -> Result<()> {
    let progress = abi::FI_PROGRESS_AUTO;
    let group = world.group(&Setup { progress, ..Setup::default() })?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    // The progress threads have taken over by now.
    std::thread::sleep(ASLEEP);
    let child = crate::process::fork_and_stay()?;
    group.b().ep.close()?;
    group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::null())?;
    let before = crate::process::processor_time();
    let time = Duration::from_millis(400);
    std::thread::sleep(time);
    let used = crate::process::processor_time().saturating_sub(before);
    drop(child);
    ensure!(used < time / 4, "{used:?} of processor time in {time:?} of sleep");
    Ok(())
}
