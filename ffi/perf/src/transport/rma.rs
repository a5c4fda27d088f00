// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transport over libfabric's one-sided operations, with any provider. A message is a write
//! with remote CQ data into the other side's buffers. Blocks can be read from there.
//!
//! The buffers are used in turn. The client sends no more than half of them before it has an
//! answer, so a buffer is never overwritten before its message was consumed.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::open::{EndpointOpening, Opened, Requirements, buffers_for};
use super::{SessionSide, Transport};
use crate::plan::Fetch;
use crate::report::Description;
use ofi_xdp_libfabric::{
    Completion, Endpoint, Error, Info, Name, Operation, Peer, RemoteBuffer, RemoteRegion, Route,
    Wait,
};

/// Longest wait for room, for an operation of this side to end, and for the peer's region.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The provider.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RmaConfig {
    /// The provider's full name: `xdp`, `tcp`, `tcp;ofi_rxm`.
    pub provider: String,
    /// Whether atomic operations are needed.
    pub atomic: bool,
}

/// An open endpoint without a peer.
#[derive(Debug)]
pub struct RmaPending(EndpointOpening);

/// An endpoint, with the buffers of its peer.
#[derive(Debug)]
pub struct RmaTransport {
    endpoint: Endpoint,
    description: Description,
    peer: Peer,
    region: RemoteRegion,
    inject_max: usize,
    /// Number of buffers for each direction: the first half is this side's source of writes, the
    /// second half the destination of the other side's.
    half: usize,
    /// The buffer for the next operation.
    next: usize,
    /// Remote CQ data of messages that arrived while there was no room to write; no more than there
    /// are unanswered windows.
    stored: VecDeque<u64>,
    took: Duration,
}

impl Transport for RmaTransport {
    type Config = RmaConfig;
    type Pending = RmaPending;

    fn open(
        config: &RmaConfig,
        role: SessionSide,
        local: IpAddr,
        size_max: usize,
    ) -> anyhow::Result<RmaPending> {
        let provider = config.provider.clone();
        let requirements = Requirements {
            provider,
            tagged: false,
            connected: false,
            rma: true,
            atomic: config.atomic,
            auto_progress: false,
            local,
        };
        let setup = buffers_for(size_max.max(RemoteRegion::LEN), Wait::Spin);
        Ok(RmaPending(EndpointOpening::begin(requirements, role, setup)?))
    }

    fn name(pending: &RmaPending) -> anyhow::Result<Name> {
        pending.0.name()
    }

    fn establish(pending: RmaPending, peer: &Name) -> anyhow::Result<Self> {
        let Opened { info, mut endpoint, peer, took } = pending.0.finish(peer)?;
        let region = exchange(&mut endpoint, &info, peer)?;
        let description = Description {
            provider: info.provider(),
            domain: info.domain(),
            endpoint: Some(info.kind()),
            wait: String::from("spin"),
            tagged: false,
        };
        let (inject_max, half) = (info.inject_size(), endpoint.slots() / 2);
        let stored = VecDeque::with_capacity(half);
        Ok(Self { endpoint, description, peer, region, inject_max, half, next: 0, stored, took })
    }

    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn is_reliable(&self) -> bool {
        true
    }

    fn sleeps(&self) -> bool {
        false
    }

    fn unanswered_max(&self) -> Option<usize> {
        Some(self.half)
    }

    fn opening(&self) -> Duration {
        self.took
    }

