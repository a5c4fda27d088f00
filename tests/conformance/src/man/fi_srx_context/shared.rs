// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints that share a receive context, for the tests of the page.
//!
//! In: the offers of the provider. Out: completions of the endpoints. Bound: the time-out of
//! an event.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::abi::{self, FI_ADDR_UNSPEC};
use crate::fi::{Completion, Context, Cq, CqError, Ep, Errno, Event, Fid, Info, Mem, Message};
use crate::group::{Group, NAME_ROOM, cq_attr};
use crate::world::{NO_EVENT_TIME, Setup, World, not_offered, optional};

pub(super) const CAPS: u64 = abi::FI_MSG | abi::FI_TAGGED;

/// Endpoints that share a receive context, at the second node; the first sends to them.
pub(super) struct Shared {
    pub(super) group: Group,
    pub(super) info: Info,
    pub(super) srx: Ep,
    pub(super) cq: Cq,
    pub(super) eps: Vec<Ep>,
    /// Their addresses at the first node.
    pub(super) to: Vec<u64>,
    pub(super) inbox: VecDeque<Event>,
}

/// The offer for a receiving endpoint.
fn shared_info(info: &Info) -> Info {
    let info = info.dup();
    info.set_ep(|ep| ep.rx_ctx_cnt = usize::MAX);
    info
}

impl Shared {
    pub(super) fn open(world: &World, caps: u64, count: usize) -> Result<Self> {
        Self::with(world, &Setup::caps(caps), count, |_| {})
    }

    pub(super) fn with(
        world: &World,
        setup: &Setup,
        count: usize,
        change: impl FnOnce(&Info),
    ) -> Result<Self> {
        let group = world.group(setup)?;
        if group.info.domain().max_ep_srx_ctx == 0 {
            return not_offered("max_ep_srx_ctx is 0");
        }
        let info = shared_info(&group.info);
        change(&info);
        let srx = optional(group.b().domain.srx(&info), "fi_srx_context")?;
        let cq = group.b().domain.cq(&mut cq_attr(setup), Context::null())?;
        let (eps, to, inbox) = (Vec::new(), Vec::new(), VecDeque::new());
        let mut shared = Self { group, info, srx, cq, eps, to, inbox };
        for _ in 0..count {
            let flags = abi::FI_TRANSMIT | abi::FI_RECV | setup.bind;
            let ep = shared.unbound()?;
            ep.bind(&shared.cq, flags)?;
            shared.enable(ep)?;
        }
        Ok(shared)
    }

    /// An endpoint with everything but a queue.
    pub(super) fn unbound(&self) -> Result<Ep> {
        let ep = self.group.b().endpoint(&self.info)?;
        ep.bind(&self.group.b().av, 0)?;
        ep.bind(&self.srx, 0)?;
        Ok(ep)
    }

    pub(super) fn enable(&mut self, ep: Ep) -> Result<()> {
        ep.enable()?;
        self.to.push(self.group.a().av.insert(&ep.getname(NAME_ROOM).0?)?);
        self.eps.push(ep);
        Ok(())
    }

    pub(super) fn close_endpoint(&mut self, which: usize) -> Result<()> {
        self.to.remove(which);
        Ok(self.eps.remove(which).close()?)
    }

    pub(super) fn recv(&self, mem: Mem, context: Context) -> Result<()> {
        self.group.post(|| self.srx.recv(mem, FI_ADDR_UNSPEC, context))
    }

    pub(super) fn trecv(&self, mem: Mem, tag: u64, context: Context) -> Result<()> {
        self.group.post(|| self.srx.trecv(mem, FI_ADDR_UNSPEC, tag, 0, context))
    }

