// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_cntr(3)`: counters.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Cntr, Context, Event, Fid, Mem, Message, Tagged};
use crate::group::{Group, Node};
use crate::runner::tests;
use crate::world::{EVENT_TIMEOUT, Setup, World, optional, refused};

tests! { "fi_cntr":
    a_new_counter_is_zero
    add_and_set_change_the_value
    adderr_and_seterr_change_the_errors
    sends_are_counted
    receives_are_counted
    peeks_are_not_counted
    injected_sends_are_counted
    silent_operations_are_counted
    writes_and_reads_are_counted
    errors_are_counted_apart
    two_endpoints_share_a_counter
    wait_ends_at_the_threshold
    wait_ends_with_its_time
    wait_for_a_past_threshold_returns_at_once
    wait_ends_with_an_error
    wait_wakes_for_an_add
    a_counter_without_a_queue_is_enough_to_wait
    counter_in_use_is_busy
}

/// A counter of a node's domain; not offered if there are none.
fn open(node: &Node) -> Result<Cntr> {
    optional(node.domain.cntr(), "fi_cntr_open")
}

/// Two nodes, with a counter of the first bound for `events`.
fn counting(world: &World, setup: &Setup, events: u64) -> Result<(Group, Cntr)> {
    let mut group = world.closed_group(setup)?;
    let cntr = open(group.a())?;
    optional(group.a().ep.bind(&cntr, events), "fi_ep_bind of a counter")?;
    group.enable()?;
    group.exchange_names()?;
    Ok((group, cntr))
}

/// Waits for a value, and checks that it stays.
fn reaches(group: &Group, cntr: &Cntr, value: u64) -> Result<()> {
    let what = format!("a counter at {value}");
    group
        .until(&what, || Ok((cntr.read() >= value).then_some(())))
        .with_context(|| format!("it is at {}", cntr.read()))?;
    group.run(Duration::from_millis(30))?;
    ensure!(cntr.read() == value, "{} instead of {value}", cntr.read());
    Ok(())
}

fn close(group: &Group, cntr: &Cntr) -> Result<()> {
    group.a().ep.close()?;
    cntr.close().context("fi_close of a counter")
}

/// Section `fi_cntr_open`, `fi_cntr_read`.
fn a_new_counter_is_zero(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let cntr = open(group.a())?;
    ensure!(cntr.class() == abi::FI_CLASS_CNTR as usize, "class {}", cntr.class());
    ensure!((cntr.read(), cntr.readerr()) == (0, 0), "{} {}", cntr.read(), cntr.readerr());
    cntr.close()?;
    group.close()
}

/// Waits for a change that may take effect later.
fn shows(what: &str, value: impl Fn() -> u64, wanted: u64) -> Result<()> {
    let end = Instant::now() + EVENT_TIMEOUT;
    while value() != wanted {
        ensure!(Instant::now() < end, "{what}: {} instead of {wanted}", value());
    }
    Ok(())
}

/// Section `fi_cntr_add`, `fi_cntr_set`.
fn add_and_set_change_the_value(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let cntr = open(group.a())?;
    cntr.add(5)?;
    shows("add", || cntr.read(), 5)?;
    cntr.add(7)?;
    shows("add again", || cntr.read(), 12)?;
    cntr.set(3)?;
    shows("set", || cntr.read(), 3)?;
    ensure!(cntr.readerr() == 0, "errors {}", cntr.readerr());
    cntr.close()?;
    group.close()
}

/// Section `fi_cntr_adderr`, `fi_cntr_seterr`.
fn adderr_and_seterr_change_the_errors(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let cntr = open(group.a())?;
    cntr.adderr(2)?;
    shows("adderr", || cntr.readerr(), 2)?;
    cntr.seterr(9)?;
    shows("seterr", || cntr.readerr(), 9)?;
    ensure!(cntr.read() == 0, "value {}", cntr.read());
    cntr.close()?;
    group.close()
}

/// `fi_endpoint(3)`, `fi_ep_bind`, `FI_SEND`: one for each send that succeeded.
fn sends_are_counted(world: &World) -> Result<()> {
    let (group, cntr) = counting(world, &Setup::default(), abi::FI_SEND)?;
    for len in [1, 100, 100_000] {
        group.exchange(Mem::zeroed(len), Mem::zeroed(len))?;
    }
    reaches(&group, &cntr, 3)?;
    close(&group, &cntr)
}

