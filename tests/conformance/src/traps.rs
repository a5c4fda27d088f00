// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases in which providers are known to fail: promises of several pages together, threads, signals
//! and processes, and the order in which objects end.

mod huge;
mod processes;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use self::huge::{slow_message_of_4_gib, slow_write_of_4_gib};
use self::processes::{
    a_peer_that_exits_without_closing, a_peer_that_restarts_at_its_address_is_reached,
    a_peer_that_restarts_at_its_address_may_speak_first, round_trip,
};
use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Context, Errno, Event, Fid as _, Mem, Message, getinfo};
use crate::man::{fi_cq, fi_mr, fi_msg};
use crate::peer::{Behaviour, Peer};
use crate::runner::tests;
use crate::world::{EVENT_TIMEOUT, Setup, World};

tests! { "traps":
    inject_complete_is_not_inject
    a_target_completion_means_visible_bytes
    completions_of_every_operation_have_their_flags
    flags_of_a_call_replace_the_defaults
    a_dead_peer_is_an_error_and_never_again_forever
    every_resource_ends_in_try_again_or_an_error
    an_unknown_source_is_matched_once_it_is_inserted
    a_receiver_that_closes_at_once_has_acknowledged
    removing_a_peer_with_operations_in_flight
    a_peer_that_restarts_at_its_address_is_reached
    a_peer_that_restarts_at_its_address_may_speak_first
    a_peer_that_exits_without_closing
    a_process_that_exits_without_closing
    getname_before_enable
    closing_a_region_with_writes_in_flight
    binding_a_region_that_need_not_be_bound
    two_threads_on_two_endpoints_of_a_domain
    many_threads_on_one_endpoint
    blocking_readers_on_both_sides
    automatic_progress_while_the_application_computes
    a_forked_child_does_no_harm
    threads_of_the_provider_take_no_signals
    unknown_flags_of_getinfo_are_ignored
    no_slot_is_empty
    slow_message_of_4_gib
    slow_write_of_4_gib
}

/// A completion level is not a call without completion.
fn inject_complete_is_not_inject(world: &World) -> Result<()> {
    fi_cq::inject_complete_completes(world)?;
    fi_msg::inject_completes_at_the_receiver_only(world)
}

/// Bytes of a completion at the target are in place there, even if the initiator asked for the
/// weakest level.
fn a_target_completion_means_visible_bytes(world: &World) -> Result<()> {
    let tx_op_flags = abi::FI_INJECT_COMPLETE;
    let setup = Setup { tx_op_flags, ..Setup::caps(abi::FI_RMA | abi::FI_MSG) };
    let group = world.group(&setup)?;
    let len = 1 << 20;
    let region = group.b().expose(&group.info, Mem::zeroed(len), abi::FI_REMOTE_WRITE, 1)?;
    for round in 1..=10 {
        let from = Mem::pattern(len, round);
        let remote = region.remote(group.to_b());
        group.post(|| group.a().ep.writedata(from, round.into(), remote, Context::new()))?;
        group.next(group.b())?;
        ensure!(region.mem.bytes() == from.bytes(), "round {round}: bytes are missing");
        group.next(group.a())?;
    }
    region.mr.close()?;
    group.close()
}

/// Applications select by flags: they lose a completion without flags.
fn completions_of_every_operation_have_their_flags(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG | abi::FI_RMA | abi::FI_TAGGED)?;
    let access = abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE;
    let region = group.b().expose(&group.info, Mem::zeroed(64), access, 1)?;
    let (a, b, mem) = (group.a(), group.b(), Mem::zeroed(8));
    let remote = region.remote(group.to_b());
    let has = |event: crate::fi::Completion, flags: u64, not: u64| {
        ensure!(event.flags & flags == flags, "{flags:#x} are not in {:#x}", event.flags);
        ensure!(event.flags & not == 0, "some of {not:#x} are in {:#x}", event.flags);
        Ok(())
    };
    group.post(|| b.ep.recv(mem, FI_ADDR_UNSPEC, Context::new()))?;
    group.post(|| a.ep.send(mem, group.to_b(), Context::new()))?;
    has(group.next(a)?, abi::FI_MSG | abi::FI_SEND, abi::FI_TAGGED | abi::FI_RECV)?;
    has(group.next(b)?, abi::FI_MSG | abi::FI_RECV, abi::FI_TAGGED | abi::FI_SEND)?;
    group.post(|| b.ep.trecv(mem, FI_ADDR_UNSPEC, 1, 0, Context::new()))?;
    group.post(|| a.ep.tsend(mem, group.to_b(), 1, Context::new()))?;
    has(group.next(a)?, abi::FI_TAGGED | abi::FI_SEND, abi::FI_MSG | abi::FI_RECV)?;
    has(group.next(b)?, abi::FI_TAGGED | abi::FI_RECV, abi::FI_MSG | abi::FI_SEND)?;
    group.post(|| a.ep.write(mem, remote, Context::new()))?;
    has(group.next(a)?, abi::FI_RMA | abi::FI_WRITE, abi::FI_READ | abi::FI_SEND)?;
    group.post(|| a.ep.read(mem, remote, Context::new()))?;
    has(group.next(a)?, abi::FI_RMA | abi::FI_READ, abi::FI_WRITE | abi::FI_SEND)?;
    region.mr.close()?;
    group.close()
}