    #[inline]
    fn send(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> anyhow::Result<()> {
        let slot = self.take_slot()?;
        fill(&mut self.endpoint.bytes(slot)?[..len]);
        let remote = self.remote(slot);
        let data = (slot as u64) << 32 | len as u64;
        let inject = len <= self.inject_max;
        self.until_room(|endpoint| match inject {
            true => endpoint.inject_write_data(slot, len, remote, data),
            false => endpoint.write_data(slot, len, remote, data),
        })
    }

    #[inline]
    fn poll(&mut self, mut sink: impl FnMut(&[u8])) -> anyhow::Result<usize> {
        let (mut arrived, mut count) = ([0; BATCH], 0);
        // bound: BATCH
        while let Some(data) = (count < BATCH).then(|| self.stored.pop_front()).flatten() {
            arrived[count] = data;
            count += 1;
        }
        let stored = &mut self.stored;
        self.endpoint.poll(|completion| match completion.operation {
            Operation::RemoteWrite if count < BATCH => {
                arrived[count] = completion.data;
                count += 1;
            }
            Operation::RemoteWrite => stored.push_back(completion.data),
            _ => {}
        })?;
        for data in &arrived[..count] {
            let (slot, len) = ((data >> 32) as usize, (data & 0xffff_ffff) as usize);
            ensure!(slot < self.half, "remote CQ data {data:#x} names no buffer");
            let bytes = self.endpoint.bytes(self.half + slot)?;
            sink(&bytes[..len.min(bytes.len())]);
        }
        Ok(count)
    }

    fn fetch(&mut self, fetch: Fetch, len: usize, count: u32) -> anyhow::Result<()> {
        let mut posted = 0;
        let mut ended = 0;
        let deadline = Instant::now() + TIMEOUT;
        // bound: TIMEOUT
        while ended < count {
            while posted < count && self.endpoint.is_free(self.next) {
                let slot = self.next;
                let at = self.remote(slot);
                let answer = match fetch {
                    Fetch::Read => self.endpoint.read(slot, len, at),
                    Fetch::Add => {
                        self.endpoint.bytes(slot)?[..8].copy_from_slice(&1_u64.to_ne_bytes());
                        self.endpoint.fetch_add(slot, at)
                    }
                };
                match answer {
                    Ok(()) => {}
                    Err(Error::Again) => break,
                    Err(error) => {
                        return Err(error).with_context(|| format!("cannot post {fetch:?}"));
                    }
                }
                posted += 1;
                self.next = (slot + 1) % self.half;
            }
            let is_end = |completion: Completion| match fetch {
                Fetch::Read => completion.operation == Operation::Read,
                Fetch::Add => completion.operation == Operation::Atomic,
            };
            self.endpoint.poll(|completion| ended += u32::from(is_end(completion)))?;
            ensure!(ended == count || Instant::now() < deadline, "{fetch:?} has no result");
        }
        Ok(())
    }
}

/// Most completions of one poll.
const BATCH: usize = 64;

/// Exchanges the regions of both sides, by messages.
fn exchange(endpoint: &mut Endpoint, info: &Info, peer: Peer) -> anyhow::Result<RemoteRegion> {
    const INCOMING: usize = 0;
    const OUTGOING: usize = 1;
    let deadline = Instant::now() + TIMEOUT;
    endpoint.receive(INCOMING, None)?;
    let ours = endpoint.region(info)?.to_bytes();
    endpoint.bytes(OUTGOING)?[..ours.len()].copy_from_slice(&ours);
    let to = Route { peer, tag: None };
    let (mut posted, mut received, mut sent) = (false, false, false);
    // bound: TIMEOUT
    while !(received && sent) {
        if !posted {
            match endpoint.send(OUTGOING, ours.len(), to) {
                Ok(()) => posted = true,
                Err(Error::Again) => {}
                Err(error) => return Err(error).context("cannot tell the peer of our memory"),
            }
        }
        endpoint.poll(|completion| match completion.operation {
            Operation::Receive => received = true,
            Operation::Send => sent = true,
            _ => {}
        })?;
        if Instant::now() >= deadline {
            bail!("the peer did not tell of its memory");
        }
    }
    let theirs = endpoint.bytes(INCOMING)?;
    RemoteRegion::from_bytes(theirs).context("the peer's message is too short")
}

impl RmaTransport {
    /// The next source buffer, after the end of its previous operation.
    #[inline]
    fn take_slot(&mut self) -> anyhow::Result<usize> {
        let slot = self.next;
        self.next = (slot + 1) % self.half;
        let mut deadline = None;
        // bound: TIMEOUT
        while !self.endpoint.is_free(slot) {
            self.make_room(&mut deadline)?;
        }
        Ok(slot)
    }

    /// The peer's buffer that corresponds to `slot`.
    #[inline]
    fn remote(&self, slot: usize) -> RemoteBuffer {
        RemoteBuffer { peer: self.peer, region: self.region, slot: self.half + slot }
    }

    /// Repeats `post` until the provider has room.
    #[inline]
    fn until_room(
        &mut self,
        mut post: impl FnMut(&mut Endpoint) -> Result<(), Error>,
    ) -> anyhow::Result<()> {
        let mut deadline = None;
        // bound: TIMEOUT
        loop {
            match post(&mut self.endpoint) {
                Ok(()) => return Ok(()),
                Err(Error::Again) => self.make_room(&mut deadline)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Drives progress, which makes room. Messages that arrive meanwhile are kept: answers to
    /// windows before the last one, of which there are fewer than buffers.
    #[cold]
    fn make_room(&mut self, deadline: &mut Option<Instant>) -> anyhow::Result<()> {
        let by = *deadline.get_or_insert_with(|| Instant::now() + TIMEOUT);
        if Instant::now() >= by {
            bail!("no room to write for {} s", TIMEOUT.as_secs());
        }
        let stored = &mut self.stored;
        self.endpoint.poll(|completion| {
            if completion.operation == Operation::RemoteWrite {
                stored.push_back(completion.data);
            }
        })?;
        ensure!(self.stored.len() <= self.half, "messages arrived out of turn");
        Ok(())
    }
}
