// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transport over libfabric, with any provider.
//!
//! Receives are always posted: the buffer of a message is posted again at the next call, while the
//! program waits anyway. Messages that the provider can inject are injected, as in MPI libraries.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout};
use serde::{Deserialize, Serialize};

use super::open::{EndpointOpening, Opened, Requirements, buffers_for};
use super::{SessionSide, Transport};
use crate::report::Description;
use ofi_xdp_libfabric::{Completion, Endpoint, Error, Info, Name, Operation, Route, Wait};

/// The tag of every tagged message.
const TAG: u64 = 0x6f66_692d_7864_7001;
/// Longest wait for room to send, and longest sleep for a completion.
const ROOM_TIMEOUT: Duration = Duration::from_secs(20);
const SLEEP: Duration = Duration::from_millis(20);

/// The provider and its configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FabricConfig {
    /// The provider's full name: `xdp`, `tcp`, `tcp;ofi_rxm`.
    pub provider: String,
    /// Whether messages are tagged, if the provider supports it (most `FI_EP_MSG` providers do
    /// not).
    pub tagged: bool,
    /// Whether the endpoint must be a connected one.
    pub connected: bool,
    /// The way of waiting.
    pub wait: Wait,
    /// Whether small messages are injected.
    pub inject: bool,
    /// Whether the provider must make progress automatically (`FI_PROGRESS_AUTO`).
    pub auto_progress: bool,
}

/// An open endpoint without a peer.
#[derive(Debug)]
pub struct FabricPending {
    config: FabricConfig,
    opening: EndpointOpening,
    tagged: bool,
}

/// An endpoint and its peer.
#[derive(Debug)]
pub struct FabricTransport {
    endpoint: Endpoint,
    config: FabricConfig,
    to: Route,
    description: Description,
    /// Longest message to inject; `None`: inject nothing.
    inject_max: Option<usize>,
    /// Free slots of the send buffers; the last one is kept for injection.
    sends: Vec<usize>,
    inject_slot: usize,
    /// Posted receives in order, which is the order in which they match (`fi_msg(3)`); they may
    /// complete in another order.
    posted: VecDeque<usize>,
    /// By slot: the length of a message that has arrived before an earlier one.
    lengths: Vec<Option<usize>>,
    /// Messages that arrived while there was no room to send: (slot, bytes).
    arrived: VecDeque<(usize, usize)>,
    /// Receive buffers that must be posted again.
    consumed: Vec<usize>,
    done: Vec<Completion>,
    took: Duration,
}

impl Transport for FabricTransport {
    type Config = FabricConfig;
    type Pending = FabricPending;

    fn open(
        config: &FabricConfig,
        role: SessionSide,
        local: IpAddr,
        size_max: usize,
    ) -> anyhow::Result<FabricPending> {
        let FabricConfig { tagged, connected, auto_progress, .. } = *config;
        let provider = config.provider.clone();
        let requirements = Requirements {
            provider,
            tagged,
            connected,
            rma: false,
            atomic: false,
            auto_progress,
            local,
        };
        let setup = buffers_for(size_max, config.wait);
        let opening = EndpointOpening::begin(requirements, role, setup)?;
        let tagged = opening.is_tagged().unwrap_or(config.tagged);
        Ok(FabricPending { config: config.clone(), opening, tagged })
    }

    fn name(pending: &FabricPending) -> anyhow::Result<Name> {
        pending.opening.name()
    }

    fn establish(pending: FabricPending, peer: &Name) -> anyhow::Result<Self> {
        let FabricPending { config, opening, tagged } = pending;
        let Opened { info, endpoint, peer, took } = opening.finish(peer)?;
        // For a client that connects, this is known only now.
        let tagged = tagged && info.tagged();
        let to = Route { peer, tag: tagged.then_some(TAG) };
        let mut transport = Self::new(config, &info, endpoint, to, took);
        transport.post_receives()?;
        Ok(transport)
    }

    fn opening(&self) -> Duration {
        self.took
    }

    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn is_reliable(&self) -> bool {
        true
    }

    fn sleeps(&self) -> bool {
        self.config.wait != Wait::Spin
    }