/// `fi_endpoint(3)`: only the flags of a `msg` call count for it.
fn flags_of_a_call_replace_the_defaults(world: &World) -> Result<()> {
    let bind = abi::FI_SELECTIVE_COMPLETION;
    let setup = Setup { bind, tx_op_flags: abi::FI_COMPLETION, ..Setup::default() };
    let group = world.group(&setup)?;
    for _ in 0..2 {
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    }
    let (silent, signalled) = (Context::new(), Context::new());
    let message = Message::new(Mem::zeroed(8), group.to_b(), silent);
    group.post(|| group.a().ep.sendmsg(&message, 0))?;
    group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), signalled))?;
    group.done(group.a(), signalled)?;
    group.expect_no_event(group.a())?;
    group.close()
}

/// Operations to a killed process end in error within a bound, and the endpoint works on.
/// (`fi_domain(3)`, resource management; the runner shortens the provider's own time-out.)
fn a_dead_peer_is_an_error_and_never_again_forever(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let (a, mut peer) = (group.a(), Peer::start(world, Behaviour::Echo, None)?);
    peer.exchange_names(&a.name()?)?;
    let there = a.av.insert(&peer.name)?;
    round_trip(&group, there)?;
    peer.kill()?;
    let end = Instant::now() + 3 * EVENT_TIMEOUT;
    let mut failed = 0;
    while failed < 8 {
        ensure!(Instant::now() < end, "{failed} operations have failed, others never end");
        match a.ep.send(Mem::zeroed(8), there, Context::new()) {
            // A call may also report at once that there is no peer.
            Err(Errno(abi::FI_EAGAIN)) | Ok(()) => {}
            Err(_) => failed += 1,
        }
        while let Ok(event) = a.cq.event() {
            failed += usize::from(matches!(event, Event::Failed(_)));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // Others are not affected.
    group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
    group.post(|| a.ep.send(Mem::zeroed(8), group.to_b(), Context::new()))?;
    group.next(group.b())?;
    Ok(())
}

/// The table of `fi_domain(3)`, resource management: contexts that are full, receives that are
/// missing, access that is not allowed.
fn every_resource_ends_in_try_again_or_an_error(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    let mut taken = 0;
    let full = loop {
        if taken > 1 << 20 {
            break None;
        }
        match group.a().ep.recv(Mem::null(), FI_ADDR_UNSPEC, Context::null()) {
            Ok(()) => taken += 1,
            Err(errno) => break Some(errno),
        }
    };
    ensure!(full.is_none_or(|errno| errno.0 == abi::FI_EAGAIN), "receives: {full:?}");
    ensure!(taken >= group.info.rx().size.min(64), "only {taken} receives are taken");
    let mut sent = 0;
    let full = loop {
        if sent > 100_000 {
            break None;
        }
        match group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::null()) {
            Ok(()) => sent += 1,
            Err(errno) => break Some(errno),
        }
    };
    ensure!(full.is_none_or(|errno| errno.0 == abi::FI_EAGAIN), "sends: {full:?}");
    // Each accepted message arrives, and its slot is free again.
    for _ in 0..sent {
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::null()))?;
        group.next(group.b())?;
    }
    group.take(group.a(), sent)?;
    group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::null()))?;
    Ok(())
}

/// `fi_av(3)`: a message of a sender that was not in the vector on arrival matches a directed
/// receive once the sender is inserted.
fn an_unknown_source_is_matched_once_it_is_inserted(world: &World) -> Result<()> {
    let caps = abi::FI_MSG | abi::FI_SOURCE | abi::FI_DIRECTED_RECV;
    let group = world.group(&Setup { introduced: false, ..Setup::caps(caps) })?;
    let (a, b) = (group.a(), group.b());
    let to_b = a.av.insert(&b.name()?)?;
    group.post(|| a.ep.send(Mem::of(&[1; 8]), to_b, Context::new()))?;
    group.run(Duration::from_millis(50))?;
    let from_a = b.av.insert(&a.name()?)?;
    let (into, receive) = (Mem::zeroed(8), Context::new());
    group.post(|| b.ep.recv(into, from_a, receive))?;
    let event = group.done(b, receive)?;
    ensure!(into.bytes() == [1; 8] && event.from == from_a, "{event:?}");
    group.close()
}

