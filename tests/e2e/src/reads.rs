// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads of a completion queue whose instructions callgrind counts.
//!
//! In: a number of messages. Out: a line for the program that counts, or an error if too many
//! messages came late. The thread of the provider's domain has the processor only while this one
//! sleeps. Otherwise a counted read waits for the thread's lock, or finds no packet any more.

use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::pair::{LIFE, Pair, TAG, say};

/// Functions that callgrind must tell apart.
mod mark {
    use ofi_xdp_libfabric::{Endpoint, Error};

    /// Reads the queue of an endpoint with a message waiting in its socket; whether there was one
    /// completion.
    #[inline(never)]
    pub(super) fn cq_read(end: &mut Endpoint) -> Result<bool, Error> {
        end.poll(|_| ()).map(|count| count == 1)
    }
}

/// Sends and reads `count` messages.
///
/// # Errors
/// More than one message of a hundred was not there at once.
pub(super) fn run(local: IpAddr, count: u64) -> anyhow::Result<()> {
    let mut pair = Pair::open(local)?;
    pair.deadline = Instant::now() + LIFE;
    pair.exchange(0)?;
    idle_other_threads()?;
    let mut late = 0;
    for number in 0..count {
        pair.ends[1].receive(0, Some(TAG))?;
        ensure!(pair.send(0)?, "message {number} was not taken");
        // The loopback interface delivers before the send returns. On a busy machine an earlier
        // packet may have been sent twice, and is then found first.
        let (mut received, mut sent) = (mark::cq_read(&mut pair.ends[1])?, false);
        late += u64::from(!received);
        while !(received && sent) {
            ensure!(Instant::now() < pair.deadline, "message {number} was not acknowledged");
            pair.ends[1].poll(|_| received = true)?;
            pair.ends[0].poll(|_| sent = true)?;
        }
    }
    ensure!(late <= count / 100, "{late} messages of {count} were not there at once");
    say(&format!("{count} 0 0"))
}

/// Puts all threads on one processor, and the others behind this one (sched(7), `SCHED_IDLE`).
fn idle_other_threads() -> anyhow::Result<()> {
    let mut one = CpuSet::new();
    one.set(0)?;
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.file_name().to_string_lossy().into_owned();
        let thread = Pid::from_raw(task.parse()?);
        sched_setaffinity(thread, &one).context("a thread cannot be put on processor 0")?;
        if thread == Pid::this() {
            continue;
        }
        let mut chrt = Command::new("chrt");
        let status = chrt.args(["--idle", "--pid", "0", &task]).stdout(Stdio::null()).status();
        let status = status.context("chrt (package util-linux) did not start")?;
        ensure!(status.success(), "chrt: thread {task} does not become idle");
    }
    Ok(())
}
