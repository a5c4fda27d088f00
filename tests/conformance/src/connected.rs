// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connected endpoints for tests: a passive endpoint, one side, and both sides of a connection.
//!
//! In: the offers of the provider. Out: objects, events and completions. Called by tests of
//! `fi_cm(3)`, and by peers. Bound: the time-out of an event.

use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::abi;
use crate::fi::{
    CmEvent, Completion, Context, Cq, Domain, Ep, Eq, EqError, Errno, Fabric, Fid as _, Info, Pep,
};
use crate::group::{cq_attr, eq_attr};
use crate::world::{EVENT_TIMEOUT, NO_EVENT_TIME, Setup, World, not_offered, refused};

/// Most bytes of data that a test sends.
pub(crate) const DATA: usize = 1024;

/// A passive endpoint that listens, and its queue.
pub(crate) struct Listener {
    pub(crate) info: Info,
    pub(crate) fabric: Fabric,
    pub(crate) eq: Eq,
    pub(crate) pep: Pep,
}

/// A connected endpoint and its objects.
pub(crate) struct Side {
    pub(crate) info: Info,
    pub(crate) domain: Domain,
    pub(crate) cq: Cq,
    pub(crate) ep: Ep,
}

/// Both ends of a connection.
pub(crate) struct Pair {
    pub(crate) listener: Listener,
    pub(crate) fabric: Fabric,
    pub(crate) eq: Eq,
    /// The side that has asked.
    pub(crate) active: Side,
    /// The side that has accepted.
    pub(crate) passive: Side,
}

pub(crate) fn hints(world: &World, caps: u64) -> Info {
    let setup = Setup { caps: abi::FI_MSG | abi::FI_RMA | caps, ..Setup::default() };
    let hints = world.hints(&setup);
    hints.set_ep(|ep| ep.type_ = abi::FI_EP_MSG);
    hints
}

/// The first offer of a connected endpoint at the node under test.
pub(crate) fn offer(world: &World) -> Result<Info> {
    offer_with(world, 0)
}

/// The first offer of a connected endpoint with further capabilities.
pub(crate) fn offer_with(world: &World, caps: u64) -> Result<Info> {
    match world.offers(abi::VERSION, &hints(world, caps)) {
        Ok(mut offers) if !offers.is_empty() => Ok(offers.remove(0)),
        Ok(_) => bail!("an empty list"),
        Err(Errno(abi::FI_ENODATA)) => not_offered("FI_EP_MSG"),
        Err(errno) => Err(errno).context("fi_getinfo"),
    }
}

pub(crate) fn queue(fabric: &Fabric) -> Result<Eq> {
    fabric.eq(&mut eq_attr(abi::FI_WAIT_FD), Context::null()).context("fi_eq_open")
}

impl Listener {
    /// Opened, bound to a queue, not listening.
    pub(crate) fn silent(world: &World) -> Result<Self> {
        Self::silent_with(world, 0)
    }

    pub(crate) fn silent_with(world: &World, caps: u64) -> Result<Self> {
        let info = offer_with(world, caps)?;
        let fabric = Fabric::open(&info, Context::null()).context("fi_fabric")?;
        let eq = queue(&fabric)?;
        let pep = fabric.passive_ep(&info).context("fi_passive_ep")?;
        pep.bind(&eq, 0).context("fi_pep_bind")?;
        Ok(Self { info, fabric, eq, pep })
    }

    pub(crate) fn open(world: &World) -> Result<Self> {
        let listener = Self::silent(world)?;
        listener.pep.listen().context("fi_listen")?;
        Ok(listener)
    }

    pub(crate) fn name(&self) -> Result<Vec<u8>> {
        self.pep.getname(64).context("fi_getname of a passive endpoint")
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.pep.close().context("fi_close of a passive endpoint")?;
        self.eq.close().context("fi_close of an event queue")?;
        self.fabric.close().context("fi_close of a fabric")
    }
}

impl Side {
    /// An endpoint that is bound and not enabled.
    pub(crate) fn open(fabric: &Fabric, eq: &Eq, info: Info) -> Result<Self> {
        let domain = fabric.domain(&info, Context::null()).context("fi_domain")?;
        let cq =
            domain.cq(&mut cq_attr(&Setup::default()), Context::null()).context("fi_cq_open")?;
        let ep = domain.endpoint(&info, Context::null()).context("fi_endpoint")?;
        ep.bind(&cq, abi::FI_TRANSMIT | abi::FI_RECV).context("fi_ep_bind of the queue")?;
        ep.bind(eq, 0).context("fi_ep_bind of the event queue")?;
        Ok(Self { info, domain, cq, ep })
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.ep.close().context("fi_close of an endpoint")?;
        self.cq.close().context("fi_close of a completion queue")?;
        self.domain.close().context("fi_close of a domain")
    }
}

/// Repeats `attempt` until it has a value.
pub(crate) fn until<T>(what: &str, mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + EVENT_TIMEOUT;
    loop {
        if let Some(found) = attempt()? {
            return Ok(found);
        }
        ensure!(Instant::now() < end, "no {what}");
        std::thread::yield_now();
    }
}

