// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wake-ups: two threads sleep, and wake each other, in each kind of wait for each kind of event.
//!
//! In: a way to sleep, and an event. Out: an error if a sleep outlasts its event. A thread pauses
//! for some time before it acts, so that the other one is caught awake, falling asleep, asleep, and
//! taken over by the progress thread. Bound: [`ROUNDS`] rounds, or as many as the variable
//! [`COUNT`] says, with one event for each side.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{
    Answer, Cntr, Completion, Context, Cq, Ep, Errno, Fabric, Fid as _, Mem, Message, Remote,
};
use crate::group::{Group, Node, cq_attr, eq_attr};
use crate::host::Host;
use crate::process::poll_fd;
use crate::runner::tests;
use crate::world::{Setup, World, optional};

tests! { "wakeups":
    messages_wake_blocking_reads
    messages_wake_sleepers_on_a_descriptor
    messages_wake_waits_for_a_counter
    messages_wake_a_wait_set
    writes_with_data_wake_blocking_reads
    acknowledgments_wake_blocking_reads
    progress_of_another_thread_wakes_blocking_reads
    progress_of_another_thread_wakes_sleepers_on_a_descriptor
    signals_wake_blocking_reads
    written_events_wake_blocking_reads
}

/// The variable with the number of rounds.
const COUNT: &str = "CONFORMANCE_WAKEUPS";
/// Rounds of a test.
const ROUNDS: u64 = 500;
/// The longest sleep, in milliseconds. A sleep that outlasts it has missed its event.
const LIMIT_MS: i32 = 2_500;

fn rounds() -> Result<u64> {
    match std::env::var(COUNT) {
        Ok(count) => count.parse().with_context(|| format!("{COUNT}={count} is no number")),
        Err(_) => Ok(ROUNDS),
    }
}

/// Pauses before a side acts: mostly less than the time after which the progress thread takes an
/// endpoint over, or a little more; sometimes for longer than all intervals of its observations.
struct Pauses(u64);