    /// Posts a multi-receive buffer, which ends when fewer than `least` bytes are left.
    pub(super) fn recv_many(&self, mem: Mem, least: usize, context: Context) -> Result<()> {
        let (level, name) = (abi::FI_OPT_ENDPOINT, abi::FI_OPT_MIN_MULTI_RECV);
        self.srx.setopt(level, name, &least.to_ne_bytes())?;
        let message = Message::new(mem, FI_ADDR_UNSPEC, context);
        match self.srx.recvmsg(&message, abi::FI_MULTI_RECV) {
            Err(Errno(abi::FI_ENOSYS | abi::FI_EINVAL | abi::FI_EBADFLAGS)) => {
                not_offered("FI_MULTI_RECV of a shared context")
            }
            posted => Ok(posted?),
        }
    }

    /// Checks that the next event releases the buffer of `context` without a message.
    pub(super) fn given_back(&mut self, context: Context) -> Result<()> {
        let (owner, flags) = match self.event()? {
            Event::Done(done) => (done.context, done.flags),
            Event::Failed(error) => {
                ensure!(error.err.0 == abi::FI_ECANCELED, "{error:?}");
                (error.context, error.flags)
            }
        };
        ensure!(owner == context.ptr() && flags & abi::FI_MULTI_RECV != 0, "{flags:#x}");
        Ok(())
    }

    /// Sends to one of the endpoints and waits for the send.
    pub(super) fn send(&self, mem: Mem, to: usize) -> Result<()> {
        let context = Context::new();
        self.group.post(|| self.group.a().ep.send(mem, self.to[to], context))?;
        self.sent(context)
    }

    pub(super) fn tsend(&self, mem: Mem, to: usize, tag: u64) -> Result<()> {
        let context = Context::new();
        self.group.post(|| self.group.a().ep.tsend(mem, self.to[to], tag, context))?;
        self.sent(context)
    }

    /// Waits for a send; the receivers make progress meanwhile.
    pub(super) fn sent(&self, context: Context) -> Result<()> {
        self.group.done(self.group.a(), context).map(drop)
    }

    pub(super) fn event(&mut self) -> Result<Event> {
        if let Some(event) = self.inbox.pop_front() {
            return Ok(event);
        }
        next(&self.group, &self.cq)
    }

    pub(super) fn next(&mut self) -> Result<Completion> {
        match self.event()? {
            Event::Done(completion) => Ok(completion),
            Event::Failed(error) => bail!("a completion was expected, not {error:?}"),
        }
    }

    pub(super) fn error(&mut self) -> Result<CqError> {
        match self.event()? {
            Event::Failed(error) => Ok(error),
            Event::Done(completion) => bail!("an error was expected, not {completion:?}"),
        }
    }

    /// The next completion, which must be of `context`.
    pub(super) fn done(&mut self, context: Context) -> Result<Completion> {
        let completion = self.next()?;
        ensure!(completion.context == context.ptr(), "another context: {completion:?}");
        Ok(completion)
    }

    /// Makes progress for a while, so that sent messages arrive.
    pub(super) fn progress_a_while(&mut self) -> Result<()> {
        let end = Instant::now() + NO_EVENT_TIME;
        while Instant::now() < end {
            self.group.step()?;
            match self.cq.event() {
                Ok(event) => self.inbox.push_back(event),
                Err(Errno(abi::FI_EAGAIN)) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Checks that no event arrives for some time.
    pub(super) fn expect_no_event(&mut self) -> Result<()> {
        self.progress_a_while()?;
        ensure!(self.inbox.is_empty(), "nothing was expected, not {:?}", self.inbox);
        Ok(())
    }

    pub(super) fn close(self) -> Result<()> {
        self.eps.iter().try_for_each(Fid::close).context("endpoints")?;
        self.srx.close().context("the context")?;
        self.cq.close().context("the queue")?;
        self.group.close()
    }
}

/// The next event of a queue that the group does not read.
pub(super) fn next(group: &Group, cq: &Cq) -> Result<Event> {
    group.until("a completion of a shared receive", || match cq.event() {
        Ok(event) => Ok(Some(event)),
        Err(Errno(abi::FI_EAGAIN)) => Ok(None),
        Err(errno) => Err(errno.into()),
    })
}