/// The next event, of the kind `event`. Reads the queues `progress` in between.
pub(crate) fn event(eq: &Eq, event: u32, progress: &[&Cq]) -> Result<CmEvent> {
    let found = until(&format!("event {event}"), || {
        for cq in progress {
            cq.progress().map(drop).or_else(ignore_empty)?;
        }
        match eq.read_cm(DATA) {
            Ok(found) => Ok(Some(found)),
            Err(Errno(abi::FI_EAGAIN)) => Ok(None),
            Err(Errno(abi::FI_EAVAIL)) => bail!("event {event}: {:?}", eq.readerr()),
            Err(errno) => Err(errno).context("fi_eq_read"),
        }
    })?;
    ensure!(found.event == event, "event {}, not {event}", found.event);
    Ok(found)
}

/// The next event, which is an error.
pub(crate) fn error(eq: &Eq) -> Result<EqError> {
    until("error event", || match eq.read_cm(DATA) {
        Err(Errno(abi::FI_EAVAIL)) => Ok(Some(eq.readerr().context("fi_eq_readerr")?)),
        Err(Errno(abi::FI_EAGAIN)) => Ok(None),
        answer => bail!("{answer:?} in place of an error"),
    })
}

pub(crate) fn ignore_empty(errno: Errno) -> Result<()> {
    match errno {
        Errno(abi::FI_EAGAIN | abi::FI_EAVAIL) => Ok(()),
        errno => Err(errno.into()),
    }
}

/// Waits for a short time, in which no event may come.
pub(crate) fn nothing_more(eq: &Eq) -> Result<()> {
    let end = Instant::now() + NO_EVENT_TIME;
    while Instant::now() < end {
        refused(eq.read_cm(DATA), &[abi::FI_EAGAIN], "an event queue without events")?;
        std::thread::yield_now();
    }
    Ok(())
}

impl Pair {
    /// The two sides, before the first event of a connection.
    pub(crate) fn asked(world: &World, data: &[u8]) -> Result<(Listener, Fabric, Eq, Side)> {
        Self::asked_with(world, 0, data)
    }

    pub(crate) fn asked_with(
        world: &World,
        caps: u64,
        data: &[u8],
    ) -> Result<(Listener, Fabric, Eq, Side)> {
        let listener = Listener::silent_with(world, caps)?;
        listener.pep.listen().context("fi_listen")?;
        let (fabric, eq, active) = Self::ask(world, &listener.name()?, caps, data)?;
        Ok((listener, fabric, eq, active))
    }

    /// A new endpoint that asks the passive endpoint with this `name`.
    pub(crate) fn ask(
        world: &World,
        name: &[u8],
        caps: u64,
        data: &[u8],
    ) -> Result<(Fabric, Eq, Side)> {
        let info = offer_with(world, caps)?;
        let fabric = Fabric::open(&info, Context::null()).context("fi_fabric")?;
        let eq = queue(&fabric)?;
        let active = Side::open(&fabric, &eq, info)?;
        active.ep.enable().context("fi_enable")?;
        active.ep.connect_with(name, data).context("fi_connect")?;
        Ok((fabric, eq, active))
    }

    pub(crate) fn open(world: &World) -> Result<Self> {
        Self::with(world, |_| Ok(()))
    }

    /// A connection; the accepting endpoint is prepared before it accepts.
    pub(crate) fn with(world: &World, prepare: impl FnOnce(&Ep) -> Result<()>) -> Result<Self> {
        Self::of(world, 0, prepare)
    }

    /// A connection with further capabilities.
    pub(crate) fn of(
        world: &World,
        caps: u64,
        prepare: impl FnOnce(&Ep) -> Result<()>,
    ) -> Result<Self> {
        let (listener, fabric, eq, active) = Self::asked_with(world, caps, &[])?;
        let request = event(&listener.eq, abi::FI_CONNREQ, &[])?;
        let info = request.info.context("a request without fi_info")?;
        let passive = Side::open(&listener.fabric, &listener.eq, info)?;
        passive.ep.enable().context("fi_enable")?;
        prepare(&passive.ep)?;
        passive.ep.accept().context("fi_accept")?;
        let queues = [&active.cq, &passive.cq];
        event(&eq, abi::FI_CONNECTED, &queues)?;
        event(&listener.eq, abi::FI_CONNECTED, &queues)?;
        Ok(Self { listener, fabric, eq, active, passive })
    }

    /// The next completion of `side`. Reads both queues.
    pub(crate) fn completion(&self, side: &Side) -> Result<Completion> {
        let other = if std::ptr::eq(side, &self.active) { &self.passive } else { &self.active };
        until("completion", || {
            other.cq.progress().map(drop).or_else(ignore_empty)?;
            match side.cq.read(1) {
                Ok(mut found) => Ok(found.pop()),
                Err(Errno(abi::FI_EAGAIN)) => Ok(None),
                Err(Errno(abi::FI_EAVAIL)) => bail!("{:?}", side.cq.readerr(0)),
                Err(errno) => Err(errno).context("fi_cq_read"),
            }
        })
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.active.close()?;
        self.passive.close()?;
        self.eq.close().context("fi_close of an event queue")?;
        self.fabric.close().context("fi_close of a fabric")?;
        self.listener.close()
    }
}