impl Pauses {
    fn pause(&mut self) {
        // A linear congruential generator; its high bits are good enough.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let word = self.0 >> 33;
        match word % 256 {
            0 => std::thread::sleep(Duration::from_millis(7)),
            1..16 => std::thread::sleep(Duration::from_micros(300)),
            _ => {
                let end = Instant::now() + Duration::from_nanos(word / 256 % 120_000);
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

/// A way to wait for a completion.
#[derive(Clone, Copy)]
enum Sleep<'a> {
    /// `fi_cq_sread`.
    Sread,
    /// `fi_trywait`, then poll(2) on the queue's descriptor.
    Descriptor(&'a Fabric),
    /// `fi_cntr_wait`.
    Counter(&'a Cntr),
    /// `fi_wait`.
    Set(&'a crate::fi::WaitSet),
}

/// An event that one side makes for the other one.
#[derive(Clone, Copy)]
enum Action {
    /// A message.
    Message,
    /// A message of which the sender awaits the acknowledgment.
    Acknowledged,
    /// A write with remote CQ data.
    Write(Remote),
}

/// One side: its objects, the address of its peer, and its counts.
struct Side<'a> {
    ep: &'a Ep,
    cq: &'a Cq,
    peer: u64,
    sleep: Sleep<'a>,
    action: Action,
    sent: u64,
    arrived: u64,
    pauses: Pauses,
}

impl<'a> Side<'a> {
    fn new(ep: &'a Ep, cq: &'a Cq, peer: u64, sleep: Sleep<'a>, action: Action) -> Self {
        Self { ep, cq, peer, sleep, action, sent: 0, arrived: 0, pauses: Pauses(peer + 1) }
    }

    /// All rounds; the one that `begins` acts first in each.
    fn play(mut self, rounds: u64, begins: bool) -> Result<()> {
        for round in 1..=rounds {
            if begins {
                self.act(round)?;
            }
            while self.arrived < round {
                self.sleep(round)?;
            }
            if !begins {
                self.act(round)?;
            }
        }
        Ok(())
    }

    fn act(&mut self, round: u64) -> Result<()> {
        self.pauses.pause();
        let mem = Mem::zeroed(8);
        let (ep, peer) = (self.ep, self.peer);
        match self.action {
            Action::Message => self.post(|| ep.send(mem, peer, Context::null())),
            Action::Write(to) => self.post(|| ep.writedata(mem, round, to, Context::null())),
            Action::Acknowledged => {
                let message = Message::new(mem, peer, Context::new());
                let flags = abi::FI_DELIVERY_COMPLETE | abi::FI_COMPLETION;
                self.post(|| ep.sendmsg(&message, flags))?;
                while self.sent < round {
                    self.sleep(round)?;
                }
                Ok(())
            }
        }
    }

    /// Repeats a call while it answers `-FI_EAGAIN`.
    fn post(&mut self, mut call: impl FnMut() -> Answer) -> Result<()> {
        loop {
            match call() {
                Err(Errno(abi::FI_EAGAIN)) => self.read()?,
                answer => return answer.context("a post"),
            }
        }
    }

    /// Sleeps once, and counts the completions.
    fn sleep(&mut self, round: u64) -> Result<()> {
        let missed = || format!("round {round}: nothing in {LIMIT_MS} ms");
        match self.sleep {
            Sleep::Sread => {
                let completions = self.cq.sread(4, LIMIT_MS).with_context(missed)?;
                self.count(&completions)?;
            }
            Sleep::Descriptor(fabric) => {
                if fabric.trywait(&[self.cq]).is_ok() {
                    ensure!(poll_fd(self.cq.wait_fd()?, LIMIT_MS)?, "{}", missed());
                }
            }
            Sleep::Counter(cntr) => cntr.wait(round, LIMIT_MS).with_context(missed)?,
            Sleep::Set(set) => set.wait(LIMIT_MS).with_context(missed)?,
        }
        self.read()
    }

    fn read(&mut self) -> Result<()> {
        match self.cq.read(4) {
            Ok(completions) => self.count(&completions),
            Err(Errno(abi::FI_EAGAIN)) => Ok(()),
            Err(errno) => Err(errno).context("fi_cq_read"),
        }
    }

    /// Counts completions, and posts a receive for each that has received a message.
    fn count(&mut self, completions: &[Completion]) -> Result<()> {
        for completion in completions {
            let received = completion.flags & abi::FI_RECV != 0;
            if received {
                self.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::null())?;
            }
            if received || completion.flags & abi::FI_REMOTE_CQ_DATA != 0 {
                self.arrived += 1;
            } else {
                self.sent += 1;
            }
        }
        Ok(())
    }
}

/// Plays two sides on a thread each.
fn play(a: Side<'_>, b: Side<'_>) -> Result<()> {
    let rounds = rounds()?;
    for side in [&a, &b] {
        side.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::null())?;
    }
    std::thread::scope(|scope| {
        let a = scope.spawn(move || a.play(rounds, true));
        let b = b.play(rounds, false);
        a.join().expect("no panic").context("the first side")?;
        b.context("the second side")
    })
}

/// Two sides of a group that sleep in the same way.
fn play_group(group: &Group, sleep: Sleep<'_>, action: Action) -> Result<()> {
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    let (a, b) = (group.a(), group.b());
    play(
        Side::new(&a.ep, &a.cq, group.to_b(), sleep, action),
        Side::new(&b.ep, &b.cq, group.to_a(), sleep, action),
    )
}

/// `fi_cq(3)`, `fi_cq_sread`.
fn messages_wake_blocking_reads(world: &World) -> Result<()> {
    let group = world.group(&Setup { wait: abi::FI_WAIT_UNSPEC, ..Setup::default() })?;
    play_group(&group, Sleep::Sread, Action::Message)?;
    group.close()
}

/// `fi_poll(3)`, `fi_trywait`.
fn messages_wake_sleepers_on_a_descriptor(world: &World) -> Result<()> {
    let group = world.group(&Setup { wait: abi::FI_WAIT_FD, ..Setup::default() })?;
    play_group(&group, Sleep::Descriptor(&group.fabric), Action::Message)?;
    group.close()
}

/// `fi_cntr(3)`, `fi_cntr_wait`.
fn messages_wake_waits_for_a_counter(world: &World) -> Result<()> {
    let mut group = world.closed_group(&Setup::default())?;
    let open = |node: &Node| optional(node.domain.cntr(), "fi_cntr_open");
    let counters = [open(group.a())?, open(group.b())?];
    for (node, cntr) in group.nodes.iter().zip(&counters) {
        optional(node.ep.bind(cntr, abi::FI_RECV), "fi_ep_bind of a counter")?;
    }
    group.enable()?;
    group.exchange_names()?;
    let (a, b) = (group.a(), group.b());
    let [of_a, of_b] = &counters;
    play(
        Side::new(&a.ep, &a.cq, group.to_b(), Sleep::Counter(of_a), Action::Message),
        Side::new(&b.ep, &b.cq, group.to_a(), Sleep::Counter(of_b), Action::Message),
    )?;
    for (node, cntr) in group.nodes.iter().zip(counters) {
        node.ep.close()?;
        cntr.close()?;
    }
    group.close_rest()
}

/// An endpoint with queues of its own at a node of a group in `world`, which may be at `host`.
fn endpoint(
    world: &World,
    node: &Node,
    host: Option<&Host>,
    [sent, received]: [&Cq; 2],
) -> Result<Ep> {
    let open = |world: &World| {
        let info = world.offer(&Setup::default())?;
        node.domain.endpoint(&info, Context::null()).context("fi_endpoint")
    };
    let ep = match host {
        Some(host) => host.run(|| open(&world.at(host)))?,
        None => open(world)?,
    };
    ep.bind(sent, abi::FI_TRANSMIT)?;
    ep.bind(received, abi::FI_RECV)?;
    ep.bind(&node.av, 0)?;
    ep.enable()?;
    Ok(ep)
}

/// The address of `ep` in the vector of `node`.
fn insert(ep: &Ep, node: &Node) -> Result<u64> {
    Ok(node.av.insert(&ep.getname(crate::group::NAME_ROOM).0?)?)
}

/// `fi_poll(3)`, `fi_wait`.
fn messages_wake_a_wait_set(world: &World) -> Result<()> {
    let group = world.group(&Setup::default())?;
    let mut attr = abi::fi_wait_attr { wait_obj: abi::FI_WAIT_UNSPEC, flags: 0 };
    let mut open = |node: &Node, host| -> Result<_> {
        let set = optional(group.fabric.wait_set(&mut attr), "fi_wait_open")?;
        let mut cq = cq_attr(&Setup::default());
        (cq.wait_obj, cq.wait_set) = (abi::FI_WAIT_SET, set.raw());
        let cq = node.domain.cq(&mut cq, Context::null())?;
        let ep = endpoint(world, node, host, [&cq, &cq])?;
        Ok((set, cq, ep))
    };
    let (a, b) = (open(group.a(), None)?, open(group.b(), world.other.as_ref())?);
    let (to_b, to_a) = (insert(&b.2, group.a())?, insert(&a.2, group.b())?);
    play(
        Side::new(&a.2, &a.1, to_b, Sleep::Set(&a.0), Action::Message),
        Side::new(&b.2, &b.1, to_a, Sleep::Set(&b.0), Action::Message),
    )?;
    for (set, cq, ep) in [a, b] {
        ep.close()?;
        cq.close()?;
        set.close()?;
    }
    group.close()
}

/// `fi_rma(3)`, `fi_writedata`: a target sleeps until remote CQ data comes.
fn writes_with_data_wake_blocking_reads(world: &World) -> Result<()> {
    let caps = abi::FI_MSG | abi::FI_RMA;
    let group = world.group(&Setup { wait: abi::FI_WAIT_UNSPEC, ..Setup::caps(caps) })?;
    let (a, b) = (group.a(), group.b());
    let expose =
        |node: &Node, key| node.expose(&group.info, Mem::zeroed(8), abi::FI_REMOTE_WRITE, key);
    let (of_a, of_b) = (expose(a, 1)?, expose(b, 2)?);
    let (to_b, to_a) = (group.to_b(), group.to_a());
    play(
        Side::new(&a.ep, &a.cq, to_b, Sleep::Sread, Action::Write(of_b.remote(to_b))),
        Side::new(&b.ep, &b.cq, to_a, Sleep::Sread, Action::Write(of_a.remote(to_a))),
    )?;
    for region in [of_a, of_b] {
        region.mr.close()?;
    }
    group.close()
}

/// `fi_cq(3)`, completion levels: a sender sleeps until its message is acknowledged.
fn acknowledgments_wake_blocking_reads(world: &World) -> Result<()> {
    let group = world.group(&Setup { wait: abi::FI_WAIT_UNSPEC, ..Setup::default() })?;
    play_group(&group, Sleep::Sread, Action::Acknowledged)?;
    group.close()
}

/// `fi_domain(3)`, `FI_THREAD_SAFE`: the sleepers' messages are received by calls of a third
/// thread, which reads other queues of their endpoints.
fn woken_by_another_thread(world: &World, wait: abi::fi_wait_obj) -> Result<()> {
    let setup = Setup { wait, ..Setup::default() };
    let group = world.group(&setup)?;
    let open = |node: &Node, host| -> Result<_> {
        let sent = node.domain.cq(&mut cq_attr(&Setup::default()), Context::null())?;
        let received = node.domain.cq(&mut cq_attr(&setup), Context::null())?;
        let ep = endpoint(world, node, host, [&sent, &received])?;
        Ok((sent, received, ep))
    };
    let (a, b) = (open(group.a(), None)?, open(group.b(), world.other.as_ref())?);
    let (to_b, to_a) = (insert(&b.2, group.a())?, insert(&a.2, group.b())?);
    let sleep =
        if wait == abi::FI_WAIT_FD { Sleep::Descriptor(&group.fabric) } else { Sleep::Sread };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for queue in [&a.0, &b.0] {
                    let _ = queue.read(4);
                }
                std::thread::yield_now();
            }
        });
        let played = play(
            Side::new(&a.2, &a.1, to_b, sleep, Action::Message),
            Side::new(&b.2, &b.1, to_a, sleep, Action::Message),
        );
        done.store(true, Ordering::Relaxed);
        played
    })?;
    for (sent, received, ep) in [a, b] {
        ep.close()?;
        sent.close()?;
        received.close()?;
    }
    group.close()
}

