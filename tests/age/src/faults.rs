// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults of the network: an interface goes down, an XDP program is detached, an MTU becomes
//! smaller. Each ends after a while.
//!
//! In: random numbers. Out: changes of the hosts. Caller: the run. Bounds: one fault at a time, of
//! [`LENGTH_MAX`] at most.

use std::time::{Duration, Instant};

use anyhow::Context;
use ofi_xdp_harness::cluster::{Cluster, INTERFACE};
use ofi_xdp_harness::kernel::Host;
use ofi_xdp_test_kit::rng::Rng;

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
}

/// The present fault, or the pause before the next one.
#[derive(Debug)]
pub(crate) struct Faults {
    random: Rng,
    /// When the next change is due.
    due: Instant,
    /// The host of the present fault, and the arguments of `ip link set` that end it.
    present: Option<(usize, &'static [&'static str])>,
    pub(crate) counts: FaultCounts,
}

impl Faults {
    /// Faults in the order of `seed`; the first one after a pause.
    pub(crate) fn new(seed: u64) -> Self {
        let (random, counts) = (Rng::new(seed, "faults"), FaultCounts::default());
        Self { random, due: Instant::now() + PAUSE_MAX, present: None, counts }
    }

    /// Begins or ends a fault, if that is due.
    ///
    /// # Errors
    /// When a tool fails.
    pub(crate) fn turn(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
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
    /// When `ip` fails.
    pub(crate) fn end(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        let Some((host, arguments)) = self.present.take() else { return Ok(()) };
        set(cluster, host, arguments)
    }

    /// Begins a fault. A detached program is attached again by its endpoints.
    fn begin(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        let host = self.random.index(cluster.hosts().len());
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
