// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests under way to a resident, and the check of their answers.
//!
//! In: free buffers, answers. Out: requests to post. Callers: residents and visitors. Bounds: a
//! window, and [`AWAY_MAX`] until each answer.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use ofi_xdp_libfabric::{Endpoint, Name, Peer};

use crate::payload;
use crate::slots::{Next, Waiting};

/// The longest time until an answer. An interface may be down, or a packet too long, for the half
/// of it.
pub(crate) const AWAY_MAX: Duration = Duration::from_secs(30);

/// Requests to one resident at a time.
#[derive(Debug)]
pub(crate) struct Requests {
    /// The name of this side.
    name: Name,
    /// Buffers of requests that are free.
    free: Vec<usize>,
    /// Numbers of the requests without an answer, and when they were made.
    away: BTreeMap<u64, Instant>,
    next: u64,
    /// Verified answers.
    pub(crate) verified: u64,
}

impl Requests {
    /// Requests from the buffers `slots`.
    pub(crate) fn new(name: Name, slots: Range<usize>) -> Self {
        Self { name, free: slots.collect(), away: BTreeMap::new(), next: 0, verified: 0 }
    }

    /// Makes a request to `peer`, if a buffer is free and fewer than `window` are under way.
    pub(crate) fn make(
        &mut self,
        endpoint: &mut Endpoint,
        waiting: &mut Waiting,
        (peer, window): (Peer, usize),
    ) -> anyhow::Result<bool> {
        if self.away.len() >= window {
            return Ok(false);
        }
        let Some(slot) = self.free.pop() else { return Ok(false) };
        let len = payload::fill(self.next, &self.name, endpoint.bytes(slot)?)?;
        waiting.push(slot, Next::Send(len, peer, payload::REQUEST));
        self.away.insert(self.next, Instant::now());
        self.next += 1;
        Ok(true)
    }

    /// Takes back the buffer of a request that has left.
    pub(crate) fn sent(&mut self, slot: usize) {
        self.free.push(slot);
    }

    /// Verifies an answer.
    ///
    /// # Errors
    /// When it is damaged, comes twice, or answers nothing.
    pub(crate) fn answered(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let (number, name) = payload::verify(bytes)?;
        ensure!(name.0 == self.name.0, "answer {number} is for another one");
        self.away.remove(&number).with_context(|| format!("answer {number} came twice"))?;
        self.verified += 1;
        Ok(())
    }

    /// Whether no answer is missing.
    pub(crate) fn is_done(&self) -> bool {
        self.away.is_empty()
    }

    /// Fails if an answer is missing for too long.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let late = self.away.iter().find(|(_, made)| made.elapsed() > AWAY_MAX);
        let late = late.map(|(number, _)| *number);
        ensure!(late.is_none(), "no answer to request {late:?} within {AWAY_MAX:?}");
        Ok(())
    }
}