/// The receiver of a message may close: the sender must not wait for, or fail because of, a
/// received message.
fn a_receiver_that_closes_at_once_has_acknowledged(world: &World) -> Result<()> {
    for round in 0..5 {
        let group = world.pair(abi::FI_MSG)?;
        let (send, receive) = (Context::new(), Context::new());
        group.post(|| group.b().ep.recv(Mem::zeroed(100_000), FI_ADDR_UNSPEC, receive))?;
        group.post(|| group.a().ep.send(Mem::zeroed(100_000), group.to_b(), send))?;
        group.done(group.b(), receive)?;
        group.b().ep.close()?;
        // The send may have ended while the receive was waited for.
        let event = group.event(group.a());
        let event = event.with_context(|| format!("round {round}: the send never ends"))?;
        ensure!(matches!(event, Event::Done(_)), "round {round}: {event:?}");
        group.a().ep.close()?;
    }
    Ok(())
}

/// Operations in flight end with any result, and a new name for the peer works.
fn removing_a_peer_with_operations_in_flight(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    for _ in 0..20 {
        let mem = Mem::zeroed(100_000);
        group.post(|| group.a().ep.send(mem, group.to_b(), Context::null()))?;
    }
    group.a().av.remove(&[group.to_b()])?;
    let again = group.a().av.insert(&group.b().name()?)?;
    let marked = Context::new();
    for _ in 0..21 {
        group.post(|| group.b().ep.recv(Mem::zeroed(100_000), FI_ADDR_UNSPEC, Context::null()))?;
    }
    group.post(|| group.a().ep.send(Mem::pattern(9, 9), again, marked))?;
    let end = Instant::now() + EVENT_TIMEOUT;
    loop {
        ensure!(Instant::now() < end, "the send to the new name never ends");
        if let Event::Done(done) = group.event(group.a())?
            && done.context == marked.ptr()
        {
            break;
        }
    }
    loop {
        if let Event::Done(done) = group.event(group.b())?
            && done.len == 9
        {
            return Ok(());
        }
    }
}

/// The process exits with operations under way: no crash, no hang.
fn a_process_that_exits_without_closing(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    for _ in 0..20 {
        let mem = Mem::zeroed(100_000);
        group.post(|| group.a().ep.send(mem, group.to_b(), Context::null()))?;
    }
    // The runner sees how this ends.
    Ok(())
}

/// `fi_cm(3)`: the address, or that it is not known yet.
fn getname_before_enable(world: &World) -> Result<()> {
    let group = world.closed_group(&Setup { nodes: 1, ..Setup::default() })?;
    let before = group.a().ep.getname(crate::group::NAME_ROOM).0;
    group.enable()?;
    let name = group.a().name()?;
    match before {
        Ok(before) => ensure!(before == name, "another address than {name:?} before: {before:?}"),
        Err(errno) => ensure!(errno.0 == abi::FI_EOPBADSTATE, "{errno}"),
    }
    group.close()
}

/// Late packets find no region: its memory is the application's again.
fn closing_a_region_with_writes_in_flight(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_RMA | abi::FI_MSG)?;
    let len = 4 << 20;
    for round in 0..5 {
        let access = abi::FI_REMOTE_WRITE;
        let region = group.b().expose(&group.info, Mem::zeroed(len), access, round)?;
        let remote = region.remote(group.to_b());
        let from = Mem::pattern(len, 77);
        group.post(|| group.a().ep.write(from, remote, Context::new()))?;
        for _ in 0..20 * round {
            let _ = group.b().cq.progress();
            let _ = group.a().cq.progress();
        }
        region.mr.close()?;
        region.mem.write(0, &vec![1; len]);
        group.run(Duration::from_millis(60))?;
        ensure!(region.mem.bytes() == vec![1; len], "round {round}: written to after fi_close");
        group.event(group.a())?;
    }
    group.close()
}