/// `fi_cq(3)`, `fi_cq_sread`, beside another thread.
fn progress_of_another_thread_wakes_blocking_reads(world: &World) -> Result<()> {
    woken_by_another_thread(world, abi::FI_WAIT_UNSPEC)
}

/// `fi_poll(3)`, `fi_trywait`, beside another thread.
fn progress_of_another_thread_wakes_sleepers_on_a_descriptor(world: &World) -> Result<()> {
    woken_by_another_thread(world, abi::FI_WAIT_FD)
}

/// Two threads that wake each other by `act`, and sleep in `sleep`, for an object each. `sleep`
/// fails where nothing has woken it.
fn alternate<T: Sync>(
    objects: &[T; 2],
    act: impl Fn(&T, u64) -> Result<()> + Sync,
    sleep: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    let rounds = rounds()?;
    let side = |own: usize| {
        let mut pauses = Pauses(own as u64);
        (1..=rounds).try_for_each(|round| {
            if own == 1 {
                sleep(&objects[own]).with_context(|| format!("round {round}"))?;
            }
            pauses.pause();
            act(&objects[1 - own], round)?;
            if own == 0 {
                sleep(&objects[own]).with_context(|| format!("round {round}"))?;
            }
            anyhow::Ok(())
        })
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| side(0));
        let second = side(1);
        first.join().expect("no panic").context("the first side")?;
        second.context("the second side")
    })
}

