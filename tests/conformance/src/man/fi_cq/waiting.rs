// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections `fi_cq_sread`, `fi_cq_signal`, wait objects.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::setup::{arrived, readable};
use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Context, Errno, Fid, Mem};
use crate::group::cq_attr;
use crate::world::{EVENT_TIMEOUT, Setup, World, not_offered, optional, refused};

/// A setup with queues that can be waited for.
fn waiting(wait: abi::fi_wait_obj) -> Setup {
    Setup { wait, ..Setup::caps(abi::FI_MSG | abi::FI_SOURCE) }
}

/// Section `fi_cq_sread`: it waits as long as the argument says.
pub(super) fn sread_ends_with_its_time(world: &World) -> Result<()> {
    for wait in [abi::FI_WAIT_UNSPEC, abi::FI_WAIT_FD] {
        let group = world.group(&waiting(wait))?;
        let start = Instant::now();
        let answer = group.b().cq.sread(1, 150);
        refused(answer, &[abi::FI_EAGAIN, abi::FI_ETIMEDOUT], "nothing in 150 ms")?;
        let took = start.elapsed();
        ensure!(took >= Duration::from_millis(140), "it waited {took:?}");
        ensure!(took < Duration::from_secs(4), "it waited {took:?}");
        group.close()?;
    }
    Ok(())
}

/// Section `fi_cq_sread`: entries that are there are returned at once.
pub(super) fn sread_returns_existing_entries(world: &World) -> Result<()> {
    let group = arrived(world, &waiting(abi::FI_WAIT_UNSPEC), 1)?;
    ensure!(group.b().cq.sread(4, 5000)?.len() == 1, "not one");
    group.close()
}

/// Section `fi_cq_sread`: an arrival ends the wait; the sender is another thread.
pub(super) fn sread_wakes_for_an_arrival(world: &World) -> Result<()> {
    for wait in [abi::FI_WAIT_UNSPEC, abi::FI_WAIT_FD] {
        let group = world.group(&waiting(wait))?;
        group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
        group.post(|| group.b().ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, Context::new()))?;
        let (a, to_b) = (group.a(), group.to_b());
        let start = Instant::now();
        let taken = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                a.ep.send(Mem::zeroed(8), to_b, Context::new())?;
                for _ in 0..100 {
                    let _ = a.cq.progress();
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok::<(), Errno>(())
            });
            group.b().cq.sread(1, 6000)
        })?;
        ensure!(taken.len() == 1, "{taken:?}");
        ensure!(start.elapsed() < Duration::from_secs(3), "it woke after {:?}", start.elapsed());
        group.close()?;
    }
    Ok(())
}

/// Section `fi_cq_sread`: a queue without a wait object cannot be waited for.
pub(super) fn sread_of_no_wait_object_is_refused(world: &World) -> Result<()> {
    let group = world.group(&waiting(abi::FI_WAIT_NONE))?;
    let answer = group.b().cq.sread(1, 10);
    let errors = [abi::FI_ENOSYS, abi::FI_EINVAL, abi::FI_EOPNOTSUPP, abi::FI_EAGAIN];
    refused(answer, &errors, "FI_WAIT_NONE")?;
    group.close()
}

/// Section `fi_cq_sread`, `FI_CQ_COND_THRESHOLD`: a hint to wait for several; fewer may end the
/// wait.
pub(super) fn sread_with_a_threshold(world: &World) -> Result<()> {
    let group = world.group(&waiting(abi::FI_WAIT_UNSPEC))?;
    let mut attr = cq_attr(&waiting(abi::FI_WAIT_UNSPEC));
    attr.wait_cond = abi::FI_CQ_COND_THRESHOLD;
    let Ok(cq) = group.a().domain.cq(&mut attr, Context::null()) else {
        return not_offered("FI_CQ_COND_THRESHOLD");
    };
    let answer = cq.sread_threshold(4, 2, 50);
    refused(answer, &[abi::FI_EAGAIN, abi::FI_ETIMEDOUT], "nothing in 50 ms")?;
    cq.close()?;
    group.close()
}

/// Section `fi_cq_sreadfrom`: waits, and reports the sender.
pub(super) fn sreadfrom_tells_the_source(world: &World) -> Result<()> {
    let group = arrived(world, &waiting(abi::FI_WAIT_UNSPEC), 1)?;
    let taken = group.b().cq.sreadfrom(4, 5000)?;
    ensure!(taken.len() == 1 && taken[0].from == group.to_a(), "{taken:?}");
    group.close()
}

/// Section `fi_cq_signal`: ends the wait of another thread.
pub(super) fn signal_wakes_a_reader(world: &World) -> Result<()> {
    let group = world.group(&waiting(abi::FI_WAIT_UNSPEC))?;
    let cq = &group.b().cq;
    let start = Instant::now();
    let (signalled, answer) = std::thread::scope(|scope| {
        let signaller = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            cq.signal()
        });
        let answer = cq.sread(1, 6000);
        (signaller.join().expect("no panic"), answer)
    });
    optional(signalled, "fi_cq_signal")?;
    refused(answer, &[abi::FI_EAGAIN, abi::FI_EINTR, abi::FI_ECANCELED], "a signal")?;
    ensure!(start.elapsed() < Duration::from_secs(3), "it woke after {:?}", start.elapsed());
    group.close()
}

/// Section `fi_cq_signal`: it completes no operation, and later reads are unchanged.
pub(super) fn signal_is_not_a_completion(world: &World) -> Result<()> {
    let group = world.group(&waiting(abi::FI_WAIT_UNSPEC))?;
    optional(group.b().cq.signal(), "fi_cq_signal")?;
    refused(group.b().cq.read(1), &[abi::FI_EAGAIN], "an empty queue")?;
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    group.close()
}

/// Section `fi_cq_open`, `FI_WAIT_FD`: after `fi_trywait` the descriptor becomes readable when
/// there is something to read.
pub(super) fn wait_fd_becomes_readable(world: &World) -> Result<()> {
    let group = world.group(&waiting(abi::FI_WAIT_FD))?;
    let (a, b, to_b) = (group.a(), group.b(), group.to_b());
    group.exchange(Mem::zeroed(8), Mem::zeroed(8))?;
    let fd = b.cq.wait_fd()?;
    ensure!(fd >= 0, "descriptor {fd}");
    let receive = Context::new();
    group.post(|| b.ep.recv(Mem::zeroed(8), FI_ADDR_UNSPEC, receive))?;
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(80));
            let answer = a.ep.send(Mem::zeroed(8), to_b, Context::new());
            for _ in 0..50 {
                let _ = a.cq.progress();
                std::thread::sleep(Duration::from_millis(2));
            }
            answer
        });
        // The loop that fi_poll(3) shows.
        let end = Instant::now() + EVENT_TIMEOUT;
        loop {
            match b.cq.read(1) {
                Ok(taken) => {
                    ensure!(taken[0].context == receive.ptr(), "{taken:?}");
                    break;
                }
                Err(errno) => ensure!(errno.0 == abi::FI_EAGAIN, "{errno}"),
            }
            ensure!(Instant::now() < end, "the message does not arrive");
            if group.fabric.trywait(&[&b.cq]).is_ok() {
                readable(fd, 2000)?;
            }
        }
        sender.join().expect("no panic")?;
        Ok(())
    })?;
    group.close()
}