/// Applications bind and enable regions when their hints had the mode, whatever came back.
fn binding_a_region_that_need_not_be_bound(world: &World) -> Result<()> {
    fi_mr::endpoint_regions_are_bound_and_enabled(world)?;
    let mr_mode = abi::FI_MR_ENDPOINT;
    let group = world.group(&Setup { mr_mode, ..Setup::caps(abi::FI_RMA) })?;
    let mr = group.b().domain.mr(Mem::zeroed(64), abi::FI_REMOTE_WRITE, 3)?;
    mr.bind(&group.b().ep, 0)?;
    mr.enable()?;
    mr.close()?;
    group.close()
}

/// `fi_domain(3)`, `FI_THREAD_COMPLETION`: endpoints with queues of their own are independent.
fn two_threads_on_two_endpoints_of_a_domain(world: &World) -> Result<()> {
    let threading = abi::FI_THREAD_COMPLETION;
    let setup = Setup { threading, one_domain: true, ..Setup::default() };
    let group = world.group(&setup)?;
    let rounds = 2000;
    let work = |own: usize| -> Result<()> {
        let node = &group.nodes[own];
        let (mut sent, mut received) = (0, 0);
        let end = Instant::now() + 2 * EVENT_TIMEOUT;
        let (from, into) = (Mem::zeroed(64), Mem::zeroed(64));
        for _ in 0..16 {
            node.ep.recv(into, FI_ADDR_UNSPEC, Context::null())?;
        }
        let mut posted = 0;
        while sent < rounds || received < rounds {
            ensure!(Instant::now() < end, "{sent} sent, {received} received");
            if posted < rounds && node.ep.send(from, node.peers[1 - own], Context::null()).is_ok() {
                posted += 1;
            }
            for event in node.cq.read(16).unwrap_or_default() {
                if event.flags & abi::FI_RECV == 0 {
                    sent += 1;
                    continue;
                }
                received += 1;
                while let Err(errno) = node.ep.recv(into, FI_ADDR_UNSPEC, Context::null()) {
                    ensure!(errno.0 == abi::FI_EAGAIN, "{errno}");
                }
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| work(1));
        work(0)?;
        other.join().expect("no panic")
    })
}

/// `fi_domain(3)`, `FI_THREAD_SAFE`: any thread may call any object at any time.
fn many_threads_on_one_endpoint(world: &World) -> Result<()> {
    let group = world.group(&Setup { cq_size: 64, ..Setup::default() })?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    let (each, threads) = (500, 4);
    let (a, b, to_b) = (group.a(), group.b(), group.to_b());
    let counted = [const { std::sync::atomic::AtomicUsize::new(0) }; 2];
    let end = Instant::now() + 2 * EVENT_TIMEOUT;
    let all = each * threads;
    let work = || -> Result<()> {
        let mem = Mem::zeroed(32);
        let (mut sends, mut receives) = (0, 0);
        let read = |node: &crate::group::Node, counter: &std::sync::atomic::AtomicUsize| {
            let count = node.cq.read(8).map_or(0, |events| events.len());
            counter.fetch_add(count, std::sync::atomic::Ordering::Relaxed)
        };
        loop {
            if receives < each && b.ep.recv(mem, FI_ADDR_UNSPEC, Context::null()).is_ok() {
                receives += 1;
            }
            if sends < each && a.ep.send(mem, to_b, Context::null()).is_ok() {
                sends += 1;
            }
            let done = (read(a, &counted[0]), read(b, &counted[1]));
            if done.0 >= all && done.1 >= all {
                return Ok(());
            }
            ensure!(Instant::now() < end, "{done:?} of {all} are done");
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    group.close()
}

/// No thread polls: waiting readers are woken, also for the protocol's own packets.
fn blocking_readers_on_both_sides(world: &World) -> Result<()> {
    let group = world.group(&Setup { wait: abi::FI_WAIT_UNSPEC, ..Setup::default() })?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    let rounds = 100;
    let side = |own: usize, len: usize| -> Result<()> {
        let (node, mem) = (&group.nodes[own], Mem::zeroed(len));
        let wait = |what: u64| -> Result<()> {
            loop {
                match node.cq.sread(1, 5000) {
                    Ok(events) if events[0].flags & what != 0 => return Ok(()),
                    Ok(_) | Err(Errno(abi::FI_EINTR)) => {}
                    Err(errno) => anyhow::bail!("side {own}: {errno}"),
                }
            }
        };
        for _ in 0..rounds {
            node.ep.recv(mem, FI_ADDR_UNSPEC, Context::null())?;
            if own == 0 {
                node.ep.send(mem, node.peers[1], Context::null())?;
            }
            wait(abi::FI_RECV)?;
            if own == 1 {
                node.ep.send(mem, node.peers[0], Context::null())?;
            }
        }
        // The last send's completion.
        Ok(())
    };
    for len in [8, 100_000] {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| side(1, len));
            side(0, len)?;
            other.join().expect("no panic")
        })?;
    }
    Ok(())
}