/// `fi_cq(3)`, `fi_cq_signal`.
fn signals_wake_blocking_reads(world: &World) -> Result<()> {
    let group = world.group(&Setup { wait: abi::FI_WAIT_UNSPEC, ..Setup::default() })?;
    optional(group.a().cq.signal(), "fi_cq_signal")?;
    let limit = Duration::from_millis(LIMIT_MS as u64);
    let sleep = |cq: &&Cq| {
        let start = Instant::now();
        let answer = cq.sread(1, LIMIT_MS);
        ensure!(start.elapsed() < limit, "not woken in {limit:?}: {answer:?}");
        Ok(())
    };
    sleep(&&group.a().cq)?;
    let queues = [&group.a().cq, &group.b().cq];
    alternate(&queues, |cq, _| cq.signal().context("fi_cq_signal"), sleep)?;
    group.close()
}

/// `fi_eq(3)`, `fi_eq_sread`, `fi_eq_write`.
fn written_events_wake_blocking_reads(world: &World) -> Result<()> {
    let group = world.group(&Setup::default())?;
    let open = || {
        let eq = group.fabric.eq(&mut eq_attr(abi::FI_WAIT_UNSPEC), Context::null());
        optional(eq, "fi_eq_open")
    };
    let queues = [open()?, open()?];
    alternate(
        &queues,
        |eq, round| match eq.write(abi::FI_NOTIFY, std::ptr::null_mut(), round) {
            Ok(_) => Ok(()),
            Err(errno) => bail!("fi_eq_write: {errno}"),
        },
        |eq| eq.sread(LIMIT_MS).context("nothing was read").map(drop),
    )?;
    for queue in queues {
        queue.close()?;
    }
    group.close()
}