/// `fi_endpoint(3)`, `FI_RECV`.
fn receives_are_counted(world: &World) -> Result<()> {
    let (group, cntr) = counting(world, &Setup::default(), abi::FI_RECV)?;
    for count in 1..=3 {
        group.post(|| group.a().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
        group.post(|| group.b().ep.send(Mem::zeroed(8), group.to_a(), Context::new()))?;
        group.next(group.a())?;
        reaches(&group, &cntr, count)?;
    }
    close(&group, &cntr)
}

/// Peeks at the first node until the message with tag 1 is found.
fn post_peek(group: &Group, flags: u64, context: Context) -> Result<()> {
    let (a, peek) = (group.a(), Tagged::peek(FI_ADDR_UNSPEC, 1, 0, context));
    group.until("a message that is found", || {
        optional(a.ep.trecvmsg(&peek, abi::FI_PEEK | flags), "FI_PEEK")?;
        match group.event(a)? {
            Event::Done(_) => Ok(Some(())),
            Event::Failed(error) if error.err.0 == abi::FI_ENOMSG => Ok(None),
            Event::Failed(error) => bail!("{error:?}"),
        }
    })
}

/// `fi_endpoint(3)`: a message counts when it is received, not when a peek looks for it
/// (`fi_tagged(3)`, `FI_PEEK`), found or not.
fn peeks_are_not_counted(world: &World) -> Result<()> {
    let (group, cntr) = counting(world, &Setup::caps(abi::FI_TAGGED), abi::FI_RECV)?;
    let nothing = Tagged::peek(FI_ADDR_UNSPEC, 2, 0, Context::new());
    optional(group.a().ep.trecvmsg(&nothing, abi::FI_PEEK), "FI_PEEK")?;
    group.error(group.a())?;
    for _ in 0..3 {
        group.post(|| group.b().ep.tsend(Mem::zeroed(8), group.to_a(), 1, Context::new()))?;
    }
    post_peek(&group, 0, Context::new())?;
    post_peek(&group, abi::FI_DISCARD, Context::new())?;
    reaches(&group, &cntr, 0)?;
    ensure!(cntr.readerr() == 0, "{} errors", cntr.readerr());
    group.post(|| group.a().ep.trecv(Mem::zeroed(8), FI_ADDR_UNSPEC, 1, 0, Context::new()))?;
    group.next(group.a())?;
    reaches(&group, &cntr, 1)?;
    let claim = Context::new();
    post_peek(&group, abi::FI_CLAIM, claim)?;
    reaches(&group, &cntr, 1)?;
    let message = Tagged::new(Mem::zeroed(8), FI_ADDR_UNSPEC, 1, claim);
    group.post(|| group.a().ep.trecvmsg(&message, abi::FI_CLAIM))?;
    group.done(group.a(), claim)?;
    reaches(&group, &cntr, 2)?;
    ensure!(cntr.readerr() == 0, "{} errors", cntr.readerr());
    close(&group, &cntr)
}

/// `fi_msg(3)`, `fi_inject`: no completion, but it counts.
fn injected_sends_are_counted(world: &World) -> Result<()> {
    let (group, cntr) = counting(world, &Setup::default(), abi::FI_SEND)?;
    for _ in 0..5 {
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
        group.post(|| group.a().ep.inject(Mem::zeroed(8), group.to_b()))?;
    }
    group.take(group.b(), 5)?;
    reaches(&group, &cntr, 5)?;
    group.expect_no_event(group.a())?;
    close(&group, &cntr)
}

/// `fi_endpoint(3)`, `FI_SELECTIVE_COMPLETION`: an operation without an entry still counts.
fn silent_operations_are_counted(world: &World) -> Result<()> {
    let setup = Setup { bind: abi::FI_SELECTIVE_COMPLETION, ..Setup::default() };
    let (group, cntr) = counting(world, &setup, abi::FI_SEND)?;
    for _ in 0..4 {
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
        group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::new()))?;
    }
    reaches(&group, &cntr, 4)?;
    group.expect_no_event(group.a())?;
    close(&group, &cntr)
}

/// `fi_endpoint(3)`, `FI_WRITE` and `FI_READ`: in counters of their own.
fn writes_and_reads_are_counted(world: &World) -> Result<()> {
    let mut group = world.closed_group(&Setup::caps(abi::FI_RMA | abi::FI_MSG))?;
    let (writes, reads) = (open(group.a())?, open(group.a())?);
    group.a().ep.bind(&writes, abi::FI_WRITE)?;
    group.a().ep.bind(&reads, abi::FI_READ)?;
    group.enable()?;
    group.exchange_names()?;
    let access = abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE;
    let region = group.b().expose(&group.info, Mem::zeroed(100_000), access, 1)?;
    let remote = region.remote(group.to_b());
    for len in [8, 100_000] {
        group.post(|| group.a().ep.write(Mem::zeroed(len), remote, Context::new()))?;
    }
    group.post(|| group.a().ep.inject_write(Mem::zeroed(8), remote))?;
    group.post(|| group.a().ep.read(Mem::zeroed(50_000), remote, Context::new()))?;
    group.take(group.a(), 3)?;
    reaches(&group, &writes, 3)?;
    reaches(&group, &reads, 1)?;
    close(&group, &writes)?;
    Ok(reads.close()?)
}