/// `fi_domain(3)`, `FI_PROGRESS_AUTO`: the target computes, and its peer's operations end.
fn automatic_progress_while_the_application_computes(world: &World) -> Result<()> {
    let progress = abi::FI_PROGRESS_AUTO;
    let tx_op_flags = abi::FI_DELIVERY_COMPLETE;
    let caps = abi::FI_RMA | abi::FI_MSG;
    let group = world.group(&Setup { progress, tx_op_flags, ..Setup::caps(caps) })?;
    let access = abi::FI_REMOTE_WRITE | abi::FI_REMOTE_READ;
    let region = group.b().expose(&group.info, Mem::zeroed(300_000), access, 1)?;
    let remote = region.remote(group.to_b());
    let a = group.a();
    let alone = |count: usize| -> Result<()> {
        let (end, mut done) = (Instant::now() + EVENT_TIMEOUT, 0);
        while done < count {
            ensure!(Instant::now() < end, "{done} of {count}: the target makes no progress");
            match a.cq.read(8) {
                Ok(events) => done += events.len(),
                Err(errno) => ensure!(errno.0 == abi::FI_EAGAIN, "{errno}"),
            }
        }
        Ok(())
    };
    let patient = |call: &dyn Fn() -> crate::fi::Answer| -> Result<()> {
        let end = Instant::now() + EVENT_TIMEOUT;
        while let Err(errno) = call() {
            ensure!(errno.0 == abi::FI_EAGAIN && Instant::now() < end, "{errno}");
            let _ = a.cq.progress();
        }
        Ok(())
    };
    let from = Mem::pattern(300_000, 1);
    patient(&|| a.ep.write(from, remote, Context::new()))?;
    alone(1)?;
    ensure!(region.mem.bytes() == from.bytes(), "other bytes were written");
    let into = Mem::zeroed(300_000);
    patient(&|| a.ep.read(into, remote, Context::new()))?;
    patient(&|| a.ep.send(Mem::zeroed(8), group.to_b(), Context::new()))?;
    alone(2)?;
    ensure!(into.bytes() == from.bytes(), "other bytes were read");
    Ok(())
}

/// `fabric(7)`: a child does not use the parent's objects, and its end does not affect the parent.
fn a_forked_child_does_no_harm(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    for exit in [true, false] {
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
        crate::process::fork_and_end(exit)?;
        group.post(|| group.a().ep.send(Mem::zeroed(8), group.to_b(), Context::new()))?;
        group.next(group.b())?;
        group.next(group.a())?;
        group.exchange(Mem::zeroed(100_000), Mem::zeroed(100_000))?;
    }
    group.close()
}

/// Signals are the application's: threads that it did not make have them blocked.
fn threads_of_the_provider_take_no_signals(world: &World) -> Result<()> {
    let progress = abi::FI_PROGRESS_AUTO;
    let group = world.group(&Setup { progress, ..Setup::default() })?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    std::thread::sleep(Duration::from_millis(50));
    // SIGHUP, SIGINT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGCHLD.
    let wanted = [1, 2, 10, 12, 14, 15, 17].iter().fold(0_u64, |set, one| set | 1 << (one - 1));
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?;
        if task.file_name().to_string_lossy() == std::process::id().to_string() {
            continue;
        }
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let blocked = u64::from_str_radix(field("SigBlk:").unwrap_or_default().trim(), 16)?;
        let name = field("Name:").unwrap_or_default().trim();
        ensure!(blocked & wanted == wanted, "thread {name} takes signals: {blocked:#x}");
    }
    group.close()
}

/// Newer libraries have flags without a meaning for a provider (`FI_RESCAN`).
fn unknown_flags_of_getinfo_are_ignored(world: &World) -> Result<()> {
    let hints = world.hints(&Setup::default());
    let node = world.node.as_deref();
    let source = if node.is_some() { abi::FI_SOURCE } else { 0 };
    let offers = getinfo(abi::VERSION, node, None, source | 1 << 35, Some(&hints))?;
    ensure!(!offers.is_empty(), "no offer");
    Ok(())
}

/// Applications call the slots of the tables; only a provider's `-FI_ENOSYS` is an answer.
fn no_slot_is_empty(world: &World) -> Result<()> {
    let group = world.pair(abi::FI_MSG)?;
    let a = group.a();
    for (table, empty) in a.ep.empty_slots().into_iter().chain(a.domain.empty_slots()) {
        ensure!(empty == 0, "{empty} empty slots in the table {table}");
    }
    group.close()
}
