// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults of the network: an interface goes down, an XDP program is detached, an MTU becomes
//! smaller. Each ends after a while.
//!
//! In: random numbers. Out: changes of the hosts. Caller: the run. Bounds: one fault at a time, of
//! [`LENGTH_MAX`] at most, as far as the kernel is in time. A thread of their own makes them:
//! nothing else that the run waits for makes a fault longer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use ofi_xdp_harness::cluster::{Cluster, INTERFACE};
use ofi_xdp_harness::kernel::Host;
use ofi_xdp_test_kit::rng::Rng;

/// Pause between two looks at the time.
const TURN: Duration = Duration::from_millis(5);
/// The longest time that a fault may take with the kernel's work at both ends, which waits for that
/// of other processes there. After a longer one the peer time-out would prove nothing.
const TAKEN_MAX: Duration = Duration::from_secs(15);
/// The peer time-out, and the time limit of connection requests, in milliseconds. AF_XDP comes
/// back within four seconds after a fault.
pub(crate) const PEER_TIMEOUT: &str = "20000";
/// Longest fault, and longest pause between two.
const LENGTH_MAX: Duration = Duration::from_millis(1_500);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The smallest MTU of a fault, and the largest; interfaces have one more.
const MTU_MIN: u64 = 1280;
const MTU_MAX: u64 = 1499;

/// Counts of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FaultCounts {
    pub(crate) downs: u64,
    pub(crate) detached: u64,
    pub(crate) mtus: u64,
    /// The longest one, with the kernel's work at both ends.
    pub(crate) longest: Duration,
}

/// The present fault, or the pause before the next one.
#[derive(Debug)]
struct Faults {
    random: Rng,
    /// When the next change is due.
    due: Instant,
    /// The host of the present fault, and the arguments of `ip link set` that end it.
    present: Option<(usize, &'static [&'static str])>,
    begun: Instant,
    counts: FaultCounts,
}

/// Runs `body` beside faults in the order of `seed`. Returns its result and their counts. There is
/// no fault at the end.
///
/// # Errors
/// That of `body`; when a tool fails, or a fault takes too long.
pub(crate) fn beside<T>(
    seed: u64,
    cluster: &Cluster,
    body: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, FaultCounts)> {
    let stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        let faults = scope.spawn(|| Faults::new(seed).run(cluster, &stopped));
        let result = body();
        stopped.store(true, Ordering::Relaxed);
        let counts = faults.join().map_err(|_| anyhow!("the faults have ended"))?;
        // Too long a fault is the cause of the other errors.
        let counts = counts.map_err(|error| match &result {
            Ok(_) => error,
            Err(also) => error.context(format!("{also:#}")),
        })?;
        Ok((result?, counts))
    })
}

impl Faults {
    /// Faults in the order of `seed`; the first one after a pause.
    fn new(seed: u64) -> Self {
        let (random, counts, begun) =
            (Rng::new(seed, "faults"), FaultCounts::default(), Instant::now());
        Self { random, due: begun + PAUSE_MAX, present: None, begun, counts }
    }

    fn run(mut self, cluster: &Cluster, stopped: &AtomicBool) -> anyhow::Result<FaultCounts> {
        while !stopped.load(Ordering::Relaxed) {
            self.turn(cluster)?;
            thread::sleep(TURN);
        }
        self.end(cluster)?;
        Ok(self.counts)
    }

    /// Begins or ends a fault, if that is due.
    ///
    /// # Errors
    /// When a tool fails.
    fn turn(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        if Instant::now() < self.due {
            return Ok(());
        }
        if self.present.is_some() {
            self.end(cluster)?;
        } else {
            self.begin(cluster)?;
        }
        let most = if self.present.is_some() { LENGTH_MAX } else { PAUSE_MAX };
        let pause = Duration::from_millis(self.random.within(50, most.as_millis() as u64));
        self.due = Instant::now() + pause;
        Ok(())
    }

    /// Ends the present fault.
    ///
    /// # Errors
    /// When `ip` fails, or the fault has taken too long.
    fn end(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        let Some((host, arguments)) = self.present.take() else { return Ok(()) };
        set(cluster, host, arguments)?;
        let taken = self.begun.elapsed();
        self.counts.longest = self.counts.longest.max(taken);
        ensure!(
            taken < TAKEN_MAX,
            "a fault on host {host} took {taken:?} until `ip link set {}` returned: this machine \
             is too slow for the rules of the run",
            arguments.join(" ")
        );
        Ok(())
    }

    /// Begins a fault. A detached program is attached again by its endpoints.
    fn begin(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        let host = self.random.index(cluster.hosts().len());
        self.begun = Instant::now();
        match self.random.below(3) {
            0 => {
                self.counts.downs += 1;
                self.present = Some((host, &["up"]));
                set(cluster, host, &["down"])
            }
            1 => {
                self.counts.mtus += 1;
                self.present = Some((host, &["mtu", "1500"]));
                set(cluster, host, &["mtu", &self.random.within(MTU_MIN, MTU_MAX).to_string()])
            }
            _ => {
                let kernel = Host(cluster.hosts().get(host));
                // Without a program the endpoints are about to attach one.
                if kernel.attachment(INTERFACE)?.is_some() && kernel.detach(INTERFACE).is_ok() {
                    self.counts.detached += 1;
                }
                Ok(())
            }
        }
    }
}

/// `ip link set` on a host.
fn set(cluster: &Cluster, host: usize, arguments: &[&str]) -> anyhow::Result<()> {
    let host = cluster.hosts().get(host).context("no such host")?;
    host.ip(&[&["link", "set", INTERFACE][..], arguments].concat()).map(drop)
}
