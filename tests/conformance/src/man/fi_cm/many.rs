// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many connections between the same two domains, with one completion queue on each side, or more.

use anyhow::{Context as _, Result, ensure};

use crate::abi;
use crate::connected::{Listener, event, nothing_more, offer, queue, until};
use crate::fi::{Completion, Context, Cq, Domain, Ep, Eq, Errno, Fabric, Fid as _, Info, Mem};
use crate::group::cq_attr;
use crate::world::{Setup, World, refused};

const COUNT: usize = 12;
const LEN: usize = 100;

/// A domain, its queues, and its endpoints, which take the queues in turn.
struct Host {
    domain: Domain,
    cqs: Vec<Cq>,
    endpoints: Vec<Ep>,
}

impl Host {
    fn open(fabric: &Fabric, info: &Info, queues: usize) -> Result<Self> {
        let domain = fabric.domain(info, Context::null()).context("fi_domain")?;
        let cq = |_| domain.cq(&mut cq_attr(&Setup::default()), Context::null());
        let cqs = (0..queues).map(cq).collect::<Result<_, _>>().context("fi_cq_open")?;
        Ok(Self { domain, cqs, endpoints: Vec::new() })
    }

    /// The queue of an endpoint.
    fn cq(&self, endpoint: usize) -> &Cq {
        &self.cqs[endpoint % self.cqs.len()]
    }

    fn endpoint(&mut self, eq: &Eq, info: &Info) -> Result<&Ep> {
        let ep = self.domain.endpoint(info, Context::null()).context("fi_endpoint")?;
        ep.bind(self.cq(self.endpoints.len()), abi::FI_TRANSMIT | abi::FI_RECV)
            .context("fi_ep_bind of the queue")?;
        ep.bind(eq, 0).context("fi_ep_bind of the event queue")?;
        ep.enable().context("fi_enable")?;
        self.endpoints.push(ep);
        self.endpoints.last().context("it was pushed")
    }

    /// The next completion of the queue of `endpoint`. Progress of `other`'s first queue, too.
    fn completion(&self, endpoint: usize, other: &Self) -> Result<Completion> {
        until("completion", || {
            let _ = other.cq(0).progress();
            match self.cq(endpoint).read(1) {
                Ok(mut found) => Ok(found.pop()),
                Err(Errno(abi::FI_EAGAIN)) => Ok(None),
                Err(errno) => Err(errno).context("fi_cq_read"),
            }
        })
    }

    /// No queue has a completion.
    fn nothing_to_read(&self) -> Result<()> {
        self.cqs.iter().try_for_each(|cq| refused(cq.read(1), &[abi::FI_EAGAIN], "fi_cq_read"))
    }

    fn close(self) -> Result<()> {
        self.endpoints.iter().try_for_each(|ep| ep.close().context("fi_close of an endpoint"))?;
        self.cqs.iter().try_for_each(|cq| cq.close().context("fi_close of a completion queue"))?;
        self.domain.close().context("fi_close of a domain")
    }
}

/// Two hosts with connections between them.
struct Hosts {
    listener: Listener,
    fabric: Fabric,
    eq: Eq,
    active: Host,
    passive: Host,
}

impl Hosts {
    /// Opens a connection for each of `received`. The passive side receives into it, and then into
    /// another buffer.
    fn connected(world: &World, received: &[(Mem, Context)], queues: usize) -> Result<Self> {
        let listener = Listener::open(world)?;
        let (name, info) = (listener.name()?, offer(world)?);
        let fabric = Fabric::open(&info, Context::null()).context("fi_fabric")?;
        let eq = queue(&fabric)?;
        let mut active = Host::open(&fabric, &info, queues)?;
        let mut passive: Option<Host> = None;
        for (into, context) in received {
            active.endpoint(&eq, &info)?.connect(&name).context("fi_connect")?;
            let request = event(&listener.eq, abi::FI_CONNREQ, &[])?.info.context("no info")?;
            let host = match &mut passive {
                Some(host) => host,
                none => none.insert(Host::open(&listener.fabric, &request, queues)?),
            };
            let ep = host.endpoint(&listener.eq, &request)?;
            ep.recv(*into, abi::FI_ADDR_UNSPEC, *context).context("fi_recv")?;
            ep.recv(Mem::zeroed(8), abi::FI_ADDR_UNSPEC, Context::null()).context("fi_recv")?;
            ep.accept().context("fi_accept")?;
            let fid = ep.fid();
            let queues: Vec<&Cq> = active.cqs.iter().chain(&host.cqs).collect();
            let connected = event(&eq, abi::FI_CONNECTED, &queues)?;
            let asked = active.endpoints.last().map(|ep| ep.fid());
            ensure!(Some(connected.fid) == asked, "another one");
            ensure!(event(&listener.eq, abi::FI_CONNECTED, &queues)?.fid == fid, "another one");
        }
        let passive = passive.context("no connection")?;
        Ok(Self { listener, fabric, eq, active, passive })
    }

    fn close(self) -> Result<()> {
        self.active.close()?;
        self.passive.close()?;
        self.eq.close().context("fi_close of an event queue")?;
        self.fabric.close().context("fi_close of a fabric")?;
        self.listener.close()
    }
}

/// Buffers for that many messages, and the contexts of their receives.
fn buffers(count: usize) -> Vec<(Mem, Context)> {
    (0..count).map(|_| (Mem::zeroed(LEN), Context::new())).collect()
}