    #[inline]
    fn send(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> anyhow::Result<()> {
        if self.inject_max.is_some_and(|max| len <= max) {
            let slot = self.inject_slot;
            fill(&mut self.endpoint.bytes(slot)?[..len]);
            return self.until_room(|endpoint, to| endpoint.inject(slot, len, to));
        }
        let slot = match self.sends.pop() {
            Some(slot) => slot,
            None => self.wait_slot()?,
        };
        fill(&mut self.endpoint.bytes(slot)?[..len]);
        self.until_room(|endpoint, to| endpoint.send(slot, len, to))
    }

    #[inline]
    fn poll(&mut self, mut sink: impl FnMut(&[u8])) -> anyhow::Result<usize> {
        self.post_receives()?;
        if self.arrived.is_empty() {
            self.read_completions(true)?;
        }
        let mut count = 0;
        // bound: the receive buffers
        while let Some((slot, len)) = self.arrived.pop_front() {
            let bytes = self.endpoint.bytes(slot)?;
            sink(&bytes[..len.min(bytes.len())]);
            self.consumed.push(slot);
            count += 1;
        }
        Ok(count)
    }
}

impl FabricTransport {
    fn new(
        config: FabricConfig,
        info: &Info,
        endpoint: Endpoint,
        to: Route,
        took: Duration,
    ) -> Self {
        let description = Description {
            provider: info.provider(),
            domain: info.domain(),
            endpoint: Some(info.kind()),
            wait: String::from(match config.wait {
                Wait::Spin => "spin",
                Wait::Sread => "sread",
                Wait::Fd => "fd",
            }),
            tagged: to.tag.is_some(),
        };
        let inject_size = info.inject_size();
        let receives = (endpoint.slots() / 2).min(info.receive_depth().max(1));
        Self {
            config: config.clone(),
            to,
            description,
            inject_max: (config.inject && inject_size > 0).then_some(inject_size),
            inject_slot: endpoint.slots() - 1,
            sends: (endpoint.slots() / 2..endpoint.slots() - 1).collect(),
            posted: VecDeque::with_capacity(endpoint.slots()),
            lengths: vec![None; endpoint.slots()],
            arrived: VecDeque::with_capacity(endpoint.slots()),
            consumed: (0..receives).collect(),
            done: Vec::with_capacity(endpoint.slots()),
            took,
            endpoint,
        }
    }

    /// Posts the receive buffers of consumed messages again.
    #[inline]
    fn post_receives(&mut self) -> anyhow::Result<()> {
        // bound: the receive buffers
        while let Some(&slot) = self.consumed.last() {
            match self.endpoint.receive(slot, self.to.tag) {
                Ok(()) => {
                    self.consumed.pop();
                    self.posted.push_back(slot);
                }
                Err(Error::Again) => break,
                Err(error) => return Err(error).context("cannot post a receive"),
            }
        }
        Ok(())
    }

    /// Reads completions once; sleeps first if `may_sleep` and the configuration say so.
    #[inline]
    fn read_completions(&mut self, may_sleep: bool) -> anyhow::Result<()> {
        let done = &mut self.done;
        let endpoint = &mut self.endpoint;
        match self.config.wait {
            Wait::Sread if may_sleep => endpoint.wait(SLEEP, |c| done.push(c))?,
            Wait::Fd if may_sleep => {
                if endpoint.may_sleep()? {
                    let mut fds = [PollFd::new(endpoint.wait_fd()?, PollFlags::POLLIN)];
                    nix::poll::poll(&mut fds, PollTimeout::try_from(SLEEP)?)?;
                }
                endpoint.poll(|c| done.push(c))?
            }
            _ => endpoint.poll(|c| done.push(c))?,
        };
        for completion in self.done.drain(..) {
            match completion.operation {
                Operation::Receive => self.lengths[completion.slot] = Some(completion.len),
                Operation::Send => self.sends.push(completion.slot),
                other => bail!("a completion of {other:?}, where only messages move"),
            }
        }
        // bound: the receive buffers
        while let Some(&slot) = self.posted.front() {
            let Some(len) = self.lengths[slot].take() else { break };
            self.posted.pop_front();
            self.arrived.push_back((slot, len));
        }
        Ok(())
    }

    /// Repeats `post` until the provider has room.
    #[inline]
    fn until_room(
        &mut self,
        mut post: impl FnMut(&mut Endpoint, Route) -> Result<(), Error>,
    ) -> anyhow::Result<()> {
        let mut deadline = None;
        // bound: ROOM_TIMEOUT
        loop {
            match post(&mut self.endpoint, self.to) {
                Ok(()) => return Ok(()),
                Err(Error::Again) => {
                    let by = *deadline.get_or_insert_with(|| Instant::now() + ROOM_TIMEOUT);
                    self.make_room(by)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for the completion of a send, which frees its buffer.
    #[cold]
    fn wait_slot(&mut self) -> anyhow::Result<usize> {
        let deadline = Instant::now() + ROOM_TIMEOUT;
        // bound: ROOM_TIMEOUT
        loop {
            self.make_room(deadline)?;
            if let Some(slot) = self.sends.pop() {
                return Ok(slot);
            }
        }
    }

    /// Drives progress, which makes room to send.
    #[cold]
    fn make_room(&mut self, deadline: Instant) -> anyhow::Result<()> {
        if Instant::now() >= deadline {
            bail!("no room to send for {} s", ROOM_TIMEOUT.as_secs());
        }
        self.post_receives()?;
        self.read_completions(false)
    }
}