/// Section `fi_cntr_readerr`: operations that failed are there, and only there.
fn errors_are_counted_apart(world: &World) -> Result<()> {
    let (group, cntr) = counting(world, &Setup::default(), abi::FI_RECV)?;
    let context = Context::new();
    group.post(|| group.a().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, context))?;
    group.a().ep.cancel(context.ptr())?;
    group.error(group.a())?;
    group.until("an error that is counted", || Ok((cntr.readerr() == 1).then_some(())))?;
    ensure!(cntr.read() == 0, "{} successes", cntr.read());
    close(&group, &cntr)
}

/// `fi_endpoint(3)`, `fi_ep_bind`: several endpoints, one counter.
fn two_endpoints_share_a_counter(world: &World) -> Result<()> {
    let setup = Setup { one_domain: true, ..Setup::default() };
    let mut group = world.closed_group(&setup)?;
    let cntr = open(group.a())?;
    for node in &group.nodes {
        node.ep.bind(&cntr, abi::FI_SEND)?;
    }
    group.enable()?;
    group.exchange_names()?;
    for (index, node) in group.nodes.iter().enumerate() {
        group.post(|| node.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
        group.post(|| node.ep.send(Mem::zeroed(8), node.peers[1 - index], Context::new()))?;
    }
    reaches(&group, &cntr, 2)?;
    group.b().ep.close()?;
    close(&group, &cntr)
}

/// Section `fi_cntr_wait`: it returns when the value is reached, without a read of a queue.
fn wait_ends_at_the_threshold(world: &World) -> Result<()> {
    let (group, cntr) = counting(world, &Setup::default(), abi::FI_SEND)?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    for _ in 0..3 {
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
        group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::new()))?;
    }
    let b = group.b();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| cntr.wait(4, 6000));
        // The peer is a process of its own to the waiter.
        while !waiter.is_finished() {
            let _ = b.cq.progress();
        }
        waiter.join().expect("no panic")
    })?;
    ensure!(cntr.read() >= 4, "it returned at {}", cntr.read());
    close(&group, &cntr)
}

/// Section `fi_cntr_wait`: `-FI_ETIMEDOUT` when its time is over.
fn wait_ends_with_its_time(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let cntr = open(group.a())?;
    let start = Instant::now();
    refused(cntr.wait(1, 120), &[abi::FI_ETIMEDOUT], "nothing in 120 ms")?;
    let took = start.elapsed();
    ensure!(took >= Duration::from_millis(110) && took < Duration::from_secs(4), "{took:?}");
    cntr.close()?;
    group.close()
}

/// Section `fi_cntr_wait`: a threshold that is reached already.
fn wait_for_a_past_threshold_returns_at_once(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let cntr = open(group.a())?;
    cntr.add(5)?;
    cntr.wait(3, 5000)?;
    cntr.wait(0, 0)?;
    cntr.close()?;
    group.close()
}

/// Section `fi_cntr_wait`: `-FI_EAVAIL` when an operation fails meanwhile.
fn wait_ends_with_an_error(world: &World) -> Result<()> {
    let (group, cntr) = counting(world, &Setup::default(), abi::FI_RECV)?;
    let context = Context::new();
    group.post(|| group.a().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, context))?;
    let answer = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(80));
            group.a().ep.cancel(context.ptr())
        });
        cntr.wait(1, 6000)
    });
    refused(answer, &[abi::FI_EAVAIL], "a cancelled receive")?;
    close(&group, &cntr)
}

/// Section `fi_cntr_wait`: `fi_cntr_add` by another thread ends the wait.
fn wait_wakes_for_an_add(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let cntr = open(group.a())?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(80));
            cntr.add(1)
        });
        cntr.wait(1, 6000)
    })?;
    ensure!(start.elapsed() < Duration::from_secs(3), "it woke after {:?}", start.elapsed());
    cntr.close()?;
    group.close()
}

/// Section `fi_cntr_wait`: reading the counter drives progress, without any read of a queue.
fn a_counter_without_a_queue_is_enough_to_wait(world: &World) -> Result<()> {
    let (group, cntr) = counting(world, &Setup::default(), abi::FI_RECV)?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    let message = Message::new(Mem::zeroed(8), group.to_a(), Context::new());
    group.post(|| group.a().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    group.post(|| group.b().ep.sendmsg(&message, abi::FI_COMPLETION))?;
    let end = Instant::now() + EVENT_TIMEOUT;
    while cntr.read() < 1 {
        ensure!(Instant::now() < end, "the counter stays at {}", cntr.read());
        let _ = group.b().cq.progress();
    }
    close(&group, &cntr)
}

/// Section `fi_close`: a counter that an endpoint uses cannot be closed.
fn counter_in_use_is_busy(world: &World) -> Result<()> {
    let (group, cntr) = counting(world, &Setup::default(), abi::FI_SEND)?;
    refused(cntr.close(), &[abi::FI_EBUSY], "a counter that is bound")?;
    close(&group, &cntr)
}