/// `fi_cq(3)`: messages that have come are read before the end of another connection. The
/// receives of that one are cancelled.
pub(super) fn messages_are_read_before_the_end_of_another_connection(world: &World) -> Result<()> {
    let received = buffers(COUNT);
    let hosts = Hosts::connected(world, &received, 1)?;
    let Hosts { listener, active, passive, .. } = &hosts;
    for ep in &active.endpoints {
        ep.send(Mem::pattern(LEN, 1), 0, Context::null()).context("fi_send")?;
        // It has arrived. The queue of the other side is not read.
        until("completion", || match active.cq(0).read(1) {
            Err(Errno(abi::FI_EAGAIN)) => Ok(None),
            found => Ok(Some(found.context("fi_cq_read")?)),
        })?;
    }
    active.endpoints[0].shutdown().context("fi_shutdown")?;
    event(&listener.eq, abi::FI_SHUTDOWN, &[active.cq(0)])?;
    for _ in 0..COUNT {
        passive.completion(0, active)?;
    }
    refused(passive.cq(0).read(1), &[abi::FI_EAVAIL], "fi_cq_read before fi_cq_readerr")?;
    ensure!(passive.cq(0).readerr(0)?.err == Errno(abi::FI_ECANCELED), "another error");
    refused(passive.cq(0).read(1), &[abi::FI_EAGAIN], "fi_cq_read after all")?;
    hosts.close()
}

/// `fi_endpoint(3)`: each connection has its own receives, events and end, also where all complete
/// at one queue. `fi_close` discards what is outstanding, without a completion.
pub(super) fn connections_with_one_queue_are_apart(world: &World) -> Result<()> {
    let received = buffers(COUNT);
    let mut hosts = Hosts::connected(world, &received, 1)?;
    let Hosts { listener, eq, active, passive, .. } = &mut hosts;
    for (number, ep) in active.endpoints.iter().enumerate().rev() {
        ep.send(Mem::pattern(LEN, number as u8), 0, Context::null()).context("fi_send")?;
    }
    for _ in 0..COUNT {
        let found = passive.completion(0, active)?;
        let number = received.iter().position(|(_, context)| context.ptr() == found.context);
        let number = number.context("an unknown context")?;
        let same = received[number].0.bytes() == Mem::pattern(LEN, number as u8).bytes();
        ensure!(same, "the message of another connection");
        active.completion(0, passive)?;
    }
    // One ends. Its receive is discarded, and the others stay.
    const CLOSED: usize = 3;
    passive.endpoints.remove(CLOSED).close().context("fi_close")?;
    let ended = event(eq, abi::FI_SHUTDOWN, &[active.cq(0), passive.cq(0)])?;
    ensure!(ended.fid == active.endpoints[CLOSED].fid(), "another connection has ended");
    nothing_more(&listener.eq)?;
    for (number, ep) in active.endpoints.iter().enumerate().filter(|(at, _)| *at != CLOSED) {
        ep.send(Mem::zeroed(8), 0, Context::null()).context("fi_send")?;
        ensure!(passive.completion(0, active)?.len == 8, "connection {number}");
        active.completion(0, passive)?;
    }
    nothing_more(eq)?;
    hosts.close()
}

/// `fi_endpoint(3)`: completions go to the queue that the endpoint is bound to, also where
/// connections share a port. The last of a queue's endpoints closes, and others stay.
pub(super) fn connections_with_several_queues_are_apart(world: &World) -> Result<()> {
    const QUEUES: usize = 3;
    let received = buffers(COUNT);
    let mut hosts = Hosts::connected(world, &received, QUEUES)?;
    let Hosts { listener, eq, active, passive, .. } = &mut hosts;
    let name = |ep: &Ep| ep.getname(64).0.context("fi_getname");
    let mut ports = passive.endpoints.iter().map(name).collect::<Result<Vec<_>>>()?;
    ports.sort_unstable();
    ports.dedup();
    ensure!(ports.len() < COUNT / 2, "{} ports for {COUNT} connections", ports.len());
    for (number, ep) in active.endpoints.iter().enumerate().rev() {
        ep.send(Mem::pattern(LEN, number as u8), 0, Context::null()).context("fi_send")?;
        // It completes at another queue than the one that is read until it has come.
        active.completion(number, passive)?;
    }
    // Connections of different ports have no common order.
    for queue in 0..QUEUES {
        let of_queue = received.iter().enumerate().skip(queue).step_by(QUEUES);
        let mut expected: Vec<_> = of_queue.collect();
        while !expected.is_empty() {
            let found = passive.completion(queue, active)?;
            let at = expected.iter().position(|(_, (_, context))| context.ptr() == found.context);
            let (number, (into, _)) = expected.swap_remove(at.context("of another queue")?);
            let same = into.bytes() == Mem::pattern(LEN, number as u8).bytes();
            ensure!(same, "the message of another connection");
        }
    }
    active.nothing_to_read()?;
    passive.nothing_to_read()?;
    for number in (0..COUNT).rev().filter(|number| number % QUEUES == 1) {
        passive.endpoints.remove(number).close().context("fi_close")?;
        let ended = event(eq, abi::FI_SHUTDOWN, &[active.cq(0)])?;
        ensure!(ended.fid == active.endpoints[number].fid(), "another connection has ended");
    }
    nothing_more(&listener.eq)?;
    for number in (0..COUNT).filter(|number| number % QUEUES != 1) {
        active.endpoints[number].send(Mem::zeroed(8), 0, Context::null()).context("fi_send")?;
        ensure!(passive.completion(number, active)?.len == 8, "connection {number}");
        active.completion(number, passive)?;
    }
    hosts.close()
}
