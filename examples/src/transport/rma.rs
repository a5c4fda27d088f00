// SPDX-License-Identifier: MIT OR Apache-2.0
//! One-sided operations of libfabric, with whatever provider: a message is a write with remote CQ
//! data into the other side's buffers, and blocks can be read from there.
//!
//! The buffers are used in turn. Who measures sends no more than half of them before it has an
//! answer, so no buffer is written again before its message was taken.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::open::{Opened, Opening, Wish, buffers_for};
use super::{Role, Transport};
use crate::fabric::{
    Completion, Endpoint, Error, Info, Name, Operation, Peer, Place, RemoteRegion, Route, Wait,
};
use crate::report::Description;

/// How long to wait for room, for an operation of our own to end, and for the peer's region.
const PATIENCE: Duration = Duration::from_secs(20);

/// Which provider.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, clap::Args)]
pub struct RmaConfig {
    /// The provider, by its full name: xdp, tcp, "tcp;`ofi_rxm`"
    #[arg(long, default_value = "xdp", value_name = "NAME")]
    pub provider: String,
}

/// Open, without a peer.
#[derive(Debug)]
pub struct RmaPending(Opening);

/// An endpoint, and the buffers of its peer.
#[derive(Debug)]
pub struct RmaTransport {
    endpoint: Endpoint,
    description: Description,
    peer: Peer,
    region: RemoteRegion,
    inject_max: usize,
    /// Buffers each way: ours to write from are the first half, the other's to write to the second.
    half: usize,
    /// The buffer for the next operation.
    next: usize,
    took: Duration,
}

impl Transport for RmaTransport {
    type Config = RmaConfig;
    type Pending = RmaPending;

    fn open(
        config: &RmaConfig,
        role: Role,
        local: IpAddr,
        size_max: usize,
    ) -> anyhow::Result<RmaPending> {
        let provider = config.provider.clone();
        let wish = Wish { provider, tagged: false, rma: true, auto_progress: false, local };
        let setup = buffers_for(size_max.max(RemoteRegion::LEN), Wait::Spin);
        Ok(RmaPending(Opening::begin(wish, role, setup)?))
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
        Ok(Self { endpoint, description, peer, region, inject_max, half, next: 0, took })
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

    fn opening(&self) -> Duration {
        self.took
    }

    #[inline]
    fn send(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> anyhow::Result<()> {
        let slot = self.take_slot()?;
        fill(&mut self.endpoint.bytes(slot)?[..len]);
        let place = self.place(slot);
        let data = (slot as u64) << 32 | len as u64;
        let inject = len <= self.inject_max;
        self.until_room(|endpoint| match inject {
            true => endpoint.inject_write_data(slot, len, place, data),
            false => endpoint.write_data(slot, len, place, data),
        })
    }

    #[inline]
    fn poll(&mut self, mut sink: impl FnMut(&[u8])) -> anyhow::Result<usize> {
        let (mut arrived, mut count) = ([0; BATCH], 0);
        self.endpoint.poll(|completion| {
            if completion.operation == Operation::RemoteWrite && count < BATCH {
                arrived[count] = completion.data;
                count += 1;
            }
        })?;
        for data in &arrived[..count] {
            let (slot, len) = ((data >> 32) as usize, (data & 0xffff_ffff) as usize);
            ensure!(slot < self.half, "remote CQ data {data:#x} names no buffer");
            let bytes = self.endpoint.bytes(self.half + slot)?;
            sink(&bytes[..len.min(bytes.len())]);
        }
        Ok(count)
    }

    fn read(&mut self, len: usize, count: u32) -> anyhow::Result<()> {
        let mut posted = 0;
        let mut ended = 0;
        let deadline = Instant::now() + PATIENCE;
        // bound: PATIENCE
        while ended < count {
            while posted < count && self.endpoint.is_free(self.next) {
                let slot = self.next;
                match self.endpoint.read(slot, len, self.place(slot)) {
                    Ok(()) => {}
                    Err(Error::Again) => break,
                    Err(error) => return Err(error).context("cannot post a read"),
                }
                posted += 1;
                self.next = (slot + 1) % self.half;
            }
            let read = |completion: &Completion| completion.operation == Operation::Read;
            self.endpoint.poll(|completion| ended += u32::from(read(&completion)))?;
            ensure!(posted < count || ended < count || Instant::now() < deadline, "reads hang");
        }
        Ok(())
    }
}

/// Most completions of one poll.
const BATCH: usize = 64;

/// Tells the peer where our buffers are, by messages, and is told where its are.
fn exchange(endpoint: &mut Endpoint, info: &Info, peer: Peer) -> anyhow::Result<RemoteRegion> {
    const INCOMING: usize = 0;
    const OUTGOING: usize = 1;
    let deadline = Instant::now() + PATIENCE;
    endpoint.receive(INCOMING, None)?;
    let ours = endpoint.region(info)?.to_bytes();
    endpoint.bytes(OUTGOING)?[..ours.len()].copy_from_slice(&ours);
    let to = Route { peer, tag: None };
    let (mut posted, mut received, mut sent) = (false, false, false);
    // bound: PATIENCE
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
    /// The next buffer to write from, once the operation that has it has ended.
    #[inline]
    fn take_slot(&mut self) -> anyhow::Result<usize> {
        let slot = self.next;
        self.next = (slot + 1) % self.half;
        let mut deadline = None;
        // bound: PATIENCE
        while !self.endpoint.is_free(slot) {
            self.make_room(&mut deadline)?;
        }
        Ok(slot)
    }

    /// The peer's buffer that belongs to `slot` of ours.
    #[inline]
    fn place(&self, slot: usize) -> Place {
        Place { peer: self.peer, region: self.region, slot: self.half + slot }
    }

    /// Repeats `post` until the provider has room.
    #[inline]
    fn until_room(
        &mut self,
        mut post: impl FnMut(&mut Endpoint) -> Result<(), Error>,
    ) -> anyhow::Result<()> {
        let mut deadline = None;
        // bound: PATIENCE
        loop {
            match post(&mut self.endpoint) {
                Ok(()) => return Ok(()),
                Err(Error::Again) => self.make_room(&mut deadline)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Drives progress, for room. What arrives meanwhile would be an answer out of turn.
    #[cold]
    fn make_room(&mut self, deadline: &mut Option<Instant>) -> anyhow::Result<()> {
        let by = *deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
        if Instant::now() >= by {
            bail!("no room to write for {} s", PATIENCE.as_secs());
        }
        let mut early = false;
        self.endpoint.poll(|completion| early |= completion.operation == Operation::RemoteWrite)?;
        ensure!(!early, "a message arrived out of turn");
        Ok(())
    }
}
